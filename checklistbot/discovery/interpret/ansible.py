"""Where the variables of a Jinja template come from, and what the rendered file is."""

from __future__ import annotations

import dataclasses
import posixpath
import re
from collections.abc import Iterator
from typing import Final

from checklistbot.discovery.base import launches_in
from checklistbot.discovery.interpret import data_files, jinjawalk, listing
from checklistbot.discovery.interpret.gorender import Line, relocate
from checklistbot.discovery.interpret.marks import without_marks
from checklistbot.discovery.interpret.pyvalues import Map, Seq, Value
from checklistbot.discovery.tree import Tree, Unreadable
from checklistbot.engines.base import Launch
from checklistbot.lazy import pattern
from checklistbot.model import Skipped

MAX_FILES: Final = 60
_SUFFIX = pattern(r"\.(?:j2|jinja2?)$")


def find(tree: Tree, path: str, text: str) -> list[Launch]:
    """The launches of a template in each environment of its inventory."""
    found: list[Launch] = []
    for environment, variables in _environments(tree, path).items():
        lines = jinjawalk.render(without_marks(text), path, variables)
        if lines is None:
            tree.skipped.append(
                Skipped(path, "the template cannot be rendered; pipe the rendered file to `checklistbot check -`")
            )
            return []
        virtual = _SUFFIX.sub("", path)
        for launch in launches_in(tree, virtual, "\n".join(line.text for line in lines)):
            found.append(dataclasses.replace(relocate(launch, virtual, lines), environment=environment))
    return found


def rendered(tree: Tree, path: str, text: str) -> Iterator[tuple[str, str, list[Line]]]:
    """(environment, virtual path, lines) of a task file or play with the variables of its role, its plays and the inventory."""
    own = _play_variables(path, text)
    for environment, variables in _environments(tree, path).items():
        lines = jinjawalk.render(without_marks(text), path, {**variables, **own})
        if lines is not None:
            yield environment, path, lines


def moved(launch: Launch, virtual: str, lines: list[Line]) -> Launch:
    """A launch of the rendered text at its lines of the file."""
    return relocate(launch, virtual, lines)


def _play_variables(path: str, text: str) -> dict[str, Value]:
    """``vars:`` of the plays in the file itself."""
    found: dict[str, Value] = {}
    loaded = data_files.load(without_marks(text), (path, 1), "yaml") if re.search(r"^\s*vars:", text, re.M) else None
    for play in loaded.data if isinstance(loaded, Seq) else []:
        values = play.data.get("vars") if isinstance(play, Map) else None
        if isinstance(values, Map):
            found.update({str(k): v for k, v in values.data.items()})
    return found


def _environments(tree: Tree, path: str) -> dict[str, dict[str, Value]]:
    """Environment → variables: role defaults, group_vars/all, then one environment for each other group that sets one of them."""
    role = _role(path)
    base: dict[str, Value] = {}
    for name in ("defaults/main.yml", "defaults/main.yaml"):
        base |= _read(tree, posixpath.join(role, name)) if role is not None else {}
    base |= _beside(tree, path)
    groups: dict[str, dict[str, Value]] = {}
    for other in _group_files(tree):
        values = _read(tree, other)
        name = _group(other)
        if name == "all":
            base |= values
        else:
            groups.setdefault(name, {}).update(values)
    for name in ("vars/main.yml", "vars/main.yaml"):
        base |= _read(tree, posixpath.join(role, name)) if role is not None else {}
    used = set(re.findall(r"[A-Za-z_]\w*", _text(tree, path)))
    distinct = {name: values for name, values in groups.items() if used & set(values)}
    if not distinct:
        return {"default": base}
    return {name: {**base, **values} for name, values in sorted(distinct.items())}


def _role(path: str) -> str | None:
    match = re.match(r"(.*?)(?:^|/)(?:templates|tasks|handlers)/", path)
    return match[1] if match else None


def _beside(tree: Tree, path: str) -> dict[str, Value]:
    """A values file with the template's own name, or the only vars file of its folder."""
    folder = posixpath.dirname(path)
    stem = posixpath.basename(_SUFFIX.sub("", path)).split(".")[0]
    for name in (
        f"{stem}.yml",
        f"{stem}.yaml",
        f"{stem}.vars.yml",
        "vars.yml",
        "vars.yaml",
        "values.yml",
        "values.yaml",
        "variables.yml",
    ):
        for place in (folder, posixpath.dirname(folder)):
            found = _read(tree, posixpath.join(place, name))
            if found:
                return found
    return {}


def _group_files(tree: Tree) -> list[str]:
    return [p for p in listing.paths(tree) if "group_vars/" in p and p.endswith((".yml", ".yaml"))][:MAX_FILES]


def _group(path: str) -> str:
    rest = path.split("group_vars/", 1)[1]
    return rest.split("/")[0] if "/" in rest else rest.rpartition(".")[0]


def _text(tree: Tree, path: str) -> str:
    try:
        return tree.read(path)
    except Unreadable:
        return ""


def _read(tree: Tree, path: str) -> dict[str, Value]:
    if not tree.exists(path):
        return {}
    value = data_files.load(without_marks(_text(tree, path)), (path, 1), "yaml")
    return {str(k): v for k, v in value.data.items()} if isinstance(value, Map) else {}
