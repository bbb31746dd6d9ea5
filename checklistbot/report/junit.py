"""JUnit XML: a suite a deployment group, a case a finding.

A block fails, an unknown is an error unless it was there before: a case that is neither would look green. A warning
passes and says so in its output; what was there before, or is waived, is skipped with its reason.
"""

from __future__ import annotations

from collections.abc import Iterable

from checklistbot.encode import xml
from checklistbot.model import Check, Facts, Finding, NotRun
from checklistbot.report.view import check_report, expired, is_debt, view


def render_check(check: Check, facts: Facts, *, language: str = "en") -> str:
    """The check as JUnit XML in UTF-8."""
    seen = view(check_report(check, facts))
    suites = [_suite(group.key, [_case(f) for f in (*group.grave, *group.light)]) for group in seen.groups]
    other = [_case(finding) for finding in seen.loose] + [_not_run(entry) for entry in check.not_run]
    if check.skipped:
        other += [_unread(entry.path, entry.reason) for entry in check.skipped]
    if other:
        suites.append(_suite("checklistbot", other))
    dated = f"<!-- advisories of {xml(check.knowledge_date, limit=20)} -->" if check.knowledge_date else ""
    rows = ['<?xml version="1.0" encoding="UTF-8"?>', *filter(None, [dated]), "<testsuites>", *suites, "</testsuites>"]
    return "\n".join(rows) + "\n"


def _suite(name: str, cases: Iterable[str]) -> str:
    cases = list(cases)
    counts = {tag: sum(f"<{tag} " in case for case in cases) for tag in ("failure", "error", "skipped")}
    head = (
        f'  <testsuite name="{xml(name, limit=300)}" tests="{len(cases)}" failures="{counts["failure"]}" '
        f'errors="{counts["error"]}" skipped="{counts["skipped"]}">'
    )
    return "\n".join([head, *cases, "  </testsuite>"])


def _case(finding: Finding) -> str:
    rule = f"{finding.rule}/{finding.advisory}" if finding.advisory else finding.rule
    where = f"{finding.location}: " if finding.location else ""
    text = where + finding.message + (f"\n{finding.fix.text}" if finding.fix else "")
    return _xml_case(finding.deployment, rule, _outcome(finding, text))


def _outcome(finding: Finding, text: str) -> str:
    title = xml(finding.title, limit=300)
    if finding.waived is not None:
        return f'<skipped message="waived: {xml(finding.waived.reason, limit=300)}"/>'
    if finding.status == "fixed" or finding.verdict in ("pass", "note"):
        return ""
    if is_debt(finding) and finding.verdict in ("block", "unknown") and not expired(finding):
        return f'<skipped message="{finding.verdict}, already there: {title}"/>'
    if finding.verdict == "block":
        return f'<failure type="block" message="{title}">{xml(text)}</failure>'
    if finding.verdict == "unknown":
        return f'<error type="not-proven" message="{title}">{xml(text)}</error>'
    return f"<system-out>warning: {title}: {xml(text)}</system-out>"


def _xml_case(deployment: str, name: str, inner: str) -> str:
    head = f'    <testcase classname="{xml(deployment, limit=300)}" name="{xml(name, limit=300)}"'
    return f"{head}>{inner}</testcase>" if inner else f"{head}/>"


def _not_run(entry: NotRun) -> str:
    return _xml_case("checklistbot", entry.rule, f'<skipped message="not run: {xml(entry.why, limit=300)}"/>')


def _unread(path: str, reason: str) -> str:
    return _xml_case("checklistbot", f"read {path}", f'<skipped message="not read: {xml(reason, limit=300)}"/>')
