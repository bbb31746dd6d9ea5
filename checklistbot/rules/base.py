"""What every rule file offers, and what a rule may look at."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field
from datetime import date
from typing import TYPE_CHECKING, Any, Literal

from checklistbot.config import Config, DeploymentEntry
from checklistbot.model import VERDICT_ORDER, Because, Deployment, Facts, Finding, Location, Scalar, Status, Verdict
from checklistbot.record import record

if TYPE_CHECKING:
    from checklistbot.discovery.tree import Tree

Language = Literal["en", "ko"]


@record
class Sources:
    """The files behind the facts, for the few rules that read more than facts, and for inline ignores.

    ``head`` is the state that is judged, ``base`` what it is compared with, ``policy`` the state whose ignores are in force (None: the
    head's own, outside a pull request). ``age`` gives, for a path, the day on which its file last changed in the base, or None.
    """

    head: Tree | None = None
    base: Tree | None = None
    policy: Tree | None = None
    review: bool = False
    age: Callable[[str], date | None] | None = None


@record
class Context:
    """One state of a repository as a rule sees it. Policy comes from ``config``; texts come in ``language``."""

    facts: Facts
    config: Config
    language: Language = "en"
    #: The state that ``facts`` is compared with, None where there is none; ``pairs`` maps renamed ids of it to ids of ``facts``.
    base: Facts | None = None
    pairs: Mapping[str, str] = field(default_factory=dict)
    today: date | None = None
    tree: Tree | None = None
    #: Probe results (evidence/1) that were named, as JSON.
    evidence: tuple[Mapping[str, Any], ...] = ()
    #: What one rule worked out and another needs as well.
    memo: dict[str, Any] = field(default_factory=dict, compare=False)

    def groups(self) -> Iterator[tuple[str, tuple[Deployment, ...]]]:
        """ "environment/group" and its members."""
        for (environment, group), members in self.facts.groups().items():
            yield f"{environment}/{group}", members

    def entry(self, deployment: Deployment) -> DeploymentEntry | None:
        return self.config.entry_for(deployment)

    def upstream_limit(self, deployment: Deployment) -> int | None:
        """The longest prompt in tokens that the gateway in front lets through, as the config declares it."""
        entry = self.entry(deployment)
        return int(entry.upstream_limit.value) if entry and entry.upstream_limit else None


def by_verdict(base: Finding, head: Finding) -> Status:
    """The usual comparison: a graver verdict is worse, a lighter one better."""
    before, after = VERDICT_ORDER.index(base.verdict), VERDICT_ORDER.index(head.verdict)
    return "worse" if after < before else "better" if after > before else "same"


def growing(parameter: str) -> Callable[[Finding, Finding], Status]:
    """A comparison for findings that a larger number makes worse at the same verdict, such as tokens missing or tokens promised."""

    def compare(base: Finding, head: Finding) -> Status:
        status = by_verdict(base, head)
        if status != "same":
            return status
        before, after = (int(finding.parameters.get(parameter) or 0) for finding in (base, head))
        return "worse" if after > before else "better" if after < before else "same"

    return compare


@record
class Rule:
    """One deterministic check. ``evaluate`` yields findings, "pass" ones included: they say what was proven.

    ``compare`` tells whether a finding that the base has as well got worse. ``subsumes`` names the advisories whose cause this rule
    reports itself: one cause, one finding. ``summary`` is the first sentence of the rule's page, ``page`` its other paragraphs, by language.
    ``fires`` is the gravest verdict it can give. A rule that is not ``waivable`` can be neither waived, ignored, switched off nor lowered.
    ``two_people`` marks rules whose findings one person alone cannot override on a pull request (operations-and-attacks 16).
    ``leak`` marks findings about one customer's text reaching another: they cannot be baselined for longer than 30 days.
    """

    id: str
    summary: Mapping[Language, str]
    evaluate: Callable[[Context], Iterable[Finding]]
    compare: Callable[[Finding, Finding], Status] = by_verdict
    subsumes: tuple[str, ...] = ()
    page: Mapping[Language, tuple[str, ...]] = field(default_factory=dict)
    fires: Verdict = "warn"
    waivable: bool = True
    leak: bool = False
    two_people: bool = False


def titled(text: str) -> str:
    """The text with a capital at its start, blanks collapsed; a name that spells itself in its own way (vLLM) is left alone."""
    text = " ".join(text.split())
    first = text.split(" ", 1)[0]
    return text if any(letter.isupper() for letter in first) else text[:1].upper() + text[1:]


def role_of(deployment: Deployment) -> str:
    """The role as a title begins with it, "prefill " or "decode "; nothing for a server that does both."""
    return f"{deployment.role.value} " if deployment.disaggregated else ""


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
    """Page size in tokens; where nothing says it the engine's default: by the model on SGLang, 16 on vLLM (facts: sglang.md 3, vllm.md 3)."""
    if deployment.engine.value == "sglang":
        from checklistbot.engines import sglang

        return sglang.page(deployment)
    return deployment.page_size.number() or (16 if deployment.engine.value == "vllm" else 1)


def reserve_of(deployment: Deployment) -> int:
    """Tokens that an SGLang decode worker keeps free for a request's output: --num-reserved-decode-tokens, 512 if not given
    (facts: sglang.md 3). Other engines reserve none."""
    if deployment.engine.value != "sglang":
        return 0
    flag = deployment.flag("num-reserved-decode-tokens")
    if flag is not None and isinstance(flag.value, (int, str)) and str(flag.value).isdigit():
        return int(flag.value)
    return 512


def safe_context(members: Iterable[Deployment]) -> int | None:
    """The longest context length in tokens that every role of a group can hold: smallest pool − page size − decode reserve
    (facts: sglang.md 4.6). None while a pool is unknown, or too small to leave anything. Of a cap it is the most that can be hoped for."""
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
