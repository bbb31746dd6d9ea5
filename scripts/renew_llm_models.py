"""Renews checklistbot/knowledge/llm/models.json from the locked SDKs: `python scripts/renew_llm_models.py DATE`.

The list of models comes from the SDKs' own Literals; the default stays the one in the file as long as its SDK knows it.
DATE is the day of the lock (YYYY-MM-DD); without it the date in the file stays.
"""

from __future__ import annotations

import json
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any, get_args

PATH = Path(__file__).resolve().parent.parent / "checklistbot" / "knowledge" / "llm" / "models.json"


def literals(alias: Any) -> list[str]:
    """The strings of a Literal, also of one inside a Union."""
    found: list[str] = []
    for argument in get_args(alias):
        found += [argument] if isinstance(argument, str) else literals(argument)
    return found


def renew(date: str | None) -> dict[str, Any]:
    """The new content of the file.

    Raises:
        SystemExit: an SDK no longer knows the default model.
    """
    from anthropic.types.model import Model
    from openai.types.shared.chat_model import ChatModel

    data: dict[str, Any] = json.loads(PATH.read_text("utf-8"))
    data["locked"] = date or data["locked"]
    for name, alias in (("openai", ChatModel), ("anthropic", Model)):
        entry = data["providers"][name]
        entry["sdk"], entry["models"] = version(name), literals(alias)
        if entry["default"] not in entry["models"]:
            raise SystemExit(
                f"{PATH.name}: {name} {entry['sdk']} does not list {entry['default']}; choose a new default"
            )
    return data


if __name__ == "__main__":
    text = json.dumps(renew(sys.argv[1] if len(sys.argv) > 1 else None), indent=1) + "\n"
    PATH.write_text(text, "utf-8")
