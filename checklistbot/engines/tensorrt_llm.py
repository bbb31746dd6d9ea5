"""TensorRT-LLM: flags and its YAML → facts (other-engines.md, "TensorRT-LLM"). The YAML overrides the command line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from checklistbot.engines import _build as build
from checklistbot.engines import _config
from checklistbot.engines._flags import Parsed, Table, fact, integer, number, parse, simple_table, word_text
from checklistbot.engines.base import Engine, Launch, Word
from checklistbot.model import Deployment, Fact, Source

_TABLE: Table = simple_table(
    (
        "--model --model-path",
        "--tokenizer",
        "--host",
        "--port",
        "--backend",
        "--max_batch_size",
        "--max_num_tokens",
        "--max_seq_len --max_sequence_length",
        "--max_beam_width",
        "--tp_size --tensor_parallel_size --tensor-parallel-size",
        "--pp_size --pipeline_parallel_size --pipeline-parallel-size",
        "--ep_size --expert-parallel-size",
        "--cp_size",
        "--cluster_size",
        "--gpus_per_node",
        "--kv_cache_free_gpu_memory_fraction --free_gpu_memory_fraction --free-gpu-memory-fraction --kv_cache_free_gpu_mem_fraction",
        "--kv_cache_dtype",
        "--kv_cache_max_tokens",
        "--kv_block_size",
        "--enable_block_reuse",
        "--host_cache_size",
        "--cache_transceiver_backend",
        "--num_postprocess_workers",
        "--extra_llm_api_options --config --extra_engine_args --extra-engine-args",
        "--override_engine_args",
        "--reasoning_parser",
        "--tool_parser",
        "--metadata_server_config_file",
        "--server_role",
        "--disaggregation_mode --disaggregation-mode",
        "--served_model_name --served-model-name",
        "--revision",
    ),
    switches=("--trust_remote_code", "--fail_fast_on_attention_window_too_large", "--enable_chunked_prefill"),
    underscores=True,
)
_FACTS = {
    "model": build.Given(("model",), word_text),
    "served_model_name": build.Given(("served-model-name",), word_text),
    "context_length": build.Given(("max-seq-len",), integer),
    "kv_pool_tokens": build.Given(("kv-cache-max-tokens",), integer),
    "page_size": build.Given(("kv-block-size",), integer),
    "memory_fraction": build.Given(("kv-cache-free-gpu-memory-fraction",), number),
    "kv_cache_dtype": build.Given(("kv-cache-dtype",), word_text),
    "tensor_parallel": build.Given(("tp-size",), integer),
    "pipeline_parallel": build.Given(("pp-size",), integer),
}
_MODULES = ("-m tensorrt_llm.commands.serve", "-m dynamo.trtllm", "-m dynamo.trtllm.main")
#: Sections of the YAML that are opened up, with the flags that mean the same as their keys.
_NESTED: dict[str, dict[str, str]] = {
    "kv_cache_config": {
        "max_tokens": "kv-cache-max-tokens",
        "free_gpu_memory_fraction": "kv-cache-free-gpu-memory-fraction",
        "dtype": "kv-cache-dtype",
        "tokens_per_block": "kv-block-size",
    },
    "cache_transceiver_config": {"backend": "cache-transceiver-backend"},
    "llm_api_args": {},
    "build_config": {},
}
#: Switches that are on where nothing is said, so that "false" says something.
_TOLD_OFF = ("enable_block_reuse",)


def _arguments(launch: Launch) -> tuple[Word, ...] | None:
    """The server's arguments; ``trtllm-serve disaggregated`` is the router in front of workers, ``trtllm-bench`` none."""
    name, first = build.program(launch.argv)
    rest = launch.argv[first:]
    if name == "trtllm-serve" or name in _MODULES:
        if rest and rest[0].text in ("disaggregated", "disaggregated_mpi_worker", "embeddings"):
            return None
        return rest[1:] if rest and rest[0].text in ("serve", "mm_embedding_serve") else rest
    return launch.argv if launch.engine == "tensorrt-llm" else None


def deployment(launch: Launch) -> Deployment | None:
    """The deployment that a launch starts, None where it starts no TensorRT-LLM server."""
    arguments = _arguments(launch)
    if arguments is None:
        return None
    parsed = parse([*arguments, *_from_file(launch, arguments)], _TABLE)
    made: dict[str, Fact | None] = {"role": _role(parsed)}
    if parsed.last("model") is None and parsed.positional:
        made["model"] = fact(parsed.positional[0], word_text)
    found = build.deployment(
        launch, "tensorrt-llm", parsed, _FACTS, engine_version=build.version(launch, "tensorrt-llm"), made=made
    )
    return build.capped(found)


def _role(parsed: Parsed) -> Fact | None:
    for name, roles in (
        ("disaggregation-mode", {"prefill": "prefill", "decode": "decode"}),
        ("server-role", {"CONTEXT": "prefill", "GENERATION": "decode"}),
    ):
        given = parsed.last(name)
        if given is not None and given.value is not None and given.value.text in roles:
            return Fact(roles[given.value.text], Source("declared", given.value.path, given.value.line))
    return None


def _from_file(launch: Launch, arguments: Sequence[Word]) -> Iterator[Word]:
    """The settings of ``--extra_llm_api_options FILE`` as flags behind the command's own, where the last one wins."""
    given = parse(arguments, _TABLE).last("extra-llm-api-options")
    name = given.value.shown if given is not None and given.value is not None else None
    if name is None or name not in launch.mounted:
        return
    yield from settings(*launch.mounted[name])


def settings(body: str, path: str, line: int) -> Iterator[Word]:
    """The YAML's keys as flags; the sections of ``_NESTED`` are opened up."""
    yield from _settings(_config.load(body, path, line), path)


def _settings(found: dict[str, tuple[Any, int]], path: str) -> Iterator[Word]:
    for key, (value, at) in found.items():
        if key in _NESTED and isinstance(value, dict):
            renamed = _NESTED[key]
            nested: dict[str, tuple[Any, int]] = {
                renamed.get(str(name), str(name)): (inner, at) for name, inner in value.items()
            }
            yield from _settings(nested, path)
            continue
        if isinstance(value, (dict, list)) or value is None or (value is False and key not in _TOLD_OFF):
            continue
        yield Word(f"--{key}", path, at, key)
        if value is not True or key in _TOLD_OFF:
            yield Word(str(value), path, at, str(value))


def first_rejected_length(found: Deployment) -> int | None:
    """max_seq_len, which the engine shrinks to the pool in silence: the smaller of the two where both are known."""
    context, pool = found.context_length.number(), found.kv_pool_tokens.number()
    if context is None or pool is None:
        return context
    # A cap above the context leaves open how far the engine shrinks.
    return None if pool >= context and found.kv_pool_tokens.bound == "upper" else min(context, pool)


def full_request_needs(found: Deployment) -> int | None:
    """Pool tokens for one request of full context: whole blocks."""
    context, block = found.context_length.number(), found.page_size.number() or 32
    return None if context is None else -(-context // block) * block


ENGINE = Engine(
    name="tensorrt-llm",
    words=(b"trtllm", b"tensorrt_llm", b"tensorrt-llm", b"TensorRT-LLM", b"TRTLLM", b"TRT-LLM"),
    serves=lambda launch: _arguments(launch) is not None,
    deployment=deployment,
    first_rejected_length=first_rejected_length,
    full_request_needs=full_request_needs,
)
