"""The nightly check's one issue: opened, kept up to date, closed; never somebody else's."""

from __future__ import annotations

from fake_github import FakeGitHub, Fault

from checklistbot.github.client import GitHub
from checklistbot.github.issue import Kept, keep
from checklistbot.github.marker import Marker, content_digest, join
from checklistbot.retry import Deadline

REPO = "octo/serving"


def _keep(github: FakeGitHub, body: str, *, blocked: bool = True, head: str = "a") -> Kept:
    marker = Marker(content=content_digest(body), head=head * 40, valid_at="2026-11-30T12:00:00Z")
    api = GitHub(github.bot(), deadline=Deadline(60), api_url=github.api_url, seconds_between_writes=0)
    try:
        return keep(api, REPO, body, marker, blocked=blocked, language="en")
    finally:
        api.close()


def test_opened_once_updated_and_closed(github: FakeGitHub) -> None:
    assert _keep(github, "### BLOCK one").action == "opened"
    assert _keep(github, "### BLOCK one").action == "unchanged"
    assert _keep(github, "### BLOCK two").action == "updated"
    (issue,) = github.issues.values()
    assert (issue["state"], issue["body"].splitlines()[0]) == ("open", "### BLOCK two")
    assert _keep(github, "### PASS", blocked=False).action == "closed"
    assert (issue["state"], issue["body"].splitlines()[0]) == ("closed", "### PASS")
    assert _keep(github, "### PASS", blocked=False).action == "none"
    assert github.violations == []


def test_an_issue_with_our_marker_by_somebody_else_is_left_alone(github: FakeGitHub) -> None:
    body = join("### PASS", Marker(head="a" * 40, valid_at="2026-11-30T12:00:00Z"))
    sent = {"title": "x", "body": body, "labels": ["checklistbot"]}
    github.issues[5] = github.contract.issue(5, "mallory", sent)
    assert _keep(github, "### BLOCK").action == "opened"
    assert github.issues[5]["body"] == body


def test_answer_lost_after_the_write_makes_no_twin(github: FakeGitHub) -> None:
    github.faults.append(Fault("issues/create", status=502, when="after", headers={"Retry-After": "0"}))
    assert _keep(github, "### BLOCK").action == "opened"
    assert len(github.issues) == 1
