"""PowerShell launchers: parameters with defaults, arrays and splatting, here-strings, backtick continuations, Start-Process."""

from __future__ import annotations

from collections.abc import Iterable

from checklistbot.discovery.base import Format
from checklistbot.discovery.tree import Tree
from checklistbot.engines.base import Launch


def claims(path: str, text: str) -> bool:
    """PowerShell scripts by their suffix."""
    return path.lower().endswith((".ps1", ".psm1"))


def launches(tree: Tree, path: str, text: str) -> Iterable[Launch]:
    """The servers that the script starts."""
    from checklistbot.discovery.interpret import pwsh

    return pwsh.find(tree, path, text)


FORMAT = Format("powershell", claims, launches)
