"""A KV pool in pages that are not zeroed when they are freed: the heart of the incident."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Sequence
from typing import Final, Literal

from checklistbot.simulator.tokens import ZERO

Order = Literal["lifo", "fifo", "shuffled"]
ORDERS: Final[tuple[Order, ...]] = ("lifo", "fifo", "shuffled")


class PagePool:
    """``tokens`` slots in pages of ``page_size``; a page is a string of as many tokens. ``owners`` names each page's last writer."""

    def __init__(self, tokens: int, page_size: int, order: Order = "lifo", seed: int = 0) -> None:
        self.page_size = page_size
        self.size = tokens // page_size
        empty = ZERO * page_size
        self.pages = [empty] * self.size
        self.owners: list[str | None] = [None] * self.size
        self._free: deque[int] = deque(range(self.size))
        self._order = order
        self._random = random.Random(seed)  # noqa: S311 - a simulator's page order, not a secret.

    @property
    def tokens(self) -> int:
        return self.size * self.page_size

    @property
    def used(self) -> int:
        """Tokens of the pages in use."""
        return (self.size - len(self._free)) * self.page_size

    def pages_for(self, tokens: int) -> int:
        return -(-tokens // self.page_size)

    def take(self, pages: int) -> list[int] | None:
        """``pages`` page numbers, None where so many are not free. Their old contents stay."""
        if pages > len(self._free):
            return None
        pop = self._free.pop if self._order != "fifo" else self._free.popleft
        return [pop() for _ in range(pages)]

    def write(self, table: Sequence[int], tokens: str, owner: str, at: int = 0) -> None:
        """Write ``tokens`` to the slots from ``at`` on; slots behind them keep what they held."""
        size = self.page_size
        done = 0
        while done < len(tokens):
            number, offset = divmod(at + done, size)
            page = table[number]
            part = tokens[done : done + size - offset]
            old = self.pages[page]
            self.pages[page] = part if len(part) == size else old[:offset] + part + old[offset + len(part) :]
            self.owners[page] = owner
            done += len(part)

    def read(self, table: Sequence[int], tokens: int) -> str:
        """What attention sees: the first ``tokens`` slots of these pages, whoever wrote them."""
        return "".join([self.pages[page] for page in table])[:tokens]

    def free(self, table: Sequence[int], *, zero: bool = False, zero_first: int = 0) -> None:
        """Give the pages back. ``zero`` clears them (what engines do not do); ``zero_first`` clears only that many slots."""
        cleared = len(table) * self.page_size if zero else zero_first
        if cleared:
            self.write(table, ZERO * cleared, "zeroed")
        # The first page is taken first again, as a stack of whole requests does it.
        self._free.extend(reversed(table))
        if self._order == "shuffled":
            self._random.shuffle(self._free)
