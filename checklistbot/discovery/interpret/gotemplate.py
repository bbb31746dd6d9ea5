"""Go templates as Helm uses them: a parser, and rendering with lines, a step budget and pure functions only."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import field
from typing import Any, Final

from checklistbot.lazy import pattern
from checklistbot.record import mutable_record

MAX_DEPTH: Final = 60
#: Parts of an action; strings may hold braces.
_PART = pattern(r"""(?P<end>\}\})|"(?:[^"\\\n]|\\.)*+"|`[^`]*+`|[^"`}]++|\}""", re.DOTALL)
_OPENED_COMMENT = pattern(r"-?\s*/\*")
_COMMENT = pattern(r"\s*/\*.*\*/\s*", re.DOTALL)
_TOKEN = pattern(
    r"""\s*(?:(?P<string>"(?:[^"\\\n]|\\.)*"|`[^`]*`)|(?P<char>'(?:[^'\\\n]|\\.)+')|(?P<number>[-+]?\d[\w.]*)"""
    r"""|(?P<field>(?:\.[A-Za-z_]\w*)+|\.)|(?P<variable>\$\w*(?:\.[A-Za-z_]\w*)*)|(?P<op>:=|=|\||\(|\)|,)|(?P<word>[A-Za-z_]\w*))"""
)


class TemplateError(ValueError):
    """The text is no Go template."""


@mutable_record
class Arg:
    """One operand: ``kind`` is literal, field, variable, call (a parenthesised pipeline), word."""

    kind: str
    value: Any
    fields: tuple[str, ...] = ()


@mutable_record
class Pipeline:
    commands: list[list[Arg]]
    variables: list[str] = field(default_factory=list)
    declare: bool = False


@mutable_record
class Node:
    """``kind``: text, action, if, range, with, template, break, continue."""

    kind: str
    line: int
    text: str = ""
    pipeline: Pipeline | None = None
    body: list[Node] = field(default_factory=list)
    otherwise: list[Node] = field(default_factory=list)


def parse(text: str) -> tuple[list[Node], dict[str, list[Node]]]:
    """The template's nodes and the templates it defines. Raises TemplateError."""
    return _Parser(text).run()


class _Parser:
    def __init__(self, text: str) -> None:
        self.pieces = list(_pieces(text))
        self.at = 0
        self.defined: dict[str, list[Node]] = {}

    def run(self) -> tuple[list[Node], dict[str, list[Node]]]:
        nodes, stop = self._nodes(0)
        if stop is not None:
            raise TemplateError("unexpected end")
        return nodes, self.defined

    def _nodes(self, depth: int) -> tuple[list[Node], tuple[str, str, int] | None]:
        """Nodes up to ``end`` or ``else``, and what stopped them."""
        if depth > MAX_DEPTH:
            raise TemplateError("depth")
        found: list[Node] = []
        while self.at < len(self.pieces):
            kind, text, line = self.pieces[self.at]
            self.at += 1
            if kind == "text":
                found.append(Node("text", line, text))
                continue
            keyword, _, rest = text.strip().partition(" ")
            keyword = keyword.strip()
            rest = rest.strip()
            if keyword in ("end", "else"):
                return found, (keyword, rest, line)
            if keyword in ("if", "range", "with"):
                found.append(self._branch(keyword, rest, line, depth))
            elif keyword in ("define", "block"):
                self._define(keyword, rest, line, found, depth)
            elif keyword == "template":
                name, pipeline = _name_and_pipeline(rest)
                found.append(Node("template", line, name, pipeline))
            elif keyword in ("break", "continue") and not rest:
                found.append(Node(keyword, line))
            elif text.strip():
                found.append(Node("action", line, "", _pipeline(text)))
        return found, None

    def _branch(self, keyword: str, rest: str, line: int, depth: int) -> Node:
        node = Node(keyword, line, "", _pipeline(rest))
        node.body, stop = self._nodes(depth + 1)
        if stop is None:
            raise TemplateError("end is missing")
        if stop[0] == "else":
            if stop[1]:
                inner, _, condition = stop[1].partition(" ")
                node.otherwise = [
                    self._branch(inner if inner in ("if", "with", "range") else "if", condition, stop[2], depth + 1)
                ]
            else:
                node.otherwise, stop = self._nodes(depth + 1)
                if stop is None:
                    raise TemplateError("end is missing")
        return node

    def _define(self, keyword: str, rest: str, line: int, found: list[Node], depth: int) -> None:
        name, pipeline = _name_and_pipeline(rest)
        body, stop = self._nodes(depth + 1)
        if stop is None:
            raise TemplateError("end is missing")
        self.defined[name] = body
        if keyword == "block":
            found.append(Node("template", line, name, pipeline))


def _pieces(text: str) -> Iterator[tuple[str, str, int]]:
    """(kind, text, line) with white space trimmed where the markers say so."""
    at, line, trim = 0, 1, False
    while True:
        start = text.find("{{", at)
        literal = text[at:] if start < 0 else text[at:start]
        first, line = line, line + literal.count("\n")
        if trim:
            stripped = literal.lstrip()
            first += literal[: len(literal) - len(stripped)].count("\n")
            literal = stripped
        if start < 0:
            if literal:
                yield "text", literal, first
            return
        end = _end_of_action(text, start + 2)
        body = text[start + 2 : end]
        if body[:1] == "-" and body[1:2].isspace():
            literal, body = literal.rstrip(), body[1:]
        if literal:
            yield "text", literal, first
        trim = body.endswith("-") and (body[-2:-1].isspace() or body.endswith("*/-"))
        body = body[:-1] if trim else body
        if not _COMMENT.fullmatch(body):
            yield "action", body, line
        line += text.count("\n", start, end)
        at = end + 2


def _end_of_action(text: str, at: int) -> int:
    """Where the ``}}`` of an action stands."""
    if _OPENED_COMMENT.match(text, at):
        end = text.find("*/", at)
        end = text.find("}}", end) if end >= 0 else -1
        if end < 0:
            raise TemplateError("comment")
        return end
    while (match := _PART.match(text, at)) is not None:
        if match["end"]:
            return match.start()
        at = match.end()
    raise TemplateError("action")


def _name_and_pipeline(rest: str) -> tuple[str, Pipeline | None]:
    match = re.match(r"\s*(\"(?:[^\"\\]|\\.)*\"|`[^`]*`)\s*(.*)$", rest, re.DOTALL)
    if match is None:
        raise TemplateError("name")
    return match[1][1:-1], _pipeline(match[2]) if match[2].strip() else None


def _tokens(text: str) -> list[tuple[str, str, bool]]:
    """(kind, text, follows white space or an opening)."""
    found: list[tuple[str, str, bool]] = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            if text[at:].strip():
                raise TemplateError("token")
            break
        kind = match.lastgroup or "word"
        value = match[kind]
        found.append((kind, value, match.start(kind) > at or at == 0))
        at = match.end()
    return found


def _pipeline(text: str) -> Pipeline:
    tokens = _tokens(text)
    variables: list[str] = []
    declare = False
    for index, (kind, value, _) in enumerate(tokens[:4]):
        if kind == "op" and value in (":=", "="):
            variables = [t for k, t, _ in tokens[:index] if k == "variable"]
            declare = value == ":="
            tokens = tokens[index + 1 :]
            break
    commands, at = _commands(tokens, 0, 0)
    if at < len(tokens):
        raise TemplateError("pipeline")
    return Pipeline(commands, variables, declare)


def _commands(tokens: list[tuple[str, str, bool]], at: int, depth: int) -> tuple[list[list[Arg]], int]:
    if depth > MAX_DEPTH:
        raise TemplateError("depth")
    commands: list[list[Arg]] = [[]]
    while at < len(tokens):
        kind, value, spaced = tokens[at]
        if kind == "op" and value == ")":
            break
        at += 1
        if kind == "op" and value == "|":
            commands.append([])
        elif kind == "op" and value == "(":
            inner, at = _commands(tokens, at, depth + 1)
            if at >= len(tokens):
                raise TemplateError("parenthesis")
            at += 1
            commands[-1].append(Arg("call", Pipeline(inner)))
        elif kind == "field" and not spaced and commands[-1] and value != ".":
            last = commands[-1][-1]
            last.fields = (*last.fields, *value[1:].split("."))
        else:
            commands[-1].append(_arg(kind, value))
    return commands, at


def _arg(kind: str, value: str) -> Arg:
    if kind == "string":
        return Arg("literal", value[1:-1] if value[0] == "`" else _unquote(value))
    if kind == "char":
        return Arg("literal", ord(value[1]) if len(value) == 3 else 0)
    if kind == "number":
        return Arg("literal", _number(value))
    if kind == "field":
        return Arg("field", None, tuple(value[1:].split(".")) if value != "." else ())
    if kind == "variable":
        name, *fields = value.split(".")
        return Arg("variable", name, tuple(fields))
    constants = {"true": True, "false": False, "nil": None}
    if value in constants:
        return Arg("literal", constants[value])
    return Arg("word", value)


def _unquote(text: str) -> str:
    escapes = {"n": "\n", "t": "\t", "r": "\r"}
    return re.sub(r"\\(.)", lambda m: escapes.get(m[1], m[1]), text[1:-1])


def _number(text: str) -> int | float:
    try:
        return int(text, 0) if re.fullmatch(r"[-+]?(?:0[xX][\da-fA-F]+|\d+)", text) else float(text)
    except ValueError:
        raise TemplateError("number") from None
