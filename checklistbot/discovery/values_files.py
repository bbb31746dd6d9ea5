"""Helm values of charts that are not in the repository, where the chart is public and its values say what it runs.

llm-d's modelservice (``modelArtifacts``, ``decode``, ``prefill``), vLLM's production-stack (``servingEngineSpec.modelSpec``), and values that
name engine, image, model and arguments in one map. Values of a chart in the tree are read by rendering it (``helm.py``).
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable

from checklistbot.discovery.base import Format
from checklistbot.discovery.tree import Tree
from checklistbot.engines.base import Launch
from checklistbot.lazy import pattern

_NAME = pattern(r"(?:^|[-_.])values(?:[-_.]|$)|^values|overrides?\.ya?ml$")
_KNOWN = pattern(r"^(?:servingEngineSpec|modelArtifacts)\s*:", re.MULTILINE)


def claims(path: str, text: str) -> bool:
    """YAML files called values, and any that have the sections of the two public charts."""
    if not path.endswith((".yaml", ".yml")) or re.search(r"^(?:apiVersion|services)\s*:", text, re.MULTILINE):
        return False
    return _KNOWN.search(text) is not None or _NAME.search(posixpath.basename(path)) is not None


def launches(tree: Tree, path: str, text: str) -> Iterable[Launch]:
    """The engines that the values deploy, unless a release object or a chart of the tree uses the file."""
    from checklistbot.discovery.interpret import charts, data_files, gitops, knownvalues

    if path in gitops.referenced(tree):
        return []
    chart = charts.chart_of(tree, path)
    if chart is not None and path in charts.owned(chart):
        return []
    values = data_files.load(text, (path, 1), "yaml")
    return knownvalues.launches(tree, values) if values is not None else []


FORMAT = Format("values", claims, launches)
