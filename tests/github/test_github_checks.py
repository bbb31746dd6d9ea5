"""The check runs: conclusion, limits, one a commit, what a later event reads back; and what asks for an override."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from fake_github import Actor, FakeGitHub, Fault, ManualClock

from checklistbot.commands.publish import post_checks
from checklistbot.github import checks
from checklistbot.github.checks import Outline, Required, outline_from
from checklistbot.github.client import GitHub
from checklistbot.github.comment import Target
from checklistbot.github.override import Labelled, calls, head_at
from checklistbot.github.reading import Push
from checklistbot.model import InputError
from checklistbot.retry import Deadline

CREATE, UPDATE, FIND = "checks/create", "checks/update", "checks/list-for-ref"
TARGET = Target("octo/serving", pr=7)
HEAD = "a" * 40
LINE = {
    "path": "serve/prefill.yaml",
    "start_line": 37,
    "end_line": 37,
    "annotation_level": "failure",
    "title": "KV pool is smaller",
    "message": "681,280 < 1,048,576",
}
needs_server = pytest.mark.needs("npm:@octokit/openapi")


def outline(minute: int = 1, **changes: Any) -> Outline:
    values: dict[str, Any] = {
        "id": "default",
        "head": HEAD,
        "valid_at": f"2026-11-30T11:{minute:02}:00Z",
        "conclusion": "failure",
        "title": "⛔ BLOCK · glm-5.3",
        "summary": "### ⛔ BLOCK",
        "annotations": (LINE,),
    }
    return Outline(**{**values, **changes})


def post(github: FakeGitHub, wanted: Outline) -> Any:
    deadline = Deadline(60, ManualClock().clock)
    return post_checks(wanted, TARGET, token="ghs_test", deadline=deadline, api_url=github.api_url, pause_s=0)


@needs_server
@pytest.mark.parametrize("conclusion", ["success", "neutral", "failure"])
def test_a_check_run_says_how_it_ended_and_which_lines(github: FakeGitHub, conclusion: str) -> None:
    github.bot()
    assert post(github, outline(conclusion=conclusion)).annotated
    (run,) = github.checks.values()
    assert (run["name"], run["status"], run["conclusion"]) == ("checklistbot / verdict", "completed", conclusion)
    assert (run["head_sha"], run["output"]["annotations_count"]) == (HEAD, 1)


@needs_server
def test_a_second_run_brings_it_up_to_date_and_annotates_nothing_twice(github: FakeGitHub) -> None:
    github.bot()
    post(github, outline(1))
    post(github, outline(2, conclusion="success"))
    post(github, outline(1, title="late"))
    (run,) = github.checks.values()
    assert (run["conclusion"], run["output"]["title"]) == ("success", "⛔ BLOCK · glm-5.3")
    assert run["output"]["annotations_count"] == 1


@needs_server
def test_githubs_limits_are_kept(github: FakeGitHub) -> None:
    github.bot()
    post(github, outline(title="𝄞" * 400, summary="é" * 70_000, annotations=(LINE,) * 120))
    (run,) = github.checks.values()
    assert len(run["output"]["title"].encode("utf-16-le")) // 2 <= 255
    assert len(run["output"]["summary"]) <= checks.MAX_TEXT
    assert run["output"]["annotations_count"] == 50


@needs_server
@pytest.mark.parametrize("how", ["after", "before"])
def test_a_post_of_unknown_end_is_looked_for(github: FakeGitHub, how: str) -> None:
    github.bot()
    github.faults = [Fault(CREATE, when=how, status=502)]
    assert post(github, outline()).annotated
    assert len(github.checks) == 1


@needs_server
def test_without_the_permission_nothing_is_said_unless_ticks_are_required(github: FakeGitHub) -> None:
    github.bot()
    github.checks_allowed = False
    assert post(github, outline()).warnings == ()
    asked = post(github, outline(required=()))
    assert not asked.failed
    assert "checks: write" in asked.warnings[0]


@needs_server
@pytest.mark.parametrize("op", [CREATE, FIND])
def test_a_check_run_that_cannot_be_made_is_a_failure_that_keeps_the_report(github: FakeGitHub, op: str) -> None:
    github.bot()
    github.faults = [Fault(op, status=500, times=99)]
    done = post(github, outline())
    assert done.failed
    assert not done.annotated
    assert "the report is kept" in done.warnings[0]


@needs_server
def test_required_ticks_are_pending_and_nothing_to_tick_is_done(github: FakeGitHub) -> None:
    github.bot()
    github.put(Actor("octo-author", "User"), "chat")
    post(github, outline(required=(Required("0" * 12, "1" * 12, "canaries"),)))
    post(github, outline(2, id="other", required=()))
    states = {run["name"]: run["status"] for run in github.checks.values()}
    assert states == {
        "checklistbot / verdict": "completed",
        "checklistbot / checklist": "in_progress",
        "checklistbot / verdict (other)": "completed",
        "checklistbot / checklist (other)": "completed",
    }


def test_an_outline_goes_through_a_file() -> None:
    wanted = outline(required=(Required("0" * 12, "1" * 12, "ti```tle", "octo"),), ticks_by="admin")
    assert outline_from(json.loads(json.dumps(wanted.to_json()))) == wanted


@pytest.mark.parametrize(
    "changes",
    [
        {"schema": "outline/2"},
        {"conclusion": "skipped"},
        {"head": "HEAD"},
        {"title": 7},
        {"annotations": [7]},
        {"required": [["x", "y", "z", ""]]},
        {"required": [["0" * 12, "1" * 12, "z"]]},
        {"required": {}},
    ],
)
def test_an_outline_in_another_form_is_refused(changes: dict[str, Any]) -> None:
    data = {**outline().to_json(), **changes}
    if changes == {"required": {}}:
        assert outline_from(data).required == ()
        return
    with pytest.raises(InputError, match=r"check-runs\.json"):
        outline_from(data)


def test_what_a_check_run_carries_is_read_back_and_nothing_else() -> None:
    required = (Required("0" * 12, "1" * 12, "a `b` ``` c", "octo"),)
    found = checks.read_carried(checks.carried_text(required, "team:octo/sre", "ko"))
    assert found is not None
    assert [(entry.item, entry.by) for entry in found.required] == [("0" * 12, "octo")]
    assert (found.ticks_by, found.language) == ("team:octo/sre", "ko")
    for text in ("", "```json\n[]\n```", '```json\n{"schema": "required/1"}\n```', "words"):
        assert checks.read_carried(text) is None


# --- overrides -------------------------------------------------------------------------------------------------------

LABEL = "checklistbot-override"


def asked(github: FakeGitHub, event: Labelled | None = None) -> list[tuple[str, str, bool, str | None, str | None]]:
    api = GitHub("ghs_test", deadline=Deadline(60, ManualClock().clock), api_url=github.api_url)
    found = calls(api, "octo/serving", api.pull("octo/serving", 7), LABEL, event)
    return [(call.login, call.permission, call.label, call.head, call.reason) for call in found]


@pytest.fixture
def labelled(github: FakeGitHub) -> FakeGitHub:
    """octo-admin set the label at 11:30, when the head was a…; they gave a reason at 11:20."""
    github.bot()
    github.pulls["octo/serving", 7].labels = ("bug", LABEL)
    github.label_log = [
        {"event": "labeled", "login": "octo-author", "label": "bug", "at": "2026-11-30T11:00:00Z"},
        {"event": "labeled", "login": "octo-admin", "label": LABEL, "at": "2026-11-30T11:30:00Z"},
    ]
    github.pushes = [("f" * 40, "2026-11-30T10:00:00Z"), (HEAD, "2026-11-30T11:10:00Z")]
    github.roles = {"octo-admin": "admin", "octo-author": "write", "octo-second": "maintain"}
    stored = github.put(Actor("octo-admin", "User"), "checklistbot-override: customers are waiting")
    stored.created_at = "2026-11-30T11:20:00Z"
    return github


@needs_server
def test_who_broke_the_glass_at_which_commit_and_why(labelled: FakeGitHub) -> None:
    assert asked(labelled) == [
        ("octo-admin", "admin", True, HEAD, None),
        ("octo-admin", "admin", False, HEAD, "customers are waiting"),
    ]


@needs_server
def test_a_push_after_the_label_is_seen(labelled: FakeGitHub) -> None:
    labelled.pushes.append(("b" * 40, "2026-11-30T11:40:00Z"))
    labelled.pulls["octo/serving", 7].sha = "b" * 40
    assert asked(labelled)[0][3] == HEAD


@needs_server
@pytest.mark.parametrize("how", ["off", "taken off", "never"])
def test_without_the_label_nothing_is_asked_for(labelled: FakeGitHub, how: str) -> None:
    if how == "off":
        labelled.pulls["octo/serving", 7].labels = ("bug",)
    elif how == "taken off":
        labelled.label_log.append(
            {"event": "unlabeled", "login": "octo-admin", "label": LABEL, "at": "2026-11-30T11:45:00Z"}
        )
    else:
        labelled.label_log = labelled.label_log[:1]
    assert asked(labelled) == []
    if how == "off":
        assert labelled.ops() == ["pulls/get"]


@needs_server
def test_without_a_record_of_pushes_only_the_events_own_head_counts(labelled: FakeGitHub) -> None:
    labelled.faults = [Fault("repos/list-activities", status=404, times=9)]
    assert asked(labelled)[0][3] is None
    assert asked(labelled, Labelled("octo-admin", LABEL, HEAD))[0][3] == HEAD
    assert asked(labelled, Labelled("somebody", LABEL, HEAD))[0][3] is None


def test_the_head_at_a_moment() -> None:
    pushes = [
        Push("b", datetime.fromisoformat("2026-11-30T12:00:00Z")),
        Push("a", datetime.fromisoformat("2026-11-30T11:00:00Z")),
    ]
    assert head_at(pushes, datetime.fromisoformat("2026-11-30T11:30:00Z")) == "a"
    assert head_at(pushes, datetime.fromisoformat("2026-11-30T12:30:00Z")) == "b"
    assert head_at(pushes, datetime.fromisoformat("2026-11-30T10:30:00Z")) is None


# --- the schema judges ------------------------------------------------------------------------------------------------


@pytest.mark.needs("npm:@octokit/graphql-schema")
def test_the_graphql_judge_finds_what_does_not_fit(request: pytest.FixtureRequest) -> None:
    from graphql_contract import graphql_violations

    tools: Path = request.config.rootpath / "tests" / "tools"
    query = "query { viewer { login } }"
    exchanges: list[dict[str, Any]] = [
        {"request": {"query": query, "variables": {}}, "answer": {"data": {"viewer": {"login": "a"}}}},
        {"request": {"query": query, "variables": {}}, "answer": {"data": {"viewer": {"login": None}}}},
        {"request": {"query": query, "variables": {}}, "answer": {"data": {"viewer": {"login": "a", "x": 1}}}},
        {"request": {"query": "query { viewer { nonsense } }", "variables": {}}, "answer": {"data": {}}},
        {
            "request": {"query": "query($id: ID!) { node(id: $id) { id } }", "variables": {}},
            "answer": {"data": {"node": None}},
        },
    ]
    assert graphql_violations(exchanges[:1], tools) == []
    found = graphql_violations(exchanges, tools)
    assert len(found) >= 4
    assert any("nonsense" in line for line in found)
