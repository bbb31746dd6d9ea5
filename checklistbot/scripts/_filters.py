"""How values enter a script: through a filter that quotes for the target, or not at all.

The templates' ``finalize`` refuses whatever no filter has made ``Safe``, so a bare ``{{ value }}`` does not render.
"""

from __future__ import annotations

import json
import re
import shlex
from functools import cache
from typing import TYPE_CHECKING, Any

from checklistbot import encode, resources
from checklistbot.lazy import pattern

if TYPE_CHECKING:
    from jinja2 import Environment, Template

    from checklistbot.model import Facts

_WORD = pattern(r"[^A-Za-z0-9._/@+-]")
_IDENTIFIER = pattern(r"[A-Za-z_][A-Za-z0-9_]{0,120}")
_HEX = pattern(r"[0-9a-f]{64}")


class Safe(str):
    """Text that a filter has made fit for its place."""

    __slots__ = ()


def sh(value: object) -> Safe:
    """One word of a POSIX shell, quoted; a value has no control characters and at most 200,000 others."""
    return Safe(shlex.quote(encode.clean(str(value), limit=200_000)))


def py(value: object) -> Safe:
    """A Python literal of a text (without control characters), a number, a truth value or None."""
    if value is None or isinstance(value, (bool, int, float)):
        return Safe(repr(value))
    return Safe(repr(str(encode.clean(str(value), limit=200_000))))


def yaml(value: object, target: str) -> Safe:
    """A double-quoted YAML scalar whose text ``target`` ("github" or "gitlab") does not evaluate a second time.

    Escapes would not do: both look for expressions in the text that the YAML parser returns.
    """
    text = encode.clean(str(value), limit=10_000)
    text = text.replace("${{", "${{ '${{' }}") if target == "github" else text.replace("$", "$$")
    return Safe(json.dumps(text, ensure_ascii=False))


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


def config_lines(facts: Facts) -> list[tuple[str, str]]:
    """(environment/group, config digest) for a file's header, sorted; what is no digest is left out."""
    found = []
    for key, digests in sorted(facts.digests.items()):
        value = digests.get("config", "")
        if _HEX.fullmatch(value.removeprefix("sha256:")):
            found.append((key, value))
    return found


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
    environment.filters.update(sh=sh, py=py, yaml=yaml, comment=comment, name=name, digest=digest)
    return environment


@cache
def template(file: str) -> Template:
    """A template of ``templates/scripts/``."""
    return _environment().from_string(resources.text("templates", "scripts", file))


def from_string(text: str) -> Template:
    """A template from text, under the same rules."""
    return _environment().from_string(text)
