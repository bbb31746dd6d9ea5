"""The last step before the API: it changes nothing, it only asserts (operations-and-attacks 18).

The encoders have done their work by then. If one was forgotten somewhere, the comment is refused here instead of
posted: too long, a marker too many, an image, or HTML beyond the few tags that our own template uses. The text is read
with a Markdown parser, because ``<`` in a code span or a fence is no HTML.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from checklistbot.github.marker import PREFIX, Marker, content_digest, join, parse
from checklistbot.lazy import pattern
from checklistbot.model import InputError, UsageError

if TYPE_CHECKING:
    from markdown_it.token import Token

#: Characters of a comment that GitHub takes.
MAX_COMMENT: Final = 65_536
_TAG: Final = pattern(r"<(?:details(?: open)?|/details|summary|/summary|br ?/?|/?sub|/?sup|/?code)>")
_HTML: Final = pattern(r"<[A-Za-z/!?][^>\n]{0,40}>?")
_FOLD: Final = pattern(r"<(/?)details\b")


class UnsafeComment(InputError):
    """The text must not be posted; the message says what is in it, never the text itself."""


def compose(body: str, marker: Marker) -> str:
    """The comment as it is posted. The marker gives up its checklist where the whole would be too long with it.

    Raises:
        UnsafeComment: the text fails ``check``.
        UsageError: the marker has no ``valid_at``, or a field that does not fit.
    """
    if marker.when is None:
        raise UsageError("comment marker: valid_at is missing; without it an older run could overwrite a newer one")
    marker = replace(marker, content=content_digest(body))
    text = join(body, marker)
    if len(text) > MAX_COMMENT:
        text = join(body, replace(marker, checklist=None))
    check(text)
    return text


def check(text: str) -> None:
    """Raises UnsafeComment unless the text may be posted."""
    if len(text) > MAX_COMMENT:
        raise UnsafeComment(f"the comment has {len(text)} characters, GitHub takes {MAX_COMMENT}")
    if parse(text) is None:
        raise UnsafeComment("the comment must hold its marker once, on the last line")
    html: list[Token] = []
    for token in _tokens(text):
        if token.type == "image":
            raise UnsafeComment(f"the comment holds an image{_place(token)}")
        if token.type in ("html_block", "html_inline"):
            html.append(token)
    _check_html(html, text.rpartition("\n")[2])


def _check_html(tokens: Iterable[Token], marker: str) -> None:
    """Only tags of our own, each fold closed, and the marker outside of everything.

    A marker in a code span is text that a repository may hold: it is no HTML, and does not stand on the last line.
    """
    markers, depth = 0, 0
    for token in tokens:
        if token.content.strip() == marker:
            markers += 1
            continue
        if PREFIX in token.content:
            raise UnsafeComment("the comment must hold its marker once, on the last line")
        if _HTML.search(_TAG.sub("", token.content)):
            raise UnsafeComment(f"the comment holds HTML that is not ours{_place(token)}")
        for fold in _FOLD.findall(token.content):
            depth += -1 if fold else 1
            if depth < 0:
                raise UnsafeComment(f"the comment closes a fold that it did not open{_place(token)}")
    if markers > 1:
        raise UnsafeComment("the comment must hold its marker once, on the last line")
    if not markers or depth:
        raise UnsafeComment("the comment leaves a fold or a code block open")


def _tokens(text: str) -> Iterator[Token]:
    """All tokens of the text as GitHub reads it; those inside a line carry the line of their block."""
    from markdown_it import MarkdownIt

    for token in MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(text):
        yield token
        for child in token.children or ():
            child.map = child.map or token.map
            yield child


def _place(token: Token) -> str:
    return f" (line {token.map[0] + 1})" if token.map else ""
