"""Jupyter notebooks: the code cells as one Python program, shell escapes and ``%%bash`` cells included.

Markdown, raw cells and outputs are not read. Every line of a cell keeps its line of the JSON file.
"""

from __future__ import annotations

from collections.abc import Iterable

from checklistbot.discovery.base import Format
from checklistbot.discovery.tree import Tree
from checklistbot.engines.base import Launch


def claims(path: str, text: str) -> bool:
    """Notebooks by their suffix."""
    return path.endswith(".ipynb")


def launches(tree: Tree, path: str, text: str) -> Iterable[Launch]:
    """What the code cells start, run from the top."""
    from checklistbot.discovery.interpret import cells

    return cells.find(tree, path, text)


FORMAT = Format("notebook", claims, launches)
