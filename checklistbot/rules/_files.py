"""What a few rules read beside the facts: files of the tree that hold a word, line by line."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from checklistbot.rules._policy import read_lines

if TYPE_CHECKING:
    from checklistbot.discovery.tree import Tree

_MAX_FILES = 200
_MAX_LINE = 2_000


def lines_with(
    tree: Tree, words: Iterable[str], *, wanted: Callable[[str], bool] = lambda path: True
) -> Iterator[tuple[str, int, str]]:
    """(path, line number from 1, line) of lines that hold one of the words, whatever their case, in at most 200 of the wanted files."""
    named = list(words)
    paths = sorted(path for path in tree.candidates([word.encode() for word in named]) if wanted(path))
    for path in paths[:_MAX_FILES]:
        lines = read_lines(tree, path)
        for at in _holding(lines, named):
            yield path, at + 1, lines[at]


def _holding(lines: list[str], words: list[str]) -> Iterator[int]:
    """Places of the lines that hold a word. Plain searches: one pattern of many words takes ten times as long."""
    whole = "\n".join(lines).lower()
    sought = [word for word in {word.lower() for word in words} if word in whole]
    for at, text in enumerate(lines if sought else ()):
        if len(text) <= _MAX_LINE and any(map(text.lower().__contains__, sought)):
            yield at


def prose(path: str) -> bool:
    """True for documentation."""
    return path.lower().endswith((".md", ".mdx", ".rst", ".txt", ".adoc", ".html"))


def not_prose(path: str) -> bool:
    """True for anything but documentation."""
    return not prose(path)
