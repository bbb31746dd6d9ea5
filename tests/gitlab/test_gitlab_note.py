"""One note on a merge request: kept up to date, never doubled, never somebody else's; no token or server text in an error."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from fake_gitlab import FakeGitLab, serving

from checklistbot.commands.publish import command
from checklistbot.github.marker import Marker, content_digest, join
from checklistbot.gitlab import MergeRequest, publish, target_of
from checklistbot.model import InputError, UsageError
from checklistbot.retry import Deadline

TOKEN = "glpat-ThisTokenIsOnlyForThisTest"


@pytest.fixture
def gitlab() -> Iterator[FakeGitLab]:
    with serving() as server:
        yield server


def _publish(gitlab: FakeGitLab, body: str, at: str = "2026-11-30T12:00:00Z", head: str = "a", **more: bool) -> str:
    marker = Marker(content=content_digest(body), head=head * 40, valid_at=at)
    return publish(body, marker, MergeRequest(gitlab.url, "acme/serving", 7, TOKEN), deadline=Deadline(60), **more)


def _firsts(gitlab: FakeGitLab) -> list[str]:
    return [note["body"].splitlines()[0] for note in gitlab.notes]


def test_created_once_and_kept_up_to_date(gitlab: FakeGitLab) -> None:
    for number in range(3):  # more than one page of other people's
        gitlab.put(f"note {number}", author=5)
    assert _publish(gitlab, "### BLOCK") == "created"
    assert _publish(gitlab, "### BLOCK", "2026-11-30T12:01:00Z") == "unchanged"
    assert _publish(gitlab, "### PASS", "2026-11-30T12:02:00Z") == "updated"
    assert _publish(gitlab, "### BLOCK", "2026-11-30T12:01:30Z") == "older"
    assert _firsts(gitlab) == ["note 0", "note 1", "note 2", "### PASS"]
    assert gitlab.tokens == {TOKEN}


def test_twins_go_and_the_newest_text_stays_in_the_oldest_note(gitlab: FakeGitLab) -> None:
    old, new = (Marker(head="a" * 40, valid_at=f"2026-11-30T12:0{n}:00Z") for n in (0, 5))
    kept = gitlab.put(join("### old", old))
    gitlab.put(join("### newest", new))
    assert _publish(gitlab, "### between", "2026-11-30T12:03:00Z") == "older"
    assert (_firsts(gitlab), gitlab.notes[0]["id"]) == (["### newest"], kept["id"])


def test_marker_of_somebody_else_is_no_slot(gitlab: FakeGitLab) -> None:
    theirs = gitlab.put(join("### PASS", Marker(head="a" * 40, valid_at="2027-11-30T12:00:00Z")), author=5)
    before = theirs["body"]
    assert _publish(gitlab, "### BLOCK") == "created"
    assert theirs["body"] == before


def test_answer_lost_after_the_write_makes_no_twin(gitlab: FakeGitLab) -> None:
    gitlab.faults = [("POST", 502, True)]
    assert _publish(gitlab, "### BLOCK") == "created"
    assert _firsts(gitlab) == ["### BLOCK"]


def test_a_passing_fault_is_waited_out(gitlab: FakeGitLab) -> None:
    gitlab.faults = [("GET", 503, False), ("POST", 429, False)]
    assert _publish(gitlab, "### BLOCK") == "created"
    assert _firsts(gitlab) == ["### BLOCK"]


@pytest.mark.parametrize(
    ("status", "word"), [(401, "GITLAB_TOKEN"), (403, "scope api"), (404, "merge request"), (302, "302")]
)
def test_refusals_are_one_line_without_token_or_server_text(gitlab: FakeGitLab, status: int, word: str) -> None:
    gitlab.faults = [("GET", status, False)]
    with pytest.raises(InputError, match=word) as caught:
        _publish(gitlab, "### BLOCK")
    assert TOKEN not in str(caught.value)
    assert "secret" not in str(caught.value)
    assert gitlab.notes == []


def test_pushed_in_between_or_of_no_concern_is_not_written(gitlab: FakeGitLab) -> None:
    assert _publish(gitlab, "### BLOCK", head="b") == "moved"
    assert _publish(gitlab, "### PASS", create=False) == "none"
    assert gitlab.notes == []


@pytest.mark.parametrize("name", ["CI_API_V4_URL", "CI_PROJECT_ID", "CI_MERGE_REQUEST_IID", "GITLAB_TOKEN"])
def test_what_the_job_does_not_say_is_asked_for_by_name(name: str) -> None:
    given = {"CI_API_V4_URL": "https://gitlab.example/api/v4", "CI_PROJECT_ID": "42", "CI_MERGE_REQUEST_IID": "7"}
    given |= {"GITLAB_TOKEN": TOKEN}
    assert target_of(given) == MergeRequest("https://gitlab.example/api/v4", "42", 7, TOKEN)
    with pytest.raises(UsageError, match=name):
        target_of({**given, name: ""})


def test_command_posts_a_report(gitlab: FakeGitLab, tmp_path: Path) -> None:
    marker = Marker(head="a" * 40, valid_at="2026-11-30T12:00:00Z")
    (tmp_path / "comment.md").write_text(join("### BLOCK", marker), "utf-8")
    (tmp_path / "report.json").write_text(json.dumps({"schema": "report/1"}), "utf-8")
    job = {"CI_API_V4_URL": gitlab.url, "CI_PROJECT_ID": "42", "CI_MERGE_REQUEST_IID": "7", "GITLAB_TOKEN": TOKEN}
    done = CliRunner().invoke(command, [str(tmp_path), "--gitlab"], env=job, catch_exceptions=False)
    assert done.output.strip() == "note created"
    assert _firsts(gitlab) == ["### BLOCK"]
