"""The nightly check's one issue: opened when something blocks, brought up to date, closed when nothing does any more.

Found as a comment is: our login, and our marker on the last line. The label narrows what GitHub lists.
"""

from __future__ import annotations

from typing import Final, Literal

from checklistbot.github.client import GitHub
from checklistbot.github.comment import is_ours
from checklistbot.github.marker import Marker, parse
from checklistbot.github.postable import compose
from checklistbot.github.reading import Comment
from checklistbot.record import record

LABEL: Final = "checklistbot"
_TITLES: Final = {
    "en": "checklistbot: this branch must not be deployed",
    "ko": "checklistbot: 이 브랜치는 배포하면 안 됩니다",
}


@record
class Kept:
    """What became of the issue, and its address ("" where there is none)."""

    action: Literal["opened", "updated", "unchanged", "closed", "none"]
    url: str = ""


def keep(api: GitHub, repo: str, body: str, marker: Marker, *, blocked: bool, language: Literal["en", "ko"]) -> Kept:
    """Open, update or close the issue. Of several of ours the oldest is kept, the others are closed.

    Raises:
        GitHubError: GitHub did not do it.
        UnsafeComment: the text must not be posted.
    """
    text = compose(body, marker)
    login = api.login()

    def own() -> list[Comment]:
        found = (issue for issue in api.issues(repo, LABEL) if is_ours(issue, login, marker.id))
        return sorted(found, key=lambda issue: issue.id)

    def look() -> Comment | None:
        return next(iter(own()), None)

    standing = own()
    for twin in standing[1:]:
        api.edit_issue(repo, twin.id, {"state": "closed", "state_reason": "not_planned"})
    if not standing:
        if not blocked:
            return Kept("none")
        made = api.create_issue(repo, {"title": _TITLES[language], "body": text, "labels": [LABEL]}, look)
        return Kept("opened", made.url if made else "")
    kept = standing[0]
    if not blocked:
        api.edit_issue(repo, kept.id, {"body": text, "state": "closed", "state_reason": "completed"})
        return Kept("closed", kept.url)
    before, now = parse(kept.body), parse(text)
    if before and now and (before.content, before.head) == (now.content, now.head):
        return Kept("unchanged", kept.url)
    api.edit_issue(repo, kept.id, {"body": text})
    return Kept("updated", kept.url)
