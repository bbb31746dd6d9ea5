"""The marker on the last line of our comment: `<!-- checklistbot {json} -->` (CONTRACTS, "The comment's protocol").

It is a locator, not a state (operations-and-attacks 21): everybody with write permission can edit it, so whatever is
read back is held against a strict grammar, and a field that does not fit it counts as not said.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from checklistbot.github import boxes
from checklistbot.github.carried import MAX_CHECKLIST, checklist_from, json_object, pack, unpack
from checklistbot.lazy import pattern as lazy_pattern
from checklistbot.model import Checklist, UsageError
from checklistbot.record import record

SCHEMA: Final = "marker/1"
PREFIX: Final = "<!-- checklistbot "
SUFFIX: Final = " -->"
#: Characters of a marker: its checklist, its boxes, and the rest.
_MAX_LINE: Final = MAX_CHECKLIST + boxes.MAX_LINE + 2_000

_ID: Final = lazy_pattern(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_DIGEST: Final = lazy_pattern(r"[0-9a-f]{64}")
_COMMIT: Final = lazy_pattern(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_WORD: Final = lazy_pattern(r"[A-Za-z0-9][A-Za-z0-9._:/-]{0,199}")
_SCHEMA: Final = lazy_pattern(r"marker/[0-9]{1,4}")


@record
class Marker:
    """What a comment says about itself.

    ``id`` is the config's ``comment.id``; ``content`` and ``config`` are sha256 in hex; ``head`` is the full commit
    id; ``valid_at`` is RFC 3339 with a zone, the moment at which the run took its view; ``llm`` (how the LLM ended) and
    ``run`` (the workflow run) are one word each; ``prompt`` is the key of the question whose answer ``checklist`` is;
    ``boxes`` tells which line is which item's (boxes.py).
    """

    id: str = "default"
    content: str | None = None
    config: str | None = None
    head: str | None = None
    valid_at: str | None = None
    llm: str | None = None
    run: str | None = None
    checklist: Checklist | None = None
    prompt: str | None = None
    boxes: str | None = None

    @property
    def when(self) -> datetime | None:
        """``valid_at`` as a moment in UTC; None where there is none."""
        return _moment(self.valid_at)

    def render(self) -> str:
        """The marker as one line. A checklist too long for it is left out.

        Raises:
            UsageError: a field does not fit the grammar that ``parse`` demands.
        """
        fields: dict[str, Any] = {"schema": SCHEMA}
        for name, form in _FORMS.items():
            value = getattr(self, name)
            if value is not None and not form.fullmatch(value):
                raise UsageError(f"comment marker: {name} does not fit {form.pattern}")
            fields[name] = value
        if self.valid_at is not None and self.when is None:
            raise UsageError("comment marker: valid_at is no time with a zone, such as 2026-11-30T12:00:00Z")
        if self.boxes is None:
            del fields["boxes"]
        fields["checklist"] = None if self.checklist is None else pack(self.checklist)
        return f"{PREFIX}{_harmless(json.dumps(fields, separators=(',', ':')))}{SUFFIX}"


_FORMS: Final[Mapping[str, re.Pattern[str]]] = {
    "id": _ID,
    "content": _DIGEST,
    "config": _DIGEST,
    "head": _COMMIT,
    "valid_at": re.compile(r"[0-9TZ:.+-]{16,40}"),
    "llm": _WORD,
    "run": _WORD,
    "prompt": _DIGEST,
    "boxes": boxes.FORM,
}


def _harmless(text: str) -> str:
    """JSON that cannot end the HTML comment it stands in."""
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026").replace("--", "-\\u002d")


def _moment(text: str | None) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text) if text else None
        return moment.astimezone(UTC) if moment is not None and moment.tzinfo is not None else None
    except (ValueError, OverflowError):
        return None


# --- finding it ------------------------------------------------------------------------------------------------------


def parse(body: str) -> Marker | None:
    """The marker on the last line of a comment; None if that line is none, or names no id.

    A field that does not fit its grammar is None: then nothing equals it, and the comment is written anew.
    """
    line = _lines(body).rpartition("\n")[2]
    if not (line.startswith(PREFIX) and line.endswith(SUFFIX) and len(line) <= _MAX_LINE):
        return None
    fields = json_object(line[len(PREFIX) : -len(SUFFIX)])
    if fields is None or not _fits(fields.get("schema"), _SCHEMA) or not _fits(fields.get("id"), _ID):
        return None
    values = {name: fields.get(name) if _fits(fields.get(name), form) else None for name, form in _FORMS.items()}
    values["valid_at"] = values["valid_at"] if _moment(values["valid_at"]) else None
    return Marker(**values, checklist=unpack(fields.get("checklist")))  # type: ignore[arg-type]  # id was checked above


def split(text: str) -> tuple[str, Marker | None]:
    """A comment's text without its marker, and the marker."""
    marker = parse(text)
    text = _lines(text)
    return (text if marker is None else text.rpartition("\n")[0].rstrip("\n")), marker


def join(body: str, marker: Marker) -> str:
    """The comment as it is posted: the marker comes after everything else, with a blank line before it."""
    return f"{_lines(body)}\n\n{marker.render()}"


def _lines(text: str) -> str:
    """The text with the line ends that we write: GitHub's own editor saves a comment with CR LF."""
    return text.replace("\r\n", "\n").rstrip("\n")


def _fits(value: object, form: re.Pattern[str]) -> bool:
    return isinstance(value, str) and form.fullmatch(value) is not None


# --- comparing -------------------------------------------------------------------------------------------------------

_TIME = lazy_pattern(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?: ?(?:Z|UTC|[+-]\d\d:?\d\d))?")
_FULL_COMMIT = lazy_pattern(r"(?<![0-9A-Za-z])[0-9a-f]{40}(?![0-9A-Za-z])")
#: A number such as 1048576 is no commit: an abbreviated id counts as one only if it has a letter.
_SHORT_COMMIT = lazy_pattern(r"`(?=[0-9]*[a-f])[0-9a-f]{7,12}`")
_TICK = lazy_pattern(r"^(\s*[-*+] )\[[xX]\]", re.MULTILINE)


def content_digest(body: str) -> str:
    """sha256 of a comment's text without what changes though nothing changed: times, commit ids, and people's ticks.

    Commit ids are 40 hex digits anywhere and 7 to 12 in a code span. A model revision looks the same: the marker's
    ``config`` digest holds that, so two comments are equal only if both digests are.
    """
    text, _ = split(body)
    for pattern, instead in ((_TIME, "T"), (_FULL_COMMIT, "C"), (_SHORT_COMMIT, "`C`"), (_TICK, r"\1[ ]")):
        text = pattern.sub(instead, text)
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def config_digest(digests: Mapping[str, Mapping[str, str]]) -> str:
    """One sha256 over the ``config`` digests of all groups (``Facts.digests``)."""
    values = {key: value.get("config", "") for key, value in digests.items() if isinstance(value, Mapping)}
    text = json.dumps(values, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def of_report(
    body: str,
    report: Mapping[str, Any],
    *,
    valid_at: str,
    id: str = "default",
    run: str | None = None,
    prompt: str | None = None,
) -> Marker:
    """The marker of a comment ``body`` that shows ``report`` (``report/1`` as JSON).

    What the report does not say, or says in another form, is left out.
    """
    checklist = checklist_from(report.get("checklist"))
    commit, status = _part(report, "head").get("commit"), _part(report, "llm").get("status")
    return Marker(
        id=id,
        content=content_digest(body),
        config=config_digest(_part(report, "facts", "head", "digests")),
        head=commit if _fits(commit, _COMMIT) else None,
        valid_at=valid_at,
        llm=status if _fits(status, _WORD) else None,
        run=run if _fits(run, _WORD) else None,
        prompt=prompt if _fits(prompt, _DIGEST) else None,
        checklist=checklist,
        boxes=boxes.of(checklist.items if checklist else (), split(body)[0]),
    )


def _part(report: Mapping[str, Any], *keys: str) -> Mapping[str, Any]:
    """The table below these keys; an empty one where the report has none."""
    for key in keys:
        value = report.get(key)
        report = value if isinstance(value, Mapping) else {}
    return report
