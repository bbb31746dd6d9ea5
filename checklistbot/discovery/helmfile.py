"""Helmfile: the releases of each environment, with their values, from charts of the tree or of public charts whose values are known."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable

from checklistbot.discovery.base import Format
from checklistbot.discovery.tree import Tree
from checklistbot.engines.base import Launch

_NAMES = ("helmfile.yaml", "helmfile.yml", "helmfile.yaml.gotmpl")


def claims(path: str, text: str) -> bool:
    """Helmfiles by their name or folder."""
    return (
        posixpath.basename(path) in _NAMES
        or re.search(r"(?:^|/)helmfile\.d/[^/]+\.ya?ml(?:\.gotmpl)?$", path) is not None
    )


def consumes(tree: Tree, path: str, text: str) -> Iterable[str]:
    """The helmfile and the values files that it names."""
    from checklistbot.discovery.interpret import gitops

    return [path, *gitops.helmfile_files(tree, path)]


def launches(tree: Tree, path: str, text: str) -> Iterable[Launch]:
    """What the releases deploy."""
    from checklistbot.discovery.interpret import gitops

    return gitops.helmfile(tree, path, text)


FORMAT = Format("helmfile", claims, launches, anchors=_NAMES, consumes=consumes)
