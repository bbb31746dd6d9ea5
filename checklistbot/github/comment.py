"""One comment on a pull request that updates in place (CONTRACTS, "The comment's protocol").

Ours is a comment by our own login whose last line is our marker with our id; with several of them the lowest id stays.
Two runs at once cannot lock each other out, for GitHub's comments know no compare-and-swap. So each run repairs what it
can see after its own write, and whoever writes last leaves the newest text:

- Before an edit the comment is read again: a tick made in between is kept, a newer text stays.
- After a create the list is read again: twins are merged into the lowest id, which gets the newest text.
- After an edit the comment's edit history is read: if a newer text, or a tick, was overwritten by it, that is put back.

``recreate`` posts anew and then deletes the older ones, ``hide-and-recreate`` minimises them; the one with the newest
text stays. A run that is killed in between leaves a whole comment behind; the next one mends the rest. Newest means ``valid_at``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final, Literal

from checklistbot import retry
from checklistbot.encode import terminal
from checklistbot.github import boxes
from checklistbot.github.boxes import Box, Save, Tick
from checklistbot.github.client import TIMEOUT_S, GitHub, GitHubError
from checklistbot.github.marker import Marker, content_digest, parse, split
from checklistbot.github.postable import UnsafeComment, check, compose
from checklistbot.github.reading import Comment, Edit, Pull
from checklistbot.lazy import pattern
from checklistbot.model import UsageError
from checklistbot.record import record

Action = Literal["created", "updated", "unchanged", "older", "moved", "none", "off", "refused"]
MODES: Final = ("update", "recreate", "hide-and-recreate", "off")

_REPO: Final = pattern(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}/(?!\.{1,2}$)[A-Za-z0-9._-]{1,100}")
_HEAD_REF: Final = pattern(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}:(?!.*\.\.)[^\x00-\x20\x7f~^:?*\[\\]{1,255}")
#: A text from further ahead than clocks differ is not believed to be newer.
_CLOCK_SKEW: Final = timedelta(days=1)
_ROUNDS: Final = 3


@dataclass(frozen=True, slots=True)
class Target:
    """The pull request: its number, or ``OWNER:BRANCH`` of its head (a fork's run does not know the number).

    Raises:
        UsageError: the repository, the number or the branch has not its form, or not exactly one of the two is given.
    """

    repo: str
    pr: int | None = None
    head_ref: str | None = None

    def __post_init__(self) -> None:
        if not _REPO.fullmatch(self.repo):
            raise UsageError(f"--repo: expected OWNER/NAME, not {terminal(self.repo, limit=80)!r}")
        if (self.pr is None) == (self.head_ref is None):
            raise UsageError("give --pr N or --head-ref OWNER:BRANCH, one of the two")
        if self.pr is not None and self.pr < 1:
            raise UsageError("--pr: expected the number of a pull request")
        if self.head_ref is not None and not _HEAD_REF.fullmatch(self.head_ref):
            raise UsageError(f"--head-ref: expected OWNER:BRANCH, not {terminal(self.head_ref, limit=80)!r}")


@record
class Published:
    """What happened. ``older``: a newer run's text stands; ``moved``: the pull request has another head by now;
    ``none``: there is none of ours, and none was to be made;
    ``refused``: the token may not, the report is kept.

    ``warning`` is one line for the user, None if there is nothing to say.
    """

    action: Action
    url: str | None = None
    comment_id: int | None = None
    warning: str | None = None


def publish(
    body: str,
    marker: Marker,
    target: Target,
    *,
    token: str,
    deadline: retry.Deadline,
    mode: str = "update",
    create: bool = True,
    language: str = "en",
    api_url: str | None = None,
    timeout_s: int = TIMEOUT_S,
    seconds_between_writes: float = 1.0,
) -> Published:
    """Create or update our comment. ``body`` is the Markdown without a marker; its digest is taken here.

    ``mode`` is the config's ``comment.mode``; without ``create`` only a comment that stands there is brought up to date;
    ``language`` that of the notes beside lost ticks. ``api_url`` is
    GITHUB_API_URL's by default. A 403 is no error, because a run from a fork cannot help it.

    Raises:
        GitHubError: GitHub did not do it within ``deadline`` (exit 3); what stood there before still stands.
        UnsafeComment: the text must not be posted.
        UsageError: ``mode``, the token, the marker or GITHUB_API_URL is wrong.
    """
    if mode == "off":
        return Published("off")
    if mode not in MODES:
        raise UsageError(f"comment.mode: expected {', '.join(MODES)}, not {terminal(mode, limit=40)!r}")
    text = compose(body, marker)
    api = GitHub(
        token,
        deadline=deadline,
        api_url=api_url,
        timeout_s=timeout_s,
        seconds_between_writes=seconds_between_writes,
    )
    try:
        pull = pull_of(api, target, marker.head)
        if moved := _moved(pull, marker):
            return moved
        slot = _Slot(api, target.repo, pull.number, text, deadline.clock, language)
        if not create and not slot.stands():
            return Published("none")
        return slot.fill() if mode == "update" else slot.renew(hide=mode == "hide-and-recreate")
    except GitHubError as error:
        if error.kind in ("permission", "locked"):
            return Published("refused", warning=f"no comment: {error}; the report is kept")
        raise
    finally:
        api.close()


def pull_of(api: GitHub, target: Target, head: str | None) -> Pull:
    """The pull request; of several with the same head branch the one whose head was looked at.

    Asked for by its number it is taken as it is named where GitHub does not show it: that costs only the look at its head.

    Raises:
        GitHubError: there is none, or the token is not accepted.
        UsageError: several have this head.
    """
    if target.head_ref is None:
        number = target.pr or 0
        try:
            return api.pull(target.repo, number)
        except GitHubError as error:
            if error.kind in ("token", "late"):
                raise
            return Pull(number, "", "")
    pulls = api.pulls_of(target.repo, target.head_ref)
    if len(pulls) > 1:
        pulls = [pull for pull in pulls if pull.head_sha == head] or pulls
    if not pulls:
        raise GitHubError(
            "not-found", f"no open pull request of {target.repo} has the head {terminal(target.head_ref)}"
        )
    if len(pulls) > 1:
        numbers = ", ".join(str(pull.number) for pull in pulls[:5])
        raise UsageError(f"--head-ref: several open pull requests have this head ({numbers}); name one with --pr")
    return pulls[0]


def _moved(pull: Pull, marker: Marker) -> Published | None:
    """A push during the run: its own run comments on it, and this one's words would be about commits that are gone."""
    if not marker.head or not pull.head_sha or pull.head_sha == marker.head:
        return None
    heads = f"its head is {pull.head_sha[:7]} by now, this run looked at {marker.head[:7]}"
    return Published("moved", warning=f"no comment: {heads}; the report is kept")


def is_ours(comment: Comment, login: str, id: str) -> bool:
    """True if we wrote the comment: our login, and on its last line our marker with that id."""
    marker = parse(comment.body) if comment.login.casefold() == login.casefold() else None
    return marker is not None and marker.id == id


# --- our place in the conversation -----------------------------------------------------------------------------------


@record
class _Text:
    """A text with our marker, in a comment or in its history."""

    body: str
    marker: Marker

    @property
    def when(self) -> datetime:
        return self.marker.when or datetime.min.replace(tzinfo=UTC)

    def same_as(self, other: _Text) -> bool:
        """True if both show the same, also to a reader: what people wrote into a comment makes it another one."""
        mine, theirs = self.marker, other.marker
        return (mine.content, mine.config) == (theirs.content, theirs.config) and self.untouched and other.untouched

    @property
    def untouched(self) -> bool:
        return self.marker.content == content_digest(self.body)


@record
class _Own:
    """A comment that is ours."""

    comment: Comment
    text: _Text


class _Slot:
    """The place that our comment has in one pull request, and the text that it is to hold."""

    def __init__(self, api: GitHub, repo: str, number: int, text: str, clock: retry.Clock, language: str) -> None:
        marker = parse(text)
        assert marker is not None, "compose checked it"  # noqa: S101
        self._api, self._repo, self._number = api, repo, number
        self._mine = _Text(text, marker)
        self._latest = datetime.fromtimestamp(clock.wall(), UTC) + _CLOCK_SKEW
        self._language = language
        self._login = ""
        self._renewing = False
        self._warnings: list[str] = []

    def stands(self) -> bool:
        """True if a comment of ours is there."""
        self._login = self._api.login()
        return bool(self._visible(self._list()))

    def fill(self) -> Published:
        """Create the comment, or bring it up to date. A comment that vanishes meanwhile is looked for again."""
        self._login = self._api.login()
        for left in reversed(range(_ROUNDS)):
            own, created = self._visible(self._list()), None
            if own:
                self._warn_of_several(own)
            else:
                own, created = self._create()
            try:
                return self._settle(own, created)
            except GitHubError as error:
                if error.kind not in ("not-found", "gone") or not left:
                    raise
        raise AssertionError("unreachable")

    def _list(self) -> list[_Own]:
        """Our comments, lowest id first."""
        return self._ours(self._api.comments(self._repo, self._number))

    def _visible(self, own: list[_Own]) -> list[_Own]:
        """Those of several that are not minimised (the older ones of hide-and-recreate are); all where all are."""
        if len(own) < 2:
            return own
        try:
            hidden = self._api.hidden([entry.comment.node_id for entry in own])
        except GitHubError as error:
            if error.kind == "token":
                raise
            return own
        return [entry for entry in own if entry.comment.node_id not in hidden] or own

    def _ours(self, comments: Iterable[Comment]) -> list[_Own]:
        found = []
        for comment in sorted(comments, key=lambda c: c.id):
            marker = parse(comment.body)
            if marker is not None and is_ours(comment, self._login, self._mine.marker.id):
                found.append(_Own(comment, _Text(comment.body, marker)))
        return found

    def _warn_of_several(self, own: list[_Own]) -> None:
        if len(own) > 1:
            self._warnings.append(f"{len(own)} comments carried our marker; the oldest is kept")

    # --- create

    def _create(self) -> tuple[list[_Own], int | None]:
        """Post, and read the list again. Returns our comments and the id of the one that holds our text.

        The answer tells who we are, for sure: where the login was guessed wrong, the list shows our comments only now.
        """
        comment = self._api.create_comment(self._repo, self._number, self._mine.body, self._look)
        self._login = comment.login or self._login
        seen = [comment]
        try:
            seen += self._api.comments(self._repo, self._number)
        except GitHubError:
            self._warnings.append("whether another run commented at the same time could not be checked")
        # An author that GitHub does not name must not hide what was just posted.
        own = self._ours({entry.id: entry for entry in seen}.values()) or [_Own(comment, self._mine)]
        own = self._visible(own)
        mine = [entry for entry in own if entry.text.same_as(self._mine)]
        return own, mine[-1].comment.id if mine else None

    def _look(self) -> Comment | None:
        """A comment of ours that is there now, be it from a POST that failed only on its way back."""
        own = [entry for entry in self._list() if not self._renewing or entry.text.same_as(self._mine)]
        return own[0].comment if own else None

    # --- recreate, hide-and-recreate

    def renew(self, *, hide: bool) -> Published:
        """Post anew unless the same stands there; then delete or minimise the older ones, in this order."""
        self._login = self._api.login()
        self._renewing = True
        own = self._visible(self._list())
        before = own[-1] if own else None
        newest = self._newest(entry.text for entry in own)
        if before is not None:
            self._mine = self._carried(self._mine, before.text)
        same = [entry for entry in own if entry.text.same_as(self._mine)]
        action: Action = "older" if newest else "unchanged" if same else "created"
        if action == "created":
            own, _ = self._create()
            newest = self._newest(entry.text for entry in own)
        kept = self._holder(own, newest or self._mine)
        for other in own:
            if other is not kept:
                self._keep_late_ticks(kept, other)
                self._retire(other, hide)
        return Published(
            "older" if newest else action, kept.comment.url, kept.comment.id, "; ".join(self._warnings) or None
        )

    def _holder(self, own: list[_Own], wanted: _Text) -> _Own:
        """The comment that holds the text; of several the youngest, so that two runs at once choose the same."""
        return next((entry for entry in reversed(own) if entry.text.same_as(wanted)), own[-1])

    def _keep_late_ticks(self, kept: _Own, other: _Own) -> None:
        """A tick that was made in the old comment while the new one was posted."""
        ticks = {**_ticks(other.text), **_ticks(kept.text)}
        late = _with_ticks(kept.text, ticks, boxes.read(kept.text.body, kept.text.marker.boxes), self._language)
        if other.comment.id < kept.comment.id and late.body != kept.text.body:
            self._api.edit_comment(self._repo, kept.comment.id, late.body)

    def _retire(self, other: _Own, hide: bool) -> None:
        if not hide:
            self._delete(other)
            return
        try:
            self._api.hide_comment(other.comment.node_id)
        except GitHubError:
            self._warnings.append("an older comment of ours could not be hidden; the next run tries again")

    # --- update

    def _settle(self, own: list[_Own], created: int | None) -> Published:
        """Give the oldest of our comments the newest text and delete the others, in this order."""
        kept, *others = own
        newest = self._newest(entry.text for entry in own)
        wanted = self._carried(newest or self._mine, kept.text)
        action: Action = "unchanged" if newest is None else "older"
        if not wanted.same_as(kept.text):
            overtaken = self._write(kept, wanted)
            action = "older" if overtaken or newest is not None else "updated"
        elif kept.comment.id == created and newest is None:
            action = "created"
        for other in others:
            self._delete(other)
        return Published(action, kept.comment.url, kept.comment.id, "; ".join(self._warnings) or None)

    def _write(self, kept: _Own, wanted: _Text) -> bool:
        """Edit, with what happened since the list was read. True if a newer text stands there now."""
        now = self._now(kept)
        if self._newest([now], than=wanted) is not None:
            return True
        wanted = self._carried(wanted, now)
        try:
            self._api.edit_comment(self._repo, kept.comment.id, wanted.body)
        except GitHubError as error:
            # It may have taken effect, and then over a newer text.
            if error.kind in ("server", "network"):
                self._put_back(kept, wanted)
            raise
        return self._put_back(kept, wanted)

    def _now(self, kept: _Own) -> _Text:
        """The comment read again; what the list said where that fails, or where its marker is gone by now."""
        try:
            comment = self._api.comment(self._repo, kept.comment.id)
        except GitHubError as error:
            if error.kind in ("token", "not-found", "gone"):
                raise
            return kept.text
        own = self._ours([comment])
        return own[0].text if own else _Text(comment.body, replace(kept.text.marker, content=None))

    def _carried(self, text: _Text, before: _Text) -> _Text:
        """The text with the ticks that stand in ``before``, as far as their items rest on the same facts."""
        return _with_ticks(text, _ticks(before), boxes.read(before.body, before.marker.boxes), self._language)

    def _newest(self, texts: Iterable[_Text], than: _Text | None = None) -> _Text | None:
        """The newest text that is newer than ours (or ``than``); None if there is none that can be trusted.

        A text that people changed, that must not be posted, or that says to come from the future is not one of ours.
        """
        best = than or self._mine
        for text in texts:
            if best.when < text.when <= self._latest and text.untouched and _may_be_posted(text.body):
                best = text
        return None if best is (than or self._mine) else best

    def _put_back(self, kept: _Own, written: _Text) -> bool:
        """Undo what our edit overwrote, if that was a newer text or a tick. True if a newer text was found."""
        overtaken = lost = False
        try:
            for _ in range(_ROUNDS):
                history = self._api.edits(kept.comment.node_id)
                newer = self._newest(self._texts(history), than=written)
                overtaken = overtaken or newer is not None
                stands = newer or written
                ticks = boxes.ledger(saves(history, self._login))
                wanted = _with_ticks(stands, ticks, boxes.read(stands.body, stands.marker.boxes), self._language)
                if wanted.body == written.body or not history:
                    break
                lost, written = True, wanted
                self._api.edit_comment(self._repo, kept.comment.id, wanted.body)
                lost = False
        except GitHubError as error:
            # The edit itself was done. Without the history (an old GHES, a passing fault) the last one to write wins.
            if lost:
                what = "a newer run's text" if overtaken else "a tick"
                self._warnings.append(f"{what} was overwritten and could not be put back; run it again")
            elif error.kind not in ("not-found", "permission", "refused"):
                self._warnings.append("whether another run wrote at the same time could not be checked")
        return overtaken

    def _texts(self, history: Iterable[Edit]) -> list[_Text]:
        """The texts that we saved in this comment. GraphQL names an app without ``[bot]``."""
        texts = []
        for edit in history:
            marker = parse(edit.body) if _same_login(edit.login, self._login) else None
            if marker is not None and marker.id == self._mine.marker.id:
                texts.append(_Text(edit.body, marker))
        return texts

    def _delete(self, other: _Own) -> None:
        try:
            self._api.delete_comment(self._repo, other.comment.id)
        except GitHubError:
            self._warnings.append("a second comment of ours could not be deleted; the next run tries again")


def _may_be_posted(text: str) -> bool:
    try:
        check(text.replace("\r\n", "\n"))
    except UnsafeComment:
        return False
    return True


# --- ticks -----------------------------------------------------------------------------------------------------------


def _ticks(text: _Text) -> dict[str, Tick]:
    """What stands ticked in a text; who ticked it is not asked."""
    found = boxes.read(text.body, text.marker.boxes)
    return {item: Tick(box.facts) for item, box in found.items() if box.ticked}


def _with_ticks(text: _Text, ticks: Mapping[str, Tick], before: Mapping[str, Box], language: str) -> _Text:
    """The text with exactly these ticks; without the notes beside lost ones where they would make it too long."""
    body, marker = split(text.body)
    if marker is None or marker.boxes is None:
        return text
    for notes in (True, False):
        ticked, marks = boxes.carry(body, marker.boxes, ticks, before, language, notes=notes)
        if ticked == body and marks == marker.boxes:
            return text
        try:
            composed = compose(ticked, replace(marker, boxes=marks))
        except UnsafeComment:
            continue
        return _Text(composed, parse(composed) or marker)
    return text


def saves(history: Iterable[Edit], login: str) -> Iterator[tuple[Save, str | None]]:
    """A comment's history (newest first) as the ledger of ticks reads it, oldest first.

    Where we write with a person's token, what that person saves in the browser is told from what we save by the marker,
    which a browser leaves as it is; the tick is then by nobody known.
    """
    before: Marker | None = None
    for edit in reversed(list(history)):
        _, marker = split(edit.body)
        mine = _same_login(edit.login, login)
        by_hand = mine and not login.endswith("[bot]") and marker is not None and marker == before
        name = f"{edit.login}[bot]" if edit.bot and not edit.login.endswith("[bot]") else edit.login
        yield Save(edit.body, "" if by_hand else name, mine and not by_hand), marker.boxes if marker else None
        before = marker


def _same_login(one: str, other: str) -> bool:
    return one.removesuffix("[bot]").casefold() == other.removesuffix("[bot]").casefold()
