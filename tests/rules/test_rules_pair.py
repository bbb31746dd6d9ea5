"""Prefill against decode: disaggregated-pair-mismatch."""

from __future__ import annotations

import pytest
from deployment_factory import cap, deployment, derived, facts, of, pair, predicted, stale, unknown, verdicts

from checklistbot.model import Facts, observed

RULE = "disaggregated-pair-mismatch"
C = 131_072
SMALL, LARGE = 100_000, 200_000


def state(prefill, decode, **both) -> Facts:  # type: ignore[no-untyped-def]
    return pair({"pool": prefill}, {"pool": decode}, **{"context": C, **both})


TABLE = [
    ("window below 0.5.20: leak", state(SMALL, LARGE, version="0.5.19"), ["block"], "leak"),
    ("rc of the fix is below it", state(SMALL, LARGE, version="0.5.20rc1"), ["block"], "leak"),
    ("from 0.5.20 on it hangs", state(SMALL, LARGE, version="0.5.20"), ["warn"], "hang"),
    ("release not known", state(SMALL, LARGE, version=None), ["warn"], "hang"),
    ("equal limits although the pools differ", state(LARGE, LARGE + 9_000, version="0.5.19"), ["pass"], "pass"),
    ("equal small pools", state(SMALL, SMALL, version="0.5.19"), ["pass"], "pass"),
    ("decode accepts less", state(LARGE, SMALL, version="0.5.19"), ["warn"], "error"),
    ("decode's pool is stale: not proven", state(SMALL, stale(LARGE), version="0.5.19"), ["warn"], "leak"),
    ("prefill's pool is predicted: not proven", state(predicted(SMALL, 9, 10), LARGE, version="0.5.19"), ["warn"], "leak"),
    ("prefill's cap proves that it is small", state(cap(SMALL), LARGE, version="0.5.19"), ["block"], "leak"),
    ("decode's cap does not prove that it is large", state(SMALL, cap(SMALL + 500), version="0.5.19"), ["warn"], "leak"),
    ("a cap above the context says nothing", state(SMALL, cap(LARGE), version="0.5.19"), [], None),
    ("context derived: not proven", state(SMALL, LARGE, version="0.5.19", context=derived(C)), ["warn"], "leak"),
    ("a pool is not known", state(SMALL, None, version="0.5.19"), [], None),
    ("a context is not static", state(SMALL, LARGE, version="0.5.19", context=unknown()), [], None),
    ("only one role in the repository", facts(deployment("prefill", pool=SMALL, version="0.5.19")), [], None),
    ("unified", facts(deployment(pool=SMALL, version="0.5.19")), [], None),
    ("vLLM: decode refuses what prefill took", pair({"context": C}, {"context": SMALL}, engine="vllm", version="0.28.0"), ["warn"], "error"),
    ("vLLM: prefill refuses first", pair({"context": SMALL}, {"context": C}, engine="vllm", version="0.28.0"), [], None),
]  # fmt: skip


@pytest.mark.parametrize(("what", "found", "expected", "kind"), TABLE, ids=[row[0] for row in TABLE])
def test_the_table(what, found, expected, kind) -> None:  # type: ignore[no-untyped-def]
    findings = of(RULE, found)
    assert [f.verdict for f in findings] == expected
    assert [f.parameters["kind"] for f in findings] == ([kind] if kind else [])


def test_the_prefill_side_decides_what_happens() -> None:
    """The fix sits in prefill: a new decode does not stop an old prefill, an old decode does not undo a new one."""
    old_prefill = pair({"pool": SMALL, "version": "0.5.19"}, {"pool": LARGE, "version": "0.5.22"})
    new_prefill = pair({"pool": SMALL, "version": "0.5.22"}, {"pool": LARGE, "version": "0.5.19"})
    assert [f.parameters["kind"] for f in of(RULE, old_prefill)] == ["leak", "differs"]
    assert [f.parameters["kind"] for f in of(RULE, new_prefill)] == ["hang", "differs"]


def test_the_window_is_the_incidents() -> None:
    found = pair({"pool": 681_280}, {"pool": 1_200_000}, context=1_048_576, page_size=64, version="0.5.19")
    (finding,) = of(RULE, found)
    assert (finding.parameters["window_low"], finding.parameters["window_high"]) == (681_274, 1_048_569)
    assert finding.parameters["safe_context"] == 680_704
    assert "681,274–1,048,569" in finding.message


def test_the_largest_rank_of_decode_and_the_smallest_of_prefill_count() -> None:
    ranks = observed(SMALL, "ops/decode.log", 9).replace(per_rank=(SMALL, LARGE))
    (finding,) = of(RULE, state(SMALL, ranks, version="0.5.19"))
    assert finding.parameters["window_high"] == C - 7


@pytest.mark.parametrize(("limit", "verdict"), [(SMALL - 7, "warn"), (SMALL - 6, "block")])
def test_a_gateway_limit_below_the_window_warns(limit: int, verdict: str) -> None:
    policy = f"deployments: [{{match: {{environment: prod}}, upstream_limit: {limit}}}]"
    (finding,) = of(RULE, state(SMALL, LARGE, version="0.5.19"), policy)
    assert finding.verdict == verdict


@pytest.mark.parametrize(
    ("prefill", "decode", "differs"),
    [
        ({"version": "0.5.22"}, {"version": "0.5.23"}, "engine_version"),
        ({"page_size": 64}, {"page_size": 128}, "page_size"),
        ({"kv_cache_dtype": "fp8_e4m3"}, {"kv_cache_dtype": "bfloat16"}, "kv_cache_dtype"),
        ({"model": "a/GLM-5.3"}, {"model": "a/GLM-5.2"}, "model"),
        ({"model": "/models/GLM-5.3"}, {"model": "zai-org/glm-5.3"}, None),
        ({"version": "0.5.23+cu129"}, {"version": "0.5.23"}, None),
        ({"page_size": 64}, {}, None),
    ],
)
def test_what_differs_between_the_roles_warns(prefill, decode, differs) -> None:  # type: ignore[no-untyped-def]
    findings = [f for f in of(RULE, pair(prefill, decode)) if f.parameters["kind"] == "differs"]
    assert [f.parameters["differs"] for f in findings] == ([differs] if differs else [])
    assert [f.verdict for f in findings] == (["warn"] if differs else [])


def test_every_pair_of_several_workers_is_compared() -> None:
    found = Facts((*pair(page_size=64).deployments, deployment("decode", page_size=128, name="second")))
    assert [f.parameters["differs"] for f in of(RULE, found)] == ["page_size"]


@pytest.mark.parametrize(("base", "head", "status"), [(90_000, 80_000, "worse"), (80_000, 90_000, "better")])
def test_a_wider_window_is_worse(base: int, head: int, status: str) -> None:
    (finding,) = of(RULE, state(head, LARGE, version="0.5.19"), base=state(base, LARGE, version="0.5.19"))
    assert finding.status == status


def test_it_reads_in_korean() -> None:
    for found, word in (
        (state(SMALL, LARGE, version="0.5.19"), "상태 코드는 200"),
        (state(LARGE, SMALL), "오류가 납니다"),
    ):
        (finding,) = of(RULE, found, language="ko")
        assert word in finding.message


def test_verdict_of_the_whole_is_unknown_where_a_limit_is() -> None:
    assert verdicts("kv-pool-unknown", state(SMALL, None)) == ["unknown"]


def test_recipes_side_by_side_are_not_mixed() -> None:
    """Two recipes of one model in one repository: each prefill is compared with the decode of its own file."""
    rows = [("a/x.yaml", 64), ("b/y.yaml", 128)]
    found = Facts(
        tuple(deployment(role, file=file, page_size=page) for file, page in rows for role in ("prefill", "decode"))
    )
    assert of(RULE, found) == []
    mixed = Facts(
        (deployment("prefill", file="a/p.yaml", page_size=64), deployment("decode", file="b/d.yaml", page_size=128))
    )
    assert [f.parameters["differs"] for f in of(RULE, mixed)] == ["page_size"]
