"""YAML for files that are ours to define (config, incidents, advisories): bounded, without aliases, with a line for every value.

Config, evidence, checklist and report files are at most 1 MiB, 32 levels deep, without aliases and duplicate keys
(operations-and-attacks 28). Errors name key, line and expected type, never the offending text (point 25).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import date
from typing import Any, Final, TypeVar

from checklistbot.model import UsageError
from checklistbot.record import record

MAX_BYTES: Final = 1024 * 1024
MAX_DEPTH: Final = 32

_PLAIN_TAGS: Final = frozenset(("str", "int", "float", "bool", "null", "timestamp"))

T = TypeVar("T")


@record
class Value:
    """A YAML value with the line that holds it (from 1). ``data`` is a scalar, a list of Value or a dict of str → Value."""

    data: Any
    path: str
    line: int
    name: str = ""

    def plain(self) -> Any:
        """The value without lines, as JSON has it."""
        if isinstance(self.data, dict):
            return {key: entry.plain() for key, entry in self.data.items()}
        if isinstance(self.data, list):
            return [entry.plain() for entry in self.data]
        return self.data

    def wrong(self, expected: str) -> UsageError:
        return UsageError(f"{self.path}:{self.line}: {self.name or 'the document'} must be {expected}")


def parse(text: str, path: str) -> Value:
    """The one document of the text; raises UsageError with path:line."""
    import yaml

    if len(text.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        raise UsageError(f"{path}:1: larger than 1 MiB; such a file is not read")
    loader_class = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        _refuse_bombs(yaml, loader_class, text, path)
        loader = loader_class(text)
        try:
            node = loader.get_single_node()
            return Value({}, path, 1) if node is None else _value(loader, node, path, "")
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        # What the parser quotes from the text stays out of the message.
        problem = f" ({error.problem})" if error.problem and not set(error.problem) & set("'\"`") else ""
        raise UsageError(f"{path}:{line}: not valid YAML{problem}; mend the syntax there") from None
    except (yaml.YAMLError, ValueError, RecursionError):
        raise UsageError(f"{path}:1: not valid YAML; it must be UTF-8 text without control characters") from None


def _refuse_bombs(yaml: Any, loader_class: Any, text: str, path: str) -> None:
    """Aliases and depth are refused on the events, before any tree is built."""
    depth = 0
    for event in yaml.parse(text, Loader=loader_class):
        line = event.start_mark.line + 1
        if isinstance(event, yaml.AliasEvent):
            raise UsageError(f"{path}:{line}: aliases are not allowed here; write the value out")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MAX_DEPTH:
                raise UsageError(f"{path}:{line}: nested deeper than {MAX_DEPTH} levels")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _value(loader: Any, node: Any, path: str, name: str) -> Value:
    import yaml

    line = node.start_mark.line + 1
    if isinstance(node, yaml.MappingNode):
        entries: dict[str, Value] = {}
        for key_node, value_node in node.value:
            key_line = key_node.start_mark.line + 1
            if not isinstance(key_node, yaml.ScalarNode) or key_node.tag.endswith(":merge"):
                raise UsageError(f"{path}:{key_line}: a key under {name or 'the document'} is not plain text")
            key = key_node.value
            if key in entries:
                raise UsageError(f"{path}:{key_line}: a key stands twice under {name or 'the document'}")
            child = _value(loader, value_node, path, f"{name}.{key}" if name else key)
            entries[key] = Value(child.data, path, key_line if child.line < key_line else child.line, child.name)
        return Value(entries, path, line, name)
    if isinstance(node, yaml.SequenceNode):
        items = [_value(loader, child, path, f"{name}[{i}]") for i, child in enumerate(node.value)]
        return Value(items, path, line, name)
    if node.tag.removeprefix("tag:yaml.org,2002:") not in _PLAIN_TAGS:
        raise UsageError(f"{path}:{line}: tags are not allowed here")
    try:
        data = loader.construct_object(node)
    except ValueError:
        raise UsageError(
            f"{path}:{line}: {name or 'a value'} is no date or number that exists; mend or quote it"
        ) from None
    return Value(data if isinstance(data, (str, int, float, bool, date, type(None))) else node.value, path, line, name)


class Table:
    """A mapping whose keys are taken one by one; what is left at the end is an unknown key.

    Every method takes a key and returns the default where it is absent or null. All raise UsageError with path:line.
    """

    def __init__(self, value: Value) -> None:
        if not isinstance(value.data, dict):
            raise value.wrong("a mapping (key: value)")
        self.value = value
        self.left: dict[str, Value] = dict(value.data)
        self.asked: list[str] = []

    def take(self, key: str) -> Value | None:
        self.asked.append(key)
        value = self.left.pop(key, None)
        return None if value is None or value.data is None else value

    def text(self, key: str, default: T, *, pattern: str | None = None, expected: str = "text") -> str | T:
        value = self.take(key)
        if value is None:
            return default
        if not isinstance(value.data, str) or (pattern and not re.fullmatch(pattern, value.data)):
            raise value.wrong(expected)
        return value.data

    def whole(self, key: str, default: T, *, low: int = 0, high: int = 2**53) -> int | T:
        value = self.take(key)
        if value is None:
            return default
        if isinstance(value.data, bool) or not isinstance(value.data, int) or not low <= value.data <= high:
            raise value.wrong(f"a whole number from {low} to {high}")
        return value.data

    def switch(self, key: str, default: bool) -> bool:
        value = self.take(key)
        if value is None:
            return default
        if not isinstance(value.data, bool):
            raise value.wrong("on or off")
        return value.data

    def choice(self, key: str, default: T, choices: tuple[str, ...]) -> str | T:
        value = self.take(key)
        if value is None:
            return default
        if value.data is False and "off" in choices:  # YAML 1.1 reads a bare off as false
            return "off"
        if value.data not in choices or not isinstance(value.data, str):
            raise value.wrong("one of " + ", ".join(choices))
        return value.data

    def day(self, key: str) -> date | None:
        value = self.take(key)
        if value is None:
            return None
        if not isinstance(value.data, date):
            raise value.wrong("a date (YYYY-MM-DD)")
        return date(value.data.year, value.data.month, value.data.day)

    def texts(self, key: str) -> tuple[str, ...]:
        return tuple(entry.data for entry in self.entries(key, lambda v: isinstance(v.data, str), "a list of texts"))

    def entries(self, key: str, holds: Callable[[Value], bool], expected: str) -> Iterator[Value]:
        value = self.take(key)
        if value is None:
            return
        if not isinstance(value.data, list):
            raise value.wrong(expected)
        for entry in value.data:
            if not holds(entry):
                raise entry.wrong(expected.removeprefix("a list of ").removesuffix("s"))
            yield entry

    def tables(self, key: str) -> Iterator[Table]:
        for entry in self.entries(key, lambda v: isinstance(v.data, dict), "a list of mappings"):
            yield Table(entry)

    def table(self, key: str) -> Table | None:
        value = self.take(key)
        return None if value is None else Table(value)

    def finish(self) -> None:
        """Refuse what nobody asked for."""
        import difflib

        for key, value in self.left.items():
            close = difflib.get_close_matches(key, self.asked, 1, 0.6)
            where = f" under {self.value.name}" if self.value.name else ""
            hint = f"; did you mean {close[0]!r}?" if close else f"; known keys: {', '.join(sorted(self.asked))}"
            # Only a near miss of a word of ours is repeated: any other text might be somebody's secret.
            shown = f" {key!r}" if close else ""
            raise UsageError(f"{value.path}:{value.line}: unknown key{shown}{where}{hint}")
