"""How wide text may be, and how wide it is: one answer for every command. Imports nothing heavy: ``--help`` asks too."""

from __future__ import annotations

import os
import sys
import unicodedata
from collections.abc import Iterator
from typing import Final

#: Where no terminal tells a width, and the most that a pipe or a file gets.
MOST: Final = 100
_LEAST: Final = 40


def columns() -> int:
    """Cells a line may take: the terminal's, or what COLUMNS says; at most 100 where standard output is no terminal."""
    said = os.environ.get("COLUMNS", "")
    wide = int(said) if said.isascii() and said.isdigit() and len(said) < 6 else 0
    try:
        terminal = sys.stdout.isatty()
        wide = wide or (os.get_terminal_size(sys.stdout.fileno()).columns if terminal else 0)
    except (OSError, ValueError):
        terminal = False
    return max(_LEAST, wide or MOST) if terminal else max(_LEAST, min(wide or MOST, MOST))


def cells(text: str) -> int:
    """Cells on a terminal: Korean letters take two."""
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text)


def wrapped(text: str, indent: str = "", hanging: str | None = None) -> Iterator[str]:
    """The text in lines no wider than ``columns()``; a word is never cut. Lines after the first begin with ``hanging``."""
    line, room = indent, columns()
    for word in text.split():
        if line.strip() and cells(line) + 1 + cells(word) > room:
            yield line
            line = indent if hanging is None else hanging
        line = f"{line} {word}" if line.strip() else f"{line}{word}"
    if line.strip():
        yield line
