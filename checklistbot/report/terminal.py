"""The same report for a terminal: the first lines, a table of facts a group, findings, checklist. rich draws it.

Text from outside goes through ``encode.terminal`` span by span and is never read as markup.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from io import StringIO
from typing import TYPE_CHECKING, Final

from checklistbot import encode
from checklistbot.model import Check, Facts, Finding, Item, Report
from checklistbot.report import describe, facts_table
from checklistbot.report.columns import columns
from checklistbot.report.headline import headline, subject
from checklistbot.report.view import Group, View, check_report, view, weight
from checklistbot.report.words import Language, Line, Words, code, foreign, join, place

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table
    from rich.text import Text

_STYLES: Final = {"block": "bold red", "unknown": "bold yellow", "warn": "yellow", "note": "dim", "pass": "green"}
#: From this many groups on, and for this many, a check begins with a table.
_OVERVIEW: Final = 2
_MAX_ROWS: Final = 40
_COUNTED: Final = ("block", "unknown", "warn")


def render_review(report: Report, *, language: Language, color: bool = False, width: int | None = None) -> str:
    """The whole review as text for a terminal ``width`` cells wide (default: ``columns()``), without colours unless asked."""
    seen, words = view(report), Words(language)
    return _printed(
        [*_top(seen, words), *_groups(seen, words), *_checklist(report, words), *_foot(report, words)], color, width
    )


def render_check(
    check: Check,
    facts: Facts,
    *,
    language: Language,
    color: bool = False,
    width: int | None = None,
    everything: bool = False,
) -> str:
    """The verdict and the counts, then the findings on one state, each with its place.

    Quiet where all is well: what passed, and what a deployment has beyond three findings, is told with ``everything`` only.
    """
    seen, words = view(check_report(check, facts)), Words(language)
    return _printed([*_top(seen, words), *_overview(seen, words), *_found(seen, words, everything)], color, width)


# --- drawing ---------------------------------------------------------------------------------------------------------


def _printed(parts: Iterable[RenderableType], color: bool, width: int | None) -> str:
    from rich.console import Console

    out = StringIO()
    console: Console = Console(
        file=out,
        width=width or columns(),
        force_terminal=color,
        no_color=not color,
        color_system="standard" if color else None,
        markup=False,
        highlight=False,
        emoji=False,
        legacy_windows=False,
    )
    for part in parts:
        console.print(part)
    return "\n".join(row.rstrip() for row in out.getvalue().split("\n")).strip("\n") + "\n"


def _text(line: Line, style: str = "") -> Text:
    from rich.text import Text

    text = Text(style=style)
    for span in line:
        shown = encode.terminal(f"{span.text}:{span.line}" if span.line else span.text, limit=1_000)
        marked = "bold" if span.strong else "cyan" if span.kind in ("code", "place") else ""
        text.append(span.text if span.kind == "own" else shown or "–", marked)
    return text


def _indented(text: Text, left: int) -> RenderableType:
    from rich.padding import Padding

    return Padding(text, (0, 0, 0, left))


# --- the parts -------------------------------------------------------------------------------------------------------


def _top(seen: View, words: Words) -> Iterator[RenderableType]:
    head = headline(seen, words)
    yield _text(head.title, _STYLES[head.standing])
    for line in head.lines:
        yield ""
        yield _text(line)
    for notice in describe.notices(seen.report):
        yield ""
        yield _text(describe.notice(notice, words), "dim")


def _groups(seen: View, words: Words) -> Iterator[RenderableType]:
    for group in seen.groups:
        yield from _title(group, words)
        yield from _tables(group, words)
        for finding in group.grave:
            yield from _finding(finding, words)
    for finding in seen.loose:
        yield from _finding(finding, words)


def _title(group: Group, words: Words) -> Iterator[RenderableType]:
    title = join([words.line(f"mark.{group.standing}"), subject(group, words)], " ")
    yield ""
    yield _text(title, _STYLES[group.standing])


def _overview(seen: View, words: Words) -> Iterator[RenderableType]:
    """A table of the groups where there are several: verdict, name, how many findings of each kind, the worst."""
    groups = [group for group in seen.groups if group.worst is not None]
    if len(groups) < _OVERVIEW:
        return
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for _ in ("mark", "subject"):
        table.add_column("", overflow="fold")
    for kind in _COUNTED:
        table.add_column(_text(words.line(f"mark.{kind}")), justify="right", no_wrap=True)
    table.add_column("", overflow="fold", ratio=1)
    for group in groups[:_MAX_ROWS]:
        counts = [sum(weight(f) == kind for f in group.grave) for kind in _COUNTED]
        mark, worst = words.line(f"mark.{group.standing}"), foreign(group.worst.title if group.worst else "")
        table.add_row(_text(mark), _text(subject(group, words)), *(str(n or "") for n in counts), _text(worst))
    yield ""
    yield table
    if len(groups) > _MAX_ROWS:
        yield _text(words.line("headline.and_more", n=len(groups) - _MAX_ROWS), "dim")


def _found(seen: View, words: Words, everything: bool) -> Iterator[RenderableType]:
    """The findings of a check by group. What blocks is never folded."""
    for group in seen.groups:
        found = [f for f in (*group.grave, *group.light) if everything or not _quiet(f)]
        folded = [] if everything else [f for f in found if f.parameters.get("folded") is True and weight(f) != "block"]
        if not found:
            continue
        yield from _title(group, words)
        for finding in found:
            if finding not in folded:
                yield from _finding(finding, words)
        if folded:
            rules = join([code(rule) for rule in dict.fromkeys(map(describe.rule, folded))], ", ")
            yield ""
            yield _text(words.line("finding.folded", n=len(folded), rules=rules), "dim")
    for finding in seen.loose:
        yield from _finding(finding, words)


def _quiet(finding: Finding) -> bool:
    """True for what simply passed: nobody has to read it."""
    return finding.verdict == "pass" and finding.status != "fixed"


def _tables(group: Group, words: Words) -> Iterator[Table]:
    """At most two roles beside each other."""
    for at in range(0, len(group.members), 2):
        yield _table(group, at, words)


def _table(group: Group, at: int, words: Words) -> Table:
    from rich import box
    from rich.table import Table

    members = group.members[at : at + 2]
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    table.add_column("")
    for member in members:
        table.add_column(_text(facts_table.column(member, group)), overflow="fold")
    for first in (True, False):
        for label, cells in facts_table.rows(members, words, first=first):
            table.add_row(_text(label), *(_cell(cell) for cell in cells))
    return table


def _cell(cell: facts_table.Cell) -> Text:
    text = _text(cell.value)
    for line in cell.below:
        if line:
            text.append("\n")
            text.append_text(_text(line, "dim"))
    return text


def _finding(finding: Finding, words: Words) -> Iterator[RenderableType]:
    name = code(describe.rule(finding))
    mark = describe.mark(finding)
    line = words.line("finding.line", mark=words.line(f"mark.{mark}"), title=finding.title, rule=name)
    where = place(finding.location) if finding.location else ()
    yield ""
    yield _text(join([line, where]), "" if mark == "pass" else _STYLES[mark])
    if finding.message != finding.title:
        yield _indented(_text(foreign(finding.message)), 3)
    if finding.waived:
        yield _indented(_text(describe.waived(finding.waived, words)), 3)
    if finding.fix and weight(finding) != "pass":
        yield _indented(_text(describe.fix(finding.fix, words)), 3)


def _checklist(report: Report, words: Words) -> Iterator[RenderableType]:
    if not report.checklist.items:
        return
    yield ""
    yield _text(words.line("section.checklist"), "bold")
    for item in report.checklist.items:
        yield from _item(item, words)


def _item(item: Item, words: Words) -> Iterator[RenderableType]:
    tags = join([words.line(f"item.{item.severity}"), words.line(f"item.{item.when}"), foreign(item.owner)])
    yield _text(join([foreign(f"[ ] {item.title}"), tags]))
    yield _indented(_text(words.line("item.pass_when", what=item.pass_when)), 4)


def _foot(report: Report, words: Words) -> Iterator[RenderableType]:
    for script in report.scripts:
        yield ""
        yield _text(words.line("section.script", path=code(script.path)))
    parts = [foreign(report.tool), *describe.digests(report, words), describe.drafted(report, words)]
    yield ""
    yield _text(join(parts), "dim")
