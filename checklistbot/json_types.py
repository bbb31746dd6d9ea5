"""Values of JSON that somebody else wrote, each of the kind that its place wants. All raise ValueError where it is another kind.

A file for ``--observed`` or a report for ``script`` may hold anything; what gets past here is used without another look.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any


def text(data: Mapping[str, Any], key: str) -> str:
    """A text that must be there."""
    value = data[key]
    if not isinstance(value, str):
        raise ValueError(f"{key}: not a text")
    return value


def text_or_none(data: Mapping[str, Any], key: str) -> str | None:
    """A text, None where it is not there."""
    return None if data.get(key) is None else text(data, key)


def texts(data: Mapping[str, Any], key: str) -> tuple[str, ...]:
    """A list of texts, empty where it is not there."""
    value = data.get(key, ())
    if not isinstance(value, (list, tuple)) or not all(isinstance(entry, str) for entry in value):
        raise ValueError(f"{key}: not a list of texts")
    return tuple(value)


def number(value: object) -> int | float | None:
    """A finite number or None."""
    if value is None or (isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)):
        return value
    raise ValueError("not a number")


def whole(data: Mapping[str, Any], key: str) -> int | None:
    """A whole number, None where it is not there."""
    value = data.get(key)
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    raise ValueError(f"{key}: not a whole number")


def switch(data: Mapping[str, Any], key: str, default: bool | None) -> bool | None:
    """True or false, the default where it is not there."""
    value = data.get(key, default)
    if value is not None and not isinstance(value, bool):
        raise ValueError(f"{key}: neither true nor false")
    return value


def scalar(value: object) -> str | int | float | bool | None:
    """A text, a finite number, true, false or None."""
    return value if isinstance(value, (str, bool)) else number(value)


def scalars(data: Mapping[str, Any], key: str) -> dict[str, Any]:
    """A table of scalars, empty where it is not there."""
    value = data.get(key, {})
    if not isinstance(value, dict):
        raise ValueError(f"{key}: not a table")
    return {name: scalar(entry) for name, entry in value.items()}


def one_of(data: Mapping[str, Any], key: str, choices: tuple[str, ...]) -> Any:
    """One of the texts."""
    value = data.get(key)
    if value not in choices or not isinstance(value, str):
        raise ValueError(f"{key}: not one of {', '.join(choices)}")
    return value
