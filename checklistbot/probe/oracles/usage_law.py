"""Oracle: usage must tell the tokens that were sent; more cached tokens than prompts share are someone else's cache."""

from __future__ import annotations

from checklistbot.probe.case import Case, Opinion, Run

#: A tokenizer that counts a begin token more or less is no truncation.
_SLACK = 2


def judge(case: Case, run: Run) -> Opinion | None:
    told = case.reply.prompt_tokens
    if not case.answered or told is None or not case.length or case.prompt.kind == "filler":
        return None
    if run.baseline.usage_differs and case.phase != "baseline":
        return None
    cached = case.reply.cached_tokens or 0
    legal = run.overhead + 2 * (run.limits.page or 64) + 64
    if cached > legal:
        return Opinion("usage-law", "FAIL_CACHE", "fail", seen=("cached", cached))
    if case.phase != "baseline" and abs(told - case.length) > _SLACK:
        return Opinion("usage-law", "FAIL_TRUNC", "fail", seen=("told", told, case.length))
    return None
