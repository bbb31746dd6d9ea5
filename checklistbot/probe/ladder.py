"""Which lengths are sent: around every limit, below it first, over it last."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Any, Final

from checklistbot.model import UsageError
from checklistbot.probe.case import Limits
from checklistbot.record import mutable_record, record

#: The shortest prompt with eight codes and its instructions, with room for tokenizers that split words.
SHORT: Final = 700
#: Tokens per second of a cautious first estimate of the time, before the endpoint's own speed is measured.
PREFILL_SPEED: Final = 20_000


@record
class Point:
    """A prompt of ``length`` tokens with up to ``max_tokens`` of answer; ``item`` is the plan's item it is for."""

    length: int
    max_tokens: int
    needles: int = 8
    item: str | None = None


@mutable_record
class Ladder:
    """Lengths in tokens. ``together`` prompts run at the same time; ``early`` and ``fillers`` carry the canaries, before
    the prompts below the limit and before those over it."""

    baseline: list[Point] = field(default_factory=list)
    below: list[Point] = field(default_factory=list)
    together: list[Point] = field(default_factory=list)
    early: list[int] = field(default_factory=list)
    fillers: list[int] = field(default_factory=list)
    over: list[Point] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)

    def tokens(self) -> int:
        """About how many tokens all requests together send, with answers."""
        points = [*self.baseline, *self.below, *self.together, *self.over]
        return (
            sum(p.length + p.max_tokens for p in points)
            + sum(self.early)
            + sum(self.fillers)
            + 2 * SHORT * (len(points) + 4)
        )

    def requests(self) -> int:
        parts = (self.baseline, self.early, self.below, self.together, self.fillers, self.over)
        return sum(len(part) for part in parts)


def smoke(limits: Limits, answer: int, *, known: int) -> Ladder:
    """P0 and P1: baseline, page and chunk edges, one full prefill below the limit, fillers, then the limit itself.

    ``known`` is the first rejected length; ``answer`` the tokens an answer with all codes needs.
    """
    made = Ladder(baseline=baseline(known, answer), together=[Point(short_length(known), answer)] * 4)
    context = limits.context
    for length in (*_edges(limits, known), known - 32, known - 1):
        made.below += _at_edge(length, answer, context)
    made.below = [p for p in dict.fromkeys(made.below) if p.length < known]
    made.early, made.fillers = filler_lengths(known // 2, 8), filler_lengths(known, 8)
    middle, *others = _window(limits, known) or [known]
    ends = [known, middle, known + 1, known, *others]
    made.over = [_fitted(length, answer, None if length >= known else context) for length in ends]
    made.over = [Point(p.length, room_of(p.length, answer, context)) for p in made.over]
    return made


def room_of(length: int, answer: int, context: int | None) -> int:
    """Output tokens that the context leaves, at least one, so that the front end's own check does not hide the worker's."""
    return max(1, min(answer, context - length)) if context is not None else answer


def _at_edge(length: int, answer: int, context: int | None) -> list[Point]:
    """The length itself, for admission and usage, and where no whole answer fits behind it also one that is that much shorter."""
    fitted = _fitted(length, answer, context)
    if fitted.length == length or context is None or length >= context:
        return [fitted]
    return [fitted, Point(length, room_of(length, answer, context))]


def _fitted(length: int, answer: int, context: int | None) -> Point:
    """The length, moved down so far that an answer fits behind it."""
    if context is not None and length + answer > context:
        length = context - answer
    return Point(length, answer)


def short_length(known: int) -> int:
    return max(SHORT, min(2_048, known // 64))


def baseline(known: int, answer: int) -> list[Point]:
    """Four short prompts for the recall, then two longer ones for the slope of TTFT."""
    short = short_length(known)
    longer = (known // 8, known // 2) if known // 8 > 2 * short else (known // 2, known * 3 // 4)
    return [Point(short, answer)] * 4 + [Point(length, answer) for length in longer if length > short]


def _edges(limits: Limits, known: int) -> list[int]:
    """Around a page's end, and behind two prefill chunks."""
    found = []
    page = limits.page or 16
    if page > 1:
        edge = -(-2 * SHORT // page) * page
        found += [edge - 1, edge, edge + 1]
    if limits.chunk and limits.chunk > page:
        found.append(max(2 * limits.chunk + 1, SHORT))
    return [length for length in found if SHORT <= length < known - 32]


def _window(limits: Limits, known: int) -> list[int]:
    """Lengths over the first limit: the middle of the window, every other limit's edges, the context's."""
    ends = sorted({*limits.rejected_by_role.values(), *limits.pools.values()} - {known})
    found: list[int] = []
    top = limits.context or max(ends, default=known)
    if top > known + 2:
        found.append((known + top) // 2)
    for end in ends:
        found += [end - 1, end, end + 1]
    if limits.context is not None:
        found += [limits.context - 1, limits.context, limits.context + 1]
    highest = limits.context + 1 if limits.context is not None else known * 2
    return [length for length in dict.fromkeys(found) if known < length <= highest]


def filler_lengths(known: int, count: int) -> list[int]:
    """Tenants whose pages together cover what the next prompt is given: they run at the same time and are freed together."""
    return [min(known - 1, max(SHORT, int(known * 1.1) // count))] * count


# --- a plan ----------------------------------------------------------------------------------------------------------


def planned(items: Sequence[dict[str, Any]], limits: Limits, answer: int, *, known: int) -> Ladder:
    """The requests of a plan/1; kinds that the probe cannot do yet are listed in ``skipped``."""
    made = Ladder(baseline=baseline(known, answer))
    for item in items:
        name, automation = str(item["id"]), item["automation"]
        kind = automation["kind"]
        if kind == "boundary-request":
            for length in _at(automation, limits, known):
                _place(made, Point(length, answer, item=name), limits, known)
        elif kind == "content-needles":
            for length in automation["lengths"]:
                _place(
                    made,
                    Point(length, max(answer, automation["needles"] * 10), automation["needles"], name),
                    limits,
                    known,
                )
        elif kind == "canary-leak":
            made.fillers = max(made.fillers, filler_lengths(known, automation["fillers"]), key=len)
            made.early = filler_lengths(known // 2, len(made.fillers))
            made.over += [
                Point(known + at % 2, room_of(known + 1, answer, limits.context), item=name)
                for at in range(automation["probes"])
            ]
        else:
            made.skipped.append(name)
    return made


def _at(automation: dict[str, Any], limits: Limits, known: int) -> list[int]:
    base = {"first-rejected": known, "context": limits.context, "pool": limits.pool}[automation["at"]]
    if base is None:
        raise UsageError(
            f"the plan asks for lengths around the {automation['at']}, which the endpoint does not tell; give --facts, --context or --kv-pool"
        )
    return [base + offset for offset in automation["offsets"] if base + offset >= SHORT]


def _place(made: Ladder, point: Point, limits: Limits, known: int) -> None:
    if point.length >= known:
        made.over.append(
            Point(point.length, room_of(point.length, point.max_tokens, limits.context), point.needles, point.item)
        )
    else:
        for fitted in _at_edge(point.length, point.max_tokens, limits.context):
            made.below.append(Point(fitted.length, fitted.max_tokens, point.needles, point.item))
