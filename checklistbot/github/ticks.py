"""Whether the items that the policy requires are ticked, by whom, and whether that counts (operations-and-attacks 20).

A tick counts if the comment shows it, the edit history (or the sender of the event) says who made it, and that person has
write, is not the pull request's author and no bot. What is required comes from the report, never from the comment.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final, Literal

from checklistbot.config import TICKS_BY
from checklistbot.encode import code
from checklistbot.github import boxes, checks
from checklistbot.github.boxes import Box, Save, Tick
from checklistbot.github.checks import Language, Required, Wanted
from checklistbot.github.client import GitHub, GitHubError
from checklistbot.github.comment import is_ours, saves
from checklistbot.github.marker import Marker, parse
from checklistbot.github.reading import CheckRun, Comment, Edit, Pull
from checklistbot.lazy import pattern
from checklistbot.model import UsageError
from checklistbot.record import record

Standing = Literal["counts", "open", "unknown", "not-entitled", "changed"]
"""Ticked by somebody who may; not ticked; by nobody known; by somebody who may not; for other facts."""

_ROLES: Final[Mapping[str, tuple[str, ...]]] = {
    "write": ("write", "maintain", "admin"),
    "maintain": ("maintain", "admin"),
    "admin": ("admin",),
}
_TEAM: Final = pattern(r"team:([A-Za-z0-9][A-Za-z0-9-]{0,99})/([a-z0-9][a-z0-9_-]{0,99})")
_WORDS: Final[Mapping[Language, Mapping[str, str]]] = {
    "en": {
        "counts": "ticked by {by}",
        "open": "not ticked",
        "unknown": "ticked by unknown: not counted",
        "not-entitled": "ticked by {by}, whose tick does not count (the author, a bot, or without the permission)",
        "changed": "ticked before its facts changed: tick it again",
        "title": "{done} of {all} required items ticked",
        "none": "nothing has to be ticked",
        "who": "A tick counts from people with {who} who are neither the pull request's author nor a bot.",
    },
    "ko": {
        "counts": "{by} 님이 체크함",
        "open": "체크되지 않음",
        "unknown": "누가 체크했는지 알 수 없어 인정하지 않음",
        "not-entitled": "{by} 님의 체크는 인정하지 않음(작성자 본인이거나 봇이거나 권한 없음)",
        "changed": "체크한 뒤 근거가 된 값이 바뀜: 다시 체크하세요",
        "title": "필수 항목 {all}개 중 {done}개 체크됨",
        "none": "체크할 필수 항목이 없습니다",
        "who": "{who} 권한이 있고 풀 리퀘스트 작성자도 봇도 아닌 사람의 체크만 인정합니다.",
    },
}


@record
class Edited:
    """What an ``issue_comment: edited`` event says: the comment's text before and after, and who saved it."""

    comment_id: int
    before: str
    after: str
    sender: str


@record
class Judged:
    """A required item and how it stands."""

    required: Required
    standing: Standing

    def line(self, language: Language) -> str:
        words = _WORDS[language][self.standing].format(by=code(f"@{self.required.by}"))
        return f"- {'✅' if self.standing == 'counts' else '◌'} {code(self.required.title)}: {words}"


def check_form(ticks_by: str) -> None:
    """Raises UsageError unless ``ticks_by``, which came back from a check run's text, is what a config may say."""
    if not re.fullmatch(TICKS_BY, ticks_by):
        raise UsageError("comment.ticks_by: expected write, maintain, admin or team:ORGANISATION/TEAM")


def judge(
    api: GitHub,
    repo: str,
    pull: Pull,
    id: str,
    required: tuple[Required, ...],
    ticks_by: str,
    edited: Edited | None = None,
) -> tuple[Judged, ...]:
    """How each required item stands.

    Raises:
        GitHubError: GitHub does not answer; nothing is taken for ticked then.
    """
    if not required:
        return ()
    login = api.login()
    own = [c for c in sorted(api.comments(repo, pull.number), key=lambda c: c.id) if is_ours(c, login, id)]
    shown = own[-1] if own else None
    marker = parse(shown.body) if shown else None
    now = boxes.read(shown.body, marker.boxes) if shown and marker else {}
    ticks = _ledger(api, own, login, required, edited)
    people = _People(api, repo, pull.author, ticks_by)
    return tuple(_judged(entry, now, ticks, people) for entry in required)


def _ledger(
    api: GitHub, own: Iterable[Comment], login: str, required: Iterable[Required], edited: Edited | None
) -> dict[str, Tick]:
    """Who ticked what, from the histories of all our comments, hidden ones included, oldest first.

    Where there is no history to be had, the event says who saved the last text, and the check run who ticked before.
    """
    texts: list[tuple[Save, str | None]] = []
    try:
        for comment in own:
            history = api.edits(comment.node_id) or [Edit(login, comment.body, login.endswith("[bot]"))]
            texts += saves(history, login)
    except GitHubError as error:
        if error.kind not in ("not-found", "permission", "refused"):
            raise
        return {**{r.item: Tick(r.facts, r.by) for r in required if r.by}, **_from_event(edited)}
    return boxes.ledger(texts)


def _from_event(edited: Edited | None) -> dict[str, Tick]:
    if edited is None:
        return {}
    found = []
    for body, by in ((edited.before, ""), (edited.after, edited.sender)):
        marker = parse(body)
        found.append((Save(body, by, ours=False), marker.boxes if marker else None))
    return {item: tick for item, tick in boxes.ledger(found).items() if tick.by}


def _judged(entry: Required, now: Mapping[str, Box], ticks: Mapping[str, Tick], people: _People) -> Judged:
    box, tick = now.get(entry.item), ticks.get(entry.item)
    bare = replace(entry, by="")
    if box is None or not box.ticked:
        return Judged(bare, "open")
    if box.facts != entry.facts or (tick is not None and tick.facts != entry.facts):
        return Judged(bare, "changed")
    if tick is None or not tick.by:
        return Judged(bare, "unknown")
    named = replace(entry, by=tick.by)
    return Judged(named, "counts" if people.may(tick.by) else "not-entitled")


class _People:
    """Who may tick; each is asked for once."""

    def __init__(self, api: GitHub, repo: str, author: str, ticks_by: str) -> None:
        self._api, self._repo, self._author, self._ticks_by = api, repo, author, ticks_by
        self._known: dict[str, bool] = {}

    def may(self, login: str) -> bool:
        if login.endswith("[bot]") or not self._author or login.casefold() == self._author.casefold():
            return False
        if login not in self._known:
            self._known[login] = self._entitled(login)
        return self._known[login]

    def _entitled(self, login: str) -> bool:
        team = _TEAM.fullmatch(self._ticks_by)
        if self._api.role(self._repo, login) not in _ROLES["write" if team else self._ticks_by]:
            return False
        return team is None or self._api.in_team(team[1], team[2], login)


# --- the check run ----------------------------------------------------------------------------------------------------


def wanted(judged: tuple[Judged, ...], ticks_by: str, language: Language = "en") -> Wanted:
    """``checklistbot / checklist``: pending until every required item is ticked."""
    words = _WORDS[language]
    done = sum(entry.standing == "counts" for entry in judged)
    title = words["title"].format(done=done, all=len(judged)) if judged else words["none"]
    who = words["who"].format(who=code(ticks_by))
    return Wanted(
        checks.CHECKLIST,
        "success" if done == len(judged) else None,
        title,
        "\n".join([*(entry.line(language) for entry in judged), "", who]),
        checks.carried_text(tuple(entry.required for entry in judged), ticks_by, language),
    )


def again(api: GitHub, repo: str, number: int, comment: Comment, edited: Edited, now: str) -> CheckRun | None:
    """Judge anew after a comment was edited, without looking at a manifest: what is required stands in the check run.

    ``now`` orders the writes, as ``valid_at`` does. None where the comment is not ours, or the head has no such check run.

    Raises:
        GitHubError: GitHub does not answer.
    """
    marker = _marker_of(comment, api.login())
    if marker is None:
        return None
    pull = api.pull(repo, number)
    run = checks.find(api, repo, pull.head_sha, marker.id, checks.CHECKLIST)
    carried = checks.read_carried(run.text) if run else None
    if carried is None:
        return None
    check_form(carried.ticks_by)
    judged = judge(api, repo, pull, marker.id, carried.required, carried.ticks_by, edited)
    return checks.put(api, repo, pull.head_sha, marker.id, now, wanted(judged, carried.ticks_by, carried.language))


def _marker_of(comment: Comment, login: str) -> Marker | None:
    marker = parse(comment.body)
    return marker if marker is not None and is_ours(comment, login, marker.id) else None
