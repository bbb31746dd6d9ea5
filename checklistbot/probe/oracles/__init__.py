"""The oracles, one a file. The registry is this folder: a module that defines ``judge`` (one reply) or ``judge_run`` (all replies).

``judge(case, run)`` returns an ``Opinion`` or None where it has nothing to say. A ``fail`` stands by itself; of suspicions two
independent ones on one reply make a failure, or the same one on three replies.
"""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from types import ModuleType


@cache
def all_oracles() -> dict[str, ModuleType]:
    """Oracles by name (the module's name with dashes), in the order of their names."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__) if not module.name.startswith("_"))
    return {name.replace("_", "-"): importlib.import_module(f"{__name__}.{name}") for name in names}
