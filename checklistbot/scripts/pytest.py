"""The pytest target: one file, one test an item, with the standard library only; requests go to ``checklistbot probe``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from checklistbot.model import Checklist, Facts, Scalar, Script
from checklistbot.record import record
from checklistbot.scripts import Target
from checklistbot.scripts._filters import config_lines, template
from checklistbot.scripts._steps import REQUESTS, Requests, Step, requests, steps

PATH: Final = "test_checklistbot.py"


@record
class _Test:
    """One test function: the library function it calls, its arguments, and the number of its plan ("" if it has none)."""

    function: str
    does: str
    arguments: tuple[Scalar, ...]
    plan: str = ""


def render(checklist: Checklist, facts: Facts) -> tuple[Script, ...]:
    """One Python file that pytest runs, with 0, 1 or 3 as its exit code."""
    found = steps(checklist, facts)
    groups = {group.router: (f"PLAN_{n:02d}", group) for n, group in enumerate(requests(found), 1)}
    text = template("pytest.py.j2").render(
        digests=config_lines(facts),
        defaults=sorted(_defaults(found).items()),
        plans=[(name, _plan(group)) for name, group in groups.values()],
        calls=[_test(step, groups.get(step.worker.router)) for step in found],
    )
    return (Script("pytest", PATH, text),)


def _plan(group: Requests) -> str:
    items = [{"id": step.id, "automation": dict(step.automation)} for step in group.items]
    return json.dumps({"schema": "plan/1", "items": items}, separators=(",", ":"), sort_keys=True, ensure_ascii=True)


def _defaults(found: tuple[Step, ...]) -> dict[str, str]:
    """Logs and numbers that the facts give, by the variable that overrides them."""
    values: dict[str, str] = {}
    for step in found:
        if step.worker.log:
            values[f"{step.worker.prefix}_LOG"] = step.worker.log
        wanted = step.automation.get("to")
        if step.kind == "assert-fact" and isinstance(wanted, str):
            values[_variable(step, wanted)] = str(step.worker.facts.get(wanted, ""))
    return values | dict(filter(None, (group.context for group in requests(found))))


def _variable(step: Step, fact: str) -> str:
    return f"{step.worker.prefix}_{fact.upper()}"


def _test(step: Step, group: tuple[str, Requests] | None) -> _Test:
    function = f"test_{step.function.removeprefix('check_')}"
    if step.kind in REQUESTS and group is not None:
        plan, requested = group
        evidence = f"evidence-{requested.router.lower().replace('_', '-')}.json"
        context, _ = requested.context or ("", "")
        return _Test(function, "requests", (step.id, f"{requested.router}_URL", context, evidence), plan)
    does, *arguments = _call(step)
    return _Test(function, str(does), tuple(arguments))


def _call(step: Step) -> Iterator[Any]:
    automation, worker = step.automation, step.worker
    if step.kind == "assert-fact":
        wanted = automation["to"]
        yield from ("assert_fact", step.id, worker.engine, worker.prefix, automation["fact"], automation["op"])
        yield from (automation["from"], _variable(step, wanted) if isinstance(wanted, str) else wanted)
    elif step.kind == "assert-version":
        yield from ("assert_version", step.id, automation["engine"], worker.prefix, automation["min"])
    elif step.kind == "flag-present":
        value = automation.get("value")
        yield from ("flag_present", step.id, worker.engine, worker.prefix)
        yield from (str(automation["flag"]).lstrip("-").replace("-", "_"), "" if value is None else str(value))
    elif step.kind == "health-and-metrics":
        yield from ("health_and_metrics", step.id, worker.prefix, *automation["metrics"])
    elif step.kind == "manual":
        yield from ("by_hand", step.id)
    else:
        yield from ("cannot", step.id, step.kind)


TARGET: Final = Target("pytest", render)
