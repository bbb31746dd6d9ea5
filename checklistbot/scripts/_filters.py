"""How values enter a script: through a filter that quotes for the target, or not at all.

The templates' ``finalize`` refuses whatever no filter has made ``Safe``, so a bare ``{{ value }}`` does not render.
"""

from __future__ import annotations

import re
import shlex
from functools import cache
from typing import TYPE_CHECKING, Any

from checklistbot import encode, resources

if TYPE_CHECKING:
    from jinja2 import Environment, Template

_WORD = re.compile(r"[^A-Za-z0-9._/@+-]")
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,120}")
_HEX = re.compile(r"[0-9a-f]{64}")


class Safe(str):
    """Text that a filter has made fit for its place."""

    __slots__ = ()


def sh(value: object) -> Safe:
    """One word of a POSIX shell, quoted; a value has no control characters and at most 200,000 others."""
    return Safe(shlex.quote(encode.clean(str(value), limit=200_000)))


def comment(value: object) -> Safe:
    """A word that may stand in a comment: every other character becomes "_"."""
    return Safe(_WORD.sub("_", encode.clean(str(value), limit=120)) or "_")


def name(value: object) -> Safe:
    """An identifier; raises ValueError for anything else, because names are made by us."""
    if not _IDENTIFIER.fullmatch(str(value)):
        raise ValueError("not an identifier")
    return Safe(value)


def digest(value: object) -> Safe:
    """A sha256 in hex; raises ValueError for anything else."""
    plain = str(value).removeprefix("sha256:")
    if not _HEX.fullmatch(plain):
        raise ValueError("not a digest")
    return Safe(plain)


def slug(text: str) -> str:
    """The letters and digits of a name, in ASCII, joined by "_"; empty where it has none."""
    return re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")[:40].strip("_")


def _refuse(value: Any) -> Any:
    if isinstance(value, Safe):
        return value
    raise TypeError("a script template prints a value that went through no filter")


@cache
def _environment() -> Environment:
    from jinja2 import StrictUndefined
    from jinja2.sandbox import SandboxedEnvironment

    environment = SandboxedEnvironment(
        undefined=StrictUndefined,
        finalize=_refuse,
        autoescape=False,
        comment_start_string="<#",  # "{#" is bash's
        comment_end_string="#>",
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters.update(sh=sh, comment=comment, name=name, digest=digest)
    return environment


@cache
def template(file: str) -> Template:
    """A template of ``templates/scripts/``."""
    return _environment().from_string(resources.text("templates", "scripts", file))


def from_string(text: str) -> Template:
    """A template from text, under the same rules."""
    return _environment().from_string(text)
