"""What the Python reader knows of Python: operators, methods of strings, lists and dicts, and a fixed list of pure functions.

Every function here is our own; nothing of the reviewed code or of its libraries runs.
"""

from __future__ import annotations

import ast
import contextlib
import json
import math
import operator
import posixpath
import shlex
import textwrap
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from checklistbot.discovery.interpret.marks import Place, has_mark, without_marks
from checklistbot.discovery.interpret.pyvalues import (
    NOTHING,
    Bound,
    Cls,
    Const,
    Ext,
    Func,
    Inst,
    Map,
    Method,
    Module,
    Obj,
    Seq,
    Unk,
    Value,
)
from checklistbot.discovery.limits import TooMuch

if TYPE_CHECKING:
    from checklistbot.discovery.interpret.pymachine import Call, Machine

MAX_TEXT: Final = 200_000
MAX_ITEMS: Final = 5_000
MAX_NUMBER: Final = 2**64

_ARITHMETIC: Final[dict[type[ast.operator], Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.BitOr: operator.or_,
    ast.BitAnd: operator.and_,
    ast.Pow: operator.pow,
}


# --- operators ---------------------------------------------------------------------------------------------------------


def binary(machine: Machine, op: ast.operator, left: Value, right: Value, at: Place) -> Value:
    """``left op right``; the place is that of the operand that states the value."""
    if isinstance(op, ast.Add) and isinstance(left, Seq) and isinstance(right, (Seq, Unk)):
        return Seq(left.at, [*left.data, *machine.items(right)][:MAX_ITEMS], left.kind)
    if isinstance(op, ast.Add) and isinstance(right, Seq) and isinstance(left, Unk):
        return Seq(right.at, [*machine.items(left), *right.data][:MAX_ITEMS], right.kind)
    if isinstance(op, ast.Mult) and isinstance(left, Seq) and isinstance(machine.known(right), int):
        return Seq(left.at, (left.data * min(machine.known(right), 64))[:MAX_ITEMS], left.kind)
    if isinstance(op, ast.BitOr) and isinstance(left, Map) and isinstance(right, Map):
        return Map(left.at, {**left.data, **right.data}, left.open or right.open)
    if isinstance(op, ast.Div) and is_path(left):
        return path_join(machine, [left, right], at)
    if isinstance(op, ast.Mod) and isinstance(left, Const) and isinstance(left.value, str):
        return percent(machine, left, right)
    if isinstance(op, ast.Add) and (_is_text(left) or _is_text(right)):
        return _glued(machine, [left, right], "", left.at)
    return _arithmetic(machine, op, left, right, at)


def _glued(machine: Machine, values: list[Value], separator: str, at: Place) -> Const:
    """Values as one text in which each keeps its line."""
    from checklistbot.discovery.interpret.pymachine import glue

    pieces: list[tuple[str, Place, tuple[tuple[int, int], ...]]] = []
    for index, value in enumerate(values):
        text = machine.text(value)
        inner = value.starts if isinstance(value, Const) else ()
        if isinstance(value, Const) and not inner and "\n" in text:
            inner = tuple(
                (i + 1, value.at[1] + n) for n, i in enumerate((m for m, c in enumerate(text) if c == "\n"), 1)
            )
        if index and separator:
            pieces.append((separator, ("", 0), ()))
        pieces.append((text, value.at, inner))
    return glue(pieces, at)


def _is_text(value: Value) -> bool:
    return isinstance(value, Const) and isinstance(value.value, str)


def _arithmetic(machine: Machine, op: ast.operator, left: Value, right: Value, at: Place) -> Value:
    a, b = machine.known(left), machine.known(right)
    action = _ARITHMETIC.get(type(op))
    if action is not None and _number(a) and _number(b) and not _too_big(op, a, b):
        try:
            value = action(a, b)
        except (ArithmeticError, TypeError, ValueError):
            return Unk(at)
        if isinstance(value, (int, float)) and abs(value) < MAX_NUMBER:
            return Const(left.at, value)
    if isinstance(op, ast.Mult) and isinstance(a, str) and isinstance(b, int):
        return Const(left.at, a * min(b, 100))
    return Unk(at, getattr(left, "name", None) or getattr(right, "name", None))


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and abs(value) < MAX_NUMBER


def _too_big(op: ast.operator, a: Any, b: Any) -> bool:
    return isinstance(op, (ast.Pow, ast.LShift)) and (abs(b) > 64 or abs(a) > 1_000_000)


def percent(machine: Machine, left: Const, right: Value) -> Value:
    """``"…%s…" % value``: each conversion takes the next value."""
    values = list(right.data) if isinstance(right, Seq) and right.kind == "tuple" else [right]
    pieces = str(left.value).split("%")
    out = [pieces[0]]
    skip = False
    for piece in pieces[1:]:
        if skip:
            out.append(piece)
            skip = False
        elif piece == "":
            out.append("%")
            skip = True
        elif piece.startswith("(") and ")" in piece and isinstance(right, Map):
            name, _, rest = piece[1:].partition(")")
            out.append(
                machine.text(right.data.get(name, Unk(left.at, name)))
                + rest.lstrip("0123456789.").lstrip("sdfrgi")[: len(rest)]
            )
        else:
            value = values.pop(0) if values else Unk(left.at)
            number = len(piece) - len(piece.lstrip("0123456789.-+ #"))
            spec = piece[:number] + piece[number : number + 1]
            rest = piece[number + 1 :]
            out.append(machine.formatted(value, spec) if spec[-1:] in "fgde" and spec else machine.text(value))
            out.append(rest)
    return Const(left.at, "".join(out)[:MAX_TEXT])


def compare(machine: Machine, op: ast.cmpop, left: Value, right: Value) -> bool | None:
    """True, False, or None where it cannot be told."""
    if isinstance(op, (ast.In, ast.NotIn)):
        found = _contains(machine, left, right)
        return found if found is None or isinstance(op, ast.In) else not found
    a, b = machine.known(left), machine.known(right)
    if isinstance(op, (ast.Is, ast.IsNot)) and b is None and a is NOTHING and not isinstance(left, (Unk, Obj)):
        return isinstance(op, ast.IsNot)
    if a is NOTHING or b is NOTHING:
        if (
            isinstance(left, Seq)
            and isinstance(right, Seq)
            and isinstance(op, (ast.Eq, ast.NotEq))
            and not left.data + right.data
        ):
            return isinstance(op, ast.Eq)
        return None
    if isinstance(op, (ast.Eq, ast.Is)):
        return bool(a == b)
    if isinstance(op, (ast.NotEq, ast.IsNot)):
        return bool(a != b)
    actions: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
        ast.Lt: operator.lt,
        ast.LtE: operator.le,
        ast.Gt: operator.gt,
        ast.GtE: operator.ge,
    }
    try:
        return bool(actions[type(op)](a, b))
    except (TypeError, KeyError):
        return None


def _contains(machine: Machine, left: Value, right: Value) -> bool | None:
    known = machine.known(left)
    if known is NOTHING:
        return None
    if isinstance(right, Map):
        if known in right.data:
            return True
        return None if right.open and right.missing != "environment" else False
    if isinstance(right, Const) and isinstance(right.value, str) and isinstance(known, str):
        return None if has_mark(right.value) and known not in right.value else known in right.value
    if isinstance(right, Seq):
        members = [machine.known(item) for item in right.data]
        if known in members:
            return True
        return None if NOTHING in members else False
    if isinstance(right, Ext) and right.name == "os.environ":
        return False
    return None


# --- items and attributes ----------------------------------------------------------------------------------------------


def slice_of(machine: Machine, owner: Value, bounds: list[Any], at: Place) -> Value:
    if any(b is not None and not isinstance(b, int) for b in bounds):
        return Unk(at, getattr(owner, "name", None))
    part = slice(*bounds)
    if isinstance(owner, Seq):
        return Seq(owner.at, owner.data[part], owner.kind)
    if isinstance(owner, Const) and isinstance(owner.value, str) and not has_mark(owner.value):
        return Const(owner.at, owner.value[part])
    if isinstance(owner, Ext) and owner.name == "sys.argv":
        return Seq(at, [])
    return Unk(at, getattr(owner, "name", None))


def item(machine: Machine, owner: Value, key: Value, at: Place) -> Value:
    known = machine.known(key)
    if isinstance(owner, Map):
        if known is not NOTHING and known in owner.data:
            return owner.data[known]
        if known is NOTHING and owner.data and not owner.open:
            return _any_of(machine, list(owner.data.values()), at, getattr(key, "name", None))
        return Unk(at, str(known) if known is not NOTHING else getattr(key, "name", None), kind=owner.missing)
    if isinstance(owner, Seq) and isinstance(known, int) and not isinstance(known, bool):
        return owner.data[known] if -len(owner.data) <= known < len(owner.data) else Unk(at)
    if isinstance(owner, Ext) and owner.name == "os.environ":
        written = machine.files.get(f"env:{known}")
        return written or Unk(at, str(known) if isinstance(known, str) else None, kind="environment")
    if isinstance(owner, Ext) and owner.name == "sys.argv":
        return Unk(at, f"argv[{known}]" if isinstance(known, int) else "argv")
    if (
        isinstance(owner, Const)
        and isinstance(owner.value, str)
        and isinstance(known, int)
        and not has_mark(owner.value)
    ):
        return Const(owner.at, owner.value[known]) if -len(owner.value) <= known < len(owner.value) else Unk(at)
    if isinstance(owner, Cls):
        return _enum_member(machine, owner, known) or Unk(at)
    return Unk(at, getattr(owner, "name", None), kind=getattr(owner, "kind", "") if isinstance(owner, Unk) else "")


def _any_of(machine: Machine, values: list[Value], at: Place, name: str | None) -> Value:
    merged = values[0]
    for value in values[1:50]:
        merged = machine.merge(merged, value)
    return Unk(at, name, "ambiguous") if isinstance(merged, Unk) else merged


def _enum_member(machine: Machine, cls: Cls, key: Any) -> Value | None:
    if isinstance(key, str) and key in cls.data:
        return Inst(cls.data[key].at, cls, {"value": cls.data[key], "name": Const(cls.data[key].at, key)})
    return None


def is_enum(cls: Cls) -> bool:
    return any(
        (isinstance(base, Ext) and base.name.endswith("Enum")) or (isinstance(base, Cls) and is_enum(base))
        for base in cls.bases
    )


def class_attribute(machine: Machine, cls: Cls, name: str, depth: int = 0) -> Value | None:
    if name in cls.data:
        return cls.data[name]
    if depth < 20:
        for base in cls.bases:
            found = class_attribute(machine, base, name, depth + 1) if isinstance(base, Cls) else None
            if found is not None:
                return found
    return None


def attribute(machine: Machine, owner: Value, name: str, at: Place) -> Value:
    if isinstance(owner, Ext):
        dotted = f"{owner.name}.{name}"[:300]
        return Const(at, "python3") if dotted == "sys.executable" else Ext(at, dotted)
    if isinstance(owner, Inst):
        return _instance_attribute(machine, owner, name, at)
    if isinstance(owner, Cls):
        found = class_attribute(machine, owner, name)
        if found is not None:
            if is_enum(owner) and isinstance(found, (Const, Seq, Map)):
                return Inst(found.at, owner, {"value": found, "name": Const(found.at, name)})
            if isinstance(found, Func) and any(
                isinstance(d, Ext) and d.name == "classmethod" for d in found.decorators
            ):
                return Bound(at, found, owner)
            return found
        return Const(at, owner.name) if name == "__name__" else Method(at, name, owner)
    if isinstance(owner, Module):
        return owner.scope.data.get(name, Unk(at, name))
    if isinstance(owner, Obj) and name in owner.data:
        return owner.data[name]
    if isinstance(owner, Obj) and owner.name == "super":
        return _super_attribute(machine, name, at)
    if is_path(owner):
        return _path_attribute(machine, owner, name, at)
    if isinstance(owner, Unk):
        return Unk(at, f"{owner.name}.{name}"[:200] if owner.name else name, owner.why, NOTHING, owner.kind)
    return Method(at, name, owner)


def _instance_attribute(machine: Machine, owner: Inst, name: str, at: Place) -> Value:
    if name in owner.data:
        return owner.data[name]
    if name == "__dict__":
        return Map(owner.at, dict(owner.data))
    if owner.cls is not None:
        if name == "__class__":
            return owner.cls
        found = class_attribute(machine, owner.cls, name)
        if isinstance(found, Func):
            kinds = {d.name for d in found.decorators if isinstance(d, Ext)}
            if kinds & {"property", "functools.cached_property", "cached_property", "pydantic.computed_field"}:
                return machine.call_function(found, [owner], {}, at)
            if "staticmethod" in kinds:
                return found
            return Bound(at, found, owner.cls if "classmethod" in kinds else owner)
        if found is not None:
            return found
    if owner.cls is None:
        return Unk(at, name, assumed=None)
    return Method(at, name, owner)


def _super_attribute(machine: Machine, name: str, at: Place) -> Value:
    frame = machine.frames[-1]
    if frame.cls is not None and frame.receiver is not None:
        for base in frame.cls.bases:
            found = class_attribute(machine, base, name) if isinstance(base, Cls) else None
            if isinstance(found, Func):
                return Bound(at, found, frame.receiver)
    return Ext(at, "super")


# --- classes -----------------------------------------------------------------------------------------------------------

_DATA_BASES: Final = ("BaseModel", "BaseSettings", "NamedTuple", "TypedDict", "Struct", "SQLModel", "ConfigBase")
_DATA_DECORATORS: Final = ("dataclass", "define", "frozen", "mutable", "attrs", "attr.s", "s")


def is_data(cls: Cls, depth: int = 0) -> bool:
    """True for a dataclass, a pydantic model, an attrs class, a named tuple."""
    for decorator in cls.decorators:
        name = decorator.name if isinstance(decorator, (Ext, Obj)) else ""
        if name.rsplit(".", 1)[-1] in _DATA_DECORATORS:
            return True
    for base in cls.bases:
        if isinstance(base, Ext) and base.name.rsplit(".", 1)[-1] in _DATA_BASES:
            return True
        if isinstance(base, Cls) and depth < 20 and is_data(base, depth + 1):
            return True
    return False


def all_fields(cls: Cls, depth: int = 0) -> list[str]:
    found: list[str] = []
    if depth < 20:
        for base in cls.bases:
            if isinstance(base, Cls):
                found += all_fields(base, depth + 1)
    return list(dict.fromkeys([*found, *cls.fields]))


def instantiate(machine: Machine, cls: Cls, args: list[Value], kwargs: dict[str, Value], at: Place) -> Value:
    if is_enum(cls):
        wanted = machine.known(args[0]) if args else NOTHING
        for name, value in cls.data.items():
            if isinstance(value, Const) and wanted is not NOTHING and machine.known(value) == wanted:
                return Inst(at, cls, {"value": value, "name": Const(at, name)})
        return Unk(at, cls.name)
    instance = Inst(at, cls, {})
    init = class_attribute(machine, cls, "__init__")
    if isinstance(init, Func):
        machine.call_function(init, [instance, *args], kwargs, at)
        return instance
    names = all_fields(cls)
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    for name in names:
        instance.data[name] = given.pop(name) if name in given else _field_default(machine, cls, name, at)
    instance.data.update(given)
    after = class_attribute(machine, cls, "__post_init__")
    if isinstance(after, Func):
        machine.call_function(after, [instance], {}, at)
    return instance


def _field_default(machine: Machine, cls: Cls, name: str, at: Place) -> Value:
    default = class_attribute(machine, cls, name)
    if default is None:
        return Unk(at, name, kind="parameter")
    if isinstance(default, Const) and default.value is None:
        return Unk(default.at, name, assumed=None)
    if isinstance(default, Obj) and default.name.rsplit(".", 1)[-1] in ("field", "Field", "ib", "attrib", "Factory"):
        if default.args and not default.name.endswith("Factory"):
            return default.args[0]
        if "default" in default.kwargs:
            return default.kwargs["default"]
        factory = default.kwargs.get("default_factory") or default.kwargs.get("factory")
        return machine.call(factory, [], {}, at) if factory is not None else Unk(at, name, kind="parameter")
    return default


# --- paths -------------------------------------------------------------------------------------------------------------


def is_path(value: Value) -> bool:
    return isinstance(value, Obj) and value.name == "pathlib.Path"


def make_path(machine: Machine, text: Value, at: Place) -> Obj:
    return Obj(at, "pathlib.Path", [], {}, None, {"path": text})


def path_join(machine: Machine, parts: list[Value], at: Place) -> Obj:
    texts = [machine.text(part) for part in parts]
    return make_path(machine, Const(parts[0].at, posixpath.join(*texts) if texts else ""), at)


def _path_attribute(machine: Machine, owner: Value, name: str, at: Place) -> Value:
    text = machine.text(owner)
    if name == "parent":
        return make_path(machine, Const(owner.at, posixpath.dirname(text)), at)
    simple = {"name": posixpath.basename(text), "stem": posixpath.splitext(posixpath.basename(text))[0]}
    simple["suffix"] = posixpath.splitext(text)[1]
    return Const(owner.at, simple[name]) if name in simple else Method(at, name, owner)


def read_text(machine: Machine, path: Value, at: Place) -> Value:
    """The text of a file of the tree, named relative to the entry file or to the root; unknown where it is not there."""
    from checklistbot.discovery.tree import Unreadable

    text = machine.text(path)
    if text in machine.files:
        return machine.files[text]
    for base in (posixpath.dirname(machine.entry), ""):
        candidate = posixpath.normpath(posixpath.join(base, text))
        if text.startswith(base + "/") and base:
            candidate = posixpath.normpath(text)
        if not candidate.startswith(("/", "..")) and not has_mark(candidate) and machine.tree.exists(candidate):
            try:
                return Const((candidate, 1), without_marks(machine.tree.read(candidate))[:MAX_TEXT])
            except Unreadable:
                break
    return Unk(at, posixpath.basename(text))


# --- strings, lists, dicts ---------------------------------------------------------------------------------------------


def from_plain(value: Any, at: Place, depth: int = 0) -> Value:
    """JSON-like data as a value."""
    if isinstance(value, dict) and depth < 50:
        return Map(at, {k: from_plain(v, at, depth + 1) for k, v in list(value.items())[:MAX_ITEMS]})
    if isinstance(value, (list, tuple)) and depth < 50:
        return Seq(at, [from_plain(v, at, depth + 1) for v in value[:MAX_ITEMS]])
    if isinstance(value, (str, int, float, bool)) or value is None:
        return Const(at, value)
    return Const(at, str(value))


def to_plain(machine: Machine, value: Value, depth: int = 0) -> Any:
    """A value as JSON-like data, with marks for what is unknown."""
    machine.step()
    if depth > 30:
        return None
    if isinstance(value, Const):
        return value.value
    if isinstance(value, Map):
        return {str(k): to_plain(machine, v, depth + 1) for k, v in value.data.items()}
    if isinstance(value, Seq):
        return [to_plain(machine, v, depth + 1) for v in value.data]
    if isinstance(value, Inst):
        return {k: to_plain(machine, v, depth + 1) for k, v in value.data.items()}
    if isinstance(value, Obj) and value.kwargs:
        return {k: to_plain(machine, v, depth + 1) for k, v in value.kwargs.items()}
    return machine.text(value)


def lines_of(text: Const) -> Callable[[int], Place]:
    """Offset in a string literal of several lines → its line in the file."""
    path, line = text.at
    value = str(text.value)
    if text.starts:
        starts = text.starts
        return lambda offset: (path, next((n for start, n in reversed(starts) if start <= offset), line))
    return lambda offset: (path, line + value.count("\n", 0, offset))


def split_text(machine: Machine, text: Const, separator: str | None, limit: int = -1) -> Seq:
    value, at = str(text.value), lines_of(text)
    items: list[Value] = []
    offset = 0
    for part in value.split(separator, limit)[:MAX_ITEMS]:
        offset = max(value.find(part, offset), 0)
        items.append(Const(at(offset), part))
        offset += len(part)
    return Seq(text.at, items)


def shell_words(machine: Machine, text: Const) -> Seq:
    """``shlex.split`` with the line of each word."""
    value, at = str(text.value), lines_of(text)
    try:
        words = shlex.split(value.replace("\\\n", " \n"), comments=False)
    except ValueError:
        words = value.split()
    items: list[Value] = []
    offset = 0
    for word in words[:MAX_ITEMS]:
        found = value.find(word, offset)
        if found >= 0:
            offset = found
        items.append(Const(at(offset), word))
        offset += len(word) if found >= 0 else 0
    return Seq(text.at, items)


def format_text(machine: Machine, text: Const, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """``str.format`` with constants in, marks for what is unknown, and no attribute access beyond names and items."""
    from string import Formatter

    out: list[str] = []
    automatic = 0
    try:
        parts = list(Formatter().parse(str(text.value)))
    except ValueError:
        return Unk(text.at)
    for literal, name, spec, _ in parts:
        out.append(literal)
        if name is None:
            continue
        head = name.split(".")[0].split("[")[0]
        if head == "":
            head, automatic = str(automatic), automatic + 1
        value = args[int(head)] if head.isdigit() and int(head) < len(args) else kwargs.get(head, Unk(text.at, head))
        for part in name.replace("]", "").replace("[", ".").split(".")[1:]:
            value = (
                item(machine, value, Const(text.at, part), text.at)
                if isinstance(value, Map)
                else machine.attribute(value, part, text.at)
            )
        out.append(machine.formatted(value, spec or ""))
    return Const(text.at, "".join(out)[:MAX_TEXT])


def _text_method(machine: Machine, owner: Const, name: str, call: Call) -> Value:
    value = str(owner.value)
    args = [machine.known(a) for a in call.args]
    if name == "join":
        items = machine.known_items(call.args[0]) if call.args else []
        if items is None:
            return Const(owner.at, machine.text(call.args[0]))
        first = items[0].at if items else owner.at
        return _glued(machine, items, value, first)
    if name == "format":
        return format_text(machine, owner, call.args, call.kwargs)
    if name == "format_map":
        data = call.args[0].data if call.args and isinstance(call.args[0], Map) else {}
        return format_text(machine, owner, [], {str(k): v for k, v in data.items()})
    if name == "split":
        separator = args[0] if args and isinstance(args[0], str) and args[0] else None
        limit = (
            args[1]
            if len(args) > 1 and isinstance(args[1], int)
            else machine.known(call.kwargs.get("maxsplit", Const(owner.at, -1)))
        )
        return split_text(machine, owner, separator, limit if isinstance(limit, int) else -1)
    if name == "splitlines":
        return split_text(machine, owner, "\n")
    if name == "replace" and len(call.args) > 1:
        old, new = machine.text(call.args[0]), machine.text(call.args[1])
        if value.count(old) * len(new) > MAX_TEXT:
            raise TooMuch
        return Const(owner.at, value.replace(old, new)[:MAX_TEXT])
    return _simple_text_method(owner, value, name, args, call.at)


_TEXT_TO_TEXT: Final = frozenset(
    [
        "strip",
        "lstrip",
        "rstrip",
        "lower",
        "upper",
        "title",
        "capitalize",
        "removeprefix",
        "removesuffix",
        "casefold",
        "expandtabs",
        "zfill",
    ]
)
_TEXT_TESTS: Final = frozenset(
    [
        "startswith",
        "endswith",
        "isdigit",
        "isnumeric",
        "isalpha",
        "isalnum",
        "isupper",
        "islower",
        "count",
        "find",
        "index",
    ]
)


def _simple_text_method(owner: Const, value: str, name: str, args: list[Any], at: Place) -> Value:
    if NOTHING in args:
        return Unk(at)
    try:
        if name in _TEXT_TO_TEXT and not any(isinstance(a, int) and a > 300 for a in args):
            return Const(owner.at, getattr(value, name)(*args)[:MAX_TEXT])
        if name in _TEXT_TESTS and (not has_mark(value) or (name == "startswith" and not has_mark(value[:40]))):
            return Const(owner.at, getattr(value, name)(*args))
        if name in ("partition", "rpartition", "rsplit"):
            return from_plain(list(getattr(value, name)(*args)), owner.at)
    except (TypeError, ValueError):
        pass
    return Unk(at)


def _list_method(machine: Machine, owner: Seq, name: str, call: Call) -> Value:
    args = call.args
    nothing = Const(call.at, None)
    if name in ("append", "add", "appendleft") and args:
        machine.touch(owner)
        owner.data = [args[0], *owner.data] if name == "appendleft" else [*owner.data, args[0]]
        return nothing
    if name in ("extend", "update") and args:
        machine.touch(owner)
        owner.data = [*owner.data, *machine.items(args[0])][:MAX_ITEMS]
        return nothing
    if name == "insert" and len(args) > 1:
        index = machine.known(args[0])
        machine.touch(owner)
        owner.data = [*owner.data]
        owner.data.insert(index if isinstance(index, int) else 0, args[1])
        return nothing
    if name == "copy":
        return Seq(owner.at, list(owner.data), owner.kind)
    if name == "index" and args:
        known = machine.known(args[0])
        members = [machine.known(i) for i in owner.data]
        return Const(call.at, members.index(known)) if known is not NOTHING and known in members else Unk(call.at)
    if name == "count" and args:
        return Const(call.at, [machine.known(i) for i in owner.data].count(machine.known(args[0])))
    if name in ("pop", "remove", "clear", "reverse", "sort"):
        return _list_removal(machine, owner, name, args, call.at)
    return Unk(call.at)


def _list_removal(machine: Machine, owner: Seq, name: str, args: list[Value], at: Place) -> Value:
    machine.touch(owner)
    owner.data = list(owner.data)
    known = machine.known(args[0]) if args else -1
    if name == "clear":
        owner.data = []
    elif name == "reverse":
        owner.data.reverse()
    elif name == "remove":
        index = next((i for i, v in enumerate(owner.data) if known is not NOTHING and machine.known(v) == known), None)
        if index is not None:
            del owner.data[index]
    elif name == "pop" and isinstance(known, int) and -len(owner.data) <= known < len(owner.data):
        return owner.data.pop(known)
    return Const(at, None)


def _dict_method(machine: Machine, owner: Map, name: str, call: Call) -> Value:
    args = call.args
    if name in ("get", "pop", "setdefault") and args:
        return _dict_get(machine, owner, name, call)
    if name == "items":
        return Seq(owner.at, [Seq(v.at, [Const(v.at, k), v], "tuple") for k, v in owner.data.items()])
    if name == "keys":
        return Seq(owner.at, [Const(v.at, k) for k, v in owner.data.items()])
    if name == "values":
        return Seq(owner.at, list(owner.data.values()))
    if name == "copy":
        return Map(owner.at, dict(owner.data), owner.open)
    if name == "update":
        for argument in args:
            machine.update(owner, argument)
        machine.touch(owner)
        owner.data = {**owner.data, **call.kwargs}
        return Const(call.at, None)
    return Unk(call.at, kind=owner.missing)


def _dict_get(machine: Machine, owner: Map, name: str, call: Call) -> Value:
    known = machine.known(call.args[0])
    default = call.args[1] if len(call.args) > 1 else call.kwargs.get("default")
    if known is not NOTHING and known in owner.data:
        value = owner.data[known]
        if name == "pop":
            machine.touch(owner)
            owner.data = {k: v for k, v in owner.data.items() if k != known}
        return value
    if known is NOTHING:
        return Unk(call.at, getattr(call.args[0], "name", None))
    if default is None:
        return Unk(call.at, str(known), assumed=None) if owner.open else Const(call.at, None)
    if name == "setdefault":
        machine.touch(owner)
        owner.data = {**owner.data, known: default}
    return default


# --- calls -------------------------------------------------------------------------------------------------------------


def call(machine: Machine, call: Call) -> Value:
    """A call of something that is not defined in the tree: a known pure function, a sink for the hook, else an object."""
    callee = call.receiver
    if call.name.endswith((".add_cli_args", ".make_arg_parser", "make_arg_parser")) and call.args:
        return call.args[0]
    if isinstance(callee, Method):
        value = _method(machine, callee, call)
        if value is not None:
            return value
        if isinstance(callee.receiver, Obj):
            call.receiver = callee.receiver
    hooked = machine.hook(machine, call)
    if hooked is not None:
        return hooked
    if isinstance(callee, (Ext, Unk)):
        function = FUNCTIONS.get(call.name) or FUNCTIONS.get(
            call.name.rsplit(".", 1)[-1] if call.name.startswith(_LOOSE) else ""
        )
        if function is not None:
            value = function(machine, call)
            if value is not None:
                return value
    if isinstance(callee, Unk):
        return Unk(call.at, callee.name, callee.why, NOTHING, callee.kind)
    receiver = callee.receiver if isinstance(callee, Method) else None
    return Obj(call.at, call.name, call.args, call.kwargs, receiver)


_LOOSE: Final = ("shlex.", "json.", "os.path.", "itertools.", "dataclasses.", "copy.")


def _method(machine: Machine, callee: Method, call: Call) -> Value | None:
    owner, name = callee.receiver, callee.name
    if isinstance(owner, Const) and isinstance(owner.value, str):
        return _text_method(machine, owner, name, call)
    if isinstance(owner, Seq):
        return _list_method(machine, owner, name, call)
    if isinstance(owner, Map):
        return _dict_method(machine, owner, name, call)
    if isinstance(owner, Inst):
        return _instance_method(machine, owner, name, call)
    if isinstance(owner, (Func, Bound)) and name in (
        "remote",
        "spawn",
        "local",
        "delay",
        "submit",
        "call",
        "bind",
        "aio",
        "callback",
    ):
        return machine.call(owner, call.args, call.kwargs, call.at)
    if isinstance(owner, Cls) and name in (
        "bind",
        "remote",
        "options",
        "parse_obj",
        "model_validate",
        "from_dict",
        "partial",
    ):
        if name == "options":
            return owner
        args = call.args
        if name in ("parse_obj", "model_validate", "from_dict") and args and isinstance(args[0], Map):
            return instantiate(machine, owner, [], {str(k): v for k, v in args[0].data.items()}, call.at)
        return instantiate(machine, owner, args, call.kwargs, call.at)
    if is_path(owner):
        return _path_method(machine, owner, name, call)
    if isinstance(owner, Obj):
        return _object_method(machine, owner, name, call)
    return None


def _instance_method(machine: Machine, owner: Inst, name: str, call: Call) -> Value | None:
    if name in ("model_dump", "dict", "_asdict", "to_dict", "asdict"):
        return Map(owner.at, dict(owner.data))
    if name in ("model_copy", "copy", "_replace", "evolve"):
        update = call.kwargs.get("update")
        changed = {str(k): v for k, v in update.data.items()} if isinstance(update, Map) else call.kwargs
        return Inst(owner.at, owner.cls, {**owner.data, **changed})
    return None


def _path_method(machine: Machine, owner: Value, name: str, call: Call) -> Value | None:
    if name in ("resolve", "absolute", "expanduser"):
        return owner
    if name in ("read_text", "open"):
        return read_text(machine, owner, call.at) if name == "read_text" else Obj(call.at, "open", [owner], {})
    if name == "write_text" and call.args:
        machine.files[machine.text(owner)] = call.args[0]
        return Const(call.at, None)
    if name in ("with_suffix", "with_name", "joinpath"):
        if name == "joinpath":
            return path_join(machine, [owner, *call.args], call.at)
        return make_path(machine, Unk(call.at), call.at)
    if name in ("as_posix", "__str__"):
        return Const(owner.at, machine.text(owner))
    if name in ("exists", "is_file", "is_dir"):
        return Unk(call.at)
    return None


def _object_method(machine: Machine, owner: Obj, name: str, call: Call) -> Value | None:
    if owner.name == "open" and name == "read" and owner.args:
        return read_text(machine, owner.args[0], call.at)
    if owner.name == "open" and name in ("write", "writelines") and owner.args and call.args:
        key = machine.text(owner.args[0])
        before = machine.files.get(key)
        text = call.args[0] if before is None else Const(before.at, machine.text(before) + machine.text(call.args[0]))
        machine.files[key] = text
        return Const(call.at, None)
    if owner.name.endswith(("ArgumentParser", "FlexibleArgumentParser")):
        from checklistbot.discovery.interpret import pyargs

        return pyargs.parser_method(machine, owner, name, call)
    return None


Function = Callable[["Machine", "Call"], "Value | None"]
FUNCTIONS: dict[str, Function] = {}


def function(*names: str) -> Callable[[Function], Function]:
    def register(action: Function) -> Function:
        for name in names:
            FUNCTIONS[name] = action
        return action

    return register


@function("str")
def _str(machine: Machine, call: Call) -> Value | None:
    if not call.args:
        return Const(call.at, "")
    value = call.args[0]
    return value if isinstance(value, Unk) else Const(value.at, machine.text(value))


@function("int", "float", "bool", "round", "abs", "math.ceil", "math.floor", "math.trunc")
def _numeric(machine: Machine, call: Call) -> Value | None:
    if not call.args:
        return Const(call.at, {"int": 0, "float": 0.0, "bool": False}.get(call.name))
    value = call.args[0]
    if call.name == "bool":
        truth = machine.truth(value)
        return Unk(call.at) if truth is None else Const(value.at, truth)
    if isinstance(value, Unk):
        return value
    known = [machine.known(a) for a in call.args[:2]]
    actions: dict[str, Callable[..., Any]] = {"int": int, "float": float, "round": round, "abs": abs}
    actions |= {"math.ceil": math.ceil, "math.floor": math.floor, "math.trunc": math.trunc}
    try:
        if NOTHING in known or (isinstance(known[0], str) and len(known[0]) > 100):
            return Unk(call.at, getattr(value, "name", None))
        return Const(value.at, actions[call.name](*known))
    except (TypeError, ValueError, OverflowError):
        return Unk(call.at)


@function("len")
def _len(machine: Machine, call: Call) -> Value | None:
    value = call.args[0] if call.args else None
    if isinstance(value, Seq):
        unknown = any(isinstance(i, Unk) and i.why == "ambiguous" for i in value.data)
        return Unk(call.at) if unknown else Const(value.at, len(value.data))
    if isinstance(value, Map) and not value.open:
        return Const(value.at, len(value.data))
    if isinstance(value, Const) and isinstance(value.value, str) and not has_mark(value.value):
        return Const(value.at, len(value.value))
    if isinstance(value, Ext) and value.name == "sys.argv":
        return Const(call.at, 1)
    return Unk(call.at, getattr(value, "name", None))


@function(
    "list",
    "tuple",
    "set",
    "frozenset",
    "sorted",
    "reversed",
    "iter",
    "collections.deque",
    "itertools.chain.from_iterable",
)
def _list(machine: Machine, call: Call) -> Value | None:
    if not call.args:
        return Seq(call.at, [], "list")
    items = machine.known_items(call.args[0])
    if items is None:
        return call.args[0]
    if call.name == "reversed":
        items = items[::-1]
    if call.name.endswith("from_iterable"):
        items = [inner for outer in items for inner in machine.items(outer)]
    if call.name == "sorted" and "key" not in call.kwargs:
        plain = [machine.known(i) for i in items]
        with contextlib.suppress(TypeError):
            items = [i for _, i in sorted(zip(plain, items, strict=True), key=lambda pair: pair[0])]
    return Seq(call.args[0].at, items, "tuple" if call.name == "tuple" else "list")


@function(
    "dict",
    "collections.OrderedDict",
    "collections.defaultdict",
    "types.SimpleNamespace",
    "easydict.EasyDict",
    "addict.Dict",
)
def _dict(machine: Machine, call: Call) -> Value | None:
    if call.name == "types.SimpleNamespace":
        return Inst(call.at, None, dict(call.kwargs))
    found = Map(call.at, {})
    for argument in call.args:
        if isinstance(argument, Ext) and argument.name == "os.environ":
            found.open, found.missing = True, "environment"
        elif isinstance(argument, Seq):
            for pair in argument.data:
                if isinstance(pair, Seq) and len(pair.data) == 2:
                    machine.set_item(found, pair.data[0], pair.data[1])
        elif not isinstance(argument, Ext):
            machine.update(found, argument)
    found.data.update(call.kwargs)
    found.open = found.open or call.spread
    return found


@function("os.environ.update")
def _environ_update(machine: Machine, call: Call) -> Value | None:
    given = {str(k): v for a in call.args if isinstance(a, Map) for k, v in a.data.items()}
    for name, value in {**given, **call.kwargs}.items():
        machine.files[f"env:{name}"] = value
    return Const(call.at, None)


@function("os.environ.copy")
def _environ(machine: Machine, call: Call) -> Value | None:
    written = {k[4:]: v for k, v in machine.files.items() if k.startswith("env:")}
    return Map(call.at, dict(written), True, "environment")


@function(
    "os.environ.get",
    "os.getenv",
    "environ.get",
    "getenv",
    "decouple.config",
    "environs.Env.str",
    "os.environ.setdefault",
)
def _getenv(machine: Machine, call: Call) -> Value | None:
    name = machine.known(call.args[0]) if call.args else NOTHING
    default = call.args[1] if len(call.args) > 1 else call.kwargs.get("default")
    written = machine.files.get(f"env:{name}")
    if written is not None:
        return written
    if call.name.endswith("setdefault") and default is not None:
        machine.files[f"env:{name}"] = default
    if default is None or (isinstance(default, Const) and default.value is None):
        return Unk(call.at, name if isinstance(name, str) else None, assumed=None, kind="environment")
    return default


@function("map")
def _map(machine: Machine, call: Call) -> Value | None:
    if len(call.args) != 2:
        return None
    return Seq(call.at, [machine.call(call.args[0], [i], {}, call.at) for i in machine.items(call.args[1])[:256]])


@function("filter")
def _filter(machine: Machine, call: Call) -> Value | None:
    if len(call.args) != 2:
        return None
    test, kept = call.args[0], []
    for value in machine.items(call.args[1])[:256]:
        tested = value if isinstance(test, Const) else machine.call(test, [value], {}, call.at)
        if machine.truth(tested) is not False:
            kept.append(value)
    return Seq(call.at, kept)


@function("zip", "itertools.product")
def _zip(machine: Machine, call: Call) -> Value | None:
    lists = [machine.known_items(a) for a in call.args]
    if any(items is None for items in lists):
        return None
    known = [items[:256] for items in lists if items is not None]
    if call.name == "zip":
        rows = [list(row) for row in zip(*known, strict=False)]
    else:
        rows = [[]]
        for items in known:
            rows = [[*row, i] for row in rows for i in items][:256]
    return Seq(call.at, [Seq(call.at, row, "tuple") for row in rows])


@function("range")
def _range(machine: Machine, call: Call) -> Value | None:
    bounds = [machine.known(a) for a in call.args]
    if not bounds or not all(isinstance(b, int) for b in bounds) or (len(bounds) == 3 and bounds[2] == 0):
        return None
    return Seq(call.at, [Const(call.args[0].at, i) for i in range(*bounds[:3])[:256]])


@function("enumerate")
def _enumerate(machine: Machine, call: Call) -> Value | None:
    items = machine.known_items(call.args[0]) if call.args else None
    start = machine.known(call.args[1] if len(call.args) > 1 else call.kwargs.get("start", Const(call.at, 0)))
    if items is None or not isinstance(start, int):
        return None
    return Seq(call.at, [Seq(v.at, [Const(v.at, i + start), v], "tuple") for i, v in enumerate(items[:ITEMS])])


ITEMS: Final = 256


@function("min", "max", "sum")
def _extreme(machine: Machine, call: Call) -> Value | None:
    values = call.args if len(call.args) > 1 else (machine.known_items(call.args[0]) if call.args else None) or []
    known = [machine.known(v) for v in values]
    if not known or not all(isinstance(k, (int, float)) for k in known):
        return None
    result = {"min": min, "max": max, "sum": sum}[call.name](known)  # type: ignore[operator]
    place = next((v.at for v in values if machine.known(v) == result), call.at)
    return Const(place, result)


@function("any", "all")
def _any(machine: Machine, call: Call) -> Value | None:
    items = machine.known_items(call.args[0]) if call.args else None
    if items is None:
        return None
    truths = [machine.truth(i) for i in items]
    decisive = call.name == "any"
    if decisive in truths:
        return Const(call.at, decisive)
    return None if None in truths else Const(call.at, not decisive)


@function("getattr")
def _getattr(machine: Machine, call: Call) -> Value | None:
    name = machine.known(call.args[1]) if len(call.args) > 1 else NOTHING
    if not isinstance(name, str):
        return None
    value = machine.attribute(call.args[0], name, call.at)
    missing = isinstance(value, Method) or (isinstance(value, Unk) and value.assumed is None)
    return call.args[2] if missing and len(call.args) > 2 else value


@function("setattr")
def _setattr(machine: Machine, call: Call) -> Value | None:
    name = machine.known(call.args[1]) if len(call.args) > 2 else NOTHING
    if isinstance(name, str):
        machine.set_attribute(call.args[0], name, call.args[2])
    return Const(call.at, None)


@function("hasattr")
def _hasattr(machine: Machine, call: Call) -> Value | None:
    name = machine.known(call.args[1]) if len(call.args) > 1 else NOTHING
    if isinstance(call.args[0], Inst) and isinstance(name, str):
        return Const(call.at, not isinstance(machine.attribute(call.args[0], name, call.at), Method))
    return None


@function("isinstance")
def _isinstance(machine: Machine, call: Call) -> Value | None:
    if len(call.args) < 2:
        return None
    wanted = call.args[1]
    options = wanted.data if isinstance(wanted, Seq) else [wanted]
    value = call.args[0]
    names = [o.name for o in options if isinstance(o, (Ext, Cls))]
    if isinstance(value, Const):
        return Const(call.at, type(value.value).__name__ in names or (isinstance(value.value, bool) and "int" in names))
    if isinstance(value, Seq):
        return Const(call.at, value.kind in names or "collections.abc.Sequence" in names)
    if isinstance(value, Map):
        return Const(call.at, "dict" in names)
    if isinstance(value, Inst) and value.cls is not None:
        return Const(call.at, value.cls.name in names) if all(isinstance(o, Cls) for o in options) else None
    return None


@function("vars", "dataclasses.asdict", "attr.asdict", "attrs.asdict", "asdict")
def _vars(machine: Machine, call: Call) -> Value | None:
    value = call.args[0] if call.args else None
    if isinstance(value, Inst):
        return Map(value.at, dict(value.data))
    if isinstance(value, Obj) and value.kwargs:
        return Map(value.at, dict(value.kwargs))
    return None


@function("dataclasses.fields", "fields", "attr.fields", "attrs.fields")
def _fields(machine: Machine, call: Call) -> Value | None:
    value = call.args[0] if call.args else None
    cls = value.cls if isinstance(value, Inst) else value
    if not isinstance(cls, Cls):
        return None
    return Seq(call.at, [Inst(call.at, None, {"name": Const(call.at, n)}) for n in all_fields(cls)])


@function("dataclasses.replace", "attr.evolve", "attrs.evolve", "copy.replace")
def _replace(machine: Machine, call: Call) -> Value | None:
    value = call.args[0] if call.args else None
    return Inst(value.at, value.cls, {**value.data, **call.kwargs}) if isinstance(value, Inst) else None


@function("copy.deepcopy", "copy.copy", "deepcopy", "typing.cast", "cast")
def _copy(machine: Machine, call: Call) -> Value | None:
    value = call.args[-1] if call.args else None
    if isinstance(value, Map):
        return Map(value.at, {k: _copy_value(v) for k, v in value.data.items()}, value.open, value.missing)
    return _copy_value(value) if value is not None else None


def _copy_value(value: Value) -> Value:
    if isinstance(value, Map):
        return Map(value.at, dict(value.data), value.open, value.missing)
    if isinstance(value, Seq):
        return Seq(value.at, list(value.data), value.kind)
    if isinstance(value, Inst):
        return Inst(value.at, value.cls, dict(value.data))
    return value


@function("shlex.split")
def _shlex_split(machine: Machine, call: Call) -> Value | None:
    value = call.args[0] if call.args else None
    return shell_words(machine, value) if isinstance(value, Const) and isinstance(value.value, str) else None


@function("shlex.join")
def _shlex_join(machine: Machine, call: Call) -> Value | None:
    items = machine.known_items(call.args[0]) if call.args else None
    if not items:
        return None
    return Const(items[0].at, shlex.join(machine.text(i) for i in items))


@function("shlex.quote", "pipes.quote")
def _shlex_quote(machine: Machine, call: Call) -> Value | None:
    value = call.args[0] if call.args else None
    return Const(value.at, shlex.quote(machine.text(value))) if isinstance(value, Const) else value


@function("json.dumps", "orjson.dumps", "ujson.dumps")
def _dumps(machine: Machine, call: Call) -> Value | None:
    if not call.args:
        return None
    value = call.args[0]
    if isinstance(value, Unk):
        return value
    try:
        return Const(value.at, json.dumps(to_plain(machine, value))[:MAX_TEXT])
    except (TypeError, ValueError, RecursionError):
        return None


@function(
    "json.loads",
    "json.load",
    "yaml.safe_load",
    "yaml.load",
    "yaml.full_load",
    "tomllib.load",
    "tomllib.loads",
    "toml.load",
    "tomli.load",
)
def _load(machine: Machine, call: Call) -> Value | None:
    if not call.args:
        return None
    source = call.args[0]
    if isinstance(source, Obj) and source.name == "open" and source.args:
        source = read_text(machine, source.args[0], call.at)
    if not (isinstance(source, Const) and isinstance(source.value, str)):
        return Unk(call.at, getattr(source, "name", None))
    from checklistbot.discovery.interpret import data_files

    value = data_files.load(source.value, source.at, "toml" if "toml" in call.name else "yaml")
    return value if value is not None else Unk(call.at)


@function("omegaconf.OmegaConf.load", "OmegaConf.load")
def _omega(machine: Machine, call: Call) -> Value | None:
    from checklistbot.discovery.interpret import data_files

    source = read_text(machine, call.args[0], call.at) if call.args else None
    value = data_files.load(str(source.value), source.at, "yaml") if isinstance(source, Const) else None
    return Inst(value.at, None, {str(k): v for k, v in value.data.items()}) if isinstance(value, Map) else None


@function("open", "io.open", "codecs.open")
def _open(machine: Machine, call: Call) -> Value | None:
    return Obj(call.at, "open", call.args, call.kwargs)


@function(
    "pathlib.Path", "Path", "pathlib.PurePosixPath", "pathlib.PosixPath", "os.fspath", "importlib.resources.files"
)
def _path(machine: Machine, call: Call) -> Value | None:
    if not call.args:
        return make_path(machine, Const(call.at, ""), call.at)
    return path_join(machine, call.args, call.at)


@function("os.path.join", "posixpath.join")
def _join(machine: Machine, call: Call) -> Value | None:
    return Const(call.args[0].at, posixpath.join(*(machine.text(a) for a in call.args))) if call.args else None


@function("os.path.dirname", "os.path.basename")
def _dirname(machine: Machine, call: Call) -> Value | None:
    action = posixpath.dirname if call.name.endswith("dirname") else posixpath.basename
    return Const(call.args[0].at, action(machine.text(call.args[0]))) if call.args else None


@function(
    "os.path.abspath",
    "os.path.realpath",
    "os.path.expanduser",
    "os.path.normpath",
    "os.path.expandvars",
    "typing.NewType",
)
def _same(machine: Machine, call: Call) -> Value | None:
    return call.args[0] if call.args else None


@function("textwrap.dedent", "inspect.cleandoc", "dedent")
def _dedent(machine: Machine, call: Call) -> Value | None:
    value = call.args[0] if call.args else None
    return Const(value.at, textwrap.dedent(str(value.value))) if isinstance(value, Const) else value


@function("itertools.chain", "chain")
def _chain(machine: Machine, call: Call) -> Value | None:
    return Seq(call.at, [i for a in call.args for i in machine.items(a)][:MAX_ITEMS])


@function("functools.partial", "partial")
def _partial(machine: Machine, call: Call) -> Value | None:
    return None


@function("string.Template")
def _template(machine: Machine, call: Call) -> Value | None:
    return None


@function("next")
def _next(machine: Machine, call: Call) -> Value | None:
    items = machine.known_items(call.args[0]) if call.args else None
    if items:
        return items[0]
    return call.args[1] if items == [] and len(call.args) > 1 else None


@function(
    "asyncio.run",
    "anyio.run",
    "trio.run",
    "asyncio.create_task",
    "asyncio.wait_for",
    "asyncio.ensure_future",
    "loop.run_until_complete",
    "uvloop.run",
)
def _run(machine: Machine, call: Call) -> Value | None:
    value = call.args[0] if call.args else None
    return machine.call(value, call.args[1:], {}, call.at) if isinstance(value, (Func, Bound)) else value


@function(
    "multiprocessing.Process",
    "threading.Thread",
    "mp.Process",
    "torch.multiprocessing.Process",
    "Process",
    "Thread",
    "multiprocessing.context.Process",
)
def _process(machine: Machine, call: Call) -> Value | None:
    target = call.kwargs.get("target")
    arguments = call.kwargs.get("args")
    keyword = call.kwargs.get("kwargs")
    if isinstance(target, (Func, Bound)):
        machine.call(
            target,
            machine.items(arguments) if arguments is not None else [],
            {str(k): v for k, v in keyword.data.items()} if isinstance(keyword, Map) else {},
            call.at,
        )
    elif isinstance(target, Ext):
        machine.call(target, machine.items(arguments) if arguments is not None else [], {}, call.at)
    return None


@function("typer.run", "fire.Fire", "tyro.cli", "Fire", "absl.app.run", "app.run", "hydra.main")
def _entry(machine: Machine, call: Call) -> Value | None:
    value = call.args[0] if call.args else None
    if isinstance(value, (Func, Bound)) and call.name != "hydra.main":
        func = value.func if isinstance(value, Bound) else value
        arguments = [value.receiver] if isinstance(value, Bound) else []
        return machine.call_function(func, arguments, cli_defaults(machine, func, call.at), call.at)
    if isinstance(value, Cls) and call.name.startswith("tyro"):
        return instantiate(machine, value, [], {}, call.at)
    return None


def cli_defaults(machine: Machine, func: Func, at: Place) -> dict[str, Value]:
    """What a command-line function gets when nothing is typed: click's option defaults; what is required is unknown."""
    from checklistbot.discovery.interpret import pyargs

    return pyargs.click_defaults(machine, func, at)


@function("sys.exit", "exit", "quit", "os._exit")
def _exit(machine: Machine, call: Call) -> Value | None:
    from checklistbot.discovery.interpret.pymachine import Leave

    raise Leave("raise")


@function("super")
def _super(machine: Machine, call: Call) -> Value | None:
    return Obj(call.at, "super", [], {})


@function("type")
def _type(machine: Machine, call: Call) -> Value | None:
    value = call.args[0] if call.args else None
    return value.cls if isinstance(value, Inst) else None


@function("open_yaml", "print", "logging.info", "logger.info")
def _none(machine: Machine, call: Call) -> Value | None:
    return Const(call.at, None)
