"""Probe results (evidence/1) against the groups they speak for (CONTRACTS, "Evidence")."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from fnmatch import fnmatchcase
from typing import Any, Final

from checklistbot.config import EvidencePolicy
from checklistbot.record import record
from checklistbot.rules.base import Context

_PROFILES: Final = ("smoke", "standard", "deep")


@record
class Standing:
    """What the evidence for a group amounts to: "fresh", "stale" with the reason, or "missing"."""

    kind: str
    reason: str = ""


def results_for(key: str, context: Context, environment: str | None) -> list[Mapping[str, Any]]:
    """The bound results of a group ("environment/group"), of the environment that counts where one is named."""
    own, group = key.split("/", 1)
    wanted = environment if environment is not None else own
    return [
        result
        for result in context.evidence
        if result.get("group") == group
        and fnmatchcase(str(result.get("environment")), wanted)
        and not result.get("unbound")
    ]


def standing(key: str, context: Context, policy: EvidencePolicy) -> Standing:
    """The best of the group's results under the policy: origin, verdict, profile, digests, age."""
    results = [r for r in results_for(key, context, policy.environment) if _accepted(r, policy)]
    if not results:
        return Standing("missing")
    reasons = [reason for result in results if (reason := _stale(result, key, context, policy))]
    return Standing("fresh") if len(reasons) < len(results) else Standing("stale", reasons[0])


def _accepted(result: Mapping[str, Any], policy: EvidencePolicy) -> bool:
    """Only runs that a workflow of the repository or a signature vouches for; a file can be written by anybody."""
    origin = result.get("origin")
    kind = origin.get("kind") if isinstance(origin, Mapping) else None
    profile = str(result.get("profile"))
    enough = profile in _PROFILES and _PROFILES.index(profile) >= _PROFILES.index(policy.profile)
    return kind in ("run", "attested") and result.get("verdict") == "pass" and enough


def _stale(result: Mapping[str, Any], key: str, context: Context, policy: EvidencePolicy) -> str | None:
    """Why the result no longer counts: a digest by name, or "age"."""
    now, then = context.facts.digests.get(key, {}), result.get("digests")
    digests = then if isinstance(then, Mapping) else {}
    for name in policy.match:
        if digests.get(name) is None or digests.get(name) != now.get(name):
            return name
    finished = day(result.get("finished"))
    if finished is None or (context.today is not None and (context.today - finished).days > policy.max_age_days):
        return "age"
    return None


def day(text: object) -> date | None:
    """The day of an ISO time, None where it is none."""
    try:
        return date.fromisoformat(str(text)[:10])
    except ValueError:
        return None
