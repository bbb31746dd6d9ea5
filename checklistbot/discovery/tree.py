"""What a repository's state offers to a reader: a work tree, a Git revision, plain files or standard input."""

from __future__ import annotations

import codecs
import fnmatch
import hashlib
import os
import posixpath
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from checklistbot.discovery.git import Repository, find_top
from checklistbot.discovery.git import repository as open_repository
from checklistbot.model import InputError, Skipped, UsageError
from checklistbot.record import record

if TYPE_CHECKING:
    import subprocess

MAX_BYTES: Final = 5 * 1024 * 1024
#: Bytes of files that a plain folder keeps in memory between searches.
_KEPT_BYTES: Final = 64 * 1024 * 1024
TOO_LARGE: Final = "larger than 5 MiB"
LINK: Final = "symbolic link"
BINARY: Final = "binary"
FORBIDDEN: Final = "no permission to read it"
CLOSED: Final = "cannot be opened"
LFS_POINTER: Final = "Git LFS pointer"
OUTSIDE: Final = "outside the tree"
MISSING: Final = "not in the tree"
#: The path under which manifests from standard input are known.
STDIN_PATH: Final = "-"


class Unreadable(Exception):
    """A file cannot be read as text; the message is one of our own reasons ("larger than 5 MiB", "symbolic link", …)."""


@record
class Also:
    """Files whose name ends in one of ``endings`` and whose content (or name) holds one of ``words``."""

    words: frozenset[bytes]
    endings: tuple[str, ...]


NOTHING_ELSE: Final = Also(frozenset(), ())


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

    @property
    def prefix(self) -> str:
        """Where PATH lies in its repository, "" at the top: what makes a repository-relative path one relative to PATH."""
        ...

    def paths(self) -> Iterable[str]:
        """All regular files below PATH, sorted."""
        ...

    def candidates(self, words: Iterable[bytes], also: Also = NOTHING_ELSE) -> Iterable[str]:
        """The files whose content (or name) holds one of the words, case-sensitively, sorted; UTF-16 files always count.

        With them those that ``also`` names: one search of a large repository instead of two.
        """
        ...

    def searching(self, words: Iterable[bytes], also: Also = NOTHING_ELSE) -> Callable[[], Iterable[str]]:
        """``candidates``, begun: what is called for the answer. Git searches on other processors meanwhile."""
        ...

    def named(self, globs: Iterable[str]) -> Iterable[str]:
        """The files whose name (without folders) one of the globs matches, sorted."""
        ...

    def exists(self, path: str) -> bool: ...

    def read(self, path: str) -> str:
        """The text of a file inside the tree; raises Unreadable for links, binary, too large, outside the tree.

        ``../`` may lead out of PATH as long as it stays in the repository. CRLF becomes LF, NUL bytes are dropped.
        """
        ...

    def changed_after(self, path: str, other: str) -> bool | None:
        """True if Git says that ``path`` changed after ``other`` did last; None where Git cannot tell."""
        ...


# --- bytes to text -----------------------------------------------------------------------------------------------------

_BOMS: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_CONTROL: Final = bytes(set(range(32)) - set(b"\t\n\r\f\x1b\0"))
_MAGIC: Final = (
    b"\x7fELF",
    b"\x89PNG",
    b"PK\x03\x04",
    b"\x1f\x8b",
    b"%PDF-",
    b"GIF8",
    b"\xff\xd8\xff",
    b"GGUF",
    b"\xca\xfe\xba\xbe",
)


def decode(data: bytes) -> str:
    """Bytes of a file as text; raises Unreadable for what is binary, an LFS pointer or too large.

    A byte-order mark decides the encoding; without one it is UTF-8, and bytes that are not become U+FFFD: a comment in another
    code page must not hide the flags beside it. NUL bytes are dropped for the same reason.
    """
    # Formats and rules read the same files again and again.
    return _decoded(data) if len(data) <= _SMALL else _decode(data)


def _decode(data: bytes) -> str:
    if len(data) > MAX_BYTES:
        raise Unreadable(TOO_LARGE)
    if data.startswith(b"version https://git-lfs.github.com/spec/"):
        raise Unreadable(LFS_POINTER)
    for mark, encoding in _BOMS:
        if data.startswith(mark):
            text = data[len(mark) :].decode(encoding, "replace")
            break
    else:
        if _binary(data):
            raise Unreadable(BINARY)
        text = data.decode("utf-8", "replace")
    return text.replace("\0", "").replace("\r\n", "\n")


_SMALL: Final = 64 * 1024
_decoded = lru_cache(maxsize=512)(_decode)


def _binary(data: bytes) -> bool:
    """True for a known binary magic, or where more than a tenth of the first 8 KiB are control characters."""
    head = data[:8192]
    if head.startswith(_MAGIC):
        return True
    odd = len(head) - len(head.translate(None, _CONTROL)) + head.count(0)
    return odd * 10 > len(head)


def _pattern(words: Iterable[bytes]) -> re.Pattern[bytes]:
    return re.compile(b"|".join(map(re.escape, sorted(set(words)))) or b"(?!)")


def _holds(data: bytes, pattern: re.Pattern[bytes]) -> bool:
    """True if the bytes hold a word, or are in an encoding that a search for bytes cannot see into."""
    return pattern.search(data) is not None or data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))


class _Sought:
    """What one search looks for: in which files, which words."""

    def __init__(self, words: Iterable[bytes], also: Also) -> None:
        self.words = frozenset(words)
        self._also = also
        self._plain = _pattern(self.words)
        self.any = _pattern(self.words | also.words) if also.words else self._plain

    def pattern(self, path: str) -> re.Pattern[bytes]:
        return self.any if path.endswith(self._also.endings) else self._plain

    def in_name(self, path: str) -> bool:
        return self.pattern(path).search(os.fsencode(path)) is not None

    def holds(self, path: str, data: bytes) -> bool:
        return _holds(data, self.pattern(path))


def _confirmed(
    hits: Iterable[str],
    sought: _Sought,
    small: Callable[[str], bytes | None],
    search_in: Callable[[Sequence[str], Iterable[bytes]], set[str]],
) -> set[str]:
    """Of the files in which a search hit those in which that word counts: some count by their names only, and the marks of UTF-16 only as
    the first bytes. Git searches again in files that are too large to be read."""
    found: set[str] = set()
    large: list[str] = []
    for path in hits:
        data = small(path)
        if data is None:
            large.append(path)
        elif sought.holds(path, data):
            found.add(path)
    return found | (search_in(large, sought.words) if large else set())


# --- one base for all that have a root ----------------------------------------------------------------------------------


class _Rooted:
    """PATH as a folder ``prefix`` (relative to the top, "" for the top itself), or as one file of it."""

    def __init__(self, prefix: str, only: str | None) -> None:
        self._prefix, self._only = prefix, only
        self.skipped: list[Skipped] = []

    @property
    def prefix(self) -> str:
        return self._prefix

    @property
    def only(self) -> str | None:
        return self._only

    def _full(self, path: str) -> str:
        """A path relative to PATH as one relative to the top; raises Unreadable where it leaves the tree."""
        if path.startswith(("/", "\\")) or "\0" in path or re.match(r"[A-Za-z]:[\\/]", path):
            raise Unreadable(OUTSIDE)
        full = posixpath.normpath(posixpath.join(self._prefix, path))
        if full == ".." or full.startswith("../"):
            raise Unreadable(OUTSIDE)
        return full

    def _below(self, full: str) -> str | None:
        """The path relative to PATH, None for what is not below it."""
        if self._only is not None:
            return self._only if full == posixpath.join(self._prefix, self._only) else None
        if not self._prefix:
            return full
        return full[len(self._prefix) + 1 :] if full.startswith(self._prefix + "/") else None

    @property
    def _pathspec(self) -> str:
        return posixpath.join(self._prefix, self._only or "").rstrip("/") or "."

    def paths(self) -> Iterable[str]:
        raise NotImplementedError

    def named(self, globs: Iterable[str]) -> Iterable[str]:
        matches = re.compile("|".join(map(fnmatch.translate, globs)) or "(?!)").match
        return sorted(path for path in self.paths() if matches(path[path.rfind("/") + 1 :]))

    def _skip(self, full: str, reason: str) -> None:
        path = self._below(full)
        entry = Skipped(path if path is not None else full, reason)
        if entry not in self.skipped:
            self.skipped.append(entry)


def _read_file(root: Path, full: str) -> bytes:
    """The bytes of a regular file below ``root``; no component may be a link. At most MAX_BYTES + 1 bytes are read."""
    folder = root
    for part in Path(full).parts[:-1]:
        folder = folder / part
        if folder.is_symlink():
            raise Unreadable(LINK)
    try:
        handle = os.open(root / full, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | getattr(os, "O_CLOEXEC", 0))
    except OSError as error:
        raise Unreadable(LINK if (root / full).is_symlink() else _why(error)) from None
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise Unreadable("not a regular file")
    with os.fdopen(handle, "rb") as file:
        try:
            return file.read(MAX_BYTES + 1)
        except OSError as error:
            raise Unreadable(_why(error)) from None


def _is_plain_file(path: Path) -> bool:
    """True for a regular file that is no link; False also where the folder around it may not be entered."""
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except (OSError, ValueError):
        return False


def _why(error: OSError) -> str:
    if isinstance(error, (FileNotFoundError, NotADirectoryError)):
        return MISSING
    return FORBIDDEN if isinstance(error, PermissionError) else CLOSED


#: From so many words on, one expression for all of them is faster than one search for each (measured with git 2.39).
_MANY_WORDS: Final = 64
_UTF16: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def _search(words: Iterable[bytes]) -> list[str | bytes]:
    """The arguments of ``git grep`` that list the files holding one of the words, and those with the marks of UTF-16 in them."""
    distinct = sorted(set(words), key=lambda word: (len(word), word))
    # A word that holds another one finds nothing new, and each one costs time.
    shortest = [word for at, word in enumerate(distinct) if not any(other in word for other in distinct[:at])]
    if len(shortest) < _MANY_WORDS:
        return ["grep", "-a", "-l", "-z", "-F", *(part for word in (*shortest, *_UTF16) for part in ("-e", word))]
    escaped = (re.sub(rb"([][\\.^$*+?{}()|])", rb"\\\1", word) for word in shortest)
    return ["grep", "-a", "-l", "-z", "-E", "-e", b"|".join([*escaped, *(b"^" + mark for mark in _UTF16)])]


# --- the work tree ------------------------------------------------------------------------------------------------------


def _with_word(listing: bytes, pattern: re.Pattern[bytes]) -> Iterator[str]:
    """The entries of a NUL-separated listing in whose path a word stands."""
    end = -1
    for match in pattern.finditer(listing):
        if match.start() < end:
            continue
        start = listing.rfind(b"\0", 0, match.start()) + 1
        end = listing.find(b"\0", match.end())
        entry = listing[start : end if end >= 0 else len(listing)]
        yield os.fsdecode(entry[2:] if entry.startswith(b"? ") else entry.partition(b"\t")[2])


#: What Git says of a folder that it may not list.
_CLOSED_FOLDER: Final = re.compile(rb"could not open directory '([^\n]*)': Permission denied")


class WorkTree(_Rooted):
    """Tracked files as they lie on disk, plus untracked ones that are not ignored."""

    def __init__(self, repository: Repository, prefix: str, only: str | None) -> None:
        super().__init__(prefix, only)
        self._git = repository
        # The walk for untracked files takes ten times as long as reading the index; nothing waits for it that need not.
        self._tracked = self._git.start("ls-files", "-t", "-s", "-z", "--", self._pathspec)
        self._others = self._git.start("ls-files", "-t", "-o", "--exclude-standard", "-z", "--", self._pathspec)

    def _start_listing(self, pathspec: str) -> subprocess.Popen[bytes]:
        return self._git.start("ls-files", "-t", "-s", "-c", "-o", "--exclude-standard", "-z", "--", pathspec)

    @cached_property
    def _index(self) -> bytes:
        return self._git.finish(self._tracked)

    @cached_property
    def _index_listing(self) -> bytes:
        return b"\0" + self._index

    @cached_property
    def _raw(self) -> bytes:
        """Git's listing between NUL bytes: ``H MODE ID STAGE<tab>path`` for tracked files, ``? path`` for untracked ones."""
        said: list[bytes] = []
        raw = b"\0" + self._index + self._git.finish(self._others, said=said)
        for closed in _CLOSED_FOLDER.finditer(b"".join(said)):
            self._skip(os.fsdecode(closed[1]).rstrip("/") or ".", FORBIDDEN)
        for entry in self._index.split(b"\0"):
            if entry[2:5] in (b"120", b"160"):
                self._skip(os.fsdecode(entry.partition(b"\t")[2]), LINK if entry[2:5] == b"120" else "submodule")
        return raw

    @cached_property
    def _untracked(self) -> list[str]:
        return [
            os.fsdecode(entry[2:]) for entry in self._raw[len(self._index) :].split(b"\0") if entry.startswith(b"? ")
        ]

    @property
    def tracks_something(self) -> bool:
        return bool(self._index)

    @cached_property
    def _all(self) -> list[str]:
        """Full paths of all regular files; a file in conflict is listed once."""
        tracked = (entry.partition(b"\t")[2] for entry in self._index.split(b"\0") if entry[2:5] == b"100")
        return sorted(set(map(os.fsdecode, tracked)).union(self._untracked))

    @cached_property
    def _names(self) -> frozenset[str]:
        return frozenset(self._all)

    @property
    def files_seen(self) -> int:
        return len(self._all)

    def paths(self) -> Iterable[str]:
        return [path for path in map(self._below, self._all) if path is not None]

    def candidates(self, words: Iterable[bytes], also: Also = NOTHING_ELSE) -> Iterable[str]:
        return self.searching(words, also)()

    def searching(self, words: Iterable[bytes], also: Also = NOTHING_ELSE) -> Callable[[], Iterable[str]]:
        words = list(words)
        process = self._start_search([*words, *also.words], self._pathspec)
        return partial(self._found, process, _Sought(words, also))

    def _found(self, process: subprocess.Popen[bytes], sought: _Sought) -> list[str]:
        found = {full for full in self._untracked if self._untracked_holds(full, sought)}
        found.update(name for name in _with_word(self._raw, sought.any) if sought.in_name(name) and self._known(name))
        said: list[bytes] = []
        hits = map(os.fsdecode, filter(None, self._git.finish(process, accept=(0, 1), said=said).split(b"\0")))
        found.update(_confirmed(hits, sought, self._small, self._search_in))
        if b"Permission denied" in b"".join(said):
            self._closed()
        return sorted(path for path in map(self._below, found) if path is not None)

    def _start_search(self, words: Iterable[bytes], *pathspecs: str) -> subprocess.Popen[bytes]:
        return self._git.start(*_search(words), "--", *pathspecs)

    def _search_in(self, paths: Sequence[str], words: Iterable[bytes]) -> set[str]:
        found = self._git.finish(self._start_search(words, *paths), accept=(0, 1))
        return set(map(os.fsdecode, filter(None, found.split(b"\0"))))

    def _small(self, full: str) -> bytes | None:
        try:
            data = _read_file(self._git.top, full)
        except Unreadable:
            return None
        return data if len(data) <= MAX_BYTES else None

    def _closed(self) -> None:
        """Git passes over tracked files that it may not open; they are skipped, not searched."""
        for full in self._all:
            if not os.access(self._git.top / full, os.R_OK) and os.path.lexists(self._git.top / full):
                self._skip(full, FORBIDDEN)

    def _untracked_holds(self, full: str, sought: _Sought) -> bool:
        try:
            return sought.holds(full, _read_file(self._git.top, full))
        except Unreadable as error:
            if str(error) != MISSING:
                self._skip(full, str(error))
            return False

    def _known(self, full: str) -> bool:
        # The index is there at once; what Git does not track is listed much later, and the names of all files later still.
        if "_all" in self.__dict__:
            if full in self._names:
                return True
        elif self._listed(self._index_listing, full) or self._listed(self._raw, full):
            return True
        if self._below(full) is not None and self._only is None:
            return False
        return self._listed(b"\0" + self._git.finish(self._start_listing(full)), full)

    @staticmethod
    def _listed(raw: bytes, full: str) -> bool:
        name = os.fsencode(full)
        if b"\0? " + name + b"\0" in raw:
            return True
        at = raw.find(b"\t" + name + b"\0")
        while at >= 0:
            # The name could also be the tail of another one that holds a tab.
            if re.fullmatch(rb"[A-Z] 100\d{3} [^\t]*", raw[raw.rfind(b"\0", 0, at) + 1 : at]):
                return True
            at = raw.find(b"\t" + name + b"\0", at + 1)
        return False

    def exists(self, path: str) -> bool:
        try:
            full = self._full(path)
        except Unreadable:
            return False
        return _is_plain_file(self._git.top / full) and self._known(full)

    def read(self, path: str) -> str:
        full = self._full(path)
        if not self._known(full):
            raise Unreadable(LINK if (self._git.top / full).is_symlink() else MISSING)
        return decode(_read_file(self._git.top, full))

    def changed_after(self, path: str, other: str) -> bool | None:
        try:
            one, two = self._full(path), self._full(other)
        except Unreadable:
            return None
        dirty = self._dirty(one)
        if dirty or self._dirty(two):
            # Both uncommitted: nothing tells which came first.
            return None if dirty and self._dirty(two) else dirty
        head = self._git.head()
        return None if head is None else _later(self._git, head, one, two)

    def _dirty(self, full: str) -> bool:
        """True if the file differs from the index or is untracked (compared without Git's filters, line ends aside)."""
        entry = re.search(rb"(?<=\0)[A-Z] 100\d{3} ([0-9a-f]+) \d\t" + re.escape(os.fsencode(full)) + rb"\0", self._raw)
        if entry is None:
            return True
        object_id = entry[1].decode()
        try:
            data = _read_file(self._git.top, full)
        except Unreadable:
            return True
        return object_id not in (_blob_id(data, len(object_id)), _blob_id(data.replace(b"\r\n", b"\n"), len(object_id)))


def _blob_id(data: bytes, length: int) -> str:
    """Git's id of a blob: SHA-1 or, for 64 hex digits, SHA-256 over a header and the bytes."""
    header = b"blob %d\0" % len(data)
    if length == 64:
        return hashlib.sha256(header + data).hexdigest()
    return hashlib.sha1(header + data, usedforsecurity=False).hexdigest()


def _later(git: Repository, commit: str, one: str, two: str) -> bool | None:
    """True if the last commit on ``one`` is a descendant of the last one on ``two``; None where they cannot be ordered."""
    first, second = git.last_change(commit, one), git.last_change(commit, two)
    if first is None or second is None:
        return None
    if first == second or git.is_ancestor(first, second):
        return False
    return True if git.is_ancestor(second, first) else None


# --- a revision ---------------------------------------------------------------------------------------------------------


class Revision(_Rooted):
    """One commit, read from Git's objects without a checkout."""

    def __init__(self, repository: Repository, commit: str, prefix: str, only: str | None) -> None:
        super().__init__(prefix, only)
        self._git, self.commit = repository, commit
        self._outside: dict[str, str] | None = None

    def _list(self, pathspec: str) -> dict[str, str]:
        arguments = ["ls-tree", "-r", "-z", "--full-tree", self.commit]
        files: dict[str, str] = {}
        for entry in self._git.ask(*arguments, "--", *([] if pathspec == "." else [pathspec]))().split(b"\0"):
            if not entry:
                continue
            status, _, name = entry.partition(b"\t")
            mode, _, object_id = status.split(b" ")
            full = os.fsdecode(name)
            if mode in (b"120000", b"160000"):
                if self._below(full) is not None:
                    self._skip(full, LINK if mode == b"120000" else "submodule")
            else:
                files[full] = object_id.decode()
        return files

    @cached_property
    def _files(self) -> dict[str, str]:
        return self._list(self._pathspec)

    @property
    def files_seen(self) -> int:
        return len(self._files)

    def paths(self) -> Iterable[str]:
        return sorted(path for path in map(self._below, self._files) if path is not None)

    def candidates(self, words: Iterable[bytes], also: Also = NOTHING_ELSE) -> Iterable[str]:
        return self.searching(words, also)()

    def searching(self, words: Iterable[bytes], also: Also = NOTHING_ELSE) -> Callable[[], Iterable[str]]:
        words = list(words)
        return partial(self._found, self._ask([*words, *also.words], self._pathspec), _Sought(words, also))

    def _found(self, answer: Callable[[], bytes], sought: _Sought) -> list[str]:
        found = {full for full in self._files if sought.in_name(full)}
        found.update(_confirmed(self._hits(answer()), sought, self._small, self._search_in))
        return sorted(path for path in map(self._below, found) if path is not None)

    def _ask(self, words: Iterable[bytes], *pathspecs: str) -> Callable[[], bytes]:
        return self._git.ask(*_search(words), self.commit, "--", *pathspecs)

    def _hits(self, answer: bytes) -> list[str]:
        start = len(self.commit) + 1
        return [
            full for full in (os.fsdecode(hit[start:]) for hit in answer.split(b"\0") if hit) if full in self._files
        ]

    def _search_in(self, paths: Sequence[str], words: Iterable[bytes]) -> set[str]:
        return set(self._hits(self._ask(words, *paths)()))

    def _small(self, full: str) -> bytes | None:
        return self._git.blob(self._files[full], MAX_BYTES)

    def _object(self, path: str) -> str | None:
        full = self._full(path)
        if full in self._files:
            return self._files[full]
        if self._below(full) is not None and self._only is None:
            return None
        if self._outside is None:
            self._outside = self._list(".")
        return self._outside.get(full)

    def exists(self, path: str) -> bool:
        try:
            return self._object(path) is not None
        except Unreadable:
            return False

    def read(self, path: str) -> str:
        object_id = self._object(path)
        if object_id is None:
            raise Unreadable(LINK if any(s.path == path and s.reason == LINK for s in self.skipped) else MISSING)
        data = self._git.blob(object_id, MAX_BYTES)
        if data is None:
            raise Unreadable(TOO_LARGE)
        return decode(data)

    def changed_after(self, path: str, other: str) -> bool | None:
        try:
            return _later(self._git, self.commit, self._full(path), self._full(other))
        except Unreadable:
            return None


# --- files on disk ------------------------------------------------------------------------------------------------------


class Disk(_Rooted):
    """The files on disk below a folder, where no repository tracks them. ``.git`` folders are left out, links not followed."""

    def __init__(self, root: Path, only: str | None = None) -> None:
        super().__init__("", only)
        self._root = root
        self._kept: dict[str, bytes] = {}
        self._room = _KEPT_BYTES

    def _bytes(self, path: str) -> bytes:
        """A file's bytes: a dozen searches and the readers after them want the same small files."""
        data = self._kept.get(path)
        if data is None:
            data = _read_file(self._root, path)
            if len(data) <= self._room:
                self._room -= len(data)
                self._kept[path] = data
        return data

    @cached_property
    def _files(self) -> list[str]:
        if self._only is not None:
            return [self._only]
        return sorted(self._walk(self._root, ""))

    def _walk(self, folder: Path, prefix: str) -> Iterator[str]:
        try:
            entries = list(os.scandir(folder))
        except OSError as error:
            self._skip(prefix.rstrip("/") or ".", _why(error))
            return
        for entry in entries:
            if entry.is_symlink():
                self._skip(prefix + entry.name, LINK)
            elif entry.is_dir(follow_symlinks=False):
                if entry.name != ".git":
                    yield from self._walk(Path(entry.path), f"{prefix}{entry.name}/")
            elif entry.is_file(follow_symlinks=False):
                yield prefix + entry.name

    @property
    def files_seen(self) -> int:
        return len(self._files)

    def paths(self) -> Iterable[str]:
        return list(self._files)

    def candidates(self, words: Iterable[bytes], also: Also = NOTHING_ELSE) -> Iterable[str]:
        sought = _Sought(words, also)
        return [path for path in self._files if self._hit(path, sought)]

    def searching(self, words: Iterable[bytes], also: Also = NOTHING_ELSE) -> Callable[[], Iterable[str]]:
        return partial(self.candidates, list(words), also)

    def _hit(self, path: str, sought: _Sought) -> bool:
        if sought.in_name(path):
            return True
        try:
            return sought.holds(path, self._bytes(path))
        except Unreadable as error:
            self._skip(path, str(error))
            return False

    def exists(self, path: str) -> bool:
        try:
            full = self._full(path)
        except Unreadable:
            return False
        return full in self._kept or _is_plain_file(self._root / full)

    def read(self, path: str) -> str:
        return decode(self._bytes(self._full(path)))

    def changed_after(self, path: str, other: str) -> bool | None:
        return None


class StdinManifests:
    """Rendered manifests from standard input, as one file named "-"."""

    prefix = ""

    def __init__(self, data: bytes) -> None:
        self.skipped: list[Skipped] = []
        self._text = self._decode(data)

    @staticmethod
    def _decode(data: bytes) -> str:
        # Rendered fleets are larger than one file of a repository may be.
        if len(data) > 64 * 1024 * 1024:
            raise InputError("standard input is larger than 64 MiB; render fewer manifests at a time")
        try:
            return decode(data) if len(data) <= MAX_BYTES else data.decode("utf-8", "replace").replace("\r\n", "\n")
        except Unreadable as error:
            raise InputError(f"standard input cannot be read: {error}; pipe rendered manifests into it") from None

    files_seen = 1

    def paths(self) -> Iterable[str]:
        return [STDIN_PATH]

    def candidates(self, words: Iterable[bytes], also: Also = NOTHING_ELSE) -> Iterable[str]:
        return [STDIN_PATH]

    def searching(self, words: Iterable[bytes], also: Also = NOTHING_ELSE) -> Callable[[], Iterable[str]]:
        return partial(self.candidates, words, also)

    def named(self, globs: Iterable[str]) -> Iterable[str]:
        return []

    def exists(self, path: str) -> bool:
        return path == STDIN_PATH

    def read(self, path: str) -> str:
        if path != STDIN_PATH:
            raise Unreadable(MISSING)
        return self._text

    def changed_after(self, path: str, other: str) -> bool | None:
        return None


def only_file(tree: Tree) -> str | None:
    """The one file that PATH is ("-" for standard input), None for a folder: who names a file wants that file read."""
    if isinstance(tree, StdinManifests):
        return STDIN_PATH
    return tree.only if isinstance(tree, _Rooted) else None


# --- which of them ------------------------------------------------------------------------------------------------------


def _place(path: Path) -> tuple[Path, str | None]:
    """PATH as an absolute folder and, where it is one file, its name.

    Raises UsageError where it is not there, InputError where it may not be looked at.
    """
    try:
        absolute = path.resolve(strict=True)
        mode = absolute.stat().st_mode
    except PermissionError:
        raise InputError(f"{path}: {FORBIDDEN}; give the user of this run access to it") from None
    except (OSError, RuntimeError, ValueError):
        raise UsageError(f"{path}: no such file or folder; PATH is a folder, a file or - (default: .)") from None
    if stat.S_ISDIR(mode):
        return absolute, None
    if stat.S_ISREG(mode):
        return absolute.parent, absolute.name
    raise UsageError(f"{path}: neither a file nor a folder")


def _repository(path: Path) -> Repository:
    folder, _ = _place(path)
    top = find_top(folder)
    if top is None:
        raise UsageError(f"{path}: not inside a Git repository, so there are no revisions; give a path inside one")
    return open_repository(top)


def open_tree(path: Path, revision: str | None = None) -> Tree:
    """The work tree below ``path``, or the commit ``revision`` of the repository around it.

    Files on disk where no repository tracks anything below ``path``. Raises UsageError where the path is not there, or a
    revision is asked for outside a repository or does not resolve. The path itself may be gone from the work tree only if
    one of its parents is still there and a revision is given.
    """
    if revision is not None:
        return _open_revision(path, revision)
    folder, only = _place(path)
    top = find_top(folder)
    if top is None:
        return Disk(folder, only)
    tree = WorkTree(open_repository(top), _relative(folder, top), only)
    return tree if tree.tracks_something else Disk(folder, only)


def _open_revision(path: Path, revision: str) -> Tree:
    present = path
    while not present.exists() and present != present.parent:
        present = present.parent
    folder, only = _place(present)
    top = find_top(folder)
    if top is None:
        raise UsageError(f"{path}: not inside a Git repository, so there is no revision {revision[:80]!r}")
    repository = open_repository(top)
    commit = repository.resolve(revision)
    if present == path:
        return Revision(repository, commit, _relative(folder, top), only)
    missing = path.absolute().parts[len(present.absolute().parts) :]
    gone = posixpath.normpath(posixpath.join(_relative(folder, top), *missing))
    kind = repository.run("cat-file", "-t", f"{commit}:{gone}", accept=(0, 128)).strip()
    if kind == b"blob":
        return Revision(repository, commit, posixpath.dirname(gone), posixpath.basename(gone))
    return Revision(repository, commit, gone, None)


def _relative(folder: Path, top: Path) -> str:
    relative = folder.relative_to(top).as_posix()
    return "" if relative == "." else relative


def resolve(path: Path, revision: str) -> str:
    """The commit id of a revision of the repository around ``path``; raises UsageError as ``open_tree`` does."""
    return _repository(path).resolve(revision)


def merge_base(path: Path, one: str, other: str) -> str | None:
    """The merge base of two revisions as a commit id, None where they have none; raises UsageError as ``open_tree`` does."""
    repository = _repository(path)
    return repository.merge_base(repository.resolve(one), repository.resolve(other))
