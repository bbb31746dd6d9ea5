"""HCL 2 (Terraform, Nomad, Packer) to a tree with line numbers, as far as it can be read.

A reader of our own: python-hcl2 builds on lark (a large grammar compiled at import, well over the start-up budget), stops at the
first thing it does not know, and leaves interpolations as text, so the evaluation would have to be written all the same.
"""

from __future__ import annotations

import bisect
import re
from dataclasses import field
from typing import Any, Final

from checklistbot.discovery.limits import gave_up
from checklistbot.lazy import pattern as lazy_pattern
from checklistbot.record import mutable_record

MAX_DEPTH: Final = 60
_SPACE = lazy_pattern(r"(?:[ \t\r]|#[^\n]*|//[^\n]*|/\*.*?(?:\*/|\Z))*", re.DOTALL)
_SPACE_LINES = lazy_pattern(r"(?:[ \t\r\n]|#[^\n]*|//[^\n]*|/\*.*?(?:\*/|\Z))*", re.DOTALL)
_IDENT = lazy_pattern(r"[A-Za-z_][\w-]*")
_NUMBER = lazy_pattern(r"\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
_HEREDOC = lazy_pattern(r"<<(-?)([A-Za-z_][\w-]*)[ \t\r]*\n")
_OPERATOR = lazy_pattern(r"\|\||&&|==|!=|<=|>=|[<>+\-*/%]")
_PRECEDENCE: Final = {
    "||": 1,
    "&&": 2,
    "==": 3,
    "!=": 3,
    "<": 4,
    ">": 4,
    "<=": 4,
    ">=": 4,
    "+": 5,
    "-": 5,
    "*": 6,
    "/": 6,
    "%": 6,
}


class HclError(ValueError):
    """The text stops being HCL here."""


@mutable_record
class Expr:
    """``kind`` names the node; ``parts`` are its children or its value."""

    kind: str
    line: int
    parts: tuple[Any, ...] = ()


@mutable_record
class Block:
    type: str
    labels: list[str]
    line: int
    body: Body


@mutable_record
class Body:
    attributes: dict[str, Expr] = field(default_factory=dict)
    blocks: list[Block] = field(default_factory=list)


def parse(text: str, first: int = 1) -> Body:
    """The file's body; what cannot be read is skipped to the next line."""
    reader = Reader(text, first)
    body = Body()
    reader.body(body, 0)
    return body


def parse_template(text: str, first: int = 1) -> Expr:
    """A template file: text with ``${…}`` and ``%{…}``."""
    return Reader(text, first).template_text()


class Reader:
    def __init__(self, text: str, first: int = 1, lines: list[int] | None = None) -> None:
        self.text = text
        self.at = 0
        self.first = first
        self.nesting = 0
        self._newlines = [m.start() for m in re.finditer("\n", text)]
        self._lines = lines

    def line(self, at: int | None = None) -> int:
        index = bisect.bisect_left(self._newlines, self.at if at is None else at)
        if self._lines is not None:
            return self._lines[min(index, len(self._lines) - 1)] if self._lines else self.first
        return self.first + index

    def skip(self) -> None:
        pattern = _SPACE_LINES if self.nesting else _SPACE
        match = pattern.match(self.text, self.at)
        if match is not None:
            self.at = match.end()

    def peek(self, token: str) -> bool:
        return self.text.startswith(token, self.at)

    def take(self, token: str) -> None:
        self.skip()
        if not self.peek(token):
            raise HclError(token)
        self.at += len(token)

    # --- bodies -------------------------------------------------------------------------------------------------------

    def body(self, body: Body, depth: int) -> None:
        while True:
            match = _SPACE_LINES.match(self.text, self.at)
            self.at = match.end() if match else self.at
            if self.at >= len(self.text):
                return
            if self.peek("}"):
                if depth:
                    return
                self.at += 1
                continue
            start = self.at
            try:
                self._entry(body, depth)
            except HclError:
                self.nesting = 0
                newline = self.text.find("\n", max(self.at, start))
                self.at = len(self.text) if newline < 0 else newline + 1

    def _entry(self, body: Body, depth: int) -> None:
        if depth > MAX_DEPTH:
            gave_up()
            raise HclError("depth")
        match = _IDENT.match(self.text, self.at)
        quoted = self.peek('"')
        if match is None and not quoted:
            raise HclError("name")
        line = self.line()
        name = self._label() if quoted else (match[0] if match else "")
        if match is not None and not quoted:
            self.at = match.end()
        self.skip()
        if self.peek("=") and not self.peek("=="):
            self.at += 1
            body.attributes[name] = self.expression(0)
            return
        labels = []
        while not self.peek("{"):
            label = self._label()
            labels.append(label)
            self.skip()
        self.at += 1
        block = Block(name, labels, line, Body())
        self.body(block.body, depth + 1)
        if self.peek("}"):
            self.at += 1
        body.blocks.append(block)

    def _label(self) -> str:
        if self.peek('"'):
            end = self.text.find('"', self.at + 1)
            if end < 0 or "\n" in self.text[self.at : end]:
                raise HclError("label")
            label = self.text[self.at + 1 : end]
            self.at = end + 1
            return label
        match = _IDENT.match(self.text, self.at)
        if match is None:
            raise HclError("label")
        self.at = match.end()
        return match[0]

    # --- expressions --------------------------------------------------------------------------------------------------

    def expression(self, depth: int) -> Expr:
        if depth > MAX_DEPTH:
            gave_up()
            raise HclError("depth")
        condition = self._binary(0, depth + 1)
        self.skip()
        if not self.peek("?"):
            return condition
        self.at += 1
        yes = self.expression(depth + 1)
        self.take(":")
        return Expr("if", condition.line, (condition, yes, self.expression(depth + 1)))

    def _binary(self, least: int, depth: int) -> Expr:
        left = self._unary(depth + 1)
        while True:
            self.skip()
            match = _OPERATOR.match(self.text, self.at)
            if match is None or _PRECEDENCE[match[0]] <= least or self.peek("<<"):
                return left
            self.at = match.end()
            right = self._binary(_PRECEDENCE[match[0]], depth + 1)
            left = Expr("binary", left.line, (match[0], left, right))

    def _unary(self, depth: int) -> Expr:
        if depth > MAX_DEPTH * 3:
            gave_up()
            raise HclError("depth")
        self.skip()
        line = self.line()
        for sign in ("-", "!"):
            if self.peek(sign):
                self.at += 1
                return Expr("unary", line, (sign, self._unary(depth + 1)))
        return self._postfix(self._primary(depth + 1), depth)

    def _postfix(self, node: Expr, depth: int) -> Expr:
        while True:
            if self.peek("...") or not (self.peek(".") or self.peek("[")):
                return node
            if self.peek("["):
                node = self._index(node, depth)
                continue
            self.at += 1
            if self.peek("*"):
                self.at += 1
                node = Expr("splat", node.line, (node,))
                continue
            match = _IDENT.match(self.text, self.at) or _NUMBER.match(self.text, self.at)
            if match is None:
                raise HclError("attribute")
            self.at = match.end()
            node = Expr(
                "get",
                node.line,
                (node, Expr("literal", node.line, (int(match[0]) if match[0].isdigit() else match[0],))),
            )

    def _index(self, node: Expr, depth: int) -> Expr:
        self.at += 1
        self.nesting += 1
        self.skip()
        if self.peek("*"):
            self.at += 1
            self.take("]")
            self.nesting -= 1
            return Expr("splat", node.line, (node,))
        index = self.expression(depth + 1)
        self.take("]")
        self.nesting -= 1
        return Expr("get", node.line, (node, index))

    def _primary(self, depth: int) -> Expr:
        line = self.line()
        heredoc = _HEREDOC.match(self.text, self.at)
        if heredoc is not None:
            return self._heredoc(heredoc)
        if self.peek('"'):
            return self._string()
        for opening, method in (("[", self._list), ("{", self._object), ("(", self._parenthesis)):
            if self.peek(opening):
                self.at += 1
                self.nesting += 1
                try:
                    return method(line, depth)
                finally:
                    self.nesting -= 1
        number = _NUMBER.match(self.text, self.at)
        if number is not None:
            self.at = number.end()
            value: int | float = float(number[0]) if re.search(r"[.eE]", number[0]) else int(number[0][:40])
            return Expr("literal", line, (value,))
        match = _IDENT.match(self.text, self.at)
        if match is None:
            raise HclError("expression")
        self.at = match.end()
        if match[0] in ("true", "false", "null"):
            return Expr("literal", line, ({"true": True, "false": False, "null": None}[match[0]],))
        if self.peek("("):
            return self._call(match[0], line, depth)
        return Expr("name", line, (match[0],))

    def _parenthesis(self, line: int, depth: int) -> Expr:
        inner = self.expression(depth + 1)
        self.take(")")
        return inner

    def _call(self, name: str, line: int, depth: int) -> Expr:
        while self.peek("::"):
            self.at += 2
        self.at += 1
        self.nesting += 1
        arguments: list[Expr] = []
        self.skip()
        while not self.peek(")"):
            argument = self.expression(depth + 1)
            self.skip()
            if self.peek("..."):
                self.at += 3
                argument = Expr("spread", argument.line, (argument,))
            arguments.append(argument)
            self.skip()
            if self.peek(","):
                self.at += 1
                self.skip()
        self.at += 1
        self.nesting -= 1
        return Expr("call", line, (name, arguments))

    def _list(self, line: int, depth: int) -> Expr:
        self.skip()
        if self._is_for():
            return self._for("]", line, depth)
        items: list[Expr] = []
        while not self.peek("]"):
            items.append(self.expression(depth + 1))
            self.skip()
            if self.peek(","):
                self.at += 1
            self.skip()
        self.at += 1
        return Expr("list", line, (items,))

    def _object(self, line: int, depth: int) -> Expr:
        self.skip()
        if self._is_for():
            return self._for("}", line, depth)
        pairs: list[tuple[Expr, Expr]] = []
        while not self.peek("}"):
            match = re.compile(r"([A-Za-z_][\w-]*)\s*(?:=(?!=)|:)").match(self.text, self.at)
            if match is not None:
                key = Expr("literal", self.line(), (match[1],))
                self.at = match.end()
            else:
                key = self.expression(depth + 1)
                self.skip()
                if not (self.peek("=") or self.peek(":")):
                    raise HclError("object")
                self.at += 1
            pairs.append((key, self.expression(depth + 1)))
            self.skip()
            if self.peek(","):
                self.at += 1
            self.skip()
        self.at += 1
        return Expr("object", line, (pairs,))

    def _is_for(self) -> bool:
        return re.compile(r"for\s").match(self.text, self.at) is not None

    def _for(self, closing: str, line: int, depth: int) -> Expr:
        match = re.compile(r"for\s+([\w-]+)(?:\s*,\s*([\w-]+))?\s+in\s+").match(self.text, self.at)
        if match is None:
            raise HclError("for")
        self.at = match.end()
        names = [n for n in (match[1], match[2]) if n]
        source = self.expression(depth + 1)
        self.take(":")
        first = self.expression(depth + 1)
        self.skip()
        value: Expr | None = None
        if self.peek("=>"):
            self.at += 2
            value = self.expression(depth + 1)
            self.skip()
            if self.peek("..."):
                self.at += 3
        self.skip()
        condition: Expr | None = None
        if self.peek("if"):
            self.at += 2
            condition = self.expression(depth + 1)
        self.take(closing)
        return Expr("for", line, (names, source, first, value, condition))

    # --- templates ----------------------------------------------------------------------------------------------------

    def _string(self) -> Expr:
        self.at += 1
        line = self.line()
        parts = self._template('"', escapes=True)
        if not self.peek('"'):
            raise HclError("string")
        self.at += 1
        return Expr("template", line, (parts,))

    def _heredoc(self, match: re.Match[str]) -> Expr:
        line = self.line()
        start = match.end()
        end = re.compile(rf"^[ \t]*{re.escape(match[2])}[ \t\r]*$", re.MULTILINE).search(self.text, start)
        stop = end.start() if end else len(self.text)
        rows = self.text[start:stop].split("\n")
        if match[1]:
            widths = [len(r) - len(r.lstrip(" \t")) for r in rows if r.strip()]
            cut = min(widths, default=0)
            rows = [r[cut:] if r[:cut].strip() == "" else r for r in rows]
        self.at = end.end() if end else len(self.text)
        return Reader("\n".join(rows), line + 1).template_text()

    def template_text(self) -> Expr:
        """The rest of the text as a template without quotes."""
        return Expr("template", self.first, (self._template(None, escapes=False),))

    def _template(self, quote: str | None, *, escapes: bool) -> list[Expr]:
        """Literal and computed parts up to the quote, directives nested."""
        root: list[Expr] = []
        stack: list[tuple[Expr, list[Expr]]] = []
        here = root
        while self.at < len(self.text) and not (quote and self.peek(quote)):
            literal = self._literal(quote, escapes)
            if literal is not None:
                here.append(literal)
                continue
            if self.peek("${"):
                here.append(self._hole())
                continue
            here = self._directive(root, stack, here)
        return root

    def _literal(self, quote: str | None, escapes: bool) -> Expr | None:
        start, out = self.at, []
        while self.at < len(self.text):
            char = self.text[self.at]
            if quote and (char == quote or char == "\n"):
                if char == "\n":
                    raise HclError("string")
                break
            if self.text.startswith(("$${", "%%{"), self.at):
                out.append(self.text[self.at + 1 : self.at + 3])
                self.at += 3
            elif self.text.startswith(("${", "%{"), self.at):
                break
            elif escapes and char == "\\" and self.at + 1 < len(self.text):
                following = self.text[self.at + 1]
                out.append({"n": "\n", "t": "\t", "r": "\r"}.get(following, following))
                self.at += 2
            else:
                out.append(char)
                self.at += 1
        return Expr("literal", self.line(start), ("".join(out),)) if out else None

    def _hole(self) -> Expr:
        self.at += 2
        if self.peek("~"):
            self.at += 1
        self.nesting += 1
        node = self.expression(0)
        self.skip()
        if self.peek("~"):
            self.at += 1
        self.take("}")
        self.nesting -= 1
        return node

    def _directive(self, root: list[Expr], stack: list[tuple[Expr, list[Expr]]], here: list[Expr]) -> list[Expr]:
        line = self.line()
        self.at += 2
        if self.peek("~"):
            self.at += 1
        self.nesting += 1
        self.skip()
        match = _IDENT.match(self.text, self.at)
        word = match[0] if match else ""
        self.at = match.end() if match else self.at
        opened: list[Expr] = []
        if word == "if":
            node = Expr("tif", line, (self.expression(0), opened, []))
            here.append(node)
            stack.append((node, here))
            here = opened
        elif word == "for":
            names = re.compile(r"\s*([\w-]+)(?:\s*,\s*([\w-]+))?\s+in\s+").match(self.text, self.at)
            if names is None:
                raise HclError("for")
            self.at = names.end()
            node = Expr("tfor", line, ([n for n in names.groups() if n], self.expression(0), opened))
            here.append(node)
            stack.append((node, here))
            here = opened
        elif word == "else" and stack:
            here = stack[-1][0].parts[2]
        elif word in ("endif", "endfor") and stack:
            here = stack.pop()[1]
        self.skip()
        if self.peek("~"):
            self.at += 1
        self.take("}")
        self.nesting -= 1
        return here
