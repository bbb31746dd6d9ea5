"""Text inside another file that is itself of some format: user data, cloud-init, manifests in strings, scripts."""

from __future__ import annotations

import bisect
import dataclasses
import posixpath
import re
from collections.abc import Sequence
from typing import Final

from checklistbot.discovery import yaml_docs
from checklistbot.discovery.interpret.marks import Place, relocate, word
from checklistbot.discovery.interpret.pyvalues import Map, Seq, Value
from checklistbot.discovery.tree import Tree
from checklistbot.engines.base import Launch, Word
from checklistbot.lazy import pattern

_KUBERNETES = pattern(r"^\s*apiVersion\s*:", re.MULTILINE)
_COMPOSE = pattern(r"^services\s*:\s*$", re.MULTILINE)
_MAX_DEPTH: Final = 4


@dataclasses.dataclass(frozen=True, slots=True)
class Text:
    """A string of a file with the line of each of its pieces."""

    text: str
    at: Place
    starts: tuple[tuple[int, int], ...] = ()
    origin: Value | None = None

    def places(self) -> list[Place]:
        """Where each line of the text stands in the file."""
        if not self.starts:
            return [(self.at[0], self.at[1] + n) for n in range(self.text.count("\n") + 1)]
        offsets = [0, *(m.end() for m in re.finditer("\n", self.text))]
        known = [s for s, _ in self.starts]
        return [(self.at[0], self.starts[max(bisect.bisect_right(known, o) - 1, 0)][1]) for o in offsets]

    def structure(self) -> Value | None:
        """The text as YAML, each value with its line of the file."""
        from checklistbot.discovery.interpret import data_files

        loaded = self.origin or data_files.load(self.text, self.at, "yaml")
        if loaded is not None and self.origin is None and self.starts:
            move(loaded, self.at[1], self.places())
        return loaded

    def word(self) -> Word:
        return dataclasses.replace(word(self.text, self.at), starts=self.starts)


def move(value: Value, first: int, places: Sequence[Place]) -> None:
    """Loaded data counts the lines of its text from ``first``; give them the file's."""
    line = value.at[1] - first
    if 0 <= line < len(places):
        value.at = places[line]
    for child in value.data.values() if isinstance(value, Map) else value.data if isinstance(value, Seq) else ():
        move(child, first, places)


def launches_of(tree: Tree, template: Launch, text: Text) -> list[Launch]:
    """What the text starts: cloud-init, Kubernetes, compose, else shell."""
    if text.text.lstrip().startswith("#cloud-config"):
        return _cloud_config(tree, template, text)
    if _KUBERNETES.search(text.text):
        return rendered(tree, _beside(template.path, "manifest.yaml"), text.text, text.places())
    if _COMPOSE.search(text.text):
        return rendered(tree, _beside(template.path, "compose.yaml"), text.text, text.places())
    from checklistbot.discovery.launches import run_shell

    return run_shell(template, text.word(), tree)


def _beside(path: str, name: str) -> str:
    return posixpath.join(posixpath.dirname(path), name)


def rendered(tree: Tree, virtual: str, text: str, places: Sequence[Place]) -> list[Launch]:
    """The launches of text that would stand in the file ``virtual``, moved to where each line comes from."""
    from checklistbot.discovery.base import launches_in

    return [relocate(launch, virtual, places) for launch in launches_in(tree, virtual, text)]


def _cloud_config(tree: Tree, template: Launch, text: Text) -> list[Launch]:
    """``runcmd``, ``bootcmd`` and ``write_files`` of cloud-init."""
    from checklistbot.discovery.launches import expand, run_shell

    places = text.places()
    virtual = _beside(template.path, "cloud-config.yaml")
    found: list[Launch] = []
    for root in yaml_docs.documents(virtual, text.text):
        for key in ("bootcmd", "runcmd"):
            for entry in yaml_docs.items(yaml_docs.dig(root, key)):
                if isinstance(entry, Word):
                    found += run_shell(template, entry, tree)
                elif isinstance(entry, yaml_docs.Seq):
                    found += expand(template, yaml_docs.words(entry), tree)
        for entry in yaml_docs.maps(yaml_docs.dig(root, "write_files")):
            found += _written(tree, template, entry)
    return [_with_surroundings(relocate(launch, virtual, places), template) for launch in found]


def _written(tree: Tree, template: Launch, entry: yaml_docs.Map) -> list[Launch]:
    content, name = entry.get("content"), yaml_docs.text(entry.get("path")) or "script"
    if not isinstance(content, Word) or content.text is None:
        return []
    from checklistbot.discovery.base import launches_in

    inner = _beside(template.path, posixpath.basename(name))
    lines = [(content.path, content.line + n) for n in range(content.text.count("\n") + 1)]
    return [relocate(launch, inner, lines) for launch in launches_in(tree, inner, content.text)]


def _with_surroundings(launch: Launch, template: Launch) -> Launch:
    """Replicas, GPU and qualifier of the machine that runs the script."""
    return dataclasses.replace(
        launch,
        replicas=launch.replicas or template.replicas,
        gpu=launch.gpu or template.gpu,
        gpu_count=launch.gpu_count or template.gpu_count,
        name=template.name,
        qualifier=launch.qualifier or template.qualifier,
    )
