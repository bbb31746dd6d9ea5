"""Evaluates HCL expressions over a module's variables and locals; pure functions only, files inside the tree only."""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from checklistbot.discovery.interpret import data_files, hcl
from checklistbot.discovery.interpret.hcl import Expr
from checklistbot.discovery.interpret.marks import Place, has_mark, mark, without_marks
from checklistbot.discovery.interpret.pyvalues import Const, Map, Seq, Unk, Value
from checklistbot.discovery.limits import gave_up
from checklistbot.discovery.tree import Tree, Unreadable

STEPS: Final = 100_000
MAX_TEXT: Final = 200_000
MAX_ITEMS: Final = 2_000


class Stop(Exception):
    """The budget is used up."""


class Module:
    """One folder of .tf files: variables with their defaults, locals, and what other blocks say."""

    def __init__(self, tree: Tree, folder: str) -> None:
        self.tree = tree
        self.folder = folder
        self.variables: dict[str, tuple[Expr | None, Place]] = {}
        self.locals: dict[str, tuple[Expr, str]] = {}
        self.given: dict[str, Value] = {}
        self.blocks: list[tuple[str, hcl.Block]] = []
        self.steps = STEPS
        self._active: set[str] = set()
        self._path = folder

    def add(self, path: str, body: hcl.Body) -> None:
        for block in body.blocks:
            if block.type == "variable" and block.labels:
                self.variables[block.labels[0]] = (block.body.attributes.get("default"), (path, block.line))
            elif block.type == "locals":
                for name, expr in block.body.attributes.items():
                    self.locals[name] = (expr, path)
            else:
                self.blocks.append((path, block))

    # --- names --------------------------------------------------------------------------------------------------------

    def variable(self, name: str, path: str) -> Value:
        if name in self.given:
            return self.given[name]
        default, place = self.variables.get(name, (None, (path, 1)))
        if default is None:
            return Unk(place, f"var.{name}")
        value = self.eval(default, place[0], {})
        if isinstance(value, Const) and value.value is None:
            return Unk(value.at, f"var.{name}", assumed=None)
        return value

    def local(self, name: str, path: str) -> Value:
        if name not in self.locals or name in self._active:
            return Unk((path, 1), f"local.{name}")
        self._active.add(name)
        try:
            expr, home = self.locals[name]
            return self.eval(expr, home, {})
        finally:
            self._active.discard(name)

    # --- evaluation ---------------------------------------------------------------------------------------------------

    def eval(self, node: Expr, path: str, scope: Mapping[str, Value]) -> Value:
        self.steps -= 1
        if self.steps <= 0:
            raise Stop
        at = (path, node.line)
        method = getattr(self, f"on_{node.kind}", None)
        if method is None:
            return Unk(at)
        value: Value = method(node, at, scope)
        return value

    def on_literal(self, node: Expr, at: Place, scope: Mapping[str, Value]) -> Value:
        return Const(at, node.parts[0])

    def on_name(self, node: Expr, at: Place, scope: Mapping[str, Value]) -> Value:
        return scope.get(node.parts[0], Unk(at, node.parts[0]))

    def on_get(self, node: Expr, at: Place, scope: Mapping[str, Value]) -> Value:
        owner, key = node.parts
        if owner.kind == "name" and key.kind == "literal" and owner.parts[0] not in scope:
            root, name = owner.parts[0], str(key.parts[0])
            if root == "var":
                return self.variable(name, at[0])
            if root == "local":
                return self.local(name, at[0])
            if root == "path":
                return Const(at, "." if name == "cwd" else self.folder or ".")
            return Unk(at, f"{root}.{name}")
        value, index = self.eval(owner, at[0], scope), self.eval(key, at[0], scope)
        return self.item(value, index, at)

    def item(self, value: Value, index: Value, at: Place) -> Value:
        known = plain_key(index)
        if isinstance(value, Map) and known is not None:
            found = value.data.get(known, value.data.get(str(known)))
            return found if found is not None else Unk(at, str(known), assumed=None)
        if isinstance(value, Seq) and isinstance(known, int) and -len(value.data) <= known < len(value.data):
            return value.data[known]
        name = getattr(value, "name", None)
        return Unk(at, f"{name}.{known}" if name and known is not None else name)

    def on_splat(self, node: Expr, at: Place, scope: Mapping[str, Value]) -> Value:
        value = self.eval(node.parts[0], at[0], scope)
        return value if isinstance(value, Seq) else Unk(at, getattr(value, "name", None))

    def on_list(self, node: Expr, at: Place, scope: Mapping[str, Value]) -> Value:
        return Seq(at, [self.eval(item, at[0], scope) for item in node.parts[0]])

    def on_object(self, node: Expr, at: Place, scope: Mapping[str, Value]) -> Value:
        found = Map(at, {})
        for key_node, value_node in node.parts[0]:
            key = key_node if key_node.kind != "name" else Expr("literal", key_node.line, (key_node.parts[0],))
            found.data[text_of(self.eval(key, at[0], scope))] = self.eval(value_node, at[0], scope)
        return found

    def on_if(self, node: Expr, at: Place, scope: Mapping[str, Value]) -> Value:
        condition, yes, no = node.parts
        truth = truth_of(self.eval(condition, at[0], scope))
        if truth is None:
            left, right = self.eval(yes, at[0], scope), self.eval(no, at[0], scope)
            same = isinstance(left, Const) and isinstance(right, Const) and left.value == right.value
            return left if same else Unk(at, getattr(left, "name", None), "ambiguous")
        return self.eval(yes if truth else no, at[0], scope)

    def on_unary(self, node: Expr, at: Place, scope: Mapping[str, Value]) -> Value:
        sign, inner = node.parts
        value = self.eval(inner, at[0], scope)
        if sign == "!":
            truth = truth_of(value)
            return Unk(at) if truth is None else Const(at, not truth)
        number = number_of(value)
        return Unk(at, getattr(value, "name", None)) if number is None else Const(value.at, -number)

    def on_binary(self, node: Expr, at: Place, scope: Mapping[str, Value]) -> Value:
        op, left_node, right_node = node.parts
        left, right = self.eval(left_node, at[0], scope), self.eval(right_node, at[0], scope)
        if op in ("&&", "||"):
            truths = [truth_of(left), truth_of(right)]
            if (op == "||") in truths:
                return Const(at, op == "||")
            return Unk(at) if None in truths else Const(at, op == "&&")
        if op in ("==", "!="):
            a, b = assumed_of(left), assumed_of(right)
            return Unk(at) if a is _NO or b is _NO else Const(at, (a == b) == (op == "=="))
        return _arithmetic(op, left, right, at)

    def on_template(self, node: Expr, at: Place, scope: Mapping[str, Value]) -> Value:
        parts = node.parts[0]
        if len(parts) == 1 and parts[0].kind not in ("literal", "tif", "tfor"):
            return self.eval(parts[0], at[0], scope)
        out: list[str] = []
        starts: list[tuple[int, int]] = []
        self._render(parts, at[0], scope, out, starts)
        first = starts[0][1] if starts else at[1]
        whole = "".join(out)
        if len(whole) > MAX_TEXT:
            gave_up()
        return Const((at[0], first), whole[:MAX_TEXT], tuple(starts))

    def _render(
        self, parts: list[Expr], path: str, scope: Mapping[str, Value], out: list[str], starts: list[tuple[int, int]]
    ) -> None:
        for part in parts:
            if part.kind == "literal":
                self._piece(str(part.parts[0]), part.line, out, starts)
            elif part.kind == "tif":
                truth = truth_of(self.eval(part.parts[0], path, scope))
                if truth is not None:
                    self._render(part.parts[1] if truth else part.parts[2], path, scope, out, starts)
            elif part.kind == "tfor":
                names, source, body = part.parts
                for inner in self._each(names, self.eval(source, path, scope), scope):
                    self._render(body, path, inner, out, starts)
            else:
                self._piece(text_of(self.eval(part, path, scope)), part.line, out, starts, step=False)

    def _piece(self, text: str, line: int, out: list[str], starts: list[tuple[int, int]], *, step: bool = True) -> None:
        offset = sum(map(len, out))
        if offset > MAX_TEXT:
            raise Stop
        starts.append((offset, line))
        if step:
            starts += [(offset + m.end(), line + n) for n, m in enumerate(re.finditer("\n", text), 1)]
        out.append(text)

    def _each(self, names: list[str], source: Value, scope: Mapping[str, Value]) -> list[dict[str, Value]]:
        pairs: list[tuple[Value, Value]] = []
        if isinstance(source, Map):
            pairs = [(Const(v.at, k), v) for k, v in source.data.items()]
        elif isinstance(source, Seq):
            pairs = [(Const(v.at, i), v) for i, v in enumerate(source.data)]
        rows = []
        for key, value in pairs[:MAX_ITEMS]:
            bound = {names[0]: key, names[1]: value} if len(names) > 1 else {names[0]: value}
            rows.append({**scope, **bound})
        return rows

    def on_for(self, node: Expr, at: Place, scope: Mapping[str, Value]) -> Value:
        names, source_node, first, second, condition = node.parts
        source = self.eval(source_node, at[0], scope)
        if not isinstance(source, (Map, Seq)):
            return Unk(at, getattr(source, "name", None))
        rows = self._each(names, source, scope)
        kept = [r for r in rows if condition is None or truth_of(self.eval(condition, at[0], r)) is not False]
        if second is None:
            return Seq(at, [self.eval(first, at[0], row) for row in kept])
        return Map(at, {text_of(self.eval(first, at[0], row)): self.eval(second, at[0], row) for row in kept})

    def on_call(self, node: Expr, at: Place, scope: Mapping[str, Value]) -> Value:
        name, argument_nodes = node.parts
        if name in ("try", "can", "coalesce"):
            return self._first_known(name, argument_nodes, at, scope)
        arguments: list[Value] = []
        for argument in argument_nodes:
            if argument.kind == "spread":
                value = self.eval(argument.parts[0], at[0], scope)
                arguments += value.data if isinstance(value, Seq) else [value]
            else:
                arguments.append(self.eval(argument, at[0], scope))
        if name in ("file", "templatefile", "filebase64"):
            return self._file(name, arguments, at)
        function = FUNCTIONS.get(name)
        result = function(arguments, at) if function is not None and arguments else None
        if result is None:
            return Unk(at, next((a.name for a in arguments if isinstance(a, Unk)), name))
        return result

    def _first_known(self, name: str, nodes: list[Expr], at: Place, scope: Mapping[str, Value]) -> Value:
        first: Value = Unk(at)
        for number, node in enumerate(nodes):
            value = self.eval(node, at[0], scope)
            first = value if number == 0 else first
            empty = isinstance(value, Const) and value.value in (None, "") if name == "coalesce" else False
            absent = isinstance(value, Unk) and value.assumed is None
            if not empty and not absent and not isinstance(value, Unk):
                return value
            if isinstance(value, Unk) and not absent:
                return value
        return first

    def _file(self, name: str, arguments: list[Value], at: Place) -> Value:
        target = posixpath.normpath(text_of(arguments[0]) if arguments else "")
        for base in ("", self.folder):
            candidate = posixpath.normpath(posixpath.join(base, target))
            if candidate.startswith(("/", "..")) or has_mark(candidate) or not self.tree.exists(candidate):
                continue
            try:
                text = without_marks(self.tree.read(candidate))
                if len(text) > MAX_TEXT:
                    gave_up()
                text = text[:MAX_TEXT]
            except Unreadable:
                break
            if name != "templatefile":
                return Const((candidate, 1), text)
            given = arguments[1].data if len(arguments) > 1 and isinstance(arguments[1], Map) else {}
            try:
                return self.eval(hcl.parse_template(text), candidate, {str(k): v for k, v in given.items()})
            except hcl.HclError:
                return Unk(at, posixpath.basename(candidate), "not-readable")
            except RecursionError:
                gave_up()
                return Unk(at, posixpath.basename(candidate), "not-readable")
        return Unk(at, posixpath.basename(target), "not-readable")


# --- values ----------------------------------------------------------------------------------------------------------------

_NO: Final = object()


def text_of(value: Value) -> str:
    """The value as Terraform's ``tostring`` gives it, with a mark for what is unknown."""
    if isinstance(value, Const):
        if isinstance(value.value, bool):
            return "true" if value.value else "false"
        if isinstance(value.value, float) and value.value.is_integer():
            return str(int(value.value))
        return "" if value.value is None else str(value.value)
    if isinstance(value, Unk):
        return mark(value.name, value.why)
    return mark(None)


def assumed_of(value: Value) -> Any:
    if isinstance(value, Const):
        return _NO if isinstance(value.value, str) and has_mark(value.value) else value.value
    if isinstance(value, Unk) and value.assumed is None:
        return None
    return _NO


def plain_key(value: Value) -> Any:
    known = assumed_of(value)
    return None if known is _NO else known


def truth_of(value: Value) -> bool | None:
    known = assumed_of(value)
    if known is _NO:
        return True if isinstance(value, (Seq, Map)) else None
    return known not in (False, None, "false", "")


def number_of(value: Value) -> int | float | None:
    if isinstance(value, Const):
        if isinstance(value.value, (int, float)) and not isinstance(value.value, bool):
            return value.value
        if isinstance(value.value, str) and re.fullmatch(r"-?\d{1,18}(?:\.\d{1,18})?", value.value):
            return float(value.value) if "." in value.value else int(value.value)
    return None


def _arithmetic(op: str, left: Value, right: Value, at: Place) -> Value:
    a, b = number_of(left), number_of(right)
    if a is None or b is None or abs(a) > 2**60 or abs(b) > 2**60:
        return Unk(at, getattr(left, "name", None) or getattr(right, "name", None))
    actions: dict[str, Callable[[], Any]] = {
        "+": lambda: a + b, "-": lambda: a - b, "*": lambda: a * b, "/": lambda: a / b, "%": lambda: a % b,
        "<": lambda: a < b, ">": lambda: a > b, "<=": lambda: a <= b, ">=": lambda: a >= b,
    }  # fmt: skip
    try:
        value = actions[op]()
    except ZeroDivisionError:
        return Unk(at)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return Const(left.at, value)


def plain(value: Value, depth: int = 0) -> Any:
    """The value as JSON-like data with marks for what is unknown."""
    if isinstance(value, Map) and depth < 50:
        return {str(k): plain(v, depth + 1) for k, v in value.data.items()}
    if isinstance(value, Seq) and depth < 50:
        return [plain(v, depth + 1) for v in value.data]
    return value.value if isinstance(value, Const) else text_of(value)


def _known_list(value: Value) -> list[Value]:
    return list(value.data) if isinstance(value, Seq) else [value]


Function = Callable[[list[Value], Place], "Value | None"]


def _same(a: list[Value], at: Place) -> Value:
    return a[0]


def _string(a: list[Value], at: Place) -> Value:
    return a[0] if isinstance(a[0], Unk) else Const(a[0].at, text_of(a[0]))


def _concat(a: list[Value], at: Place) -> Value:
    return Seq(a[0].at, [item for part in a for item in _known_list(part)][:MAX_ITEMS])


def _merge(a: list[Value], at: Place) -> Value:
    found: dict[Any, Value] = {}
    for part in a:
        found.update(part.data if isinstance(part, Map) else {})
    return Map(a[0].at, found)


def _join(a: list[Value], at: Place) -> Value | None:
    items = [item for part in a[1:] for item in _known_list(part)]
    out, starts, size = [], [], 0
    for item in items:
        starts.append((size, item.at[1]))
        out.append(text_of(item))
        size += len(out[-1]) + len(text_of(a[0]))
    return Const(items[0].at if items else at, text_of(a[0]).join(out)[:MAX_TEXT], tuple(starts))


def _split(a: list[Value], at: Place) -> Value | None:
    return (
        Seq(a[1].at, [Const(a[1].at, t) for t in text_of(a[1]).split(text_of(a[0]) or " ")[:MAX_ITEMS]])
        if len(a) > 1
        else None
    )


def _format(a: list[Value], at: Place) -> Value:
    values = iter(a[1:])

    def one(match: re.Match[str]) -> str:
        if match[0] == "%%":
            return "%"
        value = next(values, None)
        if value is None:
            return ""
        number = number_of(value)
        if match[2] == "f" and number is not None and len(match[1]) < 6:
            return f"%{match[1]}f" % number
        return text_of(value)

    return Const(a[0].at, re.sub(r"%([-+ #0-9.]*)([a-zA-Z%])", one, text_of(a[0]))[:MAX_TEXT])


def _number(a: list[Value], at: Place) -> Value | None:
    number = number_of(a[0])
    return a[0] if isinstance(a[0], Unk) else None if number is None else Const(a[0].at, number)


def _encode(a: list[Value], at: Place) -> Value:
    if isinstance(a[0], Unk):
        return a[0]
    return Const(a[0].at, json.dumps(plain(a[0]), ensure_ascii=False)[:MAX_TEXT], (), a[0])


def _decode(a: list[Value], at: Place) -> Value | None:
    if isinstance(a[0], Const) and a[0].origin is not None:
        return a[0].origin
    return data_files.load(text_of(a[0]), a[0].at, "yaml") if isinstance(a[0], Const) else None


def _length(a: list[Value], at: Place) -> Value | None:
    if isinstance(a[0], (Seq, Map)):
        return Const(a[0].at, len(a[0].data))
    return Const(at, len(text_of(a[0]))) if isinstance(a[0], Const) else None


def _extreme(pick: Callable[[list[Any]], Any]) -> Function:
    def function(a: list[Value], at: Place) -> Value | None:
        numbers = [number_of(v) for v in a]
        return None if None in numbers else next(v for v, n in zip(a, numbers, strict=True) if n == pick(list(numbers)))

    return function


def _lookup(a: list[Value], at: Place) -> Value | None:
    key = plain_key(a[1]) if len(a) > 1 else None
    if isinstance(a[0], Map) and key in a[0].data:
        return a[0].data[key]
    return a[2] if len(a) > 2 and isinstance(a[0], Map) and key is not None else None


def _element(a: list[Value], at: Place) -> Value | None:
    index = plain_key(a[1]) if len(a) > 1 else None
    items = _known_list(a[0])
    return items[index % len(items)] if isinstance(index, int) and items and isinstance(a[0], Seq) else None


def _contains(a: list[Value], at: Place) -> Value | None:
    known = plain_key(a[1]) if len(a) > 1 else None
    return (
        Const(at, any(plain_key(v) == known for v in a[0].data))
        if isinstance(a[0], Seq) and known is not None
        else None
    )


def _flatten(a: list[Value], at: Place, depth: int = 0) -> Value:
    found: list[Value] = []
    for item in _known_list(a[0]):
        inner = _flatten([item], at, depth + 1) if isinstance(item, Seq) and depth < 20 else None
        found += inner.data if isinstance(inner, Seq) else [item]
    return Seq(a[0].at, found[:MAX_ITEMS])


def _compact(a: list[Value], at: Place) -> Value:
    return Seq(a[0].at, [v for v in _known_list(a[0]) if not (isinstance(v, Const) and v.value in (None, ""))])


def _keys(a: list[Value], at: Place) -> Value | None:
    return (
        Seq(at, [Const(v.at, k) for k, v in sorted(a[0].data.items(), key=lambda p: str(p[0]))])
        if isinstance(a[0], Map)
        else None
    )


def _values(a: list[Value], at: Place) -> Value | None:
    return (
        Seq(at, [v for _, v in sorted(a[0].data.items(), key=lambda p: str(p[0]))]) if isinstance(a[0], Map) else None
    )


def _replace(a: list[Value], at: Place) -> Value | None:
    if len(a) < 3 or isinstance(a[0], Unk):
        return None
    pattern = text_of(a[1])
    if len(pattern) > 2 and pattern.startswith("/") and pattern.endswith("/"):
        return Unk(at, "replace")
    return Const(a[0].at, text_of(a[0]).replace(pattern, text_of(a[2]))[:MAX_TEXT])


def _text(change: Callable[..., str]) -> Function:
    def function(a: list[Value], at: Place) -> Value | None:
        starts = a[0].starts if isinstance(a[0], Const) else ()
        if not isinstance(a[0], Const):
            return None
        changed = change(text_of(a[0]), *(text_of(v) for v in a[1:]))
        return Const(a[0].at, changed, starts if changed == a[0].value else ())

    return function


def _whole(change: Callable[[float], int]) -> Function:
    def function(a: list[Value], at: Place) -> Value | None:
        number = number_of(a[0])
        return None if number is None else Const(a[0].at, change(number))

    return function


def _floor(number: float) -> int:
    return int(number // 1)


def _ceil(number: float) -> int:
    return -int(-number // 1)


def _range(a: list[Value], at: Place) -> Value | None:
    bounds = [number_of(v) for v in a[:3]]
    if not all(isinstance(b, int) for b in bounds) or (len(bounds) == 3 and not bounds[2]):
        return None
    return Seq(at, [Const(at, i) for i in range(*[int(b or 0) for b in bounds])[:256]])


FUNCTIONS: Final[dict[str, Function]] = {
    "tostring": _string, "tonumber": _number, "tobool": _same, "tolist": _same, "toset": _same, "tomap": _same,
    "sensitive": _same, "nonsensitive": _same, "base64encode": _same, "base64gzip": _same, "textencodebase64": _same,
    "concat": _concat, "merge": _merge, "join": _join, "split": _split, "format": _format,
    "jsonencode": _encode, "yamlencode": _encode, "jsondecode": _decode, "yamldecode": _decode,
    "length": _length, "max": _extreme(max), "min": _extreme(min), "lookup": _lookup, "element": _element, "one": _same,
    "contains": _contains, "flatten": _flatten, "compact": _compact, "distinct": _same, "keys": _keys, "values": _values,
    "replace": _replace, "lower": _text(str.lower), "upper": _text(str.upper), "trimspace": _text(str.strip),
    "chomp": _text(lambda t: t.rstrip("\n")), "trimprefix": _text(lambda t, p="": t.removeprefix(p)),
    "trimsuffix": _text(lambda t, p="": t.removesuffix(p)), "title": _text(str.title), "indent": _same,
    "basename": _text(posixpath.basename), "dirname": _text(posixpath.dirname), "abspath": _same,
    "floor": _whole(_floor), "ceil": _whole(_ceil), "range": _range,
}  # fmt: skip
