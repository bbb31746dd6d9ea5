"""The program installed as users install it, run from another folder: from the wheel, and from an editable install."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import distribution
from pathlib import Path

import pytest
from package_index import PackageIndex

from checklistbot import __version__

TOP = Path(__file__).resolve().parents[2]
EXAMPLE = TOP / "examples" / "glm-5.3-disaggregated"

Tool = Callable[[str], Path]


@dataclass(frozen=True)
class Installed:
    """One installation: its command, and the interpreter behind it."""

    command: Path
    python: Path


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel as a release makes it: from the sdist, so that the sdist is known to be complete."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(TOP)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    (found,) = folder.glob("*.whl")
    return found


@pytest.fixture(scope="session")
def from_wheel(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """An empty environment with the locked dependencies and the wheel."""
    venv = tmp_path_factory.mktemp("venv") / "venv"
    uv = [str(Path(sys.executable).parent / "uv"), "--quiet", "--no-config"]
    subprocess.run([*uv, "venv", "--python", sys.executable, str(venv)], check=True)
    python = venv / "bin" / "python"
    with PackageIndex(Path(sys.prefix) / "wheelhouse") as index:
        install = [*uv, "pip", "install", "--python", str(python), "--no-cache", "--default-index", index.url]
        lock = str(TOP / "requirements" / "run.txt")
        locked = ["--require-hashes", "--only-binary", ":all:", "--no-deps", "--requirement", lock]
        subprocess.run([*install, *locked], check=True)
        # Without --no-deps: what the wheel asks for must be what the lock holds.
        subprocess.run([*install, "--offline", str(wheel)], check=True)
    return Installed(venv / "bin" / "checklistbot", python)


@pytest.fixture(params=["wheel", "editable"])
def installed(request: pytest.FixtureRequest) -> Installed:
    if request.param == "wheel":
        found: Installed = request.getfixturevalue("from_wheel")
        return found
    direct = json.loads(distribution("checklistbot").read_text("direct_url.json") or "{}")
    assert direct.get("dir_info", {}).get("editable"), "make setup installs the project editable"
    return Installed(Path(sys.executable).parent / "checklistbot", Path(sys.executable))


def _run(installed: Installed, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs the command in an environment that knows nothing of this work tree."""
    environment = {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], "LC_ALL": "C.UTF-8"}
    command = [str(installed.command), *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture
def example(tmp_path: Path) -> Path:
    target = tmp_path / "example"
    subprocess.run(["bash", str(EXAMPLE / "make-repository.sh"), str(target)], check=True)
    return target


def test_wheel_carries_the_package_and_nothing_else(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    info = f"checklistbot-{__version__}.dist-info/"
    assert {name for name in names if not name.startswith(("checklistbot/", info))} == set()
    assert not [name for name in names if "__pycache__" in name or name.endswith(".pyc")]


@pytest.mark.parametrize("folder", ["checklistbot", "prompts", "templates"])
def test_wheel_carries_every_tracked_file_of_a_folder(wheel: Path, folder: str) -> None:
    done = subprocess.run(["git", "ls-files", "-z", folder], cwd=TOP, check=True, capture_output=True, text=True)
    tracked = [name for name in done.stdout.split("\0") if name and (TOP / name).is_file()]
    inside = "" if folder == "checklistbot" else "checklistbot/"
    missing = {inside + name for name in tracked} - set(zipfile.ZipFile(wheel).namelist())
    assert tracked
    assert missing == set()


@pytest.mark.needs("wheelhouse")
def test_version_from_another_folder(installed: Installed, tmp_path: Path) -> None:
    done = _run(installed, tmp_path, "--version")
    assert (done.returncode, done.stderr) == (0, "")
    assert re.search(rf"\b{re.escape(__version__)}\b", done.stdout)


@pytest.mark.needs("wheelhouse")
def test_check_from_another_folder(installed: Installed, example: Path, tmp_path: Path) -> None:
    done = _run(installed, tmp_path, "check", str(example), "--format", "json")
    assert done.returncode == 1, done.stderr
    assert json.loads(done.stdout)["verdict"] == "block"


@pytest.mark.needs("wheelhouse")
def test_prompts_and_templates_are_found_from_another_folder(
    installed: Installed, example: Path, tmp_path: Path
) -> None:
    done = _run(installed, tmp_path, "prompt", str(example))
    assert done.returncode == 0, done.stderr
    assert "681280" in re.sub(r"[,_ ]", "", done.stdout)
    output = tmp_path / "report"
    review = ["review", str(example), "--base", "base", "--head", "head", "--provider", "builtin"]
    done = _run(installed, tmp_path, *review, "--output", str(output))
    assert done.returncode == 1, done.stderr
    assert (output / "comment.md").stat().st_size > 0


def test_file_in_the_working_folder_is_not_imported(installed: Installed, tmp_path: Path) -> None:
    for name in ("yaml", "json", "click", "checklistbot"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('imported from the working folder')\n")
    assert _run(installed, tmp_path, "--version").returncode == 0
