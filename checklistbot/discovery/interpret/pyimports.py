"""Which Python files of a tree import a module, by its last name: all import lines are read once for each tree."""

from __future__ import annotations

import posixpath
from collections.abc import Hashable, Mapping
from functools import lru_cache
from typing import Final

from checklistbot.discovery.interpret import listing
from checklistbot.discovery.tree import Tree, Unreadable
from checklistbot.lazy import pattern

MAX_USERS: Final = 20
_IMPORT = pattern(r"^[ \t]*(?:from[ \t].*?\bimport\b|import[ \t]).*", 8)  # re.MULTILINE
_NAME = pattern(r"[^\W\d]\w*")


def module_name(path: str) -> str:
    """The last name under which a file is imported."""
    stem = posixpath.splitext(posixpath.basename(path))[0]
    return posixpath.basename(posixpath.dirname(path)) if stem == "__init__" else stem


def users(tree: Tree, name: str, path: str) -> list[str]:
    """At most 20 files, outside tests, whose import lines hold the name; ``path`` itself is none of them."""
    index = _remembered(tree) if isinstance(tree, Hashable) else _index(tree)
    return [user for user in index.get(name, ()) if user != path][:MAX_USERS]


def _index(tree: Tree) -> Mapping[str, list[str]]:
    """Name → files, sorted."""
    from checklistbot.discovery import python

    found: dict[str, list[str]] = {}
    for path in listing.paths(tree):
        if not path.endswith((".py", ".pyw")) or not python.claims(path, ""):
            continue
        try:
            text = tree.read(path)
        except Unreadable:
            continue
        for name in {name for line in _IMPORT.findall(text) for name in _NAME.findall(line)}:
            found.setdefault(name, []).append(path)
    return found


_remembered = lru_cache(maxsize=8)(_index)
