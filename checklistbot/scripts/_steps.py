"""The checklist as steps of a script: what is asked of which worker, and what the requests of one group are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import field
from typing import Any, Final

from checklistbot.model import Checklist, Deployment, Facts, Item, Scalar
from checklistbot.record import record
from checklistbot.scripts._filters import slug

#: Kinds that need requests to a model: one ``checklistbot probe --plan`` does them all. An abort storm is not among them until the
#: probe has one: a script says SKIP.
REQUESTS: Final = ("boundary-request", "content-needles", "canary-leak")
#: Engines whose pages tell the probe how long a prompt may be.
_TELLING: Final = ("sglang", "vllm", "llama.cpp")
_ROLES: Final = {"prefill": "PREFILL", "decode": "DECODE"}


@record
class Worker:
    """A deployment as a script knows it. ``prefix`` begins the names of its variables (PREFILL_URL, PREFILL_LOG).

    ``log`` is the start-up log that the facts were read from, where it is a file of the repository and not stale.
    """

    id: str
    prefix: str
    router: str
    engine: str
    log: str = ""
    facts: Mapping[str, Scalar] = field(default_factory=dict)


@record
class Step:
    """One item: its id, its worker, its automation."""

    id: str
    function: str
    kind: str
    worker: Worker
    automation: Mapping[str, Any]


@record
class Requests:
    """The request items that go to one address in one go."""

    router: str
    function: str
    items: tuple[Step, ...]

    @property
    def context(self) -> tuple[str, str] | None:
        """The variable of the context length and what the facts say, for a server that does not tell it itself."""
        worker = self.items[0].worker
        known = worker.facts.get("context_length")
        if known is None or worker.engine in _TELLING:
            return None
        return f"{worker.prefix}_CONTEXT_LENGTH", str(known)


def steps(checklist: Checklist, facts: Facts) -> tuple[Step, ...]:
    """The checklist's items in their order. An item without an automation is a manual one."""
    workers = _workers(checklist, facts)
    found = []
    for n, item in enumerate(checklist.items, 1):
        automation = item.automation or {"kind": "manual"}
        worker = workers[_deployment_id(item, workers)]
        found.append(Step(item.id, f"check_{n:02d}_{slug(item.topic)}", str(automation["kind"]), worker, automation))
    return tuple(found)


def requests(found: tuple[Step, ...]) -> tuple[Requests, ...]:
    """The request items by the address that they go to."""
    by_router: dict[str, list[Step]] = {}
    for step in found:
        if step.kind in REQUESTS:
            by_router.setdefault(step.worker.router, []).append(step)
    return tuple(
        Requests(router, f"requests_{n:02d}", tuple(items)) for n, (router, items) in enumerate(by_router.items(), 1)
    )


def _own_id(item: Item) -> str:
    return item.id.partition("/")[2] or item.id


def _deployment_id(item: Item, workers: Mapping[str, Worker]) -> str:
    """The worker that an automation means: its role's where it names another role of the item's group."""
    own = _own_id(item)
    role = item.automation.get("role") if item.automation else None
    sibling = f"{own.rpartition('/')[0]}/{role}"
    return sibling if role and sibling in workers else own


def _workers(checklist: Checklist, facts: Facts) -> dict[str, Worker]:
    """A worker for every deployment that an item names; without facts, from what the items say they rest on."""
    known = {deployment.id: deployment for deployment in facts.deployments}
    named = {_own_id(item): item for item in reversed(checklist.items)}
    ids = list(dict.fromkeys(_own_id(item) for item in checklist.items))
    siblings = {i.rpartition("/")[0] for i in ids}
    ids += [id_ for id_ in known if id_ not in ids and id_.rpartition("/")[0] in siblings]
    prefixes, routers = _prefixes(ids)
    workers = {}
    for id_ in ids:
        if id_ in known:
            workers[id_] = _from_facts(known[id_], prefixes[id_], routers[id_])
        else:
            workers[id_] = _from_item(id_, named[id_], prefixes[id_], routers[id_], checklist)
    return workers


def _from_facts(deployment: Deployment, prefix: str, router: str) -> Worker:
    pool = deployment.kv_pool_tokens
    source = pool.source
    in_repository = source is not None and source.kind == "observed" and source.path and "://" not in source.path
    log = str(source.path) if source and in_repository and not pool.stale else ""
    values = {name: fact.value for name, fact in deployment.facts() if fact.value is not None and not fact.stale}
    return Worker(deployment.id, prefix, router, deployment.engine.text() or "", log, values)


def _from_item(id_: str, item: Item, prefix: str, router: str, checklist: Checklist) -> Worker:
    engines = [
        str(other.automation["engine"])
        for other in checklist.items
        if _own_id(other) == id_ and other.automation and "engine" in other.automation
    ]
    engine = str(item.facts_used.get("engine") or next(iter(engines), ""))
    return Worker(id_, prefix, router, engine, facts=dict(item.facts_used))


def _prefixes(ids: list[str]) -> tuple[dict[str, str], dict[str, str]]:
    """Names of variables, as short as they stay unique: PREFILL, then GLM_5_3_PREFILL, then PROD_GLM_5_3_PREFILL."""
    parts = {id_: _parts(id_) for id_ in ids}
    for first in (2, 1, 0):
        names = {id_: "_".join(filter(None, parts[id_][first:])) for id_ in ids}
        if max(Counter(names.values()).values(), default=1) == 1:
            break
    else:
        names = {id_: f"{parts[id_][2]}_{n}" for n, id_ in enumerate(ids, 1)}
    groups = {id_: id_.rpartition("/")[0] for id_ in ids}
    several = len(set(groups.values())) > 1
    routers = {}
    for n, id_ in enumerate(ids, 1):
        alone = list(groups.values()).count(groups[id_]) == 1 and parts[id_][2] == "SERVER"
        shared = "_".join(filter(None, [*parts[id_][first:2], "ROUTER"])) if several else "ROUTER"
        routers[id_] = names[id_] if alone else shared if first < 2 or not several else f"ROUTER_{n}"
    return {id_: _safe(name) for id_, name in names.items()}, {id_: _safe(name) for id_, name in routers.items()}


def _parts(id_: str) -> tuple[str, str, str]:
    """(environment, group, role) in capitals; the environment is left out where the repository has none."""
    pieces = id_.split("/")
    environment, role = pieces[0] if len(pieces) > 1 else "", pieces[-1]
    group = "/".join(pieces[1:-1])
    base, _, twin = role.partition("@")
    word = "_".join(filter(None, [_ROLES.get(base, "SERVER"), slug(twin).upper()]))
    return ("" if environment == "default" else slug(environment).upper(), slug(group).upper(), word)


def _safe(name: str) -> str:
    return f"AT_{name}" if name[:1].isdigit() else name
