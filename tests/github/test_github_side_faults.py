"""The fault matrix of what stands beside the comment: check runs, ticks, overrides. Nothing doubled, nothing taken for granted.

``python tests/github/test_github_side_faults.py`` prints the matrix (for the notes).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import pytest
from fake_github import Actor, FakeGitHub, ManualClock
from github_faults import FAULTS, show, table

from checklistbot.commands.publish import post_checks
from checklistbot.github import boxes, ticks
from checklistbot.github.checks import Outline, Required
from checklistbot.github.client import GitHub
from checklistbot.github.comment import Target
from checklistbot.github.marker import Marker
from checklistbot.github.override import calls
from checklistbot.github.postable import compose
from checklistbot.model import InputError
from checklistbot.retry import Deadline

pytestmark = pytest.mark.needs("npm:@octokit/openapi")

HEAD, SECONDS, LABEL = "a" * 40, 90.0, "checklistbot-override"
KEY, FACTS = "0" * 12, "1" * 12
TICKED = "- [x] canaries"


def checked(github: FakeGitHub, clock: ManualClock, minute: int = 5) -> str:
    wanted = Outline(
        "default", HEAD, f"2026-11-30T11:{minute:02}:00Z", "failure", "BLOCK", "### BLOCK", (), (REQUIRED,)
    )
    deadline = Deadline(SECONDS, clock.clock)
    done = post_checks(
        wanted, Target("octo/serving", 7), token="ghs_test", deadline=deadline, api_url=github.api_url, pause_s=0
    )
    states = sorted(f"{run['name'].split(' ')[-1]} {run['conclusion'] or 'pending'}" for run in github.checks.values())
    assert len(states) == len({state.split(" ")[0] for state in states}), "a check run is doubled"
    assert "verdict success" not in states
    return (
        ("exit 3" if done.failed else "done")
        + (" + warning" if done.warnings else "")
        + f": {', '.join(states) or 'none'}"
    )


def judged(github: FakeGitHub, clock: ManualClock) -> str:
    api = GitHub("ghs_test", deadline=Deadline(SECONDS, clock.clock), api_url=github.api_url)
    pull = api.pull("octo/serving", 7)
    return ticks.judge(api, "octo/serving", pull, "default", (REQUIRED,), "team:octo/sre")[0].standing


def overridden(github: FakeGitHub, clock: ManualClock) -> str:
    api = GitHub("ghs_test", deadline=Deadline(SECONDS, clock.clock), api_url=github.api_url)
    found = calls(api, "octo/serving", api.pull("octo/serving", 7), LABEL)
    return ", ".join(
        f"{call.permission} at {'the head' if call.head == HEAD else 'an unknown commit'}" for call in found
    )


REQUIRED = Required(KEY, FACTS, "canaries")


@dataclass(frozen=True)
class Flow:
    name: str
    call: str
    act: Callable[[FakeGitHub, ManualClock], str]


FLOWS = (
    Flow("check run: find", "checks/list-for-ref", checked),
    Flow("check run: create", "checks/create", checked),
    Flow("check run: update", "checks/update", checked),
    Flow("tick: permission", "repos/get-collaborator-permission-level", judged),
    Flow("tick: team", "teams/get-membership-for-user-in-org", judged),
    Flow("tick: history", "graphql/edits", judged),
    Flow("tick: comments", "issues/list-comments", judged),
    Flow("override: events", "issues/list-events", overridden),
    Flow("override: pushes", "repos/list-activities", overridden),
    Flow("override: permission", "repos/get-collaborator-permission-level", overridden),
)


def cases() -> Iterator[tuple[Flow, str, str, int]]:
    for flow in FLOWS:
        for fault in FAULTS:
            for when in ("before", "after"):
                for times in (1, 999):
                    yield flow, fault, when, times


def disturbed(github: FakeGitHub, flow: Flow, fault: str, when: str, times: int) -> str:
    """One run with the fault. What is not known is never taken for ticked, allowed, or green."""
    github.reset()
    bot = github.actors[github.bot()]
    github.roles, github.teams = {"octo-reviewer": "write", "octo-admin": "admin"}, {"octo/sre": {"octo-reviewer"}}
    github.pulls["octo/serving", 7].labels = (LABEL,)
    github.label_log = [{"event": "labeled", "login": "octo-admin", "label": LABEL, "at": "2026-11-30T11:30:00Z"}]
    github.pushes = [(HEAD, "2026-11-30T11:00:00Z")]
    line = TICKED.replace("x", " ")
    digest = boxes._digest("1 canaries")
    stored = github.put(bot, compose(line, Marker(valid_at="2026-11-30T11:00:00Z", boxes=f"{KEY}:{FACTS}:{digest}")))
    stored.save(Actor("octo-reviewer", "User"), stored.body.replace(line, TICKED))
    if flow.call == "checks/update":
        checked(github, ManualClock(), 1)
    github.faults = [
        replace(FAULTS[fault], op=flow.call, nth=github.seen.get(flow.call, 0) + 1, times=times, when=when)
    ]
    clock = ManualClock()
    try:
        outcome = flow.act(github, clock)
    except InputError as error:
        outcome = f"exit {error.exit_code}"
        assert str(error).isprintable()
        assert "ghs_test" not in str(error)
    assert flow.call in github.ops(), "the fault was not met"
    assert sum(clock.slept) <= SECONDS
    assert github.violations == []
    return outcome


ALL = list(cases())


def test_nothing_is_doubled_and_nothing_unknown_counts(github: FakeGitHub) -> None:
    for case in random.Random(20261201).sample(ALL, 60):
        outcome = disturbed(github, *case)
        assert outcome != "exit 2", case


@pytest.mark.parametrize(
    ("flow", "fault", "outcome"),
    [
        (FLOWS[1], "500", "exit 3 + warning: none"),
        (FLOWS[1], "403 permission", "done + warning: none"),
        (FLOWS[3], "404", "not-entitled"),
        (FLOWS[3], "500", "exit 3"),
        (FLOWS[4], "404", "not-entitled"),
        (FLOWS[5], "404", "unknown"),
        (FLOWS[5], "500", "exit 3"),
        (FLOWS[7], "502", "exit 3"),
        (FLOWS[8], "404", "admin at an unknown commit"),
        (FLOWS[9], "404", "none at the head"),
    ],
    ids=lambda value: value.name if isinstance(value, Flow) else value,
)
def test_outcomes_beside_the_comment_by_name(github: FakeGitHub, flow: Flow, fault: str, outcome: str) -> None:
    assert disturbed(github, flow, fault, "before", 999) == outcome


def matrix(github: FakeGitHub) -> str:
    return table(FLOWS, lambda flow, fault, when, times: disturbed(github, flow, fault, when, times))


if __name__ == "__main__":
    show(matrix)
