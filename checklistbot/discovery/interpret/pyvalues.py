"""The values of the Python reader. Each knows the place that spells it."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from checklistbot.discovery.interpret.marks import Place
from checklistbot.model import WhyUnknown

Kind = Literal["", "parameter", "environment"]


class _Nothing:
    """No assumption: the value may be anything."""


NOTHING: Final = _Nothing()


@dataclass(eq=False, slots=True)
class Value:
    at: Place


@dataclass(eq=False, slots=True)
class Const(Value):
    """A string, number, boolean or None. A string may hold marks.

    ``starts`` as in ``Word``: (offset, line) of its pieces. ``origin`` is the structure that a string encodes.
    """

    value: Any
    starts: tuple[tuple[int, int], ...] = ()
    origin: Value | None = None


@dataclass(eq=False, slots=True)
class Unk(Value):
    """A value that cannot be known; ``assumed`` is what a condition takes it for (an unset variable is None)."""

    name: str | None = None
    why: WhyUnknown = "not-static"
    assumed: Any = NOTHING
    kind: Kind = ""


@dataclass(eq=False, slots=True)
class Seq(Value):
    """A list, tuple, set or generator."""

    data: list[Value]
    kind: Literal["list", "tuple", "set"] = "list"


@dataclass(eq=False, slots=True)
class Map(Value):
    """A dict with constant keys. ``open`` says that it may hold more than is known."""

    data: dict[Any, Value]
    open: bool = False
    missing: Kind = ""


@dataclass(eq=False, slots=True)
class Scope:
    data: dict[str, Value]
    parent: Scope | None = None


@dataclass(eq=False, slots=True)
class Module(Value):
    name: str
    scope: Scope


@dataclass(eq=False, slots=True)
class Func(Value):
    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
    scope: Scope
    path: str
    defaults: list[Value]
    keyword_defaults: dict[str, Value]
    decorators: list[Value] = field(default_factory=list)
    owner: Cls | None = None
    #: The function in whose body this one is defined.
    outer: Func | None = None

    @property
    def name(self) -> str:
        return getattr(self.node, "name", "<lambda>")


@dataclass(eq=False, slots=True)
class Cls(Value):
    name: str
    bases: list[Value]
    data: dict[str, Value]
    fields: list[str]
    decorators: list[Value] = field(default_factory=list)


@dataclass(eq=False, slots=True)
class Inst(Value):
    cls: Cls | None
    data: dict[str, Value]


@dataclass(eq=False, slots=True)
class Bound(Value):
    func: Func
    receiver: Value


@dataclass(eq=False, slots=True)
class Ext(Value):
    """Something of a module that is not in the tree, by its dotted name."""

    name: str


@dataclass(eq=False, slots=True)
class Obj(Value):
    """What calling an ``Ext`` or a method of an ``Obj`` gave: name, arguments, and the object it was called on."""

    name: str
    args: list[Value]
    kwargs: dict[str, Value]
    receiver: Value | None = None
    data: dict[str, Value] = field(default_factory=dict)


@dataclass(eq=False, slots=True)
class Method(Value):
    """A method of a value of ours that is not written in Python: ``"…".join``, ``parser.add_argument``."""

    name: str
    receiver: Value


Cell = Seq | Map | Scope | Cls | Inst | Obj


def chain(value: Value | None) -> list[Obj]:
    """The objects of a fluent chain (``Image.debian_slim().pip_install(…)``), the last call first."""
    found: list[Obj] = []
    while isinstance(value, Obj) and len(found) < 100:
        found.append(value)
        value = value.receiver
    return found
