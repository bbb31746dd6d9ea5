"""Renew ``checklistbot/knowledge/compiled.json`` from the YAML files (``make knowledge``)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from checklistbot import resources
from checklistbot.knowledge import accelerators, advisory, compiled, families, hosts
from checklistbot.strict_yaml import Value


def sources() -> dict[str, tuple[Path, Callable[[Value], Any]]]:
    """Every file that has an entry in ``compiled.json``, with what makes data of it."""
    found: dict[str, tuple[Path, Callable[[Value], Any]]] = {
        f"{advisory.FOLDER}/{path.name}": (path, advisory.build) for path in advisory.files()
    }
    found[families.FILE] = (resources.folder("knowledge") / families.FILE, families.build)
    found[accelerators.FILE] = (resources.folder("knowledge") / accelerators.FILE, accelerators.build)
    found[hosts.FILE] = (resources.folder("knowledge") / hosts.FILE, hosts.build)
    return found


if __name__ == "__main__":
    target = resources.folder("knowledge") / compiled.FILE
    target.write_text(compiled.text(sources()), encoding="utf-8")
