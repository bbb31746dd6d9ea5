"""Oracle: another tenant's canary in the reply. One hit is enough: it is a leak, and says whose text it was."""

from __future__ import annotations

import math

from checklistbot.probe.case import Case, Opinion, Run, words_of
from checklistbot.probe.keys import BITS

#: False alarms of a whole run stay below this (canaries × positions × 2^-bits).
_FALSE_ALARMS = 1e-6
_SUSPECT_BITS = 22


def judge(case: Case, run: Run) -> Opinion | None:
    planted = {c.prompt.canary for c in run.cases if c.prompt.canary is not None and c is not case} - {
        case.prompt.canary
    }
    if not planted or case.reply.status != 200:
        return None
    said = words_of(case.reply.text + " " + "".join(case.reply.logprob_tokens))
    best, owners = 0, list[int]()
    for index in sorted(planted):
        matched = longest(run.key.canary(index), said)
        if matched > best:
            best, owners = matched, [index]
        elif matched == best and matched:
            owners.append(index)
    bits = best * BITS
    if bits < _SUSPECT_BITS:
        return None
    positions = max(1_000, sum(len(words_of(c.reply.text)) for c in run.cases))
    sure = bits >= math.log2(len(planted) * positions / _FALSE_ALARMS)
    names = tuple(f"t{index}" for index in owners) if sure else tuple(f"t{index}?" for index in owners[:3])
    return Opinion(
        "foreign-canary", "FAIL_LEAK", "fail" if sure else "suspect", names, (bits, len(run.key.canary(0)) * BITS)
    )


def longest(canary: tuple[str, ...], said: list[str]) -> int:
    """The longest run of consecutive canary words, in order, anywhere in the reply."""
    at = {word: number for number, word in enumerate(canary)}
    best = current = 0
    before = -2
    for word in said:
        place = at.get(word, -2)
        current = current + 1 if place >= 0 and place == before + 1 and current else int(place >= 0)
        before = place
        best = max(best, current)
    return best
