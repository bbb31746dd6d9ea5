"""What happened to lines on their way into a file, seen over many of them: a terminal cut every message at its width,
a tool put the same kind of head before each."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from checklistbot.lazy import pattern
from checklistbot.observation.lines import is_fresh

#: A terminal is not narrower, and whoever prints wider does not cut.
_NARROW: Final = 60
_WIDE: Final = 400
#: Lines of a message that are put together at most.
_PARTS: Final = 60
#: Lines that a head or a width is learned from at least.
_HEADS: Final = 4
_FULL: Final = 2

_EDGE: Final = 40
_DIGITS_OF_A_VALUE: Final = 8

#: ``grep -n``, ``cat -n``, a number that a viewer or ``srun -l`` puts before every line.
_NUMBERED = pattern(rb"[ \t]{0,12}(?:[\w./-]{1,200}:)?(\d{1,7})(?:\t|: ?|[-|] |  )")
#: ``stern``: pod and container.
_STERN = pattern(rb"([a-z0-9][-a-z0-9.]{0,252}-(?:\d{1,4}|[a-z0-9]{5,10})) ([a-z0-9][-a-z0-9]{0,62})(?: \|)? ")
_DIGITS = pattern(r"[\d.]+")
_NUMBER = pattern(r"\d{1,40}\Z")
_NUMBER_ON = pattern(r"\d{1,40}")
_CUT = pattern(r"[a-z\d]{2}")
_RULE = pattern(r"\W{8,}\Z")


class Terminal:
    """Gives the lines of one log's stretches back as they were written. Learns from the first stretch that tells."""

    def __init__(self) -> None:
        self._width = 0
        self._head = ""

    def lines(self, number: int, lines: list[bytes]) -> Iterator[tuple[int, bytes]]:
        """(number, line) with heads and cuts undone; a joined line has the number of its first part."""
        told = [line for line in lines if line.strip()]
        if len(told) >= _HEADS:
            self._head = _head_of(told)
        if self._head:
            lines = [_without(line, self._head) for line in lines]
        width = self._width_of(lines)
        if not width:
            yield from enumerate(lines, number)
            return
        at = 0
        while at < len(lines):
            start, line = at, lines[at].rstrip(b"\r")
            at += 1
            part = line
            while at < len(lines) and at - start < _PARTS and _goes_on(part, lines[at], width):
                # A blank at the edge is lost when the text is copied.
                glue = b" " if len(part.decode("utf-8", "replace")) == width - 1 else b""
                part = lines[at].rstrip(b"\r")
                line += glue + part
                at += 1
            yield number + start, line

    def _width_of(self, lines: list[bytes]) -> int:
        """The width at which the lines were cut, 0 if they were not: no line is wider, several fill it, and all but a
        few of those go on in the next."""
        longest = max((len(line) for line in lines), default=0)
        if longest < _NARROW or (self._width and longest <= self._width):
            return self._width if longest >= _NARROW else 0
        texts = [line.decode("utf-8", "replace").rstrip("\r") for line in lines]
        width = max(map(len, texts))
        self._width = 0
        if not _NARROW <= width <= _WIDE:
            return 0
        full = [index for index, text in enumerate(texts) if len(text) == width and not _RULE.search(text)]
        after = [texts[index + 1] if index + 1 < len(texts) else "" for index in full]
        on = [bool(text) and not is_fresh(text) for text in after]
        if sum(on) * 5 < len(full) * 4:
            return 0
        # The same message of two starts has one length as well: what fills a width differs in more than numbers. With
        # fewer lines, a cut within a word tells, where all other messages have heads.
        if len({_DIGITS.sub("", texts[index]) for index in full}) < _FULL:
            heads = sum(is_fresh(text) for text in texts if text)
            if heads < _HEADS or heads * 2 <= sum(map(bool, texts)) - len(full):
                return 0
            if not full or not all(_within_word(texts[index], text) for index, text in zip(full, after, strict=True)):
                return 0
        self._width = width
        return width


def _within_word(before: str, after: str) -> bool:
    """True if a cut between the two parts went through a word, or a number of a size that logs hold."""
    number = _NUMBER.search(before[-_EDGE:]), _NUMBER_ON.match(after)
    if all(number):
        return sum(len(part[0]) for part in number if part) <= _DIGITS_OF_A_VALUE
    return bool(after) and _CUT.match(before[-1] + after[0]) is not None


def _goes_on(part: bytes, after: bytes, width: int) -> bool:
    if not after.strip():
        return False
    length = len(part.decode("utf-8", "replace"))
    if length != width and not (length == width - 1 and not after.startswith(b" ")):
        return False
    return not is_fresh(after.decode("utf-8", "replace"))


def _head_of(lines: list[bytes]) -> str:
    """What kind of head every line has: ``number`` of a line, ``task``, ``stern``, or none."""
    some = lines[:400]
    numbers = [match[1] for line in some if (match := _NUMBERED.match(line))]
    if len(numbers) == len(some):
        values = [int(number) for number in numbers]
        rising = all(before < after for before, after in pairwise(values))
        if rising:
            return "number"
        return "task" if len(set(values)) <= max(1, len(values) // 2) and max(values) < 4096 else ""
    if all(_STERN.match(line) for line in some):
        return "stern"
    return ""


def _without(line: bytes, head: str) -> bytes:
    if head == "stern":
        match = _STERN.match(line)
        return b"[pod/%b/%b] %b" % (match[1], match[2], line[match.end() :]) if match else line
    match = _NUMBERED.match(line)
    if not match:
        return line
    rest = line[match.end() :]
    return b"[rank%b]: %b" % (match[1], rest) if head == "task" else rest
