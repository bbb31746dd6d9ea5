"""Nix: NixOS OCI containers, systemd services, llama-cpp and Ollama modules, image configs, shell scripts in strings.

Read by a small evaluator of our own (``interpret/nixlang.py``): there is no maintained Nix parser for Python with a free licence, and
evaluating with ``nix`` would run the reviewed code. A module that only defines options deploys nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from checklistbot.discovery.base import Format
from checklistbot.discovery.tree import Tree
from checklistbot.engines.base import Launch


def claims(path: str, text: str) -> bool:
    """Nix expressions by their suffix."""
    return path.endswith(".nix")


def launches(tree: Tree, path: str, text: str) -> Iterable[Launch]:
    """What the configuration starts."""
    from checklistbot.discovery.interpret import nixos

    return nixos.find(tree, path, text)


FORMAT = Format("nix", claims, launches)
