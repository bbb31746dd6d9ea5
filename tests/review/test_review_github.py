"""The whole way on GitHub, in this process: what an event makes of comment, check runs and exit code."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_github import Actor, FakeGitHub, serving
from openapi_contract import contract_of

from checklistbot.commands.action import run as run_action
from checklistbot.commands.review import ReviewOptions, ReviewOutcome, run_review
from checklistbot.github.event import Event
from checklistbot.github.marker import split

pytestmark = pytest.mark.needs("npm:@octokit/openapi")

TOP = Path(__file__).parents[2]
EXAMPLE = TOP / "examples" / "glm-5.3-disaggregated"
NOW = "2026-11-30T12:00:00Z"


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example; `readme` changes no deployment, `policy` has ticks required on the base."""
    target = tmp_path_factory.mktemp("on-github") / "repository"
    subprocess.run(["bash", EXAMPLE / "make-repository.sh", target], check=True)
    git(target, "checkout", "--quiet", "-b", "readme", "base")
    (target / "README.md").write_text("words\n", "utf-8")
    commit(target, "readme")
    git(target, "checkout", "--quiet", "-b", "policy", "base")
    with (target / ".checklistbot.yml").open("a", encoding="utf-8") as file:
        file.write("comment: {require_ticks: [canary-leak], ticks_by: write}\n")
    commit(target, "policy")
    git(target, "checkout", "--quiet", "-b", "policy-head")
    for role in ("prefill", "decode"):
        path = target / "serve" / f"{role}.yaml"
        path.write_text(path.read_text("utf-8").replace('"131072"', '"1048576"'), "utf-8")
    commit(target, "policy-head")
    return target


def git(folder: Path, *arguments: str) -> str:
    return subprocess.run(["git", "-C", folder, *arguments], check=True, capture_output=True, text=True).stdout.strip()


def commit(folder: Path, message: str) -> None:
    git(folder, "add", "--all")
    git(folder, "-c", "user.name=octo", "-c", "user.email=o@octo.invalid", "commit", "--quiet", "--message", message)


@pytest.fixture(scope="module")
def server(request: pytest.FixtureRequest) -> Iterator[FakeGitHub]:
    contract = contract_of(request.config.rootpath / "tests" / "tools" / "node_modules" / "@octokit" / "openapi")
    with serving(contract) as running:
        yield running


@pytest.fixture
def github(server: FakeGitHub) -> Iterator[FakeGitHub]:
    server.reset()
    server.bot()
    yield server
    assert server.violations == []


def review(
    github: FakeGitHub, repository: Path, head: str = "head", base: str = "base", **changes: Any
) -> ReviewOutcome:
    github.pulls["octo/serving", 7].sha = git(repository, "rev-parse", head)
    environment = {
        "GITHUB_API_URL": github.api_url,
        "GITHUB_TOKEN": "ghs_test",
        "CHECKLISTBOT_NOW": changes.pop("now", NOW),
        "GITHUB_RUN_ID": "4711",
    }
    options: dict[str, Any] = {
        "publish": True,
        "show": False,
        "repository": "octo/serving",
        "pull_request": 7,
        **changes,
    }
    return run_review(ReviewOptions(repository, base=base, head=head, environ=environment, **options))


def shown(github: FakeGitHub) -> list[str]:
    return [split(body)[0] for body in github.bodies()]


def test_a_block_is_a_comment_a_red_check_run_and_its_lines(github: FakeGitHub, repository: Path) -> None:
    done = review(github, repository)
    assert (done.exit_code, done.conclusion, done.annotations) == (1, "failure", ())
    assert done.comment_url
    (run,) = github.checks.values()
    assert (run["name"], run["conclusion"]) == ("checklistbot / verdict", "failure")
    assert run["output"]["title"].startswith("⛔ BLOCK · glm-5.3")
    assert {(a["path"], a["start_line"]) for a in run["_annotations"]} >= {("serve/prefill.yaml", 37)}


def test_without_checks_write_the_lines_are_workflow_commands(github: FakeGitHub, repository: Path) -> None:
    github.checks_allowed = False
    done = review(github, repository)
    assert done.warnings == ()
    assert any(line.startswith("::error file=serve/prefill.yaml,line=37,") for line in done.annotations)
    assert not any("isolation" in line for line in done.annotations), "debt of others is not annotated"


def test_nothing_is_posted_on_a_change_that_touches_no_deployment(github: FakeGitHub, repository: Path) -> None:
    review(github, repository, "readme")
    assert github.comments == {}


def test_what_stood_there_is_brought_up_to_date_when_the_change_is_taken_back(
    github: FakeGitHub, repository: Path
) -> None:
    review(github, repository)
    review(github, repository, "readme", now="2026-11-30T12:05:00Z")
    (body,) = shown(github)
    assert "nothing new" in body


def test_a_draft_is_folded(github: FakeGitHub, repository: Path) -> None:
    review(github, repository, draft=True)
    (body,) = shown(github)
    assert body.startswith("### ⛔ BLOCK")
    assert "\n#### " not in body.partition("<details><summary>Draft: ")[0]


@pytest.mark.parametrize("label", ["bug", "checklistbot-override"])
def test_a_label_checks_again_and_only_the_one_that_breaks_the_glass_writes(
    github: FakeGitHub, repository: Path, label: str
) -> None:
    """The same job for the same head must not end green because it had nothing to do."""
    head = git(repository, "rev-parse", "head")
    github.pulls["octo/serving", 7].labels = (label,)
    github.label_log = [{"event": "labeled", "login": "octo-admin", "label": label, "at": "2026-11-30T11:30:00Z"}]
    github.pushes = [(head, "2026-11-30T11:00:00Z")]
    github.roles = {"octo-admin": "admin", "octo-second": "maintain"}
    for login in ("octo-admin", "octo-second"):
        reason = github.put(Actor(login, "User"), f"checklistbot-override: rollback at 3 am, {login}")
        reason.created_at = "2026-11-30T11:40:00Z"
    event = Event("pull_request", "overrides", "labeled", "octo/serving", head=head, label=label, sender="octo-admin")
    done = review(github, repository, publish=False, event=event)
    if label == "bug":
        assert (done.exit_code, shown(github)) == (1, [])
    else:
        assert (done.exit_code, done.conclusion) == (0, "success")
        (body,) = shown(github)
        assert "octo-admin" in body.splitlines()[0]
        assert "rollback at 3 am" in body.splitlines()[0]


def test_required_ticks_are_pending_and_an_edited_comment_ends_them(
    github: FakeGitHub, repository: Path, tmp_path: Path
) -> None:
    review(github, repository, "policy-head", "policy")
    runs = {run["name"]: run for run in github.checks.values()}
    assert runs["checklistbot / checklist"]["status"] == "in_progress"

    github.roles = {"octo-reviewer": "write"}
    (stored,) = github.comments.values()
    before, lines = stored.body, stored.body.splitlines()
    # What is waited for stands first: a long comment leaves out the last ones.
    titles = [line for line in lines if line.startswith("- [ ] ")]
    assert ["canary" in line for line in titles] == sorted(("canary" in line for line in titles), reverse=True)
    assert "canary" in titles[0]
    ticked = [
        line.replace("- [ ] ", "- [x] ") if "canary" in line and line.startswith("- [ ] ") else line for line in lines
    ]
    stored.save(Actor("octo-reviewer", "User"), "\n".join(ticked))
    payload = {
        "action": "edited",
        "issue": {"number": 7, "pull_request": {}},
        "comment": {"id": stored.id, "body": stored.body},
        "changes": {"body": {"from": before}},
        "sender": {"login": "octo-reviewer"},
    }
    (tmp_path / "event.json").write_text(json.dumps(payload), "utf-8")
    (tmp_path / "output").touch()
    environment = {
        "GITHUB_EVENT_NAME": "issue_comment",
        "GITHUB_EVENT_PATH": str(tmp_path / "event.json"),
        "GITHUB_REPOSITORY": "octo/serving",
        "GITHUB_API_URL": github.api_url,
        "GITHUB_TOKEN": "ghs_test",
        "GITHUB_OUTPUT": str(tmp_path / "output"),
        "CHECKLISTBOT_NOW": "2026-11-30T12:10:00Z",
    }
    assert run_action(environment) == 0
    assert runs["checklistbot / checklist"]["conclusion"] == "success"
    assert "conclusion" in (tmp_path / "output").read_text("utf-8")


def test_a_change_without_deployments_has_nothing_to_tick(github: FakeGitHub, repository: Path) -> None:
    git(repository, "branch", "--force", "policy-readme", "policy")
    review(github, repository, "policy-readme", "policy")
    runs = {run["name"]: run["conclusion"] for run in github.checks.values()}
    assert runs["checklistbot / checklist"] == "success"


def test_check_runs_of_the_second_step_come_from_the_folder(
    github: FakeGitHub, repository: Path, tmp_path: Path
) -> None:
    from checklistbot.commands.publish import run as run_publish
    from checklistbot.github.comment import Target

    review(github, repository, publish=False, output=tmp_path)
    assert github.comments == {}
    environment = {"GITHUB_API_URL": github.api_url, "GITHUB_TOKEN": "ghs_test"}
    assert run_publish(tmp_path, Target("octo/serving", 7), environment, pause_s=0).startswith("comment created")
    assert [run["conclusion"] for run in github.checks.values()] == ["failure"]
