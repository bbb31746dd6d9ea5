"""Placeholder of the next step."""

from __future__ import annotations

from checklistbot.discovery.tree import Tree


def referenced(tree: Tree) -> frozenset[str]:
    return frozenset()
