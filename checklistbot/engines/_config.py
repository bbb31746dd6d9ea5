"""Configuration files that a server's command names: read where discovery mounted them, and put before the flags.

Both engines let the command line win over the file, so the file's settings come first.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from checklistbot.engines.base import Launch, Word, settled


def merged(launch: Launch, arguments: Sequence[Word], engine: str, flag: str = "--config") -> list[Word]:
    """The arguments with the settings of the file behind ``flag`` as flags in front of them."""
    for at, word in enumerate(arguments):
        text = word.shown
        if text == flag and at + 1 < len(arguments):
            name: str | None = arguments[at + 1].shown
        elif text.startswith(flag + "="):
            name = text.partition("=")[2]
        else:
            continue
        if name is not None and name in launch.mounted:
            body, path, line = launch.mounted[name]
            return [*file_flags(body, path, line), *arguments]
    return list(arguments)


def file_flags(body: str, path: str, line: int) -> list[Word]:
    """The top-level keys of a YAML (or JSON) file as ``--key value`` words with their own lines."""
    settings = load(body, path, line)
    words: list[Word] = []
    for key, (value, at) in settings.items():
        name = Word("--" + key.lstrip("-").replace("_", "-"), path, at, key)
        values = _words(value, path, at)
        if values is not None:
            words += [name, *values]
    return words


def _words(value: Any, path: str, line: int) -> list[Word] | None:
    """The values behind a key: none for true, no flag at all (None) for false and null."""
    if value is None or value is False or value == []:
        return None
    if value is True:
        return []
    if isinstance(value, list) and all(isinstance(entry, (str, int, float)) for entry in value):
        return [settled(Word(str(entry), path, line, str(entry))) for entry in value]
    text = json.dumps(value) if isinstance(value, (dict, list)) else str(value)
    return [settled(Word(text, path, line, text))]


def load(body: str, path: str, line: int) -> dict[str, tuple[Any, int]]:
    """Top-level keys → (plain value, line); empty where the text is no mapping."""
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        node = yaml.compose(body, Loader=loader)
    except (yaml.YAMLError, ValueError, RecursionError):
        return {}
    if not isinstance(node, yaml.MappingNode):
        return {}
    found: dict[str, tuple[Any, int]] = {}
    for key, value in node.value:
        if isinstance(key.value, str):
            found[key.value] = (_plain(value, 0), line + key.start_mark.line)
    return found


def _plain(node: Any, depth: int) -> Any:
    """A node as plain data; spelling is kept for strings, numbers become numbers only where JSON needs them."""
    import yaml

    if depth > 20:
        return None
    if isinstance(node, yaml.MappingNode):
        return {str(k.value): _plain(v, depth + 1) for k, v in node.value[:1_000]}
    if isinstance(node, yaml.SequenceNode):
        return [_plain(entry, depth + 1) for entry in node.value[:1_000]]
    text = str(node.value)
    if node.tag == "tag:yaml.org,2002:null":
        return None
    if node.tag == "tag:yaml.org,2002:bool":
        return text.lower() in ("true", "yes", "on")
    return text
