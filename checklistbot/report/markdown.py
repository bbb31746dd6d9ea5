"""The comment: what a reviewer reads on the pull request, in English or Korean; the publisher adds its marker.

The layout is ``templates/comment.md.j2``; this file makes its pieces. Everything that is not our own goes through the
Markdown encoder span by span; what a template prints without that is encoded by the environment's ``finalize``.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from markupsafe import Markup

from checklistbot import encode, resources
from checklistbot.model import Check, Deployment, Facts, Finding, Item, Report, Script, UsageError
from checklistbot.record import record
from checklistbot.report import describe, facts_table, places
from checklistbot.report.headline import headline, subject
from checklistbot.report.view import Group, View, check_report, view, weight
from checklistbot.report.words import Language, Line, Span, Words, code, foreign, join, own, place

if TYPE_CHECKING:
    from jinja2 import Template

#: Characters of a comment that GitHub takes.
COMMENT: Final = 65_536
_NEARLY: Final = 55_000
#: GitHub takes 65,536 characters; what is left is room for the marker, which drops its checklist if need be.
LIMIT: Final = 65_000
_COLUMNS: Final = 2
_SHOWN_FINDINGS: Final = 3


@dataclass(frozen=True, slots=True)
class Links:
    """Where a file and line of the head commit can be opened. ``root`` is PATH relative to the repository's top, ``run_id`` the workflow run.

    Raises UsageError where a part is none: they come from the environment, not from us.
    """

    server_url: str
    repo: str
    head_sha: str
    root: str = ""
    run_id: str | None = None

    def __post_init__(self) -> None:
        if not re.fullmatch(r"https?://[A-Za-z0-9.-]+(:\d+)?", self.server_url.rstrip("/")):
            raise UsageError("server address for links: expected http(s)://host, without a path")
        if not re.fullmatch(r"[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+", self.repo):
            raise UsageError("repository for links: expected OWNER/NAME")
        if not re.fullmatch(r"[0-9a-f]{40,64}", self.head_sha):
            raise UsageError("head commit for links: expected 40 or 64 hexadecimal digits")
        if self.run_id is not None and not re.fullmatch(r"[0-9]{1,20}", self.run_id):
            raise UsageError("workflow run for links: expected its number")

    @property
    def run_url(self) -> str | None:
        """The page of the workflow run, whose summary holds what a comment has no room for."""
        return f"{self.server_url.rstrip('/')}/{self.repo}/actions/runs/{self.run_id}" if self.run_id else None

    def url(self, path: str, line: int | None) -> str | None:
        """The address of a line in the head commit; None for what is no file of the repository."""
        full = places.full(path, self.root)
        hides_a_secret = encode.SECRET in encode.clean(full, limit=4_096)
        if hides_a_secret or not places.inside(full):
            return None
        base = f"{self.server_url.rstrip('/')}/{self.repo}/blob/{self.head_sha}/{encode.link_target(full)}"
        return f"{base}#L{line}" if line else base


@record
class Room:
    """What a comment has room for: one step of the ladder from everything to the headline alone."""

    scripts: bool = True
    light: bool = True
    steps: bool = True
    messages: bool = True
    facts: bool = True
    items: int = 1_000
    groups: int = 1_000
    passes: bool = True


_LADDER: Final = (
    Room(),
    Room(scripts=False),
    Room(scripts=False, light=False),
    Room(scripts=False, light=False, steps=False),
    Room(scripts=False, light=False, steps=False, messages=False),
    Room(scripts=False, light=False, steps=False, messages=False, facts=False),
    *(
        Room(scripts=False, light=False, steps=False, messages=False, facts=False, items=n, groups=n)
        for n in (40, 20, 10, 5, 2, 0)
    ),
    Room(scripts=False, light=False, steps=False, messages=False, facts=False, items=0, groups=0, passes=False),
)


def render(
    report: Report,
    *,
    language: Language,
    links: Links | None = None,
    now: datetime | None = None,
    limit: int = LIMIT,
    folded: bool = False,
    must_tick: Collection[str] = (),
) -> str:
    """The comment's body in Markdown, at most ``limit`` characters, without a marker.

    ``now`` is printed in the footer; ``folded`` (a draft) shows the headline and folds the rest. What does not fit is left out step by step,
    and the comment says so; the items up to the last one with an id in ``must_tick`` stay, because a check waits for their boxes.
    """
    seen = view(report)
    for room in _LADDER:
        try:
            body = _Comment(seen, Words(language), links, room, limit, folded, must_tick).text(now)
        except _NoRoom:
            continue
        if _length(body) <= limit:
            break
    return body


def render_check(check: Check, facts: Facts, *, language: Language) -> str:
    """A check of one state in Markdown: the comment without changes, checklist and script."""
    return render(check_report(check, facts), language=language)


def _length(body: str) -> int:
    """Characters as GitHub may count them: those beyond the basic plane as two."""
    return len(body.encode("utf-16-le")) // 2


@cache
def _template() -> Template:
    from jinja2 import StrictUndefined
    from jinja2.sandbox import SandboxedEnvironment

    environment = SandboxedEnvironment(
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=False,
        undefined=StrictUndefined,
        finalize=encode.finalizer("markdown"),
        autoescape=False,
    )
    return environment.from_string(resources.text("templates", "comment.md.j2"))


# --- spans to Markdown -----------------------------------------------------------------------------------------------


@record
class Inline:
    """Turns lines into Markdown, with links to the head commit where there are any."""

    links: Links | None
    names: dict[str, str]

    def __call__(self, line: Line, *, cell: bool = False, limit: int = encode.MAX_INLINE) -> Markup:
        """The line as Markdown; ``cell`` for a table, ``limit`` characters for each piece from outside."""
        out = ""
        strong = False
        for span in line:
            text = self._span(span, cell, limit)
            if not text:
                continue
            if span.strong != strong:
                out += "**"
                strong = span.strong
            # Two code spans that touch would open each other.
            out += " " + text if out.endswith("`") and text.startswith("`") else text
        return _ready(out + ("**" if strong else ""))

    def _span(self, span: Span, cell: bool, limit: int) -> str:
        if span.kind == "own":
            return encode.own_markdown(span.text)
        if span.kind == "foreign":
            return encode.markdown(span.text, limit=limit, cell=cell) or "` `"
        if span.kind == "code":
            return encode.code(span.text, cell=cell)
        return self._place(span, cell)

    def _place(self, span: Span, cell: bool) -> str:
        name = self.names.get(span.text, span.text)
        shown = encode.code(f"{name}:{span.line}" if span.line else name, cell=cell)
        url = self.links.url(span.text, span.line) if self.links and span.text else None
        return f"[{shown}]({url})" if url else shown


def summary(line: Line) -> Markup:
    """The line as HTML for a ``<summary>``: there Markdown is not read, and only ``<code>`` stops mentions."""
    parts = []
    for span in line:
        text = f"{span.text}:{span.line}" if span.line else span.text
        if span.kind == "own":
            parts.append(encode.html_text(text))
        else:
            parts.append(f"<code>{encode.html_text(' '.join(encode.clean(text).split())) or ' '}</code>")
    return _ready("".join(parts))


def _ready(text: str) -> Markup:
    """Text whose pieces have been encoded: the template prints it as it is."""
    return Markup(text)  # noqa: S704


# --- the comment's pieces --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Section:
    """One deployment group as the template prints it."""

    title: Markup
    folded: bool
    changes: tuple[Markup, ...]
    tables: tuple[Markup, ...]
    more_tables: tuple[Markup, ...]
    findings: tuple[Markup, ...]
    more: tuple[Markup, ...]
    more_title: Markup


class _NoRoom(Exception):
    """This step of the ladder cannot fit."""


class _Comment:
    def __init__(
        self, seen: View, words: Words, links: Links | None, room: Room, limit: int, folded: bool, must: Collection[str]
    ) -> None:
        self.must = must
        self.seen, self.words, self.room, self.limit, self.folded = seen, words, room, limit, folded
        self.links = links
        self.md = Inline(links, seen.names)
        self.report = seen.report

    def text(self, now: datetime | None) -> str:
        head = headline(self.seen, self.words)
        items = self.items()
        context: dict[str, Any] = {
            "title": self.md(head.title),
            "lines": [self.md(line, limit=600) for line in head.lines],
            "notices": [
                self.md(describe.notice(notice, self.words), limit=600) for notice in describe.notices(self.report)
            ],
            "omitted": self.omitted(),
            "quiet": head.standing == "pass" or self.folded,
            "sections": self.sections() if self.room.facts else [],
            "overview": self.overview() if not self.room.facts else [],
            "items": [self.item(item) for item in items],
            "steps": [self.steps(item) for item in items] if self.room.steps else [],
            "scripts": [self.script(script) for script in self.report.scripts] if self.room.scripts else [],
            "footer": self.footer(now),
            "heading": {name: self.md(self.words.line(f"section.{name}")) for name in ("checklist", "changes")},
            "fold": {name: summary(self.words.line(f"section.{name}")) for name in ("more_facts", "how")},
        }
        rest = self.words.line("section.draft") if self.folded else self.words.line("section.quiet")
        context["fold"]["quiet"] = summary(rest)
        return _template().render(context).strip() + "\n"

    def shown_groups(self) -> tuple[Group, ...]:
        groups = self.seen.groups
        if not self.room.light:
            groups = tuple(group for group in groups if group.standing != "pass" or group.changes)
        return groups[: self.room.groups]

    # -- one group

    def sections(self) -> list[_Section]:
        """All sections; stops with ``_NoRoom`` where they alone are too long: hundreds of groups would be printed on each step in vain."""
        done, length = [], 0
        for group in self.shown_groups():
            done.append(self.section(group))
            length += sum(map(len, (*done[-1].tables, *done[-1].findings, *done[-1].more)))
            if length > self.limit:
                raise _NoRoom
        return done

    def section(self, group: Group) -> _Section:
        # What blocks is never folded, whoever brought it.
        shown = [f for n, f in enumerate(group.grave) if n < _SHOWN_FINDINGS or f.verdict == "block"]
        more = [f for f in group.grave if f not in shown] + list(group.light if self.room.light else ())
        title = join([self.words.line(f"mark.{group.standing}"), subject(group, self.words)], " ")
        folded = group.standing == "pass" and not group.changes
        return _Section(
            title=summary(title) if folded else self.md(title),
            folded=folded,
            changes=tuple(self.md(line) for line in describe.changed(group.changes, self.words)),
            tables=self.tables(group, first=True),
            more_tables=self.tables(group, first=False),
            findings=tuple(map(self.finding, shown)),
            more=tuple(map(self.finding, more)),
            more_title=summary(self.words.line("section.more_findings", n=len(more))),
        )

    def tables(self, group: Group, *, first: bool) -> tuple[Markup, ...]:
        """The facts that decide, or the rest of them; at most two roles in a table, so that it fits a phone."""
        chunks = [group.members[at : at + _COLUMNS] for at in range(0, len(group.members), _COLUMNS)]
        return tuple(table for some in chunks if (table := self.table(group, some, first)))

    def table(self, group: Group, members: Sequence[Deployment], first: bool) -> Markup:
        """Facts down, roles across; empty where no fact is known."""
        rows = [
            f"| {self.md(label, cell=True)} | {' | '.join(map(self.cell, cells))} |"
            for label, cells in facts_table.rows(members, self.words, first=first)
        ]
        heads = [self.md(facts_table.column(member, group), cell=True) for member in members]
        top = [f"| | {' | '.join(heads)} |", f"|:--|{':--|' * len(members)}"]
        return _ready("\n".join([*top, *rows]) if rows else "")

    def cell(self, cell: facts_table.Cell) -> str:
        shown = self.md(cell.value, cell=True, limit=80)
        below = [f"<sub>{self.md(line, cell=True, limit=80)}</sub>" for line in cell.below if line]
        return "<br>".join([shown, *below])

    def overview(self) -> list[Markup]:
        """One line a group, where there is no room for more."""
        shown = []
        for group in self.shown_groups():
            mark = join([self.words.line(f"mark.{group.standing}"), subject(group, self.words)], " ")
            worst = foreign(group.worst.title) if group.worst else ()
            shown.append(self.md(join([mark, worst], ": "), limit=120))
        return shown

    # -- one finding

    def finding(self, finding: Finding) -> Markup:
        md, words = self.md, self.words
        line = words.line("finding.line", mark=words.line(f"mark.{describe.mark(finding)}"), title=finding.title,
                          rule=code(describe.rule(finding)))  # fmt: skip
        where = place(finding.location) if finding.location else ()
        parts = [md(join([line, where, self.status(finding)]), limit=200)]
        if self.room.messages and finding.message != finding.title:
            parts.append(md(foreign(finding.message), limit=1_000))
        if finding.waived:
            parts.append(md(describe.waived(finding.waived, words), limit=300))
        if finding.fix and weight(finding) != "pass":
            parts.append(md(describe.fix(finding.fix, words), limit=600))
        if self.room.messages and finding.because and weight(finding) != "pass":
            parts.append(_ready(f"<sub>{md(self.because(finding), limit=80)}</sub>"))
        return _ready("<br>".join(parts))

    def status(self, finding: Finding) -> Line:
        if finding.verdict in ("pass", "note") or (finding.status == "new" and self.report.base_facts is None):
            return ()
        return self.words.line(f"finding.{finding.status}")

    def because(self, finding: Finding) -> Line:
        entries = []
        for entry in finding.because[:6]:
            shown = self.words.line("unknown.label") if entry.value is None else describe.value(entry.fact, entry.value)
            name = describe.fact_name(entry.fact, self.words)
            if entry.source is not None and entry.source.path:
                entries.append(self.words.line("finding.because", fact=name, value=shown, place=entry.source))
            else:
                entries.append(self.words.line("finding.because_bare", fact=name, value=shown))
        return self.words.line("finding.rests_on", what=join(dict.fromkeys(entries), " · "))

    # -- checklist, scripts, footer

    def items(self) -> tuple[Item, ...]:
        """The items that there is room for, the first ones (``boxes.of`` counts on it), with all that must be ticked."""
        every = self.report.checklist.items
        last = max((at for at, item in enumerate(every, 1) if item.id in self.must), default=0)
        return every[: max(self.room.items, last)]

    def item(self, item: Item) -> Markup:
        """A box, its title and when it passes. How to verify stands apart, because a tick list should fit the eye."""
        md = self.md
        line = f"**{md(foreign(item.title), limit=200)}** <sub>{md(join(self.tags(item)), limit=60)}</sub>"
        if not self.room.passes:
            return _ready(line)
        return _ready(f"{line}<br>{md(self.words.line('item.pass_when', what=item.pass_when), limit=500)}")

    def tags(self, item: Item) -> Iterator[Line]:
        yield self.words.line(f"item.{item.severity}")
        yield self.words.line(f"item.{item.when}")
        if item.owner:
            yield foreign(item.owner)
        if item.automation is not None and item.automation.get("kind") != "manual":
            yield self.words.line("item.automated")
        if item.added and self.report.checklist.origin != "builtin":
            yield self.words.line("item.added")

    def steps(self, item: Item) -> Markup:
        """One item's reason, steps and commands."""
        md, words = self.md, self.words
        blocks = [f"**{md(foreign(item.title), limit=200)}**"]
        if item.why:
            blocks[0] += f"<br>{md(words.line('item.why', what=item.why), limit=1_000)}"
        steps = [f"{n}. {md(foreign(step), limit=500)}" for n, step in enumerate(item.steps[:20], 1)]
        if steps:
            blocks.append("\n".join(steps))
        if item.commands:
            blocks.append(encode.fence("\n".join(item.commands[:20]), "sh", limit=4_000))
        marks = [md(words.line("item.not_verified", what=entry), limit=200) for entry in item.not_verified[:10]]
        if marks:
            blocks.append("<br>".join(f"⚠️ {mark}" for mark in marks))
        return _ready("\n\n".join(blocks))

    def script(self, script: Script) -> dict[str, Markup]:
        title = summary(self.words.line("section.script", path=code(script.path)))
        return {
            "title": title,
            "text": _ready(encode.fence(script.text, "bash" if script.path.endswith(".sh") else "")),
        }

    def omitted(self) -> Markup:
        room, what = self.room, []
        groups, items = self.seen.groups, self.report.checklist.items
        if not room.scripts and self.report.scripts:
            what.append(self.words.line("omitted.scripts"))
        if not room.light and any(group.light for group in groups):
            what.append(self.words.line("omitted.more"))
        if not room.light and any(group.standing == "pass" and not group.changes for group in groups):
            what.append(self.words.line("omitted.passing"))
        if not room.steps and items:
            what.append(self.words.line("omitted.steps"))
        if not room.messages and self.seen.findings:
            what.append(self.words.line("omitted.findings"))
        if not room.facts and groups:
            what.append(self.words.line("omitted.facts"))
        left = len(items) - len(self.items())
        if left:
            what.append(self.words.line("omitted.checklist", n=left))
        if len(self.shown_groups()) == room.groups < len(groups):
            what.append(self.words.line("omitted.groups", n=len(groups) - room.groups))
        if not what:
            return _ready("")
        said = COMMENT if self.limit > _NEARLY else self.limit
        label = self.md(self.words.line("omitted.label", limit=said, what=join(what, ", ")))
        url = self.links.run_url if self.links else None
        if not url:
            return label
        where = self.md(self.words.line("omitted.run"))
        return _ready(f"{label} [{where}]({url})")

    def footer(self, now: datetime | None) -> Markup:
        time = now.astimezone(UTC).strftime("%Y-%m-%d %H:%M") if now else None
        parts = [
            foreign(self.report.tool),
            *describe.digests(self.report, self.words),
            describe.drafted(self.report, self.words),
            self.words.line("footer.time", time=own(time)) if time else (),
        ]
        return self.md(join(parts), limit=200)
