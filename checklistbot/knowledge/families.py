"""What a model's name says about its attention, context and inputs (``model_families.yml``)."""

from __future__ import annotations

from fnmatch import fnmatchcase
from functools import cache
from typing import Any, Final

from checklistbot import resources
from checklistbot.knowledge import compiled
from checklistbot.record import record
from checklistbot.strict_yaml import Table, Value

FILE: Final = "model_families.yml"


@record
class Family:
    """One entry: ``context`` and sliding ``window`` in tokens and ``kv_heads`` as the published configuration has them, None where the
    entry does not say."""

    names: tuple[str, ...]
    families: frozenset[str]
    context: int | None = None
    multimodal: bool | None = None
    kv_heads: int | None = None
    window: int | None = None


@cache
def entries() -> tuple[Family, ...]:
    """All entries in order. Raises UsageError with file:line where the file is not as described there."""
    rows = compiled.load(resources.folder("knowledge") / FILE, FILE, build)
    return tuple(
        Family(**{**row, "names": tuple(row["names"]), "families": frozenset(row["families"])}) for row in rows
    )


def build(document: Value) -> list[dict[str, Any]]:
    """The fields of each Family. Raises UsageError with file:line."""
    return [_entry(Table(top)) for top in document.data]


def _entry(table: Table) -> dict[str, Any]:
    entry = {
        "names": list(table.texts("names")),
        "families": list(table.texts("families")),
        "context": table.whole("context", None, low=1),
        "multimodal": table.switch("multimodal", False) if "multimodal" in table.left else None,
        "kv_heads": table.whole("kv_heads", None, low=1),
        "window": table.whole("window", None, low=1),
    }
    table.finish()
    return entry


def _like(name: str, glob: str) -> bool:
    """``fnmatchcase``, for most names without compiling the glob: its beginning decides."""
    start = glob.partition("*")[0]
    return ("?" in start or "[" in start or name.startswith(start)) and fnmatchcase(name, glob)


@cache
def family_of(model: str | None) -> Family | None:
    """The entry of a model's name or path, None where none matches."""
    if not model:
        return None
    name = model.rstrip("/").rpartition("/")[2].lower()
    return next((entry for entry in entries() if any(_like(name, glob) for glob in entry.names)), None)


def families(model: str | None) -> frozenset[str]:
    """The families of a model (dsa, mla, gqa, swa_hybrid, …); empty where they are not known."""
    entry = family_of(model)
    return entry.families if entry else frozenset()
