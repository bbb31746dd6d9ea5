"""The tick boxes of a comment: which line is which item's, who ticked it, and what becomes of a tick when facts change.

A line carries no id that a reader would have to look at: the marker says for each box the item (digest of its id), what
it rests on (digest of its ``facts_used``) and the line (digest of its text). So lines may be moved, but a line that was
changed or deleted is nobody's, and its item is not ticked. Ticks are read from the texts that were saved, oldest first:
whoever saved the text in which a box first appears ticked has ticked it (operations-and-attacks 20).
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from checklistbot.lazy import pattern
from checklistbot.model import Item
from checklistbot.record import record

_HEX: Final = 12
_MAX_BOXES: Final = 100
MAX_LINE: Final = _MAX_BOXES * (3 * _HEX + 4)
FORM: Final = pattern(
    rf"[0-9a-f]{{12}}:[0-9a-f]{{12}}:[0-9a-f]{{12}}l?(?:,[0-9a-f]{{12}}:[0-9a-f]{{12}}:[0-9a-f]{{12}}l?){{0,{_MAX_BOXES - 1}}}"
)
_LINE: Final = pattern(r"([-*+] \[)([ xX])(\] )(.*)")
#: Stands behind an item that lost its tick.
LOST: Final[Mapping[str, str]] = {
    "en": "<br>⟲ *The tick was taken off: what it rests on has changed.*",
    "ko": "<br>⟲ *근거가 된 값이 바뀌어 체크를 해제했습니다.*",
}


@record
class Box:
    """One line of one text. ``item``, ``facts`` and ``line`` are digests; ``lost`` is True while a lost tick is told of."""

    item: str
    facts: str
    line: str
    lost: bool = False
    ticked: bool = False

    def __str__(self) -> str:
        return f"{self.item}:{self.facts}:{self.line}{'l' if self.lost else ''}"


@record
class Tick:
    """A ticked item: what it rested on then, and who ticked it ("" where that is not known)."""

    facts: str
    by: str = ""


@record
class Save:
    """One text that was saved. ``ours`` is True if we wrote it: then its ticks are carried over, not made."""

    body: str
    by: str
    ours: bool


def item_key(item_id: str) -> str:
    """The digest of an item's id."""
    return _digest(item_id)


def facts_key(item: Item) -> str:
    """The digest of what an item rests on (CONTRACTS, "Digests": a tick → sha256 of ``facts_used``)."""
    return _digest(json.dumps(dict(item.facts_used), sort_keys=True, separators=(",", ":"), ensure_ascii=False))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:_HEX]


# --- a text's boxes -------------------------------------------------------------------------------------------------


def of(items: Iterable[Item], body: str) -> str | None:
    """The marker's ``boxes`` for a comment that lists ``items`` in this order; None where it shows none of them."""
    lines = (digest for _, digest in _lines(body))
    found = [str(Box(item_key(item.id), facts_key(item), line)) for item, line in zip(items, lines, strict=False)]
    return ",".join(found[:_MAX_BOXES]) or None


def read(body: str, boxes: str | None) -> dict[str, Box]:
    """Item → its box, ticked or not; an item whose line is not there as we wrote it is missing."""
    known = {box.line: box for box in _parse(boxes)}
    found: dict[str, Box] = {}
    for mark, digest in _lines(body):
        if digest in known:
            box = known[digest]
            found[box.item] = replace(box, ticked=mark in "xX")
    return found


def _parse(boxes: str | None) -> Iterator[Box]:
    for entry in boxes.split(",") if boxes else ():
        item, facts, line = entry.split(":")
        yield Box(item, facts, line[:_HEX], line.endswith("l"))


def _lines(body: str) -> Iterator[tuple[str, str]]:
    """Mark and digest of each box; of equal lines each has its own."""
    seen: Counter[str] = Counter()
    for line in body.splitlines():
        found = _LINE.fullmatch(line.rstrip())
        if found:
            text = plain(found[4])
            seen[text] += 1
            yield found[2], _digest(f"{seen[text]} {text}")


def plain(text: str) -> str:
    """A box's text without the note that its tick was lost."""
    for note in LOST.values():
        text = text.removesuffix(note)
    return text.rstrip()


# --- carrying ticks over ----------------------------------------------------------------------------------------------


def carry(
    body: str,
    boxes: str | None,
    ticks: Mapping[str, Tick],
    before: Mapping[str, Box],
    language: str,
    *,
    notes: bool = True,
) -> tuple[str, str | None]:
    """The text with exactly these ticks, and its ``boxes``.

    An item that rests on other facts than its tick is not ticked and says so (``notes``), until somebody ticks it again;
    ``before`` are the boxes of the text that is replaced.
    """
    states = {box.line: _state(box, ticks, before) for box in _parse(boxes)}
    if not states:
        return body, boxes
    note = LOST.get(language, LOST["en"])
    lines, digests = body.splitlines(), [digest for _, digest in _lines(body)]
    at = iter(digests)
    for number, line in enumerate(lines):
        found = _LINE.fullmatch(line.rstrip())
        box = states.get(next(at)) if found else None
        if found and box is not None:
            mark, tail = ("x" if box.ticked else " "), (note if box.lost and notes else "")
            lines[number] = f"{found[1]}{mark}{found[3]}{plain(found[4])}{tail}"
    end = "\n" if body.endswith("\n") else ""
    return "\n".join(lines) + end, ",".join(str(box) for box in states.values())


def _state(box: Box, ticks: Mapping[str, Tick], before: Mapping[str, Box]) -> Box:
    tick, old = ticks.get(box.item), before.get(box.item)
    ticked = tick is not None and tick.facts == box.facts
    lost = not ticked and (tick is not None or (old is not None and old.lost and not old.ticked))
    return replace(box, ticked=ticked, lost=lost)


# --- who ticked -------------------------------------------------------------------------------------------------------


def ledger(saves: Iterable[tuple[Save, str | None]]) -> dict[str, Tick]:
    """Item → its tick, from the texts as they were saved, oldest first, each with the ``boxes`` of its marker.

    What we saved changes nothing: two runs at once can overwrite a tick, but not take it away. A text whose marker was
    cut off is read with the boxes of the one before.
    """
    ticks: dict[str, Tick] = {}
    before: dict[str, Box] | None = None
    boxes: str | None = None
    for save, own_boxes in saves:
        boxes = own_boxes or boxes
        now = {item: box for item, box in read(save.body, boxes).items() if box.ticked}
        if before is None:
            ticks = {item: Tick(box.facts) for item, box in now.items()}
        else:
            _turn(ticks, before, now, save)
        before = now
    return ticks


def _turn(ticks: dict[str, Tick], before: Mapping[str, Box], now: Mapping[str, Box], save: Save) -> None:
    """What one saved text adds and takes away. A tick that nobody is known to have made does not replace one that somebody made."""
    by = "" if save.ours else save.by
    for item, box in now.items():
        old = ticks.get(item)
        if item not in before and (by or old is None or old.facts != box.facts):
            ticks[item] = Tick(box.facts, by)
    if not save.ours:
        for item in before:
            if item not in now:
                ticks.pop(item, None)
