"""``@record`` and ``@mutable_record``: a dataclass with slots that costs a tenth of the standard one to define.

The standard decorator writes and compiles six methods for every class; with forty classes that was a fifth of the time of
``checklistbot facts`` on a small manifest (`make bench`). Here ``__init__`` is compiled when the first object is made, equality, hash and
repr are shared functions over the fields, and an attribute of a ``@record`` can be set once, by ``__init__``. ``dataclasses.fields``, ``replace`` and
``asdict`` work as ever.
"""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any, TypeVar, dataclass_transform

T = TypeVar("T")


def _values(self: Any) -> tuple[Any, ...]:
    return tuple(getattr(self, name) for name in self.__dataclass_fields__)


def _eq(self: Any, other: object) -> Any:
    return _values(self) == _values(other) if other.__class__ is self.__class__ else NotImplemented


def _hash(self: Any) -> int:
    return hash(_values(self))


def _repr(self: Any) -> str:
    inside = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__dataclass_fields__)
    return f"{type(self).__qualname__}({inside})"


def _set_once(self: Any, name: str, value: Any) -> None:
    if hasattr(self, name) or name not in self.__dataclass_fields__:
        raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
    object.__setattr__(self, name, value)


def _delete(self: Any, name: str) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


@dataclasses.dataclass
class _Sample:
    """Lends what the standard library marks a field with, and the parameters it keeps beside them."""

    field: int


_SAMPLE: Any = dataclasses.fields(_Sample)[0]
#: What belongs to the class as written and not to the one with slots that is made of it.
_OF_THE_FIRST = ("__dict__", "__weakref__")
_SHARED = {
    "__dataclass_params__": _Sample.__dict__["__dataclass_params__"],
    "__eq__": _eq,
    "__repr__": _repr,
}
_FROZEN = {"__hash__": _hash, "__setattr__": _set_once, "__delattr__": _delete}


def _fields(cls: type) -> dict[str, Any]:
    """Name → field of the class; plain fields only, no ``ClassVar``, no inherited ones."""
    found = {}
    for name, kind in inspect.get_annotations(cls).items():
        given = cls.__dict__.get(name, dataclasses.MISSING)
        made: Any = given if isinstance(given, dataclasses.Field) else dataclasses.field(default=given)
        if not made.init or made.kw_only is True or "__post_init__" in cls.__dict__:
            raise TypeError(f"{cls.__qualname__}.{name}: a record has plain fields only; use dataclass")
        made.name, made.type, made.kw_only, made._field_type = name, kind, False, _SAMPLE._field_type
        found[name] = made
    return found


def _compiled(cls: Any) -> Any:
    """The class's ``__init__``: it stores each argument through its slot, past ``__setattr__``."""
    names: dict[str, Any] = {}
    arguments, body = ["self"], []
    for name, field in cls.__dataclass_fields__.items():
        names[f"_set_{name}"] = cls.__dict__[name].__set__
        argument, value = name, name
        if field.default is not dataclasses.MISSING:
            names[f"_default_{name}"] = field.default
            argument = f"{name}=_default_{name}"
        elif field.default_factory is not dataclasses.MISSING:
            names[f"_make_{name}"], names["_MISSING"] = field.default_factory, dataclasses.MISSING
            argument, value = f"{name}=_MISSING", f"_make_{name}() if {name} is _MISSING else {name}"
        arguments.append(argument)
        body.append(f" _set_{name}(self, {value})")
    exec(f"def __init__({', '.join(arguments)}):\n" + "\n".join(body or [" pass"]), names)  # noqa: S102 (names of our own fields, as dataclasses does)
    return names["__init__"]


def _first_init(self: Any, *given: Any, **named: Any) -> None:
    """Stands for ``__init__`` until the first object is made."""
    cls = type(self)
    cls.__init__ = _compiled(cls)
    cls.__init__(self, *given, **named)


def _with_slots(cls: type[T], methods: dict[str, Any]) -> type[T]:
    fields = _fields(cls)
    body = {name: value for name, value in cls.__dict__.items() if name not in fields and name not in _OF_THE_FIRST}
    body |= _SHARED | methods
    body |= {"__slots__": tuple(fields), "__match_args__": tuple(fields), "__dataclass_fields__": fields}
    kind: Any = type(cls)
    made = kind(cls.__name__, cls.__bases__, body)
    made.__qualname__, made.__init__ = cls.__qualname__, _first_init
    return made  # type: ignore[no-any-return]


@dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field,))
def record(cls: type[T]) -> type[T]:
    """The class as a frozen dataclass with slots; its fields are plain ones of its own, and it derives from no other record."""
    return _with_slots(cls, _FROZEN)


@dataclass_transform(field_specifiers=(dataclasses.field,))
def mutable_record(cls: type[T]) -> type[T]:
    """Like ``record``, with fields that can be set again; as in a dataclass, its objects have no hash."""
    return _with_slots(cls, {"__hash__": None})
