"""GitHub's API as the few calls we need, through PyGithub 2.10, with our own errors and our own repetition.

PyGithub repeats a POST after a 5xx by default (facts/sdks.md: one ``create_comment`` became three), so its repetition
is off and ``checklistbot.retry`` does it: Retry-After and rate-limit resets within one deadline, and a POST only after
a look at whether the first one took effect. Answers are read as plain JSON with the status beside them: PyGithub's
objects ask for missing attributes by further requests, and do not show a redirect. No sentence made here holds a body
or a token.
"""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, TypeVar
from urllib.parse import quote, urlsplit

from checklistbot import retry
from checklistbot.github import reading
from checklistbot.github.reading import CheckRun, Comment, Edit, LabelEvent, Pull, Push, Unreadable
from checklistbot.model import InputError, UsageError
from checklistbot.record import record

T = TypeVar("T")

PUBLIC_API: Final = "https://api.github.com"
#: Who a workflow's GITHUB_TOKEN is; ``GET /user`` is forbidden to it (facts/sdks.md).
ACTIONS_LOGIN: Final = "github-actions[bot]"
#: Seconds without an answer.
TIMEOUT_S: Final = 15
_ATTEMPTS: Final = 4
_PAGES: Final = 100
#: GitHub asks for at least a minute where a secondary limit names no time.
_SECONDARY_LIMIT_S: Final = 60.0
_LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})
#: Edits of one comment that are read, in hundreds.
_EDIT_PAGES: Final = 10
#: What a 403 asks for.
_PULLS: Final = "the job `pull-requests: write`"
_ISSUES: Final = "the job `issues: write`"
_CHECKS: Final = "the job `checks: write`"
_CONTENTS: Final = "the job `contents: read`"
_TEAMS: Final = "the step a token that may read the organisation's teams"
#: Tokens of people; everything else may be an installation's (``ghs_``), to which ``GET /user`` is forbidden.
_PERSONAL: Final = ("ghp_", "github_pat_", "gho_", "ghu_")

Kind = Literal[
    "token", "permission", "locked", "not-found", "gone", "refused", "moved", "rate-limit", "server", "network", "late"
]


class GitHubError(InputError):
    """GitHub did not do what was asked. ``kind`` says why; the text is one line of our own."""

    def __init__(self, kind: Kind, text: str) -> None:
        super().__init__(text)
        self.kind: Kind = kind


def api_url_of(environment: Mapping[str, str]) -> str:
    """GITHUB_API_URL (GitHub Enterprise Server: https://HOST/api/v3), else the public one.

    Raises:
        UsageError: it is no https address (http is accepted on loopback only).
    """
    url = environment.get("GITHUB_API_URL", "").rstrip("/") or PUBLIC_API
    parts = urlsplit(url)
    secure = parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _LOOPBACK)
    if not secure or parts.username or parts.query or not re.fullmatch(r"[A-Za-z0-9.:/_\[\]-]{1,300}", url):
        raise UsageError("GITHUB_API_URL: expected https://HOST or https://HOST/api/v3")
    return url


# --- one exchange ----------------------------------------------------------------------------------------------------


@record
class _Answer:
    """What came back. ``data`` is None for an empty body."""

    status: int
    headers: Mapping[str, str]
    data: Any


class _Failed(Exception):
    """An answer that is no success."""

    def __init__(self, answer: _Answer) -> None:
        super().__init__(answer.status)
        self.status = answer.status
        self.headers = answer.headers
        data = answer.data
        message = data.get("message") if isinstance(data, dict) else None
        #: Read to tell one 403 from another, never shown.
        self.message = message.lower() if isinstance(message, str) else ""

    @property
    def limited(self) -> bool:
        """True if a rate limit is the reason: GitHub says 403 or 429 for both of its limits."""
        if self.status not in (403, 429):
            return False
        spent = self.headers.get("x-ratelimit-remaining") == "0"
        return self.status == 429 or spent or "retry-after" in self.headers or "rate limit" in self.message


class _Late(Exception):
    """The deadline passed before the request was sent."""


class GitHub:
    """The calls. Every one raises GitHubError when GitHub does not do it within ``deadline``.

    ``timeout_s`` is for one request. GitHub asks for a second between two writes; PyGithub's own brake waits on the
    real clock, and before queries too, so ours is used.
    """

    def __init__(
        self,
        token: str,
        *,
        deadline: retry.Deadline,
        api_url: str | None = None,
        timeout_s: int = TIMEOUT_S,
        seconds_between_writes: float = 1.0,
    ) -> None:
        from github import Auth, Github

        if not token or not token.isascii() or not token.isprintable() or " " in token:
            raise UsageError("GITHUB_TOKEN: no token given; in a workflow pass `GITHUB_TOKEN: ${{ github.token }}`")
        # At DEBUG PyGithub logs bodies.
        logging.getLogger("github").setLevel(logging.WARNING)
        self._token = token
        self._deadline = deadline
        self._timeout_s = timeout_s
        self._pause_s = seconds_between_writes
        self._last_write: float | None = None
        self._github = Github(
            auth=Auth.Token(token),
            base_url=api_url or api_url_of(os.environ),
            timeout=timeout_s,
            user_agent="checklistbot",
            per_page=100,
            retry=None,
            seconds_between_requests=0,
            seconds_between_writes=0,
        )
        self._requester = self._github.requester

    def close(self) -> None:
        """Close the connections."""
        self._github.close()

    # --- who, and where

    def login(self) -> str:
        """Whom GitHub takes the token for, as it stands beside a comment: ``octocat`` or ``some-app[bot]``.

        A person's token is asked for by REST. Everything else is asked for by GraphQL, which answers installations too;
        where that fails it is taken for a workflow's own token. Raises GitHubError if the token is not accepted.
        """
        if self._token.startswith(_PERSONAL):
            try:
                return self._exchange("GET", "/user", read=_data(reading.name_of), asked="the token's owner")
            except GitHubError as error:
                if error.kind not in ("permission", "not-found"):
                    raise
        try:
            name = self._graphql(reading.VIEWER_QUERY, {}, reading.viewer)
        except GitHubError as error:
            if error.kind == "token":
                raise
            return ACTIONS_LOGIN
        return f"{name}[bot]" if self._token.startswith("ghs_") and not name.endswith("[bot]") else name

    def pulls_of(self, repo: str, head_ref: str) -> list[Pull]:
        """The open pull requests whose head is ``OWNER:BRANCH``.

        GitHub ignores a filter that it does not understand, so its answer is filtered again.
        """
        parameters = {"state": "open", "head": head_ref}
        pulls = self._pages(f"/repos/{repo}/pulls", reading.pull, parameters, asked=f"the pull requests of {repo}")
        return [pull for pull in pulls if reading.same_head(pull.head_label, head_ref)]

    def pull(self, repo: str, number: int) -> Pull:
        """One pull request as it stands now."""
        return self._exchange(
            "GET", f"/repos/{repo}/pulls/{number}", read=_data(reading.pull), asked=f"{repo}#{number}"
        )

    def role(self, repo: str, login: str) -> str:
        """What somebody may do in the repository: admin, maintain, write, triage, read, or none."""
        path = f"/repos/{repo}/collaborators/{quote(login, safe='[]')}/permission"
        try:
            return self._exchange("GET", path, read=_data(reading.role), asked=f"a person's permission in {repo}")
        except GitHubError as error:
            if error.kind == "not-found":
                return "none"
            raise

    def in_team(self, organisation: str, team: str, login: str) -> bool:
        """True if somebody is an active member of the organisation's team (the token must be allowed to read it)."""
        path = f"/orgs/{organisation}/teams/{team}/memberships/{quote(login, safe='[]')}"
        try:
            found = self._exchange(
                "GET", path, read=_data(reading.table), asked=f"the team {organisation}/{team}", grant=_TEAMS
            )
        except GitHubError as error:
            if error.kind == "not-found":
                return False
            raise
        return found.get("state") == "active"

    def label_events(self, repo: str, number: int) -> list[LabelEvent]:
        """Who set or took off a label of a pull request, oldest first."""
        path = f"/repos/{repo}/issues/{number}/events"
        found = self._pages(path, reading.label_event, {}, asked=f"the events of {repo}#{number}")
        return [event for event in found if event is not None]

    def pushes(self, repo: str, branch: str) -> list[Push]:
        """The last pushes to a branch, newest first (at most a hundred)."""
        parameters = {"ref": f"refs/heads/{branch}", "per_page": 100}
        path = f"/repos/{repo}/activity"
        read = reading.list_of(reading.push)
        return self._exchange(
            "GET", path, parameters=parameters, read=_data(read), asked=f"the pushes to {repo}", grant=_CONTENTS
        )

    # --- comments

    def comments(self, repo: str, number: int) -> list[Comment]:
        """All comments of a pull request, oldest first."""
        path = f"/repos/{repo}/issues/{number}/comments"
        return self._pages(path, reading.comment, {}, asked=f"{repo}#{number}")

    def comment(self, repo: str, comment_id: int) -> Comment:
        """One comment as it stands now."""
        path = f"/repos/{repo}/issues/comments/{comment_id}"
        return self._exchange("GET", path, read=_data(reading.comment), asked=f"a comment of {repo}")

    def create_comment(self, repo: str, number: int, body: str, look: Callable[[], Comment | None]) -> Comment:
        """Post a comment. ``look`` tells whether an attempt of unknown end took effect; it runs before each repetition,
        and once more when no attempt is left."""
        path, asked = f"/repos/{repo}/issues/{number}/comments", f"{repo}#{number}"
        return self._create(path, {"body": body}, reading.comment, look, asked, _PULLS)

    def edit_comment(self, repo: str, comment_id: int, body: str) -> Comment:
        """Replace a comment's text; the same text twice does no harm, so it is simply repeated."""
        path = f"/repos/{repo}/issues/comments/{comment_id}"
        return self._exchange(
            "PATCH", path, data={"body": body}, read=_data(reading.comment), asked=f"a comment of {repo}"
        )

    # --- the nightly issue

    def issues(self, repo: str, label: str) -> list[Comment]:
        """The open issues with that label, oldest first (``id`` is the issue's number); pull requests are left out."""
        parameters = {"state": "open", "labels": label, "sort": "created", "direction": "asc"}
        found = self._pages(f"/repos/{repo}/issues", reading.issue, parameters, asked=f"the issues of {repo}")
        return [issue for issue in found if issue is not None]

    def create_issue(self, repo: str, data: Mapping[str, Any], look: Callable[[], Comment | None]) -> Comment | None:
        """Open an issue; ``look`` as for a comment."""
        return self._create(f"/repos/{repo}/issues", data, reading.issue, look, f"an issue of {repo}", _ISSUES)

    def edit_issue(self, repo: str, number: int, data: Mapping[str, Any]) -> Comment | None:
        """Change an issue's text or close it; twice does no harm."""
        path = f"/repos/{repo}/issues/{number}"
        return self._exchange(
            "PATCH", path, data=data, read=_data(reading.issue), asked=f"an issue of {repo}", grant=_ISSUES
        )

    def delete_comment(self, repo: str, comment_id: int) -> None:
        """Delete a comment. One that is gone already is what was wanted."""
        path = f"/repos/{repo}/issues/comments/{comment_id}"
        try:
            self._exchange("DELETE", path, read=_data(lambda _: None), asked=f"a comment of {repo}")
        except GitHubError as error:
            if error.kind not in ("not-found", "gone"):
                raise

    def edits(self, node_id: str) -> list[Edit]:
        """The edits of a comment, newest first, each with the whole text that it saved; at most a thousand (GraphQL only)."""
        found: list[Edit] = []
        after: str | None = None
        for _ in range(_EDIT_PAGES):
            page, after = self._graphql(reading.EDITS_QUERY, {"id": node_id, "after": after}, reading.edits)
            found += page
            if after is None:
                break
        return found

    def hidden(self, node_ids: list[str]) -> set[str]:
        """Those of the comments that are minimised (GraphQL only)."""
        return self._graphql(reading.HIDDEN_QUERY, {"ids": node_ids[:100]}, reading.hidden)

    def hide_comment(self, node_id: str) -> None:
        """Minimise a comment as outdated; twice does no harm (GraphQL only)."""
        self._brake()
        self._graphql(reading.HIDE_MUTATION, {"id": node_id}, lambda _: None)

    # --- check runs

    def check_runs(self, repo: str, commit: str, name: str) -> list[CheckRun]:
        """The latest check runs of that name at a commit, one an app and suite."""
        path = f"/repos/{repo}/commits/{commit}/check-runs"
        parameters = {"check_name": name, "filter": "latest", "per_page": 100}
        asked = f"the check runs of {repo}"
        return self._exchange(
            "GET", path, parameters=parameters, read=_data(reading.runs_of), asked=asked, grant=_CHECKS
        )

    def create_check(self, repo: str, data: Mapping[str, Any], look: Callable[[], CheckRun | None]) -> CheckRun:
        """Start a check run; ``look`` as in ``create_comment``."""
        asked = f"a check run of {repo}"
        return self._create(f"/repos/{repo}/check-runs", data, reading.check_run, look, asked, _CHECKS)

    def update_check(self, repo: str, check_id: int, data: Mapping[str, Any]) -> CheckRun:
        """Bring a check run up to date. Annotations are added each time, so only the last request may carry any."""
        path, asked = f"/repos/{repo}/check-runs/{check_id}", f"a check run of {repo}"
        return self._exchange("PATCH", path, data=data, read=_data(reading.check_run), asked=asked, grant=_CHECKS)

    # --- how

    def _create(
        self,
        path: str,
        data: Mapping[str, Any],
        read: Callable[[Any], T],
        look: Callable[[], T | None],
        asked: str,
        grant: str,
    ) -> T:
        """A POST, repeated only after a look."""
        try:
            return self._exchange("POST", path, data=data, read=_data(read), look=look, asked=asked, grant=grant)
        except GitHubError as error:
            found = _look_again(look) if error.kind in ("server", "network") else None
            if found is None:
                raise
            return found

    def _pages(self, path: str, entry: Callable[[Any], T], parameters: dict[str, Any], *, asked: str) -> list[T]:
        """All pages of a list. The address of the next is GitHub's: a renamed repository answers from another."""

        def read(answer: _Answer) -> tuple[list[T], str | None]:
            return [entry(item) for item in reading.rows(answer.data)], reading.next_page(
                answer.headers.get("link", "")
            )

        found: list[T] = []
        where: str | None = path
        query: dict[str, Any] | None = {**parameters, "per_page": 100}
        for _ in range(_PAGES):
            entries, where = self._exchange("GET", where or path, parameters=query, read=read, asked=asked)
            found += entries
            query = None
            if where is None:
                return found
        raise GitHubError("refused", f"{asked} has more than {_PAGES} pages of entries; they are not all read")

    def _graphql(self, query: str, variables: dict[str, Any], read: Callable[[Mapping[str, Any]], T]) -> T:
        """A GraphQL query, or a mutation that may happen twice: it is repeated as a GET is."""

        def unpack(answer: _Answer) -> T:
            table = reading.table(answer.data)
            if table.get("errors"):
                raise _Failed(_Answer(_graphql_status(table["errors"]), answer.headers, None))
            return read(reading.table(table.get("data")))

        data = {"query": query, "variables": variables}
        return self._exchange("POST", self._requester.graphql_url, data=data, read=unpack, asked="GraphQL")

    def _exchange(
        self,
        verb: str,
        path: str,
        *,
        read: Callable[[_Answer], T],
        asked: str,
        parameters: dict[str, Any] | None = None,
        data: Mapping[str, Any] | None = None,
        look: Callable[[], T | None] | None = None,
        grant: str = _PULLS,
    ) -> T:
        """One call with its repetitions. ``asked`` and ``grant`` say in the error line what it was about and what it needs."""
        try:
            return retry.call(
                lambda: read(self._once(verb, path, parameters, data)),
                self._classify,
                deadline=self._deadline,
                attempts=_ATTEMPTS,
                look=look,
            )
        except retry.GaveUp as error:
            raise self._error(error.last, asked, verb, grant, error) from None
        except (_Failed, _Late) as error:
            raise self._error(error, asked, verb, grant) from None

    def _once(self, verb: str, path: str, parameters: dict[str, Any] | None, data: Mapping[str, Any] | None) -> _Answer:
        if self._deadline.left() <= 0:
            raise _Late
        if verb != "GET" and path != self._requester.graphql_url:
            self._brake()
        try:
            status, headers, text = self._requester.requestJson(verb, path, parameters, {}, data)
        except RuntimeError:
            # PyGithub follows a 301 itself, but not to another host or scheme, nor in a circle.
            raise _Failed(_Answer(301, {}, None)) from None
        try:
            body = json.loads(text) if text.strip() else None
        except (ValueError, RecursionError):
            body = _NO_JSON
        answer = _Answer(status, headers, body)
        if not 200 <= status < 300:
            raise _Failed(answer)
        if body is _NO_JSON:
            raise Unreadable
        return answer

    def _brake(self) -> None:
        """Wait until the last write is ``seconds_between_writes`` ago."""
        clock = self._deadline.clock
        if self._last_write is not None and (wait := self._last_write + self._pause_s - clock.now()) > 0:
            clock.sleep(wait)
        self._last_write = clock.now()

    def _classify(self, error: Exception) -> retry.Again | None:
        """Whether the failure may pass, and when."""
        if isinstance(error, _Failed):
            if error.limited:
                return retry.Again(self._limit_ends(error))
            if error.status >= 500 or error.status in (408, 409):
                return retry.Again(retry.retry_after_seconds(error.headers.get("retry-after"), self._deadline.clock))
            return None
        return retry.Again() if isinstance(error, Unreadable) or _network_trouble(error) else None

    def _limit_ends(self, error: _Failed) -> float:
        """Seconds until a rate limit ends: Retry-After, else the reset of a spent limit, else a minute."""
        after = retry.retry_after_seconds(error.headers.get("retry-after"), self._deadline.clock)
        if after is not None:
            return after
        reset = error.headers.get("x-ratelimit-reset", "")
        if error.headers.get("x-ratelimit-remaining") == "0" and reset.isascii() and reset.isdigit():
            return max(0.0, float(reset[:12]) - self._deadline.clock.wall()) + 1.0
        return _SECONDARY_LIMIT_S

    def _error(
        self, error: Exception, asked: str, verb: str, grant: str, gave_up: retry.GaveUp[Any] | None = None
    ) -> GitHubError:
        """The failure as one line."""
        after = f" after {gave_up.attempts} attempts" if gave_up is not None and gave_up.attempts > 1 else ""
        if isinstance(error, _Late):
            return GitHubError("late", f"no time is left to ask GitHub about {asked}")
        if isinstance(error, Unreadable):
            return GitHubError("server", f"GitHub's answer about {asked} cannot be read{after}")
        if not isinstance(error, _Failed):
            return GitHubError("network", f"GitHub cannot be reached{after}: {self._network_reason(error)}")
        if error.limited:
            wait = f"{gave_up.waited_for:.0f} s" if gave_up is not None and gave_up.waited_for is not None else "?"
            left = f"{self._deadline.left():.0f} s"
            return GitHubError("rate-limit", f"GitHub's rate limit ends in {wait}, {left} are left; publish later")
        return GitHubError(*_sentence(error, asked, verb, after, grant))

    def _network_reason(self, error: Exception) -> str:
        """Why there was no answer, by the exception's kind: its text can hold anything."""
        import requests

        if isinstance(error, requests.exceptions.SSLError):
            return "its certificate is not accepted (REQUESTS_CA_BUNDLE names your own authority)"
        if isinstance(error, requests.exceptions.ProxyError):
            return "the proxy does not let it through"
        if isinstance(error, requests.exceptions.Timeout):
            return f"no answer within {self._timeout_s} s"
        return "the connection failed"


_NO_JSON: Final = object()


def _data(read: Callable[[Any], T]) -> Callable[[_Answer], T]:
    """For calls whose answer's JSON is all that counts."""
    return lambda answer: read(answer.data)


def _graphql_status(errors: object) -> int:
    """The status that REST would have given: GraphQL answers 200 and names the kind of an error."""
    kinds = {entry.get("type") for entry in errors if isinstance(entry, dict)} if isinstance(errors, list) else set()
    known = {"FORBIDDEN": 403, "INSUFFICIENT_SCOPES": 403, "NOT_FOUND": 404, "RATE_LIMITED": 429}
    return next((status for kind, status in known.items() if kind in kinds), 422)


def _look_again(look: Callable[[], T | None]) -> T | None:
    """The last look; if it fails too, the first failure is the one to report."""
    try:
        return look()
    except GitHubError:
        return None


def _network_trouble(error: Exception) -> bool:
    import requests

    return isinstance(error, (requests.exceptions.RequestException, OSError))


def _sentence(error: _Failed, asked: str, verb: str, after: str, grant: str) -> tuple[Kind, str]:
    """Kind and text for an answer that is neither a success nor a rate limit."""
    status = error.status
    if status == 401:
        return "token", "GitHub does not accept the token (401); is GITHUB_TOKEN set, whole and not expired?"
    if status == 403 and "locked" in error.message:
        return "locked", f"the conversation of {asked} is locked (403)"
    if status == 403:
        may = "read" if verb == "GET" else "write"
        return "permission", f"the token may not {may} {asked} (403); give {grant}"
    if status == 404:
        return "not-found", f"GitHub shows the token no {asked} (404); check the name, the number and its permissions"
    if status == 410:
        return "gone", f"{asked} is gone (410)"
    if 300 <= status < 400:
        return "moved", f"{asked} has moved ({status}); use its new name"
    if status >= 500 or status in (408, 409):
        return "server", f"GitHub cannot answer about {asked} ({status}){after}; try again later"
    return "refused", f"GitHub refuses the request about {asked} ({status})"
