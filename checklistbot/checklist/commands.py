"""How a person asks a running engine what it holds: ``knowledge/commands/ENGINE.yml``, one file an engine."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from checklistbot import resources
from checklistbot.checklist.words import load_yaml
from checklistbot.encode import clean
from checklistbot.engines.base import below, version_of
from checklistbot.model import Deployment

_VARIABLES = {"prefill": "PREFILL", "decode": "DECODE"}


@cache
def _table(engine: str) -> Mapping[str, Any]:
    known = {path.stem: path for path in resources.files("knowledge", ".yml") if path.parent.name == "commands"}
    path = known.get(engine, known["default"])
    data: Mapping[str, Any] = load_yaml(path.read_text(encoding="utf-8"))
    return data


def _of(deployment: Deployment) -> Mapping[str, Any]:
    return _table(deployment.engine.text() or "default")


def for_purpose(deployment: Deployment, purpose: str) -> tuple[str, ...]:
    """The commands for ``purpose`` (pool, version, limit, watch) that fit the deployment's version; of an unknown version the
    newest. URLs and logs are variables of the reader's shell."""
    variable = _VARIABLES.get(str(deployment.role.value), "SERVER")
    return tuple(
        entry["run"].replace("{url}", f"${variable}_URL").replace("{log}", f"${variable}_LOG")
        for entry in _of(deployment)[purpose]
        if _fits(entry, deployment)
    )


def _fits(entry: Mapping[str, Any], deployment: Deployment) -> bool:
    version = version_of(deployment)
    if version is None:
        return "until" not in entry
    if "until" in entry and not below(version, str(entry["until"])):
        return False
    return "from" not in entry or not below(version, str(entry["from"]))


def engine_name(deployment: Deployment) -> str:
    """How people write the engine's name; one that we do not know as the repository has it."""
    return str(_of(deployment)["name"] or clean(deployment.engine.text() or "?", limit=60))


def reads(deployment: Deployment) -> str:
    """Where a script reads this engine's facts from: "server-info", "metrics" or "log"; what fits the version comes first."""
    return next(str(entry["is"]) for entry in _of(deployment)["reads"] if _fits(entry, deployment))


def metrics(deployment: Deployment) -> tuple[str, ...]:
    """Metric names worth watching."""
    return tuple(_of(deployment)["metrics"])
