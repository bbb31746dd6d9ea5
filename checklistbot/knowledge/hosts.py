"""Hosts of shared LLM APIs (``hosts/shared-llm-apis.yml``)."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from checklistbot import resources
from checklistbot.knowledge import compiled
from checklistbot.record import record
from checklistbot.strict_yaml import Table, Value

FILE: Final = "hosts/shared-llm-apis.yml"


@record
class SharedApi:
    """A shared LLM API: its host, its provider, and what to ask the provider for when data must stay apart."""

    host: str
    provider: str
    dedicated: str


@cache
def shared_apis() -> tuple[SharedApi, ...]:
    """All entries. Raises UsageError with file:line where the file is not as described there."""
    rows = compiled.load(resources.folder("knowledge") / FILE, FILE, build)
    return tuple(SharedApi(**row) for row in rows)


def build(document: Value) -> list[dict[str, Any]]:
    """The fields of each SharedApi. Raises UsageError with file:line."""
    rows = []
    for top in document.data:
        table = Table(top)
        rows.append({key: table.text(key, "") for key in ("host", "provider", "dedicated")})
        table.finish()
    return rows
