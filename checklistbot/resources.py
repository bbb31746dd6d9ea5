"""The one place that finds prompts, templates, schemas and data: inside the package, else beside it (editable installs)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def folder(name: str) -> Path:
    """The folder ``name`` ("prompts", "templates", "schemas", "knowledge"); raises FileNotFoundError where an install lacks it."""
    for candidate in (_PACKAGE / name, _PACKAGE.parent / name):
        if candidate.is_dir():
            return candidate
    raise FileNotFoundError(f"this installation lacks its {name}/ folder")


def text(*parts: str) -> str:
    """The text of one resource file, for example ``text("schemas", "facts.json")``."""
    return folder(parts[0]).joinpath(*parts[1:]).read_text(encoding="utf-8")


def files(name: str, suffix: str) -> Iterator[Path]:
    """The files of a resource folder with that suffix, sorted by name: a registry is a folder that is read."""
    yield from sorted(path for path in folder(name).rglob(f"*{suffix}") if path.is_file())
