"""Renders a Jinja template without running it: a walk over the tree that jinja2's parser makes, with a budget and lines."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from checklistbot.discovery.interpret import hcleval
from checklistbot.discovery.interpret.gorender import Line, Output, Rich, Stopped
from checklistbot.discovery.interpret.hcleval import plain
from checklistbot.discovery.interpret.marks import Place, has_mark, mark
from checklistbot.discovery.interpret.pyvalues import Const, Map, Seq, Unk, Value
from checklistbot.discovery.limits import gave_up

STEPS: Final = 60_000
MAX_ITEMS: Final = 500
_BINARY: Final = {"Add": "+", "Sub": "-", "Mul": "*", "Div": "/", "Mod": "%", "FloorDiv": "/"}


def render(text: str, path: str, variables: Mapping[str, Value]) -> list[Line] | None:
    """The rendered lines; None where the text is no Jinja template or does not end within the budget."""
    from jinja2 import Environment
    from jinja2.exceptions import TemplateError

    try:
        # Only the parser is used: nothing is rendered by jinja2, so there is nothing to escape.
        reader = Environment(autoescape=True, keep_trailing_newline=True, trim_blocks=True, lstrip_blocks=True)
        tree = reader.parse(text)
    except TemplateError:
        return None
    except RecursionError:
        gave_up()
        return None
    walker = Walker(path, variables)
    try:
        walker.nodes(tree.body)
    except (Stopped, RecursionError):
        # What was rendered so far may hold a deployment; that it is not the whole is said.
        gave_up()
    return walker.out.lines


class Walker:
    def __init__(self, path: str, variables: Mapping[str, Value]) -> None:
        self.path = path
        self.scopes: list[dict[str, Value]] = [dict(variables)]
        self.out = Output([0])
        self.steps = STEPS
        self.depth = 0

    def nodes(self, nodes: list[Any]) -> None:
        for node in nodes:
            self.steps -= 1
            if self.steps <= 0:
                raise Stopped
            method = getattr(self, f"do_{type(node).__name__}", None)
            if method is not None:
                method(node)

    def do_Output(self, node: Any) -> None:
        for child in node.nodes:
            at = (self.path, child.lineno)
            if type(child).__name__ == "TemplateData":
                self.out.emit(child.data, at, at)
            else:
                value = self.eval(child)
                self.out.emit(self.text(value), at, value.at, value=True, step=False)

    def do_If(self, node: Any) -> None:
        truth = self.truth(self.eval(node.test))
        if truth:
            self.nodes(node.body)
            return
        for branch in node.elif_:
            if self.truth(self.eval(branch.test)):
                self.nodes(branch.body)
                return
        self.nodes(node.else_)

    def do_For(self, node: Any) -> None:
        items = self.items(self.eval(node.iter))
        if not items:
            self.nodes(node.else_)
        if len(items) > MAX_ITEMS:
            gave_up()
        for index, item in enumerate(items[:MAX_ITEMS]):
            at = (self.path, node.lineno)
            loop = {
                "index": index + 1,
                "index0": index,
                "first": index == 0,
                "last": index == len(items) - 1,
                "length": len(items),
            }
            self.scopes.append({"loop": Map(at, {k: Const(at, v) for k, v in loop.items()})})
            self.assign(node.target, item)
            if node.test is None or self.truth(self.eval(node.test)):
                self.nodes(node.body)
            self.scopes.pop()

    def do_Assign(self, node: Any) -> None:
        self.assign(node.target, self.eval(node.node))

    def do_With(self, node: Any) -> None:
        self.scopes.append({})
        for target, value in zip(node.targets, node.values, strict=False):
            self.assign(target, self.eval(value))
        self.nodes(node.body)
        self.scopes.pop()

    def do_Block(self, node: Any) -> None:
        self.nodes(node.body)

    do_FilterBlock = do_Block
    do_Scope = do_Block
    do_ScopedEvalContextModifier = do_Block

    def assign(self, target: Any, value: Value) -> None:
        if type(target).__name__ == "Name":
            self.scopes[-1][target.name] = value
        elif type(target).__name__ == "Tuple":
            items = self.items(value)
            for index, child in enumerate(target.items):
                self.assign(child, items[index] if index < len(items) else Unk(value.at))

    def items(self, value: Value) -> list[Value]:
        if isinstance(value, Seq):
            return list(value.data)
        if isinstance(value, Map):
            return [Const(v.at, k) for k, v in value.data.items()]
        return []

    # --- values -----------------------------------------------------------------------------------------------------------

    def text(self, value: Value) -> str:
        if isinstance(value, Const):
            if isinstance(value.value, bool):
                return "True" if value.value else "False"
            return "" if value.value is None else str(value.value)
        if isinstance(value, Unk):
            return mark(value.name, value.why)
        if isinstance(value, Rich):
            return value.text
        return str(plain(value))

    def truth(self, value: Value) -> bool:
        """Unknown and undefined values are taken as not given."""
        if isinstance(value, (Seq, Map)):
            return bool(value.data)
        return bool(value.value) if isinstance(value, Const) else False

    def eval(self, node: Any) -> Value:
        self.steps -= 1
        self.depth += 1
        if self.steps <= 0 or self.depth > 80:
            raise Stopped
        try:
            method = getattr(self, f"on_{type(node).__name__}", None)
            value: Value = method(node) if method is not None else Unk((self.path, node.lineno))
            return value
        finally:
            self.depth -= 1

    def at(self, node: Any) -> Place:
        return (self.path, node.lineno)

    def on_Const(self, node: Any) -> Value:
        return Const(self.at(node), node.value)

    def on_TemplateData(self, node: Any) -> Value:
        return Const(self.at(node), node.data)

    def on_Name(self, node: Any) -> Value:
        for scope in reversed(self.scopes):
            if node.name in scope:
                return self.expand(scope[node.name])
        return Unk(self.at(node), node.name)

    def expand(self, value: Value) -> Value:
        """A variable whose value is itself a template (``"{{ base }}/x"``)."""
        if not (isinstance(value, Const) and isinstance(value.value, str) and "{{" in value.value) or self.depth > 20:
            return value
        inner = Walker(value.at[0], self.scopes[0])
        inner.depth, inner.steps = self.depth + 5, min(self.steps, 2_000)
        whole = re.fullmatch(r"\s*\{\{(.*)\}\}\s*", value.value, re.DOTALL)
        from jinja2 import Environment
        from jinja2.exceptions import TemplateError

        try:
            tree = Environment(autoescape=True).parse(value.value)
        except TemplateError:
            return Unk(value.at)
        except RecursionError:
            gave_up()
            return Unk(value.at)
        children = [child for part in tree.body for child in getattr(part, "nodes", [])]
        if whole is not None and len(children) == 1:
            found = inner.eval(children[0])
            return (
                found
                if isinstance(found, Unk)
                else _placed(found, found.at if found.at[0] != value.at[0] else value.at)
            )
        inner.nodes(tree.body)
        return Const(value.at, "\n".join(line.text for line in inner.out.lines))

    def on_Getattr(self, node: Any) -> Value:
        return self.item(self.eval(node.node), Const(self.at(node), node.attr), self.at(node))

    def on_Getitem(self, node: Any) -> Value:
        return self.item(self.eval(node.node), self.eval(node.arg), self.at(node))

    def item(self, owner: Value, key: Value, at: Place) -> Value:
        known = key.value if isinstance(key, Const) else None
        if isinstance(owner, Map) and known in owner.data:
            return self.expand(owner.data[known])
        if isinstance(owner, Seq) and isinstance(known, int) and -len(owner.data) <= known < len(owner.data):
            return self.expand(owner.data[known])
        name = getattr(owner, "name", None)
        return Unk(at, f"{name}.{known}" if name else str(known))

    def on_List(self, node: Any) -> Value:
        return Seq(self.at(node), [self.eval(child) for child in node.items])

    on_Tuple = on_List

    def on_Dict(self, node: Any) -> Value:
        return Map(self.at(node), {self.text(self.eval(pair.key)): self.eval(pair.value) for pair in node.items})

    def on_Concat(self, node: Any) -> Value:
        return Const(self.at(node), "".join(self.text(self.eval(child)) for child in node.nodes))

    def on_CondExpr(self, node: Any) -> Value:
        if self.truth(self.eval(node.test)):
            return self.eval(node.expr1)
        return self.eval(node.expr2) if node.expr2 is not None else Const(self.at(node), "")

    def on_And(self, node: Any) -> Value:
        left = self.eval(node.left)
        return self.eval(node.right) if self.truth(left) else left

    def on_Or(self, node: Any) -> Value:
        left = self.eval(node.left)
        return left if self.truth(left) else self.eval(node.right)

    def on_Not(self, node: Any) -> Value:
        return Const(self.at(node), not self.truth(self.eval(node.node)))

    def on_Neg(self, node: Any) -> Value:
        value = self.eval(node.node)
        return (
            Const(value.at, -value.value)
            if isinstance(value, Const) and isinstance(value.value, (int, float))
            else Unk(self.at(node))
        )

    def _arithmetic(self, node: Any) -> Value:
        left, right = self.eval(node.left), self.eval(node.right)
        name = type(node).__name__
        if name == "Add" and isinstance(left, Seq) and isinstance(right, Seq):
            return Seq(left.at, [*left.data, *right.data])
        if name == "Add" and any(isinstance(v, Const) and isinstance(v.value, str) for v in (left, right)):
            return Const(left.at, self.text(left) + self.text(right))
        if any(isinstance(v, Const) and isinstance(v.value, (bool, str)) for v in (left, right)):
            return Unk(self.at(node))
        value = hcleval._arithmetic(_BINARY[name], left, right, self.at(node))
        if name == "FloorDiv" and isinstance(value, Const):
            return Const(value.at, int(value.value // 1))
        return value

    on_Add = on_Sub = on_Mul = on_Div = on_Mod = on_FloorDiv = _arithmetic

    def on_Compare(self, node: Any) -> Value:
        left = self.eval(node.expr)
        for operand in node.ops:
            right = self.eval(operand.expr)
            truth = self._compare(operand.op, left, right)
            if truth is None:
                return Unk(self.at(node))
            if not truth:
                return Const(self.at(node), False)
            left = right
        return Const(self.at(node), True)

    def _compare(self, op: str, left: Value, right: Value) -> bool | None:
        if op in ("in", "notin"):
            items = [v.value for v in self.items(right) if isinstance(v, Const)]
            if isinstance(right, Const) and isinstance(right.value, str):
                return (self.text(left) in right.value) == (op == "in")
            return ((left.value if isinstance(left, Const) else None) in items) == (op == "in")
        if not (isinstance(left, Const) and isinstance(right, Const)):
            return None
        tests: dict[str, Callable[[], bool]] = {
            "eq": lambda: left.value == right.value,
            "ne": lambda: left.value != right.value,
            "lt": lambda: left.value < right.value,
            "lteq": lambda: left.value <= right.value,
            "gt": lambda: left.value > right.value,
            "gteq": lambda: left.value >= right.value,
        }
        try:
            return bool(tests[op]())
        except (TypeError, KeyError):
            return None

    def on_Test(self, node: Any) -> Value:
        value = self.eval(node.node)
        name = node.name
        known = isinstance(value, Const)
        tests: dict[str, bool] = {
            "defined": not isinstance(value, Unk),
            "undefined": isinstance(value, Unk),
            "none": known and value.value is None,  # type: ignore[attr-defined]
            "true": known and value.value is True,  # type: ignore[attr-defined]
            "false": known and value.value is False,  # type: ignore[attr-defined]
            "string": known and isinstance(value.value, str),  # type: ignore[attr-defined]
            "number": known and isinstance(value.value, (int, float)),  # type: ignore[attr-defined]
            "mapping": isinstance(value, Map),
            "sequence": isinstance(value, Seq),
            "iterable": isinstance(value, (Seq, Map)),
        }
        return Const(self.at(node), tests[name]) if name in tests else Unk(self.at(node), name)

    def on_Filter(self, node: Any) -> Value:
        value = self.eval(node.node) if node.node is not None else Const(self.at(node), "")
        args = [self.eval(arg) for arg in node.args] + [self.eval(k.value) for k in node.kwargs]
        return self._filter(node.name.rsplit(".", 1)[-1], value, args, self.at(node))

    def _filter(self, name: str, value: Value, args: list[Value], at: Place) -> Value:
        if name in ("default", "d"):
            empty = isinstance(value, Unk) or (len(args) > 1 and self.truth(args[1]) and not self.truth(value))
            return (args[0] if args else Const(at, "")) if empty else value
        if isinstance(value, Unk) or name in (
            "string",
            "safe",
            "mandatory",
            "list",
            "trim",
            "to_yaml",
            "to_nice_yaml",
            "b64encode",
            "e",
            "escape",
            "regex_escape",
            "unique",
            "flatten",
        ):
            return value
        if name in ("int", "float", "round", "abs"):
            return _number(name, value, at)
        if name in ("length", "count"):
            return (
                Const(value.at, len(value.data))
                if isinstance(value, (Seq, Map))
                else Const(value.at, len(self.text(value)))
            )
        if name == "join":
            return Const(value.at, (self.text(args[0]) if args else "").join(self.text(v) for v in self.items(value)))
        if name in ("to_json", "tojson", "to_nice_json"):
            import json

            return Const(value.at, json.dumps(plain(value)))
        return self._text_filter(name, value, args, at)

    def _text_filter(self, name: str, value: Value, args: list[Value], at: Place) -> Value:
        if name == "ternary" and len(args) > 1:
            return args[0] if self.truth(value) else args[1]
        if name in ("first", "last") and isinstance(value, Seq) and value.data:
            return value.data[0 if name == "first" else -1]
        if name == "bool":
            known = self.text(value).lower() in ("true", "yes", "on", "1")
            return Const(value.at, known)
        if name in ("dict2items", "items") and isinstance(value, Map):
            return Seq(
                value.at,
                [
                    Map(v.at, {"key": Const(v.at, k), "value": v}) if name[0] == "d" else Seq(v.at, [Const(v.at, k), v])
                    for k, v in value.data.items()
                ],
            )
        text = self.text(value)
        simple: dict[str, Callable[[], str]] = {
            "lower": text.lower, "upper": text.upper, "title": text.title, "basename": lambda: text.rsplit("/", 1)[-1],
            "dirname": lambda: text.rpartition("/")[0], "quote": lambda: _quoted(text), "replace": lambda: text.replace(self.text(args[0]), self.text(args[1])),
        }  # fmt: skip
        if name in simple and (name != "replace" or len(args) > 1):
            return Const(value.at, simple[name]())
        if name == "split":
            return Seq(
                value.at, [Const(value.at, p) for p in text.split(self.text(args[0]) if args else None)[:MAX_ITEMS]]
            )
        return Unk(at, name)

    def on_Call(self, node: Any) -> Value:
        at = self.at(node)
        if type(node.node).__name__ == "Getattr" and node.node.attr in (
            "items",
            "keys",
            "values",
            "get",
            "split",
            "lower",
            "upper",
            "strip",
            "replace",
        ):
            owner = self.eval(node.node.node)
            args = [self.eval(a) for a in node.args]
            if node.node.attr == "get" and isinstance(owner, Map) and args:
                found = self.item(owner, args[0], at)
                return (args[1] if len(args) > 1 else Const(at, None)) if isinstance(found, Unk) else found
            if node.node.attr == "keys" and isinstance(owner, Map):
                return Seq(at, [Const(v.at, k) for k, v in owner.data.items()])
            if node.node.attr == "values" and isinstance(owner, Map):
                return Seq(at, list(owner.data.values()))
            return self._filter({"strip": "trim"}.get(node.node.attr, node.node.attr), owner, args, at)
        name = getattr(node.node, "name", None)
        if name == "range":
            bounds = [self.eval(a) for a in node.args]
            numbers = [v.value for v in bounds if isinstance(v, Const) and isinstance(v.value, int)]
            if len(numbers) == len(bounds) and 0 < len(numbers) < 4 and 0 not in numbers[2:]:
                return Seq(at, [Const(at, i) for i in range(*numbers)[:MAX_ITEMS]])
        return Unk(at, name)


def _placed(value: Value, at: Place) -> Value:
    return Const(at, value.value) if isinstance(value, Const) else value


def _quoted(text: str) -> str:
    import shlex

    return text if has_mark(text) else shlex.quote(text)


def _number(name: str, value: Value, at: Place) -> Value:
    known = value.value if isinstance(value, Const) else None
    try:
        number = ast.literal_eval(str(known).strip()) if isinstance(known, str) and len(known) < 40 else known
    except (ValueError, SyntaxError):
        return Unk(at)
    if isinstance(number, bool) or not isinstance(number, (int, float)) or abs(number) > 2**60:
        return Unk(at)
    actions: dict[str, Callable[[Any], Any]] = {"int": int, "float": float, "round": round, "abs": abs}
    return Const(value.at, actions[name](number))
