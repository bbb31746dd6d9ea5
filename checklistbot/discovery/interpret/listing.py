"""Which files a tree holds, asked by folder: sorted once for each tree, then by bisection."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Iterator
from functools import lru_cache

from checklistbot.discovery.tree import Tree


@lru_cache(maxsize=8)
def _remembered(tree: Tree) -> tuple[str, ...]:
    return tuple(sorted(tree.paths()))


def paths(tree: Tree) -> tuple[str, ...]:
    """All files, sorted; a state of a repository does not change while it is read."""
    return _remembered(tree) if isinstance(tree, Hashable) else tuple(sorted(tree.paths()))


def below(tree: Tree, folder: str, endings: tuple[str, ...] = ("",)) -> Iterator[str]:
    """Files anywhere below a folder ("" is the root), sorted."""
    prefix = folder + "/" if folder else ""
    every = paths(tree)
    for index in range(bisect_left(every, prefix), len(every)):
        if not every[index].startswith(prefix):
            return
        if every[index].endswith(endings):
            yield every[index]


def directly_in(tree: Tree, folder: str, endings: tuple[str, ...] = ("",)) -> Iterator[str]:
    """Files of the folder itself."""
    start = len(folder) + 1 if folder else 0
    return (path for path in below(tree, folder, endings) if "/" not in path[start:])


def holds(tree: Tree, folder: str) -> bool:
    """True if there is a file below the folder."""
    return next(below(tree, folder), None) is not None
