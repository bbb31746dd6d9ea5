"""The report as a reader sees it: by deployment group, worst first; what this pull request did apart from old debt."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import PurePosixPath
from typing import Final, Literal

from checklistbot.model import Change, Check, Checklist, Deployment, Facts, Finding, LlmUse, Report, Revision, Verdict

Standing = Literal["block", "unknown", "warn", "pass"]
_STANDINGS: Final[tuple[Standing, ...]] = ("block", "unknown", "warn", "pass")
_ROLES: Final = ("prefill", "decode", "unified")
#: Of findings equally grave the one that says what happens to people comes first, then its causes.
_RULES: Final = (
    "disaggregated-pair-mismatch",
    "engine-below-fixed-version",
    "kv-pool-below-context",
    "kv-pool-unknown",
    "isolation",
)
ENGINE_NAMES: Final = {
    "sglang": "SGLang",
    "vllm": "vLLM",
    "tensorrt-llm": "TensorRT-LLM",
    "lmdeploy": "LMDeploy",
    "tgi": "TGI",
    "ollama": "Ollama",
}


def is_debt(finding: Finding) -> bool:
    """True if the finding was there before this pull request."""
    return finding.status in ("same", "better")


def expired(finding: Finding) -> bool:
    """True for a leak that has stayed longer than the baseline covers: it fails the job although it is not new."""
    return finding.parameters.get("baseline_expired") is True


def weight(finding: Finding) -> Standing:
    """How much a finding counts here: a block that was there before warns, unless its baseline has run out; a note counts as nothing."""
    if (
        finding.waived is not None
        or finding.status == "fixed"
        or finding.verdict == "pass"
        or finding.verdict == "note"
    ):
        return "pass"
    if finding.verdict == "block" and is_debt(finding) and not expired(finding):
        return "warn"
    return finding.verdict


def gravest(standings: Iterable[Standing]) -> Standing:
    found = set(standings)
    return next(standing for standing in _STANDINGS if standing in found or standing == "pass")


def gravity(finding: Finding) -> tuple[int, int, int]:
    """A sort key: worst first, new before old, what happens before why."""
    rank = _RULES.index(finding.rule) if finding.rule in _RULES else len(_RULES)
    return _STANDINGS.index(weight(finding)), int(is_debt(finding)), rank


@dataclass(frozen=True)
class Group:
    """One served model in one environment, with what was found and changed; no ``members`` where the head lacks it."""

    environment: str
    name: str
    members: tuple[Deployment, ...] = ()
    findings: tuple[Finding, ...] = ()
    changes: tuple[Change, ...] = ()

    @property
    def key(self) -> str:
        return f"{self.environment}/{self.name}"

    @cached_property
    def standing(self) -> Standing:
        return gravest(weight(finding) for finding in self.findings)

    @cached_property
    def grave(self) -> tuple[Finding, ...]:
        """The findings that count, worst first."""
        return tuple(sorted((f for f in self.findings if weight(f) != "pass"), key=gravity))

    @cached_property
    def light(self) -> tuple[Finding, ...]:
        """Notes, passes, waived and mended findings."""
        return tuple(f for f in self.findings if weight(f) == "pass")

    @property
    def worst(self) -> Finding | None:
        return self.grave[0] if self.grave else None

    @property
    def roles(self) -> tuple[str, ...]:
        """The roles in the order of a request's way; none where one unified server is all."""
        found = {str(member.role.value) for member in self.members if member.role.known}
        ordered = [role for role in _ROLES if role in found] + sorted(found - set(_ROLES))
        return () if ordered == ["unified"] else tuple(ordered)


@dataclass(frozen=True)
class View:
    """The report by group, worst first, and the shortest unambiguous name of each path in it."""

    report: Report
    groups: tuple[Group, ...]
    loose: tuple[Finding, ...] = ()  # findings on no group that is known
    names: dict[str, str] = field(default_factory=dict)

    @cached_property
    def findings(self) -> tuple[Finding, ...]:
        return tuple(sorted(self.report.check.findings, key=gravity))

    @cached_property
    def standing(self) -> Standing:
        return gravest(weight(finding) for finding in self.findings)

    @property
    def worst(self) -> Finding | None:
        first = next(iter(self.findings), None)
        return first if first is not None and weight(first) != "pass" else None

    @property
    def plain(self) -> bool:
        """True for a check of one state: there is no pull request to speak of."""
        return self.report.head.ref is None and self.report.head.commit is None

    def group_of(self, finding: Finding) -> Group | None:
        return next((group for group in self.groups if finding in group.findings), None)

    @property
    def deployments(self) -> tuple[Deployment, ...]:
        return self.report.head_facts.deployments

    @cached_property
    def environments(self) -> int:
        return len({deployment.environment for deployment in self.deployments})

    def new(self) -> Counter[Verdict]:
        """How many counted findings are new or worse, by verdict."""
        return Counter(f.verdict for f in self.report.check.counted if not is_debt(f) and weight(f) != "pass")

    def debt(self) -> tuple[Finding, ...]:
        """What was there before, worst first, notes and passes left out."""
        old = [f for f in self.report.check.counted if is_debt(f) and f.verdict not in ("pass", "note")]
        return tuple(sorted(old, key=lambda f: (f.verdict != "block", f.verdict != "unknown")))


def by_role(members: Iterable[Deployment]) -> tuple[Deployment, ...]:
    """Prefill, decode, unified; equal roles by id."""

    def key(member: Deployment) -> tuple[int, str]:
        role = str(member.role.value)
        return (_ROLES.index(role) if role in _ROLES else len(_ROLES), member.id)

    return tuple(sorted(members, key=key))


def view(report: Report) -> View:
    """The report by group."""
    keys = _group_keys(report)
    groups: list[Group] = []
    placed: set[int] = set()
    # A finding on a whole group names it "environment/group".
    owners = {**{"/".join(key): key for key in keys.values()}, **keys}
    for key in dict.fromkeys(keys.values()):
        findings = [f for f in report.check.findings if owners.get(f.deployment) == key]
        placed.update(map(id, findings))
        members = [d for d in report.head_facts.deployments if (d.environment, d.group) == key]
        changes = [change for change in report.changes if keys.get(change.deployment) == key]
        ordered = by_role(members)
        place = {member.id: n for n, member in enumerate(ordered)}
        changes.sort(key=lambda change: place.get(change.deployment, len(place)))
        groups.append(Group(*key, ordered, tuple(findings), tuple(changes)))
    groups.sort(key=lambda group: (_STANDINGS.index(group.standing), not group.changes))
    loose = tuple(f for f in report.check.findings if id(f) not in placed)
    shown = tuple(group for group in groups if group.members or group.findings or group.changes)
    return View(report, shown, loose, short_names(_paths(report)))


def _group_keys(report: Report) -> dict[str, tuple[str, str]]:
    """Deployment id → (environment, group), of head and base."""
    facts = [report.head_facts, *([report.base_facts] if report.base_facts else [])]
    return {d.id: (d.environment, d.group) for state in facts for d in state.deployments}


def _paths(report: Report) -> Iterable[str]:
    for deployment in report.head_facts.deployments:
        yield from filter(None, [deployment.file])
        yield from (fact.source.path for _, fact in deployment.facts() if fact.source and fact.source.path)
    for finding in report.check.findings:
        yield from ([finding.location.path] if finding.location else [])
        yield from (edit.path for edit in (finding.fix.edits if finding.fix else ()))
        yield from (b.source.path for b in finding.because if b.source and b.source.path)
    yield from (change.source.path for change in report.changes if change.source and change.source.path)


def short_names(paths: Iterable[str]) -> dict[str, str]:
    """Each path's shortest ending that no other path has: prefill.yaml, or prod/values.yaml beside staging's."""
    known = sorted(set(map(str, paths)))
    parts = {path: PurePosixPath(path).parts or (path,) for path in known}
    endings = Counter(p[-n:] for p in parts.values() for n in range(1, min(len(p), 6) + 1))
    return {path: _shortest(p, endings) for path, p in parts.items()}


def _shortest(parts: Sequence[str], endings: Counter[tuple[str, ...]]) -> str:
    for n in range(1, min(len(parts), 6) + 1):
        if endings[tuple(parts[-n:])] == 1:
            return "/".join(parts[-n:])
    return "/".join(parts)


def check_report(check: Check, facts: Facts) -> Report:
    """A report that holds a check only: nothing was compared, nothing drafted."""
    return Report(
        base=None,
        head=Revision(None, None),
        base_facts=Facts() if any(finding.status != "new" for finding in check.findings) else None,
        head_facts=facts,
        changes=(),
        check=check,
        checklist=Checklist("en", "builtin", None, ()),
        scripts=(),
        llm=LlmUse(),
        tool="checklistbot",
    )
