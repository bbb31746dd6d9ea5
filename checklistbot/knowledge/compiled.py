"""Validated forms of the YAML data in ``compiled.json``, so that a run does not parse a hundred files.

The folder stays the registry: a file counts as it is on disk, and its entry here is used only while its checksum fits. A new or edited
file works at once; ``make knowledge`` renews the entries, and a test holds the two against each other.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Final

from checklistbot import resources
from checklistbot.strict_yaml import Value, parse

FILE: Final = "compiled.json"


def load(path: Path, name: str, build: Callable[[Value], Any]) -> Any:
    """What ``build`` makes of the document of a knowledge file (plain JSON data); from ``compiled.json`` where that is up to date.

    ``name`` is the file's path below knowledge/. Raises UsageError with file:line where the file is not as ``build`` wants it.
    """
    data = path.read_bytes()
    entry = _entries().get(name)
    if entry is not None:
        kept = json.loads(entry)
        if kept["crc"] == zlib.crc32(data):
            return kept["data"]
    return build(parse(data.decode("utf-8"), path.name))


def text(files: dict[str, tuple[Path, Callable[[Value], Any]]]) -> str:
    """The text of ``compiled.json`` for these files: name → (path, what makes data of its document)."""
    lines = []
    for name, (path, build) in sorted(files.items()):
        data = path.read_bytes()
        entry = {"crc": zlib.crc32(data), "data": build(parse(data.decode("utf-8"), path.name))}
        lines.append(f"{json.dumps(name)}: {json.dumps(entry, ensure_ascii=False)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


@cache
def _entries() -> dict[str, bytes]:
    """Name → its entry as JSON. ``text`` writes one a line, so that a command pays only for the files it asks for."""
    path = resources.folder("knowledge") / FILE
    if not path.is_file():
        return {}
    rows = (line.rstrip(b",").partition(b": ") for line in path.read_bytes().split(b"\n") if line.startswith(b'"'))
    return {json.loads(name): entry for name, _, entry in rows}
