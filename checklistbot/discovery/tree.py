"""What a repository's state offers to a reader: a work tree, a Git revision, plain files or standard input."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from checklistbot.model import Skipped


class Unreadable(Exception):
    """A file cannot be read as text; the message is one of our own reasons ("larger than 5 MiB", "symbolic link", …)."""


class Tree(Protocol):
    """One state of a repository. All paths are relative to PATH, with "/" between the parts."""

    @property
    def skipped(self) -> list[Skipped]:
        """What was met and not read, in order; discovery adds to it."""
        ...

    @property
    def files_seen(self) -> int:
        """How many files the state holds below PATH."""
        ...

    def paths(self) -> Iterable[str]:
        """All regular files below PATH, sorted."""
        ...

    def candidates(self, words: Iterable[bytes]) -> Iterable[str]:
        """The files whose content (or name) holds one of the words, case-sensitively, binary files left out and listed in ``skipped``."""
        ...

    def exists(self, path: str) -> bool: ...

    def read(self, path: str) -> str:
        """The text of a file inside the tree; raises Unreadable for links, binary, too large, outside the tree."""
        ...

    def changed_after(self, path: str, other: str) -> bool | None:
        """True if Git says that ``path`` changed after ``other`` did last; None where Git cannot tell."""
        ...


def open_tree(path: Path, revision: str | None = None) -> Tree:
    """The work tree below ``path``, or the commit ``revision`` of the repository around it.

    Raises UsageError where the path is not there, or a revision is asked for outside a repository or does not resolve.
    """
    raise NotImplementedError  # replaced by the discovery room before the first release
