"""What a repository may say about findings: severities, waivers, inline ignores, the limit of the baseline (operations-and-attacks 5, 16)."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from datetime import date
from typing import TYPE_CHECKING, Final

from checklistbot.config import Config
from checklistbot.encode import Untrusted
from checklistbot.lazy import pattern
from checklistbot.model import VERDICT_ORDER, Finding, Location, UsageError, Waived
from checklistbot.record import mutable_record, record
from checklistbot.rules.base import Rule, Sources

if TYPE_CHECKING:
    from checklistbot.discovery.tree import Tree

#: Days for which a leak that was there before may stay without blocking.
BASELINE_DAYS: Final = 30
_IGNORE: Final = pattern(r"#\s*checklistbot:\s*ignore\[([a-z0-9,\s-]{1,200})\]\s*(.*)$")
_MAX_REASON: Final = 300


def known_ids(config: Config, registry: Mapping[str, Rule]) -> None:
    """Raises UsageError for a rule id in ``rules:`` or ``waivers:`` that is none of ours: a typing error must not silence nothing."""
    named = [(rule, setting.line) for rule, setting in config.rules.items()]
    named += [(waiver.rule, waiver.line) for waiver in config.waivers]
    for rule, line in named:
        if rule not in registry:
            close = difflib.get_close_matches(rule, registry, 1, 0.6)
            hint = f"; did you mean {close[0]!r}?" if close else "; see checklistbot explain"
            raise UsageError(f"{config.path}:{line}: there is no rule of that id{hint}")


def switched_off(rule: Rule, config: Config) -> bool:
    """True if the config switches the rule off and may."""
    setting = config.rules.get(rule.id)
    return setting is not None and setting.severity == "off" and rule.waivable


def with_severity(finding: Finding, rule: Rule, config: Config) -> Finding:
    """The finding with the verdict that the config sets; a rule that is not waivable can only be made graver."""
    setting = config.rules.get(rule.id)
    if setting is None or setting.severity == "off" or finding.verdict in ("pass", "note"):
        return finding
    graver = VERDICT_ORDER.index(setting.severity) < VERDICT_ORDER.index(finding.verdict)
    return finding.replace(verdict=setting.severity) if rule.waivable or graver else finding


@mutable_record
class Waivers:
    """Waivers of the config and ignores in the files, applied to findings one by one."""

    config: Config
    registry: Mapping[str, Rule]
    sources: Sources
    today: date
    #: Places of ignores that the reviewed state brings itself: they are not in force before they are merged.
    pending: list[Location] = field(default_factory=list)
    _texts: dict[tuple[bool, str], list[str]] = field(default_factory=dict)

    def apply(self, finding: Finding) -> Finding:
        """The finding, waived where a waiver or an ignore is in force and its rule allows it."""
        if finding.verdict == "pass" or not self.registry[finding.rule].waivable:
            return finding
        for waiver in self.config.waivers:
            if waiver.covers(finding.rule, finding.deployment) and waiver.in_force(self.today):
                expires = waiver.expires.isoformat() if waiver.expires else None
                return finding.replace(waived=Waived(Untrusted(waiver.reason), expires))
        reason = self._ignored(finding)
        return finding.replace(waived=Waived(Untrusted(reason), None)) if reason else finding

    def _ignored(self, finding: Finding) -> str | None:
        where = finding.location
        if where is None or where.line is None or self.sources.head is None:
            return None
        lines = self._lines(self.sources.head, where.path, head=True)
        for ignore in ignores(lines, where.line):
            if finding.rule not in ignore.rules or not ignore.reason:
                continue
            if self._merged(where.path, ignore):
                return ignore.reason
            self.pending.append(where)
        return None

    def _merged(self, path: str, ignore: Ignore) -> bool:
        """True if the ignore, with the line it stands for, is in the state whose policy is in force."""
        if not self.sources.review:
            return True
        if self.sources.policy is None:
            return False
        lines = [line.strip() for line in self._lines(self.sources.policy, path, head=False)]
        wanted = [text.strip() for text in ignore.lines]
        return any(lines[i : i + len(wanted)] == wanted for i in range(len(lines)))

    def _lines(self, tree: Tree, path: str, *, head: bool) -> list[str]:
        key = (head, path)
        if key not in self._texts:
            self._texts[key] = read_lines(tree, path)
        return self._texts[key]


def read_lines(tree: Tree, path: str) -> list[str]:
    """The lines of a file, none where it cannot be read."""
    from checklistbot.discovery.tree import Unreadable

    try:
        return tree.read(path).splitlines() if tree.exists(path) else []
    except Unreadable:
        return []


@record
class Ignore:
    """``# checklistbot: ignore[rule] reason``: the rules, the reason, and the line or lines (comment and the line below) it is part of."""

    rules: tuple[str, ...]
    reason: str
    lines: tuple[str, ...]


def ignores(lines: list[str], line: int) -> Iterator[Ignore]:
    """The ignores for a line (from 1): at its end, or alone on the line above."""
    here = lines[line - 1] if 0 < line <= len(lines) else ""
    above = lines[line - 2] if 1 < line <= len(lines) + 1 else ""
    for text, context in ((here, (here,)), (above if above.strip().startswith("#") else "", (above, here))):
        found = _IGNORE.search(text)
        if found:
            rules = tuple(rule.strip() for rule in found[1].split(","))
            yield Ignore(rules, " ".join(found[2].split())[:_MAX_REASON], context)


def limited_baseline(finding: Finding, rule: Rule, config: Config, sources: Sources, today: date) -> Finding:
    """Marks a leak that was there before and has been accepted for more than 30 days: the baseline no longer covers it.

    It counts from the later of two days: the finding's file last changed, or the config did (touching the config accepts the debt anew,
    in a change that people review). Where no history tells, the baseline holds.
    """
    if not (rule.leak and finding.verdict == "block" and finding.status == "same" and finding.location and sources.age):
        return finding
    days = [sources.age(path) for path in (finding.location.path, config.path) if path]
    since = max((day for day in days if day is not None), default=None)
    if since is None:
        return finding
    expired = (today - since).days > BASELINE_DAYS
    return finding.replace(
        parameters={**finding.parameters, "debt_since": since.isoformat(), "baseline_expired": expired}
    )


def ranked(findings: Iterable[Finding], limit: int) -> Iterator[Finding]:
    """The findings with ``folded`` set from the fourth that counts on a deployment: a property of order, nothing is left out."""
    seen: dict[str, int] = {}
    for finding in findings:
        if finding.verdict == "pass" or finding.status == "fixed" or finding.waived:
            yield finding
            continue
        rank = seen.get(finding.deployment, 0)
        seen[finding.deployment] = rank + 1
        yield finding.replace(parameters={**finding.parameters, "folded": True}) if rank >= limit else finding
