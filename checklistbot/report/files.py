"""Files that we write: whole or not at all, and never through a link (operations-and-attacks 39)."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from checklistbot.model import UsageError


def write_text(path: Path, text: str, *, executable: bool = False) -> None:
    """Write ``text`` as UTF-8 to ``path``, making its folders; an existing file is replaced in one step.

    Raises UsageError where ``path`` is a link, a folder, or cannot be written.
    """
    if path.is_symlink():
        raise UsageError(f"{path}: is a link, and links are not followed; give a plain path")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir():
            raise UsageError(f"{path}: is a folder; give a file")
        _replace(path, text.encode("utf-8", "replace"), 0o755 if executable else 0o644)
    except OSError as error:
        raise UsageError(f"{path}: cannot be written ({error.strerror})") from None


def _replace(path: Path, data: bytes, mode: int) -> None:
    """A new file beside the old one, then renamed over it: a killed run leaves the old one whole."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        umask = os.umask(0)
        os.umask(umask)
        Path(name).chmod(mode & ~umask)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
