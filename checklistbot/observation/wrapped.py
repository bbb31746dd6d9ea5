"""Messages that stand on several lines: wrapped by a terminal or an editor, launch commands, argument lists, dumps
in brackets."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from checklistbot.engines._log import Record
from checklistbot.lazy import pattern

_JOIN_LINES: Final = 12
#: A dump that opens a bracket at the end of its line goes on for more lines than a sentence does.
_BLOCK_LINES: Final = 200
_COMMAND_LINES: Final = 120
_JOIN_LENGTH: Final = 1 << 16
#: An argument dump that ends in its bracket is whole.
_DUMP = pattern(r"server_args=|args: (?:Namespace\(|\{)")
#: A call that goes on in the next line.
_OPEN_CALL = pattern(r"\w\([^()]{0,2000},$")


class Joiner:
    """Joins the records of one stream. ``anchor`` matches any word of an engine's lines, ``strong`` those that
    carry values."""

    def __init__(self, anchor: re.Pattern[str], strong: re.Pattern[str]) -> None:
        self._anchor = anchor
        self._strong = strong

    def joined(self, found: list[Record]) -> Iterator[Record]:
        """Each record that holds an anchor, joined with the lines that its message was wrapped over."""
        widths: dict[int, int] = {}
        for record in found:
            widths[record.raw_length] = widths.get(record.raw_length, 0) + 1
        done = listed = 0
        for index, record in enumerate(found):
            # Comments in an argument list are no part of it, and are read for themselves.
            if index < done or (index < listed and not record.comment) or not self._anchor.search(record.text):
                continue
            if record.text.endswith("\\") or (_is_argument(record) and not record.comment):
                command, listed = self._command(found, index)
                yield command
                continue
            text, done = self._wrapped(found, index, widths)
            yield record if text is record.text else replace(record, text=text)

    def _command(self, found: list[Record], index: int) -> tuple[Record, int]:
        """A launch command, or one line of an argument list, with the lines that belong to it."""
        start = index
        while start and index - start < _COMMAND_LINES and _continues(found[start - 1], found[start]):
            start -= 1
        stop = index + 1
        while stop < len(found) and stop - start < _COMMAND_LINES and _continues(found[stop - 1], found[stop]):
            stop += 1
        words = [record.text.rstrip("\\").strip(" ,") for record in found[start:stop] if not record.comment]
        return replace(found[index], number=found[start].number, text=" ".join(words)[:_JOIN_LENGTH]), stop

    def _wrapped(self, found: list[Record], index: int, widths: dict[int, int]) -> tuple[str, int]:
        """A message with the lines that it was wrapped over, and the index behind them."""
        record = found[index]
        text = record.text
        if text.endswith((")", "}")) and _DUMP.search(text):
            return text, index + 1
        block = text.endswith(("{", "("))
        for at in range(index + 1, min(len(found), index + 1 + (_BLOCK_LINES if block else _JOIN_LINES))):
            previous, after = found[at - 1], found[at]
            # A terminal cuts at its width, within a word; people and editors break between words.
            full = previous.raw_length >= 60 and widths[previous.raw_length] > 1
            tight = full and not previous.text.endswith((" ", ",")) and not after.text[:1].isupper()
            if after.fresh or not after.text or len(text) > 8192 or after.comment != record.comment:
                return text, at
            if not block and not tight and self._begins(after.text) and not _OPEN_CALL.search(text):
                return text, at
            text += ("" if tight else " ") + after.text
            if block and after.text == "}":
                return text, at + 1
        return text, index + 1

    def _begins(self, text: str) -> bool:
        """True if a line without a prefix is a message of its own rather than the rest of the one before."""
        if text.startswith(("```", "Traceback", "--")) or self._anchor.match(text):
            return True
        return text[0].isupper() and self._strong.search(text) is not None


def _is_argument(record: Record) -> bool:
    return record.text.startswith("--")


def _continues(before: Record, after: Record) -> bool:
    """True if ``after`` belongs to the command that ``before`` is part of: a backslash, or an argument list one
    word a line."""
    if after.fresh or not after.text:
        return False
    if before.text.endswith("\\"):
        return True
    if after.comment:
        return _listed(before)
    return _listed(before) and (_is_argument(after) or len(after.text.split()) == 1)


def _listed(record: Record) -> bool:
    """True for one element of an argument list: a flag, a value, a comment between them."""
    return record.comment or _is_argument(record) or len(record.text.split()) == 1
