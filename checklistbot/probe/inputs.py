"""The files a probe is given: facts/1 or report/1 that bind its evidence, and the plan/1 of a generated script."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from checklistbot.model import Deployment, Facts, InputError, UsageError
from checklistbot.probe.case import Limits
from checklistbot.probe.evidence import Binding

_MOST: Final = 64 << 20
#: Kinds of a plan with their lists and numbers: name → (least, most).
_NUMBERS: Final[dict[str, dict[str, tuple[int, int]]]] = {
    "boundary-request": {},
    "content-needles": {"needles": (1, 64)},
    "canary-leak": {"fillers": (1, 256), "probes": (1, 64)},
    "abort-storm": {"requests": (1, 64), "seconds": (1, 120)},
}
_LISTS: Final[dict[str, dict[str, tuple[int, int]]]] = {
    "boundary-request": {"offsets": (-4_096, 4_096)},
    "content-needles": {"lengths": (1, 100_000_000)},
}
_AT: Final = ("first-rejected", "context", "pool")


def _json(text: str, name: str) -> dict[str, Any]:
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        line = getattr(error, "lineno", 1)
        raise UsageError(f"{name}:{line}: is no JSON; give what `checklistbot` wrote") from None
    if not isinstance(data, dict):
        raise UsageError(f"{name}:1: must be a JSON object")
    return data


def read_file(path: str) -> str:
    """The text of a named file; raises InputError where it cannot be read."""
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    if len(data) > _MOST:
        raise InputError(f"{path}: is larger than 64 MiB")
    return data.decode("utf-8", "replace")


# --- facts -------------------------------------------------------------------------------------------------------------


def bound_to(text: str, name: str, model: str | None) -> tuple[Limits, Binding]:
    """Limits and digests of the one group that the facts describe, or of the one that serves ``model``.

    Raises UsageError where there is none, or several and the model does not tell which.
    """
    data = _json(text, name)
    if data.get("schema") == "report/1":
        facts = data.get("facts")
        data = facts.get("head") if isinstance(facts, dict) else None  # type: ignore[assignment]
    if not isinstance(data, dict) or data.get("schema") != "facts/1":
        raise UsageError(f"{name}: must be facts/1 or report/1 (`checklistbot facts --format json`)")
    try:
        facts_read = Facts.from_json(data)
    except (KeyError, TypeError, AttributeError, ValueError):
        raise UsageError(f"{name}: is no facts/1 that this version can read") from None
    groups = facts_read.groups()
    if len(groups) > 1 and model is not None:
        groups = {key: members for key, members in groups.items() if any(_serves(member, model) for member in members)}
    if len(groups) != 1:
        found = "no deployment" if not groups else f"{len(groups)} groups"
        raise UsageError(
            f"{name}: describes {found}; name the served model with --model, or give facts of one deployment"
        )
    (environment, group), members = next(iter(groups.items()))
    digests = facts_read.digests.get(f"{environment}/{group}", {})
    return limits_of(members), Binding(group, environment, digests)


def _serves(member: Deployment, model: str) -> bool:
    return model in (member.served_model_name.value, member.model.value, member.group)


def limits_of(members: tuple[Deployment, ...]) -> Limits:
    """What the facts prove about limits; what is predicted or a mere bound is left out."""
    limits = Limits()
    for member in members:
        role = str(member.role.value or "unified")
        limits.engine = limits.engine or member.engine.text()
        limits.version = limits.version or member.engine_version.text()
        limits.page = limits.page or member.page_size.number()
        if member.context_length.proven and (context := member.context_length.number()):
            limits.context = min(context, limits.context or context)
        if member.kv_pool_tokens.proven and (pool := member.kv_pool_tokens.number()):
            limits.pools[role] = pool
            if member.first_rejected_length is not None:
                limits.rejected_by_role[role] = member.first_rejected_length
    if limits.rejected_by_role:
        limits.first_rejected = min(limits.rejected_by_role.values())
    return limits


# --- plan --------------------------------------------------------------------------------------------------------------


def plan_items(text: str, name: str) -> list[dict[str, Any]]:
    """The items of a plan/1; raises UsageError that names the item and the key that is wrong."""
    data = _json(text, name)
    items = data.get("items")
    if data.get("schema") != "plan/1" or not isinstance(items, list) or not 0 < len(items) <= 200:
        raise UsageError(f'{name}: must be {{"schema": "plan/1", "items": […]}} with 1 to 200 items')
    for number, item in enumerate(items, 1):
        where = f"{name}: item {number}"
        if (
            not isinstance(item, Mapping)
            or not isinstance(item.get("id"), str)
            or not isinstance(item.get("automation"), Mapping)
        ):
            raise UsageError(f"{where}: needs an id and an automation")
        _check(item["automation"], where)
    return [{"id": item["id"][:1_000], "automation": dict(item["automation"])} for item in items]


def _check(automation: Mapping[str, Any], where: str) -> None:
    kind = automation.get("kind")
    if kind not in _NUMBERS:
        raise UsageError(f"{where}: kind must be one of {', '.join(_NUMBERS)}")
    if kind == "boundary-request" and automation.get("at") not in _AT:
        raise UsageError(f"{where}: at must be one of {', '.join(_AT)}")
    for key, (least, most) in _NUMBERS[kind].items():
        if not _whole(automation.get(key), least, most):
            raise UsageError(f"{where}: {key} must be a whole number from {least} to {most}")
    for key, (least, most) in _LISTS.get(kind, {}).items():
        values = automation.get(key)
        if not isinstance(values, list) or not 0 < len(values) <= 16 or not all(_whole(v, least, most) for v in values):
            raise UsageError(f"{where}: {key} must be 1 to 16 whole numbers from {least} to {most}")


def _whole(value: Any, least: int, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most
