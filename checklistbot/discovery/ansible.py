"""Ansible plays and roles: containers, services and scripts that a task starts, with the variables of role, play and group.

Source: Ansible's module index (``community.docker.docker_container``, ``containers.podman.podman_container``, ``shell``, ``command``).
Templates (``*.j2``) are ``jinja.py``'s.
"""

from __future__ import annotations

import dataclasses
import posixpath
import re
from collections.abc import Iterable, Iterator

from checklistbot.discovery import yaml_docs
from checklistbot.discovery.base import Format
from checklistbot.discovery.tree import Tree
from checklistbot.discovery.yaml_docs import Map, Node, Seq, dig, items, mapping, maps, settled, text, word, words
from checklistbot.engines.base import Launch, Word
from checklistbot.lazy import pattern

_TASK = pattern(
    r"^\s+(?:[\w.]+\.)?(?:docker_container|podman_container|shell|command|raw|script|copy)\s*:", re.MULTILINE
)
_LIST = pattern(r"^- ", re.MULTILINE)
_CONTAINERS = pattern(r"(?:^|\.)(?:docker_container|podman_container)$")
_COPY = pattern(r"(?:^|\.)copy$")
_SHELLS = pattern(r"(?:^|\.)(?:shell|command|raw)$")
_SECTIONS = ("tasks", "pre_tasks", "post_tasks", "handlers", "block", "rescue", "always")


def claims(path: str, body: str) -> bool:
    """A YAML list of plays or tasks that runs containers or commands."""
    return (
        path.endswith((".yml", ".yaml"))
        and "apiVersion" not in body
        and _LIST.search(body) is not None
        and _TASK.search(body) is not None
    )


def launches(tree: Tree, path: str, body: str) -> Iterable[Launch]:
    """What the tasks start, in each environment of the inventory."""
    from checklistbot.discovery.interpret import ansible

    # A Jinja expression may stand where YAML sees a quoted string: the file is rendered first, as the values would be.
    for environment, virtual, lines in ansible.rendered(tree, path, body):
        for root in yaml_docs.documents(virtual, "\n".join(line.text for line in lines)):
            for launch in _tasks(tree, root, _play_of(path)):
                yield dataclasses.replace(ansible.moved(launch, virtual, lines), environment=environment)


def _play_of(path: str) -> str:
    match = re.search(r"(?:^|/)([^/]+)/(?:tasks|handlers)/[^/]+$", path)
    return match[1] if match else path.rpartition("/")[2].partition(".")[0]


def _tasks(tree: Tree, node: Node, name: str) -> Iterator[Launch]:
    for entry in items(node):
        if not isinstance(entry, Map):
            continue
        title = text(entry.get("hosts")) or name
        for section in _SECTIONS:
            if isinstance(entry.get(section), Seq):
                yield from _tasks(tree, entry[section], title)
        yield from _task(tree, entry, title)


def _task(tree: Tree, task: Map, name: str) -> Iterator[Launch]:
    if (text(task.get("when")) or "").strip().lower() in ("false", "no"):
        return
    from checklistbot.discovery.launches import run_shell

    for key, module in task.items():
        if _CONTAINERS.search(key) and isinstance(module, Map):
            yield from _container(tree, task, module, name)
        elif _COPY.search(key) and isinstance(module, Map):
            yield from _written(tree, module)
        elif _SHELLS.search(key):
            script = word(module) or word(dig(module, "cmd"))
            env = {k: settled(v) for k, v in mapping(task.get("environment")).items() if isinstance(v, Word)}
            if script is not None:
                template = Launch((), script.path, script.line, name, env=env, format="ansible")
                yield from run_shell(template, script, tree)


def _written(tree: Tree, module: Map) -> Iterator[Launch]:
    """``copy: {content, dest}``: the file that it writes (a unit, a compose file, a script)."""
    from checklistbot.discovery.base import launches_in
    from checklistbot.discovery.interpret.marks import relocate

    content, target = word(module.get("content")), text(module.get("dest"))
    if content is None or content.text is None or target is None:
        return
    inner = posixpath.join(posixpath.dirname(module.path), posixpath.basename(target))
    places = [(content.path, content.line + n) for n in range(content.text.count("\n") + 1)]
    yield from (relocate(launch, inner, places) for launch in launches_in(tree, inner, content.text))


def _container(tree: Tree, task: Map, module: Map, name: str) -> Iterator[Launch]:
    """``docker_container``: image, command (a string or a list), environment, devices."""
    from checklistbot.discovery.launches import expand, names_gpus
    from checklistbot.engines._shell_words import split_words

    if text(module.get("state")) in ("absent", "stopped"):
        return
    image = word(module.get("image"))
    argv: list[Word] = []
    for key in ("entrypoint", "command"):
        given = module.get(key)
        if isinstance(given, Seq):
            argv += words(given)
        elif isinstance(given, Word) and given.text:
            argv += split_words(given)
    template = Launch(
        (),
        module.path,
        module.lines.get("image", module.line),
        text(module.get("name")) or name,
        qualifier=text(task.get("name")),
        env={k: settled(v) for k, v in mapping(module.get("env")).items() if isinstance(v, Word)},
        image=settled(image) if image is not None else None,
        gpu_count=_gpus(module),
        format="ansible",
    )
    yield from expand(names_gpus(template), argv, tree)


def _gpus(module: Map) -> Word | None:
    for device in maps(module.get("device_requests")):
        count, ids = word(device.get("count")), words(device.get("device_ids"))
        if ids:
            return Word(str(len(ids)), ids[0].path, ids[0].line, "")
        if count is not None and (count.text or "").isdigit():
            return count
    return None


FORMAT = Format("ansible", claims, launches)
