"""What GitHub says about a break-glass: who set the label, at which commit, with what reason (operations-and-attacks 16).

Judged is it by ``checklistbot.rules``; here it is only asked for. Which commit was the head at a moment is read from the
repository's own record of pushes, whose times are GitHub's: a commit's own date is its author's word.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from checklistbot.github.client import GitHub, GitHubError
from checklistbot.github.reading import Pull, Push
from checklistbot.record import record
from checklistbot.rules import Call


@record
class Labelled:
    """What a ``labeled`` event says: who set which label, and the head at that moment."""

    login: str
    label: str
    head: str


def calls(api: GitHub, repo: str, pull: Pull, label: str, event: Labelled | None = None) -> tuple[Call, ...]:
    """Everything on the pull request that could break the glass; nothing is asked for where the label is not set.

    Raises:
        GitHubError: GitHub does not answer; then there is no override.
    """
    if label.casefold() not in {name.casefold() for name in pull.labels}:
        return ()
    set_last = [e for e in api.label_events(repo, pull.number) if e.label.casefold() == label.casefold()][-1:]
    if not set_last or not set_last[0].on:
        return ()
    comments = [c for c in api.comments(repo, pull.number) if "checklistbot-override:" in c.body and c.created_at]
    logins = {set_last[0].login, *(c.login for c in comments)} - {""}
    roles = {login: api.role(repo, login) for login in sorted(logins)}
    pushes = _pushes(api, pull)
    found = [
        Call(
            entry.login,
            roles.get(entry.login, "none"),
            entry.at,
            True,
            _head(entry.login, entry.at, pushes, event, label),
        )
        for entry in set_last
    ]
    for comment in comments:
        at = comment.created_at
        if at is not None:
            head = head_at(pushes, at)
            found.append(Call(comment.login, roles.get(comment.login, "none"), at, False, head, comment.body))
    return tuple(found)


def _head(login: str, at: datetime, pushes: list[Push], event: Labelled | None, label: str) -> str | None:
    """The head when the label was set: the event's own word where it is this very event, else the record of pushes."""
    same = event is not None and event.label.casefold() == label.casefold() and event.login == login
    known = head_at(pushes, at)
    return event.head if known is None and same and event is not None else known


def _pushes(api: GitHub, pull: Pull) -> list[Push]:
    """The record of the head's branch; empty where it cannot be had (a fork that is gone, an old GHES)."""
    try:
        return api.pushes(pull.head_repo, pull.head_branch) if pull.head_repo else []
    except GitHubError as error:
        if error.kind == "token":
            raise
        return []


def head_at(pushes: Iterable[Push], at: datetime) -> str | None:
    """The branch's tip at a moment; None where the record does not reach back so far."""
    before = [push for push in pushes if push.at <= at]
    return max(before, key=lambda push: push.at).commit if before else None
