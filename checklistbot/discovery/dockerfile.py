"""Dockerfiles: what the last stage starts. An image built without a model is no deployment.

A start script that the image copies in is followed, with the image's variables.
"""

from __future__ import annotations

import dataclasses
import json
import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import field

from checklistbot.discovery import envfile
from checklistbot.discovery.base import Format
from checklistbot.discovery.launches import at_script, expand, joined, names_model, run_shell
from checklistbot.discovery.tree import Tree, Unreadable
from checklistbot.engines.base import Launch, Word, settled
from checklistbot.lazy import pattern as lazy_pattern
from checklistbot.record import mutable_record

_NAME = lazy_pattern(
    r"(?:^|/)(?:[\w.-]*\.)?(?:Dockerfile|Containerfile)(?:[.\-_][\w.-]*)?$|\.dockerfile$", re.IGNORECASE
)


def claims(path: str, text: str) -> bool:
    return _NAME.search(path) is not None


@mutable_record
class Stage:
    """One FROM and what follows it; a stage starts as a copy of the one it is built from."""

    image: Word | None = None
    env: dict[str, Word] = field(default_factory=dict)
    entrypoint: list[Word] | Word | None = None
    command: list[Word] | Word | None = None
    folder: str = "/"
    copied: dict[str, str] = field(default_factory=dict)
    installed: list[Word] = field(default_factory=list)


def launches(tree: Tree, path: str, text: str) -> list[Launch]:
    stage = last_stage(path, text)
    if stage is None:
        return []
    name = posixpath.basename(posixpath.dirname(path)) or posixpath.basename(path)
    base = posixpath.basename(path)
    for pattern in (r"^(?:Dockerfile|Containerfile)[.\-_]", r"\.(?:Dockerfile|Containerfile|dockerfile)$"):
        if re.search(pattern, base):
            name = re.sub(pattern, "", base)
    template = Launch((), path, 1, name, env=stage.env, image=stage.image, format="dockerfile")
    return [at_script(launch) for launch in started(template, stage, tree) if names_model(launch)]


def started(template: Launch, stage: Stage, tree: Tree, file: str | None = None) -> list[Launch]:
    """What a container of the stage of ``file`` runs, with the scripts of the tree that were copied into it."""
    scripts = _scripts(tree, posixpath.dirname(file or template.path), stage)
    template = dataclasses.replace(template, mounted={**scripts, **template.mounted})
    entrypoint, command = stage.entrypoint, stage.command
    if isinstance(entrypoint, Word):
        return [_pinned(launch, stage) for launch in run_shell(template, entrypoint, tree)]
    if isinstance(command, Word):
        if not entrypoint:
            return [_pinned(launch, stage) for launch in run_shell(template, command, tree)]
        command = [Word("/bin/sh", command.path, command.line), Word("-c", command.path, command.line), command]
    argv = [*(entrypoint or []), *(command or [])]
    found = expand(template, argv, tree)
    return [_pinned(launch, stage) for launch in found]


def _pinned(launch: Launch, stage: Stage) -> Launch:
    """The engine's version where the image installs the package itself."""
    from checklistbot.discovery.interpret import pins

    if launch.version is not None or not stage.installed:
        return launch
    return dataclasses.replace(launch, version=pins.choose(pins.in_words(stage.installed), launch))


#: A context is the file's folder or one above it; deeper trees build from their own folder.
_CONTEXTS = 4


def _scripts(tree: Tree, folder: str, stage: Stage) -> dict[str, tuple[str, str, int]]:
    """The name by which a shell script is run → its text, for those that COPY or ADD brings from the tree."""
    named = [
        w.text or ""
        for part in (stage.entrypoint, stage.command)
        for w in ([part] if isinstance(part, Word) else part or [])
    ]
    found: dict[str, tuple[str, str, int]] = {}
    for name in {name for text in named for name in re.findall(r"[\w./-]+\.sh\b", text)}:
        full = posixpath.normpath(posixpath.join(stage.folder, name))
        if full == posixpath.normpath(posixpath.join("/", posixpath.basename(full))) or "/" not in name:
            full = next((t for t in stage.copied if posixpath.basename(t) == posixpath.basename(name)), full)
        for source in _sources(full, stage.copied):
            script = _read(tree, folder, source)
            if script is not None:
                found[name] = script
                break
    return found


def _sources(target: str, copied: Mapping[str, str]) -> Iterator[str]:
    """The source of a path in the container: copied as itself, or with the folder that it lies in."""
    if target in copied:
        yield copied[target]
    for where, source in copied.items():
        if target.startswith(where.rstrip("/") + "/"):
            inner = target[len(where.rstrip("/")) + 1 :]
            yield posixpath.join(source, inner)


def _read(tree: Tree, folder: str, source: str) -> tuple[str, str, int] | None:
    for _ in range(_CONTEXTS):
        path = posixpath.normpath(posixpath.join(folder, source.lstrip("/")))
        if tree.exists(path):
            try:
                return tree.read(path), path, 1
            except Unreadable:
                return None
        if not folder:
            break
        folder = posixpath.dirname(folder)
    return None


def last_stage(
    path: str, text: str, given: Mapping[str, Word] | None = None, target: str | None = None
) -> Stage | None:
    """The stage that is built: the last one, or ``target``; ``given`` are build arguments."""
    stages: dict[str, Stage] = {}
    arguments: dict[str, Word] = {}
    current: Stage | None = None
    for keyword, rest in _instructions(path, text):
        if keyword == "ARG":
            name, equals, value = (rest.text or "").partition("=")
            if given is not None and name.strip() in given:
                arguments[name.strip()] = given[name.strip()]
            elif equals:
                known = {**arguments, **(current.env if current else {})}
                arguments[name.strip()] = Word(
                    envfile.interpolated(value.strip().strip("\"'"), known), rest.path, rest.line, value
                )
        elif keyword == "FROM":
            current = _from(rest, arguments, stages)
        elif current is not None:
            _apply(current, keyword, rest, arguments)
    return stages.get(target.lower(), current) if target is not None else current


def _from(rest: Word, arguments: dict[str, Word], stages: dict[str, Stage]) -> Stage:
    words = [w for w in (rest.text or "").split() if not w.startswith("--")]
    reference = envfile.interpolated(words[0], arguments) if words else ""
    parent = stages.get(reference.lower())
    image = settled(Word(reference, rest.path, rest.line, words[0] if words else ""))
    stage = (
        Stage(
            parent.image,
            dict(parent.env),
            parent.entrypoint,
            parent.command,
            parent.folder,
            dict(parent.copied),
            list(parent.installed),
        )
        if parent is not None
        else Stage(image)
    )
    if len(words) >= 3 and words[1].lower() == "as":
        stages[words[2].lower()] = stage
    return stage


def _apply(stage: Stage, keyword: str, rest: Word, arguments: dict[str, Word]) -> None:
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
    elif keyword == "WORKDIR":
        stage.folder = posixpath.normpath(posixpath.join(stage.folder, (rest.text or "").strip().strip("\"'")))
    elif keyword == "RUN" and "install" in (rest.text or ""):
        known = {**arguments, **stage.env}
        stage.installed.append(dataclasses.replace(rest, text=envfile.interpolated(rest.text or "", known), starts=()))
    elif keyword in ("COPY", "ADD"):
        _copy(stage, rest.text or "")


def _copy(stage: Stage, text: str) -> None:
    """``COPY SRC… DST``; what another stage brings is no file of the tree."""
    parts = re.findall(r"[^\s\[\],\"]+", text)
    if any(part.startswith("--from") for part in parts):
        return
    parts = [part for part in parts if not part.startswith("--")]
    if len(parts) < 2:
        return
    target = posixpath.join(stage.folder, parts[-1])
    for source in parts[:-1]:
        single = parts[-1].endswith(("/", ".")) or len(parts) > 2
        where = (
            posixpath.join(target, posixpath.basename(source))
            if single and "." in posixpath.basename(source)[1:]
            else target
        )
        stage.copied[posixpath.normpath(where)] = posixpath.normpath(source)


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


FORMAT = Format(
    "dockerfile", claims, launches, anchors=("Dockerfile*", "*.Dockerfile", "*.dockerfile", "Containerfile*")
)
