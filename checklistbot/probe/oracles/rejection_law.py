"""Oracle: a prompt that cannot be served must be refused. Where the limit is certain, any 200 over it is a failure."""

from __future__ import annotations

from checklistbot.probe.case import Case, Opinion, Run


def judge(case: Case, run: Run) -> Opinion | None:
    limit = run.limits.first_rejected
    if not run.limits.sure or limit is None or not case.length or case.reply.status != 200 or case.reply.refused:
        return None
    context = run.limits.context
    if case.length < limit and (context is None or case.length < context):
        return None
    if case.reply.error == "timeout":
        return None
    return Opinion("rejection-law", "FAIL_ADMISSION", "fail", seen=(case.length, limit))
