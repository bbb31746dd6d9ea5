"""What a format file offers (``FORMAT``), and the registry that reads the folder."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable
from functools import cache

from checklistbot.discovery.tree import Tree
from checklistbot.engines.base import Launch
from checklistbot.record import record


def _nothing(tree: Tree, path: str, text: str) -> Iterable[str]:
    return ()


@record
class Format:
    """One file format; see the docstring of ``checklistbot.discovery`` for how to write one.

    ``claims`` must be cheap: it sees every candidate file. ``anchors`` are globs of file names that are candidates whatever they
    hold; ``words`` are literal bytes that make a file a candidate beside the engines' own. ``consumes`` names the files that this
    one renders: they are handed to no other format.
    """

    name: str
    claims: Callable[[str, str], bool]
    launches: Callable[[Tree, str, str], Iterable[Launch]]
    anchors: tuple[str, ...] = ()
    words: tuple[bytes, ...] = ()
    consumes: Callable[[Tree, str, str], Iterable[str]] = _nothing


@cache
def formats() -> tuple[Format, ...]:
    """The ``FORMAT`` of every module of this folder that has one, by module name."""
    package = __name__.rpartition(".")[0]
    folder = importlib.import_module(package).__path__
    names = sorted(module.name for module in pkgutil.iter_modules(folder) if not module.ispkg)
    modules = (importlib.import_module(f"{package}.{name}") for name in names if name != "base")
    return tuple(module.FORMAT for module in modules if hasattr(module, "FORMAT"))


def launches_in(tree: Tree, path: str, text: str) -> list[Launch]:
    """The launches of one text by every format that claims it; for formats that hold or render other files.

    ``path`` may be virtual (a template without its ``.j2``): it decides which formats claim the text and is the path of the
    words that come out.
    """
    return [launch for form in formats() if form.claims(path, text) for launch in form.launches(tree, path, text)]
