"""The JSON Schemas, each whole by itself: what one refers to is bundled into it (JSON Schema 2020-12, 9.3)."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from checklistbot import resources
from checklistbot.lazy import pattern

_REFERENCE = pattern(r'"\$ref": *"(urn:checklistbot:[a-z]+/\d+)')


def names() -> tuple[str, ...]:
    """The names of all schemas, sorted."""
    return tuple(sorted(path.stem for path in resources.files("schemas", ".json")))


@cache
def _text(name: str) -> str:
    return resources.text("schemas", f"{name}.json")


def bundle(name: str) -> dict[str, Any]:
    """The schema of that name with every schema it needs under ``$defs``. Raises FileNotFoundError for a name nobody knows."""
    schema: dict[str, Any] = json.loads(_text(name))
    for needed in _needs(name) - {name}:
        schema.setdefault("$defs", {})[needed] = json.loads(_text(needed))
    return schema


def _needs(name: str) -> set[str]:
    """The schema and all that it refers to, directly or not."""
    found, open_ = set(), {name}
    while open_:
        found |= open_
        named = {reference for each in open_ for reference in _REFERENCE.findall(_text(each))}
        open_ = {reference.rpartition(":")[2].partition("/")[0] for reference in named} - found
    return found


def dump(name: str) -> str:
    """``bundle`` as JSON text, the parts in the order of their names."""
    schema = bundle(name)
    defs = schema.get("$defs", {})
    if defs:
        schema["$defs"] = {key: defs[key] for key in sorted(defs)}
    return json.dumps(schema, indent=2, ensure_ascii=False)
