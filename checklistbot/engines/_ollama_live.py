"""Ollama's endpoints → facts: /api/ps (the models in memory, each a server), /api/version. The pool is not told."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from checklistbot.engines._live import Ask, Live, LiveGrammar, table


def _read(ask: Ask) -> Iterator[Live]:
    running = table(ask, "/api/ps").get("models")
    if not isinstance(running, list):
        return
    version = table(ask, "/api/version").get("version")
    entries = [entry for entry in running[:64] if isinstance(entry, dict)]
    for entry in entries or [{}]:
        name = entry.get("model") or entry.get("name")
        server = Live(str(name or ""))
        server.say("engine_version", version, 60)
        server.say("model", name, 60)
        server.say("context_length", entry.get("context_length"), 70)
        yield server


LIVE: Final = LiveGrammar("ollama", _read)
