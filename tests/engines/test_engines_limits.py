"""First rejected length and what a full request needs, one test a row of the facts."""

from __future__ import annotations

import pytest

from checklistbot import engines
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


@pytest.mark.parametrize(
    ("version", "expected"), [("0.5.16", 994), ("0.5.17", 7_994), ("0.5.20", 7_994), ("0.5.21", 994)]
)
def test_decode_context_parallel_multiplies_the_cap_in_between(version: str, expected: int) -> None:
    found = deployment(
        "sglang", context_length=99_999, kv_pool_tokens=1_000, engine_version=version, flags={"dcp-size": "8"}
    )
    assert rejected(found) == expected


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({"engine_version": "0.5.10", "page_size": 64}, 1000),
        ({"engine_version": "0.5.11", "page_size": 64}, 1064),
        ({"engine_version": "0.5.22rc0", "page_size": 64}, 1064),
        ({"engine_version": "0.5.19", "page_size": 64, "role": "decode"}, 1576),
        ({"engine_version": "0.5.19", "page_size": 64, "role": "prefill"}, 1064),
        (
            {
                "engine_version": "0.5.19",
                "page_size": 64,
                "role": "decode",
                "flags": {"num-reserved-decode-tokens": "100"},
            },
            1164,
        ),
        ({}, 1001),
    ],
)
def test_sglang_needs_page_and_reserve(facts: dict[str, object], expected: int) -> None:
    assert needs(deployment("sglang", context_length=1000, **facts)) == expected


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
