"""Flux HelmRelease and Kustomization: what they deploy from this tree, each the environment of its name."""

from __future__ import annotations

import re
from collections.abc import Iterable

from checklistbot.discovery.base import Format
from checklistbot.discovery.tree import Tree
from checklistbot.engines.base import Launch
from checklistbot.lazy import pattern

_KIND = pattern(r"^\s*kind\s*:\s*[\"']?(?:HelmRelease|Kustomization)\b", re.MULTILINE)


def claims(path: str, text: str) -> bool:
    """YAML with a Flux object."""
    return path.endswith((".yaml", ".yml")) and "toolkit.fluxcd.io/" in text and _KIND.search(text) is not None


def consumes(tree: Tree, path: str, text: str) -> Iterable[str]:
    """The object's own file, and the folder that a Kustomization deploys."""
    from checklistbot.discovery.interpret import gitops

    return [path, *gitops.files_below(tree, gitops.flux_paths(tree, path, text))]


def launches(tree: Tree, path: str, text: str) -> Iterable[Launch]:
    """What the file's objects deploy, unless an overlay or another object builds the file."""
    from checklistbot.discovery.interpret import gitops

    if gitops.built_elsewhere(tree, path):
        return []
    return gitops.deploy(tree, gitops.read_documents(path, text), None)


FORMAT = Format("flux", claims, launches, words=(b"toolkit.fluxcd.io/",), consumes=consumes)
