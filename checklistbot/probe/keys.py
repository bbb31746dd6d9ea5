"""Everything that is planted, derived from one key: HMAC over run, kind, index. Any process with the key can tell whose it is."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterator
from dataclasses import field
from itertools import pairwise
from typing import Final

from checklistbot.probe.words import BITS, WORDS
from checklistbot.record import mutable_record

#: Words of one canary: 6 × 9 = 54 bits.
CANARY_WORDS: Final = 6


@mutable_record
class RunKey:
    """The key of one run. ``canary(i)`` is tenant i's phrase; no two tenants share a pair of neighbouring words."""

    secret: bytes
    _canaries: list[tuple[str, ...]] = field(default_factory=list)
    _pairs: set[tuple[str, str]] = field(default_factory=set)
    _codes: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, key: str, seed: int) -> RunKey:
        return cls(hmac.digest(key.encode(), f"checklistbot-probe/{seed}".encode(), hashlib.sha256))

    def stream(self, label: str) -> Iterator[int]:
        """Endless numbers below 512 for a label."""
        counter = 0
        while True:
            block = hmac.digest(self.secret, f"{label}/{counter}".encode(), hashlib.sha256)
            yield from (int.from_bytes(block[at : at + 2], "big") % 512 for at in range(0, 32, 2))
            counter += 1

    def words(self, label: str, count: int) -> tuple[str, ...]:
        numbers = self.stream(label)
        return tuple(WORDS[next(numbers)] for _ in range(count))

    def canary(self, index: int) -> tuple[str, ...]:
        while len(self._canaries) <= index:
            self._canaries.append(self._new_canary(len(self._canaries)))
        return self._canaries[index]

    def _new_canary(self, index: int) -> tuple[str, ...]:
        for attempt in range(1_000):
            words = self.words(f"canary/{index}/{attempt}", CANARY_WORDS)
            pairs = set(pairwise(words))
            if len(set(words)) == CANARY_WORDS and not pairs & self._pairs:
                self._pairs |= pairs
                return words
        raise AssertionError("unreachable: 512 words hold hundreds of canaries")

    def codes(self, label: str, count: int) -> tuple[str, ...]:
        """Codes of seven digits, none twice in a run."""
        found: list[str] = []
        attempt = 0
        while len(found) < count:
            block = hmac.digest(self.secret, f"code/{label}/{attempt}".encode(), hashlib.sha256)
            code = str(1_000_000 + int.from_bytes(block[:8], "big") % 9_000_000)
            attempt += 1
            if code not in self._codes:
                self._codes.add(code)
                found.append(code)
        return tuple(found)

    def seal(self, text: str) -> str:
        """The HMAC of a reply: a plain hash of short text could be guessed."""
        return hmac.new(self.secret, b"reply/" + text.encode("utf-8", "replace"), hashlib.sha256).hexdigest()


__all__ = ["BITS", "CANARY_WORDS", "RunKey"]
