"""Accelerators (``accelerators/gpus.yml``): the id of a GPU by any name that people and clouds give it."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from functools import cache
from typing import Any, Final

from checklistbot import resources
from checklistbot.knowledge import compiled
from checklistbot.lazy import pattern
from checklistbot.record import record
from checklistbot.strict_yaml import Table, Value

FILE: Final = "accelerators/gpus.yml"
#: Words of names that say nothing about which GPU it is.
_NOISE: Final = frozenset((
    "nvidia", "amd", "instinct", "tesla", "geforce", "rtx", "gpu", "gpus", "sxm", "sxm2", "sxm3", "sxm4", "sxm5",
    "pcie", "hbm", "hbm2", "hbm2e", "hbm3", "hbm3e", "gddr6", "mega", "oam", "oem", "tensorcore", "tensor", "core",
    "graphics", "blackwell", "hopper", "ampere", "ada", "generation", "edition", "server", "workstation", "max", "q",
    "shared", "dgx", "hgx", "spark", "superchip", "grace",
))  # fmt: skip
#: A slice of a GPU (MIG) is another amount of memory: it has no id.
_SLICE: Final = pattern(r"(?i)mig[-_.]|\d+g\.\d+gb")
_MEMORY: Final = pattern(r"(\d{1,3})(?:gb|gib|g)")


@record
class Accelerator:
    """One GPU. ``memory_gib`` is what torch reports as total, None where it is not verified."""

    id: str
    memory_gib: float | None
    words: tuple[str, ...]
    gb: tuple[int, ...]
    needs_gb: bool
    names: tuple[str, ...]
    instances: tuple[str, ...]

    def fits(self, words: set[str], memory: int | None) -> bool:
        """True if a name of just these words can be this GPU's."""
        if words != set(self.words):
            return False
        return memory in self.gb if memory is not None else not self.needs_gb


@cache
def accelerators() -> tuple[Accelerator, ...]:
    """All entries. Raises UsageError with file:line where the file is not as described there."""
    rows = compiled.load(resources.folder("knowledge") / FILE, FILE, build)
    return tuple(
        Accelerator(
            r["id"],
            r["memory_gib"],
            tuple(r["words"]),
            tuple(r["gb"]),
            r["needs_gb"],
            tuple(r["names"]),
            tuple(r["instances"]),
        )
        for r in rows
    )


def find(name: str) -> Accelerator | None:
    """The GPU that a name means: a model name, a node label's value, an id of ours or an instance type. None where it is none of ours or
    could be several."""
    text = name.strip()
    if not text or len(text) > 200 or _SLICE.search(text):
        return None
    known = accelerators()
    exact = next((one for one in known if text.lower() in (one.id.lower(), *one.names)), None)
    if exact is not None:
        return exact
    instance = by_instance(text)
    if instance is not None:
        return instance
    words, memory = _words(text)
    found = {one.id: one for one in known if one.fits(words, memory)}
    return next(iter(found.values())) if len(found) == 1 else None


def by_instance(name: str) -> Accelerator | None:
    """The GPU of a cloud's instance type (``ml.`` before SageMaker's is allowed)."""
    text = name.strip().removeprefix("ml.").lower()
    if not re.search(r"[.\-_]", text):
        return None
    return next((one for one in accelerators() if any(fnmatchcase(text, glob.lower()) for glob in one.instances)), None)


def _words(text: str) -> tuple[set[str], int | None]:
    """The telling words of a name, and the memory size in it (GB)."""
    words: set[str] = set()
    memory: int | None = None
    for word in re.split(r"[^a-z0-9]+", text.lower()):
        sized = _MEMORY.fullmatch(word)
        if sized:
            memory = int(sized[1])
        elif word and word not in _NOISE and not re.fullmatch(r"x?\d{1,2}|\d{1,2}x", word):
            # "RTX4090" and "A100x8" are written in one piece as well.
            words.add(re.sub(r"^rtx(?=\d)", "", word))
    return words, memory


def build(document: Value) -> list[dict[str, Any]]:
    """The fields of each Accelerator. Raises UsageError with file:line."""
    rows = []
    for top in document.data:
        table = Table(top)
        memory = table.take("memory_gib")
        if memory is not None and not (isinstance(memory.data, (int, float)) and 1 < memory.data < 2_000):
            raise memory.wrong("gibibytes")
        sizes = [
            value.data for value in table.entries("gb", lambda v: isinstance(v.data, int), "a list of whole numbers")
        ]
        rows.append(
            {
                "id": table.text("id", ""),
                "memory_gib": float(memory.data) if memory is not None else None,
                "words": list(table.texts("words")),
                "gb": sizes,
                "needs_gb": table.switch("needs_gb", False),
                "names": list(table.texts("names")),
                "instances": list(table.texts("instances")),
            }
        )
        table.finish()
    return rows
