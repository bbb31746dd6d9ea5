"""Unknown values inside text, as ``engines.base`` spells them, and launches moved to the places that their text was rendered from.

A template whose ``{{ .Values.model }}`` nobody defines still renders to a command in which every other flag is known. The
unknown part travels as a mark of private-use characters that survives quoting, splitting, YAML and shell parsing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from checklistbot.encode import Untrusted, redact
from checklistbot.engines import base
from checklistbot.engines.base import Launch, Word
from checklistbot.lazy import pattern
from checklistbot.model import WhyUnknown

_MARK: Final = pattern(f"{base.OPEN}[^{base.OPEN}{base.CLOSE}]*{base.CLOSE}")
_UNSAFE: Final = pattern(r"[^\w.\[\]-]+")
#: A place in the tree: path and line, the line counted from 1.
Place = tuple[str, int]

without_marks = base.without_marks


def mark(name: str | None, why: WhyUnknown = "not-static") -> str:
    """A mark for an unknown value called ``name`` in its file; the name is cut to what no shell or YAML reader minds."""
    return base.mark(_UNSAFE.sub("_", name or "")[:80], why)


def has_mark(text: str) -> bool:
    return base.OPEN in text


def readable(text: str) -> str:
    """The text with "?" for each mark."""
    return _MARK.sub("?", text) if has_mark(text) else text


def word(text: str, place: Place, raw: str = "") -> Word:
    """The text as a word at a place, secrets out; marks stay until ``launches.expand`` settles them."""
    return Word(redact(Untrusted(text)), place[0], place[1], raw)


def settled(text: str, place: Place) -> Word:
    """The text as a finished word: unknown where a mark stands in it."""
    return base.settled(word(text, place))


def map_words(launch: Launch, change: Callable[[Word], Word]) -> Launch:
    """The launch with every word of it changed."""

    def maybe(word: Word | None) -> Word | None:
        return None if word is None else change(word)

    def mapping(words: Mapping[str, Word]) -> dict[str, Word]:
        return {readable(name): change(word) for name, word in words.items()}

    return dataclasses.replace(
        launch,
        argv=tuple(change(word) for word in launch.argv),
        env=mapping(launch.env),
        image=maybe(launch.image),
        replicas=maybe(launch.replicas),
        gpu=maybe(launch.gpu),
        gpu_count=maybe(launch.gpu_count),
        nodes=maybe(launch.nodes),
        role=maybe(launch.role),
        version=maybe(launch.version),
        model=maybe(launch.model),
        served_model_name=maybe(launch.served_model_name),
        name=readable(launch.name),
        qualifier=readable(launch.qualifier) if launch.qualifier else launch.qualifier,
    )


def relocate(launch: Launch, path: str, places: Sequence[Place]) -> Launch:
    """A launch found in rendered text, moved to where each rendered line came from.

    ``path`` is the virtual path of the rendered text, ``places`` the origin of each of its lines. Words of other files stay.
    """

    def where(line: int) -> Place:
        return places[min(max(line, 1), len(places)) - 1] if places else (path, line)

    def change(word: Word) -> Word:
        word = base.settled(word)
        if word.path != path:
            return word
        place = where(word.line)
        return dataclasses.replace(word, path=place[0], line=place[1], starts=())

    moved = map_words(launch, change)
    place = where(launch.line) if launch.path == path else (launch.path, launch.line)
    mounted = {name: (text, *((p, n) if p != path else where(n))) for name, (text, p, n) in launch.mounted.items()}
    return dataclasses.replace(moved, path=place[0], line=place[1], mounted=mounted)
