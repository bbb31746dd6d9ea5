"""Annotations: the lines of a pull request that a finding is about, as workflow commands and in a check run's form.

Of workflow commands GitHub shows ten of each kind a step and drops the rest silently, so the tenth says how many there
are; a check run takes fifty a request.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, Final

from checklistbot.encode import clean, redact, terminal, workflow_data, workflow_property
from checklistbot.model import Check, Facts, Finding, Location
from checklistbot.report import describe, places
from checklistbot.report.headline import headline
from checklistbot.report.view import check_report, gravity, view, weight
from checklistbot.report.words import Language, Words, plain

MAX_OF_A_KIND: Final = 10
MAX_OF_A_CHECK_RUN: Final = 50
_LEVELS: Final = {"block": "failure", "unknown": "warning", "warn": "warning", "pass": "notice"}
_KINDS: Final = {"block": "error", "unknown": "warning", "warn": "warning", "pass": "notice"}


def render_check(check: Check, facts: Facts, *, language: Language, root: str = "") -> str:
    """The verdict line, at most ten errors, ten warnings and ten notices, and the counts. ``root``: PATH in the repository."""
    head = headline(view(check_report(check, facts)), Words(language))
    counts = [terminal(plain(line)) for line in head.lines[-1:]]
    shown = commands(check, facts, language=language, root=root)
    return "\n".join([terminal(plain(head.title)), *shown, *counts]) + "\n"


def commands(check: Check, facts: Facts, *, language: Language, root: str = "") -> Iterator[str]:
    """The workflow commands, errors first. What was there before this pull request is at most a warning."""
    shown = [f for f in check.counted if weight(f) != "pass" or f.verdict == "note"]
    shown.sort(key=gravity)
    words = Words(language)
    for kind in ("error", "warning", "notice"):
        of_kind = [finding for finding in shown if _KINDS[weight(finding)] == kind]
        full = len(of_kind) > MAX_OF_A_KIND
        for finding in of_kind[: MAX_OF_A_KIND - 1 if full else MAX_OF_A_KIND]:
            yield _command(kind, finding, places.of(finding, facts), root)
        if full:
            more = plain(words.line("headline.and_more", n=len(of_kind) - MAX_OF_A_KIND + 1))
            yield f"::{kind} title=checklistbot::{workflow_data(more)}"


def brought(check: Check) -> Check:
    """The check with those findings only that this change brought: the lines of others are none of its author's business."""
    return dataclasses.replace(check, findings=tuple(f for f in check.findings if f.status in ("new", "worse")))


def for_check_run(check: Check, facts: Facts, *, root: str = "") -> list[dict[str, Any]]:
    """The findings that this change brought, worst first, as GitHub's check runs take them: at most fifty.

    GitHub shows title and message as plain text.
    """
    shown = sorted((f for f in brought(check).counted if weight(f) != "pass"), key=gravity)
    placed = [(finding, places.of(finding, facts)) for finding in shown]
    return [
        _annotation(finding, where, root) for finding, where in placed if where is not None and where.line is not None
    ][:MAX_OF_A_CHECK_RUN]


def _annotation(finding: Finding, where: Location, root: str) -> dict[str, Any]:
    text = finding.message + (f"\n{finding.fix.text}" if finding.fix else "")
    return {
        "path": redact(clean(places.full(where.path, root), limit=1_000)),
        "start_line": where.line,
        "end_line": where.line,
        "annotation_level": _LEVELS[weight(finding)],
        "title": redact(clean(finding.title, limit=250)),
        "message": redact(f"{clean(text, limit=4_000)} ({describe.rule(finding)})"),
    }


def _command(kind: str, finding: Finding, where: Location | None, root: str) -> str:
    properties = []
    if where is not None:
        path = workflow_property(places.full(where.path, root))
        properties += [f"file={path}"] if path else []
        properties += [f"line={where.line}"] if path and where.line else []
    properties.append(f"title={workflow_property(f'checklistbot: {finding.title}')}")
    text = finding.message + (f"\n{finding.fix.text}" if finding.fix else "")
    return f"::{kind} {','.join(properties)}::{workflow_data(text)} ({workflow_data(describe.rule(finding))})"
