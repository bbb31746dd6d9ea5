"""Build hook: the commit that a wheel or sdist is built from goes into it as ``checklistbot/knowledge/COMMIT``.

Generated jobs install checklistbot from that commit. Nothing is stored where it would not be true: outside a repository of this
project's own, with changes that are not committed, and in editable installs.
"""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

TARGET = "checklistbot/knowledge/COMMIT"


def _git(top: Path, *words: str) -> str | None:
    try:
        done = subprocess.run(["git", "-C", str(top), *words], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def commit_of(top: Path) -> str | None:
    """The commit of a clean checkout whose top is ``top``; None for anything else."""
    where = _git(top, "rev-parse", "--show-toplevel")
    if where is None or Path(where).resolve() != top.resolve():
        return None
    if _git(top, "status", "--porcelain", "--untracked-files=no") != "":
        return None
    return _git(top, "rev-parse", "--verify", "HEAD")


class CommitHook(BuildHookInterface):  # type: ignore[type-arg]
    """Adds the file; an sdist's own copy of it is taken as it is."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        top = Path(self.root)
        commit = None if version == "editable" or (top / TARGET).exists() else commit_of(top)
        if commit is not None:
            file = Path(tempfile.mkdtemp()) / "COMMIT"
            file.write_text(f"{commit}\n", encoding="ascii")
            build_data["force_include"][str(file)] = TARGET
