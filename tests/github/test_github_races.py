"""Several publishers at once: whatever the order of their calls, one comment stays and it holds the newest text."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from fake_github import FakeGitHub, Fault, ManualClock, Turns

from checklistbot.github.comment import Published, Target, publish
from checklistbot.github.marker import Marker, split
from checklistbot.github.postable import compose
from checklistbot.model import InputError
from checklistbot.retry import Deadline

pytestmark = pytest.mark.needs("npm:@octokit/openapi")

TARGET = Target("octo/serving", pr=7)
LIST, POST, PATCH, EDITS = "issues/list-comments", "issues/create-comment", "issues/update-comment", "graphql/edits"


@dataclass
class Outcome:
    """What each publisher came back with, by its token."""

    published: dict[str, Published] = field(default_factory=dict)
    failed: dict[str, InputError] = field(default_factory=dict)
    broken: list[BaseException] = field(default_factory=list)


def marker(minute: int) -> Marker:
    return Marker(valid_at=f"2026-11-30T11:{minute:02}:00Z", config="c" * 64)


def texts(github: FakeGitHub) -> list[str]:
    return [split(body)[0] for body in github.bodies()]


def race(github: FakeGitHub, minutes: dict[str, int], finish: Callable[[str], None] = lambda name: None) -> Outcome:
    """One publisher a token, each with its own minute and text, all at once."""
    outcome = Outcome()

    def run(token: str, minute: int) -> None:
        try:
            outcome.published[token] = publish(
                f"text of minute {minute}",
                marker(minute),
                TARGET,
                token=token,
                deadline=Deadline(300, ManualClock().clock),
                api_url=github.api_url,
                seconds_between_writes=0,
            )
        except InputError as error:
            outcome.failed[token] = error
        except BaseException as error:
            outcome.broken.append(error)
        finally:
            finish(token)

    for token in minutes:
        github.bot(token)
    threads = [threading.Thread(target=run, args=entry, daemon=True) for entry in minutes.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert outcome.broken == []
    return outcome


def in_turns(
    github: FakeGitHub, minutes: dict[str, int], choose: Callable[[list[str]], str]
) -> tuple[Outcome, list[str]]:
    turns = Turns(list(minutes), choose)
    github.gate = turns.gate
    outcome = race(github, minutes, turns.finish)
    github.gate = lambda call, moment: None
    return outcome, turns.order


# --- the worst orders, by name ---------------------------------------------------------------------------------------


def test_two_creates_at_once(github: FakeGitHub) -> None:
    """Both look before either posts, and both have posted before either looks again."""
    looked, posted = threading.Barrier(2), threading.Barrier(2)
    seen: dict[str, int] = {}

    def gate(call, moment) -> None:
        if (call.op, moment) == (LIST, "after"):
            seen[call.token] = seen.get(call.token, 0) + 1
            if seen[call.token] == 1:
                looked.wait(20)
        elif (call.op, moment) == (POST, "after"):
            posted.wait(20)

    github.gate = gate
    outcome = race(github, {"ghs_old": 1, "ghs_new": 2})

    assert github.ops(POST) == [POST, POST]
    assert texts(github) == ["text of minute 2"]
    assert {done.comment_id for done in outcome.published.values()} == {1001}
    assert {done.warning for done in outcome.published.values()} == {None}


@pytest.mark.parametrize("first", ["ghs_old", "ghs_new"])
def test_two_edits_at_once(github: FakeGitHub, first: str) -> None:
    """Both look, then one edits and checks and is done, then the other edits: it must not win by being late."""
    github.put(github.actors[github.bot()], compose("before", marker(0)))
    looks = 8  # each asks for the pull request, who it is, for the list, and for the comment
    second = "ghs_new" if first == "ghs_old" else "ghs_old"

    def choose(waiting: list[str]) -> str:
        nonlocal looks
        looks -= 1
        return waiting[looks % len(waiting)] if looks >= 0 else first if first in waiting else second

    outcome, order = in_turns(github, {"ghs_old": 1, "ghs_new": 2}, choose)

    assert [entry for entry in order if PATCH in entry][:2] == [f"{first}:{PATCH}", f"{second}:{PATCH}"]
    assert texts(github) == ["text of minute 2"]
    assert outcome.published["ghs_new"].action == "updated"
    assert outcome.published["ghs_old"].action == ("updated" if first == "ghs_old" else "older")


def test_without_an_edit_history_the_last_to_write_wins_and_one_comment_stays(github: FakeGitHub) -> None:
    """What an old GHES gives: the newer text can be lost to a late edit, but never doubled."""
    github.put(github.actors[github.bot()], compose("before", marker(0)))
    github.faults = [Fault(EDITS, status=404, times=99)]
    looks = 8

    def choose(waiting: list[str]) -> str:
        nonlocal looks
        looks -= 1
        return waiting[looks % len(waiting)] if looks >= 0 else waiting[0]  # ghs_new before ghs_old

    in_turns(github, {"ghs_old": 1, "ghs_new": 2}, choose)
    assert texts(github) == ["text of minute 1"]


def test_a_run_that_dies_after_its_post_is_mended_by_the_other(github: FakeGitHub) -> None:
    bot = github.actors[github.bot()]

    def gate(call, moment) -> None:
        if (call.op, moment) == (POST, "after"):
            github.put(bot, compose("text of the dead", marker(30)))

    github.gate = gate
    outcome = race(github, {"ghs_old": 1})

    assert outcome.published["ghs_old"].action == "older"
    assert texts(github) == ["text of the dead"]


# --- any order -------------------------------------------------------------------------------------------------------

NAMES = ("ghs_a", "ghs_b", "ghs_c")


@pytest.mark.parametrize("block", range(4))
def test_any_order_of_calls(github: FakeGitHub, block: int) -> None:
    """120 seeded orders of two or three publishers, with an empty list, one comment, or what killed runs left."""
    for seed in range(block * 30, block * 30 + 30):
        chance = random.Random(seed)
        github.reset()
        bot = github.actors[github.bot()]
        for left in range(chance.choice((0, 0, 1, 1, 2))):
            github.put(bot, compose(f"left {left}", marker(left)))
        names = NAMES[: chance.choice((2, 2, 3))]
        minutes = dict(zip(names, chance.sample(range(10, 50), len(names)), strict=True))
        outcome, order = in_turns(github, minutes, chance.choice)

        assert outcome.failed == {}, (seed, order)
        assert texts(github) == [f"text of minute {max(minutes.values())}"], (seed, order)
        kept = {done.comment_id for done in outcome.published.values()}
        assert kept == {min(github.comments)}, (seed, order)


@pytest.mark.parametrize("block", range(4))
def test_any_order_with_faults_is_mended_by_the_next_run(github: FakeGitHub, block: int) -> None:
    """80 seeded orders of two publishers while GitHub fails: nothing is doubled for good, the newest is never lost."""
    ops = (LIST, POST, PATCH, EDITS, "issues/delete-comment", "graphql/viewer")
    for seed in range(block * 20, block * 20 + 20):
        chance = random.Random(1000 + seed)
        github.reset()
        if chance.random() < 0.5:
            github.put(github.actors[github.bot()], compose("left", marker(0)))
        for _ in range(chance.randint(1, 3)):
            how = chance.choice(("status", "status", "close", "cut", "garbage"))
            when, status = chance.choice(("before", "after")), chance.choice((500, 502, 503, 429))
            op, nth, times = chance.choice(ops), chance.randint(1, 4), chance.choice((1, 1, 2, 9))
            github.faults.append(
                Fault(op, nth, times, when, how, status, {"Retry-After": "2"} if status == 429 else {})
            )
        minutes = {"ghs_a": chance.randint(10, 29), "ghs_b": chance.randint(30, 49)}
        outcome, order = in_turns(github, minutes, chance.choice)

        said = [t for t, done in outcome.published.items() if done.action in ("created", "updated", "unchanged")]
        assert len(said) + len(outcome.failed) + sum(d.action == "older" for d in outcome.published.values()) == 2
        older = outcome.published.get("ghs_a")
        unchecked = "ghs_a" in outcome.failed or "could not be checked" in str(older and older.warning)
        if "ghs_b" in said and not unchecked:
            assert f"text of minute {minutes['ghs_b']}" in texts(github), (seed, order)
        github.faults = []
        race(github, {"ghs_c": 59})
        assert texts(github) == ["text of minute 59"], (seed, order)
