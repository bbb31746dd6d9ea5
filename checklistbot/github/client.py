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
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeVar
from urllib.parse import urlsplit

from checklistbot import retry
from checklistbot.model import InputError, UsageError

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


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment of a pull request. ``login`` is "" where GitHub names no author."""

    id: int
    node_id: str
    login: str
    body: str
    url: str


@dataclass(frozen=True, slots=True)
class Pull:
    """An open pull request: its number and the commit at its head."""

    number: int
    head_label: str
    head_sha: str


@dataclass(frozen=True, slots=True)
class Edit:
    """One entry of a comment's edit history: who saved it, and the whole text that was saved."""

    login: str
    body: str


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


@dataclass(frozen=True, slots=True)
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


class _Unreadable(Exception):
    """An answer that is cut off, no JSON, or not in the form that GitHub describes."""


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
                return self._call("GET", "/user", read=_user, asked="the token's owner")
            except GitHubError as error:
                if error.kind not in ("permission", "not-found"):
                    raise
        try:
            name = self._graphql("query { viewer { login } }", {}, _viewer)
        except GitHubError as error:
            if error.kind == "token":
                raise
            return ACTIONS_LOGIN
        return f"{name}[bot]" if self._token.startswith("ghs_") and not name.endswith("[bot]") else name

    def pulls_of(self, repo: str, head_ref: str) -> list[Pull]:
        """The open pull requests whose head is ``OWNER:BRANCH``.

        GitHub ignores a filter that it does not understand, so its answer is filtered again.
        """
        pulls = self._pages(
            f"/repos/{repo}/pulls", _pull, {"state": "open", "head": head_ref}, asked=f"the pull requests of {repo}"
        )
        return [pull for pull in pulls if _same_head(pull.head_label, head_ref)]

    # --- comments

    def comments(self, repo: str, number: int) -> list[Comment]:
        """All comments of a pull request, oldest first."""
        return self._pages(f"/repos/{repo}/issues/{number}/comments", _comment, {}, asked=f"{repo}#{number}")

    def create_comment(self, repo: str, number: int, body: str, look: Callable[[], Comment | None]) -> Comment:
        """Post a comment. ``look`` tells whether an attempt of unknown end took effect; it runs before each repetition,
        and once more when no attempt is left."""
        path, asked = f"/repos/{repo}/issues/{number}/comments", f"{repo}#{number}"
        try:
            return self._call("POST", path, data={"body": body}, read=_read_comment, look=look, asked=asked)
        except GitHubError as error:
            found = _look_again(look) if error.kind in ("server", "network") else None
            if found is None:
                raise
            return found

    def edit_comment(self, repo: str, comment_id: int, body: str) -> Comment:
        """Replace a comment's text; the same text twice does no harm, so it is simply repeated."""
        path = f"/repos/{repo}/issues/comments/{comment_id}"
        return self._call("PATCH", path, data={"body": body}, read=_read_comment, asked=f"a comment of {repo}")

    def delete_comment(self, repo: str, comment_id: int) -> None:
        """Delete a comment. One that is gone already is what was wanted."""
        path = f"/repos/{repo}/issues/comments/{comment_id}"
        try:
            self._call("DELETE", path, read=lambda _: None, asked=f"a comment of {repo}")
        except GitHubError as error:
            if error.kind not in ("not-found", "gone"):
                raise

    def edits(self, node_id: str) -> list[Edit]:
        """The last edits of a comment, newest first, each with the whole text that it saved (GraphQL only)."""
        return self._graphql(_EDITS_QUERY, {"id": node_id}, _edits)

    # --- how

    def _pages(self, path: str, entry: Callable[[Any], T], parameters: dict[str, Any], *, asked: str) -> list[T]:
        """All pages of a list. The address of the next is GitHub's: a renamed repository answers from another."""

        def read(answer: _Answer) -> tuple[list[T], str | None]:
            return [entry(item) for item in _rows(answer.data)], _next_page(answer.headers.get("link", ""))

        found: list[T] = []
        where: str | None = path
        query: dict[str, Any] | None = {**parameters, "per_page": 100}
        for _ in range(_PAGES):
            entries, where = self._call("GET", where or path, parameters=query, read=read, asked=asked)
            found += entries
            query = None
            if where is None:
                return found
        raise GitHubError("refused", f"{asked} has more than {_PAGES} pages of entries; they are not all read")

    def _graphql(self, query: str, variables: dict[str, Any], read: Callable[[Mapping[str, Any]], T]) -> T:
        """A GraphQL query. It only reads, so it is repeated as a GET is."""

        def unpack(answer: _Answer) -> T:
            table = _table(answer.data)
            if table.get("errors"):
                raise _Failed(_Answer(422, {}, None))
            return read(_table(table.get("data")))

        data = {"query": query, "variables": variables}
        return self._call("POST", self._requester.graphql_url, data=data, read=unpack, asked="GraphQL")

    def _call(
        self,
        verb: str,
        path: str,
        *,
        read: Callable[[_Answer], T],
        asked: str,
        parameters: dict[str, Any] | None = None,
        data: Mapping[str, Any] | None = None,
        look: Callable[[], T | None] | None = None,
    ) -> T:
        """One call with its repetitions. ``asked`` says in the error line what it was about."""
        try:
            return retry.call(
                lambda: read(self._once(verb, path, parameters, data)),
                self._classify,
                deadline=self._deadline,
                attempts=_ATTEMPTS,
                look=look,
            )
        except retry.GaveUp as error:
            raise self._error(error.last, asked, verb, error) from None
        except (_Failed, _Late) as error:
            raise self._error(error, asked, verb) from None

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
            raise _Unreadable
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
        return retry.Again() if isinstance(error, _Unreadable) or _network_trouble(error) else None

    def _limit_ends(self, error: _Failed) -> float:
        """Seconds until a rate limit ends: Retry-After, else the reset of a spent limit, else a minute."""
        after = retry.retry_after_seconds(error.headers.get("retry-after"), self._deadline.clock)
        if after is not None:
            return after
        reset = error.headers.get("x-ratelimit-reset", "")
        if error.headers.get("x-ratelimit-remaining") == "0" and reset.isascii() and reset.isdigit():
            return max(0.0, float(reset[:12]) - self._deadline.clock.wall()) + 1.0
        return _SECONDARY_LIMIT_S

    def _error(self, error: Exception, asked: str, verb: str, gave_up: retry.GaveUp[Any] | None = None) -> GitHubError:
        """The failure as one line."""
        after = f" after {gave_up.attempts} attempts" if gave_up is not None and gave_up.attempts > 1 else ""
        if isinstance(error, _Late):
            return GitHubError("late", f"no time is left to ask GitHub about {asked}")
        if isinstance(error, _Unreadable):
            return GitHubError("server", f"GitHub's answer about {asked} cannot be read{after}")
        if not isinstance(error, _Failed):
            return GitHubError("network", f"GitHub cannot be reached{after}: {self._network_reason(error)}")
        if error.limited:
            wait = f"{gave_up.waited_for:.0f} s" if gave_up is not None and gave_up.waited_for is not None else "?"
            left = f"{self._deadline.left():.0f} s"
            return GitHubError("rate-limit", f"GitHub's rate limit ends in {wait}, {left} are left; publish later")
        return GitHubError(*_sentence(error, asked, verb, after))

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


def _look_again(look: Callable[[], Comment | None]) -> Comment | None:
    """The last look; if it fails too, the first failure is the one to report."""
    try:
        return look()
    except GitHubError:
        return None


def _network_trouble(error: Exception) -> bool:
    import requests

    return isinstance(error, (requests.exceptions.RequestException, OSError))


def _sentence(error: _Failed, asked: str, verb: str, after: str) -> tuple[Kind, str]:
    """Kind and text for an answer that is neither a success nor a rate limit."""
    status = error.status
    if status == 401:
        return "token", "GitHub does not accept the token (401); is GITHUB_TOKEN set, whole and not expired?"
    if status == 403 and "locked" in error.message:
        return "locked", f"the conversation of {asked} is locked (403)"
    if status == 403:
        may = "read" if verb == "GET" else "write"
        return "permission", f"the token may not {may} {asked} (403); give the job `pull-requests: write`"
    if status == 404:
        return "not-found", f"GitHub shows the token no {asked} (404); check the name, the number and its permissions"
    if status == 410:
        return "gone", f"{asked} is gone (410)"
    if 300 <= status < 400:
        return "moved", f"{asked} has moved ({status}); use its new name"
    if status >= 500 or status in (408, 409):
        return "server", f"GitHub cannot answer about {asked} ({status}){after}; try again later"
    return "refused", f"GitHub refuses the request about {asked} ({status})"


# --- reading answers -------------------------------------------------------------------------------------------------

_EDITS_QUERY: Final = (
    "query($id: ID!) { node(id: $id) { ... on IssueComment {"
    " userContentEdits(first: 20) { nodes { editor { login } diff } } } } }"
)


def _table(data: object) -> Mapping[str, Any]:
    if not isinstance(data, dict):
        raise _Unreadable
    return data


def _rows(data: object) -> list[Any]:
    if not isinstance(data, list):
        raise _Unreadable
    return data


def _text(table: Mapping[str, Any], key: str) -> str:
    value = table.get(key)
    if not isinstance(value, str):
        raise _Unreadable
    return value


def _number(table: Mapping[str, Any], key: str) -> int:
    value = table.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise _Unreadable
    return value


def _read_comment(answer: _Answer) -> Comment:
    return _comment(answer.data)


def _comment(data: object) -> Comment:
    table = _table(data)
    user = table.get("user")
    return Comment(
        id=_number(table, "id"),
        node_id=_text(table, "node_id"),
        login=_text(_table(user), "login") if user is not None else "",
        body=_text(table, "body") if table.get("body") is not None else "",
        url=_text(table, "html_url"),
    )


def _pull(data: object) -> Pull:
    table = _table(data)
    head = _table(table.get("head"))
    return Pull(_number(table, "number"), _text(head, "label"), _text(head, "sha"))


def _same_head(label: str, wanted: str) -> bool:
    """Owners do not tell upper from lower case, branches do."""
    (owner, _, branch), (wanted_owner, _, wanted_branch) = label.partition(":"), wanted.partition(":")
    return owner.casefold() == wanted_owner.casefold() and branch == wanted_branch


def _user(answer: _Answer) -> str:
    return _text(_table(answer.data), "login")


def _viewer(data: Mapping[str, Any]) -> str:
    return _text(_table(data.get("viewer")), "login")


def _edits(data: Mapping[str, Any]) -> list[Edit]:
    """GitHub lists edits newest first; a deleted one has no text, an edit of a deleted account no editor."""
    history = _table(_table(data.get("node")).get("userContentEdits"))
    edits = [_table(node) for node in _rows(history.get("nodes"))]
    return [
        Edit(_text(_table(edit["editor"]), "login"), _text(edit, "diff"))
        for edit in edits
        if edit.get("editor") is not None and edit.get("diff") is not None
    ]


def _next_page(link: str) -> str | None:
    """The address with ``rel="next"`` of a Link header. PyGithub keeps its path only, so it stays on our host."""
    found = re.search(r'<([^<>]{1,2000})>;\s*rel="next"', link)
    return found[1] if found else None
