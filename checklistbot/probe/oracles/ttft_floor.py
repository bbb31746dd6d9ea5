"""Oracle: an answer that comes sooner than prefill can be done was never prefilled. Timed to the first text, not the first chunk.

A suspicion, because time is also the machine's: the runner times a healthy prompt beside it, and asks again (``Probe._timed``).
"""

from __future__ import annotations

from checklistbot.probe.case import Case, Opinion, Run

_SHARE = 0.2
#: The expected prefill must stand this far above the time of an empty request.
_ABOVE_BASE = 4.0


def judge(case: Case, run: Run) -> Opinion | None:
    slope, base, took = run.baseline.slope, run.baseline.base, case.reply.ttft
    if slope is None or took is None or not case.answered or case.phase == "baseline" or case.prompt.kind == "filler":
        return None
    expected = slope * case.length
    if expected < _ABOVE_BASE * base or case.length < run.baseline.longest or took >= _SHARE * expected:
        return None
    return Opinion("ttft-floor", "FAIL_PHANTOM_PREFILL", "suspect", seen=(round(took, 2), round(expected, 2)))
