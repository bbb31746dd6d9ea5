"""The clock as an input (CONTRACTS, "Commands"): CHECKLISTBOT_NOW, else SOURCE_DATE_EPOCH, else now; always UTC."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from checklistbot.model import UsageError


def now(environ: Mapping[str, str]) -> datetime:
    """The time of this run. Raises UsageError where a variable is set and is no time."""
    for name in ("CHECKLISTBOT_NOW", "SOURCE_DATE_EPOCH"):
        text = environ.get(name)
        if text:
            return _parse(name, text)
    return datetime.now(UTC)


def _parse(name: str, text: str) -> datetime:
    try:
        if text.isascii() and text.isdigit():
            return datetime.fromtimestamp(int(text), UTC)
        time = datetime.fromisoformat(text)
    except (ValueError, OverflowError, OSError):
        raise UsageError(f"{name} must be seconds since 1970 or a time like 2026-11-30T12:00:00Z") from None
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
