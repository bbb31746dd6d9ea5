"""Python inside a command: ``python -c CODE ARG…`` and ``python - <<EOF``, read as a launcher of its own."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from typing import Final

from checklistbot.discovery.tree import Tree
from checklistbot.engines.base import Launch, Word
from checklistbot.lazy import pattern

_PYTHON: Final = pattern(r"(?:.*[/\\])?(?:python|pypy)[\d.]*w?(?:\.exe)?")
#: What code calls to become the server itself, with the arguments of the command → the module that is the same server.
_SERVERS: Final = (
    (re.compile(r"vllm\.entrypoints\.(?:openai\.api_server|cli\.main)\b"), "vllm.entrypoints.openai.api_server"),
    (re.compile(r"sglang\.(?:launch_server|srt\.entrypoints\.http_server|srt\.server)\b"), "sglang.launch_server"),
)
_RUNS: Final = pattern(r"\b(?:run_server|launch_server|run_api_server|main|runpy\.run_module)\b")


def launches(template: Launch, words: Sequence[Word], stdin: Word | None, tree: Tree | None) -> list[Launch] | None:
    """The servers that inline Python starts; None where the words run none."""
    from checklistbot.discovery.launches import engine_words

    if not words or _PYTHON.fullmatch(words[0].shown) is None:
        return None
    at = next((i for i, word in enumerate(words[1:5], 1) if word.text in ("-c", "-")), len(words))
    if at >= len(words) and len(words) > 1:
        return None
    if len(words) == 1 or words[at].text == "-":
        code, rest = stdin, words[at + 1 :]
    else:
        code, rest = words[at + 1] if at + 1 < len(words) else None, words[at + 2 :]
    if code is None or not code.text or engine_words().search(code.text) is None:
        return None
    module = next((name for known, name in _SERVERS if known.search(code.text) and _RUNS.search(code.text)), None)
    if module is not None and rest:
        place = (code.path, code.line)
        return [dataclasses.replace(template, argv=(words[0], Word("-m", *place), Word(module, *place), *rest))]
    return _of_code(template, code, tree) if tree is not None else []


def _of_code(template: Launch, code: Word, tree: Tree) -> list[Launch]:
    from checklistbot.discovery.interpret.marks import relocate
    from checklistbot.discovery.interpret.pysinks import Finder

    text = code.text or ""
    offsets = [0, *(match.end() for match in re.finditer("\n", text))]
    places = [(code.path, code.line_at(offset)) for offset in offsets]
    virtual = f"{code.path}.inline.py"
    return [
        dataclasses.replace(
            relocate(launch, virtual, places),
            name=template.name,
            qualifier=template.qualifier,
            format=template.format,
            gpu=launch.gpu or template.gpu,
            gpu_count=launch.gpu_count or template.gpu_count,
            version=launch.version or template.version,
        )
        for launch in Finder(tree, virtual).run_text(text)
    ]
