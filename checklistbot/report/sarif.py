"""SARIF 2.1.0 for code scanning: one result a finding, with a fingerprint that survives moved lines.

uris are relative to the repository and percent-encoded; a path that leaves it, or of this machine, is left out
(operations-and-attacks 39). Code scanning refuses results without a location and shows every other one as an alert,
so what passed or was mended is left out, and the rest is told as notifications: findings without a place, waived ones,
inputs that were not read, rules that did not run.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any, Final

from checklistbot import __version__, encode
from checklistbot.model import Check, Facts, Finding, Location
from checklistbot.report import places

_SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS: Final = {"block": "error", "unknown": "warning", "warn": "warning", "note": "note"}
_BASELINE: Final = {"new": "new", "worse": "updated", "same": "unchanged", "better": "updated"}


def render_check(check: Check, facts: Facts, *, language: str = "en", root: str = "") -> str:
    """The check as SARIF 2.1.0. ``root`` is PATH relative to the repository's top, for the uris."""
    wheres = [(finding, places.of(finding, facts)) for finding in _open(check)]
    located = [(finding, where) for finding, where in wheres if where is not None and finding.waived is None]
    compared = any(finding.status != "new" for finding in check.findings)
    run = {
        "tool": {"driver": _driver(check)},
        "automationDetails": {"id": "checklistbot/"},
        "columnKind": "unicodeCodePoints",
        "invocations": [
            {"executionSuccessful": True, "toolExecutionNotifications": list(_notifications(check, facts))}
        ],
        "results": [_result(finding, where, root, compared) for finding, where in located],
    }
    data = {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}
    return json.dumps(data, ensure_ascii=False, indent=2) + "\n"


def _open(check: Check) -> list[Finding]:
    return [finding for finding in check.findings if finding.verdict != "pass" and finding.status != "fixed"]


def _text(text: str, limit: int = 4_000) -> dict[str, str]:
    return {"text": encode.sarif_text(text, limit=limit) or "–"}


def rule_id(finding: Finding) -> str:
    """The rule, and the advisory below it where there is one."""
    name = f"{finding.rule}/{finding.advisory}" if finding.advisory else finding.rule
    return encode.clean(name, limit=200)


def _driver(check: Check) -> dict[str, Any]:
    first: dict[str, Finding] = {}
    for finding in _open(check):
        first.setdefault(rule_id(finding), finding)
    rules = [
        {
            "id": name,
            "shortDescription": _text(finding.advisory or finding.rule.replace("-", " ")),
            **({"helpUri": finding.url} if finding.url else {}),
            "defaultConfiguration": {"level": _LEVELS[finding.verdict]},
            "properties": {"tags": ["llm-serving"]},
        }
        for name, finding in sorted(first.items())
    ]
    dated = {"properties": {"knowledgeDate": check.knowledge_date}} if check.knowledge_date else {}
    return {"name": "checklistbot", "version": __version__, "rules": rules, **dated}


def _result(finding: Finding, where: Location, root: str, compared: bool) -> dict[str, Any]:
    parts = [finding.title, finding.message if finding.message != finding.title else ""]
    parts.append(finding.fix.text if finding.fix else "")
    result: dict[str, Any] = {
        "ruleId": rule_id(finding),
        "level": _LEVELS[finding.verdict],
        "message": _text("\n".join(part for part in parts if part)),
        "locations": [_location(where, root)],
        "partialFingerprints": {"checklistbot/v1": _fingerprint(finding, where, root)},
        "properties": {"verdict": finding.verdict, "deployment": encode.json_text(finding.deployment)},
    }
    if compared:
        result["baselineState"] = _BASELINE[finding.status]
    return result


def _location(where: Location, root: str) -> dict[str, Any]:
    place: dict[str, Any] = {"artifactLocation": {"uri": _uri(where.path, root), "uriBaseId": "%SRCROOT%"}}
    if where.line:
        place["region"] = {"startLine": where.line}
    return {"physicalLocation": place}


def _uri(path: str, root: str) -> str:
    return encode.link_target(places.full(path, root))


def _fingerprint(finding: Finding, where: Location, root: str) -> str:
    """The finding without its line and numbers: rule, deployment, file, and what tells two findings of one rule apart."""
    aspect = str(finding.parameters.get("aspect", ""))
    values = [finding.rule, finding.advisory, finding.deployment, _uri(where.path, root), *filter(None, [aspect])]
    return hashlib.sha256(json.dumps(values, ensure_ascii=True).encode()).hexdigest()


def _notifications(check: Check, facts: Facts) -> Iterator[dict[str, Any]]:
    for finding in _open(check):
        text = f"{finding.deployment}: {finding.title}"
        if finding.waived is not None:
            yield {"level": "note", "message": _text(f"waived: {text}: {finding.waived.reason}")}
        elif places.of(finding, facts) is None:
            yield {
                "level": _LEVELS[finding.verdict],
                "message": _text(text),
                "associatedRule": {"id": rule_id(finding)},
            }
    for entry in check.skipped:
        yield {"level": "warning", "message": _text(f"not read: {entry.path}: {entry.reason}")}
    for missed in check.not_run:
        yield {"level": "note", "message": _text(f"rule not run: {missed.rule}: {missed.why}")}
