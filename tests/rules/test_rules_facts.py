"""Rules over facts alone: what must fire, must stay silent, or is not decided."""

from __future__ import annotations

import pytest
from deployment_factory import cap, deployment, derived, facts, of, pair, stale, verdicts
from packaging.version import Version

from checklistbot.engines._flags import table
from checklistbot.model import Facts, Skipped, observed
from checklistbot.rules.unknown_engine_flag import RENAMED

C = 131_072
AUTO = ("--allow-auto-truncate",)


def one(**options):  # type: ignore[no-untyped-def]
    return facts(deployment(**options))


#: rule → rows of (what, state, verdicts)
TABLES = {
    "auto-truncate-in-disaggregation": [
        ("limits not known", pair(given=AUTO), ["block"]),
        ("only prefill has the flag", pair({"given": AUTO}), ["block"]),
        ("different limits", pair({"pool": 90_000}, {"pool": 99_000}, given=AUTO), ["block"]),
        ("equal and observed", pair(pool=2 * C, given=AUTO), []),
        ("equal, but one is stale", pair({"pool": 2 * C}, {"pool": stale(2 * C)}, given=AUTO), ["block"]),
        ("equal, but a cap", pair({"pool": cap(90_000)}, {"pool": cap(90_000)}, given=AUTO), ["block"]),
        ("the other role is elsewhere", facts(deployment("prefill", pool=2 * C, given=AUTO)), ["block"]),
        ("unified", one(given=AUTO), []),
        ("no flag", pair(), []),
    ],
    "silent-truncation": [
        ("unified SGLang", one(given=AUTO), ["warn"]),
        ("in a pair it is another rule's", pair(given=AUTO), []),
        ("SGLang that always cut", one(version="0.4.1"), ["warn"]),
        ("SGLang 0.4.3.post2", one(version="0.4.3.post2"), []),
        ("SGLang of an unknown release", one(version=None), []),
        ("llama.cpp with context shift", one(engine="llama.cpp", version=None, given=("--context-shift",)), ["warn"]),
        ("llama.cpp with it off", one(engine="llama.cpp", version=None, given=("--no-context-shift",)), []),
        ("Ollama", one(engine="ollama", version=None), ["note"]),
        ("vLLM", one(engine="vllm"), []),
    ],
    "context-shrinks-silently": [
        ("less is served", one(engine="tensorrt-llm", version="1.1.0", served_context=observed(90_000, "a.log", 1)), ["warn"]),
        ("the same is served", one(engine="tensorrt-llm", version="1.1.0", served_context=observed(C, "a.log", 1)), []),
        ("TensorRT-LLM, nothing known", one(engine="tensorrt-llm", version="1.1.0"), ["note"]),
        ("it stops instead", one(engine="tensorrt-llm", version="1.1.0", given=("--fail-fast-on-attention-window-too-large",)), []),
        ("LMDeploy, nothing known", one(engine="lmdeploy", version="0.16.0"), ["note"]),
        ("LMDeploy on turbomind does not shrink", one(engine="lmdeploy", version="0.16.0", given=("--backend turbomind",)), []),
        ("LMDeploy on PyTorch does", one(engine="lmdeploy", version="0.16.0", given=("--backend pytorch",)), ["note"]),
        ("no context declared", one(engine="lmdeploy", version="0.16.0", context=None), []),
        ("vLLM that fitted itself", one(engine="vllm", served_context=observed(90_000, "a.log", 1)), ["warn"]),
        ("SGLang", one(), []),
    ],
    "context-shared-by-slots": [
        ("four slots", one(engine="llama.cpp", version=None, given=("--ctx-size 32768", "--parallel 4")), ["note"]),
        ("one slot", one(engine="llama.cpp", version=None, given=("--ctx-size 32768", "--parallel 1")), []),
        ("unified cache", one(engine="llama.cpp", version=None, given=("--ctx-size 32768", "--parallel 4", "--kv-unified")), []),
        ("size not said", one(engine="llama.cpp", version=None, given=("--parallel 4",)), []),
        ("vLLM", one(engine="vllm", given=("--ctx-size 32768", "--parallel 4")), []),
    ],
    "context-beyond-model": [
        ("above the published one", one(model="Qwen/Qwen3-8B", context=C), ["warn"]),
        ("within it", one(model="Qwen/Qwen3-8B", context=40_960), []),
        ("RoPE on the command line", one(model="Qwen/Qwen3-8B", context=C, given=("--json-model-override-args {}",)), []),
        ("RoPE by dotted key", one(engine="vllm", model="Qwen/Qwen3-8B", context=C, given=("--hf-overrides.rope_scaling x",)), []),
        ("a local copy may differ", one(model="/models/Qwen3-8B", context=C), []),
        ("unknown model", one(model="acme/own", context=C), []),
        ("derived context", one(model="Qwen/Qwen3-8B", context=derived(C)), []),
        ("the engine's check is off", one(engine="vllm", variables={"VLLM_ALLOW_LONG_MAX_MODEL_LEN": "1"}, model="acme/own"), ["warn"]),
        ("off, and above", one(model="Qwen/Qwen3-8B", variables={"SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN": "1"}), ["warn"]),
        ("off, but within", one(model="Qwen/Qwen3-8B", context=32_768, variables={"SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN": "1"}), []),
        ("the other engine's variable", one(engine="vllm", model="acme/own", variables={"SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN": "1"}), []),
    ],
    "unknown-engine-flag": [
        ("misspelt", one(engine="vllm", given=("--max-modle-len 4096",)), ["warn"]),
        ("misspelt, release not known", one(engine="vllm", version=None, given=("--max-modle-len 4096",)), ["warn"]),
        ("right", one(engine="vllm", given=("--max-model-len 4096",)), []),
        ("a wrapper's own flag", one(engine="vllm", given=("--dyn-tool-call-parser x", "--my-company-thing 1")), []),
        ("removed", one(engine="vllm", version="0.18.0", given=("--swap-space 4",)), ["warn"]),
        ("not removed yet", one(engine="vllm", version="0.17.0", given=("--swap-space 4",)), []),
        ("not there yet", one(engine="vllm", version="0.9.2", given=("--kv-cache-memory-bytes 1G",)), ["warn"]),
        ("removed, release not known", one(engine="vllm", version=None, given=("--swap-space 4",)), []),
        ("dotted keys", one(engine="vllm", given=("--kv-transfer-config.kv_role kv_both",)), []),
        ("an engine without a table", one(engine="tgi", version="3.3.6", given=("--max-modle-len 4",)), []),
    ],
    "disaggregation-safeguards": [
        ("SGLang, nothing on", pair(version="0.5.23"), ["note"]),
        ("SGLang, all on", pair(version="0.5.23", given=("--disaggregation-enable-kv-checksum", "--kv-canary log")), []),
        ("SGLang that has none of them", pair(version="0.5.12"), []),
        ("SGLang of an unknown release", pair(version=None), []),
        ("unified", one(), []),
        ("vLLM NIXL with the default lease", pair(engine="vllm", version="0.28.0", given=('--kv-transfer-config {"kv_connector": "NixlConnector"}',)),
         ["note"]),
        ("vLLM NIXL with a lease of its own",
         pair(engine="vllm", version="0.28.0",
              given=('--kv-transfer-config {"kv_connector": "NixlConnector", "kv_connector_extra_config": {"kv_lease_duration": 600}}',)), []),
        ("vLLM that goes on after a failed load",
         pair(engine="vllm", version="0.14.0", variables={"VLLM_NIXL_ABORT_REQUEST_TIMEOUT": "900"},
              given=('--kv-transfer-config {"kv_connector": "NixlConnector"}',)), ["note"]),
        ("vLLM whose config cannot be read", pair(engine="vllm", version="0.28.0", given=("--kv-transfer-config $CONFIG",)), []),
    ],
    "known-engine-bug": [
        ("fixed by an upgrade", one(version="0.5.18", given=("--enable-hierarchical-cache",)), ["block"]),
        ("the upgrade is there", one(version="0.5.22", given=("--enable-hierarchical-cache",)), []),
        ("thread-level: warns", one(engine="llama.cpp", version="4711", model="acme/own"), ["warn", "note"]),
        ("a question of exposure: a note", one(version="0.5.23", given=("--enable-lora",), model="Qwen/Qwen3-8B"), ["note"]),
        ("a leak that the model's family would decide", one(engine="vllm", version="0.17.0", model="acme/own"), ["unknown"]),
        ("nothing applies", one(version="0.5.23", model="Qwen/Qwen3-8B"), []),
        ("only the release is missing: another rule asks", one(version=None, given=("--enable-hierarchical-cache",)), []),
    ],
    "unsafe-flag-combination": [
        ("handshake check off", pair(engine="vllm", version="0.28.0", given=(
            '--kv-transfer-config {"kv_connector": "NixlConnector", "kv_connector_extra_config": {"enforce_handshake_compat": false}}',)), ["warn"]),
        ("on", pair(engine="vllm", version="0.28.0", given=(
            '--kv-transfer-config {"kv_connector": "NixlConnector", "kv_connector_extra_config": {"enforce_handshake_compat": true}}',)), []),
        ("NGRAM with the radix cache", one(version="0.5.23", given=("--speculative-algorithm NGRAM",)), []),
        ("unified memory", one(version="0.5.23", given=("--enable-unified-memory",)), ["warn"]),
        ("not on", one(version="0.5.23"), []),
        ("release not known: a possibility", one(version=None, given=("--enable-unified-memory",)), []),
    ],
}  # fmt: skip
ROWS = [(rule, *row) for rule, rows in TABLES.items() for row in rows]


@pytest.mark.parametrize(("rule", "what", "state", "expected"), ROWS, ids=[f"{row[0]}: {row[1]}" for row in ROWS])
def test_the_tables(rule, what, state, expected) -> None:  # type: ignore[no-untyped-def]
    assert verdicts(rule, state) == expected


@pytest.mark.parametrize("rule", TABLES)
@pytest.mark.parametrize("language", ["en", "ko"])
def test_every_text_is_filled_in_both_languages(rule: str, language: str) -> None:
    """No placeholder is left, the title is short and starts like a title, Korean is Korean."""
    found = [
        f for name, _, state, expected in ROWS if name == rule and expected for f in of(rule, state, language=language)
    ]
    assert found
    for finding in found:
        assert "{" not in finding.title.replace("{}", "")
        assert len(finding.title) <= 120
        assert finding.message
        if language == "ko":
            assert any("가" <= letter <= "힣" for letter in finding.title + finding.message)


def test_a_flag_of_two_bugs_is_one_finding_each_and_an_upgrade_is_one_for_all() -> None:
    findings = of("known-engine-bug", one(version="0.5.9", given=("--enable-hierarchical-cache",)))
    upgrade = [f for f in findings if f.parameters["aspect"] == "upgrade"]
    assert len(upgrade) == 1
    assert {"sglang-hicache-dsa-index-read-early", "sglang-hicache-load-races-overlap"} <= set(
        str(upgrade[0].parameters["advisories"]).split(",")
    )
    assert upgrade[0].parameters["fixed"] == "0.5.19"


def test_a_back_port_takes_a_bug_out() -> None:
    policy = 'images: [{match: "r/*", engine: sglang, version: "0.5.18", fixes: [sglang-hicache-load-races-overlap]}]'
    assert (
        verdicts(
            "known-engine-bug", one(version="0.5.18", image="r/a:1", given=("--enable-hierarchical-cache",)), policy
        )
        == []
    )


def test_more_bugs_than_before_are_worse() -> None:
    before, after = (one(version=version, given=("--enable-hierarchical-cache",)) for version in ("0.5.18", "0.5.9"))
    (finding,) = of("known-engine-bug", after, base=before)
    assert finding.status == "worse"


@pytest.mark.parametrize("engine", ["sglang", "vllm"])
def test_what_took_the_place_of_a_flag_is_there_when_that_goes(engine: str) -> None:
    known = table(engine).spellings
    for old, new in RENAMED[engine].items():
        gone, come = known[old].removed_in, known[new].first
        assert gone is not None
        assert come is not None
        assert Version(come) <= Version(gone)
        assert known[new].removed_in is None or Version(known[new].removed_in) > Version(gone)
        for language in ("en", "ko"):
            (finding,) = of(
                "unknown-engine-flag", one(engine=engine, version=gone, given=(f"{old} x",)), language=language
            )
            assert new in finding.message


def test_a_comment_that_cuts_the_command_names_what_is_lost() -> None:
    built = deployment(given=("--context-length 4096", "--page-size 64"))
    lost = built.replace(
        flags=(built.flags[0], built.flags[1].__class__(**{**built.flags[1].to_json(), "reaches_server": False}))
    )
    (finding,) = of("comment-cuts-command", facts(lost))
    assert (finding.verdict, finding.parameters["flags"], str(finding.location)) == (
        "warn",
        "--page-size",
        "serve/glm.yaml:31",
    )
    assert of("comment-cuts-command", facts(built)) == []


# --- base against head -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ({"memory_fraction": 0.9}, {"memory_fraction": 0.8}, "warn"),
        ({"memory_fraction": 0.8}, {"memory_fraction": 0.9}, "note"),
        ({"gpu": "H200"}, {"gpu": "H100"}, "warn"),
        ({"gpu_count": 8}, {"gpu_count": 4}, "warn"),
        ({"gpu_count": 4}, {"gpu_count": 8}, "note"),
        ({"kv_cache_dtype": "fp8_e4m3"}, {"kv_cache_dtype": "bfloat16"}, "warn"),
        ({"kv_cache_dtype": "bfloat16"}, {"kv_cache_dtype": "fp8_e4m3"}, "note"),
        ({"kv_cache_dtype": "fp8_e4m3"}, {}, "warn"),
        ({"tensor_parallel": 8}, {"tensor_parallel": 4}, "warn"),
        ({"data_parallel": 1}, {"data_parallel": 8}, "warn"),
        ({}, {"given": ("--speculative-algorithm EAGLE",)}, "warn"),
        ({"given": ("--speculative-algorithm EAGLE",)}, {}, "note"),
        (
            {"model": "openai/gpt-oss-120b", "version": "0.5.20"},
            {"model": "openai/gpt-oss-120b", "version": "0.5.21"},
            None,
        ),
        (
            {"model": "openai/gpt-oss-120b", "version": "0.5.20"},
            {"model": "openai/gpt-oss-120b", "version": "0.6.0"},
            "warn",
        ),
        ({"version": "0.5.20"}, {"version": "0.6.0"}, None),
        ({"context": 4096}, {"context": 8192}, None),
        ({"gpu": "H200"}, {}, None),
        ({}, {}, None),
    ],
)
def test_risky_changes_have_a_direction(before, after, expected) -> None:  # type: ignore[no-untyped-def]
    for language in ("en", "ko"):
        assert verdicts("risky-change", one(**after), base=one(**before), language=language) == (
            [expected] if expected else []
        )


def test_without_a_base_nothing_has_changed() -> None:
    for rule in ("risky-change", "rollout-skew", "deployment-disappeared"):
        assert verdicts(rule, pair()) == []


@pytest.mark.parametrize(
    ("before", "after", "kind"),
    [
        (pair(version="0.5.19"), pair(version="0.5.22"), "handoff"),
        (pair(version="0.5.22"), pair(version="0.5.23"), "sglang"),
        (pair(engine="vllm", version="0.28.0"), pair(engine="vllm", version="0.29.0"), "vllm"),
        (pair(version=None, image="r/a:1"), pair(version=None, image="r/a:2"), "sglang"),
        (pair(version="0.5.22"), pair(version="0.5.22+cu129"), None),
        (pair(version=None), pair(version="0.5.22"), None),
        (one(version="0.5.19"), one(version="0.5.22"), None),
    ],
)
def test_a_rollout_of_a_pair_names_the_order(before, after, kind) -> None:  # type: ignore[no-untyped-def]
    findings = of("rollout-skew", after, base=before)
    assert [f.parameters["kind"] for f in findings] == ([kind] if kind else [])
    assert {f.verdict for f in findings} <= {"note"}


def test_what_disappears_is_said_unless_it_could_not_be_read() -> None:
    base = facts(
        deployment(name="a", group="a", file="a.yaml"), deployment(name="b", group="b", file="b.yaml", model="x/b")
    )
    gone = of("deployment-disappeared", Facts(base.deployments[:1]), base=base)
    assert [(f.verdict, f.deployment, f.status) for f in gone] == [("warn", "prod/b/unified", "new")]
    unread = Facts(base.deployments[:1], skipped=(Skipped("b.yaml", "not UTF-8 text"),))
    assert of("deployment-disappeared", unread, base=base) == []
    assert [(f.verdict, f.parameters["kind"]) for f in of("input-unreadable", unread, base=base)] == [
        ("unknown", "base")
    ]


@pytest.mark.parametrize(
    ("skipped", "policy", "kind"),
    [
        (
            Skipped("serve/x.yaml", "a symbolic link"),
            'deployments: [{match: {file: "serve/*"}, data: public}]',
            "config",
        ),
        (Skipped("charts/app", "not rendered; pipe helm template"), "", "rendered"),
        (Skipped("docs/x.bin", "larger than 5 MiB"), "", None),
        (Skipped("serve/x.yaml", "larger than 5 MiB"), "", "word"),
        (Skipped("serve/x.py", "too deep or too large to read whole"), "", "word"),
        (Skipped("serve/x.toml", "could not be read as shell"), "", "word"),
    ],
)
def test_what_could_not_be_read_counts_only_if_it_deploys(skipped, policy, kind) -> None:  # type: ignore[no-untyped-def]
    found = of("input-unreadable", Facts((deployment(),), skipped=(skipped,)), policy)
    assert [f.parameters["kind"] for f in found] == ([kind] if kind else [])
