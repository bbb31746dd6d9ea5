"""Which events run what: CONTRACTS, "Events", one test a line, and payloads that GitHub would never send."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checklistbot.github.event import Event, read_event
from checklistbot.model import UsageError

BASE, HEAD, ZERO = "a" * 40, "b" * 40, "0" * 40
ENVIRONMENT = {"GITHUB_REPOSITORY": "acme/serving", "GITHUB_SHA": "c" * 40}
PULL: dict[str, Any] = {
    "action": "opened",
    "pull_request": {
        "number": 7,
        "draft": False,
        "base": {"sha": BASE, "repo": {"id": 1}},
        "head": {"sha": HEAD, "repo": {"id": 1}},
    },
}


def _read(name: str, payload: dict[str, Any]) -> Event:
    return read_event({**ENVIRONMENT, "GITHUB_EVENT_NAME": name}, payload)


def _pull(action: str = "opened", **changes: Any) -> dict[str, Any]:
    payload = copy.deepcopy(PULL)
    payload["action"] = action
    payload["pull_request"].update(changes)
    return payload


@pytest.mark.parametrize("action", ["opened", "synchronize", "reopened", "ready_for_review"])
def test_commits_that_change_get_the_whole_review(action: str) -> None:
    event = _read("pull_request", _pull(action))
    assert (event.plan, event.base, event.head, event.pull_request) == ("full", BASE, HEAD, 7)
    assert event.comment
    assert event.llm


def test_draft_gets_the_whole_review_and_says_so() -> None:
    event = _read("pull_request", _pull("synchronize", draft=True))
    assert event.plan == "full"
    assert event.draft


@pytest.mark.parametrize("action", ["edited", "labeled", "unlabeled", "assigned", "review_requested", ""])
def test_other_actions_check_again_for_the_required_check_shows_the_last_run(action: str) -> None:
    event = _read("pull_request", _pull(action))
    assert (event.plan, event.base, event.head) == ("overrides", BASE, HEAD)
    assert not event.comment


def test_a_label_says_who_set_which() -> None:
    event = _read(
        "pull_request", _pull("labeled") | {"label": {"name": "Break-Glass"}, "sender": {"login": "octo-admin"}}
    )
    assert (event.label, event.sender) == ("Break-Glass", "octo-admin")
    assert event.breaks_glass("break-glass")
    assert not event.breaks_glass("other")
    assert not _read("pull_request", _pull("edited")).breaks_glass("")


def test_a_closed_pull_request_needs_nothing() -> None:
    event = _read("pull_request", _pull("closed"))
    assert (event.plan, event.why) == ("nothing", "the pull request is closed")


def test_new_base_branch_is_a_new_comparison() -> None:
    payload = _pull("edited") | {"changes": {"base": {"ref": {"from": "main"}}}}
    assert _read("pull_request", payload).plan == "full"
    assert _read("pull_request", _pull("edited") | {"changes": {"title": {"from": "x"}}}).plan == "overrides"


COMMENT: dict[str, Any] = {
    "action": "edited",
    "issue": {"number": 7, "pull_request": {"url": "x"}},
    "comment": {"id": 1001, "body": "- [x] a"},
    "changes": {"body": {"from": "- [ ] a"}},
    "sender": {"login": "octo-reviewer"},
}


def test_an_edited_comment_is_read_for_ticks_without_an_llm() -> None:
    event = _read("issue_comment", COMMENT)
    assert (event.plan, event.pull_request, event.comment_id, event.before) == ("ticks", 7, 1001, "- [ ] a")
    assert event.sender == "octo-reviewer"
    assert not event.llm
    assert not event.comment


@pytest.mark.parametrize("changes", [{"action": "created"}, {"action": "deleted"}, {"issue": {"number": 7}}])
def test_other_comments_are_nobodys_ticks(changes: dict[str, Any]) -> None:
    assert _read("issue_comment", COMMENT | changes).plan == "nothing"


@pytest.mark.parametrize("login", ["", "a b", "x" * 200, "[bot]", "a\n", 7, None])
def test_a_sender_in_another_form_is_nobody(login: Any) -> None:
    assert _read("issue_comment", COMMENT | {"sender": {"login": login}}).sender == ""


@pytest.mark.needs("npm:@octokit/webhooks-examples")
@pytest.mark.parametrize("host", ["api.github.com", "ghes-35"])
def test_githubs_own_example_payloads_are_accepted(request: pytest.FixtureRequest, host: str) -> None:
    package = request.config.rootpath / "tests" / "tools" / "node_modules" / "@octokit" / "webhooks-examples"
    webhooks = json.loads((package / host / "index.json").read_text("utf-8"))
    plans: dict[str, set[str]] = {}
    for webhook in webhooks:
        if webhook["name"] in ("pull_request", "issue_comment", "push", "merge_group", "workflow_dispatch"):
            for payload in webhook["examples"]:
                plans.setdefault(webhook["name"], set()).add(_read(webhook["name"], payload).plan)
    assert "full" in plans["pull_request"]
    assert plans["pull_request"] <= {"full", "overrides", "nothing"}
    assert "nothing" in plans["issue_comment"]
    assert plans["push"] <= {"checks", "nothing"}
    assert all("refused" not in found for found in plans.values())


@pytest.mark.parametrize("head_repository", [{"id": 2}, None, {}])
def test_fork_gets_no_llm(head_repository: dict[str, int] | None) -> None:
    event = _read("pull_request", _pull(head={"sha": HEAD, "repo": head_repository}))
    assert event.fork
    assert not event.llm
    assert event.comment


def test_merge_queue_is_checked_without_comment_and_llm() -> None:
    event = _read("merge_group", {"merge_group": {"base_sha": BASE, "head_sha": HEAD}})
    assert (event.plan, event.base, event.head) == ("checks", BASE, HEAD)
    assert not event.comment
    assert not event.llm


def test_push_is_compared_with_what_was_there() -> None:
    event = _read("push", {"before": BASE, "after": HEAD})
    assert (event.plan, event.base, event.head) == ("checks", BASE, HEAD)
    assert _read("push", {"before": ZERO, "after": HEAD}).base is None
    assert _read("push", {"before": BASE, "after": ZERO}).plan == "nothing"


@pytest.mark.parametrize("name", ["workflow_dispatch", "schedule"])
def test_runs_without_a_change_look_at_one_commit(name: str) -> None:
    event = _read(name, {})
    assert (event.plan, event.base, event.head) == ("checks", None, "c" * 40)


@pytest.mark.parametrize("name", ["pull_request_target", "issues", "deployment", ""])
def test_events_that_are_not_safe_or_not_known_are_refused(name: str) -> None:
    event = _read(name, _pull())
    assert event.plan == "refused"
    assert "use" in event.why


def test_refusal_of_pull_request_target_names_the_way_out() -> None:
    assert "pull_request_target is refused" in _read("pull_request_target", _pull()).why


@pytest.mark.parametrize(
    "payload",
    [
        {},
        {"action": "opened", "pull_request": []},
        _pull(number="7"),
        _pull(number=True),
        _pull(number=0),
        _pull(head={"sha": "--upload-pack=touch pwn", "repo": {"id": 1}}),
        _pull(head={"sha": HEAD.upper(), "repo": {"id": 1}}),
        _pull(base={"sha": BASE + "\n", "repo": {"id": 1}}),
        _pull(base={"repo": {"id": 1}}),
    ],
)
def test_payload_in_another_form_is_refused(payload: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="event file"):
        _read("pull_request", payload)


@pytest.mark.parametrize("repository", ["", "acme", "acme/x/y", "a b/c", "acme/x\n", "acme/../x"])
def test_repository_in_another_form_is_refused(repository: str) -> None:
    with pytest.raises(UsageError, match="GITHUB_REPOSITORY"):
        read_event({"GITHUB_EVENT_NAME": "push", "GITHUB_REPOSITORY": repository}, {})


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=50) | st.sampled_from([BASE, HEAD, "opened"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["action", "pull_request", "base", "head", "sha", "repo", "id", "number", "changes"]), inner
        )
    ),
    max_leaves=20,
)


@given(
    st.sampled_from(["pull_request", "push", "merge_group", "schedule", "workflow_run", "issue_comment"]),
    st.dictionaries(
        st.sampled_from([*PULL, "merge_group", "issue", "comment", "label", "sender", "before", "after", "changes"]),
        _JSON,
    ),
)
def test_any_payload_gives_an_event_or_one_line(name: str, payload: dict[str, Any]) -> None:
    try:
        event = _read(name, payload)
    except UsageError:
        return
    assert event.plan in ("full", "overrides", "ticks", "checks", "nothing", "refused")
    assert event.plan != "full" or (event.base and event.head and event.pull_request)
