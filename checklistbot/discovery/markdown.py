"""Fenced shell commands in Markdown. Prose, output and other languages start nothing."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator

from checklistbot.discovery.base import Format
from checklistbot.discovery.launches import engine_words, names_model, run_shell
from checklistbot.discovery.limits import gave_up
from checklistbot.discovery.tree import Tree
from checklistbot.engines.base import Launch, Word
from checklistbot.lazy import pattern

_SHELLS = frozenset(
    {"", "bash", "sh", "shell", "zsh", "console", "shell-session", "shellscript", "terminal", "commandline"}
)
#: A page that starts more servers is a list of commands, not of deployments.
_MAX_FOUND = 200
_FENCE = pattern(r"^(?P<indent>[ \t>]*)(?P<bar>`{3,}|~{3,})[ \t]*\{?\.?(?P<language>[\w+-]*)")


def claims(path: str, text: str) -> bool:
    return path.lower().endswith((".md", ".markdown", ".mdx", ".qmd", ".rmd"))


def launches(tree: Tree, path: str, text: str) -> Iterator[Launch]:
    name = posixpath.basename(path).rpartition(".")[0]
    words, found = engine_words(), 0
    for first, body, prompted in _fences(text):
        # A fence is a script of its own: one that names no engine starts none, and is not worth a parse.
        if not any(words.search(line) for line in body):
            continue
        lines = _commands(body) if prompted else body
        script = Word("\n".join(lines), path, first)
        for launch in run_shell(Launch((), path, first, name, format="markdown"), script, tree):
            if names_model(launch):
                found += 1
                yield launch
            if found >= _MAX_FOUND:
                gave_up()
                return


def _fences(text: str) -> Iterator[tuple[int, list[str], bool]]:
    """(first line, lines, whether prompts stand before the commands) of each shell fence."""
    lines = text.split("\n")
    at = 0
    while at < len(lines):
        opening = _FENCE.match(lines[at])
        at += 1
        if opening is None:
            continue
        bar, indent = opening["bar"], len(opening["indent"])
        start = at
        while at < len(lines) and not re.match(rf"[ \t>]*{re.escape(bar)}{re.escape(bar[0])}*[ \t]*$", lines[at]):
            at += 1
        body = [line[indent:] if not line[:indent].strip(" \t>") else line for line in lines[start:at]]
        at += 1
        if opening["language"].lower() in _SHELLS:
            prompted = any(re.match(r"\s*[$#>] \S", line) for line in body) and opening["language"].lower() not in (
                "bash",
                "sh",
                "zsh",
            )
            yield start + 1, body, prompted or any(re.match(r"\s*\$ \S", line) for line in body)


def _commands(lines: list[str]) -> list[str]:
    """The commands behind the prompts, with what continues them; output becomes empty lines."""
    kept: list[str] = []
    continued = False
    for line in lines:
        match = re.match(r"\s*(?:\([\w.-]+\)\s*)?(?:[\w.@:~/-]*[$#]|\$|>) (.*)$", line)
        if match is not None:
            kept.append(match[1])
            continued = match[1].rstrip().endswith("\\")
        elif continued:
            kept.append(line)
            continued = line.rstrip().endswith("\\")
        else:
            kept.append("")
    return kept


FORMAT = Format("markdown", claims, launches)
