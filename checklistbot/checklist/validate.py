"""An LLM's text becomes drafts: bounded JSON, then the types of ``vocabulary``. Imported only where an LLM answered."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from checklistbot.checklist.assemble import Draft
from checklistbot.lazy import pattern
from checklistbot.llm.base import MAX_ANSWER_BYTES

MAX_DEPTH: Final = 32
_MAX_ERRORS: Final = 20
_FENCE = pattern(r"\A\s*```[a-zA-Z]*\s*\n(.*?)\n\s*```\s*\Z", re.DOTALL)


class Invalid(Exception):
    """The answer cannot be used. ``reason`` is "not-json", "wrong-schema" or "too-large"; ``errors`` are lines of ours for the repair."""

    def __init__(self, reason: str, errors: tuple[str, ...] = ()) -> None:
        super().__init__(reason)
        self.reason = reason
        self.errors = errors


def load_json(text: str) -> Any:
    """A JSON value of at most MAX_ANSWER_BYTES and MAX_DEPTH levels, without duplicate keys, NaN or infinity. Raises Invalid."""
    if len(text.encode("utf-8", "surrogatepass")) > MAX_ANSWER_BYTES:
        raise Invalid("too-large")
    if _depth(text) > MAX_DEPTH:
        raise Invalid("not-json", ("nested too deeply",))
    try:
        return json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        raise Invalid("not-json", (f"not JSON: line {error.lineno}, column {error.colno}",)) from None
    except (ValueError, RecursionError):
        raise Invalid("not-json", ("not JSON: a number or a key is not allowed",)) from None


def _depth(text: str) -> int:
    """The deepest nesting of brackets outside strings."""
    deepest = depth = 0
    for match in re.finditer(r'"(?:[^"\\]|\\.)*"|[\[{]|[\]}]', text, re.DOTALL):
        first = match.group()[0]
        depth += (first in "[{") - (first in "]}")
        deepest = max(deepest, depth)
    return deepest


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("duplicate key")
    return found


def _no_constant(_: str) -> Any:
    raise ValueError("no JSON number")


def drafts(text: str) -> list[Draft]:
    """The drafts of an answer in our own form. Raises Invalid."""
    from pydantic import ValidationError

    from checklistbot.checklist.vocabulary import Answer

    fenced = _FENCE.match(text)
    data = load_json(fenced[1] if fenced else text)
    try:
        answer = Answer.model_validate(data)
    except ValidationError as error:
        raise Invalid("wrong-schema", _errors(error)) from None
    except RecursionError:
        raise Invalid("wrong-schema", ("nested too deeply",)) from None
    return [_draft(item) for item in answer.items]


def _errors(error: Any) -> tuple[str, ...]:
    """Where and what, in pydantic's words for the kind; not the offending value."""
    lines = []
    for entry in error.errors(include_url=False, include_input=False, include_context=False)[:_MAX_ERRORS]:
        place = ".".join(str(part)[:40] for part in entry["loc"])
        lines.append(f"{place}: {entry['type']}")
    return tuple(lines)


def _draft(item: Any) -> Draft:
    return Draft(
        topic=item.topic,
        title=item.title,
        steps=tuple(item.steps),
        pass_when=item.pass_when,
        commands=tuple(item.commands),
        why=item.why,
        owner=item.owner,
        severity=item.severity,
        when=item.when,
        deployments=tuple(item.deployments),
        automation=item.automation.model_dump(by_alias=True) if item.automation else None,
    )
