"""Where a reader stops at a limit of its own: a bomb must cost little, and must not look like an empty file.

A reader that leaves a part out calls ``gave_up``; the driver lists the file as skipped, and a skipped file that names an engine is
unknown, never green (DESIGN, "What never happens"; operations-and-attacks 6 and 28). Syntax errors are not of this kind.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import field
from typing import Final

from checklistbot.record import mutable_record

#: The reason as ``skipped`` shows it.
TOO_MUCH: Final = "too deep or too large to read whole"
#: How the reason begins where a reader failed; the format's name follows.
UNREAD: Final = "could not be read as "
#: No value of a script, a Makefile or a Dockerfile is longer (characters): what grows further grows without end.
MAX_VALUE: Final = 64 * 1024
_MAX_WORK: Final = 10_000_000

#: What all Python files of one state may cost together (steps of ``pymachine``); a monorepo of libraries that name engines holds hundreds.
_SHARED: Final = 400_000
#: What a file gets when the common store is empty: ten times what any labelled launcher needs.
_LEAST: Final = 2_000

_store: ContextVar[_Store | None] = ContextVar("store", default=None)
_watching: ContextVar[list[bool] | None] = ContextVar("watching", default=None)


@mutable_record
class _Store:
    """What the files of one state share: the steps that are left, and where their imports lead."""

    steps: int = _SHARED
    modules: dict[tuple[str, str, int], str | None] = field(default_factory=dict)


class TooMuch(ValueError):
    """A value or an amount of work beyond what any real file needs."""


def gave_up() -> None:
    """Says that a part of the file that is being read was left out."""
    seen = _watching.get()
    if seen is not None:
        seen.append(True)


@contextmanager
def stored() -> Iterator[None]:
    """Within the block all files draw their steps from one store."""
    token = _store.set(_Store())
    try:
        yield
    finally:
        _store.reset(token)


def allowance(steps: int) -> int:
    """How many of the steps that one file may take are left for it; never fewer than a plain launcher needs."""
    store = _store.get()
    return max(_LEAST, steps if store is None else min(steps, store.steps))


def spend(steps: int) -> None:
    """Takes what a file has used out of the store."""
    store = _store.get()
    if store is not None:
        store.steps -= steps


def modules() -> dict[tuple[str, str, int], str | None]:
    """Where imports were found to lead: (folder, name, level) to a path, or None; for the whole state where there is one."""
    store = _store.get()
    return {} if store is None else store.modules


@contextmanager
def watched() -> Iterator[list[bool]]:
    """The list is not empty as soon as a reader gave up within the block."""
    seen: list[bool] = []
    token = _watching.set(seen)
    try:
        yield seen
    finally:
        _watching.reset(token)


def costly(pattern: str, text: str, repeats: str = "*") -> bool:
    """True where a pattern of the file could be tried in too many places: each repetition multiplies the work by the text's length."""
    work: int = len(text) ** (1 + sum(pattern.count(sign) for sign in repeats))
    return work > _MAX_WORK


def bounded(value: str) -> str:
    """The value; raises TooMuch where it is longer than any real one."""
    if len(value) > MAX_VALUE:
        raise TooMuch
    return value
