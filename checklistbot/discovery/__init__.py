"""Repository → deployments. One file a format; each finds the launch commands of its format. The registry is the folder.

How to write a format
---------------------
``discovery/NAME.py`` defines ``FORMAT = Format(name=…, claims=…, launches=…)`` (``discovery/base.py``). Nothing else is edited.

- ``claims(path, text) -> bool``: is this file of the format? Cheap: names, suffixes, ``"kind:" in text``. Two formats may claim
  one file if they find different things in it.
- ``launches(tree, path, text) -> Iterable[Launch]``: the commands that start engine servers. Other files are read through
  ``tree`` only (``tree.read`` raises ``Unreadable``; let it pass where the file is needed, the driver lists it). Never execute,
  never import, never raise on odd input: read what can be read.
- ``anchors``, ``words``, ``consumes``: files that hold no engine word themselves, and files that this one renders.
- Keep the module light at import: tree-sitter, YAML and ``ast`` are imported inside functions.

A ``Launch`` starts as a template that knows the workload, not the command::

    template = Launch(argv=(), path=path, line=line, name="glm", image=word, gpu_count=word, env={...}, format="kubernetes")

and ``discovery/launches.py`` makes it real:

- ``expand(template, words, tree)``: for an argv that is already split (YAML lists, Python lists, exec forms). Peels ``env``, ``sudo``, ``nohup``, ``srun``,
  ``docker run IMAGE``, ``uv run``, ``ssh``, ``tmux``, …, follows ``bash -c``; gives one launch for each engine *server* and nothing for routers,
  benchmark clients, builds and helpers. An image whose entrypoint is the server needs only its arguments.
- ``run_shell(template, script, tree, arguments=())``: for shell text (``Word`` with the text and its first line). Walks the script with its
  assignments, loops, functions and tests; what cannot be known becomes unknown.

``discovery/yaml_docs.py`` gives YAML with line numbers (``documents(path, text)``): maps, lists and ``Word`` scalars.
``launches_in(tree, path, text)`` hands text that a format holds or renders to every format that claims it.

Words and unknown values
------------------------
A ``Word`` has ``text`` or, where it cannot be known, ``text=None``, ``unknown`` and a ``raw`` in which the unknown part is "?"
(``--model=?``): engines read the flag's name from ``raw``. ``line`` is the line of the first character. Text of several lines
whose lines are not consecutive in the file carries ``starts``: (offset in ``text``, line of the file).

What is deployed
----------------
``discover`` lets every engine judge every launch (``Engine.deployment``), merges workers that repeat the leader's command and
equal servers of one loop, sets environments, groups, roles and ids (CONTRACTS, "Fact, deployment").
"""

from __future__ import annotations

from collections.abc import Sequence

from checklistbot.discovery.base import Format, formats, launches_in
from checklistbot.discovery.deployments import Discovered
from checklistbot.discovery.tree import Tree

__all__ = ["Discovered", "Format", "discover", "formats", "launches_in"]


def discover(tree: Tree, exclude: Sequence[str] = ()) -> Discovered:
    """What the tree deploys: deployments with stable ids, what was skipped, how many files were read.

    ``exclude`` are globs of paths (``examples/**``); excluded files are not listed as skipped.
    """
    from checklistbot.discovery.deployments import discover as find

    return find(tree, exclude)
