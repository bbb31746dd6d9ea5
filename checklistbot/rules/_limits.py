"""What a worker can hold, in the terms of the rules: usable pool, whether a full request fits, what bounds are proven."""

from __future__ import annotations

from typing import Final, Literal

from checklistbot.engines.base import below, version_of
from checklistbot.knowledge.families import Family, families, family_of
from checklistbot.model import Deployment, Fact, Source

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


def certain(deployment: Deployment, way: Literal["small", "large"]) -> bool:
    """True if the pool is proven to be at most ("small") or at least ("large") its value: declared, or observed and not stale. A declared
    cap proves only that the pool is not larger."""
    fact = deployment.kv_pool_tokens
    return fact.proven or (way == "small" and fact.bound == "upper" and fact.known and not fact.stale)


def pinned(deployment: Deployment) -> tuple[Deployment, bool] | None:
    """The deployment with the pool that vLLM's --num-gpu-blocks-override fixes, and whether that number is sure; None where none is fixed,
    or something better is known.

    Sure are models of one attention type with a block size that is said or is the usual 16: hybrids share the blocks among groups, and
    MLA backends choose a block size of their own (facts: vllm.md 5).
    """
    flag = deployment.flag("num-gpu-blocks-override")
    if deployment.engine.value != "vllm" or flag is None or not str(flag.value).isdigit():
        return None
    if deployment.kv_pool_tokens.known or deployment.fits_full_context is not None:
        return None
    if any(deployment.flag(f"{name}-context-parallel-size") for name in ("decode", "prefill")):
        return None
    block = deployment.page_size.number()
    kinds = families(deployment.model.text())
    sure = not kinds & HYBRIDS and ("gqa" in kinds or (bool(kinds) and block is not None))
    pool = Fact(int(str(flag.value)) * (block or 16), Source("declared", flag.path, flag.line))
    return deployment.replace(kv_pool_tokens=pool), sure


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
