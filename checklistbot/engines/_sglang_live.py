"""SGLang's endpoints → facts: /server_info (from 0.5.6, /get_server_info before), /v1/loads, /v1/models, /metrics.

Every DP rank has a pool of its own; the top-level value is rank 0's. ``max_req_input_len`` is the only field that
gives the real limit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from checklistbot.engines._live import Ask, Live, LiveGrammar, models, number, owned_by, samples, table
from checklistbot.engines._log import dtype_of

_FACTS: Final[Mapping[str, str]] = {
    "model_path": "model",
    "served_model_name": "served_model_name",
    "mem_fraction_static": "memory_fraction",
    "page_size": "page_size",
    "tp_size": "tensor_parallel",
    "pp_size": "pipeline_parallel",
    "dp_size": "data_parallel",
    "dcp_size": "decode_context_parallel",
    "chunked_prefill_size": "chunked_prefill_size",
    "max_running_requests": "max_running_requests",
    "max_total_tokens": "cap",
    "version": "engine_version",
}
_ROLES: Final = {"prefill": "prefill", "decode": "decode", "null": "unified", "unified": "unified"}


def _info(server: Live, info: Mapping[str, Any]) -> None:
    for name, key in _FACTS.items():
        server.say(key, info.get(name), 60)
    server.say("context_length", info.get("context_length"), 55)
    if isinstance(info.get("kv_cache_dtype"), str):
        server.say("kv_cache_dtype", dtype_of(info["kv_cache_dtype"]), 60)
    if "disaggregation_mode" in info:
        server.say("role", _ROLES.get(str(info["disaggregation_mode"] or "null")), 60)
    if "speculative_algorithm" in info:
        server.say("speculative", info["speculative_algorithm"] or "none", 60)
    limit = number(info.get("max_req_input_len"))
    server.first_rejected_length = int(limit) if limit and limit > 0 else None
    server.say("kv_pool_tokens", info.get("max_total_num_tokens"), 70)
    states = info.get("internal_states")
    for rank, state in enumerate(states if isinstance(states, list) else []):
        usage = state.get("memory_usage") if isinstance(state, dict) else None
        if isinstance(usage, dict):
            server.say("kv_pool_tokens", usage.get("token_capacity"), 80, f"DP{rank}")


def _loads(server: Live, loads: object) -> None:
    for entry in loads if isinstance(loads, list) else []:
        if isinstance(entry, dict):
            server.say("kv_pool_tokens", entry.get("max_total_num_tokens"), 82, f"DP{entry.get('dp_rank', 0)}")
            mode = entry.get("disaggregation")
            if isinstance(mode, dict):
                server.say("role", _ROLES.get(str(mode.get("mode"))), 50)


def _metrics(server: Live, ask: Ask) -> bool:
    """What the gauges say; True if there is any of SGLang's."""
    found = False
    for name, labels, value in samples(ask):
        if not name.startswith("sglang:"):
            continue
        found = True
        server.say("served_model_name", labels.get("model_name"), 30)
        server.say("role", _ROLES.get(labels.get("engine_type", "")), 40)
        rank = f"DP{labels.get('dp_rank', 0)}"
        if name == "sglang:max_total_num_tokens":
            server.say("kv_pool_tokens", value, 75, rank)
        elif name == "sglang:context_len":
            server.say("context_length", value, 70)
        elif name == "sglang:page_size":
            server.say("page_size", value, 65)
        elif name == "sglang:cache_config_info":
            pages, size = number(labels.get("num_pages")), number(labels.get("page_size"))
            server.say("page_size", size, 50)
            server.say("kv_pool_tokens", pages * size if pages and size else None, 60, rank)
    return found


def _read(ask: Ask) -> Iterator[Live]:
    owner = owned_by(ask)
    if owner not in (None, "sglang"):
        return
    server = Live()
    info = table(ask, "/server_info")
    if "max_total_num_tokens" not in info and "mem_fraction_static" not in info:
        info = table(ask, "/get_server_info")
    ours = owner == "sglang" or "mem_fraction_static" in info or "max_total_num_tokens" in info
    _info(server, info)
    ours = _metrics(server, ask) or ours
    if not ours:
        return
    loads = table(ask, "/v1/loads")
    server.say("engine_version", loads.get("version"), 55)
    _loads(server, loads.get("loads"))
    for entry in models(ask)[:1]:
        server.say("context_length", entry.get("max_model_len"), 75)
        server.say("served_model_name", entry.get("id"), 40)
    yield server


LIVE: Final = LiveGrammar("sglang", _read)
