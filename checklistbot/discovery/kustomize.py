"""Kustomizations: each one that no other uses is built from the tree (``interpret/kustomization.py``), never by ``kustomize``.

An overlay (it has bases, or stands in a folder for overlays) is the environment of its folder's name; a plain kustomization makes none. One that an Argo CD
or Flux object of the tree deploys is reported there.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable

from checklistbot.discovery.base import Format
from checklistbot.discovery.tree import Tree
from checklistbot.engines.base import Launch

_NAMES = ("kustomization.yaml", "kustomization.yml", "Kustomization")
_OVERLAY_FOLDERS = frozenset({"overlays", "overlay", "environments", "envs", "env", "clusters", "stages"})


def claims(path: str, text: str) -> bool:
    """Kustomization files by their name."""
    return posixpath.basename(path) in _NAMES


def consumes(tree: Tree, path: str, text: str) -> Iterable[str]:
    """Every file that the build reads."""
    from checklistbot.discovery.interpret import kustomization

    return kustomization.build(tree, posixpath.dirname(path)).files


def launches(tree: Tree, path: str, text: str) -> Iterable[Launch]:
    """What the kustomization deploys, unless another kustomization or a release object builds it."""
    from checklistbot.discovery import render
    from checklistbot.discovery.interpret import gitops, kustomization

    folder = posixpath.dirname(path)
    if folder in gitops.used_kustomizations(tree) or folder in gitops.referenced(tree):
        return []
    if "kind: Component" in text:
        return []
    renderer = render.active("kustomize")
    rendered = renderer.documents(tree, folder) if renderer else None
    if rendered is not None:
        return gitops.deploy(tree, rendered, environment_of(tree, folder))
    built = kustomization.build(tree, folder)
    return gitops.deploy(tree, built.documents, environment_of(tree, folder))


def environment_of(tree: Tree, folder: str) -> str:
    """The overlay's folder; ``default`` for a kustomization that is no overlay."""
    from checklistbot.discovery.interpret import kustomization

    parts = folder.split("/")
    overlay = len(parts) > 1 and any(p in _OVERLAY_FOLDERS for p in parts[:-1])
    return parts[-1] if folder and (overlay or kustomization.bases(tree, folder)) else "default"


FORMAT = Format("kustomize", claims, launches, anchors=_NAMES, consumes=consumes)
