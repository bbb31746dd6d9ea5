"""``triage`` for a terminal: when, which requests, and what to do now. Numbers and ids only, never a text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from checklistbot import encode
from checklistbot.report.columns import cells, wrapped
from checklistbot.report.words import Language, Line, Words, number, own

if TYPE_CHECKING:
    from checklistbot.observation.triage import Suspect, Triage

_BOLD, _END = "\x1b[1m", "\x1b[0m"
#: Rows on a terminal; the JSON form lists them all.
MAX_ROWS: Final = 200
_COLUMNS: Final = ("time", "role", "id", "length", "kind", "place")


def render_triage(night: Triage, *, language: Language, color: bool = False) -> str:
    """How many requests, their span, a row for each of the first 200, the release's state, and the containment."""
    words = Words(language)
    lines = list(_head(night, words))
    if night.requests:
        lines += ["", *_table(night, words)]
    if night.containment:
        lines += ["", _text(words.line("triage.do"), color)]
        for place, action in enumerate(night.containment, 1):
            values = {k: _filled(action.code, v) for k, v in action.parameters.items()}
            lines += wrapped(f"{place}. {_text(words.line(f'triage.{action.code}', **values))}", "  ", "     ")
    for entry in night.skipped:
        lines += wrapped(_text(words.line("unknown.skipped", path=entry.path, why=entry.reason)), hanging="  ")
    return "\n".join(_text(line, color) if not isinstance(line, str) else line for line in lines) + "\n"


def _filled(code: str, value: int | str) -> int | Line:
    """A number of a sentence is written with separators, one of a flag as the shell wants it."""
    return value if isinstance(value, int) and code != "context-length" else own(str(value))


def _head(night: Triage, words: Words) -> Iterator[Line | str]:
    if not night.total:
        # Only for what was read and showed requests; an unread log must not sound like a quiet night.
        yield words.line("triage.none", logs=", ".join(night.judged)) if night.judged else words.line("triage.nothing")
        return
    yield words.line("triage.some", n=night.total)
    times = [request.time for request in night.requests if request.time]
    if times:
        yield words.line("triage.span", first=min(times), last=max(times))
    if night.lengths:
        low, high = night.lengths
        yield words.line("triage.lengths", low=low, high=high)
    yield words.line(f"triage.release-{night.verdict}")


def _table(night: Triage, words: Words) -> Iterator[str]:
    rows = [tuple(_text(words.line(f"triage.{name}")) for name in _COLUMNS)]
    rows += [_row(request, words) for request in night.requests[:MAX_ROWS]]
    widths = [max(cells(row[i]) for row in rows) for i in range(len(_COLUMNS))]
    for row in rows:
        yield "  ".join(cell + " " * (width - cells(cell)) for cell, width in zip(row, widths, strict=True)).rstrip()
    if night.total > MAX_ROWS:
        yield _text(words.line("triage.more", n=night.total - MAX_ROWS))


def _row(request: Suspect, words: Words) -> tuple[str, ...]:
    return (
        request.time or "–",
        request.role or "–",
        _shown(request.id or "–"),
        number(request.length) if request.length is not None else "–",
        _text(words.line(f"triage.{request.kind}")),
        _shown(f"{request.path}:{request.line}"),
    )


def _text(line: Line, color: bool = False) -> str:
    bold, end = (_BOLD, _END) if color else ("", "")
    parts = (span.text if span.kind == "own" else _shown(span.text) for span in line)
    return "".join(f"{bold}{part}{end}" if span.strong else part for span, part in zip(line, parts, strict=True))


def _shown(text: str) -> str:
    return encode.terminal(text, limit=1_000)
