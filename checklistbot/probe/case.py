"""What an oracle sees: one prompt with its reply, and what is known of the run."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import field
from typing import Final, Literal

from checklistbot.probe.keys import RunKey
from checklistbot.probe.prompts import Prompt
from checklistbot.probe.reply import Reply
from checklistbot.record import mutable_record, record

#: The probability of a needle pattern by chance below which it is a failure; thousands of replies of a healthy server stay below.
ALPHA: Final = 1e-6
Phase = Literal["baseline", "below", "filler", "together", "over", "after"]


@record
class Opinion:
    """``verdict`` is one of the FAIL_… words; ``strength`` fail or suspect; ``canaries`` whose marks were seen; ``seen`` fills the
    oracle's phrase in templates/probe.LANGUAGE.toml: numbers and words of our own, never text of a reply."""

    oracle: str
    verdict: str
    strength: Literal["fail", "suspect"]
    canaries: tuple[str, ...] = ()
    seen: tuple[int | float | str, ...] = ()


@mutable_record
class Limits:
    """What is known of the endpoint's limits, in tokens. ``first_rejected`` is the smallest of all workers'; ``sure`` where the
    engine said it or an answer proved it."""

    context: int | None = None
    pools: dict[str, int] = field(default_factory=dict)
    first_rejected: int | None = None
    rejected_by_role: dict[str, int] = field(default_factory=dict)
    page: int | None = None
    chunk: int | None = None
    engine: str | None = None
    version: str | None = None
    sure: bool = False

    @property
    def pool(self) -> int | None:
        return min(self.pools.values(), default=None)


@mutable_record
class Baseline:
    """The healthy server: codes asked for and missed, TTFT slope in seconds a token with its base, first tokens, logprob form."""

    asked: int = 0
    missed: int = 0
    #: Of these the ones in prompts longer than ``short`` tokens: a model may recall well in short prompts only.
    long_asked: int = 0
    long_missed: int = 0
    short: int = 0
    slope: float | None = None
    base: float = 0.0
    longest: int = 0
    first_tokens: set[str] = field(default_factory=set)
    logprobs_match: int = 0
    logprobs_differ: int = 0
    usage_differs: int = 0
    #: By how many tokens the engine's count differed from the probe's in healthy replies, at most; more than two is a difference.
    off: int = 0

    def error_at(self, length: int) -> float:
        """An upper estimate of the share of codes that the healthy model misses in prompts like that."""
        long = length > self.short and self.long_asked > 0
        asked, missed = (self.long_asked, self.long_missed) if long else (self.asked, self.missed)
        return (missed + 2) / (asked + 2) if missed else max(0.03, 1 / (asked + 1))

    @property
    def usable(self) -> bool:
        """False for a model too weak for the needle oracle, and where nothing was measured."""
        weak = self.long_asked > 0 and self.long_missed / self.long_asked > 0.25
        return self.asked >= 8 and self.missed / self.asked <= 0.25 and not weak


@mutable_record
class Case:
    prompt: Prompt
    reply: Reply
    phase: Phase
    max_tokens: int
    deadline: float
    batch: int = 0
    opinions: list[Opinion] = field(default_factory=list)
    verdict: str = ""

    @property
    def length(self) -> int:
        return self.prompt.length

    @property
    def answered(self) -> bool:
        return self.reply.status == 200 and not self.reply.refused


@mutable_record
class Run:
    key: RunKey
    limits: Limits
    baseline: Baseline = field(default_factory=Baseline)
    cases: list[Case] = field(default_factory=list)
    overhead: int = 0

    def must_refuse(self, case: Case) -> bool:
        """True where the limits say that this prompt cannot be served."""
        limit, context = self.limits.first_rejected, self.limits.context
        over = limit is not None and case.length >= limit
        return over or (context is not None and case.length + case.max_tokens > context)

    def others(self, case: Case) -> Iterable[Case]:
        return (other for other in self.cases if other is not case)


def found_codes(text: str, codes: Sequence[str]) -> set[str]:
    """Which of the codes stand in the text, whatever separates their digits' groups."""
    flat = re.sub(r"(?<=\d)[, _\u2009\u00a0](?=\d{3})", "", unicodedata.normalize("NFKC", text))
    seen = set(re.findall(r"\d{7}", text)) | set(re.findall(r"\d{7}", flat))
    return seen & set(codes)


def answerable(case: Case) -> int:
    """How many codes fit into the answer: seven digits and a comma may cost eight tokens."""
    return min(len(case.prompt.codes), max(1, case.max_tokens // 8))


def words_of(text: str) -> list[str]:
    """Words as they are compared: folded, without punctuation, marks and what cannot be seen."""
    if not text.isascii():
        text = "".join(c for c in unicodedata.normalize("NFKC", text) if unicodedata.category(c) not in ("Cf", "Mn"))
    return re.findall(r"\w+", text.casefold())


def at_least(misses: int, asked: int, error: float) -> float:
    """The binomial probability of that many misses or more."""
    return sum(math.comb(asked, k) * error**k * (1 - error) ** (asked - k) for k in range(misses, asked + 1))
