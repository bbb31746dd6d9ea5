"""The fault matrix: every call × every fault → outcome; no report is lost, no comment is doubled.

``python tests/github/test_github_faults.py`` prints the matrix (for the notes).
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest
from fake_github import Actor, FakeGitHub, ManualClock, Pull
from github_faults import FAULTS, show, table

from checklistbot.github.comment import Published, Target, publish
from checklistbot.github.marker import Marker, split
from checklistbot.github.postable import compose
from checklistbot.model import InputError
from checklistbot.retry import Deadline

pytestmark = pytest.mark.needs("npm:@octokit/openapi")

LIST, POST, PATCH, DELETE = (
    "issues/list-comments",
    "issues/create-comment",
    "issues/update-comment",
    "issues/delete-comment",
)
PULL, GET, HIDDEN, HIDE = "pulls/get", "issues/get-comment", "graphql/hidden", "graphql/hide"
VIEWER, EDITS, USER, PULLS = "graphql/viewer", "graphql/edits", "users/get-authenticated", "pulls/list"
SECONDS = 90.0
FOREIGN = compose("### PASS, by somebody else", Marker(valid_at="2026-11-30T10:00:00Z"))


@dataclass(frozen=True)
class Flow:
    """A situation, the token that acts in it, and the call that is disturbed."""

    name: str
    call: str
    nth: int = 1
    comments: int = 0
    token: str = "ghs_test"
    by_head: bool = False
    mode: str = "update"


FLOWS = (
    Flow("who: workflow", VIEWER, comments=1),
    Flow("who: person", USER, comments=1, token="ghp_person"),
    Flow("which pull request", PULLS, comments=1, by_head=True),
    Flow("list", LIST, comments=1),
    Flow("create", POST),
    Flow("list after create", LIST, nth=2),
    Flow("update", PATCH, comments=1),
    Flow("edit history", EDITS, comments=1),
    Flow("delete a twin", DELETE, comments=2),
    Flow("is it the head", PULL, comments=1),
    Flow("read again", GET, comments=1),
    Flow("which are hidden", HIDDEN, comments=2),
    Flow("recreate: post", POST, comments=1, mode="recreate"),
    Flow("recreate: delete", DELETE, comments=1, mode="recreate"),
    Flow("hide-and-recreate: hide", HIDE, comments=1, mode="hide-and-recreate"),
)


@dataclass(frozen=True)
class Case:
    flow: Flow
    fault: str
    when: str
    times: int

    def __str__(self) -> str:
        return f"{self.flow.name} × {self.fault}, {self.when}, {'once' if self.times == 1 else 'always'}"


def cases() -> Iterator[Case]:
    for flow in FLOWS:
        for fault in FAULTS:
            for when in ("before", "after"):
                for times in (1, 999):
                    yield Case(flow, fault, when, times)


def marker(minute: int) -> Marker:
    return Marker(valid_at=f"2026-11-30T11:{minute:02}:00Z", config="c" * 64, head="a" * 40)


def run(github: FakeGitHub, flow: Flow, body: str, minute: int, clock: ManualClock) -> Published:
    return publish(
        body,
        marker(minute),
        Target("octo/serving", head_ref="octo:topic") if flow.by_head else Target("octo/serving", pr=7),
        token=flow.token,
        deadline=Deadline(SECONDS, clock.clock),
        api_url=github.api_url,
        mode=flow.mode,
        seconds_between_writes=0,
    )


def shown(github: FakeGitHub, login: str) -> list[str]:
    """The texts of one author that are not hidden."""
    return [split(c.body)[0] for _, c in sorted(github.comments.items()) if c.actor.login == login and not c.hidden]


def disturbed(github: FakeGitHub, case: Case) -> str:
    """One run with the fault, then one without; checks what must hold, and returns the first one's outcome."""
    flow = case.flow
    github.reset()
    github.pulls["octo/serving", 8] = Pull(8, "octo", "other")
    github.bot()
    github.person("ghp_person", "octo-person")
    me = github.actors[flow.token]
    github.put(Actor("mallory", "User", 9), FOREIGN)
    for n in range(flow.comments):
        github.put(me, compose(f"before {n}", marker(n)))
    fault = FAULTS[case.fault]
    github.faults = [replace(fault, op=flow.call, nth=flow.nth, times=case.times, when=case.when)]

    clock = ManualClock()
    try:
        done = run(github, flow, "the report", 30, clock)
        outcome, line = done.action + (" + warning" if done.warning else ""), done.warning or ""
    except InputError as error:
        done, outcome, line = None, f"exit {error.exit_code}", str(error)

    after = shown(github, me.login)
    assert github.faults[0].op in github.ops(), "the fault was not met"
    assert outcome != "exit 2"
    assert sum(clock.slept) <= SECONDS
    assert flow.token not in line
    assert "the report is" in line or "the report" not in line
    assert line.isprintable()
    if done is not None and done.action != "refused":
        assert after.count("the report") == 1, "published, and not there"
    else:
        assert "the report" in after or after[: flow.comments] == [f"before {n}" for n in range(flow.comments)], "lost"
    # Where the old one could not be retired, it stands beside the new one until the next run.
    assert len(after) <= max(1, flow.comments) + (flow.mode != "update"), "doubled"
    assert len([c for c in github.calls if c.op == POST]) <= 4
    assert github.bodies("mallory") == [FOREIGN]

    github.faults = []
    mended = run(github, flow, "the next report", 31, ManualClock())
    assert mended.action in ("created", "updated")
    assert shown(github, me.login) == ["the next report"]
    assert github.violations == []
    return outcome


ALL = list(cases())
#: A seeded sample in every test run; the matrix below runs all of them.
SAMPLE = random.Random(20261130).sample(ALL, 160)


@pytest.mark.parametrize("block", range(4))
def test_no_report_is_lost_and_no_comment_doubled(github: FakeGitHub, block: int) -> None:
    failed = []
    for case in SAMPLE[block::4]:
        try:
            disturbed(github, case)
        except AssertionError as error:
            failed.append(f"{case}: {error}")
    assert failed == []


@pytest.mark.parametrize(
    ("case", "outcome"),
    [
        (Case(FLOWS[0], "403 permission", "before", 999), "updated"),
        (Case(FLOWS[0], "401", "before", 999), "exit 3"),
        (Case(FLOWS[1], "403 permission", "before", 999), "updated"),
        (Case(FLOWS[2], "404", "before", 999), "exit 3"),
        (Case(FLOWS[3], "403 permission", "before", 999), "refused + warning"),
        (Case(FLOWS[3], "cut short", "before", 1), "updated"),
        (Case(FLOWS[4], "502", "after", 1), "created"),
        (Case(FLOWS[4], "502", "after", 999), "created"),
        (Case(FLOWS[4], "502", "before", 999), "exit 3"),
        (Case(FLOWS[4], "403 locked", "before", 999), "refused + warning"),
        (Case(FLOWS[4], "403 for an hour", "before", 1), "exit 3"),
        (Case(FLOWS[5], "500", "before", 999), "created + warning"),
        (Case(FLOWS[6], "409", "before", 1), "updated"),
        (Case(FLOWS[6], "422", "before", 1), "exit 3"),
        (Case(FLOWS[7], "500", "before", 999), "updated + warning"),
        (Case(FLOWS[7], "404", "before", 999), "updated"),
        (Case(FLOWS[8], "500", "before", 999), "updated + warning"),
        (Case(FLOWS[8], "404", "before", 999), "updated + warning"),
        (Case(FLOWS[9], "404", "before", 999), "updated"),
        (Case(FLOWS[9], "401", "before", 999), "exit 3"),
        (Case(FLOWS[10], "500", "before", 999), "updated"),
        (Case(FLOWS[12], "502", "after", 1), "created"),
        (Case(FLOWS[13], "500", "before", 999), "created + warning"),
        (Case(FLOWS[14], "403 permission", "before", 999), "created + warning"),
    ],
    ids=str,
)
def test_outcomes_by_name(github: FakeGitHub, case: Case, outcome: str) -> None:
    assert disturbed(github, case) == outcome


def matrix(github: FakeGitHub) -> str:
    return table(FLOWS, lambda flow, fault, when, times: disturbed(github, Case(flow, fault, when, times)))


if __name__ == "__main__":
    show(matrix)
