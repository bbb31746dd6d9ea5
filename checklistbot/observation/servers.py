"""The servers of a log: their starts, which of them count, and what they become.

A server is one engine in one stream. Hosts take the lines of the engine inside them, lines without a prefix join
the only stream there is, further nodes of a server are none, and a launch command shown below a log belongs to the
start above it.
"""

from __future__ import annotations

from dataclasses import field
from itertools import pairwise
from pathlib import PurePath
from typing import Final

from checklistbot.engines._log import LogGrammar, Notes, grammars
from checklistbot.model import Deployment, Fact, Scalar, Unknown
from checklistbot.observation.build import build
from checklistbot.record import mutable_record, record

MAX_STARTS: Final = 64
#: What one start passes on to the next of the same server: who it is, never what it measured.
_IDENTITY: Final = (
    "model",
    "served_model_name",
    "engine_version",
    "tensor_parallel",
    "pipeline_parallel",
    "data_parallel",
    "role",
)
#: What the first node of a server says, and a worker does not.
_SPEAKS: Final = ("kv_pool_tokens", "blocks", "fatal", "context_length", "model", "served_model_name")
#: What makes a start worth reporting.
_TELLING: Final = (
    "kv_pool_tokens",
    "blocks",
    "context_length",
    "fatal",
    "model",
    "served_model_name",
    "memory_fraction",
    "factor",
    "kv_gib",
)


@record
class Extras:
    """What a log says of a server beyond the facts; None where it does not. Sizes in GiB, lengths in tokens."""

    factor: float | None = None
    kv_gib: float | None = None
    needed_gib: float | None = None
    estimated_max_context: int | None = None
    fatal: str | None = None
    earlier_starts: int = 0


@mutable_record
class Server:
    """One engine in one stream: the notes of its starts, the last one open."""

    grammar: LogGrammar
    stream: str
    starts: list[Notes] = field(default_factory=list)
    dropped: int = 0
    boots: set[tuple[Scalar, str]] = field(default_factory=set)
    pool_at: dict[str, float | None] = field(default_factory=dict)
    copies: dict[str, int] = field(default_factory=dict)
    context_said: Scalar | None = None

    @property
    def now(self) -> Notes:
        return self.starts[-1]

    def begin(self, line: int, *, parallel: bool = False) -> None:
        self.starts.append(Notes(line, parallel=parallel))
        self.boots.clear()
        self.pool_at.clear()
        self.copies.clear()
        if len(self.starts) > MAX_STARTS:
            self.starts.pop(0)
            self.dropped += 1


def tells(notes: Notes) -> bool:
    """True if a start says anything that a deployment is made of."""
    return any(notes.has(key) for key in _TELLING)


def merged(servers: list[Server], name: str) -> list[Server]:
    """Servers that are worth reporting: a host takes the lines of the engine inside it, lines without a prefix join
    the only stream there is, streams that say nothing go."""
    servers = _hosted(servers, name)
    by_engine: dict[str, list[Server]] = {}
    for server in servers:
        by_engine.setdefault(server.grammar.engine, []).append(server)
    for group in by_engine.values():
        named = [server for server in group if server.stream]
        bare = [server for server in group if not server.stream]
        if len(named) == 1 and bare and not (bare[0].now.settled and named[0].now.settled):
            _absorb(named[0], bare[0])
            servers.remove(bare[0])
    telling = [server for server in servers if any(tells(notes) for notes in server.starts)]
    telling = [server for server in telling if not _is_worker(server, telling)]
    return telling or servers[:1]


def _is_worker(server: Server, servers: list[Server]) -> bool:
    """True for the log of a further node of a server whose first node is in the same log: the first one speaks for
    all."""
    others = [one for one in servers if one is not server and one.grammar is server.grammar]
    node = server.now.number("node_rank")
    if node:
        return any(not one.now.number("node_rank") for one in others)
    if any(server.now.has(key) for key in _SPEAKS):
        return False
    return any(one.now.settled for one in others)


def _hosted(servers: list[Server], name: str) -> list[Server]:
    """Servers without those that run inside another of the same stream. The inner lines alone are the host's if the
    log's name says so."""
    kept = list(servers)
    for grammar in grammars():
        for inner in [server for server in servers if server.grammar.engine in grammar.hosts]:
            outer = next((s for s in servers if s.grammar is grammar and s.stream in (inner.stream, "")), None)
            if outer is not None:
                _absorb(outer, inner)
                kept.remove(inner)
            elif grammar.engine in PurePath(name).name.lower():
                inner.grammar = grammar
    return kept


def _absorb(server: Server, other: Server) -> None:
    for key, kept in other.now.entries.items():
        for place, entry in kept.items():
            server.now.entries.setdefault(key, {}).setdefault(place, entry)
    server.now.first_line = min(server.now.first_line, other.now.first_line)


def folded(starts: list[Notes]) -> list[Notes]:
    """Starts without those that are only a launch command or a dump shown below the log that it belongs to."""
    kept: list[Notes] = []
    for notes in starts:
        before = kept[-1] if kept else None
        if before is not None and before.settled and not before.has("fatal") and _is_appendix(before, notes):
            for key, entries in notes.entries.items():
                before.entries.setdefault(key, entries)
        else:
            kept.append(notes)
    return kept


def _is_appendix(before: Notes, notes: Notes) -> bool:
    """True if these notes hold no word of a running engine, or are older by the log's own clock than the pool
    before them."""
    if notes.settled or notes.has("factor") or notes.has("kv_gib"):
        return False
    said = {entry.value for entry in notes.strongest("boot")}
    if said and said <= {"command"} and not notes.has("seen"):
        return True
    return notes.began is not None and before.last is not None and notes.began < before.last


def inherit(starts: list[Notes]) -> None:
    for before, after in pairwise(starts):
        for key in _IDENTITY:
            if key in before.entries and key not in after.entries:
                after.entries[key] = dict(before.entries[key])


def built(server: Server, notes: Notes, name: str) -> Deployment:
    grammar = server.grammar
    deployment = build(
        notes,
        engine=grammar.engine,
        name=name,
        stream=server.stream,
        fits=grammar.fits(notes),
        variant=grammar.variant,
    )
    if notes.ambiguous:
        return deployment.replace(kv_pool_tokens=Fact(unknown=Unknown("ambiguous", supply=("endpoint", "config"))))
    return deployment


def unique(found: list[Deployment], servers: list[Server]) -> list[Deployment]:
    """``@stream`` where two servers of a log would share an id; engine, context or pool where even that is the
    same."""
    ids = [deployment.id for deployment in found]
    named: list[Deployment] = []
    taken: set[str] = set()
    for deployment, server in zip(found, servers, strict=True):
        new = deployment.id
        if ids.count(new) > 1:
            new += f"@{server.stream or server.grammar.engine}"
        for more in (
            server.grammar.engine,
            deployment.context_length.value,
            deployment.kv_pool_tokens.value,
            len(taken),
        ):
            if new not in taken:
                break
            new = f"{new}-{more}" if more is not None else new
        taken.add(new)
        named.append(deployment.replace(id=new))
    return named


def extras_of(notes: Notes, earlier: int) -> Extras:
    estimated = notes.number("estimated")
    fatal = notes.best("fatal")
    return Extras(
        notes.number("factor"),
        notes.number("kv_gib"),
        notes.number("needed_gib"),
        int(estimated) if estimated else None,
        str(fatal.value) if fatal else None,
        earlier,
    )
