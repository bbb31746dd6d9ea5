"""One file a provider. A registry that is read from the folder; no SDK is imported before a question is asked."""

from __future__ import annotations

import importlib
import json
import pkgutil
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from checklistbot import resources
from checklistbot.llm.base import Provider, foreign

if TYPE_CHECKING:
    from checklistbot.config import LlmSettings


@cache
def registry() -> dict[str, Provider]:
    """All providers by name, each from ``llm/NAME.py``'s ``PROVIDER``, sorted."""
    names = sorted(m.name for m in pkgutil.iter_modules(__path__) if m.name != "base" and not m.name.startswith("_"))
    return {name: importlib.import_module(f"{__name__}.{name}").PROVIDER for name in names}


@cache
def models() -> dict[str, Any]:
    """``knowledge/llm/models.json``: per provider the models its locked SDK names and the default one."""
    data: dict[str, Any] = json.loads(resources.text("knowledge", "llm", "models.json"))
    return data


def choose(wanted: str, settings: LlmSettings, environ: Mapping[str, str]) -> Provider | None:
    """The provider to ask, None for the built-in drafter.

    ``auto`` takes the one whose key is set, OpenAI before Anthropic; a configured base URL means the OpenAI wire format.
    """
    if wanted != "auto":
        return registry().get(wanted)
    openai, anthropic = registry()["openai"], registry()["anthropic"]
    base_url = settings.base_url or environ.get(openai.base_url_name or "")
    if base_url and foreign(base_url, openai) and (settings.base_url or environ.get("CHECKLISTBOT_LLM_KEY")):
        return openai
    return next((p for p in (openai, anthropic) if environ.get(p.key_name)), None)
