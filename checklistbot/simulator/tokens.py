"""The simulator's tokenizer: one word or one punctuation mark is one token.

A token is one character of a Python string (its id is the code point), so a prompt of a million tokens is a string of 4 MB,
and searching it is ``str.find``. Id 0 is what a zeroed slot and the one-token placeholder of a rejected prompt hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from checklistbot.lazy import pattern

ZERO: Final = "\0"
_PIECE = pattern(r"\w+|[^\w\s]")
#: Text is cut into stretches of about this many characters, so that the list of words stays small.
_STRETCH: Final = 1 << 16
#: Sentences of at most this many characters are remembered, so many of them.
_SENTENCE: Final = 400
_KEPT: Final = 4_096
_TIGHT: Final = frozenset(".,;:!?")
_LAST_ID: Final = 0x10FFFF


class Tokenizer:
    """Words → tokens, growing as words are seen. ``numbers`` are the tokens that stand for numbers of five digits or more."""

    def __init__(self) -> None:
        self._tokens: dict[str, str] = {}
        self._words: list[str] = [""]
        self._sentences: dict[str, str] = {}
        self.numbers: set[str] = set()
        self.unknown = self._new("?")

    def _new(self, word: str) -> str:
        number = len(self._words)
        if 0xD800 <= number <= 0xDFFF:  # No surrogates: a token must survive UTF-32.
            self._words.extend([""] * (0xE000 - number))
            number = 0xE000
        if number > _LAST_ID:
            return self.unknown
        token = chr(number)
        self._words.append(word)
        self._tokens[word] = token
        if len(word) >= 5 and word.isdigit():
            self.numbers.add(token)
        return token

    def encode(self, text: str) -> str:
        """The tokens of ``text``. A full stop is always a token of its own, so sentences are encoded one by one, and those that
        come again (long prompts repeat themselves) only once."""
        dot = self._tokens.get(".") or self._new(".")
        return dot.join(map(self._sentence, text.split(".")))

    def _sentence(self, text: str) -> str:
        if len(text) > _SENTENCE:
            return "".join(self._encode(stretch) for stretch in _stretches(text))
        tokens = self._sentences.get(text)
        if tokens is None:
            tokens = self._encode(text)
            if len(self._sentences) >= _KEPT:
                self._sentences.clear()
            self._sentences[text] = tokens
        return tokens

    def _encode(self, text: str) -> str:
        words = _PIECE.findall(text)
        known = self._tokens
        try:
            return "".join([known[word] for word in words])
        except KeyError:
            return "".join([known.get(word) or self._new(word) for word in words])

    def from_ids(self, ids: Iterable[int]) -> str:
        """Tokens from ids; raises ValueError for an id that no word has."""
        tokens = "".join(map(chr, ids))
        if tokens and ord(max(tokens)) >= len(self._words):
            raise ValueError("token id out of range")
        return tokens

    def word(self, token: str) -> str:
        number = ord(token)
        return self._words[number] if number < len(self._words) else ""

    def piece(self, token: str) -> str:
        """The token as it appears in a stream: with a space before it where it is a word."""
        word = self.word(token)
        return word if word in _TIGHT or not word else f" {word}"

    def decode(self, tokens: str) -> str:
        return "".join(map(self.piece, tokens)).removeprefix(" ")


def _stretches(text: str) -> Iterator[str]:
    """The text in pieces that end where a word ends."""
    start, length = 0, len(text)
    while start < length:
        end = min(length, start + _STRETCH)
        if end < length:
            space = text.rfind(" ", start, end)
            end = space if space > start else end
        yield text[start:end]
        start = end
