"""What every engine's endpoint half offers and speaks. ``engines/_NAME_live.py`` holds one as ``LIVE``; ``live``
reads the folder."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field
from functools import cache
from typing import Any, Protocol

from checklistbot.engines._log import Entry, Notes, Said
from checklistbot.record import mutable_record, record


class Answering(Protocol):
    """The answer of one path of a server."""

    @property
    def ok(self) -> bool: ...

    def json(self) -> Any: ...

    def text(self) -> str: ...


Ask = Callable[[str], "Answering | None"]


@mutable_record
class Live:
    """What one live server says: notes like those of a log, with rank. ``name`` tells several servers behind one
    address apart."""

    name: str = ""
    notes: Notes = field(default_factory=lambda: Notes(0))
    fits: bool | None = None
    first_rejected_length: int | None = None

    def say(self, key: str, value: object, strength: int = 50, rank: str = "") -> None:
        """Note a value, if it is one: numbers above zero, texts that are not empty."""
        if isinstance(value, bool) or value is None:
            return
        if isinstance(value, float) and value.is_integer() and key != "memory_fraction":
            value = int(value)
        if (isinstance(value, (int, float)) and value > 0) or (isinstance(value, str) and 0 < len(value) <= 512):
            self.notes.add(Said(key, value, strength), 0, rank)

    def entries(self, key: str) -> list[Entry]:
        return self.notes.strongest(key)


@record
class LiveGrammar:
    """The endpoint half of an engine. ``read`` yields the servers that answer, nothing if the address is not this
    engine's."""

    engine: str
    read: Callable[[Ask], Iterable[Live]]


@cache
def live() -> tuple[LiveGrammar, ...]:
    """The endpoint halves of all engines, by engine name."""
    import checklistbot.engines as package

    names = (
        m.name for m in pkgutil.iter_modules(package.__path__) if m.name.startswith("_") and m.name.endswith("_live")
    )
    modules = (importlib.import_module(f"{package.__name__}.{name}") for name in sorted(names) if name != "_live")
    return tuple(sorted((module.LIVE for module in modules), key=lambda grammar: grammar.engine))


def table(ask: Ask, path: str) -> Mapping[str, Any]:
    """The JSON object that a path answers; empty if it answers none."""
    answer = ask(path)
    data = answer.json() if answer is not None else None
    return data if isinstance(data, dict) else {}


def models(ask: Ask) -> list[Mapping[str, Any]]:
    """The entries of /v1/models, LoRA adapters left out."""
    data = table(ask, "/v1/models").get("data")
    entries = [entry for entry in data if isinstance(entry, dict)] if isinstance(data, list) else []
    return [entry for entry in entries[:64] if not entry.get("parent")]


def owned_by(ask: Ask) -> str | None:
    """Who answers /v1/models, by its own word."""
    return next((str(entry["owned_by"]) for entry in models(ask) if isinstance(entry.get("owned_by"), str)), None)


def samples(ask: Ask, path: str = "/metrics") -> Iterator[tuple[str, Mapping[str, str], float]]:
    """(name, labels, value) of a Prometheus text; what is no such text yields nothing."""
    answer = ask(path)
    text = answer.text() if answer is not None and answer.ok else ""
    if not text or text.lstrip()[:1] in "[{<":
        return
    from prometheus_client.parser import text_string_to_metric_families

    try:
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                yield sample.name, sample.labels, float(sample.value)
    except (ValueError, KeyError, IndexError):
        return


def number(value: object) -> float | None:
    """A JSON number or the text of one, None if it is none."""
    if isinstance(value, bool):
        return None
    if isinstance(value, (int, float)):
        return float(value)
    try:
        return float(value) if isinstance(value, str) else None
    except ValueError:
        return None
