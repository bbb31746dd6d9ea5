"""Helm releases that other files ask for (Terraform, Argo CD, Flux, Helmfile): a chart of the tree with values, or known values alone."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Sequence

from checklistbot.discovery.interpret import charts, data_files, embed
from checklistbot.discovery.interpret.gofunctions import overlay
from checklistbot.discovery.interpret.pyvalues import Const, Map, Value
from checklistbot.discovery.tree import Tree, Unreadable
from checklistbot.engines.base import Launch, Word
from checklistbot.model import Skipped


def engine_words() -> list[bytes]:
    from checklistbot.engines import registry

    return [word for engine in registry().values() for word in engine.words]


def first_with_engine_word(tree: Tree, paths: Iterable[str]) -> str | None:
    """The first of the files, sorted, that holds an engine word: it speaks for them all."""
    words = engine_words()
    for path in sorted(set(paths)):
        try:
            body = tree.read(path).encode("utf-8", "replace")
        except Unreadable:
            continue
        if any(word in body for word in words):
            return path
    return None


def referenced(tree: Tree) -> frozenset[str]:
    """Folders (charts and kustomizations) that a release object of the tree deploys."""
    from checklistbot.discovery.interpret import gitops

    return gitops.referenced(tree)


def with_sets(values: Value, pairs: Sequence[tuple[str, Word]]) -> Value:
    """Values with ``--set`` pairs over them (``a.b.c=value``)."""
    for name, word in pairs:
        at = (word.path, word.line)
        text = word.text if word.text is not None else ""
        layer: Value = data_files.load(text, at, "yaml") or Const(at, text)
        for part in reversed(name.replace("\\.", "\0").split(".")):
            layer = Map(at, {part.replace("\0", "."): layer})
        values = overlay(values, layer)
    return values


def release(
    tree: Tree,
    path: str,
    name: str,
    chart: str | None,
    layers: Sequence[Value],
    *,
    environment: str = "default",
    remote: str = "",
) -> list[Launch]:
    """One release: rendered where its chart is in the tree, by the known values of public charts, else skipped with a hint."""
    local = _local_chart(tree, path, chart) if chart else None
    if local is not None:
        return charts.launches(tree, charts.load(tree, local), layers, environment=environment, release=name)
    from checklistbot.discovery.interpret import knownvalues

    values: Value = Map((path, 1), {})
    for layer in layers:
        values = overlay(values, layer)
    found = knownvalues.launches(tree, values, environment=environment)
    if not found and _speaks_of_engine(values):
        where = f"{remote} " if remote else ""
        tree.skipped.append(
            Skipped(
                path,
                f"chart {chart or '?'} is not in the repository; pipe `helm template {name} {where}{chart or ''} -f … | checklistbot check -`",
            )
        )
    return found


def _speaks_of_engine(values: Value) -> bool:
    from checklistbot.discovery.interpret.hcleval import plain

    body = repr(plain(values)).encode("utf-8", "replace")
    return any(word in body for word in engine_words())


def _local_chart(tree: Tree, path: str, chart: str) -> str | None:
    for base in (posixpath.dirname(path), ""):
        root = posixpath.normpath(posixpath.join(base, chart))
        root = "" if root == "." else root
        if not root.startswith(("..", "/")) and charts.is_chart(tree, root):
            return root
    return None


def terraform_release(
    tree: Tree, path: str, name: str, chart: str | None, values: Sequence[embed.Text], sets: Sequence[tuple[str, Word]]
) -> list[Launch]:
    """``helm_release`` of Terraform: values in the order given, then the ``set`` blocks."""
    layers: list[Value] = []
    for text in values:
        loaded = text.structure()
        if loaded is not None:
            layers.append(loaded)
    merged: Value = Map((path, 1), {})
    for layer in layers:
        merged = overlay(merged, layer)
    return release(tree, path, name, chart, [with_sets(merged, sets)])
