"""JSON as every command prints it: the same input gives the same bytes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from checklistbot.encode import json_safe

if TYPE_CHECKING:
    from checklistbot.model import Check, Facts


def dump(data: Mapping[str, Any]) -> str:
    """The data as indented UTF-8 JSON with a final newline; every string of it is encoded.

    Raises ValueError for a number that JSON does not have (nan, inf).
    """
    return json.dumps(json_safe(dict(data)), ensure_ascii=False, indent=2, allow_nan=False) + "\n"


def render_check(check: Check, facts: Facts, *, language: str = "en") -> str:
    """``check/1``; language plays no part."""
    return dump(check.to_json())
