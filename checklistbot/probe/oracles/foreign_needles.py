"""Oracle: another request's codes in the reply. Two codes are 46 bits; between requests of one batch it is a swap."""

from __future__ import annotations

from checklistbot.probe.case import Case, Opinion, Run, found_codes


def judge(case: Case, run: Run) -> Opinion | None:
    if case.reply.status != 200:
        return None
    hits = {}
    for other in run.others(case):
        found = found_codes(case.reply.text, other.prompt.codes)
        if found:
            hits[other.prompt.id] = (len(found), other.batch == case.batch and case.phase in ("together", "filler"))
    if not hits:
        return None
    most, together = max(hits.values())
    verdict = "FAIL_SWAP" if together else "FAIL_LEAK"
    strength = "fail" if most >= 2 else "suspect"
    ranked = sorted(hits, key=lambda name: -hits[name][0])[:5]
    names = tuple(name if hits[name][0] >= 2 else f"{name}?" for name in ranked)
    return Opinion("foreign-needles", verdict, strength, names, (most,))  # type: ignore[arg-type]
