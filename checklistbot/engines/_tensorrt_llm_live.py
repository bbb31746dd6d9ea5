"""TensorRT-LLM's endpoints → facts: /metrics (JSON, one entry an iteration, with enable_iter_perf_stats), /version,
/v1/models."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from checklistbot.engines._live import Ask, Live, LiveGrammar, models, number, owned_by, table


def _stats(ask: Ask) -> dict[str, Any]:
    answer = ask("/metrics")
    data = answer.json() if answer is not None else None
    latest = data[-1] if isinstance(data, list) and data else data
    stats = latest.get("kvCacheStats") if isinstance(latest, dict) else None
    return stats if isinstance(stats, dict) else {}


def _read(ask: Ask) -> Iterator[Live]:
    owner = owned_by(ask)
    if owner not in (None, "tensorrt_llm"):
        return
    stats = _stats(ask)
    if owner is None and "tokensPerBlock" not in stats:
        return
    server = Live()
    blocks, page = number(stats.get("maxNumBlocks")), number(stats.get("tokensPerBlock"))
    server.say("page_size", page, 60)
    server.say("kv_pool_tokens", blocks * page if blocks and page else None, 60)
    server.say("engine_version", table(ask, "/version").get("version"), 60)
    for entry in models(ask)[:1]:
        server.say("served_model_name", entry.get("id"), 60)
    yield server


LIVE: Final = LiveGrammar("tensorrt-llm", _read)
