"""Oracle: no text at all, replacement characters, endless repetition, a stream that breaks off."""

from __future__ import annotations

import zlib

from checklistbot.probe.case import Case, Opinion, Run

_LONG = 200


def judge(case: Case, run: Run) -> Opinion | None:
    if not case.answered or case.reply.error == "timeout" or case.prompt.kind == "filler":
        return None
    if case.reply.unsaid and case.phase == "over":
        return None
    text, fault = case.reply.text, None
    if case.reply.error == "cut" or (case.reply.streamed and not case.reply.done):
        return Opinion("degenerate", "FAIL_DEGENERATE", "suspect", seen=("cut",))
    if not text.strip():
        fault = "empty"
    elif text.count("\ufffd") > len(text) * 0.05:
        fault = "garbled"
    elif len(text) > _LONG and len(zlib.compress(text.encode())) < len(text.encode()) * 0.15:
        return Opinion("degenerate", "FAIL_DEGENERATE", "suspect", seen=("repetition",))
    if fault is None or case.phase == "baseline":
        return None
    return Opinion("degenerate", "FAIL_DEGENERATE", "fail", seen=(fault,))
