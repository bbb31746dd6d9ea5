"""A tree in memory, for tests of formats that read other files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from functools import partial

from checklistbot.discovery.tree import NOTHING_ELSE, Also, Unreadable
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

    def candidates(self, words: Iterable[bytes], also: Also = NOTHING_ELSE) -> list[str]:
        wanted = list(words)

        def sought(path: str) -> list[bytes]:
            return [*wanted, *also.words] if path.endswith(also.endings) else wanted

        return [p for p in sorted(self.files) if any(w in self.files[p].encode("utf-8", "replace") for w in sought(p))]

    def searching(self, words: Iterable[bytes], also: Also = NOTHING_ELSE) -> Callable[[], list[str]]:
        return partial(self.candidates, words, also)

    def exists(self, path: str) -> bool:
        return path in self.files

    def read(self, path: str) -> str:
        if path not in self.files:
            raise Unreadable("not there")
        return self.files[path]

    def changed_after(self, path: str, other: str) -> bool | None:
        return None
