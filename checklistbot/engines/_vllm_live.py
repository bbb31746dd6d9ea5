"""vLLM's endpoints → facts: /v1/models, /version, the gauge ``vllm:cache_config_info``, /server_info (development
mode).

``num_gpu_blocks`` of the gauge is a sum over DP engines, ``kv_cache_size_tokens`` (from 0.24) is not. Before 0.24
the tokens of a model with several kinds of layers cannot be told from blocks, and stay unknown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from checklistbot.engines._live import Ask, Live, LiveGrammar, models, number, owned_by, samples, table
from checklistbot.engines._log import dtype_of

_CONFIG: Final[Mapping[str, str]] = {
    "gpu_memory_utilization": "memory_fraction",
    "block_size": "page_size",
    "kv_cache_memory_bytes": "kv_cache_memory_bytes",
}


def _cache_config(server: Live, engines: Mapping[str, Mapping[str, str]]) -> None:
    factors: list[float] = []
    for engine, labels in engines.items():
        for name, key in _CONFIG.items():
            server.say(key, number(labels.get(name)), 60)
        server.say("kv_cache_dtype", dtype_of(labels.get("cache_dtype", "") or "None"), 50)
        size = number(labels.get("kv_cache_size_tokens"))
        blocks, page = number(labels.get("num_gpu_blocks")), number(labels.get("block_size"))
        if size:
            server.say("kv_pool_tokens", size, 80, f"DP{engine}")
        elif blocks and page and not _mixed(labels):
            server.say("kv_pool_tokens", blocks // len(engines) * page, 60, f"DP{engine}")
        factor = number(labels.get("kv_cache_max_concurrency"))
        server.say("factor", factor, 80, f"DP{engine}")
        factors += [factor] if factor else []
    if factors:
        server.fits = min(factors) >= 1.0


def _mixed(labels: Mapping[str, str]) -> bool:
    """True if the gauge shows sliding-window or state layers, whose blocks are not all tokens."""
    return any(
        value not in ("None", "", "auto", "none", "0")
        for name, value in labels.items()
        if name == "sliding_window" or name in ("mamba_block_size", "mamba_page_size_padded")
    )


def _dev_info(server: Live, info: Mapping[str, Any]) -> None:
    config = info.get("vllm_config")
    parallel = config.get("parallel_config") if isinstance(config, dict) else None
    if isinstance(parallel, dict):
        server.say("tensor_parallel", parallel.get("tensor_parallel_size"), 60)
        server.say("pipeline_parallel", parallel.get("pipeline_parallel_size"), 60)
        server.say("data_parallel", parallel.get("data_parallel_size"), 60)
        server.say("decode_context_parallel", parallel.get("decode_context_parallel_size"), 60)


def _read(ask: Ask) -> Iterator[Live]:
    if owned_by(ask) not in (None, "vllm"):
        return
    engines: dict[str, Mapping[str, str]] = {}
    ours = owned_by(ask) == "vllm"
    for name, labels, _ in samples(ask):
        ours = ours or name.startswith("vllm:")
        if name == "vllm:cache_config_info" and len(engines) < 1024:
            engines[labels.get("engine", str(len(engines)))] = labels
    if not ours:
        return
    server = Live()
    _cache_config(server, engines)
    server.say("engine_version", table(ask, "/version").get("version"), 70)
    for entry in models(ask)[:1]:
        server.say("context_length", entry.get("max_model_len"), 75)
        server.say("served_model_name", entry.get("id"), 60)
        server.say("model", entry.get("root"), 60)
    _dev_info(server, table(ask, "/server_info?config_format=json"))
    yield server


LIVE: Final = LiveGrammar("vllm", _read)
