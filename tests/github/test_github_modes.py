"""recreate and hide-and-recreate: one visible comment with the newest text, whatever was there and whoever else runs."""

from __future__ import annotations

import os
import random
import threading
from dataclasses import replace
from typing import Any

import pytest
from fake_github import Actor, FakeGitHub, Fault, ManualClock, Turns

from checklistbot.github.comment import Published, Target, publish
from checklistbot.github.marker import Marker, split
from checklistbot.github.postable import compose
from checklistbot.model import InputError, UsageError
from checklistbot.retry import Deadline

pytestmark = pytest.mark.needs("npm:@octokit/openapi")

TARGET = Target("octo/serving", pr=7)
SEEDS = int(os.environ.get("CHECKLISTBOT_TEST_SEEDS", "8"))
MODES = ("recreate", "hide-and-recreate")
POST, DELETE, HIDE = "issues/create-comment", "issues/delete-comment", "graphql/hide"


def marker(minute: int, **changes: Any) -> Marker:
    return replace(Marker(valid_at=f"2026-11-30T11:{minute:02}:00Z", config="c" * 64, head="a" * 40), **changes)


def post(
    github: FakeGitHub, mode: str, body: str, minute: int, *, token: str = "ghs_test", **options: Any
) -> Published:
    return publish(
        body,
        options.pop("marker", marker(minute)),
        TARGET,
        token=token,
        deadline=Deadline(300, ManualClock().clock),
        mode=mode,
        api_url=github.api_url,
        seconds_between_writes=0,
        **options,
    )


def visible(github: FakeGitHub) -> list[str]:
    return [split(c.body)[0] for _, c in sorted(github.comments.items()) if not c.hidden and "checklistbot" in c.body]


@pytest.fixture
def bot(github: FakeGitHub) -> Actor:
    return github.actors[github.bot()]


@pytest.mark.parametrize("mode", MODES)
def test_the_next_run_posts_anew_and_only_then_retires_the_old_one(github: FakeGitHub, bot: Actor, mode: str) -> None:
    first = post(github, mode, "old", 1)
    second = post(github, mode, "new", 2)

    assert (first.action, second.action) == ("created", "created")
    assert second.comment_id != first.comment_id
    assert visible(github) == ["new"]
    retire = HIDE if mode == "hide-and-recreate" else DELETE
    assert github.ops(POST, DELETE, HIDE) == [POST, POST, retire]
    assert len(github.comments) == (2 if mode == "hide-and-recreate" else 1)


@pytest.mark.parametrize("mode", MODES)
def test_equal_content_is_not_posted_again(github: FakeGitHub, bot: Actor, mode: str) -> None:
    post(github, mode, "same", 1)
    assert post(github, mode, "same", 2).action == "unchanged"
    assert github.ops(POST) == [POST]


@pytest.mark.parametrize("mode", MODES)
def test_an_older_run_posts_nothing(github: FakeGitHub, bot: Actor, mode: str) -> None:
    post(github, mode, "newer", 30)
    assert post(github, mode, "older", 29).action == "older"
    assert visible(github) == ["newer"]


def test_an_old_comment_that_cannot_be_hidden_is_said_and_hidden_by_the_next_run(
    github: FakeGitHub, bot: Actor
) -> None:
    post(github, "hide-and-recreate", "old", 1)
    github.faults = [Fault(HIDE, status=500, times=9)]
    done = post(github, "hide-and-recreate", "new", 2)
    assert "could not be hidden" in str(done.warning)
    github.faults = []
    post(github, "hide-and-recreate", "new", 3)
    assert visible(github) == ["new"]


def test_update_after_hide_and_recreate_leaves_the_hidden_ones_alone(github: FakeGitHub, bot: Actor) -> None:
    post(github, "hide-and-recreate", "first", 1)
    post(github, "hide-and-recreate", "second", 2)
    done = post(github, "update", "third", 3)
    assert (done.action, done.warning) == ("updated", None)
    assert visible(github) == ["third"]
    assert len(github.comments) == 2


@pytest.mark.parametrize("mode", MODES)
def test_a_post_that_failed_on_its_way_back_is_not_doubled(github: FakeGitHub, bot: Actor, mode: str) -> None:
    post(github, mode, "old", 1)
    github.faults = [Fault(POST, nth=2, when="after", status=502)]
    assert post(github, mode, "new", 2).action == "created"
    assert visible(github) == ["new"]


@pytest.mark.parametrize("mode", MODES)
def test_instances_are_apart(github: FakeGitHub, bot: Actor, mode: str) -> None:
    for minute, name in enumerate(("a", "b", "a"), 1):
        post(github, mode, f"{name} {minute}", minute, marker=marker(minute, id=name))
    assert sorted(visible(github)) == ["a 3", "b 2"]


def test_a_mode_that_is_none_is_the_calls_fault(github: FakeGitHub, bot: Actor) -> None:
    with pytest.raises(UsageError, match="expected update, recreate, hide-and-recreate, off"):
        post(github, "replace", "x", 1)


def test_without_create_only_what_stands_there_is_brought_up_to_date(github: FakeGitHub, bot: Actor) -> None:
    assert post(github, "update", "green", 1, create=False).action == "none"
    assert github.ops(POST) == []
    post(github, "update", "red", 2)
    assert post(github, "update", "green", 3, create=False).action == "updated"
    assert visible(github) == ["green"]


def test_a_push_during_the_run_leaves_the_comment_to_the_next_run(github: FakeGitHub, bot: Actor) -> None:
    github.pulls["octo/serving", 7].sha = "b" * 40
    done = post(github, "update", "about a", 1)
    assert done.action == "moved"
    assert "its head is bbbbbbb by now, this run looked at aaaaaaa" in str(done.warning)
    assert github.comments == {}


def test_matrix_jobs_with_ids_of_their_own_do_not_disturb_each_other(github: FakeGitHub) -> None:
    """Six jobs at once, each with its own comment.id."""
    names = [f"ghs_{n}" for n in range(6)]
    turns = Turns(names, random.Random(7).choice)
    github.gate = turns.gate
    for name in names:
        github.bot(name)

    def run(name: str) -> None:
        post(github, "update", f"text of {name}", 5, token=name, marker=marker(5, id=name.replace("_", "-")))
        turns.finish(name)

    threads = [threading.Thread(target=run, args=(name,), daemon=True) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(visible(github)) == [f"text of {name}" for name in names]


@pytest.mark.parametrize("mode", MODES)
def test_any_order_of_calls_ends_with_one_visible_comment(github: FakeGitHub, mode: str) -> None:
    """Seeded orders of two or three publishers."""
    for seed in range(SEEDS):
        chance = random.Random(seed)
        github.reset()
        actor = github.actors[github.bot()]
        for left in range(chance.choice((0, 1, 2))):
            github.put(actor, compose(f"left {left}", marker(left)))
        names = ["ghs_a", "ghs_b", "ghs_c"][: chance.choice((2, 3))]
        minutes = dict(zip(names, chance.sample(range(10, 50), len(names)), strict=True))
        turns = Turns(names, chance.choice)
        github.gate = turns.gate
        broken: list[BaseException] = []

        def run(token: str, minute: int, turns: Turns = turns, broken: list[BaseException] = broken) -> None:
            try:
                post(github, mode, f"text of minute {minute}", minute, token=token)
            except InputError as error:
                broken.append(error)
            finally:
                turns.finish(token)

        for token in names:
            github.bot(token)
        threads = [threading.Thread(target=run, args=entry, daemon=True) for entry in minutes.items()]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert broken == [], (seed, turns.order)
        assert visible(github) == [f"text of minute {max(minutes.values())}"], (seed, turns.order)
