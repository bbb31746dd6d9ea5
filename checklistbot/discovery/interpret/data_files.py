"""YAML, JSON and TOML as the Python reader's values, each with its line; bounded, aliases included."""

from __future__ import annotations

from typing import Any, Final

from checklistbot.discovery.interpret.marks import Place
from checklistbot.discovery.interpret.pyvalues import Const, Map, Seq, Value
from checklistbot.discovery.limits import gave_up

MAX_NODES: Final = 20_000


class _TooMuch(Exception):
    pass


def load(text: str, at: Place, kind: str) -> Value | None:
    """The document as a value, None where it cannot be parsed. ``at`` is the place of its first line."""
    return _toml(text, at) if kind == "toml" else _yaml(text, at)


def _yaml(text: str, at: Place) -> Value | None:
    import yaml

    budget = [MAX_NODES]
    try:
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)(text)
        node = loader.get_node() if loader.check_node() else None
        return None if node is None else _node(loader, node, at, budget, 0)
    except (_TooMuch, RecursionError):
        gave_up()
        return None
    except (yaml.YAMLError, ValueError):
        return None


def _node(loader: Any, node: Any, at: Place, budget: list[int], depth: int) -> Value:
    import yaml

    budget[0] -= 1
    if budget[0] < 0 or depth > 60:
        raise _TooMuch
    place = (at[0], at[1] + node.start_mark.line)
    if isinstance(node, yaml.MappingNode):
        found = Map(place, {})
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.tag == "tag:yaml.org,2002:merge":
                    merged = _node(loader, value, at, budget, depth + 1)
                    if isinstance(merged, Map):
                        found.data = {**merged.data, **found.data}
                    continue
                name = _scalar(loader, key)
                if isinstance(name, (str, int, float, bool, type(None))):
                    found.data[name] = _node(loader, value, at, budget, depth + 1)
        return found
    if isinstance(node, yaml.SequenceNode):
        return Seq(place, [_node(loader, child, at, budget, depth + 1) for child in node.value])
    return Const(place, _scalar(loader, node))


def _scalar(loader: Any, node: Any) -> Any:
    import yaml

    try:
        value = loader.construct_object(node)
    except (yaml.YAMLError, ValueError):
        return str(node.value)
    return value if isinstance(value, (str, int, float, bool, type(None))) else str(node.value)


def _toml(text: str, at: Place) -> Value | None:
    import tomllib

    from checklistbot.discovery.interpret.pylibrary import from_plain

    try:
        value = from_plain(tomllib.loads(text), at)
    except tomllib.TOMLDecodeError:
        return None
    except RecursionError:
        gave_up()
        return None
    _toml_lines(text, at, value)
    return value


def _toml_lines(text: str, at: Place, root: Value) -> None:
    """Give each key of a table the line on which it stands (tables and plain keys; the first match wins)."""
    here: Value | None = root
    for number, line in enumerate(text.split("\n")):
        stripped = line.strip()
        if stripped.startswith("[") and stripped.endswith("]"):
            here = root
            for part in stripped.strip("[]").split("."):
                here = here.data.get(part.strip("\"' ")) if isinstance(here, Map) else None
        elif "=" in stripped and isinstance(here, Map):
            value = here.data.get(stripped.partition("=")[0].strip().strip("\"'"))
            if value is not None and value.at == at:
                value.at = (at[0], at[1] + number)
