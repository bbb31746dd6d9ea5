"""Flags → facts: aliases, abbreviations, sizes, versions, secrets."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.version import Version

from checklistbot import engines
from checklistbot.engines import tensorrt_llm
from checklistbot.engines._flags import as_flag, human_integer, mask, parse, table
from checklistbot.engines._images import split, version_of
from checklistbot.engines.base import Launch, Word
from checklistbot.model import Deployment


def words(*texts: str) -> tuple[Word, ...]:
    return tuple(Word(text, "f", number) for number, text in enumerate(texts, 1))


def deploy(engine: str, command: str, image: str | None = None, **env: str) -> Deployment:
    launch = Launch(
        words(*command.split()),
        "f",
        1,
        "n",
        image=Word(image, "f", 9) if image else None,
        env={name: Word(value, "f", 5) for name, value in env.items()},
    )
    found = engines.registry()[engine].deployment(launch)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("engine", "command", "facts"),
    [
        ("sglang", "python -m sglang.launch_server --model m --tp 8 --dp 2 --context-length 4096",
         {"model": "m", "tensor_parallel": 8, "data_parallel": 2, "context_length": 4096}),
        ("sglang", "sglang serve m --mem-frac 0.8 --max-total 9000", {"model": "m", "memory_fraction": 0.8, "kv_pool_tokens": 9000}),
        ("sglang", "python -m sglang.launch_server --model-path=m --disaggregation-mode=decode", {"role": "decode"}),
        ("sglang", "python -m dynamo.sglang --model-path m --disaggregation-mode prefill", {"role": "prefill"}),
        ("vllm", "vllm serve m --max_model_len=131_072 -tp 2 -pp=3", {"model": "m", "context_length": 131072, "tensor_parallel": 2, "pipeline_parallel": 3, "world_size": 6}),
        ("vllm", "vllm serve m --max-model-len 128k", {"context_length": 128_000}),
        ("vllm", "vllm serve m --max-model-len 128K", {"context_length": 131_072}),
        ("vllm", "vllm serve m --max-model-len auto", {"context_length": None}),
        ("vllm", "vllm serve --served-model-name a b --model m", {"served_model_name": "a,b", "model": "m"}),
        ("vllm", "vllm serve m --enable-prefix-caching --gpu-memory-util .9", {"memory_fraction": 0.9}),
        ("vllm", "vllm serve m --max-model-len 1 --max-model-len 2", {"context_length": 2}),
        ("vllm", "vllm serve m --max-modle-len 4096", {"context_length": None}),
        ("vllm", 'vllm serve m --kv-transfer-config {"kv_connector":"NixlConnector","kv_role":"kv_producer"}', {"role": "prefill"}),
        ("vllm", "vllm serve m --kv-transfer-config.kv_role kv_consumer", {"role": "decode"}),
        ("vllm", "python -m vllm.entrypoints.openai.api_server --model m --no-enable-prefix-caching --block-size 32", {"page_size": 32}),
        ("lmdeploy", "lmdeploy serve api_server m --session-len 8192 --cache-max-entry-count 0.5 --tp 2 --quant-policy 8",
         {"model": "m", "context_length": 8192, "memory_fraction": 0.5, "tensor_parallel": 2, "kv_cache_dtype": "int8"}),
        ("tensorrt-llm", "trtllm-serve m --max_seq_len 4096 --tp_size 4 --kv_cache_free_gpu_memory_fraction 0.8",
         {"model": "m", "context_length": 4096, "tensor_parallel": 4, "memory_fraction": 0.8}),
        ("llama.cpp", "llama-server -m x.gguf -c 32768 -np 4 -ctk q8_0", {"kv_pool_tokens": 32768, "context_length": 8192, "kv_cache_dtype": "q8_0"}),
        ("llama.cpp", "llama-server -m x.gguf -c 32768 -np 4 -kvu", {"kv_pool_tokens": 32768, "context_length": 32768}),
        ("llama.cpp", "llama-server -hf a/b -c 0", {"model": "a/b", "context_length": None}),
        ("tgi", "text-generation-launcher --model-id m --max-total-tokens 4096 --max-batch-total-tokens 9000 --num-shard 2",
         {"context_length": 4096, "kv_pool_tokens": 9000, "tensor_parallel": 2}),
    ],
)  # fmt: skip
def test_flags_become_facts(engine: str, command: str, facts: dict[str, object]) -> None:
    found = deploy(engine, command)
    assert {name: found.fact(name).value for name in facts} == facts


def test_the_yaml_of_tensorrt_llm_is_opened_up() -> None:
    text = (
        "max_seq_len: 4096\nkv_cache_config:\n  enable_block_reuse: false\n  max_tokens: 9000\n"
        "cache_transceiver_config: {backend: UCX}\nenable_attention_dp: false\n"
    )
    words = [word.text for word in tensorrt_llm.settings(text, "llm.yaml", 1)]
    assert words == [
        *("--max_seq_len", "4096", "--enable_block_reuse", "False", "--kv-cache-max-tokens", "9000"),
        *("--cache-transceiver-backend", "UCX"),
    ]


def test_a_declared_cap_of_sglang_is_an_upper_bound() -> None:
    assert deploy("sglang", "sglang serve m --max-total-tokens 5").kv_pool_tokens.bound == "upper"


def test_defaults_are_never_declared() -> None:
    found = deploy("vllm", "vllm serve m")
    assert {name for name, fact in found.facts() if fact.kind == "declared"} == {"engine", "model"}
    assert found.role.kind == "default"
    assert found.kv_pool_tokens.unknown is not None
    assert found.kv_pool_tokens.unknown.supply == ("log", "endpoint", "config", "pin")


def test_each_fact_has_its_own_line() -> None:
    found = deploy("vllm", "vllm serve m --max-model-len 4096 -tp 2")
    assert found.context_length.source is not None
    assert found.context_length.source.line == 5
    assert found.flags[0].line == 5


def test_sizes_by_release() -> None:
    command = "python -m sglang.launch_server --model m --context-length 128k"
    assert deploy("sglang", command, "lmsysorg/sglang:v0.5.9").context_length.value is None
    assert deploy("sglang", command, "lmsysorg/sglang:v0.5.10").context_length.value == 128_000
    command = "vllm serve m --max-model-len 128k"
    assert deploy("vllm", command, "vllm/vllm-openai:v0.8.4").context_length.value is None


def test_variables_configure_too() -> None:
    found = deploy("tgi", "text-generation-launcher", MODEL_ID="m", MAX_TOTAL_TOKENS="100", NUM_SHARD="2")
    assert (found.model.value, found.context_length.value, found.tensor_parallel.value) == ("m", 100, 2)
    found = deploy("llama.cpp", "llama-server -c 10", LLAMA_ARG_CTX_SIZE="99", LLAMA_ARG_MODEL="m.gguf")
    assert (found.model.value, found.kv_pool_tokens.value) == ("m.gguf", 10)
    found = deploy("ollama", "ollama serve", OLLAMA_CONTEXT_LENGTH="8192")
    assert found.context_length.value == 8192


@pytest.mark.parametrize(
    ("image", "engine", "version"),
    [
        ("lmsysorg/sglang:v0.5.9-cu129", "sglang", "0.5.9"),
        ("docker.io/lmsysorg/sglang:v0.5.5.post3-cu129-amd64", "sglang", "0.5.5.post3"),
        ("lmsysorg/sglang:v0.5.22rc0", "sglang", "0.5.22rc0"),
        ("lmsysorg+sglang+v0.5.5.post2.sqsh", "sglang", "0.5.5.post2"),
        ("vllm/vllm-openai:v0.9.0.1", "vllm", "0.9.0.1"),
        ("lmsysorg/sglang:latest", "sglang", None),
        ("lmsysorg/sglang@sha256:" + "0" * 64, "sglang", None),
        ("lmsysorg/sglang:kimi-k3", "sglang", None),
        ("nvcr.io/nvidia/ai-dynamo/sglang-runtime:1.0.1", "sglang", None),
        ("rayproject/ray-llm:2.52.0", "vllm", None),
        ("avarok/vllm-dgx-spark:v11", "vllm", None),
        ("ghcr.io/llm-d/llm-d-cuda:v0.9.0", "vllm", None),
        ("registry.lan/ml/vllm-wrapper:2025.07", "vllm", None),
        ("ghcr.io/huggingface/text-generation-inference:3.3.4-rocm", "tgi", "3.3.4"),
        ("registry.lan:5000/vllm", "vllm", None),
    ],
)
def test_a_tag_is_a_version_only_where_tags_are_versions(image: str, engine: str, version: str | None) -> None:
    assert version_of(image, engine) == version


def test_image_references() -> None:
    assert split("registry.lan:5000/a/b") == ("registry.lan:5000/a/b", None)
    assert split("docker://nvcr.io#nvidia/vllm:25.09-py3") == ("nvcr.io/nvidia/vllm", "25.09-py3")


def test_entrypoint_images_take_bare_arguments_and_routers_do_not() -> None:
    launch = Launch(words("--model", "m"), "f", 1, "n", image=Word("vllm/vllm-openai:v0.11.0", "f", 1))
    assert engines.registry()["vllm"].serves(launch)
    for image in ("lmcache/vllm-router:1", "ghcr.io/x/vllm-exporter:1", "curlimages/curl:8"):
        other = Launch(words("--model", "m"), "f", 1, "n", image=Word(image, "f", 1))
        assert not any(engine.serves(other) for engine in engines.registry().values())


def test_secrets_are_masked_when_parsed() -> None:
    secret = "sk-canary-0123456789abcdef"
    command = f"vllm serve m --api-key {secret} --ssl-keyfile-password=hunter2 --hf-token hf_ABCDEFGHIJKLMNOPQRST"
    found = deploy("vllm", command, VLLM_API_KEY=secret)
    text = json.dumps(found.to_json())
    assert secret not in text
    assert "hunter2" not in text
    assert "hf_ABC" not in text
    assert found.flag("api-key").value == "***"  # type: ignore[union-attr]
    assert "hunter" not in mask("kv-transfer-config", '{"password": "hunter2", "kv_role": "kv_both"}')
    assert mask("kv-transfer-config", '{"kv_role": "kv_both"}') == '{"kv_role": "kv_both"}'


def test_unknown_values_keep_their_flag() -> None:
    launch = Launch((*words("vllm", "serve", "m"), Word(None, "f", 4, "--max-model-len=?")), "f", 1, "n")
    found = engines.registry()["vllm"].deployment(launch)
    assert found is not None
    assert found.context_length.value is None
    assert found.flag("max-model-len") is not None


def test_an_ambiguous_prefix_is_no_flag_and_a_removed_flag_is_one_of_its_release() -> None:
    flags = table("vllm")
    assert flags.find("--gpu-memory-util", None) is not None
    assert flags.find("--max-num", None) is None
    assert flags.find("--swap-space", Version("0.10.2")) is not None


@pytest.mark.parametrize(
    ("text", "value"),
    [("25.6k", 25_600), ("1M", 1 << 20), ("1m", 10**6), ("1.5K", None), ("7", 7), ("x", None), ("", None)],
)
def test_human_sizes(text: str, value: int | None) -> None:
    assert human_integer(text) == value


@given(st.text(max_size=12))
def test_any_size_is_read_or_refused(text: str) -> None:
    assert human_integer(text) is None or isinstance(human_integer(text), int)


@given(
    st.lists(
        st.one_of(
            st.text(max_size=10),
            st.sampled_from(["--model", "-tp", "--tp", "--max-model-len=", "--x.y", "-", "--", "-1", "--api-key"]),
        ),
        max_size=12,
    )
)
def test_any_command_line_is_parsed(texts: list[str]) -> None:
    for engine in ("sglang", "vllm"):
        parsed = parse(words(*texts), table(engine))
        assert sum(1 + len(given.values) for given in parsed.given) + len(parsed.positional) >= len(texts)
        for given_flag in parsed.given:
            as_flag(given_flag)
