"""Break-glass: a label and a reason let a blocked pull request pass, for one head commit and 24 hours (operations-and-attacks 16).

Whoever asks GitHub hands over what it answered, as ``Call``s; here it is only judged. Nothing is taken from the pull request itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final

from checklistbot.encode import Untrusted
from checklistbot.lazy import pattern
from checklistbot.model import Finding, Override
from checklistbot.record import record
from checklistbot.rules.base import Rule

#: How long an override holds after the label was set.
HOLDS: Final = timedelta(hours=24)
#: The permissions of GitHub's API (``role_name``) that may break the glass.
MAY: Final = frozenset({"admin", "maintain"})
_REASON: Final = pattern(r"(?m)^[ \t]*checklistbot-override:[ \t]*(\S.*)$")
_MAX_REASON: Final = 300


@record
class Call:
    """What one person did, as GitHub's API tells it: set the label (``label``), or wrote a comment.

    ``permission`` is their role in the repository now; ``head`` the commit that was the pull request's head at that moment (None:
    not known, which counts as another one); ``text`` the comment's.
    """

    login: str
    permission: str
    at: datetime
    label: bool = False
    head: str | None = None
    text: str = ""

    @property
    def reason(self) -> str | None:
        """The reason in the comment, None where it gives none."""
        found = _REASON.search(self.text)
        return Untrusted(" ".join(found[1].split())[:_MAX_REASON]) if found else None

    @property
    def entitled(self) -> bool:
        return self.permission in MAY and not self.login.endswith("[bot]")


def judge(
    calls: Sequence[Call], blocking: Iterable[Finding], registry: dict[str, Rule], *, head: str, now: datetime
) -> Override | None:
    """The override that the calls amount to, in force or with what is missing; None where nobody set the label.

    ``blocking`` are the findings that fail the job: if one's rule needs two people, a second one with the same rights must have written
    a reason of their own. The latest label counts; a label that was taken off again must not be among the calls.
    """
    labels = [call for call in calls if call.label]
    if not labels:
        return None
    label = max(labels, key=lambda call: call.at)
    given = [call for call in calls if not call.label and call.reason and now - HOLDS < call.at <= now]
    own = [call for call in given if call.login.lower() == label.login.lower()]
    # A second person agrees to this very commit; the first one's label names it already.
    others = [call for call in given if call.entitled and call.head == head and call not in own]
    latest = max(own, key=lambda call: call.at, default=None)
    second = max(others, key=lambda call: call.at, default=None)
    pair = any(registry[finding.rule].two_people for finding in blocking)
    return Override(
        by=tuple(Untrusted(call.login) for call in (label, *([second] if pair and second else []))),
        reason=(latest.reason or "") if latest else "",
        head=label.head or "",
        until=(label.at + HOLDS).isoformat().replace("+00:00", "Z"),
        missing=_missing(label, latest, second, pair, head, now),
    )


def _missing(label: Call, latest: Call | None, second: Call | None, pair: bool, head: str, now: datetime) -> str:
    if not label.entitled:
        return "permission"
    if label.head != head:
        return "head"
    if not label.at <= now < label.at + HOLDS:
        return "expired"
    if latest is None:
        return "reason"
    return "second" if pair and second is None else ""
