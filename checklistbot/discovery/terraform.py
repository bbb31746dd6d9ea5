"""Terraform, OpenTofu and Nomad: containers, user data, Helm releases and SageMaker models of ``.tf`` and ``.nomad`` files.

Variables take their defaults, ``terraform.tfvars`` and ``*.auto.tfvars``, or what a calling module of the tree passes. The reader is
our own (``interpret/hcl.py`` says why). Nothing is executed; ``file()`` and ``templatefile()`` read inside the tree.
"""

from __future__ import annotations

from collections.abc import Iterable

from checklistbot.discovery.base import Format
from checklistbot.discovery.tree import Tree
from checklistbot.engines.base import Launch


def claims(path: str, text: str) -> bool:
    """HCL files of Terraform, OpenTofu and Nomad."""
    return path.endswith((".tf", ".tofu", ".nomad", ".nomad.hcl"))


def launches(tree: Tree, path: str, text: str) -> Iterable[Launch]:
    """What the blocks of the file deploy."""
    from checklistbot.discovery.interpret import tfblocks

    return tfblocks.find(tree, path, text)


FORMAT = Format("terraform", claims, launches)
