"""llama.cpp's endpoints → facts: /props (the slot's context, the number of slots), /v1/models.

llama-cpp-python's server has only the latter: the engine and the name, no length. It is known by the title of its API
description; the version there is the binding's, not the engine's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from checklistbot.engines._live import Ask, Live, LiveGrammar, models, number, owned_by, table


def _read(ask: Ask) -> Iterator[Live]:
    props = table(ask, "/props")
    settings = props.get("default_generation_settings")
    if not isinstance(settings, dict) or "total_slots" not in props:
        yield from _python(ask)
        return
    server = Live()
    context, slots = number(settings.get("n_ctx")), number(props.get("total_slots"))
    server.say("context_length", context, 70)
    if context and slots == 1:
        # With several slots the pool is shared or split, which /props does not say.
        server.say("kv_pool_tokens", context, 60)
    server.say("model", props.get("model_path"), 60)
    server.say("served_model_name", props.get("model_alias"), 60)
    build = str(props.get("build_info") or "")
    server.say("engine_version", build.partition("-")[0], 50)
    for entry in models(ask)[:1]:
        server.say("served_model_name", entry.get("id"), 40)
    yield server


def _python(ask: Ask) -> Iterator[Live]:
    if owned_by(ask) != "me":
        return
    about = table(ask, "/openapi.json").get("info")
    if not isinstance(about, dict) or "llama.cpp Python" not in str(about.get("title")):
        return
    server = Live()
    for entry in models(ask)[:1]:
        server.say("served_model_name", entry.get("id"), 40)
    yield server


LIVE: Final = LiveGrammar("llama.cpp", _read)
