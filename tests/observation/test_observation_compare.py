"""When an observation still holds for a deployment (CONTRACTS, "Stale")."""

from __future__ import annotations

from typing import Any

import pytest

from checklistbot.model import Deployment, Fact, Flag, Observation, Source
from checklistbot.observation.compare import compare

UNDER = {
    "model": "acme/Otter-70B", "role": "prefill", "tensor_parallel": 8, "memory_fraction": 0.79, "kv_cache_dtype": "fp8_e4m3",
    "page_size": 64, "context_length": 131072, "speculative": "none", "gpu": "NVIDIA H200",
}  # fmt: skip


def pool(**under: Any) -> Fact:
    return Fact(681280, Source("observed", "prefill.log", 72), observation=Observation({**UNDER, **under}))


def deployment(flags: tuple[Flag, ...] = (), **declared: Any) -> Deployment:
    facts = {name: Fact(value, Source("declared", "serve.yaml", 9)) for name, value in {**STATED, **declared}.items()}
    return Deployment("prod/otter/prefill", "otter", "prod", "otter", "serve.yaml", 9, flags=flags, **facts)


STATED: dict[str, Any] = {
    "role": "prefill", "model": "acme/Otter-70B", "tensor_parallel": 8, "memory_fraction": 0.79, "context_length": 131072,
}  # fmt: skip


def test_the_same_inputs_hold() -> None:
    result = compare(pool(), deployment())
    assert (result.kind, result.stale, result.proven) == ("observed", False, True)
    assert result.observation is not None
    assert "page_size" in result.observation.not_compared
    assert "memory_fraction" not in result.observation.not_compared


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("gpu", "H100"),
        ("memory_fraction", 0.7),
        ("tensor_parallel", 4),
        ("model", "acme/Otter-8B"),
        ("kv_cache_dtype", "bf16"),
        ("page_size", 1),
    ],
)
def test_another_input_makes_a_prediction_of_it(name: str, value: Any) -> None:
    result = compare(pool(), deployment(**{name: value}))
    assert result.observation is not None
    assert result.observation.stale == (name,)
    assert (result.kind, result.proven, result.value) == ("predicted", False, 681280)
    assert result.source is not None
    assert (result.source.path, result.source.line) == ("prefill.log", 72)


@pytest.mark.parametrize(
    ("name", "theirs", "ours"),
    [
        ("model", "/models/Otter-70B/", "acme/Otter-70B"),
        ("gpu", "H200", "NVIDIA H200"),
        ("gpu", "nvidia-h100-80gb", "NVIDIA H100 80GB HBM3"),
        ("kv_cache_dtype", "fp8", "torch.float8_e4m3fn"),
        ("memory_fraction", "0.790", 0.79),
    ],
)
def test_two_spellings_of_one_value(name: str, theirs: Any, ours: Any) -> None:
    assert not compare(pool(**{name: ours}), deployment(**{name: theirs})).stale


def test_a_changed_context_ages_a_pool_only_where_it_sizes_it() -> None:
    assert not compare(pool(), deployment(context_length=1048576)).stale
    assert compare(pool(pool_depends_on_context=True), deployment(context_length=1048576)).stale
    assert not compare(pool(), deployment(), frozenset({"context_length"})).stale


def test_a_flag_that_the_log_denies() -> None:
    flag = Flag("speculative-algorithm", "EAGLE", "EAGLE", "serve.yaml", 12)
    result = compare(pool(), deployment((flag,)))
    assert result.observation is not None
    assert result.observation.stale == ("speculative",)


def test_what_git_says_changed_after_the_log() -> None:
    assert not compare(pool(), deployment(), None).stale
    for changed in (True, frozenset({"image"})):
        result = compare(pool(), deployment(), changed)
        assert result.stale
        assert result.kind == "predicted"


def test_another_engine() -> None:
    other = deployment().replace(engine=Fact("vllm", Source("declared", "serve.yaml", 9)))
    assert compare(pool(), other, engine="sglang").stale


def test_nothing_observed_stays_nothing() -> None:
    assert compare(Fact(), deployment(), True) == Fact()
