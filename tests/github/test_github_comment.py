"""publish(): the cases of the comment's protocol, over HTTP against the stateful server."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from fake_github import Actor, FakeGitHub, Fault, ManualClock, Pull, serving
from openapi_contract import Contract

from checklistbot.github.client import GitHub, GitHubError, api_url_of
from checklistbot.github.comment import Published, Target, publish
from checklistbot.github.marker import Marker, parse, split
from checklistbot.github.postable import compose
from checklistbot.model import InputError, UsageError
from checklistbot.retry import Deadline

pytestmark = pytest.mark.needs("npm:@octokit/openapi")

TARGET = Target("octo/serving", pr=7)
LIST, POST, PATCH, DELETE = (
    "issues/list-comments",
    "issues/create-comment",
    "issues/update-comment",
    "issues/delete-comment",
)
PULL, GET, HIDDEN = "pulls/get", "issues/get-comment", "graphql/hidden"
VIEWER, EDITS, USER, PULLS = "graphql/viewer", "graphql/edits", "users/get-authenticated", "pulls/list"


def at(minute: int, **changes: Any) -> Marker:
    return replace(Marker(valid_at=f"2026-11-30T11:{minute:02}:00Z", config="c" * 64, head="a" * 40), **changes)


def post(
    github: FakeGitHub, clock: ManualClock, body: str, minute: int, *, token: str = "ghs_test", **options: Any
) -> Published:
    options = {"target": TARGET, "marker": at(minute), "seconds": 60.0, **options}
    return publish(
        body,
        options.pop("marker"),
        options.pop("target"),
        token=token,
        deadline=Deadline(options.pop("seconds"), clock.clock),
        api_url=github.api_url,
        **{"seconds_between_writes": 0, **options},
    )


def text_of(body: str) -> str:
    return split(body)[0]


@pytest.fixture
def bot(github: FakeGitHub) -> Actor:
    return github.actors[github.bot()]


# --- create, update, leave alone -------------------------------------------------------------------------------------


def test_first_run_creates_one_comment_with_the_marker_on_the_last_line(github, clock, bot) -> None:
    done = post(github, clock, "### verdict", 1)

    assert done == Published("created", "https://github.com/octo/serving/pull/7#issuecomment-1001", 1001)
    assert [text_of(body) for body in github.bodies()] == ["### verdict"]
    marker = parse(github.bodies()[0])
    assert marker is not None
    assert (marker.id, marker.valid_at, marker.head) == ("default", "2026-11-30T11:01:00Z", "a" * 40)
    assert github.ops() == [PULL, VIEWER, LIST, POST, LIST]


def test_second_run_updates_the_same_comment(github, clock, bot) -> None:
    first = post(github, clock, "old", 1)
    second = post(github, clock, "new", 2)

    assert (second.action, second.comment_id) == ("updated", first.comment_id)
    assert [text_of(body) for body in github.bodies()] == ["new"]
    assert github.ops(POST, PATCH) == [POST, PATCH]


def test_equal_content_is_not_written_again(github, clock, bot) -> None:
    post(github, clock, f"same, checked head `abc1234` at 2026-11-30T11:01Z, {'a' * 40}", 1)
    done = post(github, clock, f"same, checked head `bcd2345` at 2026-11-30T11:59Z, {'b' * 40}", 59)

    assert done.action == "unchanged"
    assert github.ops(PATCH) == []


def test_equal_text_for_another_configuration_is_written(github, clock, bot) -> None:
    post(github, clock, "same", 1)
    assert post(github, clock, "same", 2, marker=at(2, config="d" * 64)).action == "updated"


def test_ticks_of_people_are_no_reason_to_write(github, clock, bot) -> None:
    post(github, clock, "- [ ] check the pool", 1)
    stored = next(iter(github.comments.values()))
    stored.body = stored.body.replace("[ ]", "[x]").replace("\n", "\r\n")

    assert post(github, clock, "- [ ] check the pool", 2).action == "unchanged"
    assert "[x]" in stored.body


def test_a_text_that_somebody_changed_is_mended_though_its_marker_says_equal(github, clock, bot) -> None:
    post(github, clock, "### BLOCK", 1)
    stored = next(iter(github.comments.values()))
    stored.body = stored.body.replace("BLOCK", "PASS")

    assert post(github, clock, "### BLOCK", 2).action == "updated"
    assert [text_of(body) for body in github.bodies()] == ["### BLOCK"]


def test_an_older_run_writes_nothing(github, clock, bot) -> None:
    post(github, clock, "newer", 30)
    done = post(github, clock, "older", 29)

    assert done.action == "older"
    assert [text_of(body) for body in github.bodies()] == ["newer"]
    assert github.ops(PATCH) == []


def test_a_marker_from_the_far_future_does_not_close_the_slot(github, clock, bot) -> None:
    github.put(bot, compose("stuck", at(0, valid_at="2031-01-01T00:00:00Z")))
    assert post(github, clock, "fresh", 1).action == "updated"


def test_a_newer_marker_over_a_changed_text_does_not_close_the_slot(github, clock, bot) -> None:
    github.put(bot, compose("original", at(50)).replace("original", "everything is fine"))
    assert post(github, clock, "fresh", 1).action == "updated"


def test_mode_off_does_not_even_connect(github, clock, bot) -> None:
    assert post(github, clock, "x", 1, mode="off") == Published("off")
    assert github.calls == []


def test_instances_with_different_ids_keep_their_own_comments(github, clock, bot) -> None:
    post(github, clock, "one", 1, marker=at(1, id="prefill"))
    post(github, clock, "two", 2, marker=at(2, id="decode"))
    post(github, clock, "three", 3, marker=at(3, id="prefill"))

    assert [text_of(body) for body in github.bodies()] == ["three", "two"]


# --- whose is it -----------------------------------------------------------------------------------------------------


def test_another_authors_comment_with_our_marker_is_untouched(github, clock, bot) -> None:
    forged = compose("### PASS, trust me", at(0))
    github.put(Actor("mallory", "User", 2), forged)
    github.put(Actor("other-app[bot]"), forged)

    assert post(github, clock, "### BLOCK", 1).action == "created"
    assert post(github, clock, "### WARN", 2).action == "updated"
    assert github.bodies("mallory") == github.bodies("other-app[bot]") == [forged]


@pytest.mark.parametrize(
    "body",
    [
        "no marker",
        compose("quoted", at(0)) + "\n\nmore text",
        "> " + compose("quoted", at(0)).rpartition("\n")[2],
        compose("spaced", at(0)).replace("<!-- checklistbot", "<!--  checklistbot"),
        compose("other id", at(0, id="other")),
    ],
)
def test_own_comments_without_our_exact_marker_at_the_end_are_untouched(github, clock, bot, body) -> None:
    github.put(bot, body)
    post(github, clock, "ours", 1)
    assert github.bodies()[0] == body
    assert len(github.bodies()) == 2


def test_more_than_a_hundred_comments_are_all_read(github, clock, bot) -> None:
    for n in range(250):
        github.put(Actor("octocat", "User", 3), f"chat {n}")
    post(github, clock, "ours", 1)
    done = post(github, clock, "ours, newer", 2)

    assert done.action == "updated"
    assert len(github.bodies()) == 1
    pages = [call.query.get("page", "1") for call in github.calls if call.op == LIST]
    assert pages == ["1", "2", "3"] * 3
    assert {call.query["per_page"] for call in github.calls if call.op == LIST} == {"100"}


def test_of_several_own_comments_the_oldest_stays_and_it_is_said(github, clock, bot) -> None:
    for n in (1, 2, 3):
        github.put(bot, compose(f"text {n}", at(n)))
    done = post(github, clock, "now", 9)

    assert (done.action, done.comment_id) == ("updated", 1001)
    assert done.warning == "3 comments carried our marker; the oldest is kept"
    assert [text_of(body) for body in github.bodies()] == ["now"]


def test_an_older_run_still_merges_what_a_killed_run_left(github, clock, bot) -> None:
    github.put(bot, compose("first", at(1)))
    github.put(bot, compose("newest", at(40)))
    done = post(github, clock, "older than that", 20)

    assert (done.action, done.comment_id) == ("older", 1001)
    assert [text_of(body) for body in github.bodies()] == ["newest"]


def test_a_workflows_token_never_asks_for_the_user(github, clock, bot) -> None:
    post(github, clock, "x", 1)
    assert github.ops(USER) == []


def test_a_workflows_token_without_graphql_is_taken_for_github_actions(github, clock) -> None:
    github.bot(graphql=False)
    post(github, clock, "x", 1)
    assert post(github, clock, "y", 2).action == "updated"
    assert len(github.bodies()) == 1


def test_a_persons_token_is_asked_for_by_rest(github, clock) -> None:
    github.person("github_pat_x", "Octo-Cat")
    post(github, clock, "x", 1, token="github_pat_x")
    assert post(github, clock, "y", 2, token="github_pat_x").action == "updated"
    assert len(github.bodies("Octo-Cat")) == 1
    assert github.ops(VIEWER) == []


def test_an_apps_own_token_is_asked_for_by_graphql(github, clock) -> None:
    github.actors["ghs_app"] = Actor("our-app[bot]")
    post(github, clock, "x", 1, token="ghs_app")
    assert post(github, clock, "y", 2, token="ghs_app").action == "updated"
    assert len(github.bodies("our-app[bot]")) == 1


def test_a_wrongly_guessed_login_is_mended_by_what_the_create_answers(github, clock) -> None:
    github.actors["ghs_app"] = Actor("our-app[bot]", graphql=False)
    post(github, clock, "x", 1, token="ghs_app")
    done = post(github, clock, "y", 2, token="ghs_app")

    assert done.comment_id == 1001
    assert [text_of(body) for body in github.bodies("our-app[bot]")] == ["y"]


# --- the pull request ------------------------------------------------------------------------------------------------


def test_the_number_is_found_by_the_head_branch(github, clock, bot) -> None:
    github.pulls["octo/serving", 9] = Pull(9, "Forker", "feat/long-context", "b" * 40)
    target = Target("octo/serving", head_ref="forker:feat/long-context")
    done = post(github, clock, "x", 1, target=target, marker=at(1, head="b" * 40))
    assert done.url == "https://github.com/octo/serving/pull/9#issuecomment-1001"


def test_a_server_that_ignores_the_filter_misleads_nobody(github, clock, bot) -> None:
    github.ignores_head = True
    github.pulls["octo/serving", 9] = Pull(9, "forker", "Topic", "a" * 40)
    with pytest.raises(GitHubError, match="no open pull request"):
        post(github, clock, "x", 1, target=Target("octo/serving", head_ref="forker:topic"))
    assert post(github, clock, "x", 1, target=Target("octo/serving", head_ref="Octo:topic")).comment_id == 1001


def test_no_open_pull_request_with_that_head(github, clock, bot) -> None:
    github.pulls["octo/serving", 9] = Pull(9, "forker", "topic", "b" * 40, state="closed")
    with pytest.raises(GitHubError, match="no open pull request of octo/serving has the head forker:topic"):
        post(github, clock, "x", 1, target=Target("octo/serving", head_ref="forker:topic"))


def test_of_several_pull_requests_the_one_that_was_looked_at(github, clock, bot) -> None:
    github.pulls["octo/serving", 8] = Pull(8, "forker", "topic", "b" * 40)
    github.pulls["octo/serving", 9] = Pull(9, "forker", "topic", "a" * 40)
    target = Target("octo/serving", head_ref="forker:topic")

    assert post(github, clock, "x", 1, target=target).url == "https://github.com/octo/serving/pull/9#issuecomment-1001"
    with pytest.raises(UsageError, match=r"\(8, 9\); name one with --pr"):
        post(github, clock, "x", 1, target=target, marker=at(1, head=None))


@pytest.mark.parametrize(
    "arguments",
    [
        {"repo": "octo"},
        {"repo": "octo/.."},
        {"repo": "octo/serving/../../user"},
        {"repo": "octo/serving?x=1"},
        {"repo": "octo/serving\n"},
        {"pr": 0},
        {"pr": None},
        {"pr": None, "head_ref": "topic"},
        {"pr": None, "head_ref": "octo:a b"},
        {"pr": None, "head_ref": "octo:a\x1b[31m"},
        {"pr": 7, "head_ref": "octo:topic"},
    ],
)
def test_a_target_that_is_none_is_refused_in_one_clean_line(arguments: dict[str, Any]) -> None:
    with pytest.raises(UsageError) as error:
        Target(**{"repo": "octo/serving", "pr": 7, **arguments})
    assert str(error.value).isprintable()


# --- what GitHub may say ---------------------------------------------------------------------------------------------


def test_a_post_that_failed_on_its_way_back_is_not_repeated(github, clock, bot) -> None:
    github.faults = [Fault(POST, when="after", status=502)]
    done = post(github, clock, "x", 1)

    assert (done.action, len(github.bodies())) == ("created", 1)
    assert github.ops(POST) == [POST]


def test_a_post_that_did_not_take_effect_is_repeated_after_a_look(github, clock, bot) -> None:
    github.faults = [Fault(POST, status=502, times=2)]
    assert post(github, clock, "x", 1).action == "created"
    assert github.ops(POST, LIST) == [LIST, POST, LIST, POST, LIST, POST, LIST]


def test_a_post_whose_last_attempt_took_effect_counts(github, clock, bot) -> None:
    github.faults = [Fault(POST, status=500, times=3), Fault(POST, nth=4, when="after", status=500)]
    assert post(github, clock, "x", 1).action == "created"
    assert len(github.bodies()) == 1


@pytest.mark.parametrize("op", [LIST, POST])
def test_a_token_that_may_not_is_a_warning(github, clock, op: str) -> None:
    github.bot(write=False)
    github.faults = [Fault(op, status=403, message="Resource not accessible by integration", times=9)]
    done = post(github, clock, "x", 1)

    assert (done.action, done.url) == ("refused", None)
    assert done.warning is not None
    assert done.warning.startswith("no comment: the token may not")
    assert "pull-requests: write" in done.warning
    assert len(github.ops(op)) == 1


def test_a_read_only_token_cannot_update_and_the_old_comment_stays(github, clock) -> None:
    github.bot("ghs_writer")
    github.bot("ghs_reader", write=False)
    post(github, clock, "x", 1, token="ghs_writer")

    assert post(github, clock, "y", 2, token="ghs_reader").action == "refused"
    assert [text_of(body) for body in github.bodies()] == ["x"]


def test_a_locked_conversation_is_a_warning(github, clock, bot) -> None:
    github.pulls["octo/serving", 7].locked = True
    done = post(github, clock, "x", 1)
    assert done.warning == "no comment: the conversation of octo/serving#7 is locked (403); the report is kept"


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (Fault(LIST, status=401, message="Bad credentials"), "token"),
        (Fault(LIST, status=404, message="Not Found"), "not-found"),
        (Fault(LIST, status=410, message="Gone"), "gone"),
        (Fault(POST, status=422, message="Validation Failed"), "refused"),
        (Fault(POST, status=404, message="Not Found"), "not-found"),
        (Fault(POST, status=418, message="teapot"), "refused"),
    ],
)
def test_what_cannot_pass_is_not_repeated(github, clock, bot, fault: Fault, kind: str) -> None:
    fault.times = 9
    github.faults = [fault]
    with pytest.raises(GitHubError) as error:
        post(github, clock, "x", 1)
    assert (error.value.kind, error.value.exit_code) == (kind, 3)
    assert len(github.ops(fault.op)) == 1
    assert clock.slept == []


@pytest.mark.parametrize("status", [408, 409, 500, 502, 503, 504])
def test_what_may_pass_is_repeated_with_growing_waits(github, clock, bot, status: int) -> None:
    github.faults = [Fault(LIST, status=status, times=3)]
    assert post(github, clock, "x", 1).action == "created"
    assert clock.slept == [0.75, 1.5, 3.0]


def test_an_error_that_stays_ends_in_one_line(github, clock, bot) -> None:
    github.faults = [Fault(LIST, status=503, times=99, message="ghs_test <b>body</b>")]
    with pytest.raises(GitHubError) as error:
        post(github, clock, "x", 1)
    assert str(error.value) == "GitHub cannot answer about octo/serving#7 (503) after 4 attempts; try again later"


@pytest.mark.parametrize(
    ("fault", "waited"),
    [
        (Fault(LIST, status=429, headers={"Retry-After": "7"}), 7.0),
        (
            Fault(LIST, status=403, headers={"Retry-After": "11"}, message="You have exceeded a secondary rate limit"),
            11.0,
        ),
        (Fault(LIST, status=403, message="You have exceeded a secondary rate limit"), 60.0),
        (Fault(LIST, status=503, headers={"Retry-After": "5"}), 5.0),
        (Fault(LIST, status=429, headers={"Retry-After": "Mon, 30 Nov 2026 12:00:20 GMT"}), 20.0),
        (
            Fault(
                LIST,
                status=403,
                headers={"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1796040030"},
                message="API rate limit exceeded for installation",
            ),
            31.0,
        ),
    ],
)
def test_limits_are_waited_for_as_long_as_github_says(github, clock, bot, fault: Fault, waited: float) -> None:
    github.faults = [fault]
    assert post(github, clock, "x", 1, seconds=90.0).action == "created"
    assert clock.slept == [waited]


@pytest.mark.parametrize(
    "headers",
    [{"Retry-After": "3600"}, {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": str(1796040000 + 3600)}],
)
@pytest.mark.parametrize("op", [LIST, POST, PATCH])
def test_a_limit_that_ends_in_an_hour_is_not_waited_for(github, clock, bot, op: str, headers: dict[str, str]) -> None:
    if op == PATCH:
        post(github, clock, "before", 1)
    github.faults = [Fault(op, nth=github.seen.get(op, 0) + 1, status=403, headers=headers, times=9, message="limit")]
    with pytest.raises(InputError, match=r"rate limit ends in 360[01] s, 60 s are left; publish later"):
        post(github, clock, "x", 2)
    assert clock.slept == []
    assert [text_of(body) for body in github.bodies()] == (["before"] if op == PATCH else [])


@pytest.mark.parametrize("how", ["close", "cut", "garbage", "wrong", "html"])
@pytest.mark.parametrize("op", [VIEWER, LIST, POST, PATCH, EDITS])
def test_broken_answers_are_asked_for_again(github, clock, bot, op: str, how: str) -> None:
    if op in (PATCH, EDITS):
        post(github, clock, "before", 1)
    github.faults = [Fault(op, nth=github.seen.get(op, 0) + 1, when="after", how=how)]
    assert post(github, clock, "x", 2).action == ("updated" if op in (PATCH, EDITS) else "created")
    assert [text_of(body) for body in github.bodies()] == ["x"]


@pytest.mark.parametrize(("op", "when"), [(LIST, "before"), (POST, "before"), (POST, "after")])
def test_a_stall_ends_at_the_time_out(github, clock, bot, op: str, when: str) -> None:
    github.faults = [Fault(op, when=when, how="stall")]
    try:
        assert post(github, clock, "x", 1, timeout_s=1).action == "created"
    finally:
        github.release.set()
    assert len(github.bodies()) == 1


def test_no_time_left_is_said(github, clock, bot) -> None:
    with pytest.raises(GitHubError, match="no time is left to ask GitHub about octo/serving#7"):
        post(github, clock, "x", 1, seconds=0.0)
    assert github.calls == []


def test_writes_keep_a_second_between_them_and_queries_do_not(github, clock, bot) -> None:
    for n in (1, 2, 3):
        github.put(bot, compose(f"text {n}", at(n)))
    post(github, clock, "x", 4, seconds_between_writes=1.0)
    assert github.ops() == [PULL, VIEWER, LIST, HIDDEN, GET, PATCH, EDITS, DELETE, DELETE]
    assert clock.slept == [1.0, 1.0]


def test_a_server_that_is_not_there(clock) -> None:
    with pytest.raises(GitHubError, match="GitHub cannot be reached after 4 attempts: the connection failed"):
        publish("x", at(1), TARGET, token="ghs_x", deadline=Deadline(60, clock.clock), api_url="http://127.0.0.1:9")


def test_a_comment_that_vanishes_before_the_edit_is_created_again(github, clock, bot) -> None:
    post(github, clock, "x", 1)

    def remove(call: Any, moment: str) -> None:
        if (call.op, moment) == (PATCH, "before"):
            github.comments.clear()

    github.gate = remove
    done = post(github, clock, "y", 2)
    assert (done.action, done.comment_id) == ("created", 1002)
    assert [text_of(body) for body in github.bodies()] == ["y"]


def test_a_second_comment_that_cannot_be_deleted_is_a_warning(github, clock, bot) -> None:
    github.put(bot, compose("one", at(1)))
    github.put(bot, compose("two", at(2)))
    github.faults = [Fault(DELETE, status=403, message="Resource not accessible by integration")]
    done = post(github, clock, "x", 3)

    assert done.action == "updated"
    assert "could not be deleted" in (done.warning or "")
    assert post(github, clock, "y", 4).action == "updated"
    assert [text_of(body) for body in github.bodies()] == ["y"]


def test_a_renamed_repository_is_followed_for_reading_and_named_for_writing(github, clock, bot) -> None:
    for n in range(120):
        github.put(Actor("octocat", "User", 3), f"chat {n}")
    post(github, clock, "x", 1)
    github.moved["octo/old-name"] = "octo/serving"
    target = Target("octo/old-name", pr=7)

    api = GitHub("ghs_test", deadline=Deadline(60, clock.clock), api_url=github.api_url)
    assert len(api.comments("octo/old-name", 7)) == 121
    api.close()
    with pytest.raises(GitHubError, match=r"has moved \(307\); use its new name"):
        post(github, clock, "y", 2, target=target)
    assert [text_of(body) for body in github.bodies()] == ["x"]


def test_a_redirect_to_another_host_does_not_take_the_token_along(github, clock, bot) -> None:
    github.faults = [Fault(LIST, status=301, headers={"Location": "http://localhost:9/steal"})]
    with pytest.raises(GitHubError, match="has moved"):
        post(github, clock, "x", 1)


def test_nothing_of_token_or_body_reaches_an_error(github, clock, bot) -> None:
    for status in (401, 404, 410, 418, 422, 500):
        github.faults = [Fault(POST, status=status, times=99, message="ghs_test and the secret body\x1b[31m")]
        github.seen.clear()
        with pytest.raises(GitHubError) as error:
            post(github, ManualClock(), "the secret body", 1)
        assert "ghs_test" not in str(error.value)
        assert "secret" not in str(error.value)
        assert str(error.value).isprintable()


def test_bodies_are_not_logged(github, clock, bot, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("DEBUG"), caplog.at_level("DEBUG", logger="github"):
        post(github, clock, "the secret body", 1)
        github.moved["octo/old-name"] = "octo/serving"
        with pytest.raises(GitHubError):
            post(github, clock, "another secret body", 2, target=Target("octo/old-name", pr=7))
    assert not [record for record in caplog.records if record.name.startswith("github")]
    assert "secret body" not in caplog.text
    assert "ghs_test" not in caplog.text


# --- where -----------------------------------------------------------------------------------------------------------


def test_an_enterprise_server_has_its_own_paths(contract: Contract, clock) -> None:
    with serving(contract, prefix="/api/v3") as github:
        actor = github.actors[github.bot()]
        for n in range(120):
            github.put(actor, f"chat {n}")
        post(github, clock, "x", 1)
        assert post(github, clock, "y", 2).action == "updated"
        assert github.calls[1].path == "/api/graphql"
        assert github.violations == []


@pytest.mark.parametrize(
    ("url", "ok"),
    [
        ("", True),
        ("https://ghes.corp.example/api/v3", True),
        ("http://127.0.0.1:4011", True),
        ("http://ghes.corp.example/api/v3", False),
        ("https://user:pass@ghes.corp.example", False),
        ("https://ghes.corp.example/?x=1", False),
        ("file:///etc/passwd", False),
        ("https://a b", False),
    ],
)
def test_the_api_address_is_https_or_loopback(url: str, ok: bool) -> None:
    if ok:
        assert api_url_of({"GITHUB_API_URL": url}) == (url or "https://api.github.com")
    else:
        with pytest.raises(UsageError, match="GITHUB_API_URL: expected"):
            api_url_of({"GITHUB_API_URL": url})


@pytest.mark.parametrize("token", ["", "two words", "line\nbreak", "schlüssel"])
def test_a_token_that_is_none_is_refused_before_any_request(github, clock, token: str) -> None:
    with pytest.raises(UsageError, match="GITHUB_TOKEN") as error:
        post(github, clock, "x", 1, token=token)
    assert not token or token not in str(error.value)
    assert github.calls == []
