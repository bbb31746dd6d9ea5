"""A checklist for people: a Markdown task list. Boxes are made here only; every other string passes the Markdown encoder."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from checklistbot import encode, resources
from checklistbot.checklist.words import words
from checklistbot.model import Checklist, Item

if TYPE_CHECKING:
    from markupsafe import Markup

_SHELL = "bash"


def markdown(checklist: Checklist) -> str:
    """The checklist as ``checklist.md``: one box an item, required ones first within each moment. Ends in a newline."""
    import jinja2

    say = words(checklist.language)
    environment = jinja2.Environment(  # noqa: S701  (finalize encodes every value for Markdown)
        undefined=jinja2.StrictUndefined,
        finalize=encode.finalizer("markdown"),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    labels = {key: _ours(text) for key, text in say.entry("markdown").items() if isinstance(text, str)}
    origin = say.entry("markdown.origin")[checklist.origin].format(model=encode.code(checklist.model or "?", limit=100))
    return environment.from_string(resources.text("templates", "checklist.md.j2")).render(
        label=labels,
        origin=_ours(origin),
        moments=[
            (_ours(say.entry("markdown.when")[when]), [_shown(item) for item in items])
            for when, items in _by_moment(checklist)
        ],
    )


def _ours(text: str) -> Markup:
    """Words of our catalogue, or what an encoder has made safe."""
    from markupsafe import Markup

    return Markup(text)  # noqa: S704


def _by_moment(checklist: Checklist) -> list[tuple[str, list[Item]]]:
    moments = []
    for when in ("before-merge", "before-deploy", "after-deploy"):
        items = sorted(
            (item for item in checklist.items if item.when == when), key=lambda item: item.severity != "required"
        )
        if items:
            moments.append((when, items))
    return moments


def _shown(item: Item) -> dict[str, Any]:
    fenced = encode.fence("\n".join(item.commands), _SHELL) if item.commands else ""
    return {
        "title": item.title,
        "severity": item.severity,
        "added": item.added,
        "why": item.why,
        "steps": item.steps,
        "commands": _ours(fenced.replace("\n", "\n  ")),
        "pass_when": item.pass_when,
        "owner": item.owner,
        "not_verified": item.not_verified,
        "id": _ours(encode.code(item.id)),
    }
