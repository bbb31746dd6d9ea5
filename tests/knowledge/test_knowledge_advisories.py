"""The advisories as data: schema, compiled form, flags that exist, and each decidable one against deployments that must and must not match."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from deployment_factory import FILE, deployment, env, facts, flags, verdicts
from jsonschema import Draft202012Validator
from packaging.version import Version

from checklistbot import resources
from checklistbot.engines._flags import table
from checklistbot.knowledge import advisory, compiled, families, hosts
from checklistbot.knowledge.advisory import Advisory, advisories
from checklistbot.model import Deployment, UsageError, declared
from checklistbot.rules import registry
from checklistbot.rules._advisories import subsumed
from checklistbot.rules._match import CONDITION_KEYS, Scene, match
from checklistbot.strict_yaml import parse

TOP = Path(__file__).resolve().parents[2]
ALL = advisories()
DECIDABLE = [one for one in ALL.values() if one.decidable]


def test_there_are_all_of_them() -> None:
    assert len(ALL) >= 107


def test_at_least_seven_of_ten_are_decidable() -> None:
    assert len(DECIDABLE) / len(ALL) >= 0.7


@pytest.mark.parametrize("path", advisory.files(), ids=lambda path: path.stem)
def test_each_file_is_as_the_schema_has_it(path: Path) -> None:
    schema = json.loads(resources.text("schemas", "advisory.json"))
    data = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert [error.message for error in Draft202012Validator(schema).iter_errors(data)] == []
    assert data["id"] == path.stem


def test_the_schema_knows_the_conditions_that_the_code_knows() -> None:
    schema = json.loads(resources.text("schemas", "advisory.json"))
    assert set(schema["properties"]["when"]["properties"]) == CONDITION_KEYS


def test_the_compiled_form_is_up_to_date() -> None:
    sys.path.insert(0, str(TOP / "scripts"))
    try:
        from compile_knowledge import sources
    finally:
        sys.path.pop(0)
    written = resources.text("knowledge", compiled.FILE)
    assert written == compiled.text(sources()), "run make knowledge"


def test_an_edited_file_counts_without_compiling(tmp_path: Path) -> None:
    path = next(iter(advisory.files()))
    edited = tmp_path / path.name
    edited.write_text(path.read_text(encoding="utf-8").replace("severity: warn", "severity: note"), encoding="utf-8")
    name = f"{advisory.FOLDER}/{path.name}"
    assert compiled.load(path, name, advisory.build)["severity"] == "warn"
    assert compiled.load(edited, name, advisory.build)["severity"] == "note"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("severity: grave", "severity must be one of"),
        ("colour: red", "unknown key"),
        ("affected: 0.5", "affected must be"),
    ],
)
def test_a_broken_file_is_named_with_its_line(change: str, says: str) -> None:
    text = advisory.files()[0].read_text(encoding="utf-8")
    key = change.split(":")[0]
    lines = [line for line in text.splitlines() if not line.startswith(f"{key}:")] + [change]
    with pytest.raises(UsageError, match=rf"broken\.yml:\d+: .*{says}|broken\.yml:\d+: {says}"):
        advisory.build(parse("\n".join(lines), "broken.yml"))


@pytest.mark.parametrize(
    "one", [one for one in ALL.values() if one.engine in ("sglang", "vllm")], ids=lambda one: one.id
)
def test_flags_are_the_engines_own(one: Advisory) -> None:
    """Every flag of a condition is one that the engine has or had."""
    known = table(one.engine)
    for name in one.when.get("flags", {}):
        assert f"--{name}" in known.spellings, name


def test_undecidable_ones_ask_a_question() -> None:
    lacking = [one.id for one in ALL.values() if not one.decidable and not one.ask]
    assert lacking == []


def test_rules_speak_only_for_advisories_that_exist() -> None:
    named = {one for rule in registry().values() for one in rule.subsumes}
    assert named == subsumed()
    assert named <= ALL.keys()


def test_every_definite_verdict_that_blocks_is_proven() -> None:
    from checklistbot.rules._advisories import verdict_of

    blocking = [one for one in ALL.values() if verdict_of(one) == "block"]
    assert blocking
    assert all(one.evidence == "source-read" and one.affected_basis != "estimate" and one.leak for one in blocking)


# --- bounds ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "version", "covered"),
    [
        ("<0.5.20", "0.5.20", False), ("<0.5.20", "0.5.20rc1", True), ("<0.5.20", "0.5.20.dev3", True), ("<0.5.20", "0.5.19.post1", True),
        ("<0.5.20", "0.5.20.post1", False), (">=0.5.16,<0.5.22", "0.5.16", True), (">=0.5.16,<0.5.22", "0.5.16rc1", True),
        (">=0.5.16,<0.5.22", "0.5.15.post1", False), (">=0.5.16,<0.5.22", "0.5.22+cu129", False), (">=0.5.16,<0.5.22", "0.5.21+cu129", True),
        (">=1.2.0rc0,<1.2.0rc1", "1.2.0rc0", True), (">=1.2.0rc0,<1.2.0rc1", "1.2.0", False), (">=0", "4711", True),
    ],
)  # fmt: skip
def test_bounds_are_half_open(spec: str, version: str, covered: bool) -> None:
    one = replace(next(iter(ALL.values())), affected=spec)
    assert one.covers(Version(version)) is covered


def test_an_unknown_release_is_covered_only_where_every_release_is() -> None:
    one = next(iter(ALL.values()))
    assert replace(one, affected="<0.5.20").covers(None) is None
    assert replace(one, affected=">=0").covers(None) is True


# --- each decidable advisory against what must match and what must not ------------------------------------------------------

#: A model of each family.
MODELS = {
    "dsa": "zai-org/GLM-5.1", "mla": "deepseek-ai/DeepSeek-V3", "gqa": "Qwen/Qwen3-30B-A3B", "swa_hybrid": "google/gemma-4-31B-it",
    "mamba_hybrid": "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", "gdn_hybrid": "Qwen/Qwen3.5-35B-A3B", "kda_hybrid": "moonshotai/Kimi-K3",
    "lightning": "MiniMaxAI/MiniMax-Text-01", "glm-5": "zai-org/GLM-5.1", "minimax-m3": "MiniMaxAI/MiniMax-M3",
}  # fmt: skip
#: A model of none of the wanted families, and no picture model.
PLAIN = {True: "meta-llama/Llama-3.1-8B-Instruct", False: "zai-org/GLM-5.1"}
CONTEXT = 131_072


def a_version(one: Advisory, *, inside: bool) -> str:
    """A release within the bounds, or outside them."""
    low, high = "0", None
    for part in one.affected.split(","):
        if part.startswith(">="):
            low = part[2:]
        elif part.startswith("<"):
            high = part[1:]
    if inside:
        return low if low != "0" else f"{high}rc0" if "rc" not in str(high) and "post" not in str(high) else "0.0.1"
    return high if high is not None else "0.0.1"


def a_value(operator: Any) -> tuple[bool, str | None]:
    """(given, value) of a flag so that the operator holds."""
    if isinstance(operator, bool):
        return operator, None
    if isinstance(operator, list):
        return True, str(operator[0])
    if not isinstance(operator, dict):
        return True, str(operator)
    kind, operand = next(iter(operator.items()))
    if kind == "min":
        return True, str(operand)
    if kind == "effective":
        return True, None if operand is True else str(operand)
    return kind == "present", "x" if kind == "present" else None


def another_value(operator: Any) -> tuple[bool, str | None]:
    """(given, value) of a flag so that the operator does not hold."""
    if operator is True or isinstance(operator, list):
        return (False, None) if operator is True else (True, "something-else")
    if operator is False or not isinstance(operator, dict):
        return True, "something-else" if operator is not False else None
    kind, operand = next(iter(operator.items()))
    if kind == "not":
        return True, None if operand is True else str(operand).lower()
    if kind == "min":
        return True, "1"
    if kind == "effective":
        return True, "false" if operand is True else "true"
    return kind == "absent", "x"


def built(one: Advisory, **changed: Any) -> Scene:
    """A scene in which every condition of the advisory holds, except for what ``changed`` says otherwise."""
    when = one.when
    spelled = [
        f"--{name} {value}" if value else f"--{name}"
        for name, op in when.get("flags", {}).items()
        for given, value in [a_value(op)]
        if given
    ]
    variables = {
        name: value or "1" for name, op in when.get("env", {}).items() for given, value in [a_value(op)] if given
    }
    transfer: dict[str, Any] = dict(when.get("kv_transfer", {}))
    if "kv_connector" in when:
        transfer["kv_connector"] = when["kv_connector"][0]
    if "kv_transfer_extra" in when:
        transfer["kv_connector_extra_config"] = when["kv_transfer_extra"]
    if transfer:
        spelled.append(f"--kv-transfer-config {json.dumps(transfer)}")
    if "transfer_backend" in when:
        spelled.append(f"--disaggregation-transfer-backend {when['transfer_backend'][-1]}")
    if when.get("lora"):
        spelled.append("--enable-lora")
    if "speculative" in when:
        method = when["speculative"][0]
        spelled.append(f"--speculative-algorithm {method}" if one.engine == "sglang" else f'--speculative-config {{"method": "deepseek_{method}"}}'
                       if method == "mtp" else f'--speculative-config {{"method": "{method}"}}')  # fmt: skip
    model = model_for(when)
    facts: dict[str, Any] = {"page_size": 16, "tensor_parallel": 8}
    if "kv_cache_dtype" in when:
        facts["kv_cache_dtype"] = when["kv_cache_dtype"][0]
    if "hardware" in when:
        facts["gpu"] = when["hardware"][-1]
    if "parallel" in when:
        facts["pipeline_parallel"] = 4
    pool = (
        CONTEXT - 1 if "capacity" in when and "num_gpu_blocks_override" not in when["capacity"]["expr"] else 4 * CONTEXT
    )
    if "capacity" in when and "num_gpu_blocks_override" in when["capacity"]["expr"]:
        spelled = [
            "--num-gpu-blocks-override 16" if text.startswith("--num-gpu-blocks-override") else text for text in spelled
        ]
    role = (when.get("role") or ["decode"])[0] if when.get("disaggregated") else "unified"
    options = {
        "engine": one.engine,
        "version": a_version(one, inside=True),
        "model": model,
        "context": CONTEXT,
        "pool": pool,
        **facts,
        **changed,
    }
    given = tuple(options.pop("given", spelled))
    made = options.pop("variables", variables)
    options["file"] = FILE
    wanted = deployment(options.pop("role", role), given=given, variables=made, **options)
    other = partner(wanted, when)
    return Scene(wanted, (wanted, other) if other is not None else (wanted,), tenancy=changed_tenancy(when))


def changed_tenancy(when: dict[str, Any]) -> str | None:
    return "shared" if "policy" in when else None


def model_for(when: dict[str, Any]) -> str:
    """A model that is of the wanted family, matches the wanted glob and takes images if wanted."""
    if "model" in when:
        return "org/" + when["model"][0].replace("*", "")
    if when.get("multimodal"):
        return "Qwen/Qwen3-VL-8B-Instruct"
    wanted = when.get("model_family")
    return MODELS[wanted[0]] if wanted else PLAIN[True]


def partner(wanted: Deployment, when: dict[str, Any]) -> Deployment | None:
    """The other role, different in what the advisory wants to differ."""
    if not wanted.disaggregated:
        return None
    role = "prefill" if wanted.role.value == "decode" else "decode"
    other = wanted.replace(id=f"prod/glm-5.3/{role}", role=declared(role, FILE, 11))
    for name in when.get("pair", ()):
        if name == "attention_tp_differs":
            other = other.replace(tensor_parallel=declared(16, FILE, 20))
        elif name == "context_differs":
            other = other.replace(context_length=declared(CONTEXT // 2, FILE, 20))
        elif name == "block_size_differs":
            other = other.replace(page_size=declared(128, FILE, 20))
        elif name == "speculative_differs":
            other = other.replace(flags=())
        elif name == "limit_differs":
            other = other.replace(first_rejected_length=1_000)
    return other


@pytest.mark.parametrize("one", DECIDABLE, ids=lambda one: one.id)
def test_it_matches_what_it_must(one: Advisory) -> None:
    scene = built(one)
    result = match(one, scene)
    assert (result.state, result.undecided) == ("definite", ())


@pytest.mark.parametrize("one", DECIDABLE, ids=lambda one: one.id)
def test_another_engine_and_another_release_do_not_match(one: Advisory) -> None:
    assert match(one, built(one, engine="tgi")).state == "no"
    if one.affected != ">=0":
        assert match(one, built(one, version=a_version(one, inside=False))).state == "no"
        assert match(one, built(one, version=None)).state == "possible"


BROKEN = [(one, key) for one in DECIDABLE for key in one.when if key != "runtime"]


@pytest.mark.parametrize(("one", "key"), BROKEN, ids=[f"{one.id}-{key}" for one, key in BROKEN])
def test_breaking_any_one_condition_makes_it_no_match(one: Advisory, key: str) -> None:
    assert match(one, broken(one, key)).state == "no"


def broken(one: Advisory, key: str) -> Scene:
    """The matching scene with one condition broken."""
    when, scene = one.when, built(one)
    wanted = scene.deployment
    if key == "disaggregated":
        plain = tuple(flag for flag in wanted.flags if flag.name != "kv-transfer-config")
        return Scene(wanted.replace(role=declared("unified", FILE, 11), flags=plain), (wanted,))
    if key == "role":
        role = "prefill" if when["role"] == ["decode"] else "decode" if when["role"] == ["prefill"] else "unified"
        return Scene(wanted.replace(role=declared(role, FILE, 11)), scene.members)
    if key in ("flags", "env"):
        name, operator = next(iter(when[key].items()))
        given, value = another_value(operator)
        kept = tuple(entry for entry in (wanted.flags if key == "flags" else wanted.env) if entry.name != name)
        if key == "flags":
            return Scene(
                wanted.replace(flags=kept + (flags(f"--{name} {value}" if value else f"--{name}") if given else ())),
                scene.members,
            )
        return Scene(wanted.replace(env=kept + (env(**{name: value or "1"}) if given else ())), scene.members)
    if key in ("kv_connector", "kv_transfer", "kv_transfer_extra", "kv_offload"):
        other = '--kv-transfer-config {"kv_connector": "ExampleConnector"}'
        kept = tuple(f for f in wanted.flags if f.name != "kv-transfer-config")
        return Scene(wanted.replace(flags=kept + flags(other)), scene.members)
    if key == "transfer_backend":
        kept = tuple(f for f in wanted.flags if f.name != "disaggregation-transfer-backend")
        return Scene(wanted.replace(flags=kept + flags("--disaggregation-transfer-backend ascend")), scene.members)
    if key in ("model", "model_family", "multimodal"):
        families_ = when.get("model_family", ())
        model = "Qwen/Qwen3-8B" if "gqa" not in families_ else "deepseek-ai/DeepSeek-V3"
        return Scene(wanted.replace(model=declared(model, FILE, 13)), scene.members)
    if key == "kv_heads_below":
        members = tuple(
            m.replace(tensor_parallel=declared(n, FILE, 20)) for m, n in zip(scene.members, (2, 1), strict=True)
        )
        return Scene(members[0], members)
    if key == "capacity":
        roomy = wanted.replace(context_length=declared(64, FILE, 15))
        return Scene(roomy, (roomy, *scene.members[1:]))
    if key == "pair":
        twin = wanted.replace(role=declared("prefill" if wanted.role.value == "decode" else "decode", FILE, 11))
        return Scene(wanted, (wanted, twin))
    if key in ("speculative", "lora"):
        return Scene(
            wanted.replace(
                flags=tuple(f for f in wanted.flags if not f.name.startswith(("speculative", "enable-lora")))
            ),
            scene.members,
        )
    if key == "parallel":
        members = tuple(m.replace(pipeline_parallel=declared(1, FILE, 20)) for m in scene.members)
        return Scene(members[0], members)
    if key == "policy":
        return Scene(wanted, scene.members, tenancy="dedicated")
    changed = {"kv_cache_dtype": {"kv_cache_dtype": "nvfp4"}, "hardware": {"gpu": "H100"}, "replicas": {"replicas": 1}}[
        key
    ]
    return Scene(wanted.replace(**{name: declared(value, FILE, 20) for name, value in changed.items()}), scene.members)


# --- what only people know ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("one", [one for one in ALL.values() if not one.decidable], ids=lambda one: one.id)
def test_the_others_never_match_definitely(one: Advisory) -> None:
    """With everything else in place the question remains: possible, or no where nothing points to it."""
    scene = built(one, engine=one.engine if one.engine not in ("lmcache", "mooncake") else "vllm")
    assert match(one, scene).state in ("possible", "no")


def test_a_lora_without_a_gateway_is_a_question() -> None:
    one = ALL["sglang-lora-extra-key-alias"]
    result = match(one, built(one))
    assert (result.state, result.undecided) == ("possible", ("exposure",))


def test_lmcache_applies_only_where_its_connector_is_used() -> None:
    one = ALL["lmcache-lora-not-in-key"]
    assert match(one, built(one, engine="vllm", version="0.28.0")).state == "possible"
    assert match(one, built(one, engine="vllm", version="0.28.0", given=("--enable-lora",))).state == "no"


def test_a_changed_dtype_asks_whether_the_store_was_kept() -> None:
    one = ALL["sglang-hicache-key-without-kv-dtype"]
    scene = built(one)
    changed = replace(scene, before=scene.deployment.replace(kv_cache_dtype=declared("fp8_e4m3", FILE, 20)))
    assert match(one, scene).state == "no"
    assert match(one, replace(scene, before=scene.deployment)).state == "no"
    assert match(one, changed).state == "possible"


def test_a_salt_at_the_gateway_settles_the_timing_of_prefixes_and_nothing_else() -> None:
    one = ALL["vllm-shared-prefix-cache-timing"]
    scene = replace(built(one), tenancy="shared")
    assert match(one, scene).state == "definite"
    assert match(one, replace(scene, salted=True)).state == "no"
    salted = "deployments: [{match: {}, tenancy: shared, data: sensitive, cache_salt: gateway}]"
    assert verdicts("isolation", facts(deployment(engine="vllm")), salted) == ["block"]


@pytest.mark.parametrize(
    ("name", "given", "state"),
    [
        ("trtllm-fp8-kv-reuse", (), "possible"),
        ("trtllm-fp8-kv-reuse", ("--enable-block-reuse true",), "definite"),
        ("trtllm-fp8-kv-reuse", ("--enable-block-reuse False",), "no"),
        ("trtllm-disagg-tp-mismatch", ("--cache-transceiver-backend NIXL",), "no"),
        ("trtllm-disagg-tp-mismatch", ("--cache-transceiver-backend DEFAULT",), "possible"),
        ("trtllm-host-cache-foreign-tokens", ("--enable-block-reuse True", "--host-cache-size 0"), "no"),
    ],
)
def test_the_yaml_of_tensorrt_llm_settles_what_it_says(name: str, given: tuple[str, ...], state: str) -> None:
    assert match(ALL[name], built(ALL[name], given=given)).state == state


@pytest.mark.parametrize(
    ("config", "found"),
    [
        (
            {
                "kv_connector": "MultiConnector",
                "kv_connector_extra_config": {"connectors": [{"kv_connector": "NixlConnector"}]},
            },
            True,
        ),
        ({"kv_connector": "NixlPullConnector"}, False),
        ({"kv_connector": "NixlConnector"}, True),
    ],
)
def test_connectors_inside_others_count(config: dict[str, Any], found: bool) -> None:
    one = ALL["vllm-fp8-kv-nixl-qwen35-nvfp4"]
    scene = built(one, given=(f"--kv-transfer-config {json.dumps(config)}",))
    assert (match(one, scene).state == "definite") is found


def test_a_transfer_config_that_cannot_be_read_leaves_it_possible() -> None:
    one = ALL["vllm-kimi-k3-nixl-load"]
    assert match(one, built(one, given=("--kv-transfer-config {broken",))).undecided == ("kv_connector",)


@pytest.mark.parametrize(
    ("version", "given", "state"),
    [
        ("0.13.0", (), "no"), ("0.13.0", ("--async-scheduling",), "definite"), ("0.20.0", (), "possible"),
        ("0.20.0", ("--no-async-scheduling",), "no"), ("0.20.0", ("--async-scheduling",), "definite"),
    ],
)  # fmt: skip
def test_defaults_are_those_of_the_release(version: str, given: tuple[str, ...], state: str) -> None:
    one = ALL["vllm-async-deferred-free"]
    assert match(one, built(one, version=version, given=given)).state == state


def test_a_value_that_is_not_static_leaves_it_possible() -> None:
    one = ALL["sglang-lightning-extra-buffer"]
    scene = built(one)
    flag = replace(scene.deployment.flags[0], value=None, raw="--mamba-radix-cache-strategy ?")
    assert match(one, Scene(scene.deployment.replace(flags=(flag,)), ())).state == "possible"


# --- models, hosts -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "family"),
    [
        ("zai-org/GLM-5.3-FP8", "dsa"), ("/models/GLM-5.3", "glm-5"), ("nvidia/DeepSeek-V3.2-NVFP4", "dsa"), ("deepseek-ai/DeepSeek-R1", "mla"),
        ("deepseek-ai/DeepSeek-R1-Distill-Llama-70B", "gqa"), ("Qwen/Qwen3.5-397B-A17B", "gdn_hybrid"), ("openai/gpt-oss-120b", "swa_hybrid"),
        ("nvidia/Nemotron-H-56B-Base-8K", "mamba_hybrid"), ("moonshotai/Kimi-K3", "kda_hybrid"), ("meta-llama/Llama-3.3-70B-Instruct", "gqa"),
    ],
)  # fmt: skip
def test_models_have_their_family(model: str, family: str) -> None:
    assert family in families.families(model)


@pytest.mark.parametrize("model", [None, "", "acme/our-own-model", "$MODEL"])
def test_an_unknown_model_has_none(model: str | None) -> None:
    assert families.family_of(model) is None
    assert families.families(model) == frozenset()


def test_hosts_are_bare_names() -> None:
    for one in hosts.shared_apis():
        assert "://" not in one.host
        assert one.provider
        assert one.dedicated


def test_facts_do_not_load_the_advisories(tmp_path: Path) -> None:
    """``facts`` needs neither rules nor advisories."""
    import subprocess

    (tmp_path / "up.sh").write_text("vllm serve Qwen/Qwen3-8B --max-model-len 4096\n", encoding="utf-8")
    script = (
        "import sys; from checklistbot import cli; cli.main(['facts', sys.argv[1]]); "
        "from checklistbot.knowledge.compiled import _entries; "
        "print(sorted(m for m in sys.modules if m.startswith('checklistbot.rules')), _entries.cache_info().misses)"
    )
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[] 0"
