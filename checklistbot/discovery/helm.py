"""Helm charts whose templates and values are both in the repository, by our own substitution (``interpret/charts.py``).

Each ``values-NAME.yaml`` is the environment NAME; without one the chart's own values are ``default``. A chart that an Argo CD, Flux,
Helmfile or Terraform release of the same tree installs is reported there. What cannot be rendered is listed as skipped, with
the command that pipes it in.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from checklistbot.discovery.base import Format
from checklistbot.discovery.tree import Tree
from checklistbot.engines.base import Launch
from checklistbot.lazy import pattern

if TYPE_CHECKING:
    from checklistbot.discovery.render import Renderer

_TEMPLATE = pattern(r"(?:^|/)templates/")
_VALUES = pattern(
    r"(?:^|/)(?:values[^/]*|[^/]*values|(?:environments|envs?|values|overlays|stages|clusters)/[^/]+)\.ya?ml$"
)


def claims(path: str, text: str) -> bool:
    """Files under ``templates/``, values files and Chart.yaml."""
    if path.endswith("Chart.yaml"):
        return True
    return (_TEMPLATE.search(path) is not None and path.endswith((".yaml", ".yml", ".tpl"))) or _VALUES.search(
        path
    ) is not None


def consumes(tree: Tree, path: str, text: str) -> Iterable[str]:
    """All that rendering the chart reads."""
    from checklistbot.discovery.interpret import charts

    chart = charts.chart_of(tree, path)
    return charts.owned(chart) if chart is not None and path in charts.owned(chart) else ()


def launches(tree: Tree, path: str, text: str) -> Iterable[Launch]:
    """The whole chart, once: the first of its files that holds an engine word reports it."""
    from checklistbot.discovery import render
    from checklistbot.discovery.interpret import charts, releases

    chart = charts.chart_of(tree, path)
    if chart is None or releases.first_with_engine_word(tree, charts.owned(chart)) != path:
        return []
    if chart.root in releases.referenced(tree):
        return []
    found: list[Launch] = []
    environments = charts.environments(chart)
    renderer = render.active("helm")
    if renderer is not None:
        rendered = _rendered(tree, renderer, chart.root, environments)
        if rendered is not None:
            return rendered
    for name, values in environments.items():
        found += charts.launches(tree, chart, [charts.read_values(tree, values)], environment=name)
    return found if environments else charts.launches(tree, chart, [])


def _rendered(tree: Tree, renderer: Renderer, root: str, environments: dict[str, str]) -> list[Launch] | None:
    """The chart in each environment as helm renders it; None where one of them could not be."""
    from checklistbot.discovery.interpret import gitops

    found: list[Launch] = []
    for name, values in (environments or {"default": ""}).items():
        documents = renderer.documents(tree, root, (values,) if values else ())
        if documents is None:
            return None
        found += gitops.deploy(tree, documents, name)
    return found


FORMAT = Format("helm", claims, launches, consumes=consumes)
