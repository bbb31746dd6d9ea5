"""Deployments for tests of the rules, as discovery and observation would leave them. Everything not said is not said."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import Any

from checklistbot import engines, rules
from checklistbot.config import Config, load
from checklistbot.model import (
    Check,
    Deployment,
    Fact,
    Facts,
    Finding,
    Flag,
    Observation,
    Source,
    Unknown,
    declared,
    observed,
)

TODAY = date(2026, 11, 30)
FILE = "serve/glm.yaml"
#: The newest examined release of each engine.
NEWEST = {"sglang": "0.5.23", "vllm": "0.33.0", "tensorrt-llm": "1.2.0", "lmdeploy": "0.16.0", "tgi": "3.3.6"}


def stale(value: int) -> Fact:
    """A pool that was observed under another GPU."""
    return observed(value, "ops/prefill.log", 9).replace(observation=Observation({"gpu": "H200"}, stale=("gpu",)))


def predicted(value: int, low: int, high: int) -> Fact:
    return Fact(value, Source("predicted"), low=low, high=high)


def cap(value: int) -> Fact:
    """SGLang's declared --max-total-tokens."""
    return declared(value, FILE, 14).replace(bound="upper")


def derived(value: int) -> Fact:
    """A context length that nobody declared: the engine takes it from the model."""
    return Fact(value, Source("default"))


def flags(*spelled: str, path: str = FILE, first_line: int = 30) -> tuple[Flag, ...]:
    """Flags from "--name value", "--name=value" or "--name", one line each."""
    made = []
    for line, text in enumerate(spelled, first_line):
        name, _, value = text.replace("=", " ", 1).partition(" ")
        made.append(Flag(name.lstrip("-"), value or None, text, path, line))
    return tuple(made)


def env(**values: str) -> tuple[Flag, ...]:
    return tuple(Flag(name, value, value, FILE, 60) for name, value in values.items())


def deployment(
    role: str = "unified",
    *,
    engine: str = "sglang",
    version: str | None = "newest",
    model: str | None = "zai-org/GLM-5.3-FP8",
    context: int | Fact | None = 131_072,
    pool: int | Fact | None = None,
    environment: str = "prod",
    group: str = "glm-5.3",
    name: str = "glm",
    file: str = FILE,
    given: tuple[str, ...] = (),
    variables: Mapping[str, str] | None = None,
    fits: bool | None = None,
    factor: float | None = None,
    **facts: Any,
) -> Deployment:
    """One deployment; numbers become declared context and observed pool, other facts are declared at line 20."""
    if version == "newest":
        version = NEWEST.get(engine)
    made: dict[str, Fact] = {"engine": declared(engine, file, 10), "role": declared(role, file, 11)}
    for key, value, line in (("engine_version", version, 12), ("model", model, 13)):
        if value is not None:
            made[key] = declared(value, file, line)
    if context is not None:
        made["context_length"] = context if isinstance(context, Fact) else declared(context, file, 15)
    if pool is not None:
        made["kv_pool_tokens"] = pool if isinstance(pool, Fact) else observed(pool, f"ops/{role}.log", 9)
    for key, value in facts.items():
        made[key] = value if isinstance(value, Fact) else declared(value, file, 20)
    built = Deployment(
        id=f"{environment}/{group}/{role}", name=name, environment=environment, group=group, file=file, line=10,
        flags=flags(*given, path=file), env=env(**(variables or {})), fits_full_context=fits, full_requests=factor, **made,
    )  # fmt: skip
    known = engines.get(engine)
    first = known.first_rejected_length(built) if known else None
    return built.replace(first_rejected_length=first)


def pair(prefill: Mapping[str, Any] | None = None, decode: Mapping[str, Any] | None = None, **both: Any) -> Facts:
    """Prefill and decode of one group; ``both`` holds for either unless it says otherwise."""
    sides = (("prefill", prefill or {}), ("decode", decode or {}))
    return Facts(tuple(deployment(role, **{"file": f"serve/{role}.yaml", **both, **own}) for role, own in sides))


def facts(*deployments: Deployment) -> Facts:
    return Facts(tuple(deployments))


def unknown(why: Any = "not-static", name: str | None = "$VALUE") -> Fact:
    return Fact(unknown=Unknown(why, name))


def config(text: str = "") -> Config:
    """The config of that text; "version: 1" stands before it."""
    return load(f"version: 1\n{text}", ".checklistbot.yml")


def check(state: Facts, policy: str = "", **options: Any) -> Check:
    return rules.evaluate(state, config(policy), today=options.pop("today", TODAY), **options)


def of(rule: str, state: Facts, policy: str = "", **options: Any) -> list[Finding]:
    """The rule's findings in that state."""
    return [finding for finding in check(state, policy, **options).findings if finding.rule == rule]


def verdicts(rule: str, state: Facts, policy: str = "", **options: Any) -> list[str]:
    """The verdicts of the rule in that state, worst first; [] where it is silent."""
    return [finding.verdict for finding in of(rule, state, policy, **options)]
