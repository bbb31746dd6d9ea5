"""The locks: complete, hashed, in step with pyproject.toml, and without the address of any registry or machine."""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

TOP = Path(__file__).resolve().parents[2]
LOCKS = sorted((TOP / "requirements").glob("*.txt"))
NPM_LOCK = TOP / "tests" / "tools" / "package-lock.json"


def _pins(lock: Path) -> dict[str, str]:
    """Project → version of one lock."""
    found = re.findall(r"^([a-z0-9._-]+)==(\S+)", lock.read_text("utf-8"), re.MULTILINE)
    return {canonicalize_name(name): version for name, version in found}


def _tracked() -> list[Path]:
    done = subprocess.run(["git", "ls-files", "-z"], cwd=TOP, check=True, capture_output=True, text=True)
    return [TOP / name for name in done.stdout.split("\0") if name and (TOP / name).is_file()]


def test_there_are_locks() -> None:
    assert [lock.name for lock in LOCKS] == ["build.txt", "run.txt", "test.txt", "uv.txt"]


@pytest.mark.parametrize("lock", [*LOCKS, NPM_LOCK], ids=lambda path: path.name)
def test_no_lock_holds_an_address(lock: Path) -> None:
    assert "://" not in lock.read_text("utf-8")


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.name)
def test_every_requirement_is_pinned_and_hashed(lock: Path) -> None:
    text = re.sub(r"^\s*#.*\n", "", lock.read_text("utf-8"), flags=re.MULTILINE).replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line.strip()]
    assert lines
    for line in lines:
        assert re.match(r"[a-z0-9._-]+==[^\s;]+ (?:; [^#]+ )?\s*(?:--hash=sha256:[0-9a-f]{64}\s*)+$", line), line[:80]


def test_npm_lock_has_a_checksum_for_every_package() -> None:
    packages = json.loads(NPM_LOCK.read_text("utf-8"))["packages"]
    assert len(packages) > 1
    assert [name for name, package in packages.items() if name and "integrity" not in package] == []


def test_run_lock_satisfies_pyproject() -> None:
    pins = _pins(TOP / "requirements" / "run.txt")
    project = tomllib.loads((TOP / "pyproject.toml").read_text("utf-8"))["project"]
    for requirement in map(Requirement, project["dependencies"]):
        version = pins.get(canonicalize_name(requirement.name))
        assert version, f"{requirement.name} is not in run.txt; run `make lock`"
        assert version in requirement.specifier, f"{requirement.name} {version}; run `make lock`"


@pytest.mark.parametrize("name", ["run.txt", "build.txt"])
def test_tests_run_with_what_users_get(name: str) -> None:
    test = _pins(TOP / "requirements" / "test.txt")
    pins = _pins(TOP / "requirements" / name)
    assert pins == {project: test.get(project) for project in pins}


def test_no_tracked_file_names_a_registry_or_a_path_of_this_machine() -> None:
    # Put together here, so that this file does not hold what it looks for.
    forbidden = [
        "pypi" + ".org",
        "pythonhosted" + ".org",
        "registry.npmjs" + ".org",
        "proxy.golang" + ".org",
        "deb.debian" + ".org",
        "/work" + "/main",
        "/work" + "/shared",
        "/opt" + "/pypi",
        str(TOP) + "/",
    ]
    found = [
        f"{path.relative_to(TOP)}: {word}"
        for path in _tracked()
        for word in forbidden
        if word.encode() in path.read_bytes()
    ]
    assert found == []
