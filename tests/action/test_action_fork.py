"""The second half of the fork flow: recomputed from Git objects, posted by a job of its own; the fork's artifact is never believed."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from fake_github import FakeGitHub, serving
from git_http import GitServer
from openapi_contract import contract_of

from checklistbot.commands import action, action_publish

TOP = Path(__file__).resolve().parents[2]
EXAMPLE = TOP / "examples" / "glm-5.3-disaggregated"
READ, WRITE = "ghs_ReadToken000000000000000000000000", "ghs_WriteToken00000000000000000000000"

pytestmark = pytest.mark.needs("npm:@octokit/openapi")


def _git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@dataclass
class Flow:
    """Both jobs of the workflow, with the servers they talk to. ``forged`` is what the fork uploaded."""

    folder: Path
    github: FakeGitHub
    git: GitServer
    base: str
    head: str
    payload: dict[str, Any] = field(default_factory=dict)
    outputs: dict[str, str] = field(default_factory=dict)

    def environment(self, job: str, token: str) -> dict[str, str]:
        temporary, workspace = self.folder / job / "temp", self.folder / job / "workspace"
        for made in (temporary, workspace):
            made.mkdir(parents=True, exist_ok=True)
        (self.folder / "event.json").write_text(json.dumps(self.payload), "utf-8")
        return {
            "CHECKLISTBOT_NOW": "2026-11-30T12:00:00Z",
            "GITHUB_API_URL": self.github.api_url,
            "GITHUB_EVENT_NAME": "workflow_run",
            "GITHUB_EVENT_PATH": str(self.folder / "event.json"),
            "GITHUB_OUTPUT": str(self.folder / job / "output"),
            "GITHUB_REPOSITORY": "octo/serving",
            "GITHUB_SERVER_URL": self.git.url,
            "GITHUB_STEP_SUMMARY": str(self.folder / job / "summary.md"),
            "GITHUB_TOKEN": token,
            "GITHUB_WORKSPACE": str(workspace),
            "RUNNER_TEMP": str(temporary),
        }

    def recompute(self, **more: str) -> int:
        environment = self.environment("recompute", READ) | more
        code = action.run(environment)
        output = Path(environment["GITHUB_OUTPUT"])
        text = output.read_text("utf-8") if output.exists() else ""
        self.outputs = {n: v for n, _, v in re.findall(r"^(.*?)<<(.*)\n([\s\S]*?)\n\2$", text, re.MULTILINE)}
        return code

    @property
    def report(self) -> Path:
        return self.folder / "recompute" / "temp" / "checklistbot-report"

    def publish(self, **more: str) -> int:
        environment = self.environment("publish", WRITE)
        kept = Path(environment["RUNNER_TEMP"]) / "checklistbot-report"
        if self.report.exists() and not kept.exists():
            self.report.rename(kept)
        given = {"REPORT": "checklistbot-report", "PULL_REQUEST": self.outputs.get("pull-request", "")}
        given |= {"COMMENT_MODE": self.outputs.get("comment-mode") or "update"}
        given |= {"CREATE": self.outputs.get("create") or "true"} | more
        return action_publish.run(environment | {f"CHECKLISTBOT_INPUT_{n}": v for n, v in given.items()})


def _payload(head: str) -> dict[str, Any]:
    return {
        "action": "completed",
        "workflow_run": {
            "id": 99,
            "event": "pull_request",
            "conclusion": "success",  # the fork's own word
            "head_branch": "topic",
            "head_sha": head,
            "pull_requests": [],  # always empty for a fork
            "repository": {"id": 1, "full_name": "octo/serving", "owner": {"login": "octo"}},
            "head_repository": {"id": 2, "full_name": "mallory/serving", "owner": {"login": "mallory"}},
        },
    }


@pytest.fixture
def flow(tmp_path: Path, pytestconfig: pytest.Config) -> Iterator[Flow]:
    contract = contract_of(pytestconfig.rootpath / "tests" / "tools" / "node_modules" / "@octokit" / "openapi")
    source = tmp_path / "source"
    subprocess.run(["bash", str(EXAMPLE / "make-repository.sh"), str(source)], check=True)
    base, head = _git(source, "rev-parse", "base"), _git(source, "rev-parse", "head")
    bare = tmp_path / "server" / "octo" / "serving"
    _git(tmp_path, "clone", "--quiet", "--bare", str(source), str(bare))
    _git(bare, "config", "uploadpack.allowReachableSHA1InWant", "true")
    with serving(contract) as github, GitServer(tmp_path / "server") as git:
        github.bot(READ, write=False)
        github.bot(WRITE)
        pull = github.pulls["octo/serving", 7]
        pull.owner, pull.sha, pull.base_sha, pull.repo_id = "mallory", head, base, 2
        yield Flow(tmp_path, github, git, base, head, _payload(head))
        assert github.violations == []


def test_forged_pass_of_a_fork_is_posted_as_block(flow: Flow, capsys: pytest.CaptureFixture[str]) -> None:
    # What the fork uploaded lies about: in the workspace, and where the report will stand.
    forged = {"schema": "report/1", "check": {"verdict": "pass"}}
    for folder in (flow.folder / "recompute" / "workspace", flow.report):
        folder.mkdir(parents=True)
        (folder / "report.json").write_text(json.dumps(forged), "utf-8")
        (folder / "comment.md").write_text("### ✅ PASS\n", "utf-8")
    assert flow.recompute() == 0, capsys.readouterr().out
    assert flow.outputs["verdict"] == "block"
    assert (flow.outputs["pull-request"], flow.outputs["create"]) == ("7", "true")
    assert flow.github.bodies() == []  # this job only reads
    assert flow.publish() == 0, capsys.readouterr().out
    (body,) = flow.github.bodies()
    assert body.startswith("### ⛔ BLOCK")
    runs = [(run["name"], run["conclusion"], run["head_sha"]) for run in flow.github.checks.values()]
    assert runs == [("checklistbot / verdict", "failure", flow.head)]


def test_no_file_of_the_fork_is_written_and_the_token_goes_to_the_server_only(
    flow: Flow, capsys: pytest.CaptureFixture[str]
) -> None:
    assert flow.recompute() == 0
    temporary = flow.folder / "recompute" / "temp"
    (repository,) = temporary.glob("checklistbot-*/repository")
    assert sorted(entry.name for entry in repository.iterdir()) == [".git"]
    assert not (repository / ".git" / "hooks").exists()
    assert flow.git.authorization
    assert READ not in (repository / ".git" / "config").read_text("utf-8") + capsys.readouterr().out


@pytest.mark.parametrize("what", ["another head", "another repository", "closed", "none"])
def test_a_run_that_no_open_pull_request_belongs_to_is_not_posted(
    flow: Flow, what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    pull = flow.github.pulls["octo/serving", 7]
    if what == "another head":
        pull.sha = "e" * 40
    elif what == "another repository":
        pull.repo_id = 3
    elif what == "closed":
        pull.state = "closed"
    else:
        flow.github.pulls.clear()
    assert flow.recompute() == 0
    assert "verdict" not in flow.outputs
    assert "no open pull request has this run's head" in capsys.readouterr().out
    assert flow.publish() == 0
    assert flow.github.bodies() == []


def test_a_report_about_another_commit_is_not_posted(flow: Flow, capsys: pytest.CaptureFixture[str]) -> None:
    assert flow.recompute() == 0
    flow.payload["workflow_run"]["head_sha"] = "e" * 40
    assert flow.publish() == 3
    assert "about another commit than the run" in capsys.readouterr().out
    assert flow.github.bodies() == []


def test_llm_key_is_refused_where_a_strangers_change_is_read(flow: Flow, capsys: pytest.CaptureFixture[str]) -> None:
    assert flow.recompute(OPENAI_API_KEY="sk-test") == 2
    assert "take OPENAI_API_KEY out" in capsys.readouterr().out
    assert flow.github.calls == []


def test_base_that_cannot_be_had_is_said_and_nothing_is_judged(flow: Flow, capsys: pytest.CaptureFixture[str]) -> None:
    flow.github.pulls["octo/serving", 7].base_sha = "e" * 40
    assert flow.recompute() == 3
    assert "base eeeeeeeeeeee is not available" in capsys.readouterr().out
    assert "verdict" not in flow.outputs


@pytest.mark.parametrize(
    ("name", "value"),
    [("REPORT", "/etc"), ("REPORT", "../x"), ("PULL_REQUEST", "7;id"), ("COMMENT_MODE", "on"), ("CREATE", "yes")],
)
def test_publish_checks_its_inputs(flow: Flow, name: str, value: str, capsys: pytest.CaptureFixture[str]) -> None:
    flow.outputs = {"pull-request": "7"}
    assert flow.publish(**{name: value}) == 2
    said = capsys.readouterr().out
    assert f"::error title=checklistbot::input {name.lower().replace('_', '-')}: expected" in said


@pytest.mark.parametrize("what", ["push", "same repository", "fork gone"])
def test_other_runs_are_left_alone(flow: Flow, what: str, capsys: pytest.CaptureFixture[str]) -> None:
    run = flow.payload["workflow_run"]
    if what == "push":
        run["event"] = "push"
    elif what == "same repository":
        run["head_repository"] = run["repository"]
    else:
        run["head_repository"] = None
    assert flow.recompute() == 0
    assert "nothing to do:" in capsys.readouterr().out
    assert flow.github.calls == []


def test_hostile_attributes_hide_nothing(flow: Flow, capsys: pytest.CaptureFixture[str]) -> None:
    """Attributes of the head that hide, filter, convert or diff by a command."""
    source, witness = flow.folder / "source", flow.folder / "witness"
    _git(source, "switch", "--quiet", "--detach", flow.head)
    attributes = "* -diff -text export-ignore filter=evil diff=evil merge=evil\n"
    (source / ".gitattributes").write_text(attributes, "utf-8")
    (source / ".gitconfig").write_text(
        f'[filter "evil"]\nsmudge = touch {witness}\n[diff "evil"]\ntextconv = touch {witness}\n'
    )
    _git(source, "add", ".gitattributes", ".gitconfig")
    _git(source, "commit", "--quiet", "--message", "hide")
    head = _git(source, "rev-parse", "HEAD")
    _git(source, "push", "--quiet", str(flow.folder / "server" / "octo" / "serving"), f"{head}:refs/pull/7/head")
    flow.github.pulls["octo/serving", 7].sha = flow.payload["workflow_run"]["head_sha"] = head
    assert flow.recompute() == 0, capsys.readouterr().out
    assert flow.outputs["verdict"] == "block"
    assert not witness.exists()
