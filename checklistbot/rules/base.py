"""What every rule file offers, and what a rule may look at."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from checklistbot.config import Config, DeploymentEntry
from checklistbot.model import Because, Deployment, Facts, Finding, Location, Scalar, Status, Verdict, VERDICT_ORDER

Language = Literal["en", "ko"]


@dataclass(frozen=True, slots=True)
class Context:
    """One state of a repository as a rule sees it. Policy comes from ``config``; texts come in ``language``."""

    facts: Facts
    config: Config
    language: Language = "en"

    def groups(self) -> Iterator[tuple[str, tuple[Deployment, ...]]]:
        """"environment/group" and its members."""
        for (environment, group), members in self.facts.groups().items():
            yield f"{environment}/{group}", members

    def entry(self, deployment: Deployment) -> DeploymentEntry | None:
        return self.config.entry_for(deployment)


def by_verdict(base: Finding, head: Finding) -> Status:
    """The usual comparison: a graver verdict is worse, a lighter one better."""
    before, after = VERDICT_ORDER.index(base.verdict), VERDICT_ORDER.index(head.verdict)
    return "worse" if after < before else "better" if after > before else "same"


@dataclass(frozen=True, slots=True)
class Rule:
    """One deterministic check. ``evaluate`` yields findings, "pass" ones included: they say what was proven.

    ``compare`` tells whether a finding that the base has as well got worse. ``subsumes`` names the advisories whose cause this rule
    reports itself: one cause, one finding. ``summary`` is the first sentence of the rule's page, ``page`` its other paragraphs, by language.
    """

    id: str
    summary: Mapping[Language, str]
    evaluate: Callable[[Context], Iterable[Finding]]
    compare: Callable[[Finding, Finding], Status] = by_verdict
    subsumes: tuple[str, ...] = ()
    page: Mapping[Language, tuple[str, ...]] = field(default_factory=dict)


def number(value: int | float) -> str:
    """Tokens as people read them: 1,048,576."""
    return f"{value:,}"


def because(deployment: Deployment, *names: str) -> tuple[Because, ...]:
    """The facts of that name, as a finding cites them."""
    return tuple(Because(name, deployment.fact(name).value, deployment.fact(name).source) for name in names)


def location(deployment: Deployment, *names: str) -> Location | None:
    """The line of the first of these facts that a file of the repository declares, else the launch line."""
    for name in names:
        source = deployment.fact(name).source
        if source and source.path and source.kind == "declared":
            return Location(source.path, source.line)
    return Location(deployment.file, deployment.line) if deployment.file else None


def found(
    rule: str,
    verdict: Verdict,
    deployment: str,
    text: tuple[str, str],
    *,
    where: Location | None = None,
    why: tuple[Because, ...] = (),
    parameters: Mapping[str, Scalar | None] | None = None,
    advisory: str | None = None,
) -> Finding:
    """A finding from (title, message); parameters that are None are left out."""
    title, message = text
    known = {key: value for key, value in (parameters or {}).items() if value is not None}
    return Finding(rule, verdict, deployment, title, message, where, advisory, because=why, parameters=known)


def page_of(deployment: Deployment) -> int:
    """Page size in tokens; 1 where nothing says it, which is SGLang's default (facts: sglang.md 3)."""
    return deployment.page_size.number() or 1


def reserve_of(deployment: Deployment) -> int:
    """Tokens that an SGLang decode worker keeps free for a request's output: --num-reserved-decode-tokens, 512 if not given
    (facts: sglang.md 3)."""
    flag = deployment.flag("num-reserved-decode-tokens")
    if flag is not None and isinstance(flag.value, (int, str)) and str(flag.value).isdigit():
        return int(flag.value)
    return 512


def safe_context(members: Iterable[Deployment]) -> int | None:
    """The longest context length in tokens that every role of a group can hold: smallest pool − page size − decode reserve
    (facts: sglang.md 4.6). None while a pool is unknown or too small to leave anything."""
    pools = []
    reserve = 0
    page = 1
    for deployment in members:
        pool = deployment.kv_pool_tokens.number()
        if pool is None:
            return None
        pools.append(pool)
        page = max(page, page_of(deployment))
        if deployment.disaggregated:
            reserve = max(reserve, reserve_of(deployment))
    length = min(pools, default=0) - page - reserve
    return length if length > 0 else None
