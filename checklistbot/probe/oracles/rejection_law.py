"""Oracle: a prompt that cannot be served must be refused. Where the limit is certain, any 200 over it is a failure."""

from __future__ import annotations

from checklistbot.probe.case import Case, Opinion, Run


def judge(case: Case, run: Run) -> Opinion | None:
    limit = run.limits.first_rejected
    if not run.limits.sure or limit is None or not case.length or case.reply.status != 200 or case.reply.refused:
        return None
    context, told = run.limits.context, case.reply.prompt_tokens
    # Around a limit one token decides: where the engine counted healthy prompts a token apart, its own count holds.
    length = told if told is not None and abs(told - case.length) <= run.baseline.off else case.length
    if length < limit and (context is None or length < context):
        return None
    if case.reply.error == "timeout" or case.reply.unsaid:
        return None
    return Opinion("rejection-law", "FAIL_ADMISSION", "fail", seen=(length, limit))
