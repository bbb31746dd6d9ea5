"""A chat's Markdown as an outline: sections with paragraphs, lists, tables and code, nothing but visible text in them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from functools import cache
from typing import TYPE_CHECKING, Final

from checklistbot.lazy import pattern
from checklistbot.record import mutable_record

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.tree import SyntaxTreeNode

#: A line of prose is no longer than this; the parser is quadratic in what a hostile line may hold.
_MAX_LINE: Final = 8_000
_LINK = pattern(r"!?\[([^\[\]]{0,300})\]\([^()\s]{0,500}(?: \"[^\"]{0,200}\")?\)")
_BOX = pattern(r"^\[([ xX])\]\s+")


@mutable_record
class Paragraph:
    text: str
    #: The bold words it starts with, "" if it starts otherwise; the whole text where all of it is bold.
    lead: str = ""


@mutable_record
class Entry:
    """One list item. ``checked`` is None where it has no box."""

    text: str
    lead: str = ""
    checked: bool | None = None
    blocks: list[Block] = field(default_factory=list)


@mutable_record
class Listing:
    entries: list[Entry]
    ordered: bool


@mutable_record
class Table:
    headers: list[str]
    rows: list[list[str]]


@mutable_record
class Code:
    language: str
    text: str


Block = Paragraph | Listing | Table | Code


@mutable_record
class Section:
    """A heading and what stands below it; the document is a section of level 0."""

    title: str
    level: int
    blocks: list[Block] = field(default_factory=list)
    sections: list[Section] = field(default_factory=list)

    def walk(self) -> Iterator[Section]:
        yield self
        for section in self.sections:
            yield from section.walk()


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    # Links are taken out beforehand: their rule is quadratic, and their targets are never shown.
    return MarkdownIt("commonmark", {"maxNesting": 40}).enable("table").disable(["link", "image", "autolink"])


def outline(text: str) -> Section:
    """The outline of a Markdown text; never raises for its content."""
    from markdown_it.tree import SyntaxTreeNode

    lines = [line[:_MAX_LINE] for line in text.replace("\r\n", "\n").split("\n")]
    root = SyntaxTreeNode(_parser().parse(_LINK.sub(r"\1", "\n".join(lines))))
    document = Section("", 0)
    open_sections = [document]
    for node in root.children:
        if node.type == "heading":
            level = int(node.tag[1:])
            while open_sections[-1].level >= level:
                open_sections.pop()
            section = Section(_inline(node)[0], level)
            open_sections[-1].sections.append(section)
            open_sections.append(section)
        else:
            open_sections[-1].blocks += _blocks(node)
    return document


def _blocks(node: SyntaxTreeNode) -> list[Block]:
    if node.type == "paragraph":
        text, lead = _inline(node)
        return [Paragraph(text, lead)] if text else []
    if node.type in ("bullet_list", "ordered_list"):
        return [Listing([_entry(child) for child in node.children], node.type == "ordered_list")]
    if node.type in ("fence", "code_block"):
        info = node.info.split()
        return [Code(info[0].lower() if info else "", node.content)]
    if node.type == "table":
        return [_table(node)]
    if node.type == "blockquote":
        return [block for child in node.children for block in _blocks(child)]
    return []


def _entry(node: SyntaxTreeNode) -> Entry:
    blocks = [block for child in node.children for block in _blocks(child)]
    text = lead = ""
    if blocks and isinstance(blocks[0], Paragraph):
        text, lead = blocks[0].text, blocks[0].lead
        blocks = blocks[1:]
    box = _BOX.match(text)
    if box:
        text = text[box.end() :]
    return Entry(text, lead, None if box is None else box[1] != " ", blocks)


def _table(node: SyntaxTreeNode) -> Table:
    rows = [[_inline(cell)[0] for cell in row.children] for part in node.children for row in part.children]
    return Table(rows[0], rows[1:]) if rows else Table([], [])


def _inline(node: SyntaxTreeNode) -> tuple[str, str]:
    """The visible text, and the bold words it starts with."""
    parts: list[tuple[str, bool]] = []
    for child in node.children:
        for piece in child.children if child.type == "inline" else [child]:
            parts.append((_text(piece), piece.type == "strong"))
    text = " ".join("".join(part for part, _ in parts).split())
    visible = [(part, bold) for part, bold in parts if part.strip() and not _BOX.fullmatch(part.strip() + " ")]
    lead = " ".join(visible[0][0].split()) if visible and visible[0][1] else ""
    return text, lead


def _text(node: SyntaxTreeNode) -> str:
    if node.type in ("softbreak", "hardbreak"):
        return " "
    if node.type in ("text", "code_inline"):
        return str(node.content)
    return "".join(_text(child) for child in node.children)
