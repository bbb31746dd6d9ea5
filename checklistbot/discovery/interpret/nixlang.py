"""The Nix language: parser and lazy evaluator, with lines, a budget, and pure functions only."""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from checklistbot.discovery.interpret.marks import Place, mark, without_marks
from checklistbot.discovery.interpret.pyvalues import Const, Seq, Unk, Value
from checklistbot.discovery.limits import gave_up
from checklistbot.discovery.tree import Tree, Unreadable
from checklistbot.lazy import pattern
from checklistbot.record import mutable_record

STEPS: Final = 80_000
MAX_DEPTH: Final = 120
MAX_TEXT: Final = 200_000
_SPACE = pattern(r"(?:\s|#[^\n]*|/\*.*?(?:\*/|\Z))*", re.DOTALL)
_IDENT = pattern(r"[A-Za-z_][\w'-]*")
_NUMBER = pattern(r"\d+(?:\.\d+)?(?![\w.])|\d+\.\d*")
_PATH = pattern(r"(?:~|\.{1,2})?(?:/[\w.+-]+)+/?|<[\w./+-]+>|[\w.+-]+(?:/[\w.+-]+)+")
_URI = pattern(r"[a-zA-Z][\w+.-]*:[\w%/?:@&=+$,.!~*'-]+")
_KEYWORDS: Final = frozenset({"let", "in", "if", "then", "else", "with", "rec", "inherit", "assert", "or"})
#: Operators by precedence, the weakest first (Nix manual, "Operators").
_LEVELS: Final = (
    ("->",),
    ("||",),
    ("&&",),
    ("==", "!="),
    ("<=", ">=", "<", ">"),
    ("//",),
    ("+", "-"),
    ("*", "/"),
    ("++",),
)


class NixError(ValueError):
    """The text stops being Nix here."""


class Stop(Exception):
    """The budget is used up."""


@mutable_record
class Node:
    kind: str
    line: int
    parts: tuple[Any, ...] = ()


@dataclass(eq=False, slots=True)
class Thunk:
    """A node that is evaluated when it is needed."""

    node: Node
    env: Env
    path: str
    line: int
    active: bool = False
    value: Value | None = None


@dataclass(eq=False, slots=True)
class Env:
    names: dict[str, Thunk | Value]
    parent: Env | None = None
    scope: Thunk | Value | None = None


@dataclass(eq=False, slots=True)
class Attrs(Value):
    data: dict[str, Thunk | Value]


@dataclass(eq=False, slots=True)
class Lambda(Value):
    node: Node
    env: Env
    path: str


@dataclass(eq=False, slots=True)
class Builtin(Value):
    name: str
    args: list[Thunk | Value] = field(default_factory=list)


@dataclass(eq=False, slots=True)
class Applied(Value):
    """A function nobody knows, with its arguments."""

    name: str
    args: list[Thunk | Value]


# --- parser ----------------------------------------------------------------------------------------------------------------


class Parser:
    def __init__(self, text: str) -> None:
        self.text, self.at, self.depth = text, 0, 0
        self._newlines = [m.start() for m in re.finditer("\n", text)]

    def line(self) -> int:
        import bisect

        return 1 + bisect.bisect_left(self._newlines, self.at)

    def skip(self) -> None:
        match = _SPACE.match(self.text, self.at)
        self.at = match.end() if match else self.at

    def peek(self, token: str) -> bool:
        self.skip()
        if not self.text.startswith(token, self.at):
            return False
        return not token[-1].isalpha() or not re.match(
            r"[\w'-]", self.text[self.at + len(token) : self.at + len(token) + 1] or " "
        )

    def take(self, token: str) -> None:
        if not self.peek(token):
            raise NixError(token)
        self.at += len(token)

    def parse(self) -> Node:
        node = self.expression()
        self.skip()
        return node

    def expression(self) -> Node:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            gave_up()
            raise NixError("depth")
        try:
            self.skip()
            line = self.line()
            if self.peek("let"):
                self.at += 3
                bindings = self._bindings("in")
                self.take("in")
                return Node("let", line, (bindings, self.expression()))
            if self.peek("if"):
                self.at += 2
                condition = self.expression()
                self.take("then")
                yes = self.expression()
                self.take("else")
                return Node("if", line, (condition, yes, self.expression()))
            for keyword in ("with", "assert"):
                if self.peek(keyword):
                    self.at += len(keyword)
                    scope = self.expression()
                    self.take(";")
                    return Node(keyword, line, (scope, self.expression()))
            function = self._lambda(line)
            return function or self._binary(0)
        finally:
            self.depth -= 1

    def _lambda(self, line: int) -> Node | None:
        match = re.compile(r"([A-Za-z_][\w'-]*)\s*:(?=\s)").match(self.text, self.at)
        if match is not None and match[1] not in _KEYWORDS:
            self.at = match.end()
            return Node("lambda", line, ({match[1]: None}, match[1], self.expression()))
        named = re.compile(r"([A-Za-z_][\w'-]*)\s*@\s*(?=\{)").match(self.text, self.at)
        start = self.at
        if named is not None:
            self.at = named.end()
        if not self.peek("{"):
            self.at = start
            return None
        formals = self._formals()
        if formals is None:
            self.at = start
            return None
        whole = named[1] if named else None
        if self.peek("@"):
            self.at += 1
            self.skip()
            ident = _IDENT.match(self.text, self.at)
            if ident is None:
                raise NixError("@")
            whole, self.at = ident[0], ident.end()
        if not self.peek(":"):
            self.at = start
            return None
        self.at += 1
        return Node("lambda", line, (formals, whole, self.expression()))

    def _formals(self) -> dict[str, Node | None] | None:
        """``{ a, b ? 1, ... }``, None where it is an attribute set."""
        self.at += 1
        found: dict[str, Node | None] = {}
        while True:
            if self.peek("}"):
                self.at += 1
                return found
            if self.peek("..."):
                self.at += 3
            else:
                match = _IDENT.match(self.text, self.at)
                if match is None:
                    return None
                self.at = match.end()
                found[match[0]] = None
                if self.peek("?"):
                    self.at += 1
                    try:
                        found[match[0]] = self.expression()
                    except NixError:
                        return None
            if self.peek(","):
                self.at += 1
            elif not self.peek("}"):
                return None

    def _binary(self, level: int) -> Node:
        if level == len(_LEVELS):
            return self._unary()
        left = self._binary(level + 1)
        while (op := self._operator(level)) is not None:
            self.at += len(op)
            left = Node("binary", left.line, (op, left, self._binary(level + 1)))
        return left

    def _operator(self, level: int) -> str | None:
        self.skip()
        for op in _LEVELS[level]:
            if self.text.startswith(op, self.at):
                following = self.text[self.at + len(op) : self.at + len(op) + 1]
                if (
                    (op in "+-/<>" and following == op)
                    or (op == "-" and following == ">")
                    or (op == "+" and following == "+")
                ):
                    continue
                return op
        return None

    def _unary(self) -> Node:
        self.skip()
        line = self.line()
        for sign in ("!", "-"):
            if self.peek(sign):
                self.at += 1
                return Node("unary", line, (sign, self._unary()))
        node = self._application()
        if self.peek("?"):
            self.at += 1
            self.skip()
            path = self._attribute_path()
            return Node("has", line, (node, path))
        return node

    def _application(self) -> Node:
        node = self._select()
        while self._starts_operand():
            node = Node("apply", node.line, (node, self._select()))
        return node

    def _starts_operand(self) -> bool:
        self.skip()
        char = self.text[self.at : self.at + 1]
        if char and char in "\"[({'":
            return char != "'" or self.text.startswith("''", self.at)
        if self.text.startswith(("./", "../", "~/", "<")) and _PATH.match(self.text, self.at):
            return True
        if char in ("/", "<", ".", "~"):
            return _PATH.match(self.text, self.at) is not None and not self.text.startswith(("//", "/ "), self.at)
        match = _IDENT.match(self.text, self.at)
        return match[0] not in _KEYWORDS or match[0] == "rec" if match else char.isdigit()

    def _select(self) -> Node:
        node = self._primary()
        while True:
            self.skip()
            if (
                self.text.startswith(".", self.at)
                and not self.text.startswith("..", self.at)
                and re.match(r"[A-Za-z_\"$]", self.text[self.at + 1 : self.at + 2] or " ")
            ):
                self.at += 1
                node = Node("select", node.line, (node, self._attribute_path(), None))
                if self.peek("or"):
                    self.at += 2
                    node.parts = (*node.parts[:2], self._select())
                continue
            return node

    def _attribute_path(self) -> list[Node]:
        path = []
        while True:
            self.skip()
            line = self.line()
            if self.text.startswith('"', self.at):
                path.append(self._string())
            elif self.text.startswith("${", self.at):
                self.at += 2
                path.append(self.expression())
                self.take("}")
            else:
                match = _IDENT.match(self.text, self.at)
                if match is None:
                    raise NixError("attribute")
                self.at = match.end()
                path.append(Node("literal", line, (match[0],)))
            if not self.text.startswith(".", self.at):
                return path
            self.at += 1

    def _primary(self) -> Node:
        self.skip()
        line, char = self.line(), self.text[self.at : self.at + 1]
        if char == '"':
            return self._string()
        if self.text.startswith("''", self.at):
            return self._indented()
        if char == "(":
            self.at += 1
            inner = self.expression()
            self.take(")")
            return inner
        if char == "[":
            return self._list(line)
        if char == "{" or self.peek("rec"):
            recursive = char != "{"
            self.at += 3 if recursive else 0
            self.take("{")
            bindings = self._bindings("}")
            self.take("}")
            return Node("attrs", line, (bindings, recursive))
        return self._atom(line)

    def _atom(self, line: int) -> Node:
        path = _PATH.match(self.text, self.at)
        if path is not None and ("/" in path[0] or path[0].startswith("<")):
            self.at = path.end()
            return Node("path", line, (path[0],))
        number = _NUMBER.match(self.text, self.at)
        if number is not None:
            self.at = number.end()
            return Node("literal", line, (float(number[0]) if "." in number[0] else int(number[0][:40]),))
        uri = _URI.match(self.text, self.at)
        if uri is not None:
            self.at = uri.end()
            return Node("literal", line, (uri[0],))
        match = _IDENT.match(self.text, self.at)
        if match is None or match[0] in _KEYWORDS:
            raise NixError("expression")
        self.at = match.end()
        return Node("name", line, (match[0],))

    def _list(self, line: int) -> Node:
        self.at += 1
        items = []
        while not self.peek("]"):
            if self.at >= len(self.text):
                raise NixError("list")
            items.append(self._select())
        self.at += 1
        return Node("list", line, (items,))

    def _bindings(self, stop: str) -> list[tuple[list[Node], Node, int]]:
        found: list[tuple[list[Node], Node, int]] = []
        while not self.peek(stop):
            if self.at >= len(self.text):
                raise NixError("bindings")
            line = self.line()
            if self.peek("inherit"):
                self.at += 7
                found += self._inherit(line)
                continue
            path = self._attribute_path()
            self.take("=")
            found.append((path, self.expression(), line))
            self.take(";")
        return found

    def _inherit(self, line: int) -> list[tuple[list[Node], Node, int]]:
        source: Node | None = None
        if self.peek("("):
            self.at += 1
            source = self.expression()
            self.take(")")
        found = []
        while not self.peek(";"):
            match = _IDENT.match(self.text, self.at)
            if match is None:
                raise NixError("inherit")
            self.at = match.end()
            name = Node("literal", line, (match[0],))
            value = Node("select", line, (source, [name], None)) if source else Node("outer", line, (match[0],))
            found.append(([name], value, line))
        self.at += 1
        return found

    def _string(self) -> Node:
        line = self.line()
        self.at += 1
        parts: list[Node] = []
        out: list[str] = []
        here = line
        while not self.text.startswith('"', self.at):
            if self.at >= len(self.text):
                raise NixError("string")
            if self.text.startswith("${", self.at):
                self._flush(out, parts, here)
                self._hole(parts)
                here = self.line()
            elif self.text[self.at] == "\\":
                following = self.text[self.at + 1 : self.at + 2]
                out.append({"n": "\n", "t": "\t", "r": "\r"}.get(following, following))
                self.at += 2
            elif self.text.startswith("$$", self.at):
                out.append("$$")
                self.at += 2
            else:
                out.append(self.text[self.at])
                self.at += 1
        self.at += 1
        self._flush(out, parts, here)
        return Node("string", line, (parts,))

    def _flush(self, out: list[str], parts: list[Node], line: int) -> None:
        if out:
            parts.append(Node("literal", line, ("".join(out),)))
            out.clear()

    def _hole(self, parts: list[Node]) -> None:
        self.at += 2
        parts.append(self.expression())
        self.take("}")

    def _indented(self) -> Node:
        """``'' … ''``: the common indentation is taken off."""
        line = self.line()
        self.at += 2
        parts: list[Node] = []
        out: list[str] = []
        here = line
        while True:
            if self.at >= len(self.text):
                raise NixError("string")
            if self.text.startswith(("''$", "'''"), self.at):
                out.append(self.text[self.at + 2] if self.text[self.at + 2] == "$" else "''")
                self.at += 3
            elif self.text.startswith("''\\", self.at):
                out.append({"n": "\n", "t": "\t"}.get(self.text[self.at + 3 : self.at + 4], ""))
                self.at += 4
            elif self.text.startswith("''", self.at):
                self.at += 2
                break
            elif self.text.startswith("${", self.at):
                self._flush(out, parts, here)
                self._hole(parts)
                here = self.line()
            else:
                out.append(self.text[self.at])
                self.at += 1
        self._flush(out, parts, here)
        return Node("string", line, (_dedented(parts),))


def _dedented(parts: list[Node]) -> list[Node]:
    whole = "".join(p.parts[0] if p.kind == "literal" else "\0" for p in parts)
    rows = whole.split("\n")
    widths = [len(r) - len(r.lstrip(" ")) for r in (rows if rows[0].strip() else rows[1:]) if r.strip()]
    cut = min(widths, default=0)
    found, fresh = [], True
    for part in parts:
        if part.kind != "literal":
            found.append(part)
            fresh = False
            continue
        pieces = part.parts[0].split("\n")
        cleaned = [p[cut:] if (i or fresh) and p[:cut].strip() == "" else p for i, p in enumerate(pieces)]
        fresh = False
        found.append(Node("literal", part.line, ("\n".join(cleaned),)))
    return found


# --- evaluator ---------------------------------------------------------------------------------------------------------------


class Evaluator:
    def __init__(self, tree: Tree, path: str) -> None:
        self.tree, self.path = tree, path
        self.steps = STEPS
        self.depth = 0
        #: Whether a condition that only the host knows counts as met.
        self.assumes = False
        self._files: dict[str, Value] = {}

    def file(self, path: str, text: str | None = None) -> Value:
        """A file's value; a module's arguments are unknown."""
        if path not in self._files:
            self._files[path] = Unk((path, 1), posixpath.basename(path), "not-readable")
            try:
                body = without_marks(self.tree.read(path) if text is None else text)
                self._files[path] = self.eval(Parser(body).parse(), self._root(path), path)
            except (Unreadable, NixError, RecursionError):
                pass
        return self._files[path]

    def _root(self, path: str) -> Env:
        at = (path, 1)
        names: dict[str, Thunk | Value] = {
            n: Builtin(at, n) for n in ("toString", "map", "import", "baseNameOf", "removeAttrs")
        }
        names |= {
            "builtins": Unk(at, "builtins"),
            "true": Const(at, True),
            "false": Const(at, False),
            "null": Const(at, None),
        }
        return Env(names)

    def force(self, value: Thunk | Value) -> Value:
        if not isinstance(value, Thunk):
            return value
        if value.value is None:
            if value.active or self.depth > MAX_DEPTH:
                return Unk((value.path, value.line), None)
            value.active = True
            try:
                value.value = self.eval(value.node, value.env, value.path)
            finally:
                value.active = False
        return value.value

    def eval(self, node: Node, env: Env, path: str) -> Value:
        self.steps -= 1
        if self.steps <= 0:
            raise Stop
        self.depth += 1
        try:
            method = getattr(self, f"on_{node.kind}")
            value: Value = method(node, env, (path, node.line))
            return value
        finally:
            self.depth -= 1

    def _later(self, node: Node, env: Env, at: Place) -> Thunk:
        return Thunk(node, env, at[0], node.line)

    def on_literal(self, node: Node, env: Env, at: Place) -> Value:
        return Const(at, node.parts[0])

    def on_path(self, node: Node, env: Env, at: Place) -> Value:
        return Const(at, node.parts[0])

    def on_name(self, node: Node, env: Env, at: Place) -> Value:
        return self._find(node.parts[0], env, at)

    def _find(self, name: str, env: Env | None, at: Place) -> Value:
        scopes = []
        while env is not None:
            if name in env.names:
                return self.force(env.names[name])
            if env.scope is not None:
                scopes.append(env.scope)
            env = env.parent
        for scope in scopes:
            value = self.force(scope)
            if isinstance(value, Attrs) and name in value.data:
                return self.force(value.data[name])
            if isinstance(value, Unk):
                return self.attribute(value, name, at)
        return Unk(at, name)

    def on_outer(self, node: Node, env: Env, at: Place) -> Value:
        return self._find(node.parts[0], env.parent, at)

    def on_string(self, node: Node, env: Env, at: Place) -> Value:
        parts = node.parts[0]
        if len(parts) == 1 and parts[0].kind == "literal":
            starts = self._starts(parts[0].parts[0], parts[0].line, 0)
            return Const(at, parts[0].parts[0], tuple(starts) if "\n" in parts[0].parts[0] else ())
        out, starts, size = [], [], 0
        for part in parts:
            literal = part.kind == "literal"
            text = part.parts[0] if literal else self.text(self.eval(part, env, at[0]))
            starts += self._starts(text, part.line, size) if literal else [(size, part.line)]
            out.append(text)
            size += len(text)
            if size > MAX_TEXT:
                raise Stop
        return Const(at, "".join(out), tuple(starts))

    @staticmethod
    def _starts(text: str, line: int, base: int) -> list[tuple[int, int]]:
        return [(base, line)] + [(base + m.end(), line + n) for n, m in enumerate(re.finditer("\n", text), 1)]

    def text(self, value: Value) -> str:
        """What interpolation gives; a package is a store path that ends in its name."""
        if isinstance(value, Const):
            if isinstance(value.value, bool):
                return "1" if value.value else ""
            return "" if value.value is None else str(value.value)
        if isinstance(value, Unk):
            package = re.match(
                r"(?:.*\.)?(?:pkgs|packages|python3Packages|python31\dPackages)\.(?:.*\.)?([\w-]+)$", value.name or ""
            )
            return f"/nix/store/{package[1]}" if package else mark(value.name, value.why)
        if isinstance(value, Seq):
            return " ".join(self.text(v) for v in value.data)
        if isinstance(value, Attrs) and "text" in value.data:
            return f"/nix/store/{mark('script')}"
        return mark(getattr(value, "name", None))

    def on_list(self, node: Node, env: Env, at: Place) -> Value:
        return Seq(at, [self.eval(item, env, at[0]) for item in node.parts[0]])

    def on_attrs(self, node: Node, env: Env, at: Place) -> Value:
        bindings, recursive = node.parts
        found = Attrs(at, {})
        inner = Env(found.data, env) if recursive else Env({}, env)
        self._bind(found, bindings, inner, at)
        return found

    def _bind(self, found: Attrs, bindings: list[tuple[list[Node], Node, int]], env: Env, at: Place) -> None:
        for path, node, line in bindings:
            names = [self.text(self.eval(part, env, at[0])) for part in path]
            here = found
            for name in names[:-1]:
                below = here.data.get(name)
                below = self.force(below) if below is not None else None
                if not isinstance(below, Attrs):
                    below = Attrs((at[0], line), {})
                here.data[name] = below
                here = below
            last, thunk = names[-1], Thunk(node, env, at[0], line)
            before = here.data.get(last)
            if before is not None and node.kind == "attrs":
                old, new = self.force(before), self.force(thunk)
                if isinstance(old, Attrs) and isinstance(new, Attrs):
                    here.data[last] = Attrs(old.at, {**old.data, **new.data})
                    continue
            here.data[last] = thunk

    def on_let(self, node: Node, env: Env, at: Place) -> Value:
        bindings, body = node.parts
        found = Attrs(at, {})
        inner = Env(found.data, env)
        self._bind(found, bindings, inner, at)
        return self.eval(body, inner, at[0])

    def on_with(self, node: Node, env: Env, at: Place) -> Value:
        return self.eval(node.parts[1], Env({}, env, self._later(node.parts[0], env, at)), at[0])

    def on_assert(self, node: Node, env: Env, at: Place) -> Value:
        return self.eval(node.parts[1], env, at[0])

    def on_if(self, node: Node, env: Env, at: Place) -> Value:
        condition, yes, no = node.parts
        truth = self.truth(self.eval(condition, env, at[0]))
        if truth is None:
            return Unk(at, None, "ambiguous")
        return self.eval(yes if truth else no, env, at[0])

    @staticmethod
    def truth(value: Value) -> bool | None:
        return value.value if isinstance(value, Const) and isinstance(value.value, bool) else None

    def on_unary(self, node: Node, env: Env, at: Place) -> Value:
        value = self.eval(node.parts[1], env, at[0])
        if node.parts[0] == "!":
            truth = self.truth(value)
            return Unk(at) if truth is None else Const(at, not truth)
        number = value.value if isinstance(value, Const) else None
        return Const(at, -number) if isinstance(number, (int, float)) else Unk(at)

    def on_has(self, node: Node, env: Env, at: Place) -> Value:
        value: Value = self.eval(node.parts[0], env, at[0])
        for part in node.parts[1]:
            name = self.text(self.eval(part, env, at[0]))
            if not isinstance(value, Attrs):
                return Unk(at)
            if name not in value.data:
                return Const(at, False)
            value = self.force(value.data[name])
        return Const(at, True)

    def on_select(self, node: Node, env: Env, at: Place) -> Value:
        owner, path, default = node.parts
        value: Value = self.eval(owner, env, at[0])
        for part in path:
            name = self.text(self.eval(part, env, at[0]))
            if default is not None and isinstance(value, Attrs) and name not in value.data:
                return self.eval(default, env, at[0])
            value = self.attribute(value, name, at)
        return value

    def attribute(self, value: Value, name: str, at: Place) -> Value:
        if isinstance(value, Attrs) and name in value.data:
            return self.force(value.data[name])
        full = f"{value.name}.{name}" if isinstance(value, Unk) and value.name else name
        if name in BUILTINS and isinstance(value, Unk):
            return Builtin(at, name)
        return Unk(at, full)

    def on_binary(self, node: Node, env: Env, at: Place) -> Value:
        op, left_node, right_node = node.parts
        left = self.eval(left_node, env, at[0])
        if op in ("&&", "||", "->"):
            truth = self.truth(left)
            if truth is (op == "||"):
                return Const(at, op != "&&")
            right = self.truth(self.eval(right_node, env, at[0]))
            return Unk(at) if truth is None or right is None else Const(at, right)
        return _binary(self, op, left, self.eval(right_node, env, at[0]), at)

    def on_lambda(self, node: Node, env: Env, at: Place) -> Value:
        return Lambda(at, node, env, at[0])

    def on_apply(self, node: Node, env: Env, at: Place) -> Value:
        return self.apply(self.eval(node.parts[0], env, at[0]), self._later(node.parts[1], env, at), at)

    def apply(self, function: Value, argument: Thunk | Value, at: Place) -> Value:
        if self.depth > MAX_DEPTH:
            return Unk(at)
        if isinstance(function, Lambda):
            return self._call(function, argument, at)
        if isinstance(function, Builtin):
            arity, action = BUILTINS.get(function.name, (1, _unknown))
            args = [*function.args, argument]
            if len(args) < arity:
                return Builtin(at, function.name, args)
            return action(self, args, at) or Applied(at, function.name, args)
        if isinstance(function, Attrs) and "__functor" in function.data:
            return Unk(at)
        name = getattr(function, "name", None) or ""
        before = function.args if isinstance(function, Applied) else []
        return Applied(at, name, [*before, argument])

    def _call(self, function: Lambda, argument: Thunk | Value, at: Place) -> Value:
        formals, whole, body = function.node.parts
        names: dict[str, Thunk | Value] = {}
        env = Env(names, function.env)
        if list(formals) == [whole] and formals[whole] is None:
            names[whole] = argument
            return self.eval(body, env, function.path)
        given = self.force(argument)
        for name, default in formals.items():
            if isinstance(given, Attrs) and name in given.data:
                names[name] = given.data[name]
            elif default is not None:
                names[name] = Thunk(default, env, function.path, default.line)
            else:
                names[name] = Unk(at, name)
        if whole:
            names[whole] = given
        return self.eval(body, env, function.path)

    def open_module(self, value: Value) -> Value:
        """A module function with arguments that nobody knows here, applied."""
        for _ in range(3):
            if not isinstance(value, Lambda):
                break
            value = self._call(value, Unk(value.at, None), value.at)
        return value


def _binary(machine: Evaluator, op: str, left: Value, right: Value, at: Place) -> Value:
    if op == "++":
        items = [v for side in (left, right) for v in (side.data if isinstance(side, Seq) else [side])]
        return Seq(left.at, [v for v in items if not isinstance(v, Applied)][:5_000])
    if op == "//":
        if isinstance(left, Attrs) and isinstance(right, Attrs):
            return Attrs(left.at, {**left.data, **right.data})
        return left if isinstance(left, Attrs) else right
    a = left.value if isinstance(left, Const) else None
    b = right.value if isinstance(right, Const) else None
    if op == "+" and (isinstance(a, str) or isinstance(b, str)):
        return Const(left.at, (machine.text(left) + machine.text(right))[:MAX_TEXT])
    if op in ("==", "!="):
        known = isinstance(left, Const) and isinstance(right, Const)
        return Const(at, (a == b) == (op == "==")) if known else Unk(at)
    numbers = isinstance(a, (int, float)) and isinstance(b, (int, float)) and abs(a) < 2**60 and abs(b) < 2**60
    if not numbers or a is None or b is None or (op == "/" and b == 0):
        return Unk(at, getattr(left, "name", None) or getattr(right, "name", None))
    actions: dict[str, Callable[[], Any]] = {
        "+": lambda: a + b, "-": lambda: a - b, "*": lambda: a * b, "<": lambda: a < b, ">": lambda: a > b, "<=": lambda: a <= b,
        ">=": lambda: a >= b, "/": lambda: a // b if isinstance(a, int) and isinstance(b, int) else a / b,
    }  # fmt: skip
    return Const(left.at, actions[op]())


Action = Callable[[Evaluator, "list[Thunk | Value]", Place], "Value | None"]


def _unknown(machine: Evaluator, args: list[Thunk | Value], at: Place) -> Value | None:
    return None


def _to_string(machine: Evaluator, args: list[Thunk | Value], at: Place) -> Value | None:
    value = machine.force(args[0])
    return value if isinstance(value, Unk) else Const(value.at, machine.text(value))


def plain(machine: Evaluator, value: Value, depth: int = 0) -> Any:
    """The value as JSON-like data."""
    if isinstance(value, Attrs) and depth < 40:
        return {k: plain(machine, machine.force(v), depth + 1) for k, v in value.data.items()}
    if isinstance(value, Seq) and depth < 40:
        return [plain(machine, v, depth + 1) for v in value.data]
    return value.value if isinstance(value, Const) else machine.text(value)


def _to_json(machine: Evaluator, args: list[Thunk | Value], at: Place) -> Value | None:
    value = machine.force(args[0])
    return Const(value.at, json.dumps(plain(machine, value))[:MAX_TEXT])


def _join(machine: Evaluator, args: list[Thunk | Value], at: Place) -> Value | None:
    items = machine.force(args[1])
    if not isinstance(items, Seq):
        return None
    separator = machine.text(machine.force(args[0]))
    starts, size = [], 0
    for item in items.data:
        starts.append((size, item.at[1]))
        size += len(machine.text(item)) + len(separator)
    first = items.data[0].at if items.data else at
    return Const(first, separator.join(machine.text(v) for v in items.data)[:MAX_TEXT], tuple(starts))


def _optional(machine: Evaluator, args: list[Thunk | Value], at: Place) -> Value | None:
    truth = machine.truth(machine.force(args[0]))
    if not truth:
        return Seq(at, [])
    value = machine.force(args[1])
    return value if isinstance(value, Seq) else Seq(value.at, [value])


def _optional_string(machine: Evaluator, args: list[Thunk | Value], at: Place) -> Value | None:
    return machine.force(args[1]) if machine.truth(machine.force(args[0])) else Const(at, "")


def _optional_attrs(machine: Evaluator, args: list[Thunk | Value], at: Place) -> Value | None:
    return machine.force(args[1]) if machine.truth(machine.force(args[0])) else Attrs(at, {})


def _mk_if(machine: Evaluator, args: list[Thunk | Value], at: Place) -> Value | None:
    """``mkIf``: what only the host's configuration decides counts as met, unless this file declares the option (off by default)."""
    truth = machine.truth(machine.force(args[0]))
    met = truth if truth is not None else machine.assumes
    return machine.force(args[1]) if met else Attrs(at, {})


def _map(machine: Evaluator, args: list[Thunk | Value], at: Place) -> Value | None:
    items = machine.force(args[1])
    function = machine.force(args[0])
    if not isinstance(items, Seq):
        return None
    return Seq(at, [machine.apply(function, v, at) for v in items.data[:500]])


def _map_attrs(machine: Evaluator, args: list[Thunk | Value], at: Place) -> Value | None:
    items, function = machine.force(args[1]), machine.force(args[0])
    if not isinstance(items, Attrs):
        return None
    pairs = [
        (k, machine.apply(machine.apply(function, Const(at, k), at), v, at)) for k, v in list(items.data.items())[:500]
    ]
    return Attrs(at, dict(pairs))


def _map_attrs_list(machine: Evaluator, args: list[Thunk | Value], at: Place) -> Value | None:
    found = _map_attrs(machine, args, at)
    return Seq(at, [machine.force(v) for v in found.data.values()]) if isinstance(found, Attrs) else None


def _last(machine: Evaluator, args: list[Thunk | Value], at: Place) -> Value | None:
    return machine.force(args[-1])


def _length(machine: Evaluator, args: list[Thunk | Value], at: Place) -> Value | None:
    value = machine.force(args[0])
    return Const(at, len(value.data)) if isinstance(value, Seq) else None


def _concat(machine: Evaluator, args: list[Thunk | Value], at: Place) -> Value | None:
    value = machine.force(args[0])
    if not isinstance(value, Seq):
        return None
    return Seq(at, [i for v in value.data for i in (v.data if isinstance(v, Seq) else [v])])


def _merge(machine: Evaluator, args: list[Thunk | Value], at: Place) -> Value | None:
    value = machine.force(args[0])
    return Seq(at, list(value.data)) if isinstance(value, Seq) else None


def _script(machine: Evaluator, args: list[Thunk | Value], at: Place) -> Value | None:
    value = machine.force(args[-1])
    if isinstance(value, Attrs) and "text" in value.data:
        value = machine.force(value.data["text"])
    return Attrs(at, {"text": value})


def _escape(machine: Evaluator, args: list[Thunk | Value], at: Place) -> Value | None:
    import shlex

    value = machine.force(args[0])
    items = value.data if isinstance(value, Seq) else [value]
    return Const(items[0].at if items else at, " ".join(shlex.quote(machine.text(v)) for v in items))


def _import(machine: Evaluator, args: list[Thunk | Value], at: Place) -> Value | None:
    value = machine.force(args[0])
    target = machine.text(value)
    path = posixpath.normpath(posixpath.join(posixpath.dirname(at[0]), target))
    if path.startswith(("..", "/")):
        return None
    for candidate in (path, posixpath.join(path, "default.nix")):
        if candidate.endswith(".nix") and machine.tree.exists(candidate):
            return machine.file(candidate)
    return None


def _command_line(machine: Evaluator, args: list[Thunk | Value], at: Place) -> Value | None:
    """``lib.cli.toGNUCommandLine {} { max-model-len = 8192; }``."""
    value = machine.force(args[1])
    if not isinstance(value, Attrs):
        return None
    words: list[Value] = []
    for name, thunk in value.data.items():
        item = machine.force(thunk)
        flag = Const(item.at, ("--" if len(name) > 1 else "-") + name)
        if isinstance(item, Const) and item.value in (None, False):
            continue
        words += (
            [flag] if isinstance(item, Const) and item.value is True else [flag, Const(item.at, machine.text(item))]
        )
    return Seq(at, words)


def _command_line_text(machine: Evaluator, args: list[Thunk | Value], at: Place) -> Value | None:
    found = _command_line(machine, args, at)
    return _escape(machine, [found], at) if found is not None else None


def _executable(machine: Evaluator, args: list[Thunk | Value], at: Place) -> Value | None:
    text = machine.text(machine.force(args[0]))
    name = machine.text(machine.force(args[1])) if len(args) > 1 else text.rsplit("/", 1)[-1]
    return Const(at, f"{text}/bin/{name}")


BUILTINS: Final[dict[str, tuple[int, Action]]] = {
    "toString": (1, _to_string), "toJSON": (1, _to_json), "concatStringsSep": (2, _join), "optional": (2, _optional),
    "optionals": (2, _optional), "optionalString": (2, _optional_string), "optionalAttrs": (2, _optional_attrs), "map": (2, _map),
    "mapAttrs": (2, _map_attrs), "mapAttrsToList": (2, _map_attrs_list), "mkForce": (1, _last), "mkDefault": (1, _last),
    "mkOverride": (2, _last), "mkMerge": (1, _merge), "mkBefore": (1, _last), "mkAfter": (1, _last), "mkIf": (2, _mk_if),
    "length": (1, _length), "flatten": (1, _concat), "concatLists": (1, _concat), "escapeShellArgs": (1, _escape),
    "escapeShellArg": (1, _escape), "writeShellScript": (2, _script), "writeShellScriptBin": (2, _script), "writeScript": (2, _script),
    "writeText": (2, _script), "writeShellApplication": (1, _script), "import": (1, _import), "getExe": (1, _executable),
    "getExe'": (2, _executable), "toGNUCommandLine": (2, _command_line), "toGNUCommandLineShell": (2, _command_line_text),
    "baseNameOf": (1, _unknown), "removeAttrs": (2, _unknown), "concatMapStringsSep": (3, _unknown),
}  # fmt: skip
