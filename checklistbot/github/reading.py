"""What GitHub answers, as our own few records: read field by field, and refused where the form is another.

A record holds only what is asked of it. Everything in it was typed by somebody.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

from checklistbot.record import record

T = TypeVar("T")


class Unreadable(Exception):
    """An answer that is cut off, no JSON, or not in the form that GitHub describes."""


@record
class Comment:
    """A comment of a pull request. ``login`` is "" where GitHub names no author."""

    id: int
    node_id: str
    login: str
    body: str
    url: str
    created_at: datetime | None = None


@record
class Pull:
    """A pull request: its number, the commit at its head, the head's repository ("" where that is gone) and branch."""

    number: int
    head_label: str
    head_sha: str
    head_repo: str = ""
    head_branch: str = ""
    author: str = ""
    labels: tuple[str, ...] = ()
    head_repo_id: int = 0
    base_sha: str = ""
    draft: bool = False


@record
class Edit:
    """One entry of a comment's edit history: who saved it, and the whole text that was saved.

    ``bot`` is True where GitHub says that an app saved it; it then names the app without ``[bot]``.
    """

    login: str
    body: str
    bot: bool = False


@record
class LabelEvent:
    """A label was set (``on``) or taken off."""

    login: str
    label: str
    on: bool
    at: datetime


@record
class Push:
    """From ``at`` on ``commit`` was the branch's tip."""

    commit: str
    at: datetime


@record
class CheckRun:
    """A check run of ours: its number, what we called it, how it stands, and the text that it carries."""

    id: int
    external_id: str
    status: str
    conclusion: str | None
    app: str
    text: str
    url: str


#: All saved texts of a comment, a hundred at a time, newest first.
EDITS_QUERY: Final = (
    "query($id: ID!, $after: String) { node(id: $id) { __typename ... on IssueComment {"
    " userContentEdits(first: 100, after: $after) { pageInfo { hasNextPage endCursor }"
    " nodes { editor { __typename login } diff } } } } }"
)
VIEWER_QUERY: Final = "query { viewer { login } }"
HIDDEN_QUERY: Final = "query($ids: [ID!]!) { nodes(ids: $ids) { __typename ... on IssueComment { id isMinimized } } }"
HIDE_MUTATION: Final = (
    "mutation($id: ID!) { minimizeComment(input: {subjectId: $id, classifier: OUTDATED})"
    " { minimizedComment { __typename isMinimized } } }"
)


def table(data: object) -> Mapping[str, Any]:
    """``data``, if it is a JSON object. Raises Unreadable, as all of these do."""
    if not isinstance(data, dict):
        raise Unreadable
    return data


def rows(data: object) -> list[Any]:
    """``data``, if it is a JSON array."""
    if not isinstance(data, list):
        raise Unreadable
    return data


def text(data: Mapping[str, Any], key: str) -> str:
    """A text that must be there."""
    value = data.get(key)
    if not isinstance(value, str):
        raise Unreadable
    return value


def number(data: Mapping[str, Any], key: str) -> int:
    """A number above 0 that must be there."""
    value = data.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise Unreadable
    return value


def moment(data: Mapping[str, Any], key: str) -> datetime:
    """A time with a zone that must be there, in UTC."""
    try:
        when = datetime.fromisoformat(text(data, key))
    except ValueError:
        raise Unreadable from None
    if when.tzinfo is None:
        raise Unreadable
    return when.astimezone(UTC)


def name_of(data: object) -> str:
    """The login of a user; "" where GitHub names nobody (a deleted account)."""
    return text(table(data), "login") if data is not None else ""


def comment(data: object) -> Comment:
    """A comment of an issue or pull request."""
    found = table(data)
    return Comment(
        id=number(found, "id"),
        node_id=text(found, "node_id"),
        login=name_of(found.get("user")),
        body=text(found, "body") if found.get("body") is not None else "",
        url=text(found, "html_url"),
        created_at=moment(found, "created_at") if found.get("created_at") is not None else None,
    )


def issue(data: object) -> Comment | None:
    """An issue as the comment that it begins with, its number as ``id``; None for a pull request, which GitHub lists too."""
    found = table(data)
    if "pull_request" in found:
        return None
    return Comment(
        id=number(found, "number"),
        node_id=text(found, "node_id"),
        login=name_of(found.get("user")),
        body=text(found, "body") if found.get("body") is not None else "",
        url=text(found, "html_url"),
    )


def pull(data: object) -> Pull:
    """A pull request, from a list or by itself."""
    found = table(data)
    head = table(found.get("head"))
    base = table(found.get("base"))
    repository = head.get("repo")
    return Pull(
        number=number(found, "number"),
        head_label=text(head, "label"),
        head_sha=text(head, "sha"),
        head_repo=text(table(repository), "full_name") if repository is not None else "",
        head_branch=text(head, "ref"),
        author=name_of(found.get("user")),
        labels=tuple(text(table(label), "name") for label in rows(found.get("labels", []))),
        head_repo_id=number(table(repository), "id") if repository is not None else 0,
        base_sha=text(base, "sha") if base else "",
        draft=found.get("draft") is True,
    )


def same_head(label: str, wanted: str) -> bool:
    """Owners do not tell upper from lower case, branches do."""
    (owner, _, branch), (wanted_owner, _, wanted_branch) = label.partition(":"), wanted.partition(":")
    return owner.casefold() == wanted_owner.casefold() and branch == wanted_branch


def label_event(data: object) -> LabelEvent | None:
    """An event of an issue, None if it is about no label."""
    found = table(data)
    if found.get("event") not in ("labeled", "unlabeled"):
        return None
    label = text(table(found.get("label")), "name")
    return LabelEvent(name_of(found.get("actor")), label, found["event"] == "labeled", moment(found, "created_at"))


def push(data: object) -> Push:
    """An entry of a branch's activity: a push, a forced push, a creation."""
    found = table(data)
    return Push(text(found, "after"), moment(found, "timestamp"))


def check_run(data: object) -> CheckRun:
    """A check run."""
    found = table(data)
    app, output = found.get("app"), table(found.get("output") or {})
    return CheckRun(
        id=number(found, "id"),
        external_id=found["external_id"] if isinstance(found.get("external_id"), str) else "",
        status=text(found, "status"),
        conclusion=text(found, "conclusion") if found.get("conclusion") is not None else None,
        app=text(table(app), "slug") if isinstance(app, dict) and app.get("slug") else "",
        text=output["text"] if isinstance(output.get("text"), str) else "",
        url=found["html_url"] if isinstance(found.get("html_url"), str) else "",
    )


def role(data: object) -> str:
    """What somebody may do in a repository: admin, maintain, write, triage, read or none, or a role of the organisation's own.

    A role of its own counts as what it is built on (``permission``).
    """
    found = table(data)
    name = found.get("role_name")
    known = ("admin", "maintain", "write", "triage", "read", "none")
    return name if name in known else text(found, "permission")


def viewer(data: Mapping[str, Any]) -> str:
    """Who asks (GraphQL)."""
    return text(table(data.get("viewer")), "login")


def edits(data: Mapping[str, Any]) -> tuple[list[Edit], str | None]:
    """A page of edits, newest first, and the cursor of the next; a deleted one has no text, one of a deleted account no editor."""
    history = table(table(data.get("node")).get("userContentEdits"))
    found = []
    for entry in map(table, rows(history.get("nodes"))):
        editor, saved = entry.get("editor"), entry.get("diff")
        if saved is not None:
            bot = editor is not None and table(editor).get("__typename") == "Bot"
            found.append(Edit(name_of(editor), text(entry, "diff"), bot))
    page = table(history.get("pageInfo"))
    return found, text(page, "endCursor") if page.get("hasNextPage") is True else None


def hidden(data: Mapping[str, Any]) -> set[str]:
    """The node ids of those comments that are minimised."""
    nodes = [table(node) for node in rows(data.get("nodes")) if node is not None]
    return {text(node, "id") for node in nodes if node.get("isMinimized") is True}


def next_page(link: str) -> str | None:
    """The address with ``rel="next"`` of a Link header. PyGithub keeps its path only, so it stays on our host."""
    found = re.search(r'<([^<>]{1,2000})>;\s*rel="next"', link)
    return found[1] if found else None


def list_of(entry: Callable[[Any], T]) -> Callable[[Any], list[T]]:
    """A reader for a JSON array of such entries."""
    return lambda data: [entry(item) for item in rows(data)]


def runs_of(data: Any) -> list[CheckRun]:
    """The check runs of a commit: their list is wrapped."""
    return [check_run(item) for item in rows(table(data).get("check_runs"))]
