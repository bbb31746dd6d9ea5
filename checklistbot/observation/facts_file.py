"""``--observed FILE``: another run's facts/1, bounded and checked; what it says is an observation, whatever it
claims to be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from checklistbot.encode import Untrusted, redact
from checklistbot.model import FACT_NAMES, Deployment, Fact, Facts, InputError, Source, UsageError

MAX_BYTES: Final = 1 << 20
MAX_DEPTH: Final = 32
_IDENTITY: Final = frozenset(("role", "engine", "engine_version", "model", "served_model_name"))


def read_facts_file(path: str) -> Facts:
    """The facts of a file. Raises InputError where it cannot be read or is larger than 1 MiB, UsageError where it
    is not facts/1."""
    try:
        with Path(path).open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise InputError(f"--observed {path}: cannot be read ({error.strerror or 'unreadable'})") from error
    if len(data) > MAX_BYTES:
        raise InputError(f"--observed {path}: larger than 1 MiB, not read")
    try:
        found = json.loads(data, object_pairs_hook=_no_duplicates)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"--observed {path}: not JSON; write it with checklistbot facts --format json") from error
    if not isinstance(found, dict) or found.get("schema") != "facts/1" or _depth(found) > MAX_DEPTH:
        raise UsageError(
            f'--observed {path}: not facts/1 (key "schema"); write it with checklistbot facts --format json'
        )
    try:
        facts = Facts.from_json(found)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise UsageError(f"--observed {path}: not facts/1; write it with checklistbot facts --format json") from error
    return Facts(tuple(_observed(entry) for entry in facts.deployments), {}, facts.skipped, taken=facts.taken)


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) != len(pairs):
        raise ValueError("a key stands twice")
    return table


def _depth(value: Any, so_far: int = 0) -> int:
    if so_far > MAX_DEPTH:
        return so_far
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return max((_depth(entry, so_far + 1) for entry in inner), default=so_far)


def _observed(deployment: Deployment) -> Deployment:
    """Who the server is, and only what the file says was observed: its declarations and predictions are not this
    run's."""
    changes = {}
    for name in FACT_NAMES:
        fact = deployment.fact(name)
        if not fact.known:
            continue
        value = Untrusted(redact(fact.value)) if isinstance(fact.value, str) else fact.value
        if fact.kind == "observed":
            changes[name] = fact.replace(value=value, others=())
        elif name in _IDENTITY and fact.kind == "declared":
            changes[name] = Fact(value, Source("observed", fact.source.path if fact.source else None))
        else:
            changes[name] = _default(name)
    held = deployment.kv_pool_tokens.kind == "observed"
    return deployment.replace(
        **changes,
        flags=(),
        env=(),
        fits_full_context=deployment.fits_full_context if held else None,
        full_requests=deployment.full_requests if held else None,
    )


def _default(name: str) -> Fact:
    fact: Fact = getattr(Deployment("", "", "", "", None, None), name)
    return fact
