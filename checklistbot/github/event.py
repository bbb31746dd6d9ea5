"""What the Action does on a GitHub event: environment and event file in, a frozen decision out (CONTRACTS, "Events").

Pure functions: nothing is read, asked or written here. Everything in the payload was typed by somebody, so object ids,
names and numbers are taken only in the form that GitHub gives them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from checklistbot.lazy import pattern
from checklistbot.model import UsageError

Plan = Literal["full", "checks", "nothing", "refused"]
"""``full``: checks, checklist and comment. ``checks``: checks and summary, no comment, no LLM."""

_OBJECT_ID: Final = pattern(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_REPOSITORY: Final = pattern(r"[A-Za-z0-9-]{1,100}/[A-Za-z0-9_.-]{1,100}")

#: Actions of ``pull_request`` on which the whole review runs; ``edited`` joins them when the base branch changed.
_FULL_ACTIONS: Final = frozenset({"opened", "synchronize", "reopened", "ready_for_review", "converted_to_draft"})
#: Actions that can only matter to overrides, which this version does not have.
_OVERRIDE_ACTIONS: Final = frozenset({"edited", "labeled", "unlabeled"})


@dataclass(frozen=True, slots=True)
class Event:
    """One event and what is to be done. ``base`` (the tip of the base branch) and ``head`` are full object ids.

    ``base`` is None where the event names none (a first push, a schedule). ``why`` is one line, set for ``nothing`` and
    ``refused``.
    """

    name: str
    plan: Plan
    action: str = ""
    repository: str = ""
    base: str | None = None
    head: str | None = None
    pull_request: int | None = None
    fork: bool = False
    draft: bool = False
    why: str = ""

    @property
    def comment(self) -> bool:
        """True if a comment belongs to this event; whether the token may write it is GitHub's to say."""
        return self.plan == "full" and self.pull_request is not None

    @property
    def llm(self) -> bool:
        """True if an LLM may be asked: on pull requests of this repository only, forks get the built-in checklist."""
        return self.plan == "full" and not self.fork


def read_event(environment: Mapping[str, str], payload: Mapping[str, Any]) -> Event:
    """What to do on the event that ``environment`` (GITHUB_EVENT_NAME, _REPOSITORY, _SHA) and ``payload`` describe.

    Raises:
        UsageError: the event file lacks what GitHub always sends, or holds it in another form.
    """
    name = environment.get("GITHUB_EVENT_NAME", "")
    repository = environment.get("GITHUB_REPOSITORY", "")
    if not _REPOSITORY.fullmatch(repository):
        raise UsageError("GITHUB_REPOSITORY: expected OWNER/NAME; the Action runs inside a GitHub workflow only")
    if name == "pull_request":
        return _pull_request(repository, payload)
    if name == "merge_group":
        group = _mapping(payload, "merge_group")
        return _checks(name, repository, _object_id(group, "base_sha"), _object_id(group, "head_sha"))
    if name == "push":
        return _push(repository, payload)
    if name in ("workflow_dispatch", "schedule"):
        return _checks(name, repository, None, _object_id(environment, "GITHUB_SHA"))
    if name == "issue_comment":
        return Event(name, "nothing", repository=repository, why="a comment was written; this version reads no ticks")
    return Event(name, "refused", repository=repository, why=_refusal(name))


def _refusal(name: str) -> str:
    if name == "pull_request_target":
        return "on: pull_request_target is refused, it hands secrets to a stranger's changes; use on: pull_request"
    supported = "pull_request, merge_group, push, workflow_dispatch or schedule"
    return f"on: {name or '(nothing)'} is not supported; use {supported}"


def _pull_request(repository: str, payload: Mapping[str, Any]) -> Event:
    action = str(payload.get("action", ""))
    pull = _mapping(payload, "pull_request")
    base, head = _mapping(pull, "base"), _mapping(pull, "head")
    event = Event(
        name="pull_request",
        plan="full",
        action=action,
        repository=repository,
        base=_object_id(base, "sha"),
        head=_object_id(head, "sha"),
        pull_request=_number(pull),
        fork=_repository_id(base) is None or _repository_id(base) != _repository_id(head),
        draft=pull.get("draft") is True,
    )
    changes = payload.get("changes")
    retargeted = action == "edited" and isinstance(changes, Mapping) and "base" in changes
    if action in _FULL_ACTIONS or retargeted:
        return event
    if action == "closed":
        return _nothing(event, "the pull request is closed")
    if action in _OVERRIDE_ACTIONS:
        return _nothing(event, f"{action}: neither commits nor the base branch changed")
    return _nothing(event, "an action of pull_request that changes no commit")


def _push(repository: str, payload: Mapping[str, Any]) -> Event:
    after, before = _object_id(payload, "after"), _object_id(payload, "before")
    if set(after) == {"0"}:
        return Event("push", "nothing", repository=repository, why="the branch was deleted")
    return _checks("push", repository, None if set(before) == {"0"} else before, after)


def _checks(name: str, repository: str, base: str | None, head: str) -> Event:
    return Event(name, "checks", repository=repository, base=base, head=head)


def _nothing(event: Event, why: str) -> Event:
    return Event(event.name, "nothing", event.action, event.repository, pull_request=event.pull_request, why=why)


def _mapping(data: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = data.get(key)
    if not isinstance(value, Mapping):
        raise UsageError(f"event file: {key} is missing; is GITHUB_EVENT_PATH GitHub's own file?")
    return value


def _object_id(data: Mapping[str, Any], key: str) -> str:
    value = data.get(key)
    if not isinstance(value, str) or not _OBJECT_ID.fullmatch(value):
        raise UsageError(f"event file: {key} is no commit id; is GITHUB_EVENT_PATH GitHub's own file?")
    return value


def _number(pull: Mapping[str, Any]) -> int:
    value = pull.get("number")
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise UsageError("event file: pull_request.number is no number; is GITHUB_EVENT_PATH GitHub's own file?")
    return value


def _repository_id(side: Mapping[str, Any]) -> int | None:
    """The repository's id: a name can be taken over by somebody else. None for a deleted fork."""
    repository = side.get("repo")
    value = repository.get("id") if isinstance(repository, Mapping) else None
    return value if isinstance(value, int) else None
