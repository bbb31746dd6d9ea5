"""systemd units, Podman quadlets and supervisord programs; a script of the tree that one runs is read with its variables."""

from __future__ import annotations

import dataclasses
import posixpath
import re
from collections.abc import Iterator, Mapping

from checklistbot.discovery import envfile
from checklistbot.discovery.base import Format
from checklistbot.discovery.launches import at_script, expand
from checklistbot.discovery.tree import Tree, Unreadable
from checklistbot.engines.base import Launch, Word, mark, settled
from checklistbot.lazy import pattern as lazy_pattern

_UNIT = lazy_pattern(r"\.(?:service|container)$")
_SUPERVISOR = lazy_pattern(r"^\[program:[^\]]+\]", re.MULTILINE)


def claims(path: str, text: str) -> bool:
    if _UNIT.search(path):
        return "[Service]" in text or "[Container]" in text
    return path.endswith((".conf", ".ini", ".service.in")) and _SUPERVISOR.search(text) is not None


def launches(tree: Tree, path: str, text: str) -> list[Launch]:
    if _UNIT.search(path):
        return [launch for instance in _instances(tree, path, text) for launch in _unit(tree, path, text, instance)]
    return [
        launch
        for program, entries in _sections(path, text)
        if program.startswith("program:")
        for launch in _program(tree, path, program[8:], entries)
    ]


# --- the common form -----------------------------------------------------------------------------------------------------


def _sections(path: str, text: str) -> Iterator[tuple[str, list[tuple[str, Word]]]]:
    """(section, its settings in order); a backslash at the end of a line, or an indented line, continues the value."""
    name: str | None = None
    entries: list[tuple[str, Word]] = []
    lines = text.split("\n")
    at = 0
    while at < len(lines):
        line = lines[at]
        at += 1
        header = re.match(r"\s*\[([^\]]+)\]\s*$", line)
        if header is not None:
            if name is not None:
                yield name, entries
            name, entries = header[1], []
            continue
        match = re.match(r"\s*([A-Za-z][\w-]*)\s*=\s*(.*)$", line)
        if match is None or line.lstrip().startswith(("#", ";")):
            continue
        first, value = at, match[2]
        while at < len(lines) and (value.rstrip().endswith("\\") or re.match(r"[ \t]+\S", lines[at])):
            continued = lines[at]
            at += 1
            if not continued.lstrip().startswith(("#", ";")):
                value += "\n" + continued
        entries.append((match[1], Word(value, path, first, value)))
    if name is not None:
        yield name, entries


# --- systemd -------------------------------------------------------------------------------------------------------------


def _instances(tree: Tree, path: str, text: str) -> list[str | None]:
    """For ``name@.service`` the instances that have an environment file in the tree, else the unit itself."""
    if "@." not in posixpath.basename(path):
        return [None]
    found: set[str] = set()
    for match in re.finditer(r"^\s*EnvironmentFile=-?(\S*%[iI]\S*)", text, re.MULTILINE):
        tail = "/".join(match[1].split("/")[-2:])
        pattern = re.compile("(?:^|/)" + re.sub(r"%[iI]", "(.+)", re.escape(tail).replace("%i", "%i")) + "$")
        found.update(m[1] for candidate in tree.paths() if (m := pattern.search(candidate)))
    instances: list[str | None] = [*sorted(found)]
    return instances or [None]


def _unit(tree: Tree, path: str, text: str, instance: str | None) -> Iterator[Launch]:
    sections = dict(_sections(path, _specified(text, path, instance)))
    container = sections.get("Container")
    entries = sections.get("Service", []) + (container or [])
    env = _unit_environment(tree, entries)
    name = posixpath.basename(path).rpartition(".")[0].rstrip("@")
    template = Launch((), path, 1, name, qualifier=instance or name, env=env, format="systemd")
    if container is not None:
        image = next((value for key, value in container if key == "Image"), None)
        template = dataclasses.replace(template, image=image)
        yield from expand(template, [w for key, value in container if key == "Exec" for w in _words(value, env)], tree)
        return
    for key, value in entries:
        if key == "ExecStart" and (value.text or "").strip():
            command = dataclasses.replace(value, text=re.sub(r"^[-@:+!]+", lambda m: " " * len(m[0]), value.text or ""))
            words = _words(command, env)
            scripts = _scripts(tree, words, path)
            here = dataclasses.replace(template, line=value.line, mounted=scripts)
            yield from map(at_script, expand(here, words, tree))


def _scripts(tree: Tree, words: list[Word], beside: str) -> dict[str, tuple[str, str, int]]:
    """The shell script that a command runs by its path on the machine, where the tree has exactly one that ends alike."""
    found: dict[str, tuple[str, str, int]] = {}
    for name in [w.text for w in words[:3] if w.text and w.text.endswith(".sh")]:
        path = _of_machine(tree, name, beside)
        if path is not None:
            try:
                found[name] = (tree.read(path), path, 1)
            except Unreadable:
                continue
    return found


def _specified(text: str, path: str, instance: str | None) -> str:
    name = posixpath.basename(path).rpartition(".")[0]
    values = {"%i": instance, "%I": instance, "%n": name, "%p": name.partition("@")[0], "%%": "%"}
    return re.sub(r"%[iInp%]", lambda m: values[m[0]] if values[m[0]] is not None else mark(m[0]), text)  # type: ignore[arg-type,return-value]


def _unit_environment(tree: Tree, entries: list[tuple[str, Word]]) -> dict[str, Word]:
    """``Environment=`` in order; files override it, wherever they stand."""
    from checklistbot.engines._shell_words import split_words

    env: dict[str, Word] = {}
    for key, value in entries:
        if key == "Environment":
            for word in split_words(value):
                name, equals, rest = (word.text or "").partition("=")
                if equals:
                    env[name] = dataclasses.replace(word, text=rest, raw=rest)
    for key, value in entries:
        if key == "EnvironmentFile":
            env.update(_environment_file(tree, (value.text or "").strip().lstrip("-"), value.path))
    return env


def _environment_file(tree: Tree, name: str, beside: str) -> Mapping[str, Word]:
    """The variables of a file by its absolute path on the machine."""
    path = _of_machine(tree, name, beside)
    if path is None:
        return {}
    try:
        return envfile.parse(tree.read(path), path)
    except Unreadable:
        return {}


def _of_machine(tree: Tree, name: str, beside: str) -> str | None:
    """A file by its absolute path on the machine: the one of the tree whose path ends alike."""
    parts = [part for part in name.split("/") if part]
    paths = list(tree.paths())
    for count in range(len(parts), 0, -1):
        tail = "/".join(parts[-count:])
        found = [path for path in paths if path == tail or path.endswith("/" + tail)]
        if len(found) > 1 and count == 1:
            found = [path for path in found if posixpath.dirname(path) == posixpath.dirname(beside)]
        if len(found) == 1:
            return found[0]
    return None


_BRACED = lazy_pattern(r"\$\{(\w+)\}")


def _words(command: Word, env: Mapping[str, Word]) -> list[Word]:
    """``${NAME}`` stays one word, ``$NAME`` alone is split, ``$$`` is a dollar; no shell takes part."""
    from checklistbot.engines._shell_words import split_words

    words: list[Word] = []
    for word in split_words(command):
        text = word.text if word.text is not None else word.raw
        alone = re.fullmatch(r"\$(\w+)", text)
        if alone is not None:
            value = env.get(alone[1])
            words += (
                split_words(value)
                if value is not None and value.text is not None
                else [settled(Word(mark(text), word.path, word.line))]
            )
            continue
        whole = _BRACED.fullmatch(text)
        if whole is not None and whole[1] in env:
            words.append(env[whole[1]])
            continue

        def value_of(match: re.Match[str]) -> str:
            found = env.get(match[1])
            return found.text if found is not None and found.text is not None else mark(match[0])

        words.append(settled(dataclasses.replace(word, text=_BRACED.sub(value_of, text).replace("$$", "$"))))
    return words


# --- supervisord ---------------------------------------------------------------------------------------------------------


def _program(tree: Tree, path: str, name: str, entries: list[tuple[str, Word]]) -> list[Launch]:
    from checklistbot.engines._shell_words import split_words

    settings = dict(entries)
    command = settings.get("command")
    if command is None:
        return []
    env: dict[str, Word] = {}
    given = settings.get("environment")
    if given is not None:
        for match in re.finditer(r"([A-Za-z_]\w*)\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^,\n]*))", given.text or ""):
            value = next((group for group in match.groups()[1:] if group is not None), "")
            env[match[1]] = Word(value.strip(), path, given.line_at(match.start()), value)

    def environment_value(match: re.Match[str]) -> str:
        found = env.get(match[1])
        return found.text if found is not None and found.text is not None else mark(f"%(ENV_{match[1]})s")

    text = re.sub(r"%\(ENV_(\w+)\)s", environment_value, command.text or "")
    template = Launch((), path, command.line, name, env=env, replicas=settings.get("numprocs"), format="supervisord")
    words = split_words(dataclasses.replace(command, text=text))
    template = dataclasses.replace(template, mounted=_scripts(tree, words, path))
    return [at_script(launch) for launch in expand(template, words, tree)]


FORMAT = Format("units", claims, launches, anchors=("*.service",))
