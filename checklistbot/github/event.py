"""What the Action does on a GitHub event: environment and event file in, a frozen decision out (CONTRACTS, "Events").

Pure functions: nothing is read, asked or written here. Everything in the payload was typed by somebody, so object ids,
names and numbers are taken only in the form that GitHub gives them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, Literal

from checklistbot.lazy import pattern
from checklistbot.model import UsageError
from checklistbot.record import record

Plan = Literal["full", "overrides", "ticks", "checks", "recompute", "nothing", "refused"]
"""``full``: checks, checklist and comment. ``checks``: checks and summary, no comment, no LLM. ``overrides``: the checks
again, no LLM, and a comment only where a label that breaks the glass is in play: the job that ends now is the one that a
required check shows, so it must not end green on what is red. ``ticks``: who ticked what in our comment, and nothing else.
``recompute``: everything again for a fork's pull request, from Git objects; a job of its own posts it (github/workflow_run.py)."""

_OBJECT_ID: Final = pattern(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_LOGIN: Final = pattern(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}(?:\[bot\])?")
_REPOSITORY: Final = pattern(r"[A-Za-z0-9-]{1,100}/[A-Za-z0-9_.-]{1,100}")

#: Actions of ``pull_request`` on which the whole review runs; ``edited`` joins them when the base branch changed.
_FULL_ACTIONS: Final = frozenset({"opened", "synchronize", "reopened", "ready_for_review", "converted_to_draft"})


@record
class Event:
    """One event and what is to be done. ``base`` (the tip of the base branch) and ``head`` are full object ids.

    ``base`` is None where the event names none (a first push, a schedule). ``why`` is one line, set for ``nothing`` and
    ``refused``. ``label`` is the one that was set or taken off; ``comment_id`` and ``before`` (its text until now) are those of
    an edited comment; ``sender`` did it. ``head_ref`` (OWNER:BRANCH) and ``head_repository`` (its id) are what a fork's run ran on.
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
    label: str = ""
    sender: str = ""
    comment_id: int | None = None
    before: str = ""
    head_ref: str = ""
    head_repository: int = 0

    @property
    def comment(self) -> bool:
        """True if a comment belongs to this event; whether the token may write it is GitHub's to say."""
        return self.plan == "full" and self.pull_request is not None

    def breaks_glass(self, label: str) -> bool:
        """True if the event is about that label."""
        return bool(self.label) and self.label.casefold() == label.casefold()

    @property
    def llm(self) -> bool:
        """True if an LLM may be asked: on pull requests of this repository only, forks get the built-in checklist.

        On ``overrides`` it is asked only where the comment is written, and then its answer lies in the comment already."""
        return self.plan in ("full", "overrides") and not self.fork


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
        return _comment(repository, payload)
    if name == "workflow_run":
        return _workflow_run(repository, payload)
    return Event(name, "refused", repository=repository, why=_refusal(name))


def _refusal(name: str) -> str:
    if name == "pull_request_target":
        return "on: pull_request_target is refused, it hands secrets to a stranger's changes; use on: pull_request"
    supported = "pull_request, workflow_run, merge_group, push, issue_comment, workflow_dispatch or schedule"
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
    label = payload.get("label")
    name = label.get("name") if isinstance(label, Mapping) else ""
    return replace(event, plan="overrides", label=name if isinstance(name, str) else "", sender=_sender(payload))


def _comment(repository: str, payload: Mapping[str, Any]) -> Event:
    """An edited comment of a pull request: a box in it may have been ticked."""
    action, issue = str(payload.get("action", "")), _mapping(payload, "issue")
    if action != "edited" or "pull_request" not in issue:
        return Event("issue_comment", "nothing", action, repository, why="no comment of a pull request was edited")
    changes = payload.get("changes")
    body = changes.get("body") if isinstance(changes, Mapping) else None
    before = body.get("from") if isinstance(body, Mapping) else None
    return Event(
        "issue_comment",
        "ticks",
        action,
        repository,
        pull_request=_number(issue, "issue"),
        sender=_sender(payload),
        comment_id=_number(_mapping(payload, "comment"), "comment", "id"),
        before=before if isinstance(before, str) else "",
    )


def _workflow_run(repository: str, payload: Mapping[str, Any]) -> Event:
    """A run on a fork's pull request has ended. ``pull_requests`` of the payload is empty then: the pull request is looked for."""
    run = _mapping(payload, "workflow_run")
    event = Event("workflow_run", "recompute", str(payload.get("action", "")), repository, fork=True)
    if run.get("event") != "pull_request":
        return _nothing(event, "the run was not on: pull_request")
    head, own = run.get("head_repository"), _mapping(run, "repository").get("id")
    if not isinstance(head, Mapping):
        return _nothing(event, "the fork is gone")
    owner, branch, number = (
        _mapping(head, "owner").get("login"),
        run.get("head_branch"),
        _number(head, "head_repository", "id"),
    )
    if number == own:
        return _nothing(event, "the pull request is no fork's: its own run comments")
    if not isinstance(owner, str) or not _LOGIN.fullmatch(owner) or not isinstance(branch, str) or not branch:
        raise UsageError("event file: the run's head is no OWNER:BRANCH; is GITHUB_EVENT_PATH GitHub's own file?")
    commit = _object_id(run, "head_sha")
    return replace(event, head=commit, head_ref=f"{owner}:{branch}", head_repository=number)


def _sender(payload: Mapping[str, Any]) -> str:
    """Who did it; "" where that has not the form of a login."""
    sender = payload.get("sender")
    login = sender.get("login") if isinstance(sender, Mapping) else None
    return login if isinstance(login, str) and _LOGIN.fullmatch(login) else ""


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


def _number(data: Mapping[str, Any], where: str = "pull_request", key: str = "number") -> int:
    value = data.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise UsageError(f"event file: {where}.{key} is no number; is GITHUB_EVENT_PATH GitHub's own file?")
    return value


def _repository_id(side: Mapping[str, Any]) -> int | None:
    """The repository's id: a name can be taken over by somebody else. None for a deleted fork."""
    repository = side.get("repo")
    value = repository.get("id") if isinstance(repository, Mapping) else None
    return value if isinstance(value, int) else None
