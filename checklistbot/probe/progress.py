"""What a terminal shows while a probe runs: a line for each phase and each over-limit request, and under them a bar."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any, Final

from checklistbot.probe.case import Case
from checklistbot.probe.text import Texts

_PHASES: Final = ("discover", "watch", "baseline", "hunt", "below", "fill", "after")
_BAR: Final = 20


class Progress:
    """Hears a ``Probe``'s events. ``write`` gets text for standard error; with ``drawn`` the last line is a bar that is drawn anew
    (for terminals only), without it there are lines alone. ``verbose`` adds a line for each reply."""

    def __init__(
        self,
        texts: Texts,
        write: Callable[[str], None],
        *,
        drawn: bool = False,
        verbose: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._texts, self._write, self._drawn, self._verbose, self._clock = texts, write, drawn, verbose, clock
        self._requests = self._tokens = self._all_requests = self._all_tokens = 0
        self._rate: float | None = None
        self._begun = self._begun_tokens = 0.0

    def __call__(self, event: str, data: dict[str, Any]) -> None:
        """One event of the run."""
        known: Callable[[dict[str, Any]], None] | None = getattr(self, f"_on_{event}", None)
        if known is not None:
            known(data)

    def close(self) -> None:
        """Take the bar away: what follows is the report."""
        if self._drawn:
            self._write("\r\x1b[K")

    def _line(self, text: str) -> None:
        self._write(f"\r\x1b[K{text}\n" if self._drawn else f"{text}\n")
        self._draw()

    # --- events -------------------------------------------------------------------------------------------------------

    def _on_phase(self, data: dict[str, Any]) -> None:
        name = data["name"]
        self._line(f"… {self._texts.say('announce.' + (name if name in _PHASES else 'over-phase'))}")

    def _on_announce(self, data: dict[str, Any]) -> None:
        self._line(f"  ! {self._texts.say('announce.over', data['length'])}")

    def _on_estimate(self, data: dict[str, Any]) -> None:
        self._all_requests, self._all_tokens = data["requests"], data["tokens"]
        took = took_in_words(data["seconds"], self._texts)
        self._line(f"  {self._texts.say('progress.estimate', self._all_requests, self._all_tokens, took)}")

    def _on_speed(self, data: dict[str, Any]) -> None:
        if data["seconds"]:
            self._rate = data["seconds"]

    def _on_reply(self, data: dict[str, Any]) -> None:
        self._requests, self._tokens = data["requests"], data["tokens"]
        if self._verbose:
            case: Case = data["case"]
            took = f"{case.reply.ttft:.3f}" if case.reply.ttft is not None else "-"
            self._line(f"    {case.phase:9} {case.length:>9} {case.reply.status} {took:>8} s  {case.verdict}")
        else:
            self._draw()

    # --- the bar ------------------------------------------------------------------------------------------------------

    def seconds_left(self) -> float | None:
        """By the prefill speed that was measured, else by this run's own so far; None before the first request."""
        if not self._begun:
            self._begun, self._begun_tokens = self._clock(), self._tokens
        sent = self._tokens - self._begun_tokens
        rate = self._rate or ((self._clock() - self._begun) / sent if sent > 0 else None)
        return None if rate is None else rate * max(0, self._all_tokens - self._tokens)

    def _draw(self) -> None:
        if not self._drawn or not self._all_requests:
            return
        share = min(1.0, self._tokens / max(1, self._all_tokens))
        full = round(share * _BAR)
        left = self.seconds_left()
        rest = self._texts.say("progress.left", took_in_words(left, self._texts)) if left is not None else ""
        counted = self._texts.say("progress.bar", self._requests, self._all_requests, self._tokens, self._all_tokens)
        self._write(f"\r\x1b[K  {'█' * full}{'░' * (_BAR - full)} {counted}{rest}")


def took_in_words(seconds: float, texts: Texts) -> str:
    """Seconds, or minutes from two minutes on."""
    if seconds < 120:
        return texts.say("progress.seconds", max(1, math.ceil(seconds)))
    return texts.say("progress.minutes", math.ceil(seconds / 60))
