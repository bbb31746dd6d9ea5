"""Forms that chats use and Markdown does not know, put into Markdown: ballot boxes, check marks as bullets, bold lines as headings,
labelled lines without bullets. What stands in a fence stays as it is."""

from __future__ import annotations

import re

from checklistbot.checklist.labels import labelled
from checklistbot.lazy import pattern

_BOX = pattern(r"^(\s*)(?:[-*+]\s+|\d{1,3}[.)]\s+)?(?:☐|☑|✅|✔|⬜|▢|□|◻|🔲)\ufe0f?\s*(\S.{5,})$")
_BOLD = pattern(r"^\*\*([^*]{3,200})\*\*\s*[:：]?\s*$")
_BULLET = pattern(r"^(\s*)(?:[-*+]|\d{1,3}[.)])\s+")
_FENCE = pattern(r"^\s*(?:>\s*)?(?:[-*+]\s+|\d+[.)]\s+)?(?:```|~~~)")
_STRUCTURE = pattern(r"^\s*(?:#{1,6}\s|\||>|-{3,}\s*$)")
#: "…; pass if X" without a colon.
_PASS_IF = pattern(r"([;,.—–→]\s+)pass(?:es)? (?:if|when)\s+(?=[^:：]*$)", re.IGNORECASE)


def markdown(text: str) -> str:
    """The text with such lines rewritten; every other line as it was."""
    writer = _Writer(text.split("\n"))
    return "\n".join(writer.lines())


class _Writer:
    """Goes through the lines once. ``_under`` is the indent of the box that lines belong to, -1 below a bold heading, else None."""

    def __init__(self, lines: list[str]) -> None:
        self._lines = lines
        self._under: int | None = None
        self._fenced = False

    def lines(self) -> list[str]:
        found: list[str] = []
        for at, line in enumerate(self._lines):
            if _FENCE.match(line):
                self._fenced = not self._fenced
            found.append(line if self._fenced or not line.strip() else self._line(at, line))
        return found

    def _line(self, at: int, line: str) -> str:
        if box := _BOX.match(line):
            self._under = len(box[1])
            return f"{box[1]}- [ ] {_passing(box[2])}"
        if (bold := _BOLD.match(line)) and self._opens(at):
            self._under = -1
            return f"#### {bold[1]}\n"
        if self._under is None or _STRUCTURE.match(line) or _FENCE.match(line):
            self._under = self._under if _FENCE.match(line) else None
            return line
        return self._below(line, self._under)

    def _below(self, line: str, under: int) -> str:
        """A line below a box or a bold heading: what is labelled, or stands deeper, belongs to it."""
        bullet = _BULLET.match(line)
        content = line[bullet.end() :] if bullet else line.strip()
        indent = len(line) - len(line.lstrip())
        if labelled(content) is not None or (under >= 0 and indent > under):
            deeper = max(indent, under + 2) if bullet else under + 2
            return f"{' ' * (deeper if under >= 0 else 0)}- {content}"
        self._under = None
        return line

    def _opens(self, at: int) -> bool:
        """True if a labelled line or a box follows, as below a heading."""
        following = next((line for line in self._lines[at + 1 :] if line.strip()), "")
        bullet = _BULLET.match(following)
        return (
            bool(_BOX.match(following))
            or labelled(following[bullet.end() :] if bullet else following.strip()) is not None
        )


def _passing(text: str) -> str:
    return _PASS_IF.sub(r"\1Pass: ", text)
