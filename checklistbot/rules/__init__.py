"""One file a rule; the registry is the folder. ``evaluate`` runs them all, compares head with base, and applies the policy."""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime
from functools import cache
from typing import Any, Final

from checklistbot.config import Config
from checklistbot.model import VERDICT_ORDER, Check, Facts, Finding, NotRun, PolicyState, Skipped, Status
from checklistbot.rules import _pages as pages
from checklistbot.rules import _policy as policy
from checklistbot.rules._override import Call, judge
from checklistbot.rules.base import Context, Language, Rule, Sources

#: Findings of one deployment that are shown before the fold (operations-and-attacks 14).
BEFORE_FOLD: Final = 3
_NO_SOURCES: Final = Sources()

__all__ = [
    "BEFORE_FOLD",
    "Call",
    "Context",
    "Rule",
    "Sources",
    "evaluate",
    "failing",
    "fold",
    "knowledge_date",
    "override",
    "reaching",
    "registry",
]


@cache
def registry() -> dict[str, Rule]:
    """All rules by id, read from the folder."""
    modules = sorted(m.name for m in pkgutil.iter_modules(__path__) if m.name != "base" and not m.name.startswith("_"))
    rules = [importlib.import_module(f"{__name__}.{name}").RULE for name in modules]
    return {rule.id: rule for rule in rules}


def evaluate(
    head: Facts,
    config: Config,
    *,
    language: Language = "en",
    base: Facts | None = None,
    pairs: Mapping[str, str] | None = None,
    today: date,
    sources: Sources = _NO_SOURCES,
    evidence: tuple[Mapping[str, Any], ...] = (),
) -> Check:
    """All findings on ``head``, worst first, each compared with ``base`` where there is one.

    ``pairs`` maps ids of the base to ids of the head where a deployment was renamed. Without a base every finding is new. ``sources``
    are the files behind the facts, ``evidence`` probe results (evidence/1). Raises UsageError where the config names a rule that does
    not exist.
    """
    from checklistbot.rules import waiver_not_in_force

    policy.known_ids(config, registry())
    names = pairs or {}
    not_run: list[NotRun] = []
    context = Context(head, config, language, base, names, today, sources.head, evidence)
    findings = list(_run(context, not_run))
    if base is not None:
        before = Context(base, config, language, today=today, tree=sources.base, evidence=evidence)
        findings = list(_compared(findings, [_renamed(f, names) for f in _run(before, [])]))
    waivers = policy.Waivers(config, registry(), sources, today)
    findings = [
        waivers.apply(policy.limited_baseline(finding, registry()[finding.rule], config, sources, today))
        for finding in findings
    ]
    findings += waiver_not_in_force.pending(waivers.pending, language)
    findings = [f.replace(url=pages.address(f.rule, f.advisory, language)) for f in findings]
    if not config.baseline:
        findings = [f.replace(status="new") if f.status in ("same", "better") else f for f in findings]
    findings.sort(key=_order)
    return Check(
        tuple(policy.ranked(findings, BEFORE_FOLD)),
        tuple(not_run),
        _skipped(head, base),
        knowledge_date(),
        _state(config, today),
    )


def _state(config: Config, today: date) -> PolicyState:
    until = config.observe_until.isoformat() if config.observe_until and observing(config, today) else None
    return PolicyState(until, config.baseline)


def override(check: Check, calls: Sequence[Call], config: Config, *, head: str, now: datetime) -> Check:
    """The check with the break-glass that these calls amount to (operations-and-attacks 16): ``failing`` then finds nothing while it
    holds. ``head`` is the commit that is judged, ``now`` in UTC."""
    blocking = reaching(check, config.fail_on, baseline=config.baseline)
    found = judge(calls, blocking, registry(), head=head, now=now)
    return dataclasses.replace(
        check, policy=dataclasses.replace(check.policy, override=found, override_label=config.override_label)
    )


def _order(finding: Finding) -> tuple[int, bool, bool, str, str]:
    folded = bool(finding.parameters.get("folded"))
    return (VERDICT_ORDER.index(finding.verdict), folded, finding.status != "new", finding.deployment, finding.rule)


def reaching(check: Check, fail_on: str, *, baseline: bool = True) -> tuple[Finding, ...]:
    """The findings that make a job fail under ``fail_on`` (block, unknown, warn or never): new and worse ones, leaks whose baseline
    has run out (30 days), with the baseline off all of them; waived ones never."""
    if fail_on == "never":
        return ()
    grave = VERDICT_ORDER[: VERDICT_ORDER.index(fail_on) + 1]
    statuses: tuple[Status, ...] = ("new", "worse") if baseline else ("new", "worse", "same", "better")
    counted = (f for f in check.counted if f.verdict in grave)
    return tuple(f for f in counted if f.status in statuses or f.parameters.get("baseline_expired") is True)


def failing(check: Check, config: Config, today: date, *, fail_on: str | None = None) -> tuple[Finding, ...]:
    """``reaching`` under the config's ``fail_on``, ``baseline`` and ``observe_until``: up to and on that day nothing fails, nor while an
    override holds."""
    if observing(config, today) or (check.policy.override is not None and check.policy.override.in_force):
        return ()
    return reaching(check, fail_on or config.fail_on, baseline=config.baseline)


def observing(config: Config, today: date) -> bool:
    """True while ``observe_until`` keeps every result from failing a job."""
    return config.observe_until is not None and today <= config.observe_until


def fold(check: Check) -> tuple[tuple[Finding, ...], tuple[Finding, ...]]:
    """(shown, folded): at most three findings a deployment are shown, the others follow behind a fold; passed ones are in neither."""
    listed = [f for f in check.findings if f.verdict != "pass"]
    shown = tuple(f for f in listed if f.parameters.get("folded") is not True)
    return shown, tuple(f for f in listed if f.parameters.get("folded") is True)


def knowledge_date() -> str:
    """The day (ISO) on which the advisories were last brought up to date."""
    from checklistbot import resources

    return resources.text("knowledge", "DATE").strip()


def _run(context: Context, not_run: list[NotRun]) -> Iterator[Finding]:
    for rule in registry().values():
        if policy.switched_off(rule, context.config):
            setting = context.config.rules[rule.id]
            not_run.append(NotRun(rule.id, f"switched off in {context.config.path}:{setting.line}"))
            continue
        for finding in rule.evaluate(context):
            yield policy.with_severity(finding, rule, context.config)


def _renamed(finding: Finding, pairs: Mapping[str, str]) -> Finding:
    deployment = pairs.get(finding.deployment)
    return finding.replace(deployment=deployment) if deployment else finding


def _compared(head: Iterable[Finding], base: Iterable[Finding]) -> Iterator[Finding]:
    before = {finding.key: finding for finding in base}
    for finding in head:
        old = before.pop(finding.key, None)
        if old is None or old.verdict == "pass":
            yield finding.replace(status="new" if finding.verdict != "pass" or old is None else "same")
        elif finding.verdict == "pass":
            yield old.replace(status="fixed")
            yield finding.replace(status="better")
        else:
            yield finding.replace(status=registry()[finding.rule].compare(old, finding))
    for old in before.values():
        if old.verdict != "pass":
            yield old.replace(status="fixed")


def _skipped(head: Facts, base: Facts | None) -> tuple[Skipped, ...]:
    return tuple(dict.fromkeys([*head.skipped, *(base.skipped if base else ())]))
