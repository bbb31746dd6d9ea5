"""Ticks: they survive updates, are lost with their facts, are restored when overwritten, and count only from whom they may."""

from __future__ import annotations

import os
import random
from dataclasses import replace
from typing import Any, Literal

import pytest
from fake_github import Actor, FakeGitHub, ManualClock
from hypothesis import given, settings
from hypothesis import strategies as st

from checklistbot.github import boxes, checks, ticks
from checklistbot.github.boxes import Save, Tick
from checklistbot.github.client import GitHub
from checklistbot.github.comment import Published, Target, publish
from checklistbot.github.marker import Marker, parse, split
from checklistbot.model import Item, UsageError
from checklistbot.retry import Deadline

TARGET = Target("octo/serving", pr=7)
SEEDS = int(os.environ.get("CHECKLISTBOT_TEST_SEEDS", "8"))
LIST, GET, PATCH, EDITS = "issues/list-comments", "issues/get-comment", "issues/update-comment", "graphql/edits"


def item(name: str, facts: dict[str, Any] | None = None, title: str = "") -> Item:
    return Item(
        id=f"{name}/prod/glm",
        topic="canary-leak",
        severity="required",
        title=title or f"{name} is checked",
        why="",
        steps=(),
        commands=(),
        pass_when="it holds",
        owner="SRE",
        when="before-deploy",
        automation=None,
        facts_used=facts or {"context_length": 1},
    )


def text(items: list[Item], head: str = "### verdict") -> str:
    return "\n".join([head, "", *(f"- [ ] **{entry.title}**<br>Passes when: it holds" for entry in items), "", "end"])


def marked(items: list[Item], minute: int, head: str = "### verdict") -> tuple[str, Marker]:
    body = text(items, head)
    return body, Marker(valid_at=f"2026-11-30T11:{minute:02}:00Z", head="a" * 40, boxes=boxes.of(items, body))


def post(github: FakeGitHub, items: list[Item], minute: int, **options: Any) -> Published:
    body, marker = marked(items, minute, options.pop("head", "### verdict"))
    return publish(
        body,
        replace(marker, config=f"{minute:064x}"),
        TARGET,
        token=options.pop("token", "ghs_test"),
        deadline=Deadline(300, ManualClock().clock),
        api_url=github.api_url,
        seconds_between_writes=0,
        **options,
    )


def tick(github: FakeGitHub, name: str, by: str, *, to: str = "x", kind: str = "User") -> None:
    """Somebody clicks a box of the youngest comment; the browser saves CR LF."""
    stored = github.comments[max(github.comments)]
    here = "x" if to == " " else " "
    body = stored.body.replace(f"- [{here}] **{name} ", f"- [{to}] **{name} ").replace("\n", "\r\n")
    assert body.replace("\r\n", "\n") != stored.body.replace("\r\n", "\n")
    stored.save(Actor(by, kind), body)


def ticked(github: FakeGitHub) -> list[str]:
    body = github.comments[max(github.comments)].body
    return [line[8:].split(" ")[0] for line in body.splitlines() if line.startswith("- [x] ")]


A, B, C = item("alpha"), item("beta"), item("gamma")
needs_server = pytest.mark.needs("npm:@octokit/openapi")


# --- they survive ----------------------------------------------------------------------------------------------------


@needs_server
@pytest.mark.parametrize("mode", ["update", "recreate", "hide-and-recreate"])
def test_a_tick_survives_new_order_new_items_and_a_new_verdict(github: FakeGitHub, mode: str) -> None:
    github.bot()
    post(github, [A, B], 1, mode=mode)
    tick(github, "beta", "octo-reviewer")
    post(github, [C, B, A], 2, mode=mode, head="### another verdict")
    assert ticked(github) == ["beta"]
    assert "another verdict" in github.comments[max(github.comments)].body


@needs_server
@pytest.mark.parametrize(("language", "note"), [("en", "The tick was taken off"), ("ko", "체크를 해제했습니다")])
def test_other_facts_take_the_tick_off_and_say_so_until_it_is_ticked_again(
    github: FakeGitHub, language: str, note: str
) -> None:
    github.bot()
    post(github, [A, B], 1)
    tick(github, "alpha", "octo-reviewer")
    changed = item("alpha", {"context_length": 2})
    for minute in (2, 3):
        post(github, [changed, B], minute, language=language)
        assert ticked(github) == []
        assert [note in line for line in github.bodies()[0].splitlines() if line.startswith("- [ ] ")] == [True, False]
    tick(github, "alpha", "octo-reviewer")
    post(github, [changed, B], 4, language=language)
    assert ticked(github) == ["alpha"]
    assert note not in github.bodies()[0]


@needs_server
def test_unticking_survives_too(github: FakeGitHub) -> None:
    github.bot()
    post(github, [A, B], 1)
    tick(github, "alpha", "octo-reviewer")
    post(github, [A, B], 2)
    tick(github, "alpha", "octo-reviewer", to=" ")
    post(github, [A, B], 3)
    assert ticked(github) == []


@needs_server
def test_a_line_that_somebody_deleted_comes_back_unticked(github: FakeGitHub) -> None:
    github.bot()
    post(github, [A, B], 1)
    tick(github, "alpha", "octo-reviewer")
    stored = github.comments[max(github.comments)]
    lines = [line for line in stored.body.splitlines() if "alpha" not in line]
    stored.save(Actor("octo-author", "User"), "\n".join(lines))
    post(github, [A, B], 2)
    assert "- [ ] **alpha is checked**" in github.bodies()[0]


@needs_server
@pytest.mark.parametrize("moment", [(LIST, "after"), (GET, "after")])
def test_a_tick_made_while_a_run_writes_is_not_lost(github: FakeGitHub, moment: tuple[str, str]) -> None:
    """Between the list and the read, and between the read and the write: no compare-and-swap keeps these apart."""
    github.bot()
    post(github, [A, B], 1)
    clicked: list[str] = []

    def gate(call: Any, when: str) -> None:
        if (call.op, when) == moment and not clicked:
            clicked.append("alpha")
            tick(github, "alpha", "octo-reviewer")

    github.gate = gate
    post(github, [A, B], 2, head="### changed")
    assert clicked
    assert ticked(github) == ["alpha"]
    assert "changed" in github.bodies()[0]


@needs_server
def test_any_moment_any_click(github: FakeGitHub) -> None:
    """Seeded runs over a text that people click in at random moments: the boxes end as the people left them."""
    for seed in range(SEEDS):
        chance = random.Random(seed)
        github.reset()
        github.bot()
        post(github, [A, B, C], 1)
        wanted: set[str] = set()
        left = [2]

        def gate(call: Any, when: str, chance: Any = chance, wanted: set[str] = wanted, left: list[int] = left) -> None:
            if left[0] and chance.random() < 0.3:
                left[0] -= 1
                name = chance.choice(("alpha", "beta", "gamma"))
                with github.lock:
                    is_on = name in ticked(github)
                    tick(github, name, "octo-reviewer", to=" " if is_on else "x")
                (wanted.discard if is_on else wanted.add)(name)

        github.gate = gate
        for minute in (2, 3):
            post(github, [A, B, C], minute, head=f"### {minute}")
        github.gate = lambda call, when: None
        post(github, [A, B, C], 4, head="### 4")
        known = boxes.ledger(
            ticks.saves(
                GitHub("ghs_test", deadline=Deadline(9), api_url=github.api_url).edits(f"IC_{max(github.comments)}"),
                "github-actions[bot]",
            )
        )
        titles = {boxes.item_key(entry.id): entry.title.split(" ")[0] for entry in (A, B, C)}
        assert sorted(ticked(github)) == sorted(titles[key] for key in known), seed


# --- who -------------------------------------------------------------------------------------------------------------


def judged(github: FakeGitHub, items: list[Item], ticks_by: str = "write", **more: Any) -> dict[str, tuple[str, str]]:
    api = GitHub("ghs_test", deadline=Deadline(60, ManualClock().clock), api_url=github.api_url)
    required = checks.required_of(tuple(items), ("canary-leak",))
    found = ticks.judge(api, "octo/serving", api.pull("octo/serving", 7), "default", required, ticks_by, **more)
    return {entry.required.title.split(" ")[0]: (entry.standing, entry.required.by) for entry in found}


@needs_server
@pytest.mark.parametrize(
    ("login", "kind", "role", "ticks_by", "standing"),
    [
        ("octo-reviewer", "User", "write", "write", "counts"),
        ("octo-reviewer", "User", "maintain", "write", "counts"),
        ("octo-reviewer", "User", "admin", "maintain", "counts"),
        ("octo-reviewer", "User", "write", "maintain", "not-entitled"),
        ("octo-reviewer", "User", "triage", "write", "not-entitled"),
        ("octo-reviewer", "User", "read", "write", "not-entitled"),
        ("stranger", "User", "", "write", "not-entitled"),
        ("octo-author", "User", "admin", "write", "not-entitled"),
        ("Octo-Author", "User", "admin", "write", "not-entitled"),
        ("renovate", "Bot", "write", "write", "not-entitled"),
        ("octo-reviewer", "User", "write", "team:octo/sre", "counts"),
        ("octo-other", "User", "write", "team:octo/sre", "not-entitled"),
    ],
)
def test_whose_tick_counts(github: FakeGitHub, login: str, kind: str, role: str, ticks_by: str, standing: str) -> None:
    github.bot()
    github.roles = {login: role} if role else {}
    github.teams = {"octo/sre": {"octo-reviewer"}}
    post(github, [A, B], 1)
    tick(github, "alpha", login, kind=kind)
    post(github, [A, B], 2)
    found = judged(github, [A, B], ticks_by)
    assert found["alpha"][0] == standing
    assert found["beta"] == ("open", "")


@needs_server
def test_an_author_who_ticks_again_what_somebody_ticked_changes_nothing_but_cannot_begin(github: FakeGitHub) -> None:
    github.bot()
    github.roles = {"octo-reviewer": "write", "octo-author": "write"}
    post(github, [A], 1)
    tick(github, "alpha", "octo-reviewer")
    assert judged(github, [A])["alpha"] == ("counts", "octo-reviewer")
    tick(github, "alpha", "octo-author", to=" ")
    tick(github, "alpha", "octo-author")
    assert judged(github, [A])["alpha"] == ("not-entitled", "octo-author")


@needs_server
@pytest.mark.parametrize("how", ["deleted", "reworded", "unmarked"])
def test_what_is_required_is_not_counted_from_the_comment(github: FakeGitHub, how: str) -> None:
    github.bot()
    github.roles = {"octo-reviewer": "write"}
    post(github, [A, B], 1)
    tick(github, "beta", "octo-reviewer")
    stored = github.comments[max(github.comments)]
    body = stored.body
    changed = {
        "deleted": "\n".join(line for line in body.splitlines() if "alpha" not in line),
        "reworded": body.replace("- [ ] **alpha is checked**", "- [x] **alpha is fine**"),
        "unmarked": split(body)[0],
    }[how]
    stored.save(Actor("octo-author", "User"), changed)
    assert judged(github, [A, B])["alpha"][0] == "open"


@needs_server
def test_a_marker_that_points_one_items_box_at_another_lends_nobodys_tick(github: FakeGitHub) -> None:
    github.bot()
    github.roles = {"octo-reviewer": "write"}
    post(github, [A, B], 1)
    tick(github, "beta", "octo-reviewer")
    stored = github.comments[max(github.comments)]
    mine, other = boxes.item_key(A.id), boxes.item_key(B.id)
    forged = stored.body.replace(mine, "?" * 12).replace(other, mine).replace("?" * 12, other)
    stored.save(Actor("octo-author", "User"), forged)
    assert judged(github, [A, B])["alpha"] == ("not-entitled", "octo-author")


@needs_server
def test_other_facts_in_the_report_than_in_the_comment_do_not_count(github: FakeGitHub) -> None:
    github.bot()
    github.roles = {"octo-reviewer": "write"}
    post(github, [A], 1)
    tick(github, "alpha", "octo-reviewer")
    assert judged(github, [item("alpha", {"context_length": 2})])["alpha"][0] == "changed"


@needs_server
def test_without_a_history_the_event_says_who(github: FakeGitHub) -> None:
    """An old GHES, or a token without GraphQL: a tick that nobody is known to have made does not count."""
    github.bot(graphql=False)
    github.roles = {"octo-reviewer": "write"}
    post(github, [A, B], 1)
    before = github.bodies()[0]
    tick(github, "alpha", "octo-reviewer")
    assert judged(github, [A])["alpha"] == ("unknown", "")
    edited = ticks.Edited(max(github.comments), before, github.bodies()[0], "octo-reviewer")
    assert judged(github, [A], edited=edited)["alpha"] == ("counts", "octo-reviewer")


@needs_server
def test_a_recreated_comment_shows_the_tick_but_not_who_made_it(github: FakeGitHub) -> None:
    """recreate deletes the history; hide-and-recreate keeps it."""
    for mode, standing in (("recreate", "unknown"), ("hide-and-recreate", "counts")):
        github.reset()
        github.bot()
        github.roles = {"octo-reviewer": "write"}
        post(github, [A], 1, mode=mode)
        tick(github, "alpha", "octo-reviewer")
        post(github, [A], 2, mode=mode, head="### 2")
        assert ticked(github) == ["alpha"]
        assert judged(github, [A])["alpha"][0] == standing


@needs_server
def test_a_history_longer_than_a_page(github: FakeGitHub) -> None:
    github.bot()
    github.edits_per_page = 3
    github.roles = {"octo-reviewer": "write"}
    post(github, [A, B], 1)
    tick(github, "alpha", "octo-reviewer")
    for minute in range(2, 12):
        post(github, [A, B], minute, head=f"### {minute}")
    assert judged(github, [A])["alpha"] == ("counts", "octo-reviewer")


# --- the check run, and what an edited comment does to it -------------------------------------------------------------


@needs_server
@pytest.mark.parametrize(
    ("language", "title", "who"),
    [
        ("en", "2 of 2 required items ticked", "ticked by `@octo-reviewer`"),
        ("ko", "필수 항목 2개 중 2개 체크됨", "`@octo-reviewer` 님이 체크함"),
    ],
)
def test_the_check_run_stays_pending_until_it_is_ticked_and_needs_no_manifest(
    github: FakeGitHub, language: Literal["en", "ko"], title: str, who: str
) -> None:
    github.bot()
    github.roles = {"octo-reviewer": "write"}
    post(github, [A, B], 1)
    api = GitHub(
        "ghs_test", deadline=Deadline(60, ManualClock().clock), api_url=github.api_url, seconds_between_writes=0
    )
    required = checks.required_of((A, B), ("alpha/*", "beta/prod/glm"))
    first = ticks.wanted(
        ticks.judge(api, "octo/serving", api.pull("octo/serving", 7), "default", required, "write"), "write", language
    )
    checks.put(api, "octo/serving", "a" * 40, "default", "2026-11-30T11:01:00Z", first)
    states = []
    for minute, name in enumerate(("alpha", "beta"), 2):
        before = github.bodies()[0]
        tick(github, name, "octo-reviewer")
        comment = api.comment("octo/serving", max(github.comments))
        edited = ticks.Edited(comment.id, before, comment.body, "octo-reviewer")
        run = ticks.again(api, "octo/serving", 7, comment, edited, f"2026-11-30T11:{minute:02}:00Z")
        assert run is not None
        states.append((run.status, run.conclusion))
    assert states == [("in_progress", None), ("completed", "success")]
    (run,) = github.checks.values()
    assert run["name"] == "checklistbot / checklist"
    assert run["output"]["title"] == title
    assert who in run["output"]["summary"]


@needs_server
def test_other_peoples_comments_and_heads_without_a_check_run_are_left_alone(github: FakeGitHub) -> None:
    github.bot()
    post(github, [A], 1)
    api = GitHub("ghs_test", deadline=Deadline(60, ManualClock().clock), api_url=github.api_url)
    stranger = github.put(Actor("mallory", "User", 9), github.bodies()[0])
    for id in (stranger.id, min(github.comments)):
        comment = api.comment("octo/serving", id)
        assert (
            ticks.again(api, "octo/serving", 7, comment, ticks.Edited(id, "", "", ""), "2026-11-30T12:00:00Z") is None
        )
    assert github.checks == {}


@pytest.mark.parametrize("value", ["read", "team:", "team:octo", "team:octo/SRE team", "Write", ""])
def test_who_may_tick_in_another_form_is_refused(value: str) -> None:
    with pytest.raises(UsageError, match=r"comment\.ticks_by"):
        ticks.check_form(value)


# --- the boxes themselves ----------------------------------------------------------------------------------------------


def test_equal_lines_are_told_apart_by_their_order() -> None:
    one, two = item("one", title="same"), item("two", title="same")
    body = text([one, two])
    marks = boxes.of([one, two], body)
    second = body[::-1].replace("] [ -", "]x[ -", 1)[::-1]
    assert {key for key, box in boxes.read(second, marks).items() if box.ticked} == {boxes.item_key(two.id)}


def test_boxes_in_code_after_the_checklist_are_not_items() -> None:
    body = text([A]) + "\n\n```\n- [x] **alpha is checked**\n```"
    marks = boxes.of([A], body)
    assert marks is not None
    assert marks.count(",") == 0
    assert not boxes.read(body, marks)[boxes.item_key(A.id)].ticked


_NAMES = st.sampled_from(["alpha", "beta", "gamma"])
_SAVES = st.lists(st.tuples(st.booleans(), st.sets(_NAMES), st.sampled_from(["ann", "bob"])), max_size=8)


@settings(max_examples=40)
@given(_SAVES)
def test_what_we_save_neither_ticks_nor_unticks(steps: list[tuple[bool, set[str], str]]) -> None:
    """The ledger after any history equals one that only people's changes to the text before them make."""
    items = {"alpha": A, "beta": B, "gamma": C}
    body, marker = marked(list(items.values()), 1)
    history: list[tuple[Save, str | None]] = [(Save(body, "bot", ours=True), marker.boxes)]
    expected: dict[str, str] = {}
    before: set[str] = set()
    for ours, on, by in steps:
        saved = "\n".join(
            line.replace("[ ]", "[x]") if any(f"**{name} " in line for name in on) else line
            for line in body.split("\n")
        )
        history.append((Save(saved, by, ours=ours), marker.boxes))
        for name in on - before:
            expected[name] = expected.get(name, "") if ours else by
        if not ours:
            for name in before - on:
                expected.pop(name, None)
        before = set(on)
    found = boxes.ledger(history)
    assert {name: found[boxes.item_key(items[name].id)].by for name in expected} == expected
    assert len(found) == len(expected)


@settings(max_examples=40)
@given(st.text(max_size=300), st.none() | st.from_regex(r"[0-9a-f]{12}:[0-9a-f]{12}:[0-9a-f]{12}l?", fullmatch=True))
def test_any_text_can_be_read(body: str, marks: str | None) -> None:
    for key, box in boxes.read(body, marks).items():
        assert key == box.item
    boxes.carry(body, marks, {"0" * 12: Tick("1" * 12)}, {}, "en")


def test_a_hundred_items_fit_the_marker() -> None:
    items = [item(f"n{n}") for n in range(130)]
    body, marker = marked(items, 1)
    line = marker.render()
    again = parse(f"{body}\n\n{line}")
    assert again is not None
    assert again.boxes == marker.boxes
    assert len(boxes.read(body, again.boxes)) == 100
