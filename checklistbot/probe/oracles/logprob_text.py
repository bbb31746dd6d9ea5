"""Oracle: the first log probability belongs to the first token of the text. A stale one is another request's."""

from __future__ import annotations

from checklistbot.probe.case import Case, Opinion, Run
from checklistbot.probe.reply import Reply


def judge(case: Case, run: Run) -> Opinion | None:
    baseline = run.baseline
    if (
        baseline.logprobs_match < 3
        or baseline.logprobs_differ
        or case.phase == "baseline"
        or matches(case.reply) is not False
    ):
        return None
    return Opinion("logprob-text", "FAIL_LEAK", "fail")


def matches(reply: Reply) -> bool | None:
    """Whether the two agree, None where one is missing."""
    if reply.first_logprob is None or not reply.first_text:
        return None
    told, said = reply.first_logprob.strip(), reply.first_text.strip()
    if not said:
        return None
    return bool(told) and (said.startswith(told) or told.startswith(said))
