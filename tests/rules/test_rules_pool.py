"""The KV pool against the context length: kv-pool-below-context, kv-pool-unknown, kv-pool-predicted-tight, kv-pool-not-pinned."""

from __future__ import annotations

import itertools

import pytest
from deployment_factory import (
    cap,
    check,
    deployment,
    derived,
    facts,
    of,
    pair,
    predicted,
    stale,
    unknown,
    verdicts,
)

from checklistbot.model import declared

BELOW = "kv-pool-below-context"
C, P, R = 131_072, 64, 512


def one(**options):  # type: ignore[no-untyped-def]
    return facts(deployment(**{"context": C, "page_size": P, **options}))


def pinned(version: str, blocks: int, more: tuple[str, ...] = (), **options):  # type: ignore[no-untyped-def]
    given = (f"--num-gpu-blocks-override {blocks}", *more)
    made = {"engine": "vllm", "version": version, "model": "Qwen/Qwen3-8B", "given": given, "context": C, **options}
    return facts(deployment(**made))


#: (what, state, verdicts): must fire, must stay silent, or not decided here.
TABLE = [
    ("unified, observed pool too small, declared", one(pool=C - 1), ["block"]),
    ("unified, pool of exactly the context", one(pool=C), ["warn"]),
    ("unified, one page more", one(pool=C + P), ["pass"]),
    ("before 0.5.11 no page more is needed", one(pool=C, version="0.5.10"), ["pass"]),
    ("prefill needs a page more", one(role="prefill", pool=C + P - 1), ["warn"]),
    ("prefill with a page more", one(role="prefill", pool=C + P), ["pass"]),
    ("decode needs page and reserve", one(role="decode", pool=C + P + R - 1), ["warn"]),
    ("decode with page and reserve", one(role="decode", pool=C + P + R), ["pass"]),
    ("decode with its own reserve", one(role="decode", pool=C + P + R, given=("--num-reserved-decode-tokens 1024",)), ["warn"]),
    ("a derived context is nobody's promise", one(pool=C - 1, context=derived(C)), ["warn"]),
    ("a cap below the context is proof", one(pool=cap(C - 1)), ["block"]),
    ("a cap above it proves nothing", one(pool=cap(2 * C)), []),
    ("a stale pool neither blocks nor passes", one(pool=stale(C - 1)), []),
    ("a stale pool that is large does not pass", one(pool=stale(2 * C)), []),
    ("a prediction is not this rule's", one(pool=predicted(C - 1, C - 9, C + 9)), []),
    ("no pool", one(), []),
    ("no context", one(context=None, pool=C), []),
    ("a context that is not static", one(context=unknown(), pool=C), []),
    ("DCP multiplies the pool on 0.5.17 to 0.5.20", one(version="0.5.19", pool=C // 2 + 64, given=("--dcp-size 2",)), ["pass"]),
    ("not before", one(version="0.5.16", pool=C // 2 + 64, given=("--dcp-size 2",)), ["block"]),
    ("from 0.5.21 logs are in logical tokens", one(version="0.5.21", pool=C // 2 + 64, given=("--dcp-size 2",)), ["block"]),
    ("KV sharding multiplies by what nobody prints", one(pool=C - 1, given=("--enable-kv-cache-sharding",)), ["warn"]),
    ("from 0.5.21 a declared cap still counts rows", one(version="0.5.21", pool=cap(C // 2 + 64), given=("--dcp-size 2",)), []),
    ("a diffusion model's limit hides its first length, not that the pool fits", one(pool=2 * C, given=("--dllm-algorithm X",)), ["pass"]),
    ("SWA: the window's pool is too small", one(model="openai/gpt-oss-20b", pool=C + P, given=("--swa-full-tokens-ratio 0.001",)), ["warn"]),
    ("SWA: decode needs its reserve there too",
     one(role="decode", model="openai/gpt-oss-20b", pool=C + P + R, given=("--swa-full-tokens-ratio 0.004",)), ["warn"]),
    ("SWA: large enough", one(model="openai/gpt-oss-20b", pool=C + P, given=("--swa-full-tokens-ratio 0.8",)), ["pass"]),
    ("SWA: a model without such layers", one(model="Qwen/Qwen3-8B", pool=C + P, given=("--swa-full-tokens-ratio 0.001",)), ["pass"]),
    ("vLLM: the engine's own word", one(engine="vllm", version="0.20.0", fits=False), ["block"]),
    ("vLLM does not start with a derived one either", one(engine="vllm", version="0.20.0", context=derived(C), fits=False), ["block"]),
    ("vLLM hybrid: tokens are another unit, the factor counts",
     one(engine="vllm", version="0.19.0", model="google/gemma-4-31B-it", pool=37_392, fits=True), ["pass"]),
    ("vLLM: the factor says it fits, so the tokens are of another unit whatever the model's name",
     one(engine="vllm", version="0.19.0", model=None, pool=67_728, fits=True, factor=1.4), ["pass"]),
    ("vLLM: the same with little room", one(engine="vllm", version=None, model="acme/own", pool=67_728, fits=True, factor=1.02), ["warn"]),
    ("vLLM hybrid before 0.21 with little room: 1.02x",
     one(engine="vllm", version="0.19.0", model="google/gemma-4-31B-it", pool=37_392, fits=True, factor=1.02), ["warn"]),
    ("vLLM hybrid before 0.21 with room: 1.53x",
     one(engine="vllm", version="0.19.0", model="google/gemma-4-31B-it", pool=37_392, fits=True, factor=1.53), ["pass"]),
    ("vLLM hybrid from 0.29 counts itself",
     one(engine="vllm", version="0.29.0", model="google/gemma-4-31B-it", pool=C, fits=True, factor=1.0), ["pass"]),
    ("vLLM of one attention type: 1.01x is silent", one(engine="vllm", version="0.28.0", page_size=16, pool=C * 101 // 100, fits=True, factor=1.01), ["pass"]),
    ("vLLM before 0.29: one block is never free", one(engine="vllm", version="0.28.0", page_size=16, pool=C), ["warn"]),
    ("vLLM with a block more", one(engine="vllm", version="0.28.0", page_size=16, pool=C + 16), ["pass"]),
    ("vLLM from 0.29 counts it itself", one(engine="vllm", version="0.29.0", page_size=16, pool=C), ["pass"]),
    ("vLLM hybrid near 1.0x", one(engine="vllm", version="0.28.0", model="google/gemma-4-31B-it", pool=C * 102 // 100, fits=True), ["warn"]),
    ("vLLM hybrid well above", one(engine="vllm", version="0.28.0", model="google/gemma-4-31B-it", pool=C * 2, fits=True), ["pass"]),
    ("vLLM told to start all the same", one(engine="vllm", variables={"VLLM_ALLOW_INSUFFICIENT_KV_CACHE": "1"}), ["block"]),
    ("vLLM with that variable off", one(engine="vllm", variables={"VLLM_ALLOW_INSUFFICIENT_KV_CACHE": "0"}), []),
    ("TensorRT-LLM's declared max_tokens is a cap", one(engine="tensorrt-llm", version="1.1.0", pool=cap(2 * C)), []),
    ("a cap that is too small proves it", one(engine="tensorrt-llm", version="1.1.0", pool=cap(C - 1)), ["block"]),
    ("TGI's launcher refuses a smaller batch budget", one(engine="tgi", version="3.3.6", pool=cap(C - 1)), ["block"]),
    ("TGI's larger one proves nothing", one(engine="tgi", version="3.3.6", pool=cap(2 * C)), []),
    ("vLLM: too few blocks, before 0.21", pinned("0.20.0", C // 16 - 1), ["block"]),
    ("vLLM: too few blocks, from 0.21", pinned("0.21.0", C // 16 - 1), ["block"]),
    ("vLLM: just enough, before 0.29", pinned("0.28.0", C // 16), ["warn"]),
    ("vLLM: just enough, from 0.29", pinned("0.29.0", C // 16), ["pass"]),
    ("vLLM: one more, before 0.29", pinned("0.28.0", C // 16 + 1), ["pass"]),
    ("vLLM: larger blocks", pinned("0.28.0", C // 128 + 1, page_size=128), ["pass"]),
    ("vLLM: blocks of a hybrid are no tokens", pinned("0.20.0", C // 16 - 1, model="google/gemma-4-31B-it"), ["warn"]),
    ("vLLM: nor do they prove that it fits", pinned("0.28.0", C, model="google/gemma-4-31B-it"), []),
    ("vLLM: an MLA backend chooses its block size", pinned("0.28.0", C // 16 - 1, model="deepseek-ai/DeepSeek-V3"), ["warn"]),
    ("vLLM: a model that is not known", pinned("0.28.0", C // 16 - 1, model="acme/own"), ["warn"]),
    ("vLLM: the log knows better", pinned("0.28.0", C // 16 - 1, fits=True, pool=C + 16), ["pass"]),
    ("vLLM: context parallel ranks multiply", pinned("0.28.0", C // 16 - 1, more=("--decode-context-parallel-size 2",)), []),
    ("what the config declares is the pool", one(engine="tgi", version="3.3.6", pool=declared(2 * C, ".checklistbot.yml", 3)), ["pass"]),
    ("TensorRT-LLM shrinks, the promise is broken all the same", one(engine="tensorrt-llm", version="1.1.0", pool=C - 1), ["block"]),
]  # fmt: skip


@pytest.mark.parametrize(("what", "state", "expected"), TABLE, ids=[row[0] for row in TABLE])
def test_the_table(what, state, expected) -> None:  # type: ignore[no-untyped-def]
    assert verdicts(BELOW, state) == expected


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"role": "prefill", "version": "0.5.19"}, "other requests' pages, with status 200"),
        ({"role": "prefill", "version": "0.5.20"}, "answered with an error, or wait"),
        ({"role": "prefill", "version": None}, "on a release that hands refused requests on"),
        ({"role": "decode", "version": "0.5.19"}, "answered with an error, or wait"),
        ({"role": "unified", "version": "0.5.19"}, "are answered with an error."),
        ({"engine": "vllm", "version": "0.28.0"}, "refuses to start"),
        ({"engine": "lmdeploy", "version": "0.16.0"}, "lowers its own limit"),
    ],
)
def test_it_says_what_happens(options, says) -> None:  # type: ignore[no-untyped-def]
    (finding,) = of(BELOW, one(pool=C - 100, **options))
    assert says in finding.message
    if options.get("engine", "sglang") == "sglang":
        assert finding.parameters["first_rejected"] == C - 106


def test_the_numbers_and_the_mend() -> None:
    state = pair(version="0.5.19", context=1_048_576, page_size=64, prefill={"pool": 681_280}, decode={"pool": 900_032})
    prefill, decode = sorted(of(BELOW, state), key=lambda f: f.deployment, reverse=True)
    assert prefill.parameters["missing"] == 1_048_576 - 681_280
    assert prefill.parameters["first_rejected"] == 681_274
    assert prefill.parameters["leaves_open"] == 6
    assert "leaves_open" not in decode.parameters
    assert prefill.fix is not None
    assert [(e.path, e.before, e.after) for e in prefill.fix.edits] == [
        ("serve/prefill.yaml", "1048576", "680704"),
        ("serve/decode.yaml", "1048576", "680704"),
    ]


def test_tokens_of_another_unit_are_not_held_against_the_context() -> None:
    state = one(engine="vllm", version="0.19.0", model=None, pool=67_728, fits=True, factor=1.4)
    for language, said in (("en", "of another unit"), ("ko", "단위가 다른")):
        (finding,) = of(BELOW, state, language=language)
        assert said in finding.message


def test_a_cap_is_no_number_to_set() -> None:
    (finding,) = of(BELOW, one(pool=cap(C - 1)))
    assert finding.fix is not None
    assert finding.fix.edits == ()
    assert f"below {C - 1 - P:,}" in finding.fix.text


@pytest.mark.parametrize(("limit", "verdict"), [(C - 107, "warn"), (C - 106, "block"), (C, "block")])
def test_a_gateway_limit_below_the_first_rejected_length_warns(limit: int, verdict: str) -> None:
    policy = f"deployments: [{{match: {{environment: prod}}, upstream_limit: {limit}}}]"
    assert verdicts(BELOW, one(pool=C - 100), policy) == [verdict]


@pytest.mark.parametrize(("before", "after", "status"), [(100, 200, "worse"), (200, 100, "better"), (100, 100, "same")])
def test_more_missing_tokens_are_worse(before: int, after: int, status: str) -> None:
    (finding,) = of(BELOW, one(pool=C - after), base=one(pool=C - before))
    assert finding.status == status


def test_korean() -> None:
    for state, word in ((one(pool=C - 1), "모자랍니다"), (one(pool=C), "대기할"), (one(pool=2 * C), "KV 풀은")):
        (finding,) = of(BELOW, state, language="ko")
        assert word in finding.message
        assert not any(ord(c) < 128 and c in "{}" for c in finding.message)


# --- the incident ----------------------------------------------------------------------------------------------------

VERSIONS = [
    "0.5.19",
    "0.5.19.post1",
    "0.5.20rc1",
    "0.5.20",
    "0.5.21",
    "0.5.21.post2",
    "0.5.22.dev3",
    "0.5.22rc0",
    "0.5.22",
    "0.5.23",
]
FIXED = {"0.5.22", "0.5.23"}
HANDS_ON = {"0.5.19", "0.5.19.post1", "0.5.20rc1"}
COMBINATIONS = list(itertools.product(VERSIONS, [True, False], [True, False]))


@pytest.mark.parametrize(("version", "split", "fits"), COMBINATIONS)
def test_the_incident_in_all_combinations(version: str, split: bool, fits: bool) -> None:
    """10 releases × mode × pool against context: what blocks, and by which rule."""
    prefill_pool, decode_pool = (1_100_032, 1_200_000) if fits else (681_280, 1_200_000)
    if split:
        state = pair(
            version=version,
            context=1_048_576,
            page_size=64,
            prefill={"pool": prefill_pool},
            decode={"pool": decode_pool},
        )
    else:
        state = facts(deployment(version=version, context=1_048_576, page_size=64, pool=prefill_pool))
    blocking = {f.rule for f in check(state).findings if f.verdict == "block"}
    expected = set()
    if split and version not in FIXED:
        expected.add("engine-below-fixed-version")
    if not fits:
        expected.add(BELOW)
    if split and not fits and version in HANDS_ON:
        expected.add("disaggregated-pair-mismatch")
    assert blocking == expected


# --- kv-pool-unknown -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        (one(), "not-said"),
        (one(pool=cap(2 * C)), "upper"),
        (one(pool=stale(2 * C)), "stale"),
        (one(pool=predicted(2 * C, C, 3 * C)), "predicted"),
        (one(pool=unknown()), "not-said"),
        (one(engine="vllm"), "not-said"),
        (one(engine="vllm", given=("--kv-cache-memory-bytes 40G",)), "bytes"),
        (one(pool=2 * C), None),
        (one(pool=cap(C - 1)), None),
        (one(engine="vllm", fits=True), None),
        (one(engine="vllm", model="BAAI/bge-m3"), None),
        (one(engine="vllm", model="/model", served_model_name="local/bge-reranker-v2-m3"), None),
        (one(engine="tgi", version="3.3.6", pool=cap(2 * C)), "upper"),
        (pinned("0.28.0", C), None),
        (pinned("0.28.0", C, model="google/gemma-4-31B-it"), "not-said"),
        (one(engine="vllm", fits=False), None),
        (one(engine="ollama", version=None), None),
        (one(engine="llama.cpp", version=None), None),
    ],
)
def test_an_unknown_pool_is_said_with_its_reason(state, reason) -> None:  # type: ignore[no-untyped-def]
    findings = of("kv-pool-unknown", state)
    assert [f.verdict for f in findings] == (["unknown"] if reason else [])
    assert [f.parameters["reason"] for f in findings] == ([reason] if reason else [])


def test_what_is_pinned_already_is_not_offered_to_be_pinned() -> None:
    for language in ("en", "ko"):
        (finding,) = of(
            "kv-pool-unknown", one(engine="vllm", given=("--kv-cache-memory-bytes 40G",)), language=language
        )
        assert finding.message.count("--kv-cache-memory-bytes") == 1
        assert "40G" in finding.message
        (old,) = of("kv-pool-unknown", one(engine="vllm", version="0.9.2"), language=language)
        assert "--kv-cache-memory-bytes" not in old.message


def test_how_to_supply_it_in_both_languages() -> None:
    for language in ("en", "ko"):
        (finding,) = of("kv-pool-unknown", one(engine="vllm"), language=language)
        assert "--log FILE" in finding.message
        assert "--kv-cache-memory-bytes" in finding.message


# --- kv-pool-predicted-tight -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pool", "expected"),
    [
        (predicted(C - 1, C - 100, C + 100), ["warn"]),
        (predicted(C + 500, C - 100, C + 900), ["warn"]),
        (predicted(2 * C, C + 1_000, 3 * C), []),
        (stale(C - 1), ["warn"]),
        (stale(2 * C), []),
        (C - 1, []),
        (None, []),
    ],
)
def test_a_prediction_warns_and_nothing_more(pool, expected) -> None:  # type: ignore[no-untyped-def]
    state = one(pool=pool)
    assert verdicts("kv-pool-predicted-tight", state) == expected
    if pool != C - 1:
        assert "block" not in verdicts(BELOW, state)
        assert "pass" not in verdicts(BELOW, state)


# --- kv-pool-not-pinned ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (one(engine="vllm", pool=2 * C), ["note"]),
        (one(engine="vllm", pool=predicted(2 * C, C, 3 * C)), ["note"]),
        (one(engine="vllm", pool=2 * C, given=("--kv-cache-memory-bytes 40G",)), []),
        (one(engine="vllm", pool=2 * C, given=("--num-gpu-blocks-override 9000",)), []),
        (one(engine="sglang", pool=2 * C), ["note"]),
        (one(engine="sglang", pool=2 * C, given=("--max-total-tokens 262144",)), []),
        (one(engine="sglang", pool=cap(2 * C)), []),
        (one(engine="vllm"), []),
        (one(engine="ollama", version=None, pool=2 * C), []),
    ],
)
def test_a_pool_that_nobody_pinned_is_a_note(state, expected) -> None:  # type: ignore[no-untyped-def]
    assert verdicts("kv-pool-not-pinned", state) == expected


def test_the_note_says_what_pinning_proves() -> None:
    assert "exact" in of("kv-pool-not-pinned", one(engine="vllm", pool=2 * C))[0].message
    assert "ceiling" in of("kv-pool-not-pinned", one(pool=2 * C))[0].message
