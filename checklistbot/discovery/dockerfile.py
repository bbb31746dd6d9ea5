"""Dockerfiles: what the last stage starts. An image built without a model is no deployment."""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from checklistbot.discovery import envfile
from checklistbot.discovery.base import Format
from checklistbot.discovery.launches import expand, joined, names_model, run_shell
from checklistbot.discovery.tree import Tree
from checklistbot.engines.base import Launch, Word, settled
from checklistbot.lazy import pattern as lazy_pattern

_NAME = lazy_pattern(
    r"(?:^|/)(?:[\w.-]*\.)?(?:Dockerfile|Containerfile)(?:[.\-_][\w.-]*)?$|\.dockerfile$", re.IGNORECASE
)


def claims(path: str, text: str) -> bool:
    return _NAME.search(path) is not None


@dataclass
class _Stage:
    """One FROM and what follows it; a stage starts as a copy of the one it is built from."""

    image: Word | None = None
    env: dict[str, Word] = field(default_factory=dict)
    entrypoint: list[Word] | Word | None = None
    command: list[Word] | Word | None = None


def launches(tree: Tree, path: str, text: str) -> list[Launch]:
    stage = _last_stage(path, text)
    if stage is None:
        return []
    name = posixpath.basename(posixpath.dirname(path)) or posixpath.basename(path)
    base = posixpath.basename(path)
    for pattern in (r"^(?:Dockerfile|Containerfile)[.\-_]", r"\.(?:Dockerfile|Containerfile|dockerfile)$"):
        if re.search(pattern, base):
            name = re.sub(pattern, "", base)
    template = Launch((), path, 1, name, env=stage.env, image=stage.image, format="dockerfile")
    return [launch for launch in _started(template, stage, tree) if names_model(launch)]


def _started(template: Launch, stage: _Stage, tree: Tree) -> list[Launch]:
    entrypoint, command = stage.entrypoint, stage.command
    if isinstance(entrypoint, Word):
        return run_shell(template, entrypoint, tree)
    if isinstance(command, Word):
        if not entrypoint:
            return run_shell(template, command, tree)
        command = [Word("/bin/sh", command.path, command.line), Word("-c", command.path, command.line), command]
    return expand(template, [*(entrypoint or []), *(command or [])], tree)


def _last_stage(path: str, text: str) -> _Stage | None:
    stages: dict[str, _Stage] = {}
    arguments: dict[str, Word] = {}
    current: _Stage | None = None
    for keyword, rest in _instructions(path, text):
        if keyword == "ARG":
            name, equals, value = (rest.text or "").partition("=")
            if equals:
                known = {**arguments, **(current.env if current else {})}
                arguments[name.strip()] = Word(
                    envfile.interpolated(value.strip().strip("\"'"), known), rest.path, rest.line, value
                )
        elif keyword == "FROM":
            current = _from(rest, arguments, stages)
        elif current is not None:
            _apply(current, keyword, rest, arguments)
    return current


def _from(rest: Word, arguments: dict[str, Word], stages: dict[str, _Stage]) -> _Stage:
    words = [w for w in (rest.text or "").split() if not w.startswith("--")]
    reference = envfile.interpolated(words[0], arguments) if words else ""
    parent = stages.get(reference.lower())
    image = settled(Word(reference, rest.path, rest.line, words[0] if words else ""))
    stage = (
        _Stage(parent.image, dict(parent.env), parent.entrypoint, parent.command)
        if parent is not None
        else _Stage(image)
    )
    if len(words) >= 3 and words[1].lower() == "as":
        stages[words[2].lower()] = stage
    return stage


def _apply(stage: _Stage, keyword: str, rest: Word, arguments: dict[str, Word]) -> None:
    if keyword == "ENV":
        for name, value in _assignments(rest):
            stage.env[name] = settled(
                Word(
                    envfile.interpolated(value.text or "", {**arguments, **stage.env}),
                    value.path,
                    value.line,
                    value.text or "",
                )
            )
    elif keyword == "ENTRYPOINT":
        stage.entrypoint, stage.command = _form(rest), None
    elif keyword == "CMD":
        stage.command = _form(rest)


def _assignments(rest: Word) -> Iterator[tuple[str, Word]]:
    """``ENV A=1 B="x y"`` and the old ``ENV A value``."""
    from checklistbot.engines._shell_words import split_words

    words = split_words(rest)
    if words and "=" not in (words[0].text or ""):
        name, _, value = (rest.text or "").strip().partition(" ")
        yield name, Word(value.strip(), rest.path, rest.line)
        return
    for word in words:
        name, equals, value = (word.text or "").partition("=")
        if equals:
            yield name, Word(value, word.path, word.line)


def _form(rest: Word) -> list[Word] | Word:
    """The exec form as words with their lines, else the shell form."""
    text = rest.text or ""
    if not text.lstrip().startswith("["):
        return rest
    try:
        found = json.loads(re.sub(r"\\\n|\n", " ", text))
    except ValueError:
        return rest
    words: list[Word] = []
    at = 0
    for entry in found if isinstance(found, list) else []:
        quoted = text.find(json.dumps(entry, ensure_ascii=False), at)
        at = quoted if quoted >= 0 else at
        words.append(Word(str(entry), rest.path, rest.line_at(at), str(entry)))
    return words


def _instructions(path: str, text: str) -> Iterator[tuple[str, Word]]:
    """(keyword, the rest over its continued lines); comment lines inside are left out, heredocs passed over."""
    lines = text.split("\n")
    at = 0
    while at < len(lines):
        match = re.match(r"\s*([A-Za-z]+)\s+(.*)$", lines[at])
        if match is None or lines[at].lstrip().startswith("#"):
            at += 1
            continue
        parts = [Word(match[2], path, at + 1)]
        heredoc = re.search(r"<<-?\s*[\"']?(\w+)[\"']?\s*$", match[2])
        at += 1
        while at < len(lines) and (parts[-1].text or "").rstrip().endswith("\\"):
            if not lines[at].lstrip().startswith("#") and lines[at].strip():
                parts.append(Word(lines[at], path, at + 1))
            at += 1
        if heredoc is not None:
            while at < len(lines) and lines[at].strip() != heredoc[1]:
                at += 1
            at += 1
        yield match[1].upper(), _lines(parts)


def _lines(parts: list[Word]) -> Word:
    whole = joined(parts)
    text = "\n".join(part.text or "" for part in parts)
    return Word(text, whole.path, whole.line, text, None, whole.starts)


FORMAT = Format("dockerfile", claims, launches)
