"""Text Generation Inference's endpoints → facts: /info and the gauge ``tgi_batch_max_total_tokens``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from checklistbot.engines._live import Ask, Live, LiveGrammar, samples, table


def _read(ask: Ask) -> Iterator[Live]:
    info = table(ask, "/info")
    if "max_total_tokens" not in info or "model_id" not in info:
        return
    server = Live()
    server.say("model", info.get("model_id"), 60)
    server.say("engine_version", info.get("version"), 60)
    server.say("context_length", info.get("max_total_tokens"), 70)
    server.say("kv_pool_tokens", info.get("max_batch_total_tokens"), 60)
    for name, _, value in samples(ask):
        if name == "tgi_batch_max_total_tokens":
            server.say("kv_pool_tokens", value, 80)
    yield server


LIVE: Final = LiveGrammar("tgi", _read)
