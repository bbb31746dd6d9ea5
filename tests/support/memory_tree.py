"""A tree in memory, for tests of formats that read other files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase

from checklistbot.discovery.tree import Unreadable
from checklistbot.model import Skipped


class MemoryTree:
    """Files by path; nothing else exists."""

    def __init__(self, files: Mapping[str, str]) -> None:
        self.files = dict(files)
        self.skipped: list[Skipped] = []

    @property
    def files_seen(self) -> int:
        return len(self.files)

    def paths(self) -> list[str]:
        return sorted(self.files)

    @property
    def prefix(self) -> str:
        return ""

    def named(self, globs: Iterable[str]) -> list[str]:
        wanted = list(globs)
        return [p for p in sorted(self.files) if any(fnmatchcase(p.rpartition("/")[2], glob) for glob in wanted)]

    def candidates(self, words: Iterable[bytes]) -> list[str]:
        wanted = list(words)
        return [p for p in sorted(self.files) if any(w in self.files[p].encode("utf-8", "replace") for w in wanted)]

    def exists(self, path: str) -> bool:
        return path in self.files

    def read(self, path: str) -> str:
        if path not in self.files:
            raise Unreadable("not there")
        return self.files[path]

    def changed_after(self, path: str, other: str) -> bool | None:
        return None
