"""The notes of one server → an observed deployment, the same for logs and endpoints."""

from __future__ import annotations

import re
from pathlib import PurePath
from typing import Any, Final

from checklistbot.encode import Untrusted, redact
from checklistbot.engines._log import FOLLOWS, Notes
from checklistbot.lazy import pattern
from checklistbot.model import FACT_NAMES, Candidate, Deployment, Fact, Observation, Scalar, Source
from checklistbot.record import record

#: What an observation of a pool was taken under, besides the facts of the same name.
INPUTS: Final = (
    "role",
    "engine_version",
    "model",
    "context_length",
    "memory_fraction",
    "kv_cache_dtype",
    "page_size",
    "tensor_parallel",
    "pipeline_parallel",
    "data_parallel",
    "gpu",
    "gpu_count",
    "chunked_prefill_size",
    "max_running_requests",
    "speculative",
    "decode_context_parallel",
    "kv_cache_memory_bytes",
)


def _value(value: Scalar) -> Scalar:
    return Untrusted(redact(value)) if isinstance(value, str) else value


def _fact(notes: Notes, key: str, name: str) -> Fact | None:
    entries = notes.strongest(key)
    if not entries:
        return None
    entry = entries[-1]
    if key == "kv_pool_tokens":
        entry = min(entries, key=lambda e: float(e.value) if not isinstance(e.value, str) else 0.0)
    ranks = tuple(e.value for e in entries if isinstance(e.value, (int, float)) and not isinstance(e.value, bool))
    differ = key == "kv_pool_tokens" and len(set(ranks)) > 1
    others: dict[Scalar, Candidate] = {}
    if key != "kv_pool_tokens":
        weaker = (e for e in notes.entries[key].values() if e.strength < entry.strength and e.value != entry.value)
        others = {e.value: Candidate(_value(e.value), Source("observed", name, e.line or None)) for e in weaker}
    return Fact(
        _value(entry.value),
        Source("observed", name, entry.line or None),
        per_rank=ranks if differ else (),
        others=tuple(others.values())[:8],
    )


def _taken_under(notes: Notes) -> dict[str, Scalar]:
    found: dict[str, Scalar] = {}
    for key in INPUTS:
        entry = notes.best(key)
        if (
            entry is not None
            and entry.strength > FOLLOWS
            and not (key in ("max_running_requests", "chunked_prefill_size") and entry.strength < 30)
        ):
            found[key] = _value(entry.value)
    if notes.has("pool_depends_on_context"):
        found["pool_depends_on_context"] = True
    return found


def build(
    notes: Notes, *, engine: str, name: str, stream: str = "", fits: bool | None = None, variant: str | None = None
) -> Deployment:
    """The deployment that the notes of one server make.

    ``name`` is the log or address that the facts give as their path, ``stream`` the container, pod or worker within
    it. The role comes from what was said, else from those names.
    """
    facts = {key: fact for key in FACT_NAMES if (fact := _fact(notes, key, name)) is not None}
    if "model" not in facts and "served_model_name" in facts and engine in ("sglang", "vllm"):
        # Both engines call a model by its path where no other name is given, so the name stands for it.
        facts["model"] = facts["served_model_name"]
    facts["engine"] = Fact(engine, Source("observed", name, notes.first_line or None))
    factor = _factor(notes)
    if engine == "vllm" and factor is not None and "kv_pool_tokens" not in facts and "context_length" in facts:
        # From 0.21 this is how vLLM itself gets at the tokens that it prints (facts: vllm.md 1.2).
        tokens = int(factor.value * float(facts["context_length"].number() or 0))
        facts["kv_pool_tokens"] = Fact(tokens, Source("observed", name, factor.line or None))
    if "role" not in facts:
        role = _role_of(stream) or _role_of(name)
        if role and engine in ("sglang", "vllm", "tensorrt-llm"):
            facts["role"] = Fact(role, Source("observed", name, notes.first_line or None))
    if "kv_pool_tokens" in facts:
        under = Observation(taken_under=_taken_under(notes))
        facts["kv_pool_tokens"] = facts["kv_pool_tokens"].replace(observation=under)
    if "served_context" not in facts and "context_length" in facts and engine in ("sglang", "vllm"):
        facts["served_context"] = facts["context_length"].replace(others=())
    role = str(facts["role"].value) if "role" in facts else "unified"
    group = Untrusted(redact(_group(facts, name)))
    return Deployment(
        id=f"observed/{group}/{role}",
        name=Untrusted(stream or PurePath(name).name),
        environment="observed",
        group=group,
        file=name,
        line=notes.first_line or None,
        variant=variant,
        fits_full_context=fits,
        full_requests=factor.value if factor is not None else None,
        **_typed(facts),
    )


@record
class _Factor:
    value: float
    line: int


def _factor(notes: Notes) -> _Factor | None:
    """The smallest "maximum concurrency" that was printed: every engine must hold a whole request by itself."""
    printed = [_Factor(float(e.value), e.line) for e in notes.strongest("factor") if not isinstance(e.value, str)]
    return min(printed, key=lambda one: one.value, default=None)


def _typed(facts: dict[str, Fact]) -> dict[str, Any]:
    return dict(facts)


_ROLE_WORD = pattern(r"(?i)(?<![a-z])(prefill|decode)(?:er|r)?(?![a-z])")


def _role_of(text: str) -> str | None:
    """The role that a container, pod or file name says, None if it says none or both."""
    found = {match.lower() for match in _ROLE_WORD.findall(PurePath(text).name if "/" in text else text)}
    return found.pop() if len(found) == 1 else None


def _group(facts: dict[str, Fact], name: str) -> str:
    served, model = facts.get("served_model_name"), facts.get("model")
    text = str(served.value) if served else str(model.value) if model else _ROLE_WORD.sub("", PurePath(name).stem)
    word = re.sub(r"[^\w.:+-]+", "-", text.rstrip("/").rsplit("/", 1)[-1]).strip("-._")
    return Untrusted(word[:100] or "server")
