"""The automations of CONTRACTS as types, and the answer that an LLM (or a pasted chat) may give. pydantic lives here.

An LLM's numbers and flags reach a script only through these types: closed kinds, bounded ranges, names from our own lists.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictFloat, StrictInt, StringConstraints

MAX_TOKENS: Final = 100_000_000
_TokenCount = Annotated[StrictInt, Field(ge=0, le=MAX_TOKENS)]
_Words = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=4_000)]
_NumberFact = Literal[
    "context_length",
    "served_context",
    "kv_pool_tokens",
    "page_size",
    "memory_fraction",
    "tensor_parallel",
    "pipeline_parallel",
    "data_parallel",
    "replicas",
    "gpu_count",
    "world_size",
]
_Role = Literal["unified", "prefill", "decode"]


class _Closed(BaseModel):
    # An answer may hold more than was asked for (compatible servers do); it is not looked at.
    model_config = ConfigDict(extra="ignore", frozen=True, populate_by_name=True)


class AssertFact(_Closed):
    kind: Literal["assert-fact"]
    fact: _NumberFact
    op: Literal[">=", ">", "==", "<", "<="]
    to: Annotated[StrictInt, Field(ge=0, le=MAX_TOKENS)] | Annotated[StrictFloat, Field(ge=0, le=1)] | _NumberFact
    from_: Literal["log", "metrics", "server-info"] = Field(alias="from")
    role: _Role | None = None


class AssertVersion(_Closed):
    kind: Literal["assert-version"]
    engine: Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9.-]{0,30}$")]
    min: Annotated[str, StringConstraints(pattern=r"^[0-9]{1,5}(\.[0-9]{1,5}){0,3}(\.?(post|rc|dev)[0-9]{1,8})?$")]


class BoundaryRequest(_Closed):
    kind: Literal["boundary-request"]
    at: Literal["first-rejected", "context", "pool"]
    offsets: Annotated[list[Annotated[StrictInt, Field(ge=-4096, le=4096)]], Field(min_length=1, max_length=16)]


class ContentNeedles(_Closed):
    kind: Literal["content-needles"]
    lengths: Annotated[list[Annotated[StrictInt, Field(ge=1, le=MAX_TOKENS)]], Field(min_length=1, max_length=16)]
    needles: Annotated[StrictInt, Field(ge=1, le=64)]


class CanaryLeak(_Closed):
    kind: Literal["canary-leak"]
    fillers: Annotated[StrictInt, Field(ge=1, le=256)]
    probes: Annotated[StrictInt, Field(ge=1, le=64)]


class AbortStorm(_Closed):
    kind: Literal["abort-storm"]
    requests: Annotated[StrictInt, Field(ge=1, le=64)]
    seconds: Annotated[StrictInt, Field(ge=1, le=120)]


class HealthAndMetrics(_Closed):
    kind: Literal["health-and-metrics"]
    metrics: Annotated[
        list[Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]{0,20}:[a-z][a-z0-9_]{0,80}$")]],
        Field(min_length=1, max_length=16),
    ]


class FlagPresent(_Closed):
    kind: Literal["flag-present"]
    flag: Annotated[str, StringConstraints(pattern=r"^-{0,2}[a-z][a-z0-9-]{1,80}$")]
    value: (
        Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._:/-]{0,80}$")]
        | StrictInt
        | StrictFloat
        | StrictBool
        | None
    ) = None


class EvidenceFresh(_Closed):
    kind: Literal["evidence-fresh"]
    profile: Literal["smoke", "standard", "deep"]
    max_age_days: Annotated[StrictInt, Field(ge=1, le=365)]


class Manual(_Closed):
    kind: Literal["manual"]


Automation = Annotated[
    AssertFact
    | AssertVersion
    | BoundaryRequest
    | ContentNeedles
    | CanaryLeak
    | AbortStorm
    | HealthAndMetrics
    | FlagPresent
    | EvidenceFresh
    | Manual,
    Field(discriminator="kind"),
]


class AnswerItem(_Closed):
    """One item as an LLM writes it. ``deployments`` are d1 … dn of the prompt."""

    topic: Literal[
        "pool-against-context", "limit-length-content", "canary-leak", "engine-version", "isolation", "other"
    ]
    deployments: Annotated[list[Annotated[str, StringConstraints(max_length=200)]], Field(max_length=64)]
    severity: Literal["required", "recommended"]
    title: _Words
    why: _Words
    steps: Annotated[list[_Words], Field(min_length=1, max_length=24)]
    commands: Annotated[list[_Words], Field(max_length=24)]
    pass_when: _Words
    owner: _Words
    when: Literal["before-merge", "before-deploy", "after-deploy"]
    automation: Automation | None = None


class Answer(_Closed):
    """The whole answer. An empty list is no checklist."""

    items: Annotated[list[AnswerItem], Field(min_length=1, max_length=120)]


_RANGES: Final = frozenset(
    (
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "minLength",
        "maxLength",
        "minItems",
        "maxItems",
        "pattern",
    )
)
_NOTES: Final = frozenset(("title", "default", "discriminator", "description"))


def wire_schema() -> dict[str, Any]:
    """The answer's JSON Schema as structured output of both providers takes it: every property required, nothing besides,
    without ranges (Anthropic refuses them, so they are checked afterwards)."""
    schema: dict[str, Any] = _strict(Answer.model_json_schema())
    return schema


def _strict(node: Any, *, names: bool = False) -> Any:
    """``names``: the node's keys are property or definition names, not keywords."""
    if isinstance(node, list):
        return [_strict(entry) for entry in node]
    if not isinstance(node, dict):
        return node
    if names:
        return {key: _strict(value) for key, value in node.items()}
    kept = {
        ("anyOf" if key == "oneOf" else key): _strict(value, names=key in ("properties", "$defs"))
        for key, value in node.items()
        if key not in _RANGES | _NOTES
    }
    if "const" in kept:
        kept["enum"] = [kept.pop("const")]
    if kept.get("type") == "object":
        kept["additionalProperties"] = False
        kept["required"] = list(kept.get("properties", {}))
    return kept
