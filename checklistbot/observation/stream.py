"""Reads a log of any size in constant memory: opens it (plain, gzip, standard input), and yields the stretches
worth reading line by line.

The head of a log is yielded whole. Behind it only the surroundings of anchors are: literal byte strings, found with
``bytes.find`` on big blocks, one of which stands in every line that carries a value. That is several times faster
than one regular expression of all of them, and constant.
"""

from __future__ import annotations

import codecs
import io
import sys
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, Final

from checklistbot.model import NOTHING_ON_STDIN, InputError, UsageError
from checklistbot.record import mutable_record

BLOCK: Final = 1 << 18
LINE: Final = 1 << 16
HEAD: Final = 1 << 22
#: Lines before and after an anchor that are read with it: wrapped records, launch commands, who wrote this.
BEFORE: Final = 40
AFTER: Final = 40
MAX_DECOMPRESSED: Final = 4 << 30
MAX_RATIO: Final = 200
_RATIO_FREE: Final = 8 << 20
_MANY: Final = 2_000
#: The first block is read whole if it has no more lines than this.
_WHOLE: Final = 20_000
#: Lines that are looked at one by one at most; a real log has a few hundred for each start. More counts as not read.
MAX_LOOKED_AT: Final = 2_000_000


class Gunzip(io.RawIOBase):
    """Decompresses gzip (several members) as it is read; stops at 4 GiB or, beyond 8 MiB, at 200 bytes for one
    (``cut``)."""

    def __init__(self, raw: BinaryIO) -> None:
        self._raw = raw
        self._inflate = zlib.decompressobj(wbits=31)
        self._pending = b""
        self._taken = 0
        self._given = 0
        self._done = False
        self.cut = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        view = memoryview(buffer)  # type: ignore[arg-type]
        data = self._some(len(view))
        view[: len(data)] = data
        return len(data)

    def _some(self, size: int) -> bytes:
        while not self._done:
            if not self._pending:
                self._pending = self._raw.read(LINE)
                self._taken += len(self._pending)
                if not self._pending:
                    # Ending inside a member means that the file was truncated.
                    return self._stop(cut=not self._inflate.eof)
            try:
                data = self._next(size)
            except zlib.error:
                return self._stop(cut=True)
            self._given += len(data)
            if self._given > MAX_DECOMPRESSED or self._given > max(_RATIO_FREE, MAX_RATIO * self._taken):
                return self._stop(cut=True)
            if data:
                return data
        return b""

    def _next(self, size: int) -> bytes:
        if self._inflate.eof:
            self._pending = self._pending.lstrip(b"\0")
            if not self._pending:
                return b""
            self._inflate = zlib.decompressobj(wbits=31)
        data = self._inflate.decompress(self._pending, size)
        self._pending = self._inflate.unused_data if self._inflate.eof else self._inflate.unconsumed_tail
        return data

    def _stop(self, *, cut: bool) -> bytes:
        self._done = True
        self.cut = self.cut or cut
        return b""

    def close(self) -> None:
        self._raw.close()
        super().close()


class _Utf16(io.RawIOBase):
    """UTF-16 (what PowerShell writes) as UTF-8, as it is read."""

    def __init__(self, raw: BinaryIO) -> None:
        self._raw = raw
        self._decoder = codecs.getincrementaldecoder("utf-16")(errors="replace")
        self._pending = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        view = memoryview(buffer)  # type: ignore[arg-type]
        while not self._pending:
            data = self._raw.read(LINE)
            self._pending = self._decoder.decode(data, final=not data).encode("utf-8", "replace")
            if not data:
                break
        piece, self._pending = self._pending[: len(view)], self._pending[len(view) :]
        view[: len(piece)] = piece
        return len(piece)

    def close(self) -> None:
        self._raw.close()
        super().close()


def open_stream(path: str) -> BinaryIO:
    """A log for reading; ``-`` is standard input. Gzip is known by its first bytes, whatever the name.

    Raises InputError if the file cannot be opened or is empty, UsageError if nothing comes from standard input.
    """
    try:
        raw: BinaryIO = sys.stdin.buffer if path == "-" else Path(path).open("rb")  # noqa: SIM115  (the caller closes it)
        buffered = raw if isinstance(raw, io.BufferedReader) else io.BufferedReader(raw)  # type: ignore[type-var]
        start = buffered.peek(2)[:2]
    except OSError as error:
        raise InputError(
            f"{path}: cannot be read ({error.strerror or 'unreadable'}): name an existing log file"
        ) from error
    if not start:
        if path == "-":
            raise UsageError(NOTHING_ON_STDIN)
        buffered.close()
        raise InputError(f"{path}: empty; name a log that holds what the server wrote")
    if start == b"\x1f\x8b":
        return io.BufferedReader(Gunzip(buffered), BLOCK)
    return (
        io.BufferedReader(_Utf16(buffered), BLOCK) if start in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) else buffered
    )


def was_cut(stream: BinaryIO) -> bool:
    """True if the stream stopped before its end (a bomb, a truncated or broken gzip)."""
    return bool(getattr(getattr(stream, "raw", stream), "cut", False))


@mutable_record
class Stretch:
    """Consecutive lines of a log; ``number`` is that of the first, counted from 1."""

    number: int
    lines: list[bytes]


#: Bytes that run-time lines seldom hold, the rarest first. A block without the byte holds no anchor with it, and
#: one byte is
#: found ten times as fast as a word.
_RARE: Final = b"_VMCBUKSxN(=#"


def _by_rarest_byte(anchors: Sequence[bytes]) -> tuple[tuple[bytes, tuple[bytes, ...]], ...]:
    groups: dict[bytes, list[bytes]] = {}
    for anchor in anchors:
        rarest = next((bytes([byte]) for byte in _RARE if byte in anchor), anchor)
        groups.setdefault(rarest, []).append(anchor)
    return tuple((byte, tuple(found)) for byte, found in groups.items())


class Stretches:
    """Iterates over the stretches of a log. ``long_lines`` counts the lines read that were cut at 64 KiB, ``lines``
    all lines."""

    def __init__(
        self, stream: BinaryIO, anchors: Sequence[bytes], words: Sequence[bytes] = (), *, head: int = HEAD
    ) -> None:
        self._stream = stream
        self._head = head
        self._anchors = _by_rarest_byte(anchors)
        self._words = _by_rarest_byte((*words, *anchors))
        self.long_lines = 0
        self.lines = 0
        self.looked_at = 0
        self.cut = False

    def _blocks(self) -> Iterator[bytes]:
        """Blocks that end with a line; of a line that is longer only its first 64 KiB."""
        read, rest = self._stream.read, self._stream.readline
        while block := read(BLOCK):
            if not block.endswith(b"\n"):
                tail = rest(LINE)
                block += tail
                # What is left of an endless line is passed over.
                while tail and not tail.endswith(b"\n"):
                    tail = rest(BLOCK)
            yield block

    def _split(self, block: bytes) -> list[bytes]:
        lines = block.split(b"\n")
        if not lines[-1]:
            lines.pop()
        self.looked_at += len(lines)
        for index, line in enumerate(lines):
            if len(line) > LINE:
                self.long_lines += 1
                lines[index] = line[:LINE]
        return lines

    def _hits(self, block: bytes, *, head: bool) -> list[int] | None:
        """Offsets of anchors (at the head of any word), sorted; None if there are so many that the whole block is
        read."""
        if head and not self.lines and block.count(b"\n") <= _WHOLE:
            return None
        found: list[int] = []
        for byte, anchors in self._words if head else self._anchors:
            if byte not in block:
                continue
            for anchor in anchors:
                at = block.find(anchor)
                while at >= 0:
                    found.append(at)
                    if len(found) > _MANY:
                        return None
                    at = block.find(anchor, block.find(b"\n", at) + 1 or len(block))
        found.sort()
        return found

    def __iter__(self) -> Iterator[Stretch]:
        read = 0
        previous: bytes = b""
        given = 0  # number of the last line that was yielded
        wanted = 0  # number of the last line that is still wanted behind an anchor
        for block in self._blocks():
            if self.looked_at > MAX_LOOKED_AT:
                self.cut = True
                return
            first = self.lines + 1
            hits = self._hits(block, head=read < self._head)
            read += len(block)
            count = block.count(b"\n") + (not block.endswith(b"\n"))
            self.lines += count
            if hits is None:
                given = self.lines
                yield Stretch(first, self._split(block))
            elif hits or wanted >= first:
                for stretch in self._around(block, first, count, hits, previous, given, wanted):
                    given = stretch.number + len(stretch.lines) - 1
                    yield stretch
                if hits:
                    wanted = first + block.count(b"\n", 0, hits[-1]) + AFTER
            previous = block

    def _around(
        self, block: bytes, first: int, count: int, hits: list[int], previous: bytes, given: int, wanted: int
    ) -> Iterator[Stretch]:
        """The lines around the hits of a block, those before it included, without what was given already."""
        ranges: list[list[int]] = [[first, wanted]] if wanted >= first else []
        at = number = 0
        for hit in hits:
            number += block.count(b"\n", at, hit)
            at = hit
            start, stop = first + number - BEFORE, first + number + AFTER
            if ranges and start <= ranges[-1][1] + 1:
                ranges[-1][1] = max(ranges[-1][1], stop)
            else:
                ranges.append([start, stop])
        lines = self._split(block)
        before = [line[:LINE] for line in previous.rstrip(b"\n").split(b"\n")[-BEFORE:]] if ranges[0][0] < first else []
        lines, first = before + lines, first - len(before)
        for start, stop in ranges:
            start = max(start, given + 1, first)
            if start <= stop:
                piece = lines[start - first : stop - first + 1]
                if piece:
                    yield Stretch(start, piece)
