"""Facts for a terminal: one fact a line, with its source. Drawn without a library, because `facts` must answer at once."""

from __future__ import annotations

from collections.abc import Iterator

from checklistbot import encode
from checklistbot.model import Deployment, Fact, Facts
from checklistbot.report import describe
from checklistbot.report.columns import cells, columns, wrapped
from checklistbot.report.words import Language, Line, Words, code, join, own

_BOLD, _DIM, _END = "\x1b[1m", "\x1b[2m", "\x1b[0m"
#: Facts that stand in another one's line: the engine in its version's, the sizes in one row.
_JOINED = ("role", "engine", "gpu_count", "pipeline_parallel", "data_parallel", "served_context", "world_size")


def render_facts(facts: Facts, *, language: Language, color: bool = False) -> str:
    """Every fact of every deployment with its source, then what was not read."""
    words = Words(language)
    bold, dim, end = (_BOLD, _DIM, _END) if color else ("", "", "")
    lines: list[str] = []
    for deployment in facts.deployments:
        place = f"{deployment.file}:{deployment.line}" if deployment.line else deployment.file or ""
        lines.append(f"{bold}{_shown(deployment.id)}{end}  {dim}{_shown(place)}{end}".rstrip())
        rows = [(_text(label), _text(value), _text(source)) for label, value, source in _rows(deployment, words)]
        left, middle = (max((cells(row[i]) for row in rows), default=0) for i in (0, 1))
        for label, value, source in rows:
            lines += _row(_padded(label, left), _padded(value, min(middle, 48)), source, dim, end)
        lines.append("")
    if not facts.deployments:
        nothing = words.line("headline.nothing", n=facts.files_read)
        if facts.skipped or facts.unread or not facts.files_read:
            nothing = words.line(
                "headline.nothing_unread" if facts.skipped or facts.unread else "headline.nothing_plain"
            )
        lines.append(_text(nothing))
    for path, why in facts.not_started:
        lines += wrapped(_text(words.line("how.not_started", path=code(path), why=words.line(f"how.{why}"))))
    for entry in facts.skipped:
        shown = wrapped(_text(words.line("unknown.skipped", path=code(entry.path), why=entry.reason)), hanging="  ")
        lines += [f"{dim}{line}{end}" for line in shown]
    return "\n".join(lines).strip("\n") + "\n"


def _row(label: str, value: str, source: str, dim: str, end: str) -> Iterator[str]:
    """Label, value and source on one line; the source below where it does not fit."""
    head = f"  {label}  {value}"
    if cells(head) + 2 + cells(source) <= columns():
        yield f"{head}  {dim}{source}{end}".rstrip()
        return
    yield from wrapped(head.rstrip()) if cells(head.rstrip()) > columns() else (head.rstrip(),)
    yield from (f"{dim}{line}{end}" for line in wrapped(source, " " * 6))


def _rows(deployment: Deployment, words: Words) -> Iterator[tuple[Line, Line, Line]]:
    """(label, value, how it was learnt); the deciding facts also where they are unknown."""
    for name, fact in deployment.facts():
        if name in _JOINED or not (fact.known or name in describe.DECIDING):
            continue
        label = words.name("fact", "engine" if name == "engine_version" else name)
        yield label, _value(name, deployment, words), join([_how(fact, words), *_others(name, fact, words)], "; ")
        if name == "context_length" and deployment.first_rejected_length is not None:
            yield words.name("fact", "first_rejected_length"), own(f"{deployment.first_rejected_length:,}"), ()


def _value(name: str, deployment: Deployment, words: Words) -> Line:
    fact = deployment.fact(name)
    shown = describe.value(name, fact.value) if fact.value is not None else words.line("unknown.label")
    if name == "engine_version" and deployment.engine.value is not None:
        return join([describe.value("engine", deployment.engine.value), shown], " ")
    if name == "gpu" and deployment.gpu_count.value is not None:
        return join([describe.value("gpu_count", deployment.gpu_count.value), shown], " × ")
    if name == "tensor_parallel":
        sizes = [
            (label, deployment.fact(f).value) for label, f in (("PP", "pipeline_parallel"), ("DP", "data_parallel"))
        ]
        return join([shown, *(own(f"{label} {size}") for label, size in sizes if size is not None)], ", ")
    return shown


def _how(fact: Fact, words: Words) -> Line:
    return describe.how(fact, words) if fact.known else describe.why_unknown(fact, words)


def _others(name: str, fact: Fact, words: Words) -> Iterator[Line]:
    for other in fact.others[:2]:
        if other.value != fact.value and other.source.path:
            yield words.line("how.also", value=describe.value(name, other.value), place=other.source)


def _text(line: Line) -> str:
    return "".join(
        span.text if span.kind == "own" else _shown(f"{span.text}:{span.line}" if span.line else span.text) or "–"
        for span in line
    )


def _shown(text: str) -> str:
    return encode.terminal(text, limit=1_000)


def _padded(text: str, width: int) -> str:
    return text + " " * (width - cells(text))
