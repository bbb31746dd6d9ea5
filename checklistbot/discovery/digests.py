"""Digests of a disaggregated group: what evidence, ticks and scripts are bound to (CONTRACTS, "Digests")."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from checklistbot.encode import SECRET
from checklistbot.lazy import pattern as lazy_pattern
from checklistbot.model import Deployment, Fact

#: Flags that decide how KV moves between workers and requests: part of ``behaviour``.
_BEHAVIOUR_FLAGS: Final = lazy_pattern(
    r"disaggregation-.*|kv-transfer-config.*|.*speculative.*|enable-(?:hierarchical-cache|prefix-caching|chunked-prefill|dp-attention|lora).*"
    r"|no-enable-prefix-caching|disable-radix-cache|disable-overlap-schedule|hicache-.*|kv-offloading-.*|kv-canary.*|allow-auto-truncate"
    r"|prefix-caching-hash-algo|num-reserved-decode-tokens|max-loras|lora-.*|attention-backend|.*-attention-backend|async-scheduling"
)
_CAPACITY_FACTS: Final = (
    "context_length",
    "page_size",
    "kv_cache_dtype",
    "memory_fraction",
    "tensor_parallel",
    "pipeline_parallel",
    "data_parallel",
    "gpu",
    "gpu_count",
)


def digests(deployments: Iterable[Deployment]) -> dict[str, dict[str, str]]:
    """``{"environment/group": {"behaviour", "capacity", "config"}}`` over the declared values of each group's members.

    No path, line, replica count, observed, predicted or default value enters; unknown values are left out; a secret is "set".
    """
    groups: dict[str, list[Deployment]] = {}
    for deployment in deployments:
        groups.setdefault(f"{deployment.environment}/{deployment.group}", []).append(deployment)
    return {key: _of_group(members) for key, members in sorted(groups.items())}


def _of_group(members: list[Deployment]) -> dict[str, str]:
    ordered = sorted(members, key=lambda d: (str(d.role.value), d.id))
    behaviour = [_behaviour(member) for member in ordered]
    capacity = [_capacity(member) for member in ordered]
    config = [
        {**b, **c, "image": _declared(m.image), "flags": _flags(m, re.compile(".*"))}
        for b, c, m in zip(behaviour, capacity, ordered, strict=True)
    ]
    return {"behaviour": _sha256(behaviour), "capacity": _sha256(capacity), "config": _sha256(config)}


def _sha256(values: list[dict[str, Any]]) -> str:
    pruned = [{key: value for key, value in entry.items() if value not in (None, {})} for entry in values]
    text = json.dumps(pruned, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def _declared(fact: Fact) -> Any:
    return fact.value if fact.known and fact.kind == "declared" else None


def _behaviour(member: Deployment) -> dict[str, Any]:
    version = _declared(member.engine_version)
    return {
        "engine": member.engine.value,
        "engine_version": version if version is not None else _image_digest(member),
        "model": _declared(member.model),
        "role": member.role.value,
        "flags": _flags(member, _BEHAVIOUR_FLAGS),
    }


def _image_digest(member: Deployment) -> str | None:
    """The digest that pins an image, where the version is not known by a number."""
    _, at, digest = str(_declared(member.image) or "").partition("@")
    return digest if at else None


def _capacity(member: Deployment) -> dict[str, Any]:
    values = {name: _declared(member.fact(name)) for name in _CAPACITY_FACTS}
    if member.kv_pool_tokens.kind == "declared":
        values["declared_cap"] = member.kv_pool_tokens.value
    return values


def _flags(member: Deployment, pattern: re.Pattern[str]) -> Mapping[str, Any]:
    """Flag → value as the engine takes it (the last one wins); a secret is "set", an unknown value is left out."""
    kept: dict[str, Any] = {}
    for flag in member.flags:
        if flag.reaches_server and pattern.fullmatch(flag.name) and "?" not in flag.raw:
            kept[flag.name] = "set" if SECRET in str(flag.value) else flag.value if flag.value is not None else True
    return kept
