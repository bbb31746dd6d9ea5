"""Renders parsed Go templates over values that know their places; the result keeps for each line where it comes from."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from checklistbot.discovery.interpret.gotemplate import Arg, Node, Pipeline
from checklistbot.discovery.interpret.marks import Place, has_mark, map_words, mark, readable
from checklistbot.discovery.interpret.pyvalues import Const, Map, Seq, Unk, Value
from checklistbot.engines import base
from checklistbot.engines.base import Launch, Word
from checklistbot.record import mutable_record

STEPS: Final = 200_000
MAX_OUTPUT: Final = 500_000
MAX_CALLS: Final = 40


class Stopped(Exception):
    """Rendering ends: the budget is used up, or the template calls ``fail``."""


@mutable_record
class Line:
    """A rendered line: ``top`` is the line of the template that is rendered, ``deep`` the line that spells the text, ``inserts`` values in it."""

    text: str
    top: Place
    deep: Place
    inserts: list[tuple[str, Place]] = field(default_factory=list)


@dataclass(eq=False, slots=True)
class Rich(Value):
    """Text of several lines with the origin of each."""

    lines: list[Line]

    @property
    def text(self) -> str:
        return "\n".join(line.text for line in self.lines)


class Output:
    """Collects rendered text, a line at a time: the pieces of the open line are joined once."""

    def __init__(self, size: list[int]) -> None:
        self._lines: list[Line] = []
        self._parts: list[str] = []
        self._blank = True
        self._size = size

    @property
    def lines(self) -> list[Line]:
        """The lines so far."""
        self._close()
        return self._lines

    def _close(self) -> None:
        if self._lines and self._parts:
            self._lines[-1].text = "".join(self._parts)
            self._parts = [self._lines[-1].text]

    def _next(self, top: Place, deep: Place) -> None:
        self._close()
        self._lines.append(Line("", top, deep))
        self._parts, self._blank = [], True

    def _grow(self, count: int) -> None:
        self._size[0] += count
        if self._size[0] > MAX_OUTPUT:
            raise Stopped

    def emit(self, text: str, top: Place, deep: Place, *, value: bool = False, step: bool = True) -> None:
        self._grow(len(text))
        for index, part in enumerate(text.split("\n")):
            move = index if step else 0
            here_top = top if value else (top[0], top[1] + move)
            here_deep = (deep[0], deep[1] + move)
            if index or not self._lines:
                self._next(here_top, here_deep)
            written = bool(part.strip())
            if self._blank and written:
                self._lines[-1].top = here_top
                self._lines[-1].deep = here_top if value else here_deep
                self._blank = False
            self._parts.append(part)
            if value and written:
                self._lines[-1].inserts.append((part, here_deep))

    def emit_rich(self, rich: Rich, top: Place) -> None:
        for index, given in enumerate(rich.lines):
            self._grow(len(given.text) + 1)
            if index or not self._lines:
                self._next(top, given.deep)
            if self._blank and given.text.strip():
                self._lines[-1].top, self._lines[-1].deep = top, given.deep
                self._blank = False
            self._parts.append(given.text)
            self._lines[-1].inserts += given.inserts


class Renderer:
    """One rendering: the named templates of a chart, and the budget."""

    def __init__(self, templates: Mapping[str, tuple[str, list[Node]]], functions: Mapping[str, Any]) -> None:
        self.templates = dict(templates)
        self.functions = functions
        self.steps = STEPS
        self.size = [0]
        self.calls = 0

    def step(self) -> None:
        self.steps -= 1
        if self.steps <= 0:
            raise Stopped

    def render(self, nodes: list[Node], path: str, dot: Value) -> Rich:
        out = Output(self.size)
        scope = Scope(path, dot, {"$": dot})
        with contextlib.suppress(_Loop):
            self._nodes(nodes, scope, out)
        return Rich((path, 1), out.lines)

    def _nodes(self, nodes: Sequence[Node], scope: Scope, out: Output) -> None:
        for node in nodes:
            self.step()
            if node.kind == "text":
                out.emit(node.text, (scope.path, node.line), (scope.path, node.line))
            elif node.kind == "action" and node.pipeline is not None:
                value = self.pipeline(node.pipeline, scope, node.line)
                if not node.pipeline.variables:
                    self._print(value, (scope.path, node.line), out)
            elif node.kind in ("if", "with"):
                self._condition(node, scope, out)
            elif node.kind == "range":
                self._range(node, scope, out)
            elif node.kind == "template":
                dot = (
                    self.pipeline(node.pipeline, scope, node.line)
                    if node.pipeline
                    else Const((scope.path, node.line), None)
                )
                out.emit_rich(self.include(node.text, dot, (scope.path, node.line)), (scope.path, node.line))
            elif node.kind in ("break", "continue"):
                raise _Loop(node.kind)

    def _print(self, value: Value, top: Place, out: Output) -> None:
        if isinstance(value, Rich):
            out.emit_rich(value, top)
        else:
            multi = isinstance(value, Const) and isinstance(value.value, str)
            out.emit(show(value), top, value.at, value=True, step=multi)

    def _condition(self, node: Node, scope: Scope, out: Output) -> None:
        inner = scope.child()
        value = self.pipeline(node.pipeline or Pipeline([]), inner, node.line)
        if truth(value):
            if node.kind == "with":
                inner.dot = value
            self._nodes(node.body, inner, out)
        else:
            self._nodes(node.otherwise, inner if node.kind == "if" else scope.child(), out)

    def _range(self, node: Node, scope: Scope, out: Output) -> None:
        inner = scope.child()
        given = node.pipeline or Pipeline([])
        value = self.pipeline(dataclasses.replace(given, variables=[]), inner, node.line)
        pairs: list[tuple[Value, Value]] = []
        if isinstance(value, Map):
            pairs = [(Const(v.at, k), v) for k, v in sorted(value.data.items(), key=lambda p: str(p[0]))]
        elif isinstance(value, Seq):
            pairs = [(Const(v.at, i), v) for i, v in enumerate(value.data)]
        elif isinstance(value, Const) and isinstance(value.value, int) and not isinstance(value.value, bool):
            pairs = [(Const(value.at, i), Const(value.at, i)) for i in range(min(value.value, 500))]
        if not pairs:
            self._nodes(node.otherwise, scope.child(), out)
        for key, item in pairs:
            body = inner.child()
            body.dot = item
            names = given.variables
            if names:
                body.variables[names[-1]] = item
                if len(names) > 1:
                    body.variables[names[0]] = key
            try:
                self._nodes(node.body, body, out)
            except _Loop as loop:
                if loop.kind == "break":
                    return

    def include(self, name: str, dot: Value, at: Place) -> Rich:
        found = self.templates.get(name)
        if found is None or self.calls >= MAX_CALLS:
            image = _image_by_convention(name, dot) if found is None else None
            if image is not None:
                return Rich(image.at, [Line(show(image), at, image.at, [(show(image), image.at)])])
            return Rich(at, [Line(mark(name, "not-rendered"), at, at)])
        self.calls += 1
        try:
            return self.render(found[1], found[0], dot)
        finally:
            self.calls -= 1

    # --- pipelines ----------------------------------------------------------------------------------------------------

    def pipeline(self, pipeline: Pipeline, scope: Scope, line: int) -> Value:
        at = (scope.path, line)
        value: Value | None = None
        for command in pipeline.commands:
            value = self._command(command, scope, at, value)
        result = value if value is not None else Const(at, None)
        for name in pipeline.variables[-1:]:
            scope.set(name, result, declare=pipeline.declare)
        return result

    def _command(self, args: list[Arg], scope: Scope, at: Place, piped: Value | None) -> Value:
        self.step()
        if not args:
            return piped if piped is not None else Const(at, None)
        first = args[0]
        if first.kind == "word":
            return self._call(first.value, args[1:], scope, at, piped)
        value = self._arg(first, scope, at)
        if isinstance(value, _Method):
            return value.call([self._arg(a, scope, at) for a in args[1:]] + ([piped] if piped is not None else []), at)
        return value

    def _call(self, name: str, args: list[Arg], scope: Scope, at: Place, piped: Value | None) -> Value:
        if name in ("and", "or"):
            return self._logic(name, args, scope, at, piped)
        values = [self._arg(a, scope, at) for a in args]
        if piped is not None:
            values.append(piped)
        function = self.functions.get(name)
        if function is None:
            return Unk(at, name, "not-rendered")
        result = function(self, values, at)
        return (
            result
            if result is not None
            else Unk(at, next((v.name for v in values if isinstance(v, Unk)), name), "not-rendered")
        )

    def _logic(self, name: str, args: list[Arg], scope: Scope, at: Place, piped: Value | None) -> Value:
        value: Value = Const(at, None)
        for index in range(len(args) + (piped is not None)):
            value = self._arg(args[index], scope, at) if index < len(args) else piped or value
            if truth(value) == (name == "or"):
                return value
        return value

    def _arg(self, arg: Arg, scope: Scope, at: Place) -> Value:
        if arg.kind == "literal":
            value: Value = Const(at, arg.value)
        elif arg.kind == "field":
            value = scope.dot
        elif arg.kind == "variable":
            value = scope.get(arg.value, at)
        elif arg.kind == "call":
            value = self.pipeline(arg.value, scope, at[1])
        else:
            value = self._call(arg.value, [], scope, at, None)
        for name in arg.fields:
            value = get_field(value, name, at)
        return value


def _image_by_convention(name: str, dot: Value) -> Const | None:
    """What a missing helper called ``…Image`` gives by the convention of all charts: ``image.repository:image.tag`` of its component."""
    if not name.lower().endswith("image"):
        return None
    component = name.rsplit(".", 1)[-1][:-5].lower()
    values = get_field(dot, "Values", dot.at)
    found: list[tuple[str, Map]] = []
    stack: list[tuple[str, Value, int]] = [("", values, 0)]
    while stack:
        key, value, depth = stack.pop()
        if isinstance(value, Map) and depth < 4:
            image = value.data.get("image")
            if isinstance(image, Map) and {"repository", "tag"} <= set(image.data):
                found.append((key.lower(), image))
            stack += [(str(k), v, depth + 1) for k, v in value.data.items()]
    fitting = [image for key, image in found if key == component] or ([i for _, i in found] if len(found) == 1 else [])
    if len(fitting) != 1 or not truth(fitting[0].data["tag"]):
        return None
    data = fitting[0].data
    registry = show(data["registry"]) + "/" if truth(data.get("registry", Const(dot.at, None))) else ""
    return Const(data["tag"].at, f"{registry}{show(data['repository'])}:{show(data['tag'])}")


def document(lines: Sequence[Line]) -> str:
    """The rendered lines as YAML text; a line that is nothing but an unknown block (a helper that is not there) is left out."""
    return "\n".join("" if has_mark(line.text) and readable(line.text).strip() == "?" else line.text for line in lines)


class _Loop(Exception):
    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.kind = kind


@dataclass(eq=False, slots=True)
class _Method(Value):
    """A method of Helm's objects: ``.Files.Get``, ``.Capabilities.APIVersions.Has``."""

    call: Callable[[list[Value], Place], Value]


def method(at: Place, call: Callable[[list[Value], Place], Value]) -> Value:
    return _Method(at, call)


@mutable_record
class Scope:
    path: str
    dot: Value
    variables: dict[str, Value]
    parent: Scope | None = None

    def child(self) -> Scope:
        return Scope(self.path, self.dot, {}, self)

    def get(self, name: str, at: Place) -> Value:
        scope: Scope | None = self
        while scope is not None:
            if name in scope.variables:
                return scope.variables[name]
            scope = scope.parent
        return Unk(at, name, "not-rendered")

    def set(self, name: str, value: Value, *, declare: bool) -> None:
        scope: Scope | None = self
        while scope is not None and not declare:
            if name in scope.variables:
                scope.variables[name] = value
                return
            scope = scope.parent
        self.variables[name] = value


def get_field(value: Value, name: str, at: Place) -> Value:
    if isinstance(value, Map):
        found = value.data.get(name)
        return found if found is not None else Const(at, None)
    if isinstance(value, Unk):
        return Unk(at, f"{value.name}.{name}", value.why)
    return Const(at, None)


def truth(value: Value) -> bool:
    """Go's truth: false, 0, empty and nil are false; what is unknown counts as given."""
    if isinstance(value, Rich):
        return bool(value.text)
    if isinstance(value, (Map, Seq)):
        return bool(value.data)
    return bool(value.value) if isinstance(value, Const) else True


def show(value: Value) -> str:
    """What ``{{ value }}`` prints; nil prints nothing, as Helm has it."""
    if isinstance(value, Rich):
        return value.text
    if isinstance(value, Unk):
        return mark(value.name, value.why)
    if isinstance(value, Const):
        if isinstance(value.value, bool):
            return "true" if value.value else "false"
        if isinstance(value.value, float) and value.value.is_integer() and abs(value.value) < 1e15:
            return str(int(value.value))
        return "" if value.value is None else str(value.value)
    if isinstance(value, Seq):
        return "[" + " ".join(show(v) for v in value.data) + "]"
    if isinstance(value, Map):
        return "map[" + " ".join(f"{k}:{show(v)}" for k, v in value.data.items()) + "]"
    return mark(None, "not-rendered")


def relocate(launch: Launch, virtual: str, lines: Sequence[Line]) -> Launch:
    """A launch found in rendered text: the launch at its template's line, each word at the line that spells its value."""

    def line_of(number: int) -> Line | None:
        return lines[min(max(number, 1), len(lines)) - 1] if lines else None

    def change(word: Word) -> Word:
        found = line_of(word.line) if word.path == virtual else None
        text = word.text or ""
        word = base.settled(word)
        if found is None:
            return word
        place = found.deep
        for inserted, where in found.inserts:
            bare = inserted.strip().strip("\"'")
            if (
                bare
                and not has_mark(bare)
                and (text == bare or text.endswith(("=" + bare, ":" + bare)) or (bare in text and len(bare) > 3))
            ):
                place = where
        return dataclasses.replace(word, path=place[0], line=place[1], starts=())

    top = line_of(launch.line) if launch.path == virtual else None
    moved = map_words(launch, change)
    mounted = {}
    for name, (text, path, number) in launch.mounted.items():
        found = line_of(number) if path == virtual else None
        mounted[name] = (text, *(found.deep if found else (path, number)))
    return dataclasses.replace(
        moved,
        path=top.top[0] if top else launch.path,
        line=top.top[1] if top else launch.line,
        mounted=mounted,
        name=_tidy(moved.name),
        qualifier=_tidy(moved.qualifier) if moved.qualifier else moved.qualifier,
    )


def _tidy(name: str) -> str:
    """A name without the parts that only an installation knows (the release's name)."""
    return name.replace("?", "").strip("-_. ") or name
