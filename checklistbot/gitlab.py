"""A merge request's one note, kept up to date by the comment's protocol (CONTRACTS), through GitLab's REST API v4.

Ours is what our own user wrote and what ends in our marker; the oldest wins, twins go, an older run writes nothing, equal content
is not written again. A POST is never repeated without a look. Boxes that people ticked in the note are not carried over: on
GitLab only its author and maintainers can tick them.
"""

from __future__ import annotations

import json
import os
import re
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import quote, urlsplit

from checklistbot import retry
from checklistbot.github.marker import Marker, parse
from checklistbot.github.postable import compose
from checklistbot.model import InputError, UsageError
from checklistbot.record import record

if TYPE_CHECKING:
    from http.client import HTTPMessage

T = TypeVar("T")

_TIMEOUT_S: Final = 15
_ANSWER_BYTES: Final = 32 * 2**20
_PAGES: Final = 100
_LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})


@record
class MergeRequest:
    """Where the note goes: API address (https://HOST/api/v4), project id or path, the merge request's number in it (iid)."""

    api_url: str
    project: str
    iid: int
    token: str


@record
class _Note:
    id: int
    body: str
    marker: Marker


class _Failed(Exception):
    """No answer (status 0), or one that is no success."""

    def __init__(self, status: int, after: str | None = None) -> None:
        super().__init__(status)
        self.status, self.after = status, after


def target_of(environment: Mapping[str, str], project: str | None = None, iid: int | None = None) -> MergeRequest:
    """The merge request of this GitLab job (CI_API_V4_URL, CI_PROJECT_ID, CI_MERGE_REQUEST_IID, GITLAB_TOKEN), or the one given.

    Raises:
        UsageError: one of them is missing or has not its form.
    """
    url = environment.get("CI_API_V4_URL", "").rstrip("/")
    parts = urlsplit(url)
    secure = parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _LOOPBACK)
    if not secure or parts.username or parts.query or not re.fullmatch(r"[A-Za-z0-9.:/_\[\]-]{1,300}", url):
        raise UsageError("CI_API_V4_URL: expected https://HOST/api/v4")
    project = project or environment.get("CI_PROJECT_ID", "")
    if not re.fullmatch(r"[1-9][0-9]{0,18}|[A-Za-z0-9_.-]+(?:/[A-Za-z0-9_.-]+)+", project):
        raise UsageError("--repo or CI_PROJECT_ID: expected a project's number or GROUP/NAME")
    number = str(iid or environment.get("CI_MERGE_REQUEST_IID", ""))
    if not re.fullmatch(r"[1-9][0-9]{0,9}", number):
        raise UsageError(
            "--pr or CI_MERGE_REQUEST_IID: expected a merge request's number; run it in a merge request's pipeline"
        )
    token = environment.get("GITLAB_TOKEN", "")
    if not re.fullmatch(r"[\x21-\x7e]{1,400}", token):
        raise UsageError("GITLAB_TOKEN: expected a project access token with the scope api")
    return MergeRequest(url, project, int(number), token)


def publish(body: str, marker: Marker, target: MergeRequest, *, deadline: retry.Deadline, create: bool = True) -> str:
    """Create or update our note; returns one word: created, updated, unchanged, older, moved or none.

    Without ``create`` only a note that stands there is brought up to date.

    Raises:
        InputError: GitLab did not do it within ``deadline``; what stood there before still stands.
        UnsafeComment: the text must not be posted.
    """
    text = compose(body, marker)
    note = parse(text)
    assert note is not None  # noqa: S101  (compose has checked it)
    api = _Api(target, deadline)
    head = api.call("GET", f"{api.request}", _sha)
    if marker.head and head and head != marker.head:
        return "moved"
    me = api.call("GET", "/user", _id)
    own = _own(api, me, note.id)
    if not own:
        if not create:
            return "none"
        api.call("POST", f"{api.request}/notes", _id, {"body": text}, look=lambda: _present(_own(api, me, note.id)))
        _settle(api, _own(api, me, note.id), text, note)
        return "created"
    return _settle(api, own, text, note)


def _settle(api: _Api, own: list[_Note], text: str, wanted: Marker) -> str:
    """The oldest note gets the newest text, the others go."""
    if not own:
        return "created"
    kept, *twins = own
    newest = max(own, key=lambda note: (_when(note.marker), -note.id))
    done = "updated"
    if _when(newest.marker) > _when(wanted):
        text, wanted, done = newest.body, newest.marker, "older"
    if kept.marker.content and (kept.marker.content, kept.marker.head) == (wanted.content, wanted.head):
        done = "older" if done == "older" else "unchanged"
    elif kept.body.rstrip() != text.rstrip():
        api.call("PUT", f"{api.request}/notes/{kept.id}", _id, {"body": text})
    for twin in twins:
        api.delete(f"{api.request}/notes/{twin.id}")
    return done


def _when(marker: Marker) -> float:
    return marker.when.timestamp() if marker.when else 0.0


def _present(own: list[_Note]) -> int | None:
    return own[0].id if own else None


def _own(api: _Api, me: int, id: str) -> list[_Note]:
    """Our notes, oldest first: our user's, with our marker as the last line."""
    found = []
    for entry in api.pages(f"{api.request}/notes?sort=asc&order_by=created_at&per_page=100"):
        author, body = entry.get("author"), entry.get("body")
        if not isinstance(body, str) or not isinstance(author, dict) or author.get("id") != me:
            continue
        marker = parse(body.rstrip("\n"))
        if marker is not None and marker.id == id and not entry.get("system"):
            found.append(_Note(_id(entry), body, marker))
    return sorted(found, key=lambda note: note.id)


def _id(data: Any) -> int:
    if not isinstance(data, dict) or not isinstance(data.get("id"), int):
        raise ValueError
    return int(data["id"])


def _sha(data: Any) -> str:
    if not isinstance(data, dict):
        raise ValueError
    return str(data.get("sha") or "")


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect would carry the token to another server."""

    def redirect_request(self, *arguments: Any, **named: Any) -> None:
        return None


class _Api:
    """GitLab's answers as JSON, with repetition within the deadline. No sentence made here holds a body or the token."""

    def __init__(self, target: MergeRequest, deadline: retry.Deadline) -> None:
        self._target, self._deadline = target, deadline
        self.request = f"/projects/{quote(target.project, safe='')}/merge_requests/{target.iid}"
        self._opener = urllib.request.build_opener(_NoRedirect)

    def call(
        self,
        verb: str,
        path: str,
        read: Callable[[Any], T],
        data: Mapping[str, Any] | None = None,
        look: Callable[[], T | None] | None = None,
    ) -> T:
        """One call. Raises InputError."""
        return self._repeated(lambda: read(self._once(verb, path, data)[0]), look)

    def delete(self, path: str) -> None:
        """What is gone already is what was wanted."""
        try:
            self._repeated(lambda: self._once("DELETE", path, None), None)
        except InputError as error:
            if "404" not in str(error):
                raise

    def pages(self, path: str) -> list[dict[str, Any]]:
        """All pages of a list. Raises InputError."""
        found: list[dict[str, Any]] = []
        page = "1"
        for _ in range(_PAGES):
            entries, headers = self._repeated(partial(self._once, "GET", f"{path}&page={page}", None), None)
            found += [entry for entry in entries or [] if isinstance(entry, dict)]
            page = headers.get("x-next-page", "").strip() if headers is not None else ""
            if not re.fullmatch(r"[0-9]{1,6}", page):
                return found
        raise InputError(f"GitLab: the merge request has more than {_PAGES} pages of notes; they are not all read")

    def _repeated(self, action: Callable[[], T], look: Callable[[], T | None] | None) -> T:
        try:
            return retry.call(action, self._classify, deadline=self._deadline, look=look)
        except retry.GaveUp as error:
            # The last attempt may have taken effect as well.
            if look is not None and (found := look()) is not None:
                return found
            raise _sentence(error.last) from None
        except (_Failed, ValueError) as error:
            raise _sentence(error) from None

    def _classify(self, error: Exception) -> retry.Again | None:
        if isinstance(error, ValueError):
            return retry.Again()
        if isinstance(error, _Failed) and (error.status in (0, 429) or error.status >= 500):
            return retry.Again(retry.retry_after_seconds(error.after, self._deadline.clock))
        return None

    def _once(self, verb: str, path: str, data: Mapping[str, Any] | None) -> tuple[Any, HTTPMessage | None]:
        request = urllib.request.Request(  # noqa: S310  (http or https: target_of has checked it)
            self._target.api_url + path,
            data=json.dumps(data).encode() if data is not None else None,
            method=verb,
            headers={"PRIVATE-TOKEN": self._target.token, "Content-Type": "application/json"},
        )
        seconds = max(0.1, min(_TIMEOUT_S, self._deadline.left()))
        try:
            with self._opener.open(request, timeout=seconds) as answer:
                content = answer.read(_ANSWER_BYTES + 1)
                return (json.loads(content) if content else None), answer.headers
        except urllib.error.HTTPError as error:
            error.close()
            raise _Failed(error.code, error.headers.get("Retry-After")) from None
        except (OSError, urllib.error.URLError):
            raise _Failed(0) from None


def _sentence(error: Exception) -> InputError:
    status = error.status if isinstance(error, _Failed) else -1
    known = {
        -1: "answered with something that is not its API",
        0: "could not be reached",
        401: "does not accept GITLAB_TOKEN (401)",
        403: "does not allow it (403); the token needs the scope api and the role Reporter",
        404: "does not show the merge request (404); the token needs the scope api and the role Reporter",
    }
    return InputError(f"GitLab {known.get(status, f'answered {status}')}; the report is kept")


def from_environment(body: str, marker: Marker, project: str | None, iid: int | None, *, create: bool = True) -> str:
    """``publish`` for the job that this process runs in, with two minutes for everything. Raises UsageError and InputError."""
    done = publish(body, marker, target_of(os.environ, project, iid), deadline=retry.Deadline(120.0), create=create)
    return f"note {done}"
