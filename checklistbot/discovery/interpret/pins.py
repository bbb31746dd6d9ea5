"""Engine versions that an installer pins: ``vllm==0.11.0``, ``sglang[all]==0.5.2``, ``pip install vllm==0.8.4``."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable
from typing import Final

from checklistbot.engines.base import Launch, Word
from checklistbot.lazy import pattern

_PIN = pattern(
    r"(?<![\w.-])(vllm|sglang|lmdeploy|tensorrt[-_]llm|llama[-_]cpp[-_]python)(?:\[[^\]\s]*\])?\s*===?\s*['\"]?v?(\d[\w.!+-]*)",
    re.IGNORECASE,
)
_ENGINES: Final = {
    "vllm": "vllm",
    "sglang": "sglang",
    "lmdeploy": "lmdeploy",
    "tensorrt": "tensorrt-llm",
    "llama": "llama.cpp",
}


def in_words(words: Iterable[Word]) -> dict[str, Word]:
    """Engine → its pinned version, the last pin of each."""
    found: dict[str, Word] = {}
    for entry in words:
        text = entry.text or ""
        if text.lstrip().startswith("#") and "///" not in text and '"' not in text:
            continue
        for match in _PIN.finditer(text[:20_000]):
            engine = _ENGINES[re.split(r"[-_]", match[1].lower())[0]]
            line = entry.line_at(match.start())
            found[engine] = dataclasses.replace(
                entry, text=match[2].rstrip(".,;'\""), line=line, raw=match[0], starts=()
            )
    return found


def choose(pinned: dict[str, Word], launch: Launch) -> Word | None:
    """The pin of the engine that the launch names, or the only one there is."""
    if launch.engine in pinned:
        return pinned[launch.engine]
    if launch.engine is not None:
        return None
    argv = " ".join((w.text or w.raw) for w in launch.argv[:6])
    for engine, name in (
        ("vllm", "vllm"),
        ("sglang", "sglang"),
        ("lmdeploy", "lmdeploy"),
        ("tensorrt-llm", "trtllm"),
        ("llama.cpp", "llama"),
    ):
        if name in argv and engine in pinned:
            return pinned[engine]
    known = any(name in argv for name in ("vllm", "sglang", "lmdeploy", "trtllm", "llama"))
    return next(iter(pinned.values())) if len(pinned) == 1 and not known else None
