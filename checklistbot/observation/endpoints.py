"""A live server, or a router in front of several → observed deployments."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from checklistbot.engines._live import Live, live, table
from checklistbot.engines._log import pool_fits
from checklistbot.model import ChecklistbotError, Deployment, InputError, Skipped
from checklistbot.observation.build import build
from checklistbot.observation.fetch import Resolver, Server, resolve
from checklistbot.observation.fetch import server as checked
from checklistbot.record import record
from checklistbot.retry import Deadline

#: Holds the value of the Authorization header ("Bearer …") for every endpoint; a config file cannot name another.
AUTH: Final = "CHECKLISTBOT_ENDPOINT_AUTH"
SECONDS: Final = 60.0
MAX_WORKERS: Final = 64
_ROLES: Final = {"prefill": "prefill", "decode": "decode"}


@record
class EndpointReading:
    """The servers behind an address; ``skipped`` names workers of a router that could not be asked."""

    servers: tuple[Deployment, ...] = ()
    skipped: tuple[Skipped, ...] = ()


@record
class _Worker:
    url: str
    role: str | None = None


def observe_endpoint(url: str, *, from_argv: bool = True) -> EndpointReading:
    """The servers at an address, asked within 60 s; CHECKLISTBOT_ENDPOINT_AUTH is sent as the Authorization header.

    ``from_argv``: the command line names the address, so it may be this machine's own. Raises UsageError and
    InputError as ``read_endpoint`` does.
    """
    auth = os.environ.get(AUTH, "").strip() or None
    return read_endpoint(url, auth=auth, from_argv=from_argv, deadline=Deadline(SECONDS))


def read_endpoint(
    url: str, *, auth: str | None, from_argv: bool, deadline: Deadline, resolver: Resolver = resolve
) -> EndpointReading:
    """Ask the server at ``url`` what it is and holds, and if it is a router, its workers too.

    ``auth`` is the value of the Authorization header and goes to the host of ``url`` only. Raises UsageError where
    the address may not be asked, InputError where nothing answers or no engine is recognised. No answer's text is
    ever part of a message.
    """
    server = checked(url, auth=auth, from_argv=from_argv, left=deadline.left, resolver=resolver)
    workers = list(_workers(server))
    if workers:
        return _router(server, workers, from_argv=from_argv, deadline=deadline, resolver=resolver)
    found = list(_servers(server))
    if found:
        return EndpointReading(tuple(_unique(found)))
    if not any(answer is not None for answer in server.asked.values()):
        raise InputError(
            f"--endpoint {server.url}: no answer, refused or silent for up to {SECONDS:.0f} s; is the worker running and the port right?"
        )
    raise InputError(f"--endpoint {server.url}: no engine is recognised there; name a worker's own address")


def _servers(server: Server, role: str | None = None) -> Iterator[Deployment]:
    """What the first engine that recognises itself says."""
    for grammar in live():
        found = list(grammar.read(server.ask))
        for one in found:
            if role and not one.notes.has("role"):
                one.say("role", role)
            yield _deployment(one, grammar.engine, server)
        if found:
            return


def _deployment(one: Live, engine: str, server: Server) -> Deployment:
    fits = one.fits if one.fits is not None else pool_fits(one.notes)
    deployment = build(one.notes, engine=engine, name=server.url, stream=one.name or server.url, fits=fits)
    return deployment.replace(file=server.url, first_rejected_length=one.first_rejected_length)


# --- routers --------------------------------------------------------------------------------------------------------


def _workers(server: Server) -> Iterator[_Worker]:
    """The workers that a router lists: /workers (sglang-router, vllm-router), /list_workers before."""
    listed = table(server.ask, "/workers")
    entries = listed.get("workers")
    if not isinstance(entries, list):
        entries = table(server.ask, "/list_workers").get("urls")
    for entry in entries[:MAX_WORKERS] if isinstance(entries, list) else []:
        if isinstance(entry, str):
            yield _Worker(entry)
        elif isinstance(entry, Mapping) and isinstance(entry.get("url"), str):
            yield _Worker(entry["url"], _ROLES.get(str(_kind(entry)).lower()))


def _kind(entry: Mapping[str, Any]) -> object:
    return entry.get("worker_type") or entry.get("type") or entry.get("role")


def _router(
    router: Server, workers: list[_Worker], *, from_argv: bool, deadline: Deadline, resolver: Resolver
) -> EndpointReading:
    """Each worker, asked at its own address under the same rules; the token goes along only to the router's own
    host."""
    found: list[Deployment] = []
    skipped: list[Skipped] = []
    for worker in workers:
        try:
            same = urlsplit(worker.url).hostname == router.host
            own = checked(
                worker.url,
                auth=router.auth if same else None,
                from_argv=from_argv,
                left=deadline.left,
                resolver=resolver,
            )
            servers = list(_servers(own, worker.role))
        except ChecklistbotError:
            servers = []
        found += servers
        if not servers:
            skipped.append(
                Skipped(router.url, "a worker of this router gave no answer that an engine is recognised by")
            )
    if not found:
        raise InputError(
            f"--endpoint {router.url}: a router, but none of its {len(workers)} workers can be asked from here"
        )
    return EndpointReading(tuple(_unique(found)), tuple(skipped))


def _unique(found: list[Deployment]) -> list[Deployment]:
    ids = [deployment.id for deployment in found]
    return [entry.replace(id=f"{entry.id}@{entry.name}") if ids.count(entry.id) > 1 else entry for entry in found]
