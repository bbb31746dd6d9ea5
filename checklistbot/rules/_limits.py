"""What a worker can hold, in the terms of the rules: usable pool, whether a full request fits, what bounds are proven."""

from __future__ import annotations

from typing import Final, Literal

from checklistbot.config import FILE_NAME
from checklistbot.engines.base import below, version_of
from checklistbot.knowledge.families import Family, family_of
from checklistbot.model import Deployment, Fact

#: The first SGLang release that stops handing rejected requests on (facts: sglang.md 0).
HANDOFF_STOPPED: Final = "0.5.20"
#: Prompt lengths at the edge that prefill rejects in its scheduler although its front end lets them in (facts: sglang.md 4.1).
EDGE_LENGTHS: Final = 6
#: Architectures whose logged token count is not comparable with the context before vLLM 0.21 (facts: vllm.md 0).
HYBRIDS: Final = frozenset({"swa_hybrid", "mamba_hybrid", "gdn_hybrid", "kda_hybrid", "chunked_hybrid", "lightning"})


def usable_pool(deployment: Deployment) -> int | None:
    """Tokens of KV pool that one request may use, None where unknown or not comparable with the context.

    On SGLang 0.5.17–0.5.20 the pool counts once per decode-context-parallel rank, a declared cap from then on too (facts: sglang.md 4.2).
    """
    if deployment.engine.value == "sglang":
        from checklistbot.engines import sglang

        return sglang.cap(deployment)
    return deployment.kv_pool_tokens.number()


def short_of_context(deployment: Deployment) -> bool | None:
    """Whether one full-length request does not fit; None where that is not known.

    vLLM's own word (its printed factor) goes before tokens, which hybrids before 0.21 print in another unit.
    """
    pool, length = usable_pool(deployment), deployment.context_length.number()
    if deployment.engine.value == "vllm" and deployment.fits_full_context is not None:
        return not deployment.fits_full_context
    if pool is None or length is None:
        return None
    return pool < length


def pool_fact(deployment: Deployment) -> Fact:
    """The pool with the bound that its engine gives a declared number: on TensorRT-LLM max_tokens is a cap beside the memory fraction,
    as on SGLang, and TGI ignores a declared batch total where it works the pool out itself (facts: other-engines.md). What
    ``.checklistbot.yml`` declares is taken as it is."""
    fact = deployment.kv_pool_tokens
    from_config = fact.source is not None and (fact.source.path or "").endswith(FILE_NAME)
    if deployment.engine.value in ("tensorrt-llm", "tgi") and fact.kind == "declared" and not from_config:
        return fact.replace(bound="upper")
    return fact


def certain(deployment: Deployment, way: Literal["small", "large"]) -> bool:
    """True if the pool is proven to be at most ("small") or at least ("large") its value: declared, or observed and not stale. A declared
    cap proves only that the pool is not larger; on TGI it does not even prove that."""
    fact = pool_fact(deployment)
    if fact.bound == "upper" and deployment.engine.value == "tgi":
        return False
    return fact.proven or (way == "small" and fact.bound == "upper" and fact.known and not fact.stale)


def shares_kv_across_ranks(deployment: Deployment) -> bool:
    """SGLang's KV sharding multiplies the limit by a factor that no log prints (facts: sglang.md 4.2): nothing can be proven then."""
    if deployment.engine.value != "sglang":
        return False
    from checklistbot.engines import sglang

    return sglang.shares_kv_across_ranks(deployment)


def sliding_window(deployment: Deployment) -> tuple[int, int] | None:
    """(pool, need) in tokens of SGLang's second limit, the sliding-window pool; None where there is none or a number is missing."""
    if deployment.engine.value != "sglang":
        return None
    from checklistbot.engines import sglang

    family = _family(deployment)
    pool = sglang.swa_pool(deployment) if family and family.window else None
    return (
        (pool, sglang.swa_needs(deployment, family.window)) if pool is not None and family and family.window else None
    )


def keeps_no_kv(deployment: Deployment) -> bool:
    """True for models that only encode (embedding, reranking): they keep no KV between steps, so there is no pool to know."""
    family = _family(deployment)
    return family is not None and "encoder" in family.families


def _family(deployment: Deployment) -> Family | None:
    """By the model's name, else by the name it is served under: weights often lie in /model."""
    return family_of(deployment.model.text()) or family_of(deployment.served_model_name.text())


def hands_rejected_on(deployment: Deployment) -> bool | None:
    """Whether this prefill worker hands a request on that it has rejected: SGLang below 0.5.20; None where the version is not known."""
    version = version_of(deployment)
    return None if version is None else below(version, HANDOFF_STOPPED)
