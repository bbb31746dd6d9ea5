"""Where a reader stops at a limit of its own: a bomb must cost little, and must not look like an empty file.

A reader that leaves a part out calls ``gave_up``; the driver lists the file as skipped, and a skipped file that names an engine is
unknown, never green (DESIGN, "What never happens"; operations-and-attacks 6 and 28). Syntax errors are not of this kind.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

#: The reason as ``skipped`` shows it.
TOO_MUCH: Final = "too deep or too large to read whole"
#: How the reason begins where a reader failed; the format's name follows.
UNREAD: Final = "could not be read as "
#: No value of a script, a Makefile or a Dockerfile is longer (characters): what grows further grows without end.
MAX_VALUE: Final = 64 * 1024
_MAX_WORK: Final = 10_000_000

_watching: ContextVar[list[bool] | None] = ContextVar("watching", default=None)


class TooMuch(ValueError):
    """A value or an amount of work beyond what any real file needs."""


def gave_up() -> None:
    """Says that a part of the file that is being read was left out."""
    seen = _watching.get()
    if seen is not None:
        seen.append(True)


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
