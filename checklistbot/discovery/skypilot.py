"""SkyPilot tasks: ``run:`` scripts with their envs, accelerators and replicas."""

from __future__ import annotations

import re
from collections.abc import Iterator

from checklistbot.discovery.base import Format
from checklistbot.discovery.launches import run_shell
from checklistbot.discovery.pipelines import script_of
from checklistbot.discovery.tree import Tree
from checklistbot.discovery.yaml_docs import Map, Node, Seq, dig, items, mapping, settled, text, word
from checklistbot.engines.base import Launch, Word


def claims(path: str, body: str) -> bool:
    """YAML with a ``run:`` script and resources or envs beside it."""
    if not path.endswith((".yaml", ".yml")) or re.search(r"^run:", body, re.MULTILINE) is None:
        return False
    return re.search(r"^(?:resources|envs|num_nodes|setup|file_mounts|service):", body, re.MULTILINE) is not None


def launches(tree: Tree, path: str, body: str) -> Iterator[Launch]:
    from checklistbot.discovery import yaml_docs

    for root in yaml_docs.documents(path, body):
        if isinstance(root, Map) and isinstance(root.get("run"), Word):
            yield from _task(tree, path, root)


def _task(tree: Tree, path: str, root: Map) -> list[Launch]:
    env = {k: settled(v) for k in ("envs", "secrets") for k, v in mapping(root.get(k)).items() if isinstance(v, Word)}
    env = {name: value for name, value in env.items() if value.text != ""}
    count, gpu = accelerators(dig(root, "resources", "accelerators"))
    nodes = word(root.get("num_nodes"))
    place = (path, root.line)
    env.setdefault("SKYPILOT_NODE_RANK", Word("0", *place))
    env.setdefault("SKYPILOT_NUM_NODES", nodes or Word("1", *place))
    if count is not None:
        env.setdefault("SKYPILOT_NUM_GPUS_PER_NODE", count)
    image = word(dig(root, "resources", "image_id"))
    docker = image is not None and (image.text or "").startswith("docker:")
    template = Launch(
        (),
        path,
        root.line,
        text(root.get("name")) or path.rpartition("/")[2].partition(".")[0],
        env=env,
        image=Word((image.text or "").removeprefix("docker:"), image.path, image.line)
        if image is not None and docker
        else None,
        replicas=word(dig(root, "service", "replicas")) or word(dig(root, "service", "replica_policy", "min_replicas")),
        gpu=gpu,
        gpu_count=count,
        nodes=nodes,
        format="skypilot",
    )
    parts = [found for key in ("setup", "run") if isinstance(found := root.get(key), Word)]
    return run_shell(template, script_of(parts), tree)


def accelerators(node: Node) -> tuple[Word | None, Word | None]:
    """(number, name) of ``H200:8``, ``{H100: 8}``, or of a list of alternatives that agree on the number.

    ``{H100:8, A100:8}`` is YAML too: without the blank the whole word is a key that has no value.
    """
    if isinstance(node, Map):
        choices = [
            (Word(value.text, node.path, node.lines.get(name, node.line)), name)
            if isinstance(value, Word) and value.text
            else _choice(Word(name, node.path, node.lines.get(name, node.line)))
            for name, value in node.items()
            if value is None or isinstance(value, Word)
        ]
    elif isinstance(node, Seq):
        choices = [_choice(entry) for entry in items(node) if isinstance(entry, Word)]
    elif isinstance(node, Word):
        choices = [_choice(node)]
    else:
        return None, None
    counts = {count.text for count, _ in choices}
    if not choices:
        return None, None
    first, name = choices[0]
    gpu = Word(name, first.path, first.line) if len({n for _, n in choices}) == 1 else None
    return (first if len(counts) == 1 else None), gpu


def _choice(entry: Word) -> tuple[Word, str]:
    name, _, count = (entry.text or "").partition(":")
    return Word(count or "1", entry.path, entry.line), name


FORMAT = Format("skypilot", claims, launches)
