"""Regular expressions that are compiled when they are first used.

Three hundred patterns stand in this package and a command needs a dozen of them; compiling them all at import took a third of
the time of ``checklistbot facts`` on a small manifest (`make bench`).
"""

from __future__ import annotations

import re
from typing import Any, AnyStr, Final, cast

_METHODS: Final = ("match", "search", "fullmatch", "sub", "subn", "finditer", "findall", "split")


class _Pattern:
    """Stands for the compiled pattern; after the first use its methods are the compiled one's own, at no further cost."""

    def __init__(self, source: Any, flags: int) -> None:
        self._source, self._flags = source, flags

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        compiled = re.compile(self._source, self._flags)
        for method in _METHODS:
            setattr(self, method, getattr(compiled, method))
        return getattr(compiled, name)


def pattern(source: AnyStr, flags: int | re.RegexFlag = 0) -> re.Pattern[AnyStr]:
    """``re.compile``, later. Use the methods of what it returns; functions like ``re.sub`` want a real pattern."""
    return cast("re.Pattern[AnyStr]", _Pattern(source, int(flags)))
