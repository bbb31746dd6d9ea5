"""The driver of the Action in this process: inputs, file commands, workflow commands."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checklistbot.commands.action import read_inputs, run
from checklistbot.model import UsageError

TOP = Path(__file__).resolve().parents[2]
EXAMPLE = TOP / "examples" / "glm-5.3-disaggregated"


@pytest.fixture
def runner(tmp_path: Path) -> dict[str, str]:
    """The variables of a runner whose workspace is the example's repository, on its pull request."""
    workspace, temporary = tmp_path / "workspace", tmp_path / "temp"
    temporary.mkdir()
    subprocess.run(["bash", str(EXAMPLE / "make-repository.sh"), str(workspace)], check=True)

    def commit(name: str) -> str:
        command = ["git", "rev-parse", name]
        return subprocess.run(command, cwd=workspace, check=True, capture_output=True, text=True).stdout.strip()

    environment = {
        "CHECKLISTBOT_NOW": "2026-11-30T12:00:00Z",
        "GITHUB_EVENT_NAME": "pull_request",
        "GITHUB_EVENT_PATH": str(tmp_path / "event.json"),
        "GITHUB_OUTPUT": str(tmp_path / "output"),
        "GITHUB_REPOSITORY": "acme/serving",
        "GITHUB_SERVER_URL": "https://github.example",
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"),
        "GITHUB_WORKSPACE": str(workspace),
        "RUNNER_TEMP": str(temporary),
        "CHECKLISTBOT_INPUT_COMMENT": "false",
    }
    _event(environment, "opened", commit("base"), commit("head"))
    return environment


def _event(environment: dict[str, str], action: str, base: str = "a" * 40, head: str = "b" * 40) -> None:
    pull: dict[str, Any] = {"number": 7, "draft": False}
    pull |= {"base": {"sha": base, "repo": {"id": 1}}, "head": {"sha": head, "repo": {"id": 1}}}
    Path(environment["GITHUB_EVENT_PATH"]).write_text(json.dumps({"action": action, "pull_request": pull}), "utf-8")


def _outputs(environment: dict[str, str]) -> dict[str, str]:
    """GITHUB_OUTPUT read as the runner reads it."""
    text = Path(environment["GITHUB_OUTPUT"]).read_text("utf-8")
    return {name: value for name, _, value in re.findall(r"^(.*?)<<(.*)\n([\s\S]*?)\n\2$", text, re.MULTILINE)}


def test_review_of_the_incident(runner: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(runner) == 1
    outputs = _outputs(runner)
    assert list(outputs) == [
        "verdict", "blocking-count", "report-path", "comment-url", "llm-status",
        "conclusion", "warning-count", "comment-id", "checklist-path", "sarif-path",
    ]  # fmt: skip
    assert outputs["verdict"] == "block"
    assert int(outputs["blocking-count"]) >= 1
    report = Path(outputs["report-path"])
    assert report.is_relative_to(runner["RUNNER_TEMP"])
    assert json.loads(report.read_text("utf-8"))["check"]["verdict"] == "block"
    assert Path(runner["GITHUB_STEP_SUMMARY"]).read_text("utf-8").startswith("### ⛔ BLOCK")
    _assert_only_ours_are_commands(capsys.readouterr().out)


def _assert_only_ours_are_commands(output: str) -> None:
    """All that the review printed stands between ``::stop-commands::TOKEN`` and ``::TOKEN::``."""
    first, *lines = output.splitlines()
    token = first.removeprefix("::stop-commands::")
    assert re.fullmatch(r"[0-9a-f]{32}", token)
    after = lines[lines.index(f"::{token}::") + 1 :]
    assert all(line.startswith("::") for line in after)


def test_every_run_stops_commands_with_another_token(
    runner: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    _event(runner, "closed")
    tokens = set()
    for _ in range(3):
        run(runner)
        tokens.add(capsys.readouterr().out.splitlines()[0])
    assert len(tokens) == 3


def test_closed_does_nothing(runner: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    _event(runner, "closed")
    assert run(runner) == 0
    assert "nothing to do: the pull request is closed" in capsys.readouterr().out
    assert list(Path(runner["RUNNER_TEMP"]).iterdir()) == []


def test_pull_request_target_is_refused(runner: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    runner["GITHUB_EVENT_NAME"] = "pull_request_target"
    assert run(runner) == 2
    assert "::error title=checklistbot::on: pull_request_target is refused" in capsys.readouterr().out
    assert list(Path(runner["RUNNER_TEMP"]).iterdir()) == []


def test_explicit_revisions_of_a_repository_beside_the_checkout(runner: dict[str, str]) -> None:
    example = Path(runner["RUNNER_TEMP"]) / "example"
    subprocess.run(["bash", str(EXAMPLE / "make-repository.sh"), str(example)], check=True)
    inputs = {"PATH": str(example), "BASE": "base", "HEAD": "head-memory-fraction", "OUTPUT": "other", "LANG": "ko"}
    runner |= {f"CHECKLISTBOT_INPUT_{name}": value for name, value in inputs.items()}
    assert run(runner) == 1
    assert _outputs(runner)["report-path"] == str(Path(runner["RUNNER_TEMP"]) / "other" / "report.json")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("path", "../elsewhere"),
        ("path", "a/../../b"),
        ("path", "/etc"),
        ("path", "a\nb"),
        ("config", "/etc/passwd"),
        ("config", "../x.yml"),
        ("lang", "fr"),
        ("fail-on", "block\nwarn"),
        ("provider", "http://x"),
        ("model", "--help"),
        ("model", "a b"),
        ("require-llm", "yes"),
        ("comment", "True"),
        ("output", "/etc/x"),
        ("output", "../x"),
        ("base", "--upload-pack=x"),
        ("head", "main; touch x"),
    ],
)
def test_input_in_another_form_is_refused_without_repeating_it(
    runner: dict[str, str], name: str, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    runner |= {"CHECKLISTBOT_INPUT_BASE": "base", "CHECKLISTBOT_INPUT_HEAD": "head"}
    runner[f"CHECKLISTBOT_INPUT_{name.upper().replace('-', '_')}"] = value
    assert run(runner) == 2
    error = capsys.readouterr().out.splitlines()[-1]
    assert error.startswith(f"::error title=checklistbot::input {name}: expected")
    assert value not in error


def test_base_without_head_is_refused(runner: dict[str, str]) -> None:
    runner["CHECKLISTBOT_INPUT_BASE"] = "base"
    assert run(runner) == 2


def test_link_in_the_checkout_does_not_lead_out(runner: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (Path(runner["GITHUB_WORKSPACE"]) / "serve-link").symlink_to(tmp_path / "outside")
    runner["CHECKLISTBOT_INPUT_PATH"] = "serve-link"
    with pytest.raises(UsageError, match="input path"):
        read_inputs(runner)


@pytest.mark.parametrize("content", ["", "[]", "null", "{", "[" * 100_000])
def test_event_file_that_is_none(runner: dict[str, str], content: str) -> None:
    Path(runner["GITHUB_EVENT_PATH"]).write_text(content)
    assert run(runner) == 2


def test_checkout_that_is_missing_is_said(runner: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    empty = Path(runner["RUNNER_TEMP"]) / "empty"
    empty.mkdir()
    runner["GITHUB_WORKSPACE"] = str(empty)
    assert run(runner) == 2
    assert "add actions/checkout before this step" in capsys.readouterr().out


@given(st.sampled_from(["PATH", "OUTPUT", "CONFIG", "BASE", "HEAD", "MODEL"]), st.text(max_size=60))
def test_paths_never_leave_their_folders(name: str, value: str) -> None:
    environment = {"RUNNER_TEMP": "/var", "GITHUB_WORKSPACE": "/usr", f"CHECKLISTBOT_INPUT_{name}": value}
    if name in ("BASE", "HEAD"):
        environment |= {"CHECKLISTBOT_INPUT_BASE": value, "CHECKLISTBOT_INPUT_HEAD": value}
    try:
        inputs = read_inputs(environment)
    except UsageError:
        return
    assert inputs.output.is_relative_to("/var")
    assert inputs.path.is_relative_to("/usr") or inputs.path.is_relative_to("/var")
    assert inputs.config is None or ".." not in Path(inputs.config).parts
    assert not any(text and text.startswith("-") for text in (inputs.base, inputs.head, inputs.model))
