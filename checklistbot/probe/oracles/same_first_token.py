"""Oracle over the run: different prompts over the limit that all begin with one token were sampled from one placeholder."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from checklistbot.probe.case import Case, Opinion, Run


def judge_run(run: Run) -> Iterator[tuple[Case, Opinion]]:
    """The same first token in three replies over the limit, while the healthy replies began with different ones."""
    if len(run.baseline.first_tokens) < 3:
        return
    groups: dict[str, list[Case]] = defaultdict(list)
    for case in run.cases:
        if case.phase == "over" and case.answered and case.reply.first_text:
            groups[case.reply.first_text.strip()].append(case)
    for cases in groups.values():
        if len(cases) >= 3:
            for case in cases:
                yield case, Opinion("same-first-token", "FAIL_INCOHERENT", "suspect", seen=(len(cases),))
