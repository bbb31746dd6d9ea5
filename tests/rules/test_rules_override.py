"""Break-glass on a pull request: who may, for what, how long (operations-and-attacks 16), and what the policy says in a report."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from deployment_factory import check, config, deployment, facts, pair

from checklistbot import rules
from checklistbot.model import Check
from checklistbot.report import headline
from checklistbot.report.terminal import render_check
from checklistbot.report.view import check_report
from checklistbot.rules import Call

HEAD, OTHER = "a" * 40, "b" * 40
NOW = datetime(2026, 11, 30, 3, 0, tzinfo=UTC)
ONE_PERSON = facts(deployment(context=131_072, pool=90_000))
TWO_PEOPLE = pair(version="0.5.19")


def label(login: str = "ana", *, permission: str = "maintain", head: str | None = HEAD, hours: float = 1) -> Call:
    return Call(login, permission, NOW - timedelta(hours=hours), label=True, head=head)


def comment(login: str = "ana", text: str = "checklistbot-override: outage, rolling back", **more: object) -> Call:
    values = {"permission": "maintain", "at": NOW - timedelta(hours=1), "head": HEAD, **more}
    return Call(login, text=text, **values)  # type: ignore[arg-type]


def judged(calls: list[Call], state=ONE_PERSON) -> Check:  # type: ignore[no-untyped-def]
    return rules.override(check(state), calls, config(), head=HEAD, now=NOW)


@pytest.mark.parametrize(
    ("calls", "missing"),
    [
        ([label(), comment()], ""),
        ([label(permission="admin"), comment()], ""),
        ([label(), comment(head=None)], ""),
        ([label(), comment(login="Ana")], ""),
        ([label(permission="write"), comment()], "permission"),
        ([label("deploy[bot]"), comment("deploy[bot]")], "permission"),
        ([label(head=OTHER), comment()], "head"),
        ([label(head=None), comment()], "head"),
        ([label(hours=24), comment()], "expired"),
        ([label(hours=-1), comment()], "expired"),
        ([label()], "reason"),
        ([label(), comment(text="looks fine")], "reason"),
        ([label(), comment(text="checklistbot-override:   ")], "reason"),
        ([label(), comment("ben")], "reason"),
        ([label(), comment(at=NOW - timedelta(hours=25))], "reason"),
        ([label(hours=30), label(hours=2), comment()], ""),
    ],
)
def test_who_may_and_how_long(calls: list[Call], missing: str) -> None:
    broken = judged(calls).policy.override
    assert broken is not None
    assert broken.missing == missing
    assert bool(rules.failing(judged(calls), config(), NOW.date())) is bool(missing)


def test_without_the_label_there_is_none() -> None:
    assert judged([comment()]).policy.override is None
    assert rules.failing(judged([comment()]), config(), NOW.date())


@pytest.mark.parametrize(
    ("second", "missing"),
    [
        ([], "second"),
        ([comment("ben")], ""),
        ([comment("ben", permission="write")], "second"),
        ([comment("ben", head=OTHER)], "second"),
        ([comment("ben", head=None)], "second"),
        ([comment("ben", text="ok with me")], "second"),
        ([comment("ANA")], "second"),
        ([comment("ben", at=NOW - timedelta(hours=24))], "second"),
    ],
)
def test_a_leak_that_cannot_be_waived_takes_two(second: list[Call], missing: str) -> None:
    broken = judged([label(), comment(), *second], TWO_PEOPLE).policy.override
    assert broken is not None
    assert broken.missing == missing
    assert broken.by == (("ana", "ben") if not missing else ("ana",))


def test_it_needs_no_second_one_where_one_is_enough() -> None:
    broken = judged([label(), comment(), comment("ben")]).policy.override
    assert broken is not None
    assert broken.by == ("ana",)
    assert broken.until == "2026-12-01T02:00:00Z"


def test_the_latest_reason_counts_on_one_line() -> None:
    calls = [
        label(),
        comment(at=NOW - timedelta(hours=3)),
        comment(text="hm\n checklistbot-override: a\tb  c" + "x" * 900),
    ]
    broken = judged(calls).policy.override
    assert broken is not None
    assert broken.reason.startswith("a b c")
    assert len(broken.reason) == 300


def test_some_rules_ask_for_two() -> None:
    assert {rule.id for rule in rules.registry().values() if rule.two_people} == {
        "engine-below-fixed-version",
        "evidence-failed",
    }


@pytest.mark.parametrize("language", ["en", "ko"])
def test_the_title_names_who_and_why_and_the_report_says_what_is_missing(language: str) -> None:
    held, void = judged([label(), comment()]), judged([label()])
    title = headline.one_line(check_report(held, ONE_PERSON), language)  # type: ignore[arg-type]
    assert "@ana" in title
    assert "outage, rolling back" in title
    shown = render_check(void, ONE_PERSON, language=language)  # type: ignore[arg-type]
    assert "checklistbot-override" in shown
    assert "⛔" in shown
    assert held.to_json()["policy"]["override"]["by"] == ["ana"]


# --- observe mode and the baseline, as a report tells them -------------------------------------------------------------


def test_observe_mode_is_said_as_long_as_it_lasts() -> None:
    for day, said in (("2026-11-30", True), ("2026-11-29", False)):
        found = check(ONE_PERSON, f"observe_until: {day}")
        assert (
            "observing until 2026-11-30: this would fail the run"
            in " ".join(render_check(found, ONE_PERSON, language="en").split())
        ) is said
        assert found.to_json()["policy"]["observe_until"] == (day if said else None)


def test_with_the_baseline_off_what_was_there_is_new() -> None:
    found = check(ONE_PERSON, "baseline: off", base=ONE_PERSON)
    assert {f.status for f in found.findings} == {"new"}
    title = headline.one_line(check_report(found, ONE_PERSON), "en")
    assert title.startswith("⛔ BLOCK")
    assert "already there" not in title
    assert "⛔" not in headline.one_line(check_report(check(ONE_PERSON, base=ONE_PERSON), ONE_PERSON), "en")
