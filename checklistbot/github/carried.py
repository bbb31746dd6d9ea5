"""The checklist that a comment's marker carries, as base64(zlib(JSON)).

Reading it back is bounded before, during and after decompression, and the result is validated like an LLM's answer:
everybody with write permission can put another one there (operations-and-attacks 21, 28).
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterable
from typing import Any, Final

from checklistbot.encode import Untrusted, clean, redact
from checklistbot.model import TOPICS, Checklist

#: Characters of the encoded checklist; a longer one is left out.
MAX_CHECKLIST: Final = 16_000
#: Bytes of the checklist's JSON, as for an answer of an LLM.
MAX_CHECKLIST_JSON: Final = 256 * 1024


def pack(checklist: Checklist) -> str | None:
    """base64(zlib(JSON)) of a checklist; None if that is longer than MAX_CHECKLIST characters."""
    text = json.dumps(checklist.to_json(), separators=(",", ":"), ensure_ascii=False)
    packed = base64.b64encode(zlib.compress(text.encode("utf-8", "replace"), 9)).decode("ascii")
    return packed if len(packed) <= MAX_CHECKLIST else None


def unpack(packed: object) -> Checklist | None:
    """The checklist of a marker, validated; None if it is absent, too large, or not what we would have written."""
    if not isinstance(packed, str) or len(packed) > MAX_CHECKLIST:
        return None
    try:
        stream = zlib.decompressobj()
        raw = stream.decompress(base64.b64decode(packed, validate=True), MAX_CHECKLIST_JSON + 1)
        if len(raw) > MAX_CHECKLIST_JSON or not stream.eof or stream.unused_data:
            return None
        text = raw.decode("utf-8")
    except (ValueError, zlib.error):
        return None
    return checklist_from(json_object(text))


class _Unfit(Exception):
    """The data is no checklist of ours."""


def checklist_from(data: object) -> Checklist | None:
    """A ``checklist/1`` from JSON that others can have written; None if it does not fit.

    Every string becomes Untrusted, one line, bounded, and loses what looks like a secret.
    """
    try:
        return _checklist(data)
    except _Unfit:
        return None


_ORIGINS = ("builtin", "openai", "anthropic", "response")
_WHEN = ("before-merge", "before-deploy", "after-deploy")
_AUTOMATIONS = (
    "assert-fact", "assert-version", "boundary-request", "content-needles", "canary-leak", "abort-storm",
    "health-and-metrics", "flag-present", "evidence-fresh", "manual",
)  # fmt: skip
_MAX_ITEMS, _MAX_LIST, _MAX_TEXT = 100, 40, 2_000


def _checklist(data: object) -> Checklist:
    table = _table(data)
    model = table.get("model")
    return Checklist.from_json(
        {
            "language": _one_of(table.get("language"), ("en", "ko")),
            "origin": _one_of(table.get("origin"), _ORIGINS),
            "model": None if model is None else _text(model, 200),
            "items": [_item(entry) for entry in _list(table.get("items"), _MAX_ITEMS)],
        }
    )


def _item(data: object) -> dict[str, Any]:
    table = _table(data)
    texts = {name: _text(table.get(name)) for name in ("id", "title", "why", "pass_when", "owner")}
    lists = {name: [_text(e) for e in _list(table.get(name), _MAX_LIST)] for name in ("steps", "commands")}
    added = table.get("added", False)
    if not isinstance(added, bool):
        raise _Unfit
    return {
        **texts,
        **lists,
        "topic": _one_of(table.get("topic"), TOPICS),
        "severity": _one_of(table.get("severity"), ("required", "recommended")),
        "when": _one_of(table.get("when"), _WHEN),
        "automation": _automation(table.get("automation")),
        "facts_used": {_text(k, 100): _scalar(v) for k, v in _table(table.get("facts_used", {})).items()},
        "added": added,
        "not_verified": [_text(entry) for entry in _list(table.get("not_verified", []), _MAX_LIST)],
    }


def _automation(data: object) -> dict[str, Any] | None:
    """One of the fixed vocabulary (CONTRACTS, "Automation, plan"): scalars, or lists of them."""
    if data is None:
        return None
    table = _table(data)
    _one_of(table.get("kind"), _AUTOMATIONS)
    return {
        _text(key, 40): [_scalar(e) for e in _list(value, _MAX_LIST)] if isinstance(value, list) else _scalar(value)
        for key, value in table.items()
    }


def _table(data: object) -> dict[str, Any]:
    if not isinstance(data, dict) or len(data) > _MAX_LIST:
        raise _Unfit
    return data


def _list(data: object, most: int) -> list[Any]:
    if not isinstance(data, list) or len(data) > most:
        raise _Unfit
    return data


def _one_of(value: object, choices: Iterable[str]) -> str:
    if not isinstance(value, str) or value not in choices:
        raise _Unfit
    return value


def _text(value: object, most: int = _MAX_TEXT) -> Untrusted:
    if not isinstance(value, str) or len(value) > most:
        raise _Unfit
    return Untrusted(redact(clean(value, limit=most)))


def _scalar(value: object) -> str | int | float | bool | None:
    if isinstance(value, str):
        return _text(value)
    if value is None or (isinstance(value, (bool, int, float)) and value == value and abs(value) < 1e18):
        return value
    raise _Unfit


def json_object(text: str) -> dict[str, Any] | None:
    """The JSON object of a text; None if it is none, nests too deep, or names a key twice."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(pairs)) != len(pairs):
            raise ValueError("duplicate key")
        return dict(pairs)

    try:
        value = json.loads(text, object_pairs_hook=unique)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
