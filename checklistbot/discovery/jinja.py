"""Jinja templates (Ansible roles, ``*.j2``): rendered by our own walk over jinja2's parsed tree, then read as what they become.

Values come from the role's ``defaults`` and ``vars``, from ``group_vars/all`` and ``group_vars/NAME`` (an environment each), and from a
``vars``/``values`` file of the same name beside the template. Jinja itself never renders: a template of the reviewed tree could loop
for ever. What nobody defines is unknown.
"""

from __future__ import annotations

from collections.abc import Iterable

from checklistbot.discovery.base import Format
from checklistbot.discovery.tree import Tree
from checklistbot.engines.base import Launch

_SUFFIXES = (".j2", ".jinja", ".jinja2", ".tmpl.j2")


def claims(path: str, text: str) -> bool:
    """Templates by their suffix."""
    return path.endswith(_SUFFIXES)


def launches(tree: Tree, path: str, text: str) -> Iterable[Launch]:
    """What the rendered file starts, once for each environment that the inventory tells apart."""
    from checklistbot.discovery.interpret import ansible

    return ansible.find(tree, path, text)


FORMAT = Format("jinja", claims, launches)
