"""From opinions to one verdict a reply, and from those to the run's: pass, fail, inconclusive."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection
from dataclasses import field
from typing import Final, Literal

from checklistbot.probe.case import Case, Opinion, Run
from checklistbot.probe.oracles import all_oracles
from checklistbot.record import mutable_record

#: Worst first.
FAILS: Final = (
    "FAIL_LEAK", "FAIL_SWAP", "FAIL_INCOHERENT", "FAIL_PHANTOM_PREFILL", "FAIL_TRUNC", "FAIL_CACHE", "FAIL_ADMISSION",
    "FAIL_HANG", "FAIL_5XX", "FAIL_DEGENERATE",
)  # fmt: skip
#: What a proxy in front answers: no word of the engine.
_PROXY: Final = frozenset((401, 403, 404, 407, 408, 413, 414, 421, 425, 429, 431, 502, 503, 504))
_NEAR: Final = 8


def judge(case: Case, run: Run, *, off: Collection[str] = ()) -> None:
    """Ask every oracle about a reply; sets its opinions and verdict. ``off`` names oracles that are switched off."""
    case.opinions = []
    for name, oracle in all_oracles().items():
        opinion = oracle.judge(case, run) if name not in off and hasattr(oracle, "judge") else None
        if opinion is not None:
            case.opinions.append(opinion)
    case.verdict = _verdict(case, run)


def judge_run(run: Run, *, off: Collection[str] = ()) -> None:
    """The oracles over all replies, then the same suspicion on three replies."""
    for name, oracle in all_oracles().items():
        if name not in off and hasattr(oracle, "judge_run"):
            for case, opinion in oracle.judge_run(run):
                if all(known.oracle != opinion.oracle for known in case.opinions):
                    case.opinions.append(opinion)
    suspected: dict[str, list[Case]] = defaultdict(list)
    for case in run.cases:
        case.verdict = _verdict(case, run)
        for opinion in case.opinions:
            suspected[opinion.oracle].append(case)
    for name, cases in suspected.items():
        later = [case for case in cases if case.phase != "baseline"]
        if len(later) >= 3 and len(later) == len(cases):
            for case in later:
                if not case.verdict.startswith("FAIL"):
                    case.verdict = next(o.verdict for o in case.opinions if o.oracle == name)


def _verdict(case: Case, run: Run) -> str:
    fails = [opinion.verdict for opinion in case.opinions if opinion.strength == "fail"]
    suspicions = [opinion.verdict for opinion in case.opinions if opinion.strength == "suspect"]
    if fails or len(suspicions) >= 2:
        return min(fails + suspicions, key=FAILS.index)
    if case.reply.refused:
        return _refusal(case, run)
    if case.reply.error or case.reply.unsaid or case.reply.status != 200:
        return "INCONCLUSIVE"
    if suspicions:
        return "SUSPECT"
    if case.prompt.kind == "needles" and not run.baseline.usable:
        return "INCONCLUSIVE"
    return "PASS_ANSWER"


def _refusal(case: Case, run: Run) -> str:
    reply = case.reply
    if reply.status in _PROXY or not reply.engine_error:
        return "INCONCLUSIVE"
    if reply.status >= 500:
        return "FAIL_5XX"
    if case.length and not run.must_refuse(case) and run.limits.first_rejected is not None:
        return "INCONCLUSIVE"
    return "PASS_REJECT" if _speaks_of_length(case, run) else "INCONCLUSIVE"


def _speaks_of_length(case: Case, run: Run) -> bool:
    """An engine's refusal names the length or the limit, or blames the tokens; a 400 of something in front does not."""
    if case.reply.parameter is not None and run.must_refuse(case):
        return True
    limits = run.limits
    known = [case.length, case.length + case.max_tokens, limits.context, limits.first_rejected, *limits.pools.values()]
    known += limits.rejected_by_role.values()
    return any(abs(number - value) <= _NEAR for number in case.reply.numbers for value in known if value)


Whole = Literal["pass", "fail", "inconclusive"]


@mutable_record
class Summary:
    """``why`` are codes of the texts (probe.WHY): what keeps the run from a pass. ``judged`` counts the replies that passed."""

    verdict: Whole
    counts: dict[str, int]
    why: list[str] = field(default_factory=list)
    judged: int = 0

    @property
    def upper_bound(self) -> float | None:
        """95 % upper bound of the rate after no hit in n: 3/n; None where there was a hit or nothing was judged."""
        return min(1.0, 3 / self.judged) if self.judged and self.verdict != "fail" else None


def summarize(run: Run, *, notes: Collection[str] = (), expects_refusal: bool = True) -> Summary:
    """The run's verdict; ``notes`` are reasons that the runner saw itself."""
    counts = Counter(case.verdict for case in run.cases if case.phase != "baseline" or case.verdict.startswith("FAIL"))
    why = list(notes)
    over = [case for case in run.cases if case.phase == "over"]
    if not run.baseline.usable and (run.baseline.asked or not why):
        why.append("weak-baseline")
    if expects_refusal and not any(case.verdict == "PASS_REJECT" for case in over):
        why.append("limit-not-reached")
    if any(case.verdict == "INCONCLUSIVE" and case.reply.status in _PROXY for case in run.cases):
        why.append("proxy")
    elif any(case.verdict == "INCONCLUSIVE" and case.reply.refused for case in run.cases):
        why.append("refused-below")
    if counts["SUSPECT"]:
        why.append("suspicion")
    if counts["INCONCLUSIVE"] and not why:
        why.append("unreadable")
    failed = any(name.startswith("FAIL") for name in counts)
    verdict: Whole = "fail" if failed else "inconclusive" if why else "pass"
    judged = sum(case.verdict.startswith("PASS") for case in run.cases if case.phase != "baseline")
    return Summary(verdict, dict(sorted(counts.items())), list(dict.fromkeys(why)), judged)


def strongest(case: Case) -> Opinion | None:
    """The opinion that a report names first."""
    return min(case.opinions, key=lambda o: (o.strength != "fail", FAILS.index(o.verdict)), default=None)
