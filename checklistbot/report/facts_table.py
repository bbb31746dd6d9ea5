"""The table of facts: which rows, and what stands in a cell. Each output draws it in its own way."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from checklistbot.model import Deployment, Fact
from checklistbot.record import record
from checklistbot.report import describe
from checklistbot.report.view import Group
from checklistbot.report.words import Line, Words, foreign, join, own

#: Rows in their order; the deciding ones always stand, the rest where something is known.
_FIRST: Final = (
    "engine_version",
    "context_length",
    "served_context",
    "kv_pool_tokens",
    "first_rejected_length",
    "page_size",
    "gpu",
    "image",
)
_MORE: Final = (
    "model",
    "kv_cache_dtype",
    "memory_fraction",
    "parallel",
    "replicas",
)
_PARALLEL: Final = (("tensor_parallel", "TP"), ("pipeline_parallel", "PP"), ("data_parallel", "DP"))
_MAX_OTHERS: Final = 2


@record
class Cell:
    """A value, and below it how it was learnt."""

    value: Line
    below: tuple[Line, ...] = ()


def column(member: Deployment, group: Group) -> Line:
    """A column's head: the role, and what tells two of one role apart."""
    role = str(member.role.value or "")
    twins = [other for other in group.members if other.role.value == member.role.value]
    name = foreign(member.id.rsplit("@", 1)[-1] if "@" in member.id else member.name) if len(twins) > 1 else ()
    known = own(role) if role in ("prefill", "decode", "unified") else foreign(role)
    return join([known, name])


def rows(members: Sequence[Deployment], words: Words, *, first: bool = True) -> Iterator[tuple[Line, tuple[Cell, ...]]]:
    """(label, one cell a member) for every row that says something: what decides first, or the rest."""
    for name in _FIRST if first else _MORE:
        if name not in describe.DECIDING and not any(_says(name, member) for member in members):
            continue
        label = (
            words.name("fact", "engine" if name == "engine_version" else name)
            if name != "parallel"
            else own("TP/PP/DP")
        )
        yield label, tuple(_cell(name, member, words) for member in members)


def _says(name: str, member: Deployment) -> bool:
    if name == "first_rejected_length":
        return member.first_rejected_length is not None
    if name == "parallel":
        return any(member.fact(fact).known for fact, _ in _PARALLEL)
    if name == "served_context":
        return member.served_context.known and member.served_context.value != member.context_length.value
    if name == "image":
        return member.image.known and not member.engine_version.known
    return member.fact(name).known


def _cell(name: str, member: Deployment, words: Words) -> Cell:
    if name == "first_rejected_length":
        length = member.first_rejected_length
        return Cell(own(f"{length:,}") if length is not None else own("–"))
    if name == "parallel":
        sizes = [member.fact(fact).value for fact, _ in _PARALLEL]
        return Cell(join([own("–") if size is None else describe.value(name, size) for size in sizes], "/"))
    cell = _fact(name, member.fact(name), words)
    if name == "engine_version" and member.engine.value is not None:
        return Cell(join([describe.value("engine", member.engine.value), cell.value], " "), cell.below)
    if name == "gpu" and member.gpu_count.value is not None:
        return Cell(join([describe.value("gpu_count", member.gpu_count.value), cell.value], " × "), cell.below)
    return cell


def _fact(name: str, fact: Fact, words: Words) -> Cell:
    if fact.value is None:
        return Cell(words.line("unknown.label"), (describe.why_unknown(fact, words),))
    others = [
        words.line("how.also", value=describe.value(name, other.value), place=other.source)
        for other in fact.others[:_MAX_OTHERS]
        if other.value != fact.value and other.source.path
    ]
    return Cell(describe.value(name, fact.value), (describe.how(fact, words), *others))
