"""A notebook's code cells as Python statements, each node with its line of the JSON file."""

from __future__ import annotations

import ast
import json
import re
from dataclasses import field
from typing import Any, Final

from checklistbot.discovery.interpret.marks import without_marks
from checklistbot.discovery.interpret.pysinks import Finder
from checklistbot.discovery.limits import UNREAD, gave_up
from checklistbot.discovery.tree import Tree
from checklistbot.engines.base import Launch
from checklistbot.lazy import pattern
from checklistbot.model import Skipped
from checklistbot.record import mutable_record

MAX_CELLS: Final = 5_000
_SHELL_CELL = pattern(r"%%(?:bash|sh|script\s+(?:--bg\s+)?(?:bash|sh)|shell)\b")
_ENV_MAGIC = pattern(r"\s*%(?:env|set_env)\s+(\w+)[=\s]\s*(.*)$")
_ESCAPE = pattern(r"^(\s*)(?:[\w, ]+=\s*)?!+(.*)$")


@mutable_record
class Cell:
    """Lines of source with the line of the file that holds each."""

    lines: list[str] = field(default_factory=list)
    places: list[int] = field(default_factory=list)


def find(tree: Tree, path: str, text: str) -> list[Launch]:
    """The launches of a notebook; what is no JSON is listed as skipped."""
    finder = Finder(tree, path)
    body: list[ast.stmt] = []
    try:
        cells = read_cells(text)
    except (ValueError, IndexError, RecursionError):
        tree.skipped.append(Skipped(path, f"{UNREAD}notebook"))
        return []
    for cell in cells:
        body += _statements(cell, path, finder)
    return finder.run(body)


# --- JSON with lines -----------------------------------------------------------------------------------------------------


def read_cells(text: str) -> list[Cell]:
    """The code cells, in order; raises ValueError, IndexError or RecursionError for what is no JSON or too deep."""
    text = without_marks(text)
    notebook, _ = _value(text, _skip(text, 0), _Lines(text), 0)
    cells = notebook.get("cells") if isinstance(notebook, dict) else None
    if cells is None and isinstance(notebook, dict) and isinstance(notebook.get("worksheets"), list):
        cells = [c for sheet in notebook["worksheets"] if isinstance(sheet, dict) for c in sheet.get("cells") or []]
    found = []
    if isinstance(cells, list) and len(cells) > MAX_CELLS:
        gave_up()
    for cell in (cells if isinstance(cells, list) else [])[:MAX_CELLS]:
        if isinstance(cell, dict) and _plain(cell.get("cell_type")) == "code":
            found.append(_cell(cell.get("source", cell.get("input"))))
    return found


def _plain(value: Any) -> Any:
    return value[0] if isinstance(value, tuple) else value


def _cell(source: Any) -> Cell:
    cell = Cell()
    glue = False
    for part in source if isinstance(source, list) else [source]:
        if not isinstance(part, tuple):
            continue
        text, line = part
        pieces = text.split("\n")
        for index, piece in enumerate(pieces):
            if index == 0 and glue and cell.lines:
                cell.lines[-1] += piece
            elif not (index == len(pieces) - 1 and piece == "" and index):
                cell.lines.append(piece)
                cell.places.append(line)
        glue = not text.endswith("\n")
    return cell


class _Lines:
    """Offset → line, for offsets that only grow."""

    def __init__(self, text: str) -> None:
        self._text, self._at, self._line = text, 0, 1

    def __call__(self, offset: int) -> int:
        self._line += self._text.count("\n", self._at, offset)
        self._at = max(self._at, offset)
        return self._line


def _skip(text: str, at: int) -> int:
    while at < len(text) and text[at] in " \t\r\n\ufeff":
        at += 1
    return at


def _value(text: str, at: int, lines: _Lines, depth: int) -> tuple[Any, int]:
    """A JSON value whose strings are (text, line) pairs."""
    if depth > 60:
        raise ValueError("too deep")
    first = text[at]
    if first == '"':
        line = lines(at)
        value, end = json.decoder.scanstring(text, at + 1, False)  # type: ignore[attr-defined]
        return (value, line), end
    if first == "[":
        return _array(text, at, lines, depth)
    if first == "{":
        return _object(text, at, lines, depth)
    match = re.compile(r"[-+\w.]+").match(text, at)
    if match is None:
        raise ValueError("no JSON")
    return match[0], match.end()


def _array(text: str, at: int, lines: _Lines, depth: int) -> tuple[list[Any], int]:
    found: list[Any] = []
    at = _skip(text, at + 1)
    while text[at] != "]":
        value, at = _value(text, at, lines, depth + 1)
        found.append(value)
        at = _skip(text, at)
        if text[at] == ",":
            at = _skip(text, at + 1)
    return found, at + 1


def _object(text: str, at: int, lines: _Lines, depth: int) -> tuple[dict[str, Any], int]:
    found: dict[str, Any] = {}
    at = _skip(text, at + 1)
    while text[at] != "}":
        key, at = _value(text, at, lines, depth + 1)
        at = _skip(text, at)
        if text[at] != ":":
            raise ValueError("no JSON")
        value, at = _value(text, _skip(text, at + 1), lines, depth + 1)
        found[str(_plain(key))] = value
        at = _skip(text, at)
        if text[at] == ",":
            at = _skip(text, at + 1)
    return found, at + 1


# --- cells to statements ---------------------------------------------------------------------------------------------------


def _statements(cell: Cell, path: str, finder: Finder) -> list[ast.stmt]:
    """A cell's statements; magics become calls of ``__sh__``, what is no Python is left out line by line."""
    first = next((i for i, line in enumerate(cell.lines) if line.strip()), None)
    if first is None:
        return []
    head = cell.lines[first].strip()
    if _SHELL_CELL.match(head):
        return [_shell_call(finder, path, cell, first + 1, len(cell.lines))]
    if head.startswith("%%") and not head.startswith(("%%time", "%%capture", "%%timeit")):
        return _written_file(cell, head, first)
    code, calls = _without_magics(cell, path, finder)
    tree = _parse(code)
    if tree is None:
        return calls
    _relocate(tree, cell.places)
    return sorted([*tree.body, *calls], key=lambda statement: int(getattr(statement, "_cell_line", 0)))


def _written_file(cell: Cell, head: str, first: int) -> list[ast.stmt]:
    """``%%writefile NAME``: the file that a later command may name."""
    match = re.match(r"%%(?:writefile|file)\s+(?:-a\s+)?(\S+)", head)
    if match is None:
        return []
    text = "\n".join(cell.lines[first + 1 :])
    line = cell.places[first + 1] if first + 1 < len(cell.places) else cell.places[first]
    source = f"open({match[1]!r}, 'w').write({text!r})"
    tree = _parse(source)
    if tree is None:
        return []
    _relocate(tree, [line])
    return tree.body


def _without_magics(cell: Cell, path: str, finder: Finder) -> tuple[str, list[ast.stmt]]:
    """The cell's Python with magic lines blanked, and the calls that stand for them."""
    code = list(cell.lines)
    calls: list[ast.stmt] = []
    index = 0
    while index < len(code):
        line = cell.lines[index]
        match = _ESCAPE.match(line)
        environment = _ENV_MAGIC.match(line)
        stripped = line.lstrip()
        end = index + 1
        if match is not None and not stripped.startswith(("#", "'", '"')):
            while cell.lines[end - 1].rstrip().endswith("\\") and end < len(cell.lines):
                end += 1
            if match[1]:
                code[index] = f"{match[1]}__sh__({len(finder.cells)})"
                _add_shell(finder, path, cell, index, end)
            else:
                code[index] = ""
                calls.append(_shell_call(finder, path, cell, index, end))
            for number in range(index + 1, end):
                code[number] = ""
        elif environment is not None:
            code[index] = f"import os; os.environ[{environment[1]!r}] = {environment[2].strip()!r}"
        elif stripped.startswith("%") or stripped.endswith("?"):
            code[index] = line[: len(line) - len(stripped)] + "pass"
        index = end
    return "\n".join(code), calls


def _add_shell(finder: Finder, path: str, cell: Cell, start: int, end: int) -> int:
    lines = cell.lines[start:end]
    match = _ESCAPE.match(lines[0]) if lines else None
    if match is not None:
        lines = [match[2], *lines[1:]]
    place = (path, cell.places[start] if start < len(cell.places) else 1)
    finder.cells.append(("\n".join(lines), place))
    finder.cell_lines.append(cell.places[start:end])
    return len(finder.cells) - 1


def _shell_call(finder: Finder, path: str, cell: Cell, start: int, end: int) -> ast.stmt:
    index = _add_shell(finder, path, cell, start, end)
    call = ast.parse(f"__sh__({index})").body[0]
    line = cell.places[min(start, len(cell.places) - 1)] if cell.places else 1
    for node in ast.walk(call):
        if hasattr(node, "lineno"):
            node.lineno = line
    call._cell_line = start  # type: ignore[attr-defined]
    return call


def _parse(code: str) -> ast.Module | None:
    """The code as far as it is Python: lines at which the parser stops are blanked, a few times."""
    lines = code.split("\n")
    for _ in range(8):
        try:
            return ast.parse("\n".join(lines))
        except SyntaxError as error:
            number = (error.lineno or 0) - 1
            if not 0 <= number < len(lines) or not lines[number].strip():
                return None
            lines[number] = lines[number][: len(lines[number]) - len(lines[number].lstrip())] + "pass"
        except (ValueError, RecursionError, MemoryError):
            return None
    return None


def _relocate(tree: ast.Module, places: list[int]) -> None:
    for statement in tree.body:
        statement._cell_line = statement.lineno - 1  # type: ignore[attr-defined]
    for node in ast.walk(tree):
        line = getattr(node, "lineno", None)
        if line is not None and places:
            node.lineno = places[min(line, len(places)) - 1]  # type: ignore[attr-defined]
