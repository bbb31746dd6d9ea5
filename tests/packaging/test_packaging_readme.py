"""README.md shows what the commands really print."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]


def test_readme_shows_what_the_commands_print() -> None:
    command = [sys.executable, str(TOP / "scripts" / "docs.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=TOP)
    assert (done.returncode, done.stderr) == (0, "")
