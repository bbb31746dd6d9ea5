"""One file a rule; the registry is the folder. ``evaluate`` runs them all and compares head with base."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable, Iterator, Mapping
from datetime import date
from functools import cache

from checklistbot.config import Config
from checklistbot.model import VERDICT_ORDER, Check, Facts, Finding, NotRun, Skipped, Status, Waived
from checklistbot.rules.base import Context, Language, Rule


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
) -> Check:
    """All findings on ``head``, worst first, each compared with ``base`` where there is one.

    ``pairs`` maps ids of the base to ids of the head where a deployment was renamed. Without a base every finding is new.
    """
    not_run: list[NotRun] = []
    findings = list(_run(Context(head, config, language), not_run))
    if base is not None:
        before = [_renamed(f, pairs or {}) for f in _run(Context(base, config, language), [])]
        findings = list(_compared(findings, before))
    findings = [_waive(finding, config, today) for finding in findings]
    findings.sort(key=lambda f: (VERDICT_ORDER.index(f.verdict), f.status != "new", f.deployment, f.rule))
    return Check(tuple(findings), tuple(not_run), _skipped(head, base), knowledge_date())


def reaching(check: Check, fail_on: str, *, baseline: bool = True) -> tuple[Finding, ...]:
    """The findings that make a job fail under ``fail_on`` (block, unknown, warn or never): new and worse ones, with the baseline
    off all of them; waived ones never."""
    if fail_on == "never":
        return ()
    grave = VERDICT_ORDER[: VERDICT_ORDER.index(fail_on) + 1]
    statuses: tuple[Status, ...] = ("new", "worse") if baseline else ("new", "worse", "same", "better")
    return tuple(f for f in check.counted if f.verdict in grave and f.status in statuses)


def knowledge_date() -> str:
    """The day (ISO) on which the advisories were last brought up to date."""
    from checklistbot import resources

    return resources.text("knowledge", "DATE").strip()


def _run(context: Context, not_run: list[NotRun]) -> Iterator[Finding]:
    for rule in registry().values():
        setting = context.config.rules.get(rule.id)
        if setting is not None and setting.severity == "off":
            not_run.append(NotRun(rule.id, f"switched off in {context.config.path}:{setting.line}"))
            continue
        for finding in rule.evaluate(context):
            bad = finding.verdict not in ("pass", "note")
            yield finding.replace(verdict=setting.severity) if setting and bad else finding


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


def _waive(finding: Finding, config: Config, today: date) -> Finding:
    if finding.verdict == "pass":
        return finding
    for waiver in config.waivers:
        if waiver.covers(finding.rule, finding.deployment) and waiver.in_force(today):
            return finding.replace(waived=Waived(waiver.reason, waiver.expires.isoformat() if waiver.expires else None))
    return finding


def _skipped(head: Facts, base: Facts | None) -> tuple[Skipped, ...]:
    return tuple(dict.fromkeys([*head.skipped, *(base.skipped if base else ())]))
