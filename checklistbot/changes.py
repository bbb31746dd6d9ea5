"""What a pull request changes: deployments of base and head paired, and the facts in which they differ (CONTRACTS, "Id")."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence

from checklistbot.model import FACT_NAMES, Change, Deployment, Facts

#: Facts that follow from others are not shown as changes of their own.
_SHOWN = tuple(name for name in FACT_NAMES if name not in ("served_context", "world_size"))

_KEYS: tuple[Callable[[Deployment], Hashable], ...] = (
    lambda d: d.id,
    lambda d: (d.environment, d.file, d.name, d.role.value),
    lambda d: (d.environment, d.role.value, d.model.value) if d.model.known else None,
)


def pair(base: Sequence[Deployment], head: Sequence[Deployment]) -> tuple[tuple[Deployment, Deployment], ...]:
    """(base, head) of what is the same deployment: by id; else by environment, file, name and role; else by environment, role and
    model where that is unique on both sides."""
    pairs: list[tuple[Deployment, Deployment]] = []
    old, new = list(base), list(head)
    for key in _KEYS:
        once = {k for k, n in Counter(map(key, old)).items() if n == 1} & {
            k for k, n in Counter(map(key, new)).items() if n == 1
        }
        by_key = {key(d): d for d in old}
        matched = [(by_key[key(d)], d) for d in new if key(d) in once and key(d) is not None]
        pairs += matched
        old = [d for d in old if all(d is not o for o, _ in matched)]
        new = [d for d in new if all(d is not n for _, n in matched)]
    return tuple(pairs)


def renamed(base: Facts, head: Facts) -> dict[str, str]:
    """Ids of the base, and of its groups, that the head has under another name: base id → head id."""
    names: dict[str, str] = {}
    for old, new in pair(base.deployments, head.deployments):
        if old.id != new.id:
            names[old.id] = new.id
        before, after = f"{old.environment}/{old.group}", f"{new.environment}/{new.group}"
        if before != after:
            names[before] = after
    return names


def changes(base: Facts, head: Facts) -> tuple[Change, ...]:
    """What differs, in the order of the head's deployments; what was added or removed is one change each."""
    pairs = pair(base.deployments, head.deployments)
    before = {new.id: old for old, new in pairs}
    paired = {old.id for old, _ in pairs}
    found: list[Change] = []
    for deployment in head.deployments:
        old = before.get(deployment.id)
        found += _between(old, deployment) if old else [Change("added", deployment.id)]
    found += [Change("removed", d.id) for d in base.deployments if d.id not in paired]
    return tuple(found)


def _between(old: Deployment, new: Deployment) -> Iterator[Change]:
    """Declared facts only: an observation that became stale is told by the findings, not as a change that somebody made."""
    for name in _SHOWN:
        a, b = old.fact(name), new.fact(name)
        if a.value != b.value and "observed" not in (a.kind, b.kind) and "predicted" not in (a.kind, b.kind):
            yield Change("changed", new.id, name, a.value, b.value, b.source or a.source)
    shown = {name.replace("_", "-") for name in FACT_NAMES}
    before, after = ({flag.name: flag for flag in d.flags} for d in (old, new))
    for name in sorted(before.keys() | after.keys()):
        x, y = before.get(name), after.get(name)
        if (x.raw if x else None) != (y.raw if y else None) and name not in shown and not _is_fact(old, new, name):
            yield Change("changed", new.id, f"--{name}", _flag(x), _flag(y), None)


def _flag(flag: object) -> str | None:
    value = getattr(flag, "value", None)
    return None if flag is None else "set" if value is None else str(value)


def _is_fact(old: Deployment, new: Deployment, flag: str) -> bool:
    """True if the flag is the source of a fact that was shown: the same line in the same file."""
    for deployment in (old, new):
        entry = deployment.flag(flag)
        if entry and any(f.source and (f.source.path, f.source.line) in _places(entry) for _, f in deployment.facts()):
            return True
    return False


def _places(entry: object) -> set[tuple[str, int]]:
    path, line = getattr(entry, "path", ""), getattr(entry, "line", 0)
    return {(path, line), (path, line + 1)}
