"""``@record``: a frozen dataclass with slots that costs a third of the standard one to define.

The standard decorator writes and compiles six methods for every class; with forty classes that was a fifth of the time of
``checklistbot facts`` on a small manifest (`make bench`). Here only ``__init__`` is compiled; equality, hash and repr are shared functions
over the fields, and an attribute can be set once, by ``__init__``.
"""

from __future__ import annotations

import dataclasses
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


@dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field,))
def record(cls: type[T]) -> type[T]:
    """The class as a frozen dataclass with slots. It needs a docstring: without one the standard library writes one, slowly."""
    made: Any = dataclasses.dataclass(slots=True, eq=False, repr=False)(cls)
    made.__eq__, made.__hash__, made.__repr__ = _eq, _hash, _repr
    made.__setattr__, made.__delattr__ = _set_once, _delete
    return made  # type: ignore[no-any-return]
