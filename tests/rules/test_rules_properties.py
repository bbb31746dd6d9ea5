"""What must hold of any state: nothing raises, every text is filled in, and what nobody proved blocks nothing."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

from deployment_factory import cap, check, deployment, derived, predicted, stale, unknown
from hypothesis import given, settings
from hypothesis import strategies as st

from checklistbot.model import Deployment, Facts, Finding, declared, observed

ENGINES = ("sglang", "vllm", "tensorrt-llm", "lmdeploy", "tgi", "llama.cpp", "ollama")
VERSIONS = (
    None, "nightly", "0.3.0", "0.4.3.post2", "0.5.10", "0.5.16", "0.5.19", "0.5.19.post1", "0.5.20rc1", "0.5.21", "0.5.22.dev3",
    "0.5.22", "0.5.23", "0.9.2", "0.19.1", "0.28.0", "0.29.0", "0.33.0", "1.1.0",
)  # fmt: skip
MODELS = (
    None, "zai-org/GLM-5.3-FP8", "Qwen/Qwen3-8B", "google/gemma-4-31B-it", "openai/gpt-oss-20b", "acme/own", "BAAI/bge-m3",
    "deepseek-ai/DeepSeek-V3", "Qwen/Qwen3-Next-80B-A3B-Instruct", "$MODEL", "/model",
)  # fmt: skip
FLAGS = (
    "--allow-auto-truncate", "--dcp-size 4", "--dcp-size $N", "--enable-kv-cache-sharding", "--dllm-algorithm X", "--num-gpu-blocks-override 100",
    "--num-gpu-blocks-override ?", "--swa-full-tokens-ratio 0.0001", "--num-reserved-decode-tokens 2048", "--enable-hierarchical-cache",
    "--max-modle-len 4", "--swap-space 4", "--parallel 4", "--ctx-size 4096", "--context-shift", "--enable-lora", "--speculative-config {broken",
    '--kv-transfer-config {"kv_connector": "NixlConnector"}', "--kv-transfer-config $X", "--kv-canary log", "--backend turbomind",
)  # fmt: skip
SIZES = st.sampled_from([1, 100, 4_090, 4_096, 4_160, 40_960, 131_072, 1_048_576])


@st.composite
def a_deployment(draw: st.DrawFn) -> Deployment:
    size = draw(SIZES)
    context = draw(st.sampled_from([None, size, derived(size), unknown(), observed(size, "a.log", 3)]))
    pool = draw(SIZES)
    low = max(1, pool // 2)
    pools = (
        None,
        pool,
        cap(pool),
        stale(pool),
        predicted(pool, low, pool * 2),
        declared(pool, ".checklistbot.yml", 3),
        unknown(),
    )
    facts: dict[str, Any] = {}
    if draw(st.booleans()):
        facts["page_size"] = draw(st.sampled_from([1, 16, 64, 256]))
    return deployment(
        draw(st.sampled_from(["unified", "prefill", "decode"])),
        engine=draw(st.sampled_from(ENGINES)),
        version=draw(st.sampled_from(VERSIONS)),
        model=draw(st.sampled_from(MODELS)),
        context=context,
        pool=draw(st.sampled_from(pools)),
        given=tuple(draw(st.lists(st.sampled_from(FLAGS), max_size=3, unique=True))),
        fits=draw(st.sampled_from([None, None, None, True, False])),
        factor=draw(st.sampled_from([None, None, 0.9, 1.0, 1.03, 2.5])),
        name=draw(st.sampled_from(["a", "b"])),
        **facts,
    )


@st.composite
def a_state(draw: st.DrawFn) -> Facts:
    members = draw(st.lists(a_deployment(), min_size=1, max_size=3, unique_by=lambda one: one.id))
    return Facts(tuple(members))


def _members(finding: Finding, state: Facts) -> list[Deployment]:
    return [d for d in state.deployments if finding.deployment in (d.id, f"{d.environment}/{d.group}")]


@settings(max_examples=40, deadline=None)
@given(a_state(), a_state(), st.sampled_from(["en", "ko"]))
def test_any_state(head: Facts, base: Facts, language: str) -> None:
    found = check(head, base=base, language=language)
    for finding in found.findings:
        for text in (finding.title, finding.message, finding.fix.text if finding.fix else ""):
            assert not re.search(r"\{[a-z_]+\}", text), text
            assert "None" not in text, text
        assert finding.title
        assert finding.message
        assert finding.status == "fixed" or _members(finding, head) or finding.rule == "deployment-disappeared"
    assert check(head, base=base, language=language).to_json() == found.to_json()


@settings(max_examples=40, deadline=None)
@given(a_state())
def test_what_is_not_proven_blocks_nothing_and_passes_nothing(state: Facts) -> None:
    for finding in check(state).findings:
        if finding.rule != "kv-pool-below-context":
            continue
        (member,) = _members(finding, state)
        pool, length = member.kv_pool_tokens, member.context_length
        engines_word = member.engine.value == "vllm" and (
            member.fits_full_context is not None or member.flag("num-gpu-blocks-override") is not None
        )
        if finding.verdict == "block" and not engines_word:
            assert pool.proven or (pool.bound == "upper" and not pool.stale)
            assert length.kind == "declared" or member.engine.value == "vllm"
            assert (pool.number() or 0) < (length.number() or 0)
        if finding.verdict == "pass" and not engines_word:
            assert pool.proven
            assert pool.bound is None
            assert (pool.number() or 0) >= (length.number() or 0) or member.flag("dcp-size") is not None


@settings(max_examples=20, deadline=None)
@given(a_state(), st.sampled_from(VERSIONS[6:]))
def test_a_lower_context_never_makes_anything_worse(state: Facts, version: str) -> None:
    """A change that lowers the risk never blocks: half the context on the same pools, everything else as it was."""
    kept = tuple(
        dataclasses.replace(d, first_rejected_length=None, full_requests=None, fits_full_context=None)
        for d in state.deployments
        if d.context_length.kind == "declared" and d.role.value == "unified" and d.engine.value == "sglang"
    )
    lowered = tuple(
        d.replace(context_length=d.context_length.replace(value=max(1, (d.context_length.number() or 2) // 2)))
        for d in kept
    )
    found = check(Facts(lowered), base=Facts(kept))
    assert [f.rule for f in found.findings if f.verdict == "block" and f.status in ("new", "worse")] == []
