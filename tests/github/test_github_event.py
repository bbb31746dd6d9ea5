"""Which events run what: CONTRACTS, "Events", one test a line, and payloads that GitHub would never send."""

from __future__ import annotations

import copy
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


@pytest.mark.parametrize("action", ["edited", "labeled", "unlabeled", "closed", "assigned", "review_requested", ""])
def test_other_actions_do_nothing_and_say_why(action: str) -> None:
    event = _read("pull_request", _pull(action))
    assert event.plan == "nothing"
    assert event.why


def test_new_base_branch_is_a_new_comparison() -> None:
    payload = _pull("edited") | {"changes": {"base": {"ref": {"from": "main"}}}}
    assert _read("pull_request", payload).plan == "full"
    assert _read("pull_request", _pull("edited") | {"changes": {"title": {"from": "x"}}}).plan == "nothing"


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


@pytest.mark.parametrize("name", ["pull_request_target", "workflow_run", "issues", "deployment", ""])
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
    st.sampled_from(["pull_request", "push", "merge_group", "schedule", "workflow_run"]),
    st.dictionaries(st.sampled_from([*PULL, "merge_group", "before", "after", "changes"]), _JSON),
)
def test_any_payload_gives_an_event_or_one_line(name: str, payload: dict[str, Any]) -> None:
    try:
        event = _read(name, payload)
    except UsageError:
        return
    assert event.plan in ("full", "checks", "nothing", "refused")
    assert event.plan != "full" or (event.base and event.head and event.pull_request)
