"""The simulator without sockets and without waiting: calls that run at the same time are played in the order of their times.

This makes thousands of probe runs possible in minutes, each the same for the same seed.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import field

from checklistbot.record import mutable_record
from checklistbot.simulator.api import App, Served


@mutable_record
class Played:
    """One answer: chunks with their times in seconds after the call; ``error`` is "timeout" or "cut"."""

    status: int
    content_type: str
    chunks: list[tuple[float, bytes]] = field(default_factory=list)
    error: str | None = None


@mutable_record
class Direct:
    """Plays calls on an app. ``now`` is the virtual time in seconds."""

    app: App
    now: float = 0.0
    #: Seconds between two calls that start together, as a client's threads have them.
    stagger: float = 0.001
    calls: int = 0

    def play(self, calls: Sequence[tuple[str, str, bytes]], *, deadline: float, concurrency: int = 1) -> list[Played]:
        """The answers of (method, path, body) in order, ``concurrency`` at a time, each given up after ``deadline`` seconds."""
        results: list[Played | None] = [None] * len(calls)
        waiting = list(reversed(range(len(calls))))
        events: list[tuple[float, int, Served, float]] = []

        def start() -> None:
            index = waiting.pop()
            self.calls += 1
            served = self.app.handle(*calls[index])
            results[index] = Played(served.status, served.content_type)
            heapq.heappush(events, (self.now, index, served, self.now))

        while waiting and len(events) < concurrency:
            start()
            self.now += self.stagger
        while events:
            at, index, served, begun = heapq.heappop(events)
            self.now = max(self.now, at)
            following = self._step(results[index], served, at, begun, deadline)
            if following is not None:
                heapq.heappush(events, (following, index, served, begun))
            elif waiting:
                start()
        return [result for result in results if result is not None]

    def _step(self, played: Played | None, served: Served, at: float, begun: float, deadline: float) -> float | None:
        """Take the next chunk; the time at which the one after it is due, None at the end."""
        assert played is not None  # noqa: S101 - start() made it.
        entry = next(served.chunks, None)
        if entry is None:
            return None
        wait, data = entry
        played.status, played.content_type = served.status, served.content_type
        when = at + wait
        if when - begun > deadline:
            played.error = "timeout"
            self.now = begun + deadline
            _close(served)
            return None
        if data is None:
            played.error = "cut"
            _close(served)
            return None
        if data:
            played.chunks.append((when - begun, data))
        return when


def _close(served: Served) -> None:
    """The client is gone: the request gives its pages back."""
    close = getattr(served.chunks, "close", None)
    if close is not None:
        close()
