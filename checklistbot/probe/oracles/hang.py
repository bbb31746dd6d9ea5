"""Oracle: nothing came before the deadline."""

from __future__ import annotations

from checklistbot.probe.case import Case, Opinion, Run


def judge(case: Case, run: Run) -> Opinion | None:
    if case.reply.error != "timeout":
        return None
    return Opinion("hang", "FAIL_HANG", "fail", seen=(round(case.deadline),))
