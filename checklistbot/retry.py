"""The one place that repeats a call: Retry-After, back-off with jitter, one deadline for a run.

SDK and PyGithub retries are switched off; a caller classifies its own exceptions. A call that is not safe to repeat (a POST)
gives ``look``: before each repetition it is asked whether the first attempt took effect after all.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Generic, TypeVar

from checklistbot.record import record

T = TypeVar("T")


@record
class Clock:
    """Time as an input, so that tests neither wait nor race. ``now`` is monotonic seconds; ``wall`` is seconds since the epoch."""

    now: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep
    jitter: Callable[[], float] = random.random


@dataclass(slots=True)
class Deadline:
    """Seconds that all waiting of one run may take together."""

    seconds: float
    clock: Clock = field(default_factory=Clock)
    started: float = field(init=False)

    def __post_init__(self) -> None:
        self.started = self.clock.now()

    def left(self) -> float:
        return max(0.0, self.seconds - (self.clock.now() - self.started))


@record
class Again:
    """A caller's word that the failure may pass. ``after`` is the server's Retry-After in seconds, None if it gave none."""

    after: float | None = None


class GaveUp(Exception, Generic[T]):
    """All attempts or the deadline are used up; ``last`` is the last exception, ``waited_for`` the wait that would not fit."""

    def __init__(self, last: Exception, attempts: int, waited_for: float | None = None) -> None:
        super().__init__(f"gave up after {attempts} attempt(s)")
        self.last = last
        self.attempts = attempts
        self.waited_for = waited_for


def retry_after_seconds(header: str | None, clock: Clock) -> float | None:
    """The Retry-After header in seconds (RFC 9110 10.2.3: seconds or an HTTP date), None if absent or unreadable."""
    if not header:
        return None
    header = header.strip()
    if header.isascii() and header.isdigit():
        return float(header[:9])
    try:
        when: datetime = parsedate_to_datetime(header)
    except (TypeError, ValueError):
        return None
    return max(0.0, when.timestamp() - clock.wall())


def call(
    action: Callable[[], T],
    classify: Callable[[Exception], Again | None],
    *,
    deadline: Deadline,
    attempts: int = 3,
    base: float = 1.0,
    cap: float = 30.0,
    look: Callable[[], T | None] | None = None,
) -> T:
    """Run ``action`` until it succeeds.

    ``classify`` says whether an exception may pass (``Again``) or not (None: it is raised as it is). ``look`` runs before each
    repetition and returns the result if the earlier attempt took effect. Raises GaveUp when attempts or deadline are used up;
    a Retry-After longer than what the deadline leaves is not waited for.
    """
    clock = deadline.clock
    for attempt in range(1, attempts + 1):
        try:
            return action()
        except Exception as error:
            again = classify(error)
            if again is None:
                raise
            wait = (
                again.after
                if again.after is not None
                else min(cap, base * 2 ** (attempt - 1)) * (0.5 + clock.jitter() / 2)
            )
            if attempt == attempts or wait > deadline.left():
                raise GaveUp(error, attempt, wait) from error
        clock.sleep(wait)
        if look is not None and (found := look()) is not None:
            return found
    raise AssertionError("unreachable")
