"""One comment on a pull request that updates in place (CONTRACTS, "The comment's protocol").

Ours is a comment by our own login whose last line is our marker with our id; with several of them the lowest id stays.
Two runs at once cannot lock each other out, for GitHub's comments know no compare-and-swap. So each run repairs what it
can see after its own write, and whoever writes last leaves the newest text:

- After a create the list is read again: twins are merged into the lowest id, which gets the newest text.
- After an edit the comment's edit history is read: if a newer text was overwritten by it, that is put back.

A run that is killed in between leaves a whole comment behind; the next one mends the rest. Newest means ``valid_at``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, Literal

from checklistbot import retry
from checklistbot.encode import terminal
from checklistbot.github.client import TIMEOUT_S, Comment, GitHub, GitHubError
from checklistbot.github.marker import Marker, content_digest, parse
from checklistbot.github.postable import UnsafeComment, check, compose
from checklistbot.lazy import pattern
from checklistbot.model import UsageError

Action = Literal["created", "updated", "unchanged", "older", "off", "refused"]

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


@dataclass(frozen=True, slots=True)
class Published:
    """What happened. ``older``: a newer run's text stands; ``refused``: the token may not, the report is kept.

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
    api_url: str | None = None,
    timeout_s: int = TIMEOUT_S,
    seconds_between_writes: float = 1.0,
) -> Published:
    """Create or update our comment. ``body`` is the Markdown without a marker; its digest is taken here.

    ``api_url`` is GITHUB_API_URL's by default. A 403 is no error, because a run from a fork cannot help it.

    Raises:
        GitHubError: GitHub did not do it within ``deadline`` (exit 3); what stood there before still stands.
        UnsafeComment: the text must not be posted.
        UsageError: ``mode``, the token, the marker or GITHUB_API_URL is wrong.
    """
    if mode == "off":
        return Published("off")
    if mode != "update":
        raise UsageError(f"comment.mode: this version knows update and off, not {terminal(mode, limit=40)!r}")
    text = compose(body, marker)
    api = GitHub(
        token,
        deadline=deadline,
        api_url=api_url,
        timeout_s=timeout_s,
        seconds_between_writes=seconds_between_writes,
    )
    try:
        number = _number_of(api, target, marker)
        return _Slot(api, target.repo, number, text, deadline.clock).fill()
    except GitHubError as error:
        if error.kind in ("permission", "locked"):
            return Published("refused", warning=f"no comment: {error}; the report is kept")
        raise
    finally:
        api.close()


def _number_of(api: GitHub, target: Target, marker: Marker) -> int:
    """The pull request's number; of several with the same head branch the one whose head was looked at."""
    if target.head_ref is None:
        return target.pr or 0
    pulls = api.pulls_of(target.repo, target.head_ref)
    if len(pulls) > 1:
        pulls = [pull for pull in pulls if pull.head_sha == marker.head] or pulls
    if not pulls:
        raise GitHubError(
            "not-found", f"no open pull request of {target.repo} has the head {terminal(target.head_ref)}"
        )
    if len(pulls) > 1:
        numbers = ", ".join(str(pull.number) for pull in pulls[:5])
        raise UsageError(f"--head-ref: several open pull requests have this head ({numbers}); name one with --pr")
    return pulls[0].number


# --- our place in the conversation -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
class _Own:
    """A comment that is ours."""

    comment: Comment
    text: _Text


class _Slot:
    """The place that our comment has in one pull request, and the text that it is to hold."""

    def __init__(self, api: GitHub, repo: str, number: int, text: str, clock: retry.Clock) -> None:
        marker = parse(text)
        assert marker is not None, "compose checked it"  # noqa: S101
        self._api, self._repo, self._number = api, repo, number
        self._mine = _Text(text, marker)
        self._latest = datetime.fromtimestamp(clock.wall(), UTC) + _CLOCK_SKEW
        self._login = ""
        self._warnings: list[str] = []

    def fill(self) -> Published:
        """Create the comment, or bring it up to date. A comment that vanishes meanwhile is looked for again."""
        self._login = self._api.login()
        for left in reversed(range(_ROUNDS)):
            own, created = self._list(), None
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

    def _ours(self, comments: Iterable[Comment]) -> list[_Own]:
        found = []
        for comment in sorted(comments, key=lambda c: c.id):
            marker = parse(comment.body) if comment.login.casefold() == self._login.casefold() else None
            if marker is not None and marker.id == self._mine.marker.id:
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
        mine = [entry for entry in own if entry.text.same_as(self._mine)]
        return own, mine[-1].comment.id if mine else None

    def _look(self) -> Comment | None:
        """A comment of ours that is there now, be it from a POST that failed only on its way back."""
        own = self._list()
        return own[0].comment if own else None

    # --- update

    def _settle(self, own: list[_Own], created: int | None) -> Published:
        """Give the oldest of our comments the newest text and delete the others, in this order."""
        kept, *others = own
        newest = self._newest(entry.text for entry in own)
        wanted = newest or self._mine
        action: Action = "unchanged" if newest is None else "older"
        if not wanted.same_as(kept.text):
            self._api.edit_comment(self._repo, kept.comment.id, wanted.body)
            overtaken = self._put_back(kept, wanted)
            action = "older" if overtaken or newest is not None else "updated"
        elif kept.comment.id == created and newest is None:
            action = "created"
        for other in others:
            self._delete(other)
        return Published(action, kept.comment.url, kept.comment.id, "; ".join(self._warnings) or None)

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
        """Undo what our edit overwrote, if that was newer. True if a newer text was found."""
        overtaken = False
        try:
            for _ in range(_ROUNDS):
                newer = self._newest(self._history(kept.comment.node_id), than=written)
                if newer is None:
                    break
                overtaken, written = True, newer
                self._api.edit_comment(self._repo, kept.comment.id, newer.body)
        except GitHubError:
            # The edit itself was done. Without the history (an old GHES, a passing fault) the last one to write wins.
            if overtaken:
                self._warnings.append("a newer run's text was overwritten and could not be put back; run it again")
        return overtaken

    def _history(self, node_id: str) -> list[_Text]:
        """The texts that we saved in this comment. GraphQL names an app without ``[bot]``."""
        me = self._login.removesuffix("[bot]").casefold()
        texts = []
        for edit in self._api.edits(node_id):
            marker = parse(edit.body) if edit.login.removesuffix("[bot]").casefold() == me else None
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
