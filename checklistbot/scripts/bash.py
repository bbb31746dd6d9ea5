"""The bash target: one file for any CI. It needs bash, curl and jq; requests go to ``checklistbot probe``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from checklistbot.model import Checklist, Facts, Script
from checklistbot.record import record
from checklistbot.scripts import Target
from checklistbot.scripts._filters import digest, template
from checklistbot.scripts._steps import REQUESTS, Requests, Step, Worker, requests, steps

PATH: Final = "checklistbot.sh"


def render(checklist: Checklist, facts: Facts) -> tuple[Script, ...]:
    """One executable bash script that does the automations and ends with 0, 1 or 3."""
    found = steps(checklist, facts)
    text = template("bash.sh.j2").render(
        digests=list(_digests(facts)),
        defaults=list(_defaults(found)),
        calls=[_call(step) for step in found if step.kind not in REQUESTS],
        requests=[_requests(group) for group in requests(found)],
    )
    return (Script("bash", PATH, text),)


def _digests(facts: Facts) -> Iterator[tuple[str, str]]:
    """(environment/group, config digest) for the header, sorted; what is no digest is left out."""
    for key, digests in sorted(facts.digests.items()):
        try:
            yield key, digest(digests.get("config", ""))
        except ValueError:
            continue


@record
class _Default:
    """A variable that the caller may set, and what it is otherwise."""

    name: str
    value: str


def _defaults(found: tuple[Step, ...]) -> Iterator[_Default]:
    """Every variable once, in the order of the steps: addresses, logs, the numbers that facts give."""
    seen: dict[str, str] = {}
    for step in found:
        if step.kind in REQUESTS:
            seen.setdefault(f"{step.worker.router}_URL", "")
            continue
        if step.kind == "manual":
            continue
        seen.setdefault(f"{step.worker.prefix}_URL", "")
        if step.automation.get("from") == "log" or step.kind == "flag-present":
            seen.setdefault(f"{step.worker.prefix}_LOG", step.worker.log)
        wanted = step.automation.get("to")
        if isinstance(wanted, str):
            seen.setdefault(_fact_variable(step.worker, wanted), str(step.worker.facts.get(wanted, "")))
    seen |= {
        name: seen.get(name) or value for name, value in filter(None, (group.context for group in requests(found)))
    }
    yield from (_Default(name, value) for name, value in seen.items())


def _fact_variable(worker: Worker, fact: str) -> str:
    return f"{worker.prefix}_{fact.upper()}"


@record
class _Call:
    """One check: the function, the library function it calls, and its arguments, quoted by the template."""

    function: str
    does: str
    arguments: tuple[str, ...]
    variable: str = ""


def _call(step: Step) -> _Call:
    automation, worker = step.automation, step.worker
    head = (step.id, worker.engine, worker.prefix)
    if step.kind == "assert-fact":
        wanted = automation["to"]
        named = isinstance(wanted, str)
        rest = (automation["fact"], automation["op"], automation["from"])
        return _Call(step.function, "assert_fact", (*head, *map(str, rest)) + (() if named else (str(wanted),)),
                     _fact_variable(worker, wanted) if named else "")  # fmt: skip
    if step.kind == "assert-version":
        return _Call(
            step.function, "assert_version", (step.id, str(automation["engine"]), worker.prefix, str(automation["min"]))
        )
    if step.kind == "flag-present":
        flag = str(automation["flag"]).lstrip("-").replace("-", "_")
        return _Call(step.function, "flag_present", (*head, flag, _flag_value(automation.get("value"))))
    if step.kind == "health-and-metrics":
        return _Call(step.function, "health_and_metrics", (step.id, worker.prefix, *map(str, automation["metrics"])))
    if step.kind == "manual":
        return _Call(step.function, "by_hand", (step.id,))
    return _Call(step.function, "cannot", (step.id, step.kind))


def _flag_value(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else str(value)


@record
class _Plan:
    function: str
    variable: str
    context: str
    evidence: str
    plan: str
    ids: tuple[str, ...]


def _requests(group: Requests) -> _Plan:
    items = [{"id": step.id, "automation": dict(step.automation)} for step in group.items]
    plan = json.dumps({"schema": "plan/1", "items": items}, separators=(",", ":"), sort_keys=True, ensure_ascii=True)
    evidence = f"evidence-{group.router.lower().replace('_', '-')}.json"
    context, _ = group.context or ("", "")
    ids = tuple(step.id for step in group.items)
    return _Plan(group.function, f"{group.router}_URL", context, evidence, plan, ids)


TARGET: Final = Target("bash", render)
