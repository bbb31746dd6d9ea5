"""Files of a test on disk, and what discovery finds in them."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

from checklistbot.discovery import discover
from checklistbot.discovery.tree import Disk
from checklistbot.model import Deployment


def found(folder: Path, files: dict[str, str]) -> list[Deployment]:
    """The deployments of these files (path → text, dedented), written below the folder."""
    for name, body in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(body), encoding="utf-8")
    return list(discover(Disk(folder)).deployments)


def only(folder: Path, files: dict[str, str], **facts: Any) -> Deployment:
    """The one deployment of these files; its facts must have these values."""
    deployments = found(folder, files)
    assert len(deployments) == 1, [(d.id, d.file) for d in deployments]
    assert {name: deployments[0].fact(name).value for name in facts} == facts
    return deployments[0]
