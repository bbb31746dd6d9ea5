"""``checklistbot publish``: what it reads, what it posts, what it says, what it exits with."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from fake_github import FakeGitHub, Fault

from checklistbot.commands.publish import read_report
from checklistbot.github.marker import Marker, join, parse, split
from checklistbot.model import InputError, UsageError

POST, LIST = "issues/create-comment", "issues/list-comments"
REPORT: dict[str, Any] = {
    "schema": "report/1",
    "head": {"ref": "topic", "commit": "a" * 40},
    "facts": {"base": None, "head": {"digests": {"prod/glm": {"config": "a" * 64}}}},
    "llm": {"status": "not-asked"},
    "checklist": {"schema": "checklist/1", "language": "en", "origin": "builtin", "model": None, "items": []},
}
NOW = {"CHECKLISTBOT_NOW": "2026-11-30T12:00:00Z"}


@pytest.fixture
def report_dir(tmp_path: Path) -> Path:
    (tmp_path / "comment.md").write_text("### ⛔ BLOCK\n\nthe report\n", "utf-8")
    (tmp_path / "report.json").write_text(json.dumps(REPORT), "utf-8")
    return tmp_path


# --- reading ---------------------------------------------------------------------------------------------------------


def test_the_marker_is_made_from_the_report_and_the_clock(report_dir: Path) -> None:
    body, marker = read_report(report_dir, {**NOW, "GITHUB_RUN_ID": "77"}, "team-a")
    assert body == "### ⛔ BLOCK\n\nthe report"
    assert (marker.id, marker.valid_at, marker.run, marker.head) == ("team-a", "2026-11-30T12:00:00Z", "77", "a" * 40)
    assert marker.checklist is not None


def test_a_marker_in_the_file_keeps_the_moment_of_the_review(report_dir: Path) -> None:
    written = Marker(id="x", valid_at="2026-11-29T08:00:00Z", head="b" * 40)
    (report_dir / "comment.md").write_text(join("body", written), "utf-8")
    assert read_report(report_dir, NOW) == ("body", written)


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("comment.md", None, "cannot be read"),
        ("report.json", None, "cannot be read"),
        ("comment.md", b"\xff\xfe", "not UTF-8"),
        ("comment.md", b"x" * (2**20 + 1), "larger than 1048576 bytes"),
        ("report.json", b"", "no report/1"),
        ("report.json", b"[]", "no report/1"),
        ("report.json", b'{"schema": "check/1"}', "no report/1"),
        ("report.json", b"[" * 100_000, "no report/1"),
    ],
)
def test_a_report_that_is_none(report_dir: Path, name: str, content: bytes | None, reason: str) -> None:
    (report_dir / name).unlink()
    if content is not None:
        (report_dir / name).write_bytes(content)
    with pytest.raises(InputError, match=reason) as error:
        read_report(report_dir, NOW)
    assert name in str(error.value)


@pytest.mark.skipif(os.name == "nt", reason="links need rights there")
def test_links_pipes_and_folders_are_not_read(report_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    secret = tmp_path_factory.mktemp("elsewhere") / "secret"
    secret.write_text("secret", "utf-8")
    comment = report_dir / "comment.md"
    for make in (lambda: comment.symlink_to(secret), lambda: os.mkfifo(comment), comment.mkdir):
        comment.unlink()
        make()
        with pytest.raises(InputError, match=r"comment\.md: (cannot be read|not a file)"):
            read_report(report_dir, NOW)
        if comment.is_dir():
            break


def test_a_clock_that_is_none_is_the_calls_fault(report_dir: Path) -> None:
    with pytest.raises(UsageError, match="CHECKLISTBOT_NOW"):
        read_report(report_dir, {"CHECKLISTBOT_NOW": "soon"})


# --- the whole command, as a process ---------------------------------------------------------------------------------


def checklistbot(
    github: FakeGitHub | None, *arguments: str, token: str = "ghs_test"
) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "GITHUB_TOKEN": token, "GITHUB_API_URL": github.api_url if github else ""}
    command = [sys.executable, "-m", "checklistbot", "publish", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60, check=False)


@pytest.mark.needs("npm:@octokit/openapi")
def test_create_then_unchanged_then_update(github: FakeGitHub, report_dir: Path) -> None:
    github.bot()
    target = (str(report_dir), "--repo", "octo/serving", "--pr", "7")
    url = "https://github.com/octo/serving/pull/7#issuecomment-1001"

    for expected in ("created", "unchanged"):
        done = checklistbot(github, *target)
        assert (done.returncode, done.stdout, done.stderr) == (0, f"comment {expected}: {url}\n", "")
    (report_dir / "comment.md").write_text("### pass\n", "utf-8")
    done = checklistbot(github, str(report_dir), "--repo", "octo/serving", "--head-ref", "octo:topic")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"comment updated: {url}\n", "")
    assert [split(body)[0] for body in github.bodies()] == ["### pass"]


@pytest.mark.needs("npm:@octokit/openapi")
def test_the_config_names_id_and_mode(github: FakeGitHub, report_dir: Path) -> None:
    github.bot()
    config = report_dir / "config.yml"
    target = (str(report_dir), "--repo", "octo/serving", "--pr", "7", "--config", str(config))
    config.write_text("version: 1\ncomment: {id: team-a}\n", "utf-8")
    assert checklistbot(github, *target).returncode == 0
    marker = parse(github.bodies()[0])
    assert marker is not None
    assert marker.id == "team-a"
    config.write_text("version: 1\ncomment: {mode: off}\n", "utf-8")
    done = checklistbot(github, *target)
    assert (done.returncode, done.stdout) == (0, "comment off\n")


@pytest.mark.needs("npm:@octokit/openapi")
@pytest.mark.parametrize(
    ("faults", "line"),
    [
        ([Fault(POST, status=403, message="no")], "no comment: the token may not write octo/serving#7 (403)"),
        ([Fault(LIST, status=401, message="Bad credentials")], "GitHub does not accept the token (401)"),
        ([Fault(LIST, status=429, headers={"Retry-After": "9999"})], "GitHub's rate limit ends in 9999 s"),
    ],
)
def test_what_github_does_not_take_is_one_line_and_exit_3(
    github: FakeGitHub, report_dir: Path, faults: list[Fault], line: str
) -> None:
    github.bot()
    github.faults = faults
    before = {path.name: path.read_bytes() for path in report_dir.iterdir()}
    done = checklistbot(github, str(report_dir), "--repo", "octo/serving", "--pr", "7")

    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith(f"checklistbot: {line}")
    assert done.stderr.count("\n") == 1
    assert {path.name: path.read_bytes() for path in report_dir.iterdir()} == before


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--repo", "octo/serving"], 2),
        (["--repo", "octo/serving", "--pr", "7", "--head-ref", "octo:topic"], 2),
        (["--repo", "octo", "--pr", "7"], 2),
        (["--pr", "7"], 2),
        (["--repo", "octo/serving", "--pr", "seven"], 2),
    ],
)
def test_a_wrong_call_is_one_line_and_exit_2(report_dir: Path, arguments: list[str], code: int) -> None:
    done = checklistbot(None, str(report_dir), *arguments)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (code, "", 1)


def test_no_token_is_said(report_dir: Path) -> None:
    done = checklistbot(None, str(report_dir), "--repo", "octo/serving", "--pr", "7", token="")
    assert (done.returncode, done.stdout) == (2, "")
    assert "GITHUB_TOKEN: no token given" in done.stderr


def test_a_comment_that_must_not_be_posted_is_refused_before_any_request(report_dir: Path) -> None:
    (report_dir / "comment.md").write_text("<img src=https://evil/x>\n", "utf-8")
    done = checklistbot(None, str(report_dir), "--repo", "octo/serving", "--pr", "7")
    assert (done.returncode, done.stderr) == (3, "checklistbot: the comment holds HTML that is not ours (line 1)\n")


def test_the_command_imports_no_llm_and_no_engine() -> None:
    code = (
        "import sys; from checklistbot.cli import main; main(['publish', '--help']);"
        "print([m for m in ('openai', 'anthropic', 'github', 'pydantic', 'tree_sitter', 'markdown_it') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
