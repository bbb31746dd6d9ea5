"""Oracle: the reply must hold the prompt's own codes. It sees every fault of the KV content, as far as the healthy model recalls."""

from __future__ import annotations

from checklistbot.probe.case import ALPHA, Case, Opinion, Run, answerable, at_least, found_codes


def judge(case: Case, run: Run) -> Opinion | None:
    if not case.answered or case.prompt.kind != "needles" or not run.baseline.usable or case.reply.error:
        return None
    if case.phase == "baseline":
        return None
    asked = answerable(case)
    found = found_codes(case.reply.text, case.prompt.codes)
    missed = max(0, asked - len(found))
    if not missed or at_least(missed, asked, run.baseline.error_at(case.length)) >= ALPHA * (
        1_000 if asked <= 4 else 1
    ):
        return None
    return Opinion("own-needles", "FAIL_INCOHERENT", "fail", seen=(missed, asked, pattern(case, found)))


def pattern(case: Case, found: set[str]) -> str:
    """What the lost codes say about the cause, as a key of the texts ([pattern])."""
    kept = [code in found for code in case.prompt.codes[: answerable(case)]]
    if not any(kept):
        return "all-lost"
    first, last = kept.index(True), len(kept) - 1 - kept[::-1].index(True)
    if all(kept[first : last + 1]):
        if first == 0:
            return "tail-lost"
        return "head-lost" if last == len(kept) - 1 else "ends-lost"
    lost = [at for at, good in enumerate(kept) if not good]
    if lost[-1] - lost[0] == len(lost) - 1:
        return "span-lost"
    return "only-last-kept" if kept[-1] and sum(kept) <= 2 else "scattered"
