"""The one place that finds prompts, templates, schemas and data: inside the package, else beside it (editable installs)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
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


@cache
def repository() -> str:
    """The address of this project's repository; "" where the installation does not tell.

    ``[project.urls] Source`` is the one place that names it: read from the installed metadata's text, in a source tree from
    pyproject.toml (importlib.metadata takes longer to import than a small check takes).
    """
    beside = _PACKAGE.parent
    for path in (beside / "pyproject.toml", *sorted(beside.glob("checklistbot-*.dist-info/METADATA"))):
        if path.is_file():
            head = path.read_text(encoding="utf-8")[:20_000]
            found = re.search(r'^(?:Project-URL: Source, *|Source *= *")(https://[\w./-]+)', head, re.MULTILINE)
            if found:
                return found[1].rstrip("/")
    return ""
