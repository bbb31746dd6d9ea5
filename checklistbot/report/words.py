"""Phrases in two languages, and text that knows what each of its parts is, so that every output can encode it.

``templates/words.LANGUAGE.yml`` holds the phrases. A ``Line`` is a row of spans: our own words, words from outside,
code, and places (file and line). Nothing is encoded here; markdown.py and terminal.py do that, span by span.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from typing import Any, Literal, TypeAlias

from checklistbot import resources
from checklistbot.lazy import pattern
from checklistbot.model import Location, Source
from checklistbot.record import record

Language = Literal["en", "ko"]
Kind = Literal["own", "foreign", "code", "place"]


@record
class Span:
    """A piece of a line. ``own`` text comes from our catalogue or is a number; a ``place`` is a path and a ``line``."""

    text: str
    kind: Kind = "own"
    strong: bool = False
    line: int | None = None


Line: TypeAlias = tuple[Span, ...]
#: What fills a phrase: numbers are written with separators, strings are from outside, lines are taken as they are.
Filling: TypeAlias = int | float | str | Line | Span | Location | Source

_TOKEN = pattern(r"(\*\*|\{\w+\})")


def own(text: str) -> Line:
    """A line of our own words."""
    return (Span(text),)


def foreign(text: str) -> Line:
    """A line of somebody else's words."""
    return (Span(text, "foreign"),)


def code(text: str) -> Line:
    """A line that is one piece of code: a flag, an id, a digest."""
    return (Span(text, "code"),)


def place(where: Location | Source) -> Line:
    """A line that is a file and line."""
    return (Span(where.path or "", "place", line=where.line),)


def number(value: int | float) -> str:
    """1,048,576; fractions as they are."""
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"


def join(lines: Iterable[Line], separator: str = " · ") -> Line:
    """The lines one after the other; empty ones left out."""
    joined: list[Span] = []
    for line in lines:
        if line:
            joined += ([Span(separator)] if joined else []) + list(line)
    return tuple(joined)


def spans(value: Filling) -> Line:
    """A filling as spans."""
    if isinstance(value, bool):
        return own(str(value).lower())
    if isinstance(value, (int, float)):
        return own(number(value))
    if isinstance(value, str):
        return (Span(value, "foreign"),)
    if isinstance(value, (Location, Source)):
        return place(value)
    return (value,) if isinstance(value, Span) else value


@cache
def _catalogue(language: Language) -> dict[str, Any]:
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    loaded: dict[str, Any] = yaml.load(resources.text("templates", f"words.{language}.yml"), Loader=loader)  # noqa: S506
    return loaded


@record
class Words:
    """The phrases of one language. A key is "section.name"; an unknown key raises KeyError."""

    language: Language

    def phrase(self, key: str, n: int | None = None) -> str:
        """The raw phrase; where the language counts, the form for ``n``."""
        section, _, name = key.partition(".")
        found = _catalogue(self.language)[section][name]
        if isinstance(found, dict):
            found = found["one" if n == 1 else "other"]
        return str(found)

    def has(self, key: str) -> bool:
        section, _, name = key.partition(".")
        return name in _catalogue(self.language).get(section, {})

    def line(self, key: str, **values: Filling) -> Line:
        """The phrase filled; raises KeyError where a value is missing."""
        n = values.get("n")
        strong = False
        line: list[Span] = []
        for token in _TOKEN.split(self.phrase(key, n if isinstance(n, int) else None)):
            if token == "**":  # noqa: S105  (a token of the phrase)
                strong = not strong
            elif token.startswith("{") and token.endswith("}"):
                line += [replace(span, strong=span.strong or strong) for span in spans(values[token[1:-1]])]
            elif token:
                line.append(Span(token, strong=strong))
        return tuple(line)

    def name(self, section: str, name: str) -> Line:
        """Our word for a fact, a verdict, a supply; the name itself, as code, where we have none."""
        return self.line(f"{section}.{name}") if self.has(f"{section}.{name}") else code(name)


def plain(line: Line) -> str:
    """The line as text without any encoding: for a title that another encoder takes next."""
    return "".join(f"{span.text}:{span.line}" if span.line else span.text for span in line)
