"""A run's result as evidence/1 and JUnit. No text of any reply is in either."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from datetime import datetime
from typing import Any

from checklistbot import __version__
from checklistbot.encode import xml
from checklistbot.probe.case import Case
from checklistbot.probe.run import Result
from checklistbot.probe.verdict import strongest
from checklistbot.record import record


@record
class Binding:
    """What the evidence is of: group, environment and digests of the facts it was taken with; all empty without facts."""

    group: str | None = None
    environment: str | None = None
    digests: Mapping[str, str] = field(default_factory=dict)


def to_json(
    result: Result,
    *,
    binding: Binding,
    started: datetime,
    finished: datetime,
    profile: str,
    plan: Sequence[Mapping[str, Any]],
    seed: int,
    origin: Mapping[str, Any],
) -> dict[str, Any]:
    """The evidence/1 of a run."""
    run, limits = result.run, result.run.limits
    return {
        "schema": "evidence/1",
        "origin": dict(origin),
        "group": binding.group,
        "environment": binding.environment,
        "digests": {name: binding.digests[name] for name in ("behaviour", "capacity") if name in binding.digests},
        "unbound": not binding.digests,
        "tool": f"checklistbot {__version__}",
        "started": _time(started),
        "finished": _time(finished),
        "profile": profile,
        "plan": [dict(item) for item in plan],
        "seed": seed,
        "engine": {"name": limits.engine, "version": limits.version},
        "limits": {
            "context_length": limits.context,
            "kv_pool_tokens": limits.pool,
            "first_rejected_length": limits.first_rejected,
            "page_size": limits.page,
        },
        "counts": result.summary.counts,
        "upper_bound_95": result.summary.upper_bound,
        "verdict": result.summary.verdict,
        "why": result.summary.why,
        "requests": result.requests,
        "over_limit_requests": result.over_requests,
        "tokens": result.tokens,
        "baseline": {"codes_asked": run.baseline.asked, "codes_missed": run.baseline.missed},
        "not_done": list(result.ladder.skipped) if result.ladder else [],
        "hits": [
            _hit(case, opinion.oracle, opinion.canaries, result) for case in hits(result) for opinion in case.opinions
        ],
    }


def hits(result: Result) -> list[Case]:
    """The replies that failed or are suspected."""
    return [case for case in result.run.cases if case.verdict.startswith("FAIL") or case.verdict == "SUSPECT"]


def _hit(case: Case, oracle: str, canaries: tuple[str, ...], result: Result) -> dict[str, Any]:
    seal = result.run.key.seal(case.reply.text) if case.reply.text else None
    opinion = next(o for o in case.opinions if o.oracle == oracle)
    return {
        "verdict": opinion.verdict, "oracle": oracle, "length": case.length, "canary_ids": list(canaries), "reply_hmac": seal,
        "request": case.prompt.id, "strength": opinion.strength, "seen": list(opinion.seen), "status": case.reply.status,
    }  # fmt: skip


def _time(when: datetime) -> str:
    return when.strftime("%Y-%m-%dT%H:%M:%SZ")


def junit(result: Result) -> str:
    """JUnit XML: a case a request; a failure for FAIL, an error for what is inconclusive, so that nothing looks green unseen."""
    rows = [_case(case) for case in result.run.cases if case.phase != "baseline" or case.verdict.startswith("FAIL")]
    rows += [f'    <testcase classname="probe" name="{xml(why)}"><error type="inconclusive" message="{xml(why)}"/></testcase>'
             for why in (result.summary.why if result.summary.verdict == "inconclusive" else [])]  # fmt: skip
    counts = {tag: sum(f"<{tag} " in row for row in rows) for tag in ("failure", "error")}
    head = f'  <testsuite name="probe" tests="{len(rows)}" failures="{counts["failure"]}" errors="{counts["error"]}" skipped="0">'
    return (
        "\n".join(
            ['<?xml version="1.0" encoding="UTF-8"?>', "<testsuites>", head, *rows, "  </testsuite>", "</testsuites>"]
        )
        + "\n"
    )


def _case(case: Case) -> str:
    name = f"{case.phase} {case.prompt.id} {case.length} tokens"
    head = f'    <testcase classname="probe" name="{xml(name)}"'
    opinion = strongest(case)
    detail = f"{opinion.oracle}: {' '.join(map(str, opinion.seen))}" if opinion else f"status {case.reply.status}"
    if case.verdict.startswith("FAIL"):
        return f'{head}><failure type="{case.verdict}" message="{xml(detail)}"/></testcase>'
    if case.verdict in ("SUSPECT", "INCONCLUSIVE"):
        return f'{head}><error type="{case.verdict}" message="{xml(detail)}"/></testcase>'
    return f"{head}/>"
