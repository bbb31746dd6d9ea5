"""YAML with line numbers, read as far as it can be read.

Composed to nodes by PyYAML's C loader and never constructed: no types, no tags, no code. A document that does not parse is tried
again with what is known to break manifests taken out (tabs, template braces, merge-conflict markers), then up to the line of
the error. Scalars keep their spelling (``0.90`` stays ``0.90``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final, Union

from checklistbot.discovery.limits import gave_up
from checklistbot.engines.base import OPEN, Word, mark, settled, without_marks
from checklistbot.lazy import pattern
from checklistbot.record import record

__all__ = ["OPEN", "Map", "Node", "Seq", "Word", "dig", "documents", "mark", "read", "settled", "without_marks"]

_MAX_NODES: Final = 200_000
_MAX_DEPTH: Final = 100
_MAX_DOCUMENTS: Final = 5_000
_MAX_ATTEMPTS: Final = 12

Node = Union["Map", "Seq", Word, None]


class Map(dict[str, Node]):
    """A mapping; ``line`` is where it begins, ``lines`` the line of each key."""

    __slots__ = ("line", "lines", "path")

    def __init__(self, path: str, line: int) -> None:
        super().__init__()
        self.path, self.line = path, line
        self.lines: dict[str, int] = {}

    def set(self, key: str, value: Node, line: int) -> None:
        self[key] = value
        self.lines[key] = line


class Seq(list[Node]):
    """A sequence; ``line`` is where it begins."""

    __slots__ = ("line", "path")

    def __init__(self, path: str, line: int, values: Sequence[Node] = ()) -> None:
        super().__init__(values)
        self.path, self.line = path, line


@record
class Documents:
    """The documents of one text; ``error`` says where it stopped being YAML, None where all of it was read."""

    roots: tuple[Node, ...]
    error: str | None = None


def documents(path: str, text: str) -> tuple[Node, ...]:
    """The roots of all documents that can be read, empty ones left out."""
    return read(path, text).roots


def read(path: str, text: str) -> Documents:
    """All documents with the first error. A broken document does not take the others with it."""
    roots: list[Node] = []
    error: str | None = None
    for first, part in _split(text):
        root, why = _compose(path, part, first)
        error = error or why
        if root is not None:
            roots.append(root)
    return Documents(tuple(roots), error)


def unreadable(text: str) -> int | None:
    """The line (from 1) at which a document stops being YAML even with tabs, template braces and conflict markers taken out; None where all
    of it can be read. Events only, no nodes: this asks for the syntax, not for what it says."""
    for first, part in _split(text):
        line = _stops(part)
        if line is not None and all(row.startswith(("%", "#")) for row in part.split("\n") if row.strip()):
            continue  # directives stand before the document's line of dashes
        if line is not None and _stops(_mend(part)) is not None:
            return first + line
    return None


def _stops(text: str) -> int | None:
    """The line (from 0) at which the parser gives up."""
    import yaml

    try:
        for _ in yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
            pass
    except (yaml.YAMLError, ValueError) as error:
        return _error_line(error)
    except RecursionError:
        return None  # too deep is another reason, and the readers say it (``limits``)
    return None


# --- walking -----------------------------------------------------------------------------------------------------------


def dig(node: Node, *keys: str | int) -> Node:
    """The node below ``keys``, None where a step is missing or of another kind."""
    for key in keys:
        if isinstance(key, str) and isinstance(node, Map):
            node = node.get(key)
        elif isinstance(key, int) and isinstance(node, Seq):
            node = node[key] if -len(node) <= key < len(node) else None
        else:
            return None
    return node


def word(node: Node) -> Word | None:
    """The node if it is a scalar; unknown where a part of it is."""
    return settled(node) if isinstance(node, Word) else None


def text(node: Node) -> str | None:
    """The text of a scalar, None for anything else or an unknown value."""
    return node.text if isinstance(node, Word) and OPEN not in (node.text or "") else None


def mapping(node: Node) -> Map:
    """The node if it is a map, else an empty one."""
    return node if isinstance(node, Map) else Map("", 0)


def items(node: Node) -> Seq:
    """The node if it is a sequence, else an empty one."""
    return node if isinstance(node, Seq) else Seq("", 0)


def words(node: Node) -> list[Word]:
    """The scalars of a sequence, or one scalar as a list of one; unknown parts still stand in them (``launches.expand`` settles them)."""
    if isinstance(node, Word):
        return [node]
    return [entry for entry in node if isinstance(entry, Word)] if isinstance(node, Seq) else []


def maps(node: Node) -> list[Map]:
    """The maps of a sequence."""
    return [entry for entry in node if isinstance(entry, Map)] if isinstance(node, Seq) else []


def walk(node: Node) -> Iterator[Map]:
    """All maps below the node, itself included, outermost first."""
    if isinstance(node, Map):
        yield node
        for value in node.values():
            yield from walk(value)
    elif isinstance(node, Seq):
        for value in node:
            yield from walk(value)


# --- splitting ---------------------------------------------------------------------------------------------------------

_SEPARATOR = pattern(r"^---(?=\s|$)[^\n]*", re.MULTILINE)


def _split(text: str) -> Iterator[tuple[int, str]]:
    """(first line, text) of each document, so that one bad document costs only itself."""
    if "\t---" not in text and "---" not in text:
        yield 1, text
        return
    start, line = 0, 1
    bounds = [match.start() for match in _SEPARATOR.finditer(text)]
    if len(bounds) > _MAX_DOCUMENTS:
        gave_up()
        del bounds[_MAX_DOCUMENTS:]
    for bound in [*bounds, len(text)]:
        part = text[start:bound]
        if part.strip():
            yield line, part
        line += part.count("\n")
        start = bound


# --- composing ---------------------------------------------------------------------------------------------------------


def _compose(path: str, text: str, first: int) -> tuple[Node, str | None]:
    """One document, or as much of it as can be read, and why not all."""
    why: str | None = None
    attempt = text
    for number in range(_MAX_ATTEMPTS):
        node, broken = _parse(attempt)
        if broken is None:
            return (None if node is None else _Builder(path, first, attempt).build(node)), why
        why = why or f"not valid YAML at line {first + broken}"
        if number == 0:
            attempt = _mend(text)
            continue
        lines = attempt.split("\n")
        cut = min(broken, len(lines) - 1)
        if cut <= 0:
            break
        attempt = "\n".join(lines[:cut])
    return None, why


def _parse(text: str) -> tuple[Any, int | None]:
    """PyYAML's node, or the line (from 0) at which it gave up."""
    import yaml

    try:
        return _first(yaml.compose_all(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))), None
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        if isinstance(error, RecursionError):
            gave_up()
        return None, _error_line(error)


def _first(nodes: Iterator[Any]) -> Any:
    return next(iter(nodes), None)


def _error_line(error: BaseException) -> int:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    return int(mark.line) if mark is not None else 0


_CONTROL_LINE = pattern(
    r"^[ \t]*(?:-[ \t]*)?(?:\{\{-?\s*(?:if|else|end|range|with|define|block|template|include|/\*|\$\w+\s*:?=|#).*|\{%.*%\}\s*|\{#.*)$"
)
_BRACES = pattern(r"(?<!\$)\{\{[^{}\n]*\}\}|\{%[^\n]*?%\}")
_TABS = pattern(r"^[ ]*\t[ \t]*", re.MULTILINE)
_FORBIDDEN = pattern("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\x80-\x84\x86-\x9f\ufffe\uffff]")


def _mend(text: str) -> str:
    """The same lines with tabs, control characters, template braces and merge-conflict markers made harmless."""
    text = _TABS.sub(lambda match: match[0].replace("\t", "  "), _FORBIDDEN.sub(" ", text))
    lines: list[str] = []
    theirs = False
    for line in text.split("\n"):
        if line.startswith(("<<<<<<<", ">>>>>>>", "|||||||")) or (line.startswith("=======") and not line.strip("=")):
            theirs = line.startswith(("=======", "|||||||"))
            lines.append("")
        elif theirs or _CONTROL_LINE.match(line):
            lines.append("")
        else:
            lines.append(_without_braces(line))
    return "\n".join(lines)


def _without_braces(line: str) -> str:
    if "{{" not in line and "{%" not in line:
        return line
    return _BRACES.sub(_braces_mark, line)


def _braces_mark(match: re.Match[str]) -> str:
    inside = re.sub(r"[^\w.$ -]", " ", match[0].strip("{}%-# \t"))
    return mark(" ".join(inside.split()), "not-rendered")


class _Builder:
    """PyYAML nodes → Map, Seq, Word, with aliases shared and the expanded size bounded."""

    def __init__(self, path: str, first: int, text: str) -> None:
        self._path, self._first = path, first
        self._lines = text.split("\n")
        self._done: dict[int, tuple[Node, int]] = {}
        self._active: set[int] = set()
        self._budget = _MAX_NODES

    def build(self, node: Any) -> Node:
        return self._node(node, 0)[0]

    def _node(self, node: Any, depth: int) -> tuple[Node, int]:
        """The node and how many nodes a reader meets below it: an alias counts each time it is used."""
        key = id(node)
        if key in self._done:
            built, size = self._done[key]
            self._budget -= size
            return (built, size) if self._budget > 0 else self._left_out()
        if key in self._active or depth > _MAX_DEPTH or self._budget <= 0:
            return self._left_out()
        self._active.add(key)
        self._budget -= 1
        kind = type(node).__name__
        result: tuple[Node, int]
        if kind == "MappingNode" and self._template(node):
            result = Word(mark("", "not-rendered"), self._path, self._line(node)), 1
        elif kind == "MappingNode":
            result = self._map(node, depth)
        elif kind == "SequenceNode":
            result = self._seq(node, depth)
        else:
            result = self._scalar(node), 1
        self._active.discard(key)
        self._done[key] = result
        return result

    @staticmethod
    def _left_out() -> tuple[Node, int]:
        gave_up()
        return None, 1

    @staticmethod
    def _template(node: Any) -> bool:
        """True for ``{{ .Values.x }}`` outside quotes: to YAML a map whose key is a map."""
        return bool(node.value) and node.flow_style is True and type(node.value[0][0]).__name__ == "MappingNode"

    def _line(self, node: Any) -> int:
        return self._first + int(node.start_mark.line)

    def _map(self, node: Any, depth: int) -> tuple[Map, int]:
        found, size = Map(self._path, self._line(node)), 1
        merged: list[Map] = []
        for key_node, value_node in node.value:
            value, more = self._node(value_node, depth + 1)
            size += more
            if getattr(key_node, "tag", "") == "tag:yaml.org,2002:merge":
                merged += [value] if isinstance(value, Map) else maps(value)
            elif isinstance(getattr(key_node, "value", None), str):
                found.set(key_node.value, value, self._line(key_node))
        for other in merged:
            for name, value in other.items():
                if name not in found:
                    found.set(name, value, other.lines.get(name, other.line))
        return found, size

    def _seq(self, node: Any, depth: int) -> tuple[Seq, int]:
        found, size = Seq(self._path, self._line(node)), 1
        for entry in node.value:
            value, more = self._node(entry, depth + 1)
            found.append(value)
            size += more
        return found, size

    def _scalar(self, node: Any) -> Word | None:
        if node.tag == "tag:yaml.org,2002:null" and node.style is None:
            return None
        value, line = str(node.value), self._line(node)
        if node.style in ("|", ">"):
            line += 1
        starts = (
            self._starts(node, value) if node.style != "|" and node.end_mark.line > node.start_mark.line + 1 else ()
        )
        return Word(_without_braces(value), self._path, line, "", None, starts)

    def _starts(self, node: Any, value: str) -> tuple[tuple[int, int], ...]:
        """Where each source line of a folded or quoted scalar begins in its text."""
        starts: list[tuple[int, int]] = []
        at = 0
        for number in range(node.start_mark.line + (node.style == ">"), min(node.end_mark.line + 1, len(self._lines))):
            piece = self._lines[number].strip()
            if number == node.start_mark.line:
                piece = self._lines[number][node.start_mark.column :].lstrip("\"'").strip()
            found = value.find(piece[:20], at) if piece else -1
            if found >= 0:
                starts.append((found, self._first + number))
                at = found + len(piece[:20])
        return tuple(starts)
