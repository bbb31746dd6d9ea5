"""First rejected length and what a full request needs, one test a row of the facts."""

from __future__ import annotations

import pytest

from checklistbot import engines
from checklistbot.engines import sglang
from checklistbot.model import Deployment, Fact, Flag, Source

SOURCE = Source("declared", "f", 1)


def deployment(engine: str, **facts: object) -> Deployment:
    flags = tuple(Flag(name, value, "", "f", 1) for name, value in dict(facts.pop("flags", {})).items())  # type: ignore[call-overload]
    bound = facts.pop("bound", None)
    made = {name: Fact(value, SOURCE) for name, value in facts.items()}  # type: ignore[arg-type]
    found = Deployment("i", "n", "default", "g", "f", 1, engine=Fact(engine, SOURCE), flags=flags, **made)  # type: ignore[arg-type]
    return found.replace(kv_pool_tokens=found.kv_pool_tokens.replace(bound="upper")) if bound else found


def rejected(found: Deployment) -> int | None:
    return engines.registry()[str(found.engine.value)].first_rejected_length(found)


def needs(found: Deployment) -> int | None:
    return engines.registry()[str(found.engine.value)].full_request_needs(found)


def test_sglang_refuses_six_below_the_smaller_of_context_and_pool() -> None:
    assert rejected(deployment("sglang", context_length=1_048_576, kv_pool_tokens=681_280)) == 681_274
    assert rejected(deployment("sglang", context_length=131_072, kv_pool_tokens=681_280)) == 131_066
    assert rejected(deployment("sglang", context_length=131_072)) is None


def test_a_cap_says_something_only_below_the_context() -> None:
    assert rejected(deployment("sglang", context_length=1000, kv_pool_tokens=500, bound=True)) == 494
    assert rejected(deployment("sglang", context_length=1000, kv_pool_tokens=5000, bound=True)) is None


#: One row of sglang.md 4.2 each: (row, release, flags, declared cap instead of a logged pool, tokens of a pool of 1,000 that one request may use).
CAPS = [
    ("<= 0.4.6: the pool", "0.4.6", {}, False, 1_000),
    ("0.5.9-0.5.15: the pool", "0.5.9", {}, False, 1_000),
    ("0.5.9-0.5.15: dcp does not count yet", "0.5.15", {"dcp-size": "8"}, False, 1_000),
    ("0.5.16: dcp does not count yet", "0.5.16", {"dcp-size": "8"}, False, 1_000),
    ("0.5.17-0.5.20: times dcp", "0.5.17", {"dcp-size": "8"}, False, 8_000),
    ("0.5.17-0.5.20: times dcp, post-releases with theirs", "0.5.20.post1", {"dcp-size": "8"}, False, 8_000),
    ("0.5.17-0.5.20: without dcp", "0.5.18", {}, False, 1_000),
    ("0.5.17-0.5.20: rc of 0.5.21 is below it", "0.5.21rc1", {"dcp-size": "2"}, False, 2_000),
    ("0.5.21+: logs are in logical tokens", "0.5.21", {"dcp-size": "8"}, False, 1_000),
    ("0.5.21+: the flag still counts rows", "0.5.21", {"dcp-size": "8"}, True, 8_000),
    ("0.5.21+: without KV sharding", "0.5.23", {}, False, 1_000),
    ("release not known", None, {"dcp-size": "8"}, False, 1_000),
]


@pytest.mark.parametrize(("row", "version", "flags", "bound", "expected"), CAPS, ids=[row[0] for row in CAPS])
def test_the_cap_of_sglang_by_release(
    row: str, version: str | None, flags: dict[str, str], bound: bool, expected: int
) -> None:
    release = {"engine_version": version} if version else {}
    found = deployment("sglang", context_length=99_999, kv_pool_tokens=1_000, flags=flags, bound=bound, **release)
    assert sglang.cap(found) == expected
    assert rejected(found) == expected - 6


#: What takes from the first rejected length, or hides it (sglang.md 4.1, 4.2): (row, release, flags, first rejected length).
REJECTED = [
    ("dllm before 0.5.21: nothing comes off", "0.5.20", {"dllm-algorithm": "LowConfidence"}, 994),
    ("dllm from 0.5.21: by a block that no flag names", "0.5.21", {"dllm-algorithm": "LowConfidence"}, None),
    ("dllm, release not known", None, {"dllm-algorithm": "LowConfidence"}, None),
    ("KV sharding: times what nobody prints", "0.5.23", {"enable-kv-cache-sharding": None}, None),
    ("no sharding", "0.5.23", {}, 994),
]


@pytest.mark.parametrize(("row", "version", "flags", "expected"), REJECTED, ids=[row[0] for row in REJECTED])
def test_what_hides_the_first_rejected_length(
    row: str, version: str | None, flags: dict[str, str | None], expected: int | None
) -> None:
    release = {"engine_version": version} if version else {}
    assert (
        rejected(deployment("sglang", context_length=99_999, kv_pool_tokens=1_000, flags=flags, **release)) == expected
    )


def test_with_sharding_the_context_alone_still_decides() -> None:
    found = deployment(
        "sglang",
        context_length=900,
        kv_pool_tokens=1_000,
        engine_version="0.5.23",
        flags={"enable-kv-cache-sharding": None},
    )
    assert rejected(found) == 894


#: One row of sglang.md 4.6 each: (row, facts, tokens that a request of 1,000 needs).
NEEDS: list[tuple[str, dict[str, object], int]] = [
    ("no page more up to 0.5.10", {"engine_version": "0.5.10", "page_size": 64}, 1_000),
    ("C + p from 0.5.11", {"engine_version": "0.5.11", "page_size": 64}, 1_064),
    ("C + p on an rc", {"engine_version": "0.5.22rc0", "page_size": 64}, 1_064),
    ("C + p on prefill", {"engine_version": "0.5.19", "page_size": 64, "role": "prefill"}, 1_064),
    ("C + r + p on decode", {"engine_version": "0.5.19", "page_size": 64, "role": "decode"}, 1_576),
    ("C + r on decode up to 0.5.10", {"engine_version": "0.5.9", "page_size": 64, "role": "decode"}, 1_512),
    (
        "its own reserve",
        {"engine_version": "0.5.19", "page_size": 64, "role": "decode", "flags": {"num-reserved-decode-tokens": "100"}},
        1_164,
    ),
    (
        "the reserve plays no part on prefill",
        {"engine_version": "0.5.19", "role": "prefill", "flags": {"num-reserved-decode-tokens": "100"}},
        1_001,
    ),
    ("page size 1 where nothing says it", {}, 1_001),
    ("sparse attention: pages of 64", {"model": "zai-org/GLM-5.3-FP8"}, 1_064),
    ("DeepSeek-V4: pages of 256", {"model": "deepseek-ai/DeepSeek-V4-Flash"}, 1_256),
    ("MiniMax-M3: pages of 128", {"model": "/model", "served_model_name": "minimax-m3"}, 1_128),
    ("what is said goes before", {"model": "zai-org/GLM-5.3-FP8", "page_size": 128}, 1_128),
]


@pytest.mark.parametrize(("row", "facts", "expected"), NEEDS, ids=[row[0] for row in NEEDS])
def test_what_a_full_request_needs_on_sglang(row: str, facts: dict[str, object], expected: int) -> None:
    assert needs(deployment("sglang", context_length=1000, **facts)) == expected


#: The second limit of models with sliding-window layers: (row, facts, tokens of its pool beside 10,000 full ones).
SWA_POOLS: list[tuple[str, dict[str, object], int | None]] = [
    ("0.8 of the pool", {"engine_version": "0.5.19"}, 8_000),
    ("in whole pages", {"engine_version": "0.5.19", "page_size": 128}, 7_936),
    ("its own ratio", {"engine_version": "0.5.19", "flags": {"swa-full-tokens-ratio": "0.1"}}, 1_000),
    ("from 0.5.20 worked out at start-up", {"engine_version": "0.5.20"}, None),
    ("from 0.5.20 with a ratio", {"engine_version": "0.5.20", "flags": {"swa-full-tokens-ratio": "0.1"}}, 1_000),
    ("switched off", {"engine_version": "0.5.19", "flags": {"disable-hybrid-swa-memory": None}}, None),
    ("before there was one", {"engine_version": "0.4.6"}, None),
    ("release not known", {}, None),
    ("a declared cap is no pool", {"engine_version": "0.5.19", "bound": True}, None),
]


@pytest.mark.parametrize(("row", "facts", "expected"), SWA_POOLS, ids=[row[0] for row in SWA_POOLS])
def test_the_sliding_window_pool_of_sglang(row: str, facts: dict[str, object], expected: int | None) -> None:
    assert sglang.swa_pool(deployment("sglang", context_length=9_000, kv_pool_tokens=10_000, **facts)) == expected


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({"page_size": 64}, 1_024 + 64 + 1),
        ({"page_size": 64, "role": "prefill"}, 1_024 + 64 + 1),
        ({"page_size": 64, "role": "decode"}, 1_024 + 512),
        ({"role": "decode", "flags": {"num-reserved-decode-tokens": "0"}}, 1_024 + 1 + 1),
    ],
)
def test_what_the_sliding_window_pool_must_hold(facts: dict[str, object], expected: int) -> None:
    assert sglang.swa_needs(deployment("sglang", **facts), 1_024) == expected


@pytest.mark.parametrize(("version", "expected"), [("0.28.0", 4112), ("0.29.0", 4096), (None, 4112)])
def test_vllm_counts_the_null_block_before_029(version: str | None, expected: int) -> None:
    facts = {"engine_version": version} if version else {}
    assert needs(deployment("vllm", context_length=4096, **facts)) == expected


def test_the_others() -> None:
    assert rejected(deployment("vllm", context_length=4096, kv_pool_tokens=100)) == 4096
    assert rejected(deployment("tensorrt-llm", context_length=4096, kv_pool_tokens=100)) == 100
    assert rejected(deployment("lmdeploy", context_length=4096, kv_pool_tokens=100)) == 100
    assert rejected(deployment("llama.cpp", context_length=4096)) == 4096
    assert rejected(deployment("tgi", context_length=4096, flags={"max-input-tokens": "1000"})) == 1001
    assert rejected(deployment("ollama", context_length=4096)) is None
    for engine in engines.registry().values():
        assert engine.first_rejected_length(deployment(engine.name)) is None
        assert engine.full_request_needs(deployment(engine.name)) is None
