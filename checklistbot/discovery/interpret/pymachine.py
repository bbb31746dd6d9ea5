"""Walks a Python file and computes what its commands will be. Nothing is executed or imported.

The module body runs as ``__main__``; calls go into functions of the same tree; what comes from outside is an ``Ext`` or an ``Unk``.
A condition that cannot be decided runs both ways, and what differs afterwards is unknown ("ambiguous"). Unset environment
variables and options without a default count as absent in conditions, as the launchers mean them. Steps, depth and sizes are
bounded; past the bound evaluation stops and what was found stays.
"""

from __future__ import annotations

import ast
import posixpath
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import field
from functools import lru_cache
from typing import Any, Final

from checklistbot.discovery.interpret.marks import Place, has_mark, mark, without_marks
from checklistbot.discovery.interpret.pyvalues import (
    NOTHING,
    Bound,
    Cell,
    Cls,
    Const,
    Ext,
    Func,
    Inst,
    Map,
    Method,
    Module,
    Obj,
    Scope,
    Seq,
    Unk,
    Value,
)
from checklistbot.discovery.limits import allowance, modules, spend
from checklistbot.discovery.tree import Tree, Unreadable
from checklistbot.record import mutable_record

#: The hungriest labelled launcher takes 200.
STEPS: Final = 30_000
DEPTH: Final = 40
ITERATIONS: Final = 256
MAX_MODULES: Final = 40
MAX_TEXT: Final = 200_000
MAX_ITEMS: Final = 5_000


class Exhausted(Exception):
    """The budget is used up."""


class Leave(Exception):
    """Control leaves a block: return, break, continue, raise."""

    def __init__(self, kind: str, value: Value | None = None) -> None:
        super().__init__(kind)
        self.kind = kind
        self.value = value


def _is_classvar(annotation: ast.expr) -> bool:
    outer = annotation.value if isinstance(annotation, ast.Subscript) else annotation
    text = outer.value if isinstance(outer, ast.Constant) else getattr(outer, "id", getattr(outer, "attr", ""))
    return isinstance(text, str) and "ClassVar" in text[:20]


@lru_cache(maxsize=64)
def _parsed(text: str) -> list[ast.stmt]:
    """A module's statements: in a package the same few modules are imported by each entry file."""
    return ast.parse(without_marks(text)).body


@mutable_record
class Call:
    """One call of something outside the tree, for the sinks."""

    name: str
    args: list[Value]
    kwargs: dict[str, Value]
    at: Place
    receiver: Value | None
    spread: bool


@mutable_record
class Frame:
    scope: Scope
    path: str
    line: int = 0
    cls: Cls | None = None
    receiver: Value | None = None
    body_of: Cls | None = None
    func: Func | None = None
    yields: list[Value] | None = None
    alternatives: list[Value] = field(default_factory=list)


Hook = Callable[["Machine", Call], "Value | None"]


class Machine:
    """One evaluation: the entry file and whatever it imports from the tree."""

    def __init__(self, tree: Tree, entry: str, hook: Hook) -> None:
        self.tree = tree
        self.entry = entry
        self.hook = hook
        self.steps = self._granted = STEPS
        self.frames: list[Frame] = []
        self.modules: dict[str, Module | None] = {}
        self.reached: set[int] = set()
        self.functions: list[Func] = []
        self.files: dict[str, Value] = {}
        #: Names of parameters that nobody filled in and that went into a text.
        self.parameters: set[str] = set()
        self.found = modules()
        self._journals: list[dict[int, tuple[Cell, Any]]] = []

    # --- places and state ---------------------------------------------------------------------------------------------

    @property
    def frame(self) -> Frame:
        return self.frames[-1]

    def place(self, node: ast.AST) -> Place:
        return (self.frame.path, getattr(node, "lineno", self.frame.line) or 1)

    def entry_place(self) -> Place:
        """The innermost line of the entry file that led here."""
        for frame in reversed(self.frames):
            if frame.path == self.entry:
                return (frame.path, frame.line or 1)
        return (self.entry, 1)

    def step(self) -> None:
        self.steps -= 1
        if self.steps <= 0:
            raise Exhausted

    def grant(self, steps: int) -> None:
        """At most so many steps, fewer where the common store runs low, and always the few that a plain launcher needs."""
        self.steps = self._granted = allowance(steps)

    def settle(self) -> None:
        """The evaluation is over: what it took leaves the common store."""
        spend(self._granted - self.steps)

    def touch(self, cell: Cell) -> None:
        """Remember a cell's state before it changes, for branches that are merged or undone."""
        if self._journals:
            journal = self._journals[-1]
            if id(cell) not in journal:
                journal[id(cell)] = (cell, cell.data.copy())

    def set_name(self, name: str, value: Value, scope: Scope | None = None) -> None:
        scope = scope or self.frame.scope
        self.touch(scope)
        scope.data[name] = value

    def lookup(self, name: str) -> Value | None:
        scope: Scope | None = self.frame.scope
        while scope is not None:
            if name in scope.data:
                return scope.data[name]
            scope = scope.parent
        return None

    def _undo(self, journal: dict[int, tuple[Cell, Any]]) -> dict[int, tuple[Cell, Any]]:
        """Put the cells back as they were; gives their state as the branch left it."""
        after = {}
        for key, (cell, before) in journal.items():
            after[key] = (cell, cell.data)
            cell.data = before
        return after

    # --- modules ------------------------------------------------------------------------------------------------------

    def run_entry(self, body: list[ast.stmt]) -> Scope:
        """The entry file as ``__main__``, then its functions and methods that nothing called."""
        scope = Scope({"__name__": Const((self.entry, 1), "__main__"), "__file__": Const((self.entry, 1), self.entry)})
        self._run_module(scope, self.entry, body)
        return scope

    def _run_module(self, scope: Scope, path: str, body: list[ast.stmt]) -> None:
        self.frames.append(Frame(scope, path))
        try:
            for statement in body:
                try:
                    self.statement(statement)
                except Leave:
                    break
        finally:
            self.frames.pop()

    def module(self, path: str) -> Module | None:
        """A module of the tree, run once; None where it cannot be read."""
        if path not in self.modules:
            self.modules[path] = None
            if len(self.modules) <= MAX_MODULES and len(self.frames) < DEPTH:
                body = self.parse(path)
                if body is not None:
                    name = posixpath.splitext(posixpath.basename(path))[0]
                    scope = Scope({"__name__": Const((path, 1), name), "__file__": Const((path, 1), path)})
                    self.modules[path] = Module((path, 1), name, scope)
                    self._run_module(scope, path, body)
        return self.modules[path]

    def parse(self, path: str) -> list[ast.stmt] | None:
        try:
            return _parsed(self.tree.read(path))
        except (Unreadable, SyntaxError, ValueError, RecursionError, MemoryError):
            return None

    def find_module(self, dotted: str, level: int) -> str | None:
        """The tree's file of a module name, searched beside the importing file, above it, and under src/."""
        here = posixpath.dirname(self.frame.path)
        key = (here, dotted, level)
        if key not in self.found:
            self.found[key] = self._search(here, dotted, level)
        found = self.found[key]
        return self._search(here, dotted, level, self.frame.path) if found == self.frame.path else found

    def _search(self, here: str, dotted: str, level: int, but: str = "") -> str | None:
        relative = dotted.replace(".", "/")
        if level:
            folder = here
            for _ in range(level - 1):
                folder = posixpath.dirname(folder)
            folders = [folder]
        else:
            folders = [here]
            while folders[-1]:
                folders.append(posixpath.dirname(folders[-1]))
            folders += ["src"]
        for folder in folders:
            base = posixpath.join(folder, relative) if relative else folder
            for path in (f"{base}.py", posixpath.join(base, "__init__.py")):
                if path != but and self.tree.exists(path):
                    return path
        return None

    # --- statements ---------------------------------------------------------------------------------------------------

    def block(self, body: Iterable[ast.stmt]) -> None:
        for statement in body:
            self.statement(statement)

    def statement(self, node: ast.stmt) -> None:
        self.step()
        self.frame.line = node.lineno
        method = getattr(self, f"do_{type(node).__name__}", None)
        if method is not None:
            method(node)

    def do_Expr(self, node: ast.Expr) -> None:
        self.eval(node.value)

    def do_Assign(self, node: ast.Assign) -> None:
        value = self.eval(node.value)
        for target in node.targets:
            self.assign(target, value)

    def do_AnnAssign(self, node: ast.AnnAssign) -> None:
        body_of = self.frame.body_of
        if isinstance(node.target, ast.Name) and body_of is not None and not _is_classvar(node.annotation):
            body_of.fields.append(node.target.id)
        if node.value is not None:
            self.assign(node.target, self.eval(node.value))

    def do_AugAssign(self, node: ast.AugAssign) -> None:
        load = ast.copy_location(_as_load(node.target), node)
        current = self.eval(load)
        value = self.eval(node.value)
        if isinstance(node.op, ast.Add) and isinstance(current, Seq) and current.kind == "list":
            self.touch(current)
            current.data = [*current.data, *self.items(value)][:MAX_ITEMS]
            return
        if isinstance(node.op, ast.BitOr) and isinstance(current, Map) and isinstance(value, Map):
            self.touch(current)
            current.data = {**current.data, **value.data}
            return
        self.assign(node.target, self.binary(node.op, current, value, self.place(node)))

    def do_Delete(self, node: ast.Delete) -> None:
        for target in node.targets:
            if isinstance(target, ast.Subscript):
                owner, key = self.eval(target.value), self.known(self.eval(target.slice))
                if isinstance(owner, Map) and _hashable(key) and key in owner.data:
                    self.touch(owner)
                    del owner.data[key]

    def do_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            path = self.find_module(alias.name, 0)
            module = self.module(path) if path else None
            if module is not None and alias.asname:
                self.set_name(alias.asname, module)
            elif module is not None and "." not in alias.name:
                self.set_name(alias.name, module)
            else:
                name = alias.name if alias.asname else alias.name.split(".")[0]
                self.set_name(alias.asname or name, Ext(self.place(node), name))

    def do_ImportFrom(self, node: ast.ImportFrom) -> None:
        base = node.module or ""
        path = self.find_module(base, node.level) if base or node.level else None
        module = self.module(path) if path else None
        for alias in node.names:
            name = alias.asname or alias.name
            if alias.name == "*":
                if module is not None:
                    for key, value in list(module.scope.data.items()):
                        if not key.startswith("_"):
                            self.set_name(key, value)
                continue
            if module is not None and alias.name in module.scope.data:
                self.set_name(name, module.scope.data[alias.name])
                continue
            below = self.find_module(f"{base}.{alias.name}" if base else alias.name, node.level)
            found = self.module(below) if below else None
            self.set_name(name, found or Ext(self.place(node), f"{base}.{alias.name}".lstrip(".")))

    def do_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        func = self.make_function(node)
        if any(isinstance(d, ast.Name) and d.id == "property" for d in node.decorator_list):
            func.decorators.append(Ext(func.at, "property"))
        self.functions.append(func)
        self.set_name(node.name, func)

    do_AsyncFunctionDef = do_FunctionDef

    def make_function(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> Func:
        defaults = [self.eval(default) for default in node.args.defaults]
        keyword = {
            argument.arg: self.eval(default)
            for argument, default in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
            if default is not None
        }
        decorators = [self.eval(d) for d in getattr(node, "decorator_list", [])]
        scope = self.frame.scope
        owner = self.frame.body_of
        if owner is not None:
            scope = scope.parent or scope
        return Func(
            self.place(node), node, scope, self.frame.path, defaults, keyword, decorators, owner, self.frame.func
        )

    def do_ClassDef(self, node: ast.ClassDef) -> None:
        bases = [self.eval(base) for base in node.bases if not isinstance(base, ast.Starred)]
        cls = Cls(self.place(node), node.name, bases, {}, [])
        scope = Scope(cls.data, self.frame.scope)
        self.frames.append(Frame(scope, self.frame.path, node.lineno, body_of=cls))
        try:
            self.block(node.body)
        finally:
            frame = self.frames.pop()
        cls.data = frame.scope.data
        cls.decorators = [self.eval(d) for d in node.decorator_list]
        self.set_name(node.name, cls)

    def do_Return(self, node: ast.Return) -> None:
        raise Leave("return", self.eval(node.value) if node.value else Const(self.place(node), None))

    def do_Raise(self, node: ast.Raise) -> None:
        raise Leave("raise")

    def do_Break(self, node: ast.Break) -> None:
        raise Leave("break")

    def do_Continue(self, node: ast.Continue) -> None:
        raise Leave("continue")

    def do_If(self, node: ast.If) -> None:
        truth = self.truth(self.eval(node.test))
        if truth is not None:
            self.block(node.body if truth else node.orelse)
        else:
            self.either(lambda: self.block(node.body), lambda: self.block(node.orelse), self.place(node))

    def do_Match(self, node: ast.Match) -> None:
        subject = self.known(self.eval(node.subject))
        if subject is NOTHING:
            for case in node.cases:
                self.either(lambda body=case.body: self.block(body), lambda: None, self.place(node))  # type: ignore[misc]
            return
        for case in node.cases:
            if self._matches(case.pattern, subject):
                self.block(case.body)
                return

    def _matches(self, pattern: ast.pattern, subject: Any) -> bool:
        if isinstance(pattern, ast.MatchValue):
            return bool(self.known(self.eval(pattern.value)) == subject)
        if isinstance(pattern, ast.MatchOr):
            return any(self._matches(p, subject) for p in pattern.patterns)
        return isinstance(pattern, ast.MatchAs) and pattern.pattern is None

    def either(self, first: Callable[[], None], second: Callable[[], None], at: Place) -> None:
        """Run two branches from the same state; keep what they agree on."""
        outcomes: list[Leave | None] = []
        states: list[dict[int, tuple[Cell, Any]]] = []
        for branch in (first, second):
            self._journals.append({})
            leave = None
            try:
                branch()
            except Leave as caught:
                leave = caught
            except RecursionError:
                leave = None
            finally:
                states.append(self._undo(self._journals.pop()))
            outcomes.append(leave)
        self._settle(outcomes, states, at)

    def _settle(self, outcomes: list[Leave | None], states: list[dict[int, tuple[Cell, Any]]], at: Place) -> None:
        left, right = outcomes
        if left is not None and right is not None:
            if left.kind == "return" and right.kind == "return" and left.value and right.value:
                raise Leave("return", self.merge(left.value, right.value))
            raise left if left.kind == "return" else right
        for outcome, other in ((left, states[1]), (right, states[0])):
            if outcome is not None:
                # One way out: what follows happens only on the other way.
                if outcome.kind == "return" and outcome.value is not None:
                    self.frame.alternatives.append(outcome.value)
                for cell, data in other.values():
                    self.touch(cell)
                    cell.data = data
                return
        for key in {**states[0], **states[1]}:
            cell = (states[0].get(key) or states[1][key])[0]
            before = cell.data
            after = [state[key][1] if key in state else before for state in states]
            self.touch(cell)
            cell.data = self._merge_data(after[0], after[1], at)

    def _merge_data(self, left: Any, right: Any, at: Place) -> Any:
        if isinstance(left, dict):
            return {
                key: _named(self.merge(left[key], right[key]), key)
                if key in left and key in right
                else self._maybe(left.get(key) or right[key])
                for key in [*left, *(k for k in right if k not in left)]
            }
        return self._merge_lists(left, right)

    def _maybe(self, value: Value) -> Value:
        """A name that only one way sets: functions, classes and imports stay, data may be absent."""
        if isinstance(value, (Const, Unk)):
            return Unk(value.at, getattr(value, "name", None), "ambiguous")
        return value

    def _merge_lists(self, left: list[Value], right: list[Value]) -> list[Value]:
        if len(left) == len(right):
            return [self.merge(a, b) for a, b in zip(left, right, strict=True)]
        short, long = sorted((left, right), key=len)
        same = 0
        while same < len(short) and self.same(short[same], long[same]):
            same += 1
        return (
            [*short, *self._optional(long[same:])]
            if same == len(short)
            else [*short[:same], *self._optional(long[same:])]
        )

    def _optional(self, words: list[Value]) -> list[Value]:
        """Words that may or may not be passed: the flag's name stays, its value is unknown, a bare switch is left out."""
        kept: list[Value] = []
        for index, word in enumerate(words):
            text = word.value if isinstance(word, Const) else None
            following = words[index + 1] if index + 1 < len(words) else None
            if isinstance(text, str) and text.startswith("-"):
                if "=" in text:
                    flag = text.partition("=")[0]
                    kept.append(Const(word.at, f"{flag}={mark(flag, 'ambiguous')}"))
                elif following is not None and not (
                    isinstance(following, Const) and str(following.value).startswith("-")
                ):
                    kept += [word, Unk(following.at, text, "ambiguous")]
        return kept

    def same(self, left: Value, right: Value) -> bool:
        if left is right:
            return True
        if isinstance(left, Const) and isinstance(right, Const):
            return type(left.value) is type(right.value) and bool(left.value == right.value)
        if isinstance(left, Unk) and isinstance(right, Unk):
            return left.name is not None and left.name == right.name and left.why == right.why
        return (
            isinstance(left, Seq)
            and isinstance(right, Seq)
            and len(left.data) == len(right.data)
            and all(self.same(a, b) for a, b in zip(left.data, right.data, strict=True))
        )

    def merge(self, left: Value, right: Value) -> Value:
        """One value for two that may hold."""
        self.step()
        if self.same(left, right):
            return left
        if isinstance(left, Seq) and isinstance(right, Seq):
            return Seq(left.at, self._merge_lists(left.data, right.data), left.kind)
        if isinstance(left, Map) and isinstance(right, Map):
            return Map(left.at, self._merge_data(left.data, right.data, left.at), left.open or right.open)
        name = next((v.name for v in (left, right) if isinstance(v, Unk) and v.name), None)
        return Unk(left.at, name, "ambiguous")

    def rehearse(self, body: Callable[[], None]) -> None:
        """Run a body that may run any number of times: sinks in it count, its changes do not."""
        self._journals.append({})
        try:
            body()
        except Leave as leave:
            if leave.kind == "return" and leave.value is not None:
                self.frame.alternatives.append(leave.value)
        finally:
            self._undo(self._journals.pop())

    def do_For(self, node: ast.For | ast.AsyncFor) -> None:
        iterable = self.eval(node.iter)
        items = self.known_items(iterable)
        if items is None:
            unknown = Unk(self.place(node), ast.unparse(node.target)[:80])

            def once() -> None:
                self.assign(node.target, unknown)
                self.block(node.body)

            self.rehearse(once)
            return
        for item in items[:ITERATIONS]:
            try:
                self.assign(node.target, item)
                self.block(node.body)
            except Leave as leave:
                if leave.kind == "break":
                    return
                if leave.kind != "continue":
                    raise
        self.block(node.orelse)

    do_AsyncFor = do_For

    def do_While(self, node: ast.While) -> None:
        always = isinstance(node.test, ast.Constant)
        for _ in range(2 if always else ITERATIONS):
            truth = self.truth(self.eval(node.test))
            if truth is None:
                self.rehearse(lambda: self.block(node.body))
                return
            if not truth:
                break
            try:
                self.block(node.body)
            except Leave as leave:
                if leave.kind == "break":
                    return
                if leave.kind != "continue":
                    raise

    def do_Try(self, node: ast.Try) -> None:
        try:
            self.block(node.body)
            self.block(node.orelse)
        except Leave as leave:
            if leave.kind != "raise" or not node.handlers:
                self.block(node.finalbody)
                raise
            self.block(node.handlers[0].body)
        self.block(node.finalbody)

    do_TryStar = do_Try

    def do_With(self, node: ast.With | ast.AsyncWith) -> None:
        for item in node.items:
            value = self.eval(item.context_expr)
            if item.optional_vars is not None:
                self.assign(item.optional_vars, value)
        self.block(node.body)

    do_AsyncWith = do_With

    def do_Global(self, node: ast.Global) -> None:
        scope = self.frame.scope
        root = scope
        while root.parent is not None:
            root = root.parent
        for name in node.names:
            if name in root.data and root is not scope:
                scope.data.setdefault(name, root.data[name])

    # --- assignment ---------------------------------------------------------------------------------------------------

    def assign(self, target: ast.expr, value: Value) -> None:
        if isinstance(target, ast.Name):
            self.set_name(target.id, value)
        elif isinstance(target, (ast.Tuple, ast.List)):
            self._unpack(target.elts, value)
        elif isinstance(target, ast.Attribute):
            self.set_attribute(self.eval(target.value), target.attr, value)
        elif isinstance(target, ast.Subscript):
            self.set_item(self.eval(target.value), self.eval(target.slice), value)
        elif isinstance(target, ast.Starred):
            self.assign(target.value, value)

    def _unpack(self, targets: list[ast.expr], value: Value) -> None:
        items = self.known_items(value)
        star = next((i for i, t in enumerate(targets) if isinstance(t, ast.Starred)), None)
        if items is not None and star is not None and len(items) >= len(targets) - 1:
            tail = len(targets) - star - 1
            middle = Seq(value.at, items[star : len(items) - tail])
            items = [*items[:star], middle, *items[len(items) - tail :]]
        for index, target in enumerate(targets):
            known = items is not None and index < len(items)
            self.assign(target, items[index] if known and items else Unk(value.at, ast.unparse(target)[:80]))

    def set_attribute(self, owner: Value, name: str, value: Value) -> None:
        if isinstance(owner, (Inst, Obj, Cls)):
            self.touch(owner)
            owner.data[name] = value
        elif isinstance(owner, Module):
            self.set_name(name, value, owner.scope)

    def set_item(self, owner: Value, key: Value, value: Value) -> None:
        known = self.known(key)
        if isinstance(owner, Ext) and owner.name == "os.environ":
            self.files[f"env:{known}"] = value
        if isinstance(owner, Map):
            self.touch(owner)
            if _hashable(known):
                owner.data[known] = value
            else:
                owner.open = True
        elif isinstance(owner, Seq) and isinstance(known, int) and -len(owner.data) <= known < len(owner.data):
            self.touch(owner)
            owner.data[known] = value

    # --- expressions --------------------------------------------------------------------------------------------------

    def eval(self, node: ast.expr) -> Value:
        self.step()
        if len(self.frames) > DEPTH:
            return Unk(self.place(node))
        method = getattr(self, f"on_{type(node).__name__}", None)
        if method is None:
            return Unk(self.place(node))
        value: Value = method(node)
        return value

    def known(self, value: Value) -> Any:
        """The plain value of a constant, of an unknown what it is assumed to be, else NOTHING."""
        if isinstance(value, Const):
            return NOTHING if isinstance(value.value, str) and has_mark(value.value) else value.value
        if isinstance(value, Unk):
            return value.assumed
        if isinstance(value, Inst) and "value" in value.data and "name" in value.data:
            return self.known(value.data["value"])
        if isinstance(value, Seq) and value.kind == "tuple":
            parts = [self.known(item) for item in value.data]
            return NOTHING if NOTHING in parts else tuple(parts)
        return NOTHING

    def truth(self, value: Value) -> bool | None:
        if isinstance(value, Const) and isinstance(value.value, str) and has_mark(value.value):
            return True
        known = self.known(value)
        if known is not NOTHING:
            return bool(known)
        if isinstance(value, Seq):
            return bool(value.data)
        if isinstance(value, Map):
            return True if value.data else (None if value.open else False)
        return None if isinstance(value, (Unk, Obj)) else True

    def text(self, value: Value) -> str:
        """The value as ``str()`` gives it, with a mark for what is unknown."""
        if isinstance(value, Const):
            return str(value.value)[:MAX_TEXT]
        if isinstance(value, Unk):
            if value.kind == "parameter" and value.name:
                self.parameters.add(value.name)
            return mark(value.name, value.why)
        if isinstance(value, Obj) and value.name.endswith("Path") and "path" in value.data:
            return self.text(value.data["path"])
        if isinstance(value, Inst) and "value" in value.data:
            return self.text(value.data["value"])
        return mark(getattr(value, "name", None))

    def known_items(self, value: Value) -> list[Value] | None:
        """What iterating gives, None where it is unknown."""
        if isinstance(value, Seq):
            return list(value.data)
        if isinstance(value, Map):
            return None if value.open and not value.data else [Const(value.at, key) for key in value.data]
        if isinstance(value, Const) and isinstance(value.value, str) and not has_mark(value.value):
            return [Const(value.at, c) for c in value.value[:ITERATIONS]]
        if isinstance(value, Cls):
            return [self.attribute(value, n, value.at) for n in value.data if not n.startswith("_")]
        return [] if isinstance(value, Unk) and value.assumed is None else None

    def items(self, value: Value) -> list[Value]:
        """What iterating gives; an unknown sequence gives one unknown item."""
        found = self.known_items(value)
        return [Unk(value.at, getattr(value, "name", None))] if found is None else found

    def on_Constant(self, node: ast.Constant) -> Value:
        value = node.value
        if isinstance(value, (str, int, float, bool)) or value is None:
            return Const(self.place(node), value)
        return Unk(self.place(node))

    def on_Name(self, node: ast.Name) -> Value:
        value = self.lookup(node.id)
        return value if value is not None else Ext(self.place(node), node.id)

    def on_NamedExpr(self, node: ast.NamedExpr) -> Value:
        value = self.eval(node.value)
        self.assign(node.target, value)
        return value

    def on_List(self, node: ast.List) -> Value:
        return Seq(self.place(node), list(self._elements(node.elts)))

    def on_Tuple(self, node: ast.Tuple) -> Value:
        return Seq(self.place(node), list(self._elements(node.elts)), "tuple")

    def on_Set(self, node: ast.Set) -> Value:
        return Seq(self.place(node), list(self._elements(node.elts)), "set")

    def _elements(self, nodes: Iterable[ast.expr]) -> Iterator[Value]:
        for node in nodes:
            if isinstance(node, ast.Starred):
                yield from self.items(self.eval(node.value))
            else:
                yield self.eval(node)

    def on_Dict(self, node: ast.Dict) -> Value:
        found = Map(self.place(node), {})
        for key, item in zip(node.keys, node.values, strict=True):
            value = self.eval(item)
            if key is None:
                self.update(found, value)
                continue
            known = self.known(self.eval(key))
            if _hashable(known):
                found.data[known] = value
            else:
                found.open = True
        return found

    def update(self, target: Map, value: Value) -> None:
        self.touch(target)
        if isinstance(value, Map):
            target.data = {**target.data, **value.data}
            target.open = target.open or value.open
        elif isinstance(value, Inst):
            target.data = {**target.data, **value.data}
        elif not (isinstance(value, Unk) and value.assumed is None):
            target.open = True

    def on_JoinedStr(self, node: ast.JoinedStr) -> Value:
        if len(node.values) == 1 and isinstance(node.values[0], ast.FormattedValue):
            value = self.eval(node.values[0].value)
            if isinstance(value, Unk):
                return value
        return glue(list(self._pieces(node)), self.place(node))

    def _pieces(self, node: ast.JoinedStr) -> Iterator[Piece]:
        """The parts of an f-string; a literal of several lines counts its lines from the string's first."""
        place = self.place(node)
        last = getattr(node, "end_lineno", place[1]) or place[1]
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                value = self.eval(part.value)
                spec = part.format_spec
                shape = "".join(p[0] for p in self._pieces(spec)) if isinstance(spec, ast.JoinedStr) else ""
                yield self.formatted(value, shape, part.conversion), value.at, ()
            elif isinstance(part, ast.Constant):
                text = str(part.value)
                yield (
                    text,
                    place,
                    tuple((m.end(), min(place[1] + n, last)) for n, m in enumerate(re.finditer("\n", text), 1)),
                )
                place = (place[0], min(place[1] + text.count("\n"), last))

    def formatted(self, value: Value, spec: str, conversion: int = -1) -> str:
        known = self.known(value)
        if isinstance(value, Const) and known is not NOTHING and len(spec) < 20 and not _wide(spec):
            shown = repr(known) if conversion == 114 else str(known) if conversion == 115 else known
            try:
                return format(shown, spec)
            except (ValueError, TypeError):
                return mark(None)
        return self.text(value)

    def on_FormattedValue(self, node: ast.FormattedValue) -> Value:
        return self.eval(node.value)

    def on_BoolOp(self, node: ast.BoolOp) -> Value:
        stop = isinstance(node.op, ast.Or)
        value: Value = Const(self.place(node), None)
        maybe: Value | None = None
        for part in node.values:
            value = self.eval(part)
            truth = self.truth(value)
            if truth is None:
                maybe = maybe or value
            elif truth is stop:
                break
        if maybe is None or maybe is value:
            return value
        if not stop and self.truth(value) is False:
            return value
        return Unk(self.place(node), getattr(maybe, "name", None))

    def on_UnaryOp(self, node: ast.UnaryOp) -> Value:
        value = self.eval(node.operand)
        if isinstance(node.op, ast.Not):
            truth = self.truth(value)
            return Unk(self.place(node)) if truth is None else Const(self.place(node), not truth)
        known = self.known(value)
        if isinstance(known, (int, float)) and isinstance(node.op, (ast.USub, ast.UAdd)):
            return Const(value.at, -known if isinstance(node.op, ast.USub) else known)
        return Unk(self.place(node), getattr(value, "name", None))

    def on_BinOp(self, node: ast.BinOp) -> Value:
        return self.binary(node.op, self.eval(node.left), self.eval(node.right), self.place(node))

    def binary(self, op: ast.operator, left: Value, right: Value, at: Place) -> Value:
        from checklistbot.discovery.interpret import pylibrary

        return pylibrary.binary(self, op, left, right, at)

    def on_Compare(self, node: ast.Compare) -> Value:
        from checklistbot.discovery.interpret import pylibrary

        left = self.eval(node.left)
        for op, comparator in zip(node.ops, node.comparators, strict=True):
            right = self.eval(comparator)
            truth = pylibrary.compare(self, op, left, right)
            if truth is None:
                return Unk(self.place(node), getattr(left, "name", None))
            if not truth:
                return Const(self.place(node), False)
            left = right
        return Const(self.place(node), True)

    def on_IfExp(self, node: ast.IfExp) -> Value:
        truth = self.truth(self.eval(node.test))
        if truth is None:
            return self.merge(self.eval(node.body), self.eval(node.orelse))
        return self.eval(node.body if truth else node.orelse)

    def on_Lambda(self, node: ast.Lambda) -> Value:
        return self.make_function(node)

    def on_Await(self, node: ast.Await) -> Value:
        return self.eval(node.value)

    def on_Yield(self, node: ast.Yield) -> Value:
        value = self.eval(node.value) if node.value else Const(self.place(node), None)
        if self.frame.yields is None:
            self.frame.yields = []
        self.frame.yields.append(value)
        return Unk(self.place(node))

    def on_YieldFrom(self, node: ast.YieldFrom) -> Value:
        if self.frame.yields is None:
            self.frame.yields = []
        self.frame.yields += self.items(self.eval(node.value))
        return Unk(self.place(node))

    def on_Starred(self, node: ast.Starred) -> Value:
        return self.eval(node.value)

    def on_ListComp(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp) -> Value:
        found: list[Value] = []
        self._comprehend(node.generators, lambda: found.append(self.eval(node.elt)))
        return Seq(self.place(node), found)

    on_SetComp = on_ListComp
    on_GeneratorExp = on_ListComp

    def on_DictComp(self, node: ast.DictComp) -> Value:
        found = Map(self.place(node), {})

        def add() -> None:
            key = self.known(self.eval(node.key))
            value = self.eval(node.value)
            if _hashable(key):
                found.data[key] = value
            else:
                found.open = True

        self._comprehend(node.generators, add)
        return found

    def _comprehend(self, generators: list[ast.comprehension], add: Callable[[], None]) -> None:
        scope = Scope({}, self.frame.scope)
        frame = self.frame
        self.frames.append(Frame(scope, frame.path, frame.line, None, frame.receiver))
        try:
            self._generate(generators, add)
        finally:
            self.frames.pop()

    def _generate(self, generators: list[ast.comprehension], add: Callable[[], None]) -> None:
        if not generators:
            add()
            return
        first, *rest = generators
        for item in self.items(self.eval(first.iter))[:ITERATIONS]:
            self.assign(first.target, item)
            if all(self.truth(self.eval(condition)) is not False for condition in first.ifs):
                self._generate(rest, add)

    def on_Attribute(self, node: ast.Attribute) -> Value:
        return self.attribute(self.eval(node.value), node.attr, self.place(node))

    def attribute(self, owner: Value, name: str, at: Place) -> Value:
        from checklistbot.discovery.interpret import pylibrary

        return pylibrary.attribute(self, owner, name, at)

    def on_Subscript(self, node: ast.Subscript) -> Value:
        from checklistbot.discovery.interpret import pylibrary

        owner = self.eval(node.value)
        if isinstance(node.slice, ast.Slice):
            bounds = [
                self.known(self.eval(b)) if b is not None else None
                for b in (node.slice.lower, node.slice.upper, node.slice.step)
            ]
            return pylibrary.slice_of(self, owner, bounds, self.place(node))
        return pylibrary.item(self, owner, self.eval(node.slice), self.place(node))

    def on_Call(self, node: ast.Call) -> Value:
        callee = self.eval(node.func)
        args: list[Value] = []
        spread = False
        for argument in node.args:
            if isinstance(argument, ast.Starred):
                value = self.eval(argument.value)
                spread = spread or self.known_items(value) is None
                args += self.known_items(value) or []
            else:
                args.append(self.eval(argument))
        kwargs: dict[str, Value] = {}
        for keyword in node.keywords:
            value = self.eval(keyword.value)
            if keyword.arg is not None:
                kwargs[keyword.arg] = value
            elif isinstance(value, (Map, Inst)):
                kwargs.update({str(key): item for key, item in value.data.items()})
                spread = spread or (isinstance(value, Map) and value.open)
            else:
                spread = True
        return self.call(callee, args, kwargs, self.place(node), spread)

    def call(
        self, callee: Value, args: list[Value], kwargs: dict[str, Value], at: Place, spread: bool = False
    ) -> Value:
        from checklistbot.discovery.interpret import pylibrary

        self.step()
        if isinstance(callee, Func):
            if callee.decorators and not args and not kwargs:
                kwargs = pylibrary.cli_defaults(self, callee, at)
            return self.call_function(callee, args, kwargs, at)
        if isinstance(callee, Bound):
            return self.call_function(callee.func, [callee.receiver, *args], kwargs, at)
        if isinstance(callee, Cls):
            return pylibrary.instantiate(self, callee, args, kwargs, at)
        if isinstance(callee, Inst) and callee.cls is not None:
            method = pylibrary.class_attribute(self, callee.cls, "__call__")
            if isinstance(method, Func):
                return self.call_function(method, [callee, *args], kwargs, at)
        return pylibrary.call(self, Call(_callee_name(callee), args, kwargs, at, callee, spread))

    # --- functions ----------------------------------------------------------------------------------------------------

    def call_function(self, func: Func, args: list[Value], kwargs: dict[str, Value], at: Place) -> Value:
        self.reached.add(id(func.node))
        if len(self.frames) >= DEPTH:
            return Unk(at, func.name)
        scope = Scope(self.bind(func, args, kwargs, at), func.scope)
        receiver = args[0] if func.owner is not None and args else None
        self.frames.append(Frame(scope, func.path, func.node.lineno, func.owner, receiver, func=func))
        value: Value = Const(at, None)
        try:
            if isinstance(func.node, ast.Lambda):
                value = self.eval(func.node.body)
            else:
                self.block(func.node.body)
        except Leave as leave:
            value = leave.value if leave.kind == "return" and leave.value is not None else Const(at, None)
            if leave.kind == "raise":
                raise
        finally:
            frame = self.frames.pop()
        if frame.yields is not None:
            value = Seq(at, frame.yields)
        for alternative in frame.alternatives:
            if not (isinstance(alternative, Const) and alternative.value is None):
                value = self.merge(value, alternative)
        return self._restamp(value, func, receiver, at)

    def _restamp(self, value: Value, func: Func, receiver: Value | None, at: Place) -> Value:
        """A command built in another file belongs to the line of the entry file that asked for it."""
        if func.path != self.entry and self.frames and self.frame.path == self.entry and isinstance(value, Seq):
            mine = receiver.at if receiver is not None and receiver.at[0] == self.entry else at
            return Seq(mine, value.data, value.kind)
        return value

    def bind(self, func: Func, args: list[Value], kwargs: dict[str, Value], at: Place) -> dict[str, Value]:
        """Arguments to parameters; what is not given and has no default is unknown, and says that it is a parameter."""
        spec = func.node.args
        names = [a.arg for a in [*spec.posonlyargs, *spec.args]]
        bound: dict[str, Value] = dict(zip(names, args, strict=False))
        if spec.vararg:
            bound[spec.vararg.arg] = Seq(at, args[len(names) :], "tuple")
        defaults = dict(zip(names[len(names) - len(func.defaults) :], func.defaults, strict=True))
        rest = {}
        for name, value in kwargs.items():
            if name in names or name in {a.arg for a in spec.kwonlyargs}:
                bound[name] = value
            else:
                rest[name] = value
        if spec.kwarg:
            bound[spec.kwarg.arg] = Map(at, rest)
        for argument in [*spec.posonlyargs, *spec.args, *spec.kwonlyargs]:
            name = argument.arg
            if name not in bound:
                default = defaults.get(name, func.keyword_defaults.get(name))
                bound[name] = self._default(default, argument, at)
        return bound

    def _default(self, default: Value | None, argument: ast.arg, at: Place) -> Value:
        if isinstance(default, Obj) and default.name.split(".")[-1] in ("Option", "Argument", "Query", "Parameter"):
            first = default.args[0] if default.args else default.kwargs.get("default")
            if first is not None and not (
                isinstance(first, (Ext, Const)) and getattr(first, "value", "…") in ("…", Ellipsis)
            ):
                return first
            return Unk(at, argument.arg)
        if default is not None:
            if isinstance(default, Const) and default.value is None:
                return Unk(default.at, argument.arg, assumed=None)
            return default
        return Unk(at, argument.arg, kind="parameter")


#: A piece of a text, its place, and where further lines of it begin.
Piece = tuple[str, Place, tuple[tuple[int, int], ...]]


def glue(pieces: list[Piece], at: Place) -> Const:
    """Pieces as one string that knows the line of each."""
    text, starts = "", []
    for part, place, inner in pieces:
        if part and place[0] == at[0]:
            starts.append((len(text), place[1]))
            starts += [(len(text) + offset, line) for offset, line in inner]
        text += part
        if len(text) > MAX_TEXT:
            break
    several = len({line for _, line in starts}) > 1
    return Const(at, text[:MAX_TEXT], tuple(starts) if several else ())


def _callee_name(callee: Value) -> str:
    if isinstance(callee, (Ext, Unk)):
        return callee.name or ""
    if isinstance(callee, Method):
        owner = callee.receiver
        if isinstance(owner, Obj):
            return f"{owner.name}.{callee.name}"
        if isinstance(owner, Method):
            return f"{_callee_name(owner)}.{callee.name}"[:300]
        return f"{type(owner).__name__}.{callee.name}"
    return ""


def _as_load(target: ast.expr) -> ast.expr:
    if isinstance(target, ast.Name):
        return ast.Name(target.id, ast.Load())
    if isinstance(target, ast.Attribute):
        return ast.Attribute(target.value, target.attr, ast.Load())
    if isinstance(target, ast.Subscript):
        return ast.Subscript(target.value, target.slice, ast.Load())
    return target


def _wide(spec: str) -> bool:
    """True if a format spec asks for a width that only wastes memory."""
    digits = "".join(c if c.isdigit() else " " for c in spec).split()
    return any(int(d) > 200 for d in digits)


def _named(value: Value, name: Any) -> Value:
    """An unknown value takes the name of the variable that holds it."""
    if isinstance(value, Unk) and value.name is None and isinstance(name, str):
        value.name = name
    return value


def _hashable(key: Any) -> bool:
    return key is not NOTHING and isinstance(key, (str, int, float, bool, tuple, type(None)))
