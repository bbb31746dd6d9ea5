"""Text that remembers the line each part of it was written on, so that a flag in a variable keeps its own line."""

from __future__ import annotations

import itertools
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from checklistbot.engines.base import CLOSE, OPEN, Word, mark, settled
from checklistbot.lazy import pattern as lazy_pattern

#: Stands before the path of the script itself ($0): good for finding files of the tree, no value of a flag.
HERE: Final = "\ue0c4"
_UNSET = lazy_pattern(f"{OPEN}unset:[^{OPEN}{CLOSE}]*{CLOSE}")


@dataclass(frozen=True)
class Text:
    """Pieces of (text, path, line); a piece holds no line break except as its last character."""

    pieces: tuple[tuple[str, str, int], ...] = ()

    @cached_property
    def plain(self) -> str:
        return "".join(piece for piece, _, _ in self.pieces)

    @cached_property
    def _starts(self) -> list[int]:
        """Where each piece begins in the text."""
        return [0, *itertools.accumulate(len(piece) for piece, _, _ in self.pieces)][:-1]

    def __add__(self, other: Text) -> Text:
        return Text(self.pieces + other.pieces)

    def __bool__(self) -> bool:
        return bool(self.plain)

    @property
    def known(self) -> bool:
        return OPEN not in self.plain and HERE not in self.plain

    @property
    def assumed(self) -> str:
        """The text with variables that nothing sets taken as empty, as bash takes them."""
        return _UNSET.sub("", self.plain)

    @property
    def place(self) -> tuple[str, int]:
        """Where the first visible character was written."""
        for piece, path, line in self.pieces:
            if piece.strip():
                return path, line
        return (self.pieces[0][1], self.pieces[0][2]) if self.pieces else ("", 1)

    def replaced(self, text: str) -> Text:
        """Another text at the same place."""
        path, line = self.place
        return of(text, path, line)

    def slice(self, start: int, end: int) -> Text:
        if len(self.pieces) == 1:  # most of them
            piece, path, line = self.pieces[0]
            return (
                Text(((piece[max(start, 0) : max(end, 0)], path, line),))
                if max(start, 0) < min(end, len(piece))
                else Text()
            )
        found = []
        for number in range(max(bisect_right(self._starts, start) - 1, 0), len(self.pieces)):
            at, (piece, path, line) = self._starts[number], self.pieces[number]
            if at >= end:
                break
            low, high = max(start - at, 0), min(end - at, len(piece))
            if low < high:
                found.append((piece[low:high], path, line))
        return Text(tuple(found))

    def split(self, pattern: re.Pattern[str]) -> list[Text]:
        """The non-empty parts between the matches."""
        parts, at = [], 0
        for match in pattern.finditer(self.plain):
            if match.start() > at:
                parts.append(self.slice(at, match.start()))
            at = match.end()
        if at < len(self.plain):
            parts.append(self.slice(at, len(self.plain)))
        return parts

    def lines(self) -> list[Text]:
        """The lines without their line breaks; a last empty line is none."""
        found, at = [], 0
        for match in re.finditer("\n", self.plain):
            found.append(self.slice(at, match.start()))
            at = match.end()
        return [*found, self.slice(at, len(self.plain))] if at < len(self.plain) else found

    def word(self) -> Word:
        """As a word of a command; unknown where a mark, or the script's own path, stands in it."""
        path, line = self.place
        plain = self.plain
        if HERE in plain:
            plain = plain.replace(HERE, mark("$0"))
        starts: list[tuple[int, int]] = []
        at = 0
        for piece, _, number in self.pieces:
            if not starts or starts[-1][1] != number:
                starts.append((at, number))
            at += len(piece)
        return settled(
            Word(plain.replace(f"{OPEN}unset:", f"{OPEN}not-static:"), path, line, plain, None, tuple(starts))
        )


EMPTY: Final = Text()


def of(text: str, path: str, line: int) -> Text:
    """A text whose lines follow each other in the file."""
    if "\n" not in text:
        return Text(((text, path, line),)) if text else EMPTY
    return Text(tuple((piece, path, line + number) for number, piece in enumerate(text.splitlines(keepends=True))))


def from_word(word: Word) -> Text:
    """A word of a manifest as text, with its own lines."""
    text = word.text or ""
    if not word.starts:
        return of(text, word.path, word.line)
    pieces: list[tuple[str, str, int]] = []
    bounds = [*word.starts, (len(text), 0)]
    if bounds[0][0] > 0:
        pieces += of(text[: bounds[0][0]], word.path, word.line).pieces
    for (start, line), (end, _) in itertools.pairwise(bounds):
        pieces += of(text[start:end], word.path, line).pieces
    return Text(tuple(pieces))


def unset(name: str, path: str, line: int) -> Text:
    """The value of a variable that nothing sets."""
    return Text(((mark(f"${name}", "unset"), path, line),))


def unknown(name: str, path: str, line: int, why: str = "not-static") -> Text:
    return Text(((mark(name, why), path, line),))


def join(parts: Iterable[Text], separator: str = " ") -> Text:
    pieces: list[tuple[str, str, int]] = []
    for part in parts:
        if pieces:
            path, line = pieces[-1][1], pieces[-1][2]
            pieces.append((separator, path, line))
        pieces += part.pieces
    return Text(tuple(pieces))


_BLANK = lazy_pattern(r"[ \t\n]+")


def fields(text: Text) -> Iterator[Text]:
    """Field splitting of an unquoted expansion."""
    yield from text.split(_BLANK)
