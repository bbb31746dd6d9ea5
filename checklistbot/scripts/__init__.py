"""Checklist → CI script. One file a target; the registry is the folder.

A target reads ids, typed automations and facts, never prose: no title, reason or step of a checklist reaches a script,
whoever wrote it (operations-and-attacks 34).
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Callable
from functools import cache

from checklistbot.lazy import pattern
from checklistbot.model import Checklist, Facts, Script, UsageError
from checklistbot.record import record

_CONFIG_LINE = pattern(r"^# checklistbot-config: (\S{1,200}) ([0-9a-f]{64})$", re.MULTILINE)


@record
class Target:
    """One kind of script. ``render`` gives its files; the same input gives the same bytes."""

    name: str
    render: Callable[[Checklist, Facts], tuple[Script, ...]]


@cache
def _registry() -> dict[str, Target]:
    names = sorted(module.name for module in pkgutil.iter_modules(__path__) if not module.name.startswith("_"))
    found: list[Target] = [importlib.import_module(f"{__name__}.{name}").TARGET for name in names]
    return {target.name: target for target in found}


def targets() -> tuple[str, ...]:
    """The names of all targets, sorted."""
    return tuple(_registry())


def render(checklist: Checklist, facts: Facts, target: str) -> tuple[Script, ...]:
    """The checklist as scripts of ``target``; none where it has no item. Raises UsageError for a target nobody knows."""
    if target not in _registry():
        raise UsageError(f"there is no script target of that name; there are: {', '.join(targets())}")
    return _registry()[target].render(checklist, facts) if checklist.items else ()


def config_digests(text: str) -> dict[str, str]:
    """The ``config`` digests in a generated script's header, by "environment/group" as the header spells it."""
    return dict(_CONFIG_LINE.findall(text))
