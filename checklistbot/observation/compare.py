"""Does an observation still hold for a deployment? CONTRACTS, "Stale".

A pool carries the inputs it was taken under, as the log's own text states them. One that differs from the
deployment's makes the observation stale: it then counts as a prediction. One that either side does not state is
listed as not compared. A changed context alone does not age a pool, but where the engine sizes the pool by it (vLLM
V0, hybrid models before 0.21).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Final

from checklistbot.knowledge.accelerators import find
from checklistbot.model import Deployment, Fact, Observation, Scalar, Source

#: What a pool depends on, in the order in which it is named.
COMPARED: Final[tuple[str, ...]] = (
    "engine",
    "engine_version",
    "model",
    "role",
    "gpu",
    "gpu_count",
    "tensor_parallel",
    "pipeline_parallel",
    "data_parallel",
    "decode_context_parallel",
    "memory_fraction",
    "kv_cache_memory_bytes",
    "kv_cache_dtype",
    "page_size",
    "chunked_prefill_size",
    "speculative",
    "max_running_requests",
)
#: Inputs that are flags, not facts: name → canonical flags of the engines, the first that is given counts.
_FLAGS: Final[Mapping[str, tuple[str, ...]]] = {
    "decode_context_parallel": ("dcp-size", "decode-context-parallel-size"),
    "kv_cache_memory_bytes": ("kv-cache-memory-bytes", "kv-cache-memory"),
    "chunked_prefill_size": ("chunked-prefill-size", "max-num-batched-tokens"),
    "speculative": ("speculative-algorithm", "speculative-config"),
    "max_running_requests": ("max-running-requests", "max-num-seqs"),
}
#: One where the engine takes it so if nothing is said: a deployment that says nothing is the same as one that says
#: this.
_ONE: Final = frozenset(("pipeline_parallel", "decode_context_parallel", "tensor_parallel", "data_parallel"))
_SAME_DTYPE: Final[Mapping[str, str]] = {
    "fp8": "fp8_e4m3",
    "float8_e4m3fn": "fp8_e4m3",
    "float8_e5m2": "fp8_e5m2",
    "bf16": "bfloat16",
    "fp16": "float16",
    "half": "float16",
}


def compare(
    observed: Fact,
    deployment: Deployment,
    changed_after: bool | Collection[str] | None = None,
    *,
    engine: str | None = None,
) -> Fact:
    """The observed fact with ``not_compared`` and ``stale`` filled in; a stale one becomes a prediction.

    ``engine`` is the engine that the log shows, where it is known. ``changed_after``: True, or the names of the
    inputs, if an input of the deployment changed in Git after the log did (the pull request's own change included);
    None where there is no Git. A fact without a value is given back as it is.
    """
    if not observed.known:
        return observed
    under = dict(observed.observation.taken_under) if observed.observation else {}
    if engine is not None:
        under["engine"] = engine
    not_compared: list[str] = []
    stale: list[str] = []
    for name in _names(under):
        said = under.get(name)
        theirs = _theirs(deployment, name)
        if said is None or theirs is None:
            if said is not None or theirs is not None:
                not_compared.append(name)
        elif not _same(name, said, theirs):
            stale.append(name)
    for name in _changed(changed_after):
        if name not in stale and (name != "context_length" or under.get("pool_depends_on_context")):
            stale.append(name)
    inputs = {name: value for name, value in under.items() if name != "engine"}
    result = observed.replace(observation=Observation(inputs, tuple(not_compared), tuple(stale)))
    if stale and observed.source is not None:
        result = result.replace(source=Source("predicted", observed.source.path, observed.source.line))
    return result


def _names(under: Mapping[str, Scalar]) -> tuple[str, ...]:
    return (*COMPARED, "context_length") if under.get("pool_depends_on_context") else COMPARED


def _changed(changed_after: bool | Collection[str] | None) -> tuple[str, ...]:
    if not changed_after:
        return ()
    return ("configuration",) if changed_after is True else tuple(sorted(changed_after))


def _theirs(deployment: Deployment, name: str) -> Scalar | None:
    """The deployment's own value of an input: what it declares, else what its engine takes by default; None if it
    is unknown."""
    if name in _FLAGS:
        for flag in _FLAGS[name]:
            found = deployment.flag(flag)
            if found is not None:
                return found.value
        return None
    fact = deployment.fact(name)
    return fact.value if fact.kind in ("declared", "default", "observed") else None


def _same(name: str, said: Scalar, theirs: Scalar) -> bool:
    if name == "model":
        return _last(said) == _last(theirs)
    if name == "gpu":
        known = (find(str(said)), find(str(theirs)))
        if known[0] and known[1]:
            return known[0].id == known[1].id
        left_words, right_words = _gpu(said), _gpu(theirs)
        return not left_words or not right_words or bool(left_words & right_words)
    if name == "kv_cache_dtype":
        return _dtype(said) == _dtype(theirs)
    if name == "engine_version":
        return _version(said) == _version(theirs)
    left, right = _number(said), _number(theirs)
    if left is not None and right is not None:
        return abs(left - right) < 1e-6
    return str(said).strip().lower() == str(theirs).strip().lower()


def _last(value: Scalar) -> str:
    """The last element of a model's path: the same model is a hub id here and a folder there."""
    text = str(value).rstrip("/").rsplit("/", 1)[-1].lower()
    return text.replace("_", "-").replace(" ", "-")


def _gpu(value: Scalar) -> set[str]:
    """The words of a GPU's name that tell its kind: h200, mi355x, 4090; memory sizes and makers do not."""
    words = re.split(r"[^a-z0-9]+", str(value).lower())
    return {word for word in words if re.fullmatch(r"(?!hbm|sxm|\d+gi?b?$)[a-z]{0,3}\d{1,4}[a-z]{0,2}", word)}


def _dtype(value: Scalar) -> str:
    text = str(value).lower().removeprefix("torch.")
    return _SAME_DTYPE.get(text, text)


def _version(value: Scalar) -> str:
    from packaging.version import InvalidVersion, Version

    text = str(value)
    try:
        return str(Version(text).public)
    except InvalidVersion:
        return text


def _number(value: Scalar) -> float | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, (int, float)):
        return float(value)
    try:
        return float(value)
    except ValueError:
        return None
