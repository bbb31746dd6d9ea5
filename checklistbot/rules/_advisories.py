"""All advisories against all deployments of a state, once for every rule that reports them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from functools import cache
from typing import Final

from checklistbot.knowledge.advisory import Advisory, advisories
from checklistbot.model import Deployment, Verdict
from checklistbot.record import mutable_record
from checklistbot.rules._match import Match, Scene, libraries, match
from checklistbot.rules.base import Context

NAMES: Final = {
    "sglang": "SGLang",
    "vllm": "vLLM",
    "tensorrt-llm": "TensorRT-LLM",
    "llama.cpp": "llama.cpp",
    "lmcache": "LMCache",
    "mooncake": "Mooncake",
}


@mutable_record
class Hit:
    """An advisory on a group: the members it definitely applies to, and those it possibly does, with what is missing."""

    advisory: Advisory
    definite: list[Deployment] = field(default_factory=list)
    possible: list[tuple[Deployment, Match]] = field(default_factory=list)


GroupHits = tuple[str, tuple[Deployment, ...], list[Hit]]


def hits(context: Context) -> list[GroupHits]:
    """For every group the advisories that apply or may apply and that no rule speaks for (``Rule.subsumes``)."""
    found: list[GroupHits] | None = context.memo.get("hits")
    if found is None:
        found = context.memo["hits"] = list(_hits(context))
    return found


def hits_of(key: str, context: Context) -> list[Hit]:
    """The hits on one group."""
    by_group: dict[str, list[Hit]] | None = context.memo.get("hits-by-group")
    if by_group is None:
        by_group = context.memo["hits-by-group"] = {group: found for group, _, found in hits(context)}
    return by_group.get(key, [])


@cache
def with_floor() -> tuple[Advisory, ...]:
    """Advisories for which policy asks for a release of its own."""
    return tuple(advisory for advisory in advisories().values() if advisory.floor is not None)


def _hits(context: Context) -> Iterator[GroupHits]:
    before = _before(context)
    for key, members in context.groups():
        engines = frozenset(str(member.engine.value) for member in members)
        wanted = _concerning(engines.union(*map(libraries, members)))
        scenes = [_scene(member, members, before, context) for member in members]
        found = [hit for advisory in wanted if (hit := _hit(advisory, scenes)) is not None]
        yield key, members, found


@cache
def _concerning(named: frozenset[str]) -> tuple[Advisory, ...]:
    """The advisories of these engines and libraries, without those that a rule speaks for."""
    return tuple(one for one in advisories().values() if one.engine in named and one.id not in subsumed())


def _scene(
    member: Deployment, members: tuple[Deployment, ...], before: dict[str, Deployment], context: Context
) -> Scene:
    entry = context.entry(member)
    tenancy = str(entry.tenancy.value) if entry and entry.tenancy else None
    salted = entry is not None and entry.cache_salt is not None
    return Scene(member, members, before.get(member.id), tenancy, context.config, salted)


def _hit(advisory: Advisory, scenes: list[Scene]) -> Hit | None:
    hit = Hit(advisory)
    for scene in scenes:
        result = match(advisory, scene)
        if result.state == "definite":
            hit.definite.append(scene.deployment)
        elif result.state == "possible":
            hit.possible.append((scene.deployment, result))
    return hit if hit.definite or hit.possible else None


def _before(context: Context) -> dict[str, Deployment]:
    if context.base is None:
        return {}
    return {context.pairs.get(d.id, d.id): d for d in context.base.deployments}


@cache
def subsumed() -> frozenset[str]:
    """Advisories that a rule of its own reports."""
    from checklistbot.rules import registry

    return frozenset(advisory for rule in registry().values() for advisory in rule.subsumes)


def verdict_of(advisory: Advisory) -> Verdict:
    """What a definite match gives: block only for a leak that was read in the source with bounds that are not estimated
    (operations-and-attacks, "Blocking" and 14)."""
    if advisory.severity == "note":
        return "note"
    return "block" if advisory.may_block and advisory.leak else "warn"


def by_flag(advisory: Advisory) -> bool:
    """True if the mend is to leave out a flag or variable: no release has the fix, and the condition is one that was set."""
    if advisory.fixed_in is not None:
        return False
    operators = [*advisory.when.get("flags", {}).values(), *advisory.when.get("env", {}).values()]
    set_on = [one for one in operators if not (isinstance(one, dict) and ({"not", "absent", "effective"} & one.keys()))]
    return bool(set_on) or "kv_transfer_extra" in advisory.when
