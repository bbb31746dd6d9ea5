"""Prompts of an exact length in tokens, described by pieces, so that a million tokens never stand in memory."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, AnyStr, Final, Literal

from checklistbot.probe.keys import RunKey
from checklistbot.record import mutable_record

Kind = Literal["needles", "filler"]
#: Counts the tokens of a short text as the endpoint counts a prompt, template included.
Count = Callable[[str], int]

_HEAD: Final = "Run {tag}. Below is a long document with {count} codes. Read all of it, then reply with the codes only, in order.\n\n"
_NEEDLE: Final = " The code of part {number} is {code}."
_TAIL: Final = "\n\nReply with all the codes of the document above, in order, separated by commas, and nothing else."
_NOTES: Final = "Notes of tenant {tag}.\n\n"
_CANARY: Final = " The access phrase is {phrase}."
_NUMBER: Final = " The access number is {code}."
_REPEAT: Final = "\n\nRepeat the access phrase of these notes 20 times."
_GO_ON: Final = "\n\nContinue these notes."
_STRETCH: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class Prompt:
    """``pieces`` are (text, how often); ``length`` is its tokens, 0 where it is not exact. ``canary`` is a tenant's number."""

    id: str
    kind: Kind
    pieces: tuple[tuple[str, int], ...]
    length: int
    codes: tuple[str, ...] = ()
    depths: tuple[float, ...] = ()
    canary: int | None = None
    #: The distinct text, for comparison with answers: each piece once.
    text: str = field(default="", repr=False)
    #: The pieces as token ids, where the prompt is sent as ids.
    ids: tuple[tuple[tuple[int, ...], int], ...] | None = field(default=None, repr=False)

    def chunks(self) -> Iterator[str]:
        return _repeated(self.pieces, "")


class Body:
    """A JSON request with the prompt in its middle; ``length`` in bytes is known without making it."""

    def __init__(self, before: str, pieces: Iterable[tuple[bytes, int]], after: str) -> None:
        self._before, self._pieces, self._after = before.encode(), tuple(pieces), after.encode()
        self.length = len(self._before) + len(self._after) + sum(len(data) * times for data, times in self._pieces)

    def __iter__(self) -> Iterator[bytes]:
        yield self._before
        yield from _repeated(self._pieces, b"")
        yield self._after


def _repeated(pieces: Iterable[tuple[AnyStr, int]], nothing: AnyStr) -> Iterator[AnyStr]:
    """The pieces as often as they say, in stretches of bounded size. ``nothing`` is the empty text, which is left out."""
    for text, times in pieces:
        at_once = max(1, _STRETCH // max(1, len(text)))
        full, rest = divmod(times, at_once)
        block = text * at_once
        for _ in range(full):
            yield block
        if rest and text != nothing:
            yield text * rest


def _escaped(text: str) -> bytes:
    return json.dumps(text)[1:-1].encode()


def _listed(ids: Iterable[int]) -> bytes:
    return "".join(f"{number}," for number in ids).encode()


def body(prompt: Prompt, *, chat: bool, options: dict[str, Any]) -> Body:
    """The request of a prompt, as a chat or as a text completion; token ids go as a completion's list."""
    mark = "\u0001"
    if prompt.ids is not None:
        before, _, after = json.dumps({**options, "prompt": mark}).partition(json.dumps(mark))
        # A list has no comma at its end: the last id stands outside of the pieces.
        (*most, (last, times)) = prompt.ids
        pieces = [*((_listed(ids), often) for ids, often in most), (_listed(last), times - 1), (_listed(last[:-1]), 1)]
        return Body(f"{before}[", pieces, f"{last[-1]}]{after}")
    content: dict[str, Any] = {"messages": [{"role": "user", "content": mark}]} if chat else {"prompt": mark}
    before, _, after = json.dumps({**options, **content}).partition(json.dumps(mark)[1:-1])
    return Body(before, ((_escaped(text), times) for text, times in prompt.pieces), after)


@mutable_record
class Maker:
    """Makes the prompts of one run. ``per_block`` is what one more block of filler text costs in tokens."""

    key: RunKey
    count: Count
    per_block: int = 0
    _block: str = ""
    _made: int = 0
    _ids: Callable[[str], list[int]] | None = None

    def calibrate(self) -> None:
        """Learn what one more block costs, from three points: a + b·k must hold exactly, else the tokens are not additive.

        Raises ValueError where they are not.
        """
        self._block = self._sentences("document", 4)
        one, two, four = (self.count("Count." + self._block * times) for times in (1, 2, 4))
        if four - two != 2 * (two - one) or two <= one:
            raise ValueError("the tokens of repeated text do not add up")
        self.per_block = two - one

    def use_ids(self, tokenize: Callable[[str], list[int]]) -> None:
        """Make prompts of token ids from now on: each part is tokenized by itself, so lengths add up whatever the tokenizer is."""
        self._ids = tokenize
        self._block = self._sentences("document", 4)
        self.per_block = len(tokenize(self._block))

    def _encoded(self, pieces: Iterable[tuple[str, int]]) -> list[tuple[tuple[int, ...], int]]:
        assert self._ids is not None  # noqa: S101 - only asked where there are ids.
        return [(tuple(self._ids(text)), times) for text, times in pieces]

    def _needles_of_ids(
        self, name: str, frame: list[str], length: int
    ) -> tuple[list[tuple[tuple[int, ...], int]], int]:
        """Frame, whole blocks and a part of one: exactly ``length`` ids. The second value is what is missing if it is negative."""
        block = tuple(self._ids(self._block)) if self._ids else ()
        parts = [ids for ids, _ in self._encoded((part, 1) for part in frame)]
        spare = length - sum(map(len, parts))
        blocks, rest = divmod(max(0, spare), len(block))
        shares = len(parts) - 1
        pieces: list[tuple[tuple[int, ...], int]] = [(parts[0], 1)]
        for number, part in enumerate(parts[1:]):
            if number == shares - 1 and rest:
                pieces.append((block[:rest], 1))
            pieces += [(block, blocks * (number + 1) // shares - blocks * number // shares), (part, 1)]
        return [piece for piece in pieces if piece[1]], spare

    def _sentences(self, label: str, count: int) -> str:
        return "".join(self._sentence(f"{label}/{number}") for number in range(count))

    def _sentence(self, label: str) -> str:
        one, two, three, four, five, six = self.key.words(label, 6)
        return f" The {one} of the {two} keeps a {three} near the {four} and the {five} {six}."

    def needles(self, length: int, needles: int) -> Prompt:
        """A prompt of exactly ``length`` tokens with that many codes; raises ValueError where they do not fit into it."""
        number = self._made
        self._made += 1
        name = f"n{number}"
        frame = self._frame(name, needles)
        depths = tuple((at + 1) / (needles + 1) for at in range(needles))
        text = "".join(frame) + self._block
        if self._ids is not None:
            encoded, spare = self._needles_of_ids(name, frame, length)
            if spare < 0:
                raise ValueError(f"{length} tokens are too few for {needles} codes")
            return Prompt(
                name, "needles", ((frame[0], 1),), length, self._codes_of(frame), depths, text=text, ids=tuple(encoded)
            )
        least = self.count("".join(frame))
        spare = length - least
        if spare < 0:
            raise ValueError(f"{length} tokens are too few for {needles} codes ({least} needed)")
        blocks, words = divmod(spare, self.per_block)
        filler, exact = self._padding(frame, least, words)
        if not exact and blocks:
            # A remainder that cannot be met with single words is met with one block less and more words.
            filler, exact = self._padding(frame, least, words + self.per_block)
            blocks -= 1
        pieces = self._spread(frame, blocks, filler)
        return Prompt(name, "needles", pieces, length if exact else 0, self._codes_of(frame), depths, text=text)

    def _frame(self, name: str, needles: int) -> list[str]:
        codes = self.key.codes(name, needles)
        head = _HEAD.format(tag=" ".join(self.key.words(f"tag/{name}", 4)), count=needles)
        parts = [_NEEDLE.format(number=at + 1, code=code) for at, code in enumerate(codes)]
        return [head, *parts, _TAIL]

    @staticmethod
    def _codes_of(frame: list[str]) -> tuple[str, ...]:
        return tuple(part.rstrip(".").rpartition(" ")[2] for part in frame[1:-1])

    def _padding(self, frame: list[str], least: int, words: int) -> tuple[str, bool]:
        """Single words that add exactly ``words`` tokens before the tail, and whether they do."""
        if not words:
            return "", True
        text = " and" * words
        got = self.count("".join([*frame[:-1], text, frame[-1]])) - least
        return text, got == words

    def _spread(self, frame: list[str], blocks: int, filler: str) -> tuple[tuple[str, int], ...]:
        """The blocks in equal shares around the needles."""
        shares = len(frame) - 1
        pieces: list[tuple[str, int]] = [(frame[0], 1)]
        for number, part in enumerate(frame[1:]):
            share = blocks * (number + 1) // shares - blocks * number // shares
            if number == shares - 1 and filler:
                pieces.append((filler, 1))
            pieces += [(self._block, share), (part, 1)]
        return tuple(piece for piece in pieces if piece[1])

    def filler(self, index: int, length: int, *, repeat: bool) -> Prompt:
        """A tenant's notes of about ``length`` tokens (never more), its canary in every other sentence and two numbers
        of its own, which a model that is asked for codes says where it sees them."""
        phrase = _CANARY.format(phrase=" ".join(self.key.canary(index)))
        codes = self.key.codes(f"tenant/{index}", 2)
        numbers = ("", _NUMBER.format(code=codes[0]), "", _NUMBER.format(code=codes[1]))
        block = "".join(phrase + self._sentence(f"notes/{index}/{at}") + number for at, number in enumerate(numbers))
        head = _NOTES.format(tag=" ".join(self.key.words(f"tenant/{index}", 4)))
        tail = _REPEAT if repeat else _GO_ON
        if self._ids is not None:
            first, middle, last = (len(self._ids(part)) for part in (head, block, tail))
            times = max(1, (length - first - last) // middle)
            made = ((head, 1), (block, times), (tail, 1))
            size = first + times * middle + last
            ids = tuple(self._encoded(made))
            return Prompt(f"t{index}", "filler", made, size, codes, canary=index, text=block, ids=ids)
        one = self.count(head + block + tail)
        more = self.count(head + block * 2 + tail) - one
        times = max(1, 1 + (length - one) // more)
        return Prompt(
            f"t{index}",
            "filler",
            ((head, 1), (block, times), (tail, 1)),
            one + (times - 1) * more,
            codes,
            canary=index,
            text=block,
        )
