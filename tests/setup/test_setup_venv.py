"""scripts/make-venv.sh: which Python it takes, and the one line it says where none will do."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "make-venv.sh"

#: A Python that answers the script's questions: is it new enough, has it venv, what is its version. `-m venv` leaves a trace.
FAKE = """\
#!/bin/sh
case "$*" in
  *version_info\\ \\<*) exit {old} ;;
  *ensurepip*) exit {without_venv} ;;
  *version_info*) echo {version} ;;
  *"-m venv"*) echo "$0" > "{trace}"; exit 1 ;;
esac
"""


@pytest.fixture
def search(tmp_path: Path) -> Path:
    """A folder for fake interpreters; beside it on PATH only what the script calls."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("sh", "dirname"):
        (tools / name).symlink_to(Path("/bin") / name if (Path("/bin") / name).exists() else Path("/usr/bin") / name)
    folder = tmp_path / "pythons"
    folder.mkdir()
    return folder


def _fake(folder: Path, name: str, *, old: bool = False, without_venv: bool = False) -> Path:
    path = folder / name
    version = name.removeprefix("python") if "." in name else "3.11"
    text = FAKE.format(old=int(old), without_venv=int(without_venv), version=version, trace=folder / "trace")
    path.write_text(text)
    path.chmod(0o755)
    return path


def _run(*folders: Path, python: str = "") -> subprocess.CompletedProcess[str]:
    tools = folders[0].parent / "tools"
    environment = {"PATH": os.pathsep.join(map(str, [*folders, tools]))}
    if python:
        environment["PYTHON"] = python
    command = ["sh", str(SCRIPT), str(folders[0].parent / "venv")]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def _chosen(folder: Path) -> str:
    return (folder / "trace").read_text().strip()


def test_newest_that_fits_is_taken(search: Path) -> None:
    _fake(search, "python3")
    _fake(search, "python3.12")
    newest = _fake(search, "python3.13")
    _run(search)
    assert _chosen(search) == str(newest)


def test_shim_that_does_not_work_is_passed_over(search: Path, tmp_path: Path) -> None:
    shims = tmp_path / "shims"
    shims.mkdir()
    (shims / "python3.13").write_text("#!/bin/sh\nexit 127\n")
    (shims / "python3.13").chmod(0o755)
    real = _fake(search, "python3.13")
    _run(shims, search)
    assert _chosen(search) == str(real)


def test_python_without_venv_gives_way_to_an_older_one_that_has_it(search: Path) -> None:
    _fake(search, "python3.13", without_venv=True)
    older = _fake(search, "python3.11")
    _run(search)
    assert _chosen(search) == str(older)


def test_missing_venv_module_gets_one_line_with_the_package(search: Path) -> None:
    _fake(search, "python3.12", without_venv=True)
    done = _run(search)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert "apt-get install python3.12-venv" in done.stderr


def test_no_python_that_is_new_enough_gets_one_line(search: Path) -> None:
    _fake(search, "python3", old=True)
    done = _run(search)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert "no Python >= 3.11 found" in done.stderr


def test_named_python_is_the_only_one_looked_at(search: Path) -> None:
    _fake(search, "python3.13")
    named = _fake(search, "python3.12")
    _run(search, python=str(named))
    assert _chosen(search) == str(named)
    (search / "trace").unlink()
    assert _run(search, python=str(search / "python9")).returncode == 2
    assert not (search / "trace").exists()
