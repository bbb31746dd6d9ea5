"""Helm charts that are in the tree: our own substitution of the templates, never ``helm`` itself."""

from __future__ import annotations

import dataclasses
import posixpath
import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

from checklistbot.discovery.base import launches_in
from checklistbot.discovery.interpret import data_files, gotemplate, listing
from checklistbot.discovery.interpret.gofunctions import FUNCTIONS, overlay
from checklistbot.discovery.interpret.gorender import Line, Renderer, Stopped, document, method, relocate, show
from checklistbot.discovery.interpret.marks import Place, without_marks
from checklistbot.discovery.interpret.pyvalues import Const, Map, Unk, Value
from checklistbot.discovery.tree import Tree, Unreadable
from checklistbot.engines.base import Launch
from checklistbot.model import Skipped
from checklistbot.record import record

MAX_FILES: Final = 300
MAX_DEPTH: Final = 4
_ENVIRONMENT = (
    re.compile(r"^values[-_.](?P<name>[\w.-]+?)\.ya?ml$"),
    re.compile(r"^(?P<name>[\w-]+?)[-_.]values\.ya?ml$"),
    re.compile(r"^(?:values|environments|envs?|overlays|stages|clusters)/(?:values[-_.])?(?P<name>[\w-]+)\.ya?ml$"),
    re.compile(r"^(?:environments|envs?|overlays|stages|clusters)/(?P<name>[\w-]+)/values\.ya?ml$"),
)
_NOT_ENVIRONMENTS: Final = frozenset({"schema", "default", "defaults", "example", "ci", "test"})


@record
class Chart:
    """A chart's folder ("" for the root) and the files in it."""

    root: str
    files: tuple[str, ...]

    def at(self, name: str) -> str:
        return posixpath.join(self.root, name)

    @property
    def name(self) -> str:
        return posixpath.basename(self.root) or "chart"

    def inside(self, path: str) -> str:
        return path[len(self.root) + 1 :] if self.root else path


def chart_of(tree: Tree, path: str) -> Chart | None:
    """The outermost chart that a file belongs to: a folder with ``templates/`` and values or a Chart.yaml."""
    parts = path.split("/")[:-1]
    for length in range(len(parts) + 1):
        root = "/".join(parts[:length])
        if is_chart(tree, root):
            return load(tree, root)
    return None


def is_chart(tree: Tree, root: str) -> bool:
    """True for a folder with ``templates/`` and values or a Chart.yaml."""
    names = (posixpath.join(root, n) for n in ("Chart.yaml", "values.yaml", "values.yml"))
    return any(map(tree.exists, names)) and listing.holds(tree, posixpath.join(root, "templates"))


def load(tree: Tree, root: str) -> Chart:
    """The chart in a folder."""
    return Chart(root, tuple(islice(listing.below(tree, root), MAX_FILES * 4)))


def environments(chart: Chart) -> dict[str, str]:
    """NAME → values file of that environment."""
    found: dict[str, str] = {}
    for path in chart.files:
        for pattern in _ENVIRONMENT:
            match = pattern.match(chart.inside(path))
            if match is not None and match["name"] not in _NOT_ENVIRONMENTS:
                found.setdefault(match["name"], path)
    return found


def owned(chart: Chart) -> list[str]:
    """The files that rendering reads: templates, helpers, values of every environment, subcharts."""
    wanted = re.compile(r"(?:^|/)(?:templates/|charts/|Chart\.ya?ml$|values\.ya?ml$)")
    return [p for p in chart.files if wanted.search(chart.inside(p))] + list(environments(chart).values())


# --- values ----------------------------------------------------------------------------------------------------------------


def read_values(tree: Tree, path: str) -> Value:
    """A values file; an empty map where it is not there or cannot be read."""
    if not tree.exists(path):
        return Map((path, 1), {})
    try:
        return data_files.load(without_marks(tree.read(path)), (path, 1), "yaml") or Map((path, 1), {})
    except Unreadable:
        return Map((path, 1), {})


def default_values(tree: Tree, root: str) -> Value:
    for name in ("values.yaml", "values.yml"):
        if tree.exists(posixpath.join(root, name)):
            return read_values(tree, posixpath.join(root, name))
    return Map((posixpath.join(root, "values.yaml"), 1), {})


# --- rendering ---------------------------------------------------------------------------------------------------------------


def launches(
    tree: Tree, chart: Chart, layers: Sequence[Value], *, environment: str = "default", release: str | None = None
) -> list[Launch]:
    """What the chart deploys with its own values and the layers over them, the last one strongest."""
    values = default_values(tree, chart.root)
    for layer in layers:
        values = overlay(values, layer)
    found: list[Launch] = []
    for path, lines in _together(render(tree, chart, values, release, 0)):
        # Outside templates/, so that no format takes the result for a template again.
        virtual = chart.at(f"{posixpath.basename(path).rpartition('.')[0]}.rendered.yaml")
        for launch in launches_in(tree, virtual, document(lines)):
            moved = relocate(launch, virtual, lines)
            if moved.name == "unnamed":
                moved = dataclasses.replace(moved, name=chart.name)
            found.append(dataclasses.replace(moved, environment=environment, format="helm"))
    return found


def _together(rendered: list[tuple[str, list[Line]]]) -> Iterator[tuple[str, list[Line]]]:
    """KServe's objects of all templates as one text: a service and the runtime that it names refer to each other."""
    serving = [(path, lines) for path, lines in rendered if any("serving.kserve.io/" in line.text for line in lines)]
    if len(serving) < 2:
        yield from rendered
    else:
        paths = {path for path, _ in serving}
        yield from ((path, lines) for path, lines in rendered if path not in paths)
        parted = Line("---", serving[0][1][0].top, serving[0][1][0].top)
        yield serving[0][0], [line for _, lines in serving for line in (parted, *lines)]


def render(
    tree: Tree,
    chart: Chart,
    values: Value,
    release: str | None,
    depth: int,
    templates: dict[str, tuple[str, list[gotemplate.Node]]] | None = None,
) -> list[tuple[str, list[Line]]]:
    """(path, lines) of each rendered template of the chart and its subcharts."""
    parsed = _parsed(tree, chart)
    named: dict[str, tuple[str, list[gotemplate.Node]]] = dict(templates or {})
    for path, (_, defined) in parsed.items():
        named.update({name: (path, nodes) for name, nodes in defined.items()})
    out: list[tuple[str, list[Line]]] = []
    subcharts = _subcharts(tree, chart) if depth < MAX_DEPTH else []
    for sub in subcharts:
        for path, (_, defined) in _parsed(tree, sub).items():
            named.update({name: (path, nodes) for name, nodes in defined.items() if name not in named})
    dot = _dot(tree, chart, values, release)
    for path, (nodes, _) in parsed.items():
        if not path.endswith((".yaml", ".yml")) or posixpath.basename(path).startswith("_") or "/tests/" in path:
            continue
        try:
            out.append((path, Renderer(named, FUNCTIONS).render(nodes, path, dot).lines))
        except (Stopped, RecursionError):
            tree.skipped.append(
                Skipped(path, f"not rendered; pipe `helm template {chart.root or '.'} | checklistbot check -`")
            )
    for sub in subcharts:
        inner = _sub_values(tree, chart, sub, values)
        if inner is not None:
            out += render(tree, sub, inner, release, depth + 1, named)
    return out


def _parsed(tree: Tree, chart: Chart) -> dict[str, tuple[list[gotemplate.Node], dict[str, list[gotemplate.Node]]]]:
    prefix = chart.at("templates/")
    found = {}
    for path in [p for p in chart.files if p.startswith(prefix)][:MAX_FILES]:
        if not path.endswith((".yaml", ".yml", ".tpl", ".txt", ".gotmpl")) or path.endswith("NOTES.txt"):
            continue
        try:
            found[path] = gotemplate.parse(without_marks(tree.read(path)))
        except (Unreadable, gotemplate.TemplateError, RecursionError):
            tree.skipped.append(
                Skipped(path, f"not rendered; pipe `helm template {chart.root or '.'} | checklistbot check -`")
            )
    return found


def _subcharts(tree: Tree, chart: Chart) -> list[Chart]:
    prefix = chart.at("charts/")
    roots = {
        prefix + p[len(prefix) :].split("/")[0] for p in chart.files if p.startswith(prefix) and "/" in p[len(prefix) :]
    }
    return [load(tree, root) for root in sorted(roots) if is_chart(tree, root)][:20]


def _sub_values(tree: Tree, chart: Chart, sub: Chart, values: Value) -> Value | None:
    """A subchart's values under its parent's, None where a dependency's condition switches it off."""
    data = values.data if isinstance(values, Map) else {}
    meta = read_values(tree, chart.at("Chart.yaml"))
    dependencies = meta.data.get("dependencies") if isinstance(meta, Map) else None
    key = sub.name
    for entry in getattr(dependencies, "data", []):
        if isinstance(entry, Map) and show(entry.data.get("name", Const(entry.at, ""))) == sub.name:
            alias, condition = entry.data.get("alias"), entry.data.get("condition")
            key = show(alias) if alias is not None else key
            if condition is not None and _switched_off(values, show(condition)):
                return None
    own = overlay(default_values(tree, sub.root), data.get(key, Map((sub.root, 1), {})))
    if "global" in data and isinstance(own, Map):
        own = overlay(own, Map(own.at, {"global": data["global"]}))
    return own


def _switched_off(values: Value, condition: str) -> bool:
    for path in condition.split(","):
        value: Value | None = values
        for part in path.strip().split("."):
            value = value.data.get(part) if isinstance(value, Map) else None
        if isinstance(value, Const) and value.value is not None:
            return not value.value
    return False


def _dot(tree: Tree, chart: Chart, values: Value, release: str | None) -> Map:
    """Helm's top-level objects. What only an installation knows is unknown."""
    at: Place = (chart.at("values.yaml"), 1)
    meta = read_values(tree, chart.at("Chart.yaml"))
    info = dict(meta.data) if isinstance(meta, Map) else {}
    titled = {str(k)[:1].upper() + str(k)[1:]: v for k, v in info.items()}
    titled.setdefault("Name", Const(at, chart.name))
    for missing in ("Version", "AppVersion"):
        titled.setdefault(missing, Unk(at, f"Chart.{missing}", "not-rendered"))
    name: Value = Const(at, release) if release else Unk(at, "Release.Name", "not-rendered")
    return Map(
        at,
        {
            "Values": values,
            "Chart": Map(at, dict(titled)),
            "Release": Map(
                at,
                {
                    "Name": name,
                    "Namespace": Unk(at, "Release.Namespace", "not-rendered"),
                    "Service": Const(at, "Helm"),
                    "IsInstall": Const(at, True),
                    "IsUpgrade": Const(at, False),
                    "Revision": Const(at, 1),
                },
            ),
            "Capabilities": Map(
                at,
                {
                    "APIVersions": Map(at, {"Has": method(at, lambda args, here: Const(here, False))}),
                    "KubeVersion": Map(at, {}),
                },
            ),
            "Template": Map(at, {"Name": Const(at, chart.name), "BasePath": Const(at, "templates")}),
            "Files": Map(at, {"Get": method(at, lambda args, here: _file(tree, chart, args, here))}),
        },
    )


def _file(tree: Tree, chart: Chart, args: list[Value], at: Place) -> Value:
    path = posixpath.normpath(chart.at(show(args[0]) if args else ""))
    prefix = chart.root + "/" if chart.root else ""
    if path.startswith(("/", "..")) or not path.startswith(prefix) or not tree.exists(path):
        return Const(at, "")
    try:
        return Const((path, 1), without_marks(tree.read(path)))
    except Unreadable:
        return Unk(at, path, "not-readable")
