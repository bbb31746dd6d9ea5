"""Prompts of an exact length in tokens, described by pieces, so that a million tokens never stand in memory."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from checklistbot.probe.keys import RunKey

Kind = Literal["needles", "filler"]
#: Counts the tokens of a short text as the endpoint counts a prompt, template included.
Count = Callable[[str], int]

_HEAD: Final = "Run {tag}. Below is a long document with {count} codes. Read all of it, then reply with the codes only, in order.\n\n"
_NEEDLE: Final = " The code of part {number} is {code}."
_TAIL: Final = "\n\nReply with all the codes of the document above, in order, separated by commas, and nothing else."
_NOTES: Final = "Notes of tenant {tag}.\n\n"
_CANARY: Final = " The access phrase is {phrase}."
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

    def chunks(self) -> Iterator[str]:
        for text, times in self.pieces:
            at_once = max(1, _STRETCH // max(1, len(text)))
            full, rest = divmod(times, at_once)
            block = text * at_once
            for _ in range(full):
                yield block
            if rest:
                yield text * rest


class Body:
    """A JSON request with the prompt in its middle; ``length`` in bytes is known without making it."""

    def __init__(self, prompt: Prompt, before: str, after: str) -> None:
        self._prompt = prompt
        self._before, self._after = before.encode(), after.encode()
        self.length = len(self._before) + len(self._after)
        self.length += sum(len(_escaped(text)) * times for text, times in prompt.pieces)

    def __iter__(self) -> Iterator[bytes]:
        yield self._before
        for chunk in self._prompt.chunks():
            yield _escaped(chunk)
        yield self._after


def _escaped(text: str) -> bytes:
    return json.dumps(text)[1:-1].encode()


def body(prompt: Prompt, *, chat: bool, options: dict[str, Any]) -> Body:
    """The request of a prompt, as a chat or as a text completion."""
    mark = "\u0001"
    content: dict[str, Any] = {"messages": [{"role": "user", "content": mark}]} if chat else {"prompt": mark}
    before, _, after = json.dumps({**options, **content}).partition(json.dumps(mark)[1:-1])
    return Body(prompt, before, after)


@dataclass(slots=True)
class Maker:
    """Makes the prompts of one run. ``per_block`` is what one more block of filler text costs in tokens."""

    key: RunKey
    count: Count
    per_block: int = 0
    _block: str = ""
    _made: int = 0

    def calibrate(self) -> None:
        """Learn what one more block costs, from three points: a + b·k must hold exactly, else the tokens are not additive.

        Raises ValueError where they are not.
        """
        self._block = self._sentences("document", 4)
        one, two, four = (self.count("Count." + self._block * times) for times in (1, 2, 4))
        if four - two != 2 * (two - one) or two <= one:
            raise ValueError("the tokens of repeated text do not add up")
        self.per_block = two - one

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
        depths = tuple((at + 1) / (needles + 1) for at in range(needles))
        text = "".join(frame) + self._block
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
        """A tenant's notes of about ``length`` tokens (never more), its canary in every other sentence."""
        phrase = _CANARY.format(phrase=" ".join(self.key.canary(index)))
        block = "".join(phrase + self._sentence(f"notes/{index}/{number}") for number in range(4))
        head = _NOTES.format(tag=" ".join(self.key.words(f"tenant/{index}", 4)))
        tail = _REPEAT if repeat else _GO_ON
        one = self.count(head + block + tail)
        more = self.count(head + block * 2 + tail) - one
        times = max(1, 1 + (length - one) // more)
        return Prompt(
            f"t{index}",
            "filler",
            ((head, 1), (block, times), (tail, 1)),
            one + (times - 1) * more,
            canary=index,
            text=block,
        )
