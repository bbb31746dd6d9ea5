"""Argo CD Application and ApplicationSet: what they deploy from this tree, each the environment of its name.

Values follow Argo's precedence (valueFiles in order, ``$ref`` files, values, valuesObject, parameters). A chart that is not in the tree is listed as
skipped with the command that pipes it in, unless its values say by themselves what they run.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable

from checklistbot.discovery.base import Format
from checklistbot.discovery.tree import Tree
from checklistbot.engines.base import Launch
from checklistbot.lazy import pattern

_KIND = pattern(r"^\s*kind\s*:\s*[\"']?Application(?:Set)?\b", re.MULTILINE)


def claims(path: str, text: str) -> bool:
    """YAML with an Argo CD object."""
    return path.endswith((".yaml", ".yml")) and "argoproj.io/" in text and _KIND.search(text) is not None


def consumes(tree: Tree, path: str, text: str) -> Iterable[str]:
    """The object's own file, and what the folders that it deploys hold."""
    from checklistbot.discovery.interpret import gitops

    return [path, *gitops.files_below(tree, gitops.application_paths(tree, path, text))]


def launches(tree: Tree, path: str, text: str) -> Iterable[Launch]:
    """What the file's objects deploy; an object that a kustomization builds is reported there."""
    from checklistbot.discovery.interpret import gitops

    if posixpath.basename(path).startswith("kustomization"):
        return []
    return gitops.deploy(tree, gitops.read_documents(path, text), None)


FORMAT = Format("argocd", claims, launches, words=(b"argoproj.io/",), consumes=consumes)
