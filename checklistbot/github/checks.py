"""The check runs: ``checklistbot / verdict`` with the result, ``checklistbot / checklist`` for ticks that the policy asks for.

What they are to hold is decided by the review (``Outline``) and posted here, perhaps by another process (``publish``).
GitHub takes 65,535 characters each of summary and text and 50 annotations a request; one request is all we make, so that
nothing is annotated twice, and what does not fit is announced. Creating one needs ``checks: write``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import field
from typing import Any, Final, Literal

from checklistbot.encode import clean, redact
from checklistbot.github import boxes
from checklistbot.github.carried import json_object
from checklistbot.github.client import GitHub
from checklistbot.github.reading import CheckRun
from checklistbot.lazy import pattern
from checklistbot.model import InputError, Item
from checklistbot.record import record

VERDICT: Final = "checklistbot / verdict"
CHECKLIST: Final = "checklistbot / checklist"
MAX_TEXT: Final = 65_535
MAX_ANNOTATIONS: Final = 50
_MAX_TITLE: Final = 250
SCHEMA: Final = "outline/1"

Conclusion = Literal["success", "neutral", "failure"]
Language = Literal["en", "ko"]
_CONCLUSIONS: Final = ("success", "neutral", "failure")
_KEY: Final = pattern(r"[0-9a-f]{12}")
_COMMIT: Final = pattern(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_FENCE: Final = pattern(r"(?s).*```json\n(.*?)\n```\s*")


@record
class Required:
    """An item that must be ticked: digests of its id and of what it rests on, its title, and who is known to have ticked it."""

    item: str
    facts: str
    title: str
    by: str = ""

    def to_json(self) -> list[str]:
        return [self.item, self.facts, self.title, self.by]


@record
class Outline:
    """What the check runs of a review say. ``id`` is the comment's, ``head`` the commit, ``valid_at`` as in the marker.

    ``required`` is None where the policy asks for no ticks, empty where nothing has to be ticked. An annotation has the
    form that GitHub's API takes.
    """

    id: str
    head: str
    valid_at: str
    conclusion: Conclusion
    title: str
    summary: str
    annotations: tuple[Mapping[str, Any], ...] = ()
    required: tuple[Required, ...] | None = None
    ticks_by: str = "write"
    language: Language = "en"

    def to_json(self) -> dict[str, Any]:
        return {
            "schema": SCHEMA,
            "id": self.id,
            "head": self.head,
            "valid_at": self.valid_at,
            "conclusion": self.conclusion,
            "title": self.title,
            "summary": self.summary,
            "annotations": [dict(entry) for entry in self.annotations],
            "required": None if self.required is None else [entry.to_json() for entry in self.required],
            "ticks_by": self.ticks_by,
            "language": self.language,
        }


def outline_from(data: Mapping[str, Any] | None) -> Outline:
    """An outline from ``to_json``'s form.

    Raises:
        InputError: it has another form.
    """
    try:
        if data is None or data["schema"] != SCHEMA or data["conclusion"] not in _CONCLUSIONS:
            raise ValueError
        texts = {name: data[name] for name in ("id", "head", "valid_at", "title", "summary", "ticks_by")}
        if not all(isinstance(text, str) for text in texts.values()) or not _COMMIT.fullmatch(texts["head"]):
            raise ValueError
        annotations = tuple(dict(entry) for entry in data["annotations"][:MAX_ANNOTATIONS])
        required = data["required"]
        wanted = None if required is None else tuple(_required(entry) for entry in required)
        said = _language(data)
        return Outline(conclusion=data["conclusion"], annotations=annotations, required=wanted, language=said, **texts)
    except (KeyError, TypeError, ValueError):
        raise InputError("check-runs.json: not what `review --output` wrote") from None


def _language(data: Mapping[str, Any]) -> Language:
    """English where nothing else is said: earlier versions said nothing."""
    return "ko" if data.get("language") == "ko" else "en"


def _required(entry: Any) -> Required:
    item, facts, title, by = entry
    if not _KEY.fullmatch(item) or not _KEY.fullmatch(facts) or not isinstance(title, str) or not isinstance(by, str):
        raise ValueError
    return Required(item, facts, title, by)


def to_tick(items: tuple[Item, ...], wanted: tuple[str, ...]) -> tuple[Item, ...]:
    """The items that ``require_ticks`` names: by topic, by id, or by a pattern of ids such as ``canary-leak/prod/*``."""
    from fnmatch import fnmatchcase

    return tuple(item for item in items if any(item.topic == name or fnmatchcase(item.id, name) for name in wanted))


def required_of(items: tuple[Item, ...], wanted: tuple[str, ...]) -> tuple[Required, ...]:
    """What a check run keeps of the items that ``require_ticks`` names."""
    return tuple(
        Required(boxes.item_key(item.id), boxes.facts_key(item), redact(clean(item.title, limit=120)))
        for item in to_tick(items, wanted)
    )


# --- posting ----------------------------------------------------------------------------------------------------------


@record
class Wanted:
    """A check run as it is to be. ``conclusion`` None: it stays pending."""

    name: str
    conclusion: Conclusion | None
    title: str
    summary: str
    text: str = ""
    annotations: tuple[Mapping[str, Any], ...] = field(default=())


def put(api: GitHub, repo: str, head: str, id: str, valid_at: str, wanted: Wanted) -> CheckRun:
    """Create our check run at that commit, or bring it up to date; one that a newer run wrote stays as it is.

    Raises:
        GitHubError: GitHub does not do it; without ``checks: write`` its kind is ``permission``.
    """
    name = wanted.name if id == "default" else f"{wanted.name} ({id})"
    prefix = f"checklistbot/{id}/"

    def ours() -> CheckRun | None:
        found = [run for run in api.check_runs(repo, head, name) if run.external_id.startswith(prefix)]
        return max(found, key=lambda run: run.id, default=None)

    def look() -> CheckRun | None:
        run = ours()
        return run if run is not None and run.external_id == prefix + valid_at else None

    there = ours()
    data = {"name": name, "external_id": prefix + valid_at, **_body(wanted)}
    if there is None:
        output = {**data["output"], "annotations": [dict(entry) for entry in wanted.annotations[:MAX_ANNOTATIONS]]}
        return api.create_check(repo, {**data, "head_sha": head, "output": output}, look)
    if there.external_id.removeprefix(prefix) > valid_at:
        return there
    # Annotations are added to those that stand there, and the same commit has the same lines.
    return api.update_check(repo, there.id, data)


def find(api: GitHub, repo: str, head: str, id: str, name: str) -> CheckRun | None:
    """Our latest check run of that name at a commit."""
    name = name if id == "default" else f"{name} ({id})"
    runs = api.check_runs(repo, head, name)
    return max((r for r in runs if r.external_id.startswith(f"checklistbot/{id}/")), key=lambda r: r.id, default=None)


def _body(wanted: Wanted) -> dict[str, Any]:
    output = {"title": _cut(wanted.title, _MAX_TITLE), "summary": _cut(wanted.summary, MAX_TEXT)}
    if wanted.text:
        output["text"] = _cut(wanted.text, MAX_TEXT)
    if wanted.conclusion is None:
        return {"status": "in_progress", "output": output}
    return {"status": "completed", "conclusion": wanted.conclusion, "output": output}


def _cut(text: str, most: int) -> str:
    """GitHub may count characters beyond the basic plane as two."""
    while len(text.encode("utf-16-le")) // 2 > most:
        text = text[: len(text) - max(1, (len(text.encode("utf-16-le")) // 2 - most) // 2) - 1] + "…"
    return text


# --- what a check run carries -----------------------------------------------------------------------------------------


@record
class Carried:
    """What the check run of the ticks carries."""

    required: tuple[Required, ...]
    ticks_by: str
    language: Language = "en"


def carried_text(required: tuple[Required, ...], ticks_by: str, language: Language = "en") -> str:
    """The required items as the check run's text: people cannot edit that, so a later event reads it there and recomputes nothing."""
    items = [entry.to_json() for entry in required]
    data = {"schema": "required/1", "ticks_by": ticks_by, "language": language, "items": items}
    return "```json\n" + json.dumps(data, ensure_ascii=False, indent=0).replace("```", "'''") + "\n```"


def read_carried(text: str) -> Carried | None:
    """What ``carried_text`` wrote; None where the text is another."""
    found = _FENCE.fullmatch(text)
    data = json_object(found[1]) if found else None
    if data is None or data.get("schema") != "required/1" or not isinstance(data.get("ticks_by"), str):
        return None
    try:
        return Carried(tuple(_required(entry) for entry in data["items"]), data["ticks_by"], _language(data))
    except (KeyError, TypeError, ValueError):
        return None
