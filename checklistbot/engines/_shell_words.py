"""Splits a variable's value into words as a shell does without expanding anything."""

from __future__ import annotations

import re

from checklistbot.engines.base import Word, settled
from checklistbot.lazy import pattern

_PIECE = pattern(r"""'([^']*)'|"((?:[^"\\]|\\.)*)"|\\(\n|.)|([^\s'"\\]+)""", re.DOTALL)
_SPACE = pattern(r"(?:\s|\\\n)+")


def split_words(word: Word) -> list[Word]:
    """The words of ``word.text``: blanks separate, quotes and backslashes join, ``\\`` before a line break is a blank."""
    text = word.text or ""
    words: list[Word] = []
    at = 0
    while at < len(text):
        blank = _SPACE.match(text, at)
        if blank is not None:
            at = blank.end()
            continue
        start, parts = at, []
        while at < len(text) and not _SPACE.match(text, at):
            piece = _PIECE.match(text, at)
            if piece is None:
                parts.append(text[at])
                at += 1
                continue
            single, double, escaped, plain = piece.groups()
            if single is not None:
                parts.append(single)
            elif double is not None:
                parts.append(re.sub(r"\\([\\\"$`])", r"\1", double))
            else:
                parts.append(escaped if escaped is not None else plain)
            at = piece.end()
        words.append(settled(Word("".join(parts), word.path, word.line_at(start), text[start:at])))
    return words
