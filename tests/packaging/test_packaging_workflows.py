"""The workflows to copy are ones that GitHub, GitLab and a security linter take, and SECURITY.md rests on tests that exist."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

TOP = Path(__file__).resolve().parents[2]
EXAMPLES = TOP / "examples" / "workflows"
WORKFLOWS = sorted(
    path for path in EXAMPLES.glob("*.yml") if "gitlab" not in path.name and "pre-commit" not in path.name
)
ACTIONS = sorted((TOP / ".github" / "actions").glob("*/action.yml"))
OWN = sorted((TOP / ".github" / "workflows").glob("*.yml"))


def _load(path: Path) -> Any:
    # "on" is a word here, not a boolean.
    text = re.sub(r"^on:", "'on':", path.read_text("utf-8"), flags=re.MULTILINE)
    return yaml.safe_load(text)


def _steps(path: Path) -> list[tuple[str, dict[str, Any]]]:
    return [(name, step) for name, job in _load(path)["jobs"].items() for step in job.get("steps", [])]


def test_the_workflows_the_issue_names_are_there() -> None:
    names = {path.name for path in EXAMPLES.iterdir()}
    assert names >= {
        "same-repository.yml", "fork.yml", "tick-gate.yml", "self-hosted.yml", "reusable.yml", "nightly.yml",
        "gitlab-ci.yml", "pre-commit-config.yaml",
    }  # fmt: skip


@pytest.mark.needs("zizmor")
def test_zizmor_finds_nothing(tool: Callable[[str], Path]) -> None:
    command = [str(tool("zizmor")), "--quiet", "--offline", "--pedantic", "--no-progress", "--format=plain"]
    done = subprocess.run([*command, *WORKFLOWS, *OWN, *ACTIONS], capture_output=True, text=True, check=False, cwd=TOP)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.needs("check-jsonschema")
@pytest.mark.parametrize(
    ("schema", "files"),
    [
        ("vendor.github-workflows", [*WORKFLOWS, *OWN]),
        ("vendor.github-actions", ACTIONS),
        ("vendor.gitlab-ci", [EXAMPLES / "gitlab-ci.yml"]),
    ],
)
def test_schemas(schema: str, files: list[Path], tool: Callable[[str], Path]) -> None:
    command = [str(tool("check-jsonschema")), "--builtin-schema", schema]
    done = subprocess.run([*command, *files], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("path", [*WORKFLOWS, *OWN], ids=lambda path: path.name)
def test_nothing_is_granted_above_a_job_and_every_action_is_pinned(path: Path) -> None:
    workflow = _load(path)
    assert workflow["permissions"] == {}
    assert all("permissions" in job for job in workflow["jobs"].values())
    assert "pull_request_target" not in workflow["on"]
    for _, step in _steps(path):
        uses = step.get("uses", "")
        assert not uses or uses.startswith("./") or re.search(r"@[0-9a-f]{40}$", uses), uses
        assert "${{" not in step.get("run", ""), step


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_inputs_and_outputs_of_our_actions_exist(path: Path) -> None:
    """What actionlint does for actions that it can fetch: names in ``with`` and in ``steps.*.outputs``."""
    known = {action.parent.name: _load(action) for action in ACTIONS}
    outputs: dict[str, set[str]] = {}
    for _, step in _steps(path):
        name = re.fullmatch(r"checklistbot/checklistbot/\.github/actions/([a-z-]+)@[0-9a-f]{40}", step.get("uses", ""))
        if name is None:
            continue
        action = known[name[1]]
        assert set(step.get("with", {})) <= set(action["inputs"])
        required = {key for key, given in action["inputs"].items() if given.get("required")}
        assert required <= set(step.get("with", {}))
        outputs[step.get("id", "")] = set(action["outputs"])
    for step_id, output in re.findall(r"steps\.([a-z]+)\.outputs\.([a-z-]+)", path.read_text("utf-8")):
        assert output in outputs[step_id], f"{step_id}.{output}"


@pytest.mark.parametrize("action", ACTIONS, ids=lambda path: path.parent.name)
def test_every_input_goes_through_the_environment(action: Path) -> None:
    text = action.read_text("utf-8")
    steps = _load(action)["runs"]["steps"]
    for step in steps:
        assert "${{" not in step["run"]
        assert step["working-directory"] == "${{ runner.temp }}"
    given = " ".join(str(value) for step in steps for value in step["env"].values())
    for name in _load(action)["inputs"]:
        assert re.fullmatch(r"[a-z]+(-[a-z]+)*", name)
        assert f"inputs.{name} }}" in given, name
    assert "uses:" not in text  # no action inside the action


def test_only_the_publish_job_of_the_fork_flow_may_write_and_it_reads_nothing_of_the_fork() -> None:
    jobs = _load(EXAMPLES / "fork.yml")["jobs"]
    assert set(jobs["recompute"]["permissions"].values()) == {"read"}
    assert "contents" not in jobs["publish"]["permissions"]
    for job in jobs.values():
        uses = [step["uses"] for step in job["steps"]]
        assert not any(name.startswith("actions/checkout@") for name in uses)
        assert not any("run" in step or "env" in step for step in job["steps"])
        downloads = [step["with"] for step in job["steps"] if step["uses"].startswith("actions/download-artifact@")]
        assert not any({"run-id", "github-token", "repository"} & set(given) for given in downloads)


def test_the_release_is_attested_and_published_without_a_stored_token() -> None:
    text = (TOP / ".github" / "workflows" / "release.yml").read_text("utf-8")
    workflow = _load(TOP / ".github" / "workflows" / "release.yml")
    assert list(workflow["on"]) == ["push"]
    assert list(workflow["on"]["push"]) == ["tags"]
    assert "secrets." not in text
    assert workflow["jobs"]["publish"]["needs"] == "attest"
    assert workflow["jobs"]["attest"]["needs"] == "build"
    assert workflow["jobs"]["publish"]["permissions"] == {"id-token": "write"}


def test_the_pre_commit_hook_calls_a_command_that_exists() -> None:
    (hook,) = _load(TOP / ".pre-commit-hooks.yaml")
    (repo,) = _load(EXAMPLES / "pre-commit-config.yaml")["repos"]
    assert [entry["id"] for entry in repo["hooks"]] == [hook["id"]]
    assert "additional_dependencies" not in hook  # a bare name on an index can be anybody's
    program, *arguments = hook["entry"].split()
    assert (program, hook["language"], hook["pass_filenames"]) == ("checklistbot", "python", False)
    done = subprocess.run([sys.executable, "-m", program, arguments[0], "--help"], capture_output=True, check=False)
    assert done.returncode == 0


def test_each_line_of_the_threat_model_rests_on_a_test() -> None:
    text = (TOP / "SECURITY.md").read_text("utf-8")
    table = text.partition("## Who can do what")[2].partition("\n## ")[0]
    rows = [line for line in table.splitlines() if line.startswith(("| a", "| the"))]
    sources = "\n".join(path.read_text("utf-8") for path in (TOP / "tests").glob("*/test_*.py"))
    exist = set(re.findall(r"^\s*def (test_\w+)\(", sources, re.MULTILINE))
    assert len(rows) >= 20
    for row in rows:
        named = set(re.findall(r"`(test_\w+)`", row))
        assert named, row
        assert named <= exist, named - exist


def test_the_permissions_table_is_what_the_workflows_ask_for() -> None:
    table = (TOP / "SECURITY.md").read_text("utf-8").partition("## Permissions")[2].partition("\n## ")[0]
    for path in WORKFLOWS:
        for job in _load(path)["jobs"].values():
            for scope, level in job["permissions"].items():
                lines = [line for line in table.splitlines() if path.name in line]
                assert any(f"`{scope}: {level}`" in line for line in lines), (path.name, scope, level)
