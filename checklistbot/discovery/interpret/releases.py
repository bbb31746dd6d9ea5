"""Helm releases that other files ask for (Terraform, Argo CD, Flux, Helmfile): a chart of the tree with values, or known values alone."""

from __future__ import annotations

from collections.abc import Sequence

from checklistbot.discovery.interpret import embed
from checklistbot.discovery.tree import Tree
from checklistbot.engines.base import Launch, Word


def terraform_release(
    tree: Tree, path: str, name: str, chart: str | None, values: Sequence[embed.Text], sets: Sequence[tuple[str, Word]]
) -> list[Launch]:
    """``helm_release`` of Terraform."""
    return []
