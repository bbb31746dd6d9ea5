"""Git, called in one place and one way: nothing that a repository holds can make it run a command, write or fetch.

Why each option stands here (operations-and-attacks 3): a folder that looks like a bare repository inside the work tree brings a
``core.fsmonitor`` command with it, so the repository is found by its ``.git`` and named explicitly, never by ``-C PATH``;
revisions become object ids before any other command sees them, because ``git grep`` and ``git diff`` read a revision that begins
with ``-`` as an option; blobs are read by id, because a path may hold a newline; ``-a`` because ``.gitattributes`` or one NUL byte
hides a file from ``git grep`` otherwise.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from functools import lru_cache
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from checklistbot.lazy import pattern
from checklistbot.model import InputError, UsageError

if TYPE_CHECKING:
    import subprocess

_OPTIONS: Final = (
    "--literal-pathspecs",
    "--no-pager",
    "-c", "core.fsmonitor=false",
    "-c", "core.hooksPath=/dev/null",
    "-c", "core.quotePath=false",
    "-c", "core.sshCommand=false",
    "-c", "safe.bareRepository=explicit",
    "-c", "protocol.allow=never",
    "-c", "submodule.recurse=false",
    "-c", "grep.fallbackToNoIndex=false",
    "-c", "grep.fullName=true",
)  # fmt: skip
#: How many answers about objects are kept: a listing of 100,000 files is 10 MB.
_ANSWERS: Final = 8
_OBJECT_ID: Final = pattern(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")


def environment() -> dict[str, str]:
    """The caller's environment without git's own variables, which could name another repository, a pager or a trace file."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    kept.update(
        GIT_OPTIONAL_LOCKS="0",
        GIT_NO_LAZY_FETCH="1",
        GIT_NO_REPLACE_OBJECTS="1",
        GIT_TERMINAL_PROMPT="0",
        LC_ALL="C",
    )
    return kept


def find_top(path: Path) -> Path | None:
    """The work tree around ``path``: the nearest folder that holds ``.git`` (a folder, or a file as in worktrees and submodules)."""
    for folder in (path, *path.parents):
        marker = folder / ".git"
        try:
            if marker.is_file() or (marker / "HEAD").is_file():
                return folder
        except PermissionError:  # what may not be entered shows no repository; its files say why they cannot be read
            continue
    return None


class Repository:
    """One repository; ``top`` is the root of its work tree."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self._batch: subprocess.Popen[bytes] | None = None
        self._commits: set[str] = set()
        #: Answers about objects by id, which never change: arguments → standard output; the latest few.
        self._answers: dict[tuple[str | bytes, ...], bytes] = {}

    def command(self, arguments: Sequence[str | bytes]) -> list[str | bytes]:
        return ["git", f"--git-dir={self.top / '.git'}", f"--work-tree={self.top}", *_OPTIONS, *arguments]

    def start(self, *arguments: str | bytes, fed: bool = False) -> subprocess.Popen[bytes]:
        """Starts git and returns at once, so that the caller works on meanwhile; see ``finish``. ``fed``: its input is a pipe."""
        # Not above: a plain folder needs no process, and this import is a fiftieth of `checklistbot facts`.
        import subprocess

        try:
            return subprocess.Popen(
                self.command(arguments),
                cwd=self.top,
                env=environment(),
                stdin=subprocess.PIPE if fed else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL if fed else subprocess.PIPE,
            )
        except FileNotFoundError:
            raise UsageError(
                "git is not installed or not in PATH; install git, or give a folder outside a repository"
            ) from None

    def finish(
        self, process: subprocess.Popen[bytes], *, accept: tuple[int, ...] = (0,), said: list[bytes] | None = None
    ) -> bytes:
        """The standard output; raises InputError with git's own first line where the exit code is not accepted.

        What git wrote to standard error beside it is added to ``said``.
        """
        output, errors = process.communicate()
        if said is not None:
            said.append(errors or b"")
        if process.returncode not in accept:
            raise InputError(f"git could not read the repository: {_first_line(errors)}")
        return output

    def run(self, *arguments: str | bytes, accept: tuple[int, ...] = (0,)) -> bytes:
        return self.finish(self.start(*arguments), accept=accept)

    def ask(self, *arguments: str | bytes) -> Callable[[], bytes]:
        """Starts git for a question about objects by id, and gives what waits for the answer; asked again, the answer is known.

        A review asks the same of base and head for discovery, history and rules. Exit code 1 is "nothing found".
        """
        known = self._answers.get(arguments)
        if known is not None:
            return lambda: known
        process = self.start(*arguments)

        def answer() -> bytes:
            output = self.finish(process, accept=(0, 1))
            while len(self._answers) >= _ANSWERS:
                del self._answers[next(iter(self._answers))]
            self._answers[arguments] = output
            return output

        return answer

    def resolve(self, revision: str) -> str:
        """The commit id of a revision; raises UsageError where it does not name one."""
        said = repr(revision[:80])
        if not revision or "\0" in revision or "\n" in revision:
            raise UsageError(f"revision {said} is not a revision; give a branch, a tag or a commit id")
        if revision in self._commits:
            return revision  # an object id never comes to mean something else
        process = self.start("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
        output, errors = process.communicate()
        found = output.decode("ascii", "replace").strip()
        if process.returncode == 0 and _OBJECT_ID.fullmatch(found):
            self._commits.add(found)
            return found
        if b"dubious ownership" in errors:
            raise UsageError(f"git refuses this repository: {_first_line(errors)}")
        if self._empty():
            raise UsageError(f"revision {said}: this repository has no commits yet; commit something first")
        raise UsageError(
            f"revision {said} is not in this repository; fetch it first (a shallow clone holds one commit only)"
        )

    def _empty(self) -> bool:
        """True where no branch, tag or remote branch has a commit."""
        process = self.start("for-each-ref", "--count=1")
        output, _ = process.communicate()
        if process.returncode or output.strip():
            return False
        head = self.start("rev-parse", "--verify", "--quiet", "HEAD^{commit}")
        return not head.communicate()[0].strip()

    def merge_base(self, one: str, other: str) -> str | None:
        """The best common ancestor of two commit ids, None where they have none (or the clone is too shallow to know)."""
        output = self.run("merge-base", one, other, accept=(0, 1)).decode("ascii", "replace").split()
        return output[0] if output and _OBJECT_ID.fullmatch(output[0]) else None

    def is_ancestor(self, one: str, other: str) -> bool:
        process = self.start("merge-base", "--is-ancestor", one, other)
        process.communicate()
        return process.returncode == 0

    def last_change(self, commit: str, path: str) -> str | None:
        """The commit id that last touched ``path`` (relative to the top) at or before ``commit``."""
        output = self.run("rev-list", "-1", commit, "--", path, accept=(0, 128)).decode("ascii", "replace").strip()
        return output or None

    def committed(self, commit: str) -> date | None:
        """The day (UTC) of a commit, None where the repository does not hold it (a shallow clone)."""
        output = self.run("show", "-s", "--format=%ct", commit, accept=(0, 128)).strip()
        return datetime.fromtimestamp(int(output), UTC).date() if output.isdigit() else None

    def head(self) -> str | None:
        """The commit of HEAD, None in a repository without commits."""
        try:
            return self.resolve("HEAD")
        except UsageError:
            return None

    def blob(self, object_id: str, limit: int) -> bytes | None:
        """A blob by id through one long-lived ``cat-file --batch``; None where it is missing or larger than ``limit`` bytes."""
        if not _OBJECT_ID.fullmatch(object_id):
            raise ValueError("not an object id")
        if self._batch is None or self._batch.poll() is not None:
            self._batch = self.start("cat-file", "--batch", fed=True)
        assert self._batch.stdin is not None  # noqa: S101  (opened with pipes)
        assert self._batch.stdout is not None  # noqa: S101
        self._batch.stdin.write(object_id.encode() + b"\n")
        self._batch.stdin.flush()
        header = self._batch.stdout.readline().split()
        if len(header) != 3 or header[1] != b"blob":
            return None
        return _take(self._batch.stdout, int(header[2]), limit)

    def close(self) -> None:
        """Ends the blob reader; the repository can still be used after it."""
        if self._batch is not None:
            for pipe in (self._batch.stdin, self._batch.stdout):
                if pipe is not None:
                    pipe.close()
            self._batch.wait()
            self._batch = None

    def __del__(self) -> None:
        self.close()


@lru_cache(maxsize=4)
def repository(top: Path) -> Repository:
    """The repository at that root; one object, and so one blob reader, for all that look into it."""
    return Repository(top)


def _take(stream: IO[bytes], size: int, limit: int) -> bytes | None:
    """Exactly ``size`` bytes and the newline behind them, so that the next answer starts where it should."""
    if size <= limit:
        return stream.read(size + 1)[:-1]
    left = size + 1
    while left:
        left -= len(stream.read(min(left, 1 << 20)))
    return None


def _first_line(errors: bytes) -> str:
    lines = errors.decode("utf-8", "replace").strip().splitlines()
    return lines[0][:300] if lines else "no message"
