"""``.env`` files: NAME=value lines, as docker compose, systemd and ``source`` read them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from checklistbot.discovery.limits import MAX_VALUE, TooMuch
from checklistbot.engines.base import Word, mark
from checklistbot.lazy import pattern

_LINE = pattern(r"^\s*(?:export\s+)?([A-Za-z_][\w.-]*)\s*=\s*(.*)$")
#: Looked for beside a compose file, in this order: the last ones are what a team commits instead of the real one.
NAMES: Final = (
    ".env",
    ".env.example",
    ".env.sample",
    "env.example",
    ".env.template",
    ".env.dist",
    "example.env",
    "sample.env",
)


def parse(text: str, path: str, known: Mapping[str, Word] | None = None) -> dict[str, Word]:
    """Variables of a file; ``${OTHER}`` is replaced by what stands before it or in ``known``."""
    found: dict[str, Word] = {}
    for number, line in enumerate(text.split("\n"), 1):
        match = _LINE.match(line)
        if match is None:
            continue
        value = _unquoted(match[2].strip())
        if "$" in value and not match[2].strip().startswith("'"):
            value = interpolated(value, {**(known or {}), **found})
        found[match[1]] = Word(value, path, number, match[2].strip())
    return found


def _unquoted(value: str) -> str:
    if value[:1] in "\"'":
        end = value.find(value[0], 1)
        if end > 0:
            return value[1:end]
    return re.sub(r"(?:^|\s+)#.*$", "", value).rstrip()


_VARIABLE = pattern(r"\$\$|\$\{([A-Za-z_]\w*)(?:(:?[-+?])((?:[^{}]|\$\{(?:[^{}]|\{[^{}]*\})*\})*))?\}|\$([A-Za-z_]\w*)")


def interpolated(text: str, known: Mapping[str, Word], *, dollars: str = "$") -> str:
    """``${NAME}``, ``${NAME:-default}``, ``${NAME:+other}``, ``$NAME`` and ``$$``; what nobody sets becomes an unknown part.

    Raises TooMuch where the values come to more than ``limits.MAX_VALUE`` characters.
    """

    left = MAX_VALUE

    def value(match: re.Match[str]) -> str:
        nonlocal left
        found = one(match)
        left -= len(found)
        if left < 0:
            raise TooMuch
        return found

    def one(match: re.Match[str]) -> str:
        if match[0] == "$$":
            return dollars
        name, operator, argument = match[1] or match[4], match[2], match[3] or ""
        word = known.get(name)
        text = word.text if word is not None else None
        given = word is not None and (text != "" or not (operator or "").startswith(":"))
        if operator in (":+", "+"):
            return interpolated(argument, known, dollars=dollars) if given else ""
        if given:
            return text if text is not None else mark(f"${name}")
        if operator in (":-", "-"):
            return interpolated(argument, known, dollars=dollars)
        return mark(f"${name}")

    return _VARIABLE.sub(value, text)
