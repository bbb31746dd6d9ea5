"""One file an engine: flags → facts, log lines → facts, metrics → facts, defaults, limits. A registry that is read from the folder."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from checklistbot.engines.base import Engine


@cache
def names() -> tuple[str, ...]:
    """Module names of all engines, sorted."""
    return tuple(
        sorted(m.name for m in pkgutil.iter_modules(__path__) if m.name != "base" and not m.name.startswith("_"))
    )


@cache
def by_module(module: str) -> Engine:
    """The engine that the module ``engines/MODULE.py`` defines as ``ENGINE``."""
    engine: Engine = importlib.import_module(f"{__name__}.{module}").ENGINE
    return engine


@cache
def registry() -> dict[str, Engine]:
    """All engines by their public name (sglang, vllm, tensorrt-llm, …)."""
    return {engine.name: engine for engine in map(by_module, names())}


def get(name: str | None) -> Engine | None:
    """The engine of that public name, None if it is not known."""
    return registry().get(name) if name else None
