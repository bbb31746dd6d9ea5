"""dstack services and tasks (``.dstack.yml``): image, commands, environment, GPUs, replicas."""

from __future__ import annotations

import dataclasses
import posixpath
import re
from collections.abc import Iterable, Iterator

from checklistbot.discovery import yaml_docs
from checklistbot.discovery.base import Format
from checklistbot.discovery.tree import Tree
from checklistbot.engines.base import Launch, Word
from checklistbot.lazy import pattern

_TYPE = pattern(r"^type\s*:\s*(?:service|task|dev-environment)\s*(?:#.*)?$", re.MULTILINE)


def claims(path: str, text: str) -> bool:
    """YAML that says ``type: service`` (or task) and has commands or an image."""
    if not path.endswith((".yml", ".yaml")) or _TYPE.search(text) is None:
        return False
    return (
        "dstack" in posixpath.basename(path)
        or re.search(r"^(?:commands|resources|image)\s*:", text, re.MULTILINE) is not None
    )


def launches(tree: Tree, path: str, text: str) -> Iterable[Launch]:
    """What the commands start, one shell script in order."""
    for root in yaml_docs.documents(path, text):
        if isinstance(root, yaml_docs.Map) and yaml_docs.text(root.get("type")) in (
            "service",
            "task",
            "dev-environment",
        ):
            yield from _service(tree, path, root)


def _service(tree: Tree, path: str, root: yaml_docs.Map) -> Iterator[Launch]:
    from checklistbot.discovery.launches import expand, run_shell

    gpu, count = gpus(yaml_docs.dig(root, "resources", "gpu"))
    image = yaml_docs.word(root.get("image"))
    title = yaml_docs.text(root.get("name")) or posixpath.basename(path).split(".")[0] or "dstack"
    template = Launch(
        (), path, root.line, title, env=environment(root.get("env")), image=image, gpu=gpu, gpu_count=count,
        replicas=_replicas(root.get("replicas")), nodes=yaml_docs.word(root.get("nodes")), format="dstack",
    )  # fmt: skip
    commands = [entry for entry in yaml_docs.items(root.get("commands")) if isinstance(entry, Word)]
    if commands:
        yield from run_shell(template, _script(commands), tree)
    elif image is not None:
        yield from expand(dataclasses.replace(template, line=image.line), [], tree)


def _script(commands: list[Word]) -> Word:
    """The commands as the lines of one script, each with its own line of the file."""
    text, starts = "", []
    for command in commands:
        body = (command.text if command.text is not None else command.raw).rstrip("\n")
        starts.append((len(text), command.line))
        offset = 0
        for number, piece in enumerate(body.split("\n")):
            if number:
                starts.append((len(text) + offset, command.line_at(offset)))
            offset += len(piece) + 1
        text += body + "\n"
    return Word(text, commands[0].path, commands[0].line, "", None, tuple(starts))


def environment(node: yaml_docs.Node) -> dict[str, Word]:
    """``env`` as a list of NAME=value or as a map."""
    found: dict[str, Word] = {}
    if isinstance(node, yaml_docs.Map):
        found.update({name: word for name, value in node.items() if (word := yaml_docs.word(value)) is not None})
    for entry in yaml_docs.items(node):
        if isinstance(entry, Word) and entry.text and "=" in entry.text:
            name, _, value = entry.text.partition("=")
            found[name] = dataclasses.replace(entry, text=value)
    return found


def gpus(node: yaml_docs.Node) -> tuple[Word | None, Word | None]:
    """``H100:8``, ``80GB``, ``A100:80GB:2``, ``{name: H100, count: 8}``: (name, count)."""
    if isinstance(node, yaml_docs.Map):
        name = node.get("name")
        first = yaml_docs.words(name)[:1]
        count = yaml_docs.word(node.get("count"))
        exact = count is not None and (count.text or "").isdigit()
        return (first[0] if first else None), count if exact else None
    word = yaml_docs.word(node)
    if word is None or not word.text:
        return None, None
    parts = [p for p in word.text.split(":") if p.lower() not in ("nvidia", "amd", "intel", "tt")]
    kind = next((p for p in parts if re.fullmatch(r"[A-Za-z][\w-]*", p)), None)
    number = next((p for p in parts if p.isdigit()), None)
    counted = number or ("1" if kind or any(p.endswith("GB") for p in parts) else None)
    return (
        dataclasses.replace(word, text=kind) if kind else None,
        dataclasses.replace(word, text=counted) if counted else None,
    )


def _replicas(node: yaml_docs.Node) -> Word | None:
    """A number, or the least of a range ``1..4``."""
    word = yaml_docs.word(node)
    if word is None or word.text is None:
        return word
    match = re.match(r"(\d+)", word.text)
    return dataclasses.replace(word, text=match[1]) if match else None


FORMAT = Format("dstack", claims, launches)
