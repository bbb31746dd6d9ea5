"""The promises of tests/conftest.py: a missing tool skips, fails in CI, and no setting reaches a test."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

CONFTEST = Path(__file__).resolve().parent.parent / "conftest.py"
TEST = """
import pytest

@pytest.mark.needs("a-tool-that-nobody-has")
def test_with_tool():
    raise AssertionError("it ran")
"""


def _run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, ci: str) -> pytest.RunResult:
    monkeypatch.setenv("CI", ci)
    pytester.makeconftest(CONFTEST.read_text("utf-8"))
    pytester.makeini("[pytest]\nmarkers = needs(tool)")
    pytester.makepyfile(TEST)
    return pytester.runpytest_subprocess("-rs", "-p", "no:cacheprovider")


def test_missing_tool_skips_with_the_reason(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    result = _run(pytester, monkeypatch, "false")
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["*needs a-tool-that-nobody-has*"])


def test_missing_tool_fails_in_ci(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    result = _run(pytester, monkeypatch, "true")
    assert result.ret == 1
    assert "it ran" not in result.stdout.str()


def test_environment_is_known() -> None:
    foreign = {name for name in os.environ if name.startswith(("OPENAI_", "ANTHROPIC_", "GITHUB_", "RUNNER_"))}
    assert foreign == set()
    assert list(Path.home().iterdir()) == []


def test_connection_beyond_loopback_fails_the_test() -> None:
    with (
        socket.socket() as connection,
        pytest.raises(pytest.fail.Exception, match="tried to reach"),
    ):
        connection.connect(("192.0.2.1", 9))
