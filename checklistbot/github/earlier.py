"""What our earlier comment on a pull request says, before a new one is written."""

from __future__ import annotations

from checklistbot import retry
from checklistbot.github.client import GitHub, GitHubError
from checklistbot.github.comment import Target
from checklistbot.github.marker import Marker, parse
from checklistbot.model import UsageError


def earlier(
    target: Target, id: str, *, token: str, deadline: retry.Deadline, api_url: str | None = None
) -> Marker | None:
    """The marker of our comment with that id (the oldest of several); None where there is none or it cannot be read."""
    try:
        api = GitHub(token, deadline=deadline, api_url=api_url)
    except UsageError:
        return None
    try:
        login = api.login().casefold()
        number = target.pr
        if number is None:
            pulls = api.pulls_of(target.repo, target.head_ref or "")
            number = pulls[0].number if len(pulls) == 1 else None
        if number is None:
            return None
        for comment in sorted(api.comments(target.repo, number), key=lambda c: c.id):
            marker = parse(comment.body) if comment.login.casefold() == login else None
            if marker is not None and marker.id == id:
                return marker
        return None
    except GitHubError:
        return None
    finally:
        api.close()
