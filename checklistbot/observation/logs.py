"""A start-up log → the servers that it shows, as observed deployments.

Stretches of lines (stream.py) become records (lines.py); the engines' grammars say what each record tells; a server
is one engine in one stream; a start is what it said between two beginnings. The latest start counts, earlier ones
are reported.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from typing import BinaryIO, Final

from checklistbot.engines._log import MAX_RANKS, Entry, LogGrammar, Notes, Record, Said, grammars
from checklistbot.lazy import pattern
from checklistbot.model import (
    Deployment,
    InputError,
    Scalar,
    Skipped,
)
from checklistbot.observation.lines import records
from checklistbot.observation.servers import Extras, Server, built, extras_of, folded, inherit, merged, tells, unique
from checklistbot.observation.stream import MAX_LOOKED_AT, Stretch, Stretches, open_stream, was_cut
from checklistbot.observation.terminal import Terminal
from checklistbot.observation.wrapped import Joiner

MAX_SERVERS: Final = 256

#: Two pools of one rank further apart than this (seconds) belong to two starts.
_SAME_START: Final = 120.0
#: Two engines that show different contexts within so few seconds run beside each other.
_BESIDE: Final = 5.0
#: The line with the context follows its pool at once, others of the same moment between them.
_NEXT_LINES: Final = 3


@dataclass(frozen=True, slots=True)
class LogReading:
    """``servers`` by order of appearance (the latest start of each), ``earlier`` their earlier starts, ``cut`` if
    the log was not read to its end (that counts as not read). ``extras`` by deployment id."""

    servers: tuple[Deployment, ...] = ()
    earlier: tuple[Deployment, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    cut: bool = False
    extras: dict[str, Extras] = field(default_factory=dict)


def read_log(stream: BinaryIO, name: str) -> LogReading:
    """Read a log from an open binary stream (``stream.open_stream``); ``name`` is what facts give as their path.

    Needs constant memory for any size. Raises InputError if the stream cannot be read.
    """
    reader = LogReader(name)
    stretches = Stretches(stream, all_anchors(), all_words())
    try:
        for stretch in stretches:
            reader.feed(stretch)
    except OSError as error:
        raise InputError(f"{name}: cannot be read ({error.strerror or 'input error'})") from error
    return reader.finish(*ending(stream, stretches, name))


def ending(stream: BinaryIO, stretches: Stretches, name: str) -> tuple[tuple[Skipped, ...], bool]:
    """What of a log that was read through was skipped, and whether it was cut before its end."""
    skipped = []
    if stretches.long_lines:
        skipped.append(Skipped(name, f"{stretches.long_lines} line(s) longer than 64 KiB were cut"))
    if stretches.cut:
        skipped.append(Skipped(name, f"cut: more than {MAX_LOOKED_AT:,} lines near start-up lines"))
    if was_cut(stream):
        skipped.append(Skipped(name, "cut: larger than 4 GiB or 200:1 when decompressed, or a broken archive"))
    return tuple(skipped), stretches.cut or was_cut(stream)


def open_log(path: str) -> LogReading:
    """Read the log at ``path``, ``-`` for standard input; gzip is unpacked within bounds. Raises InputError if it
    cannot be read."""
    with open_stream(path) as stream:
        return read_log(stream, path)


# --- records → starts of servers ------------------------------------------------------------------------------------


def _any(words: Iterable[bytes]) -> re.Pattern[str]:
    """Any of the words, the longest first."""
    return re.compile("|".join(re.escape(word.decode()) for word in sorted(set(words), key=len, reverse=True)))


@cache
def _per_grammar() -> list[tuple[LogGrammar, re.Pattern[str]]]:
    return [(grammar, _any(grammar.words)) for grammar in grammars()]


@cache
def _joined() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Any word of an engine's lines, and those that carry values, for ``Joiner``."""
    return (
        _any(word for grammar in grammars() for word in grammar.words),
        _any(word for grammar in grammars() for word in (*grammar.anchors, *grammar.values)),
    )


class LogReader:
    """Takes the stretches of one log, in order, and makes a reading of them."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.servers: dict[tuple[str, str], Server] = {}
        self.hints: dict[str, dict[str, Entry]] = {}
        self.waiting: dict[str, set[str]] = {}
        self._terminal = Terminal()
        self._joiner = Joiner(*_joined())

    def feed(self, stretch: Stretch) -> None:
        by_stream: dict[str, list[Record]] = {}
        for number, line in self._terminal.lines(stretch.number, stretch.lines):
            for record in records(number, line):
                by_stream.setdefault(record.stream, []).append(record)
        for found in by_stream.values():
            self._see_ranks(found)
            for record in self._joiner.joined(found):
                self._read(record)

    def _see_ranks(self, found: list[Record]) -> None:
        """Note every rank that writes, whatever it says: the ranks tell the parallel sizes where nothing else
        does."""
        stream = found[0].stream
        servers = [server for (place, _), server in self.servers.items() if place == stream]
        waiting = self.waiting.setdefault(stream, set()) if len(self.waiting) < MAX_SERVERS else set()
        for rank in {record.rank for record in found if "TP" in record.rank or "PP" in record.rank}:
            for server in servers:
                server.now.see(rank)
            if not servers and len(waiting) < MAX_RANKS:
                waiting.add(rank)

    def _read(self, record: Record) -> None:
        for grammar, anchor in _per_grammar():
            if anchor.search(record.text):
                said = list(grammar.read(record))
                if said:
                    self._note(grammar, record, said)

        if "odel" in record.text or "max_model_len" in record.text or '"root"' in record.text:
            self._hint(record)

    def _hint(self, record: Record) -> None:
        """What a line says without saying of which engine; it fills gaps of the only server of its stream."""
        kept = self.hints.setdefault(record.stream, {}) if len(self.hints) < MAX_SERVERS else {}
        if match := _MODEL_HINT.search(record.text):
            kept.setdefault("model", Entry(match[1] or match[2], 5, record.number, record.rank))
        elif match := _ROOT_HINT.search(record.text):
            kept.setdefault("model", Entry(match[1], 4, record.number, record.rank))
        if match := _LENGTH_HINT.search(record.text):
            kept.setdefault("context_length", Entry(int(match[1]), 5, record.number, record.rank))

    def _note(self, grammar: LogGrammar, record: Record, said: list[Said]) -> None:
        key = (record.stream, grammar.engine)
        server = self.servers.get(key)
        if server is None:
            if not any(one.claims for one in said):
                return
            if len(self.servers) >= MAX_SERVERS:
                return
            server = self.servers[key] = Server(grammar, record.stream, [Notes(record.number)])
            server.now.ranks |= self.waiting.get(record.stream, set())
        rank = self._rank(server, record, said)
        server.now.see(record.rank)
        server.now.at(record.seconds)
        for one in said:
            server.now.add(one, record.number, rank)

    def _rank(self, server: Server, record: Record, said: list[Said]) -> str:
        """Open a new start where this record begins one; the rank under which to keep what it says."""
        now = server.now
        pools = [one for one in said if one.key in ("kv_pool_tokens", "blocks")]
        context = next((one.value for one in said if one.key == "context_length"), None)
        for one in said:
            if one.key == "boot":
                mark = (one.value, _PID.sub("", record.rank))
                if now.settled or mark in server.boots:
                    beside = not now.settled and _differs(now, said)
                    server.begin(record.number, parallel=beside)
                    if beside:
                        now.ambiguous = server.now.ambiguous = True
                server.boots.add(mark)
                return record.rank
        rank = record.rank
        if self._profiles_again(server, record, said):
            server.begin(record.number)
        if pools:
            rank = self._pool_rank(server, record, 80 if pools[0].key == "blocks" else pools[0].strength, context)
        elif context is not None and server.pool_at and now.has("factor") and context != now.number("context_length"):
            # vLLM names the context in the line behind the pool: another context is another start.
            self._move_last_pool(server, record)
        return rank

    @staticmethod
    def _profiles_again(server: Server, record: Record, said: list[Said]) -> bool:
        """True if a rank measures its memory a second time behind a pool: measuring comes first, so this is another
        start."""
        if server.grammar.repeat == "update" or not all(
            one.key in ("kv_gib", "memory_fraction", "seen") for one in said
        ):
            return False
        measured = [entry for entry in server.now.strongest("kv_gib") if entry.rank == record.rank]
        measures = any(one.key == "kv_gib" for one in said)
        return measures and any(entry.line < last.line for entry in measured for last in server.now.pools())

    def _pool_rank(self, server: Server, record: Record, strength: int, context: Scalar | None) -> str:
        now, place = server.now, f"{record.rank}/{strength}"
        if now.ambiguous:
            return record.rank
        if now.has("fatal") or now.has("died"):
            server.begin(record.number)
        elif place in server.pool_at and strength >= 80 and server.grammar.repeat != "update":
            before = server.pool_at[place]
            known = before is not None and record.seconds is not None
            gap = record.seconds - before if before is not None and record.seconds is not None else 0.0
            elsewhere = context is not None and now.has("context_length") and context != now.number("context_length")
            if server.grammar.repeat == "restart" or elsewhere or (known and not 0 <= gap <= _SAME_START):
                server.begin(record.number)
        server.pool_at[place] = record.seconds
        copy = server.copies[place] = server.copies.get(place, 0) + 1
        return record.rank if copy == 1 or server.grammar.repeat != "rank" else f"{record.rank} #{copy}".strip()

    def _move_last_pool(self, server: Server, record: Record) -> None:
        """The pool that stands just before this line opens the new start that its context reveals.

        No engine starts again within seconds: if that little has passed, two servers write to one stream.
        """
        old = server.now
        earlier = [
            at for rank, at in server.pool_at.items() if at is not None and not rank.startswith(f"{record.rank}/")
        ]
        beside = bool(earlier) and record.seconds is not None and 0 <= record.seconds - max(earlier) <= _BESIDE
        moved: list[tuple[str, tuple[int, str], Entry]] = []
        for key in ("kv_pool_tokens", "blocks", "kv_gib"):
            kept = old.entries.get(key, {})
            if len(kept) > 1:
                place, entry = max(kept.items(), key=lambda item: item[1].line)
                if 0 <= record.number - entry.line <= _NEXT_LINES:
                    moved.append((key, place, entry))
        for key, place, _ in moved:
            del old.entries[key][place]
        server.begin(min((entry.line for *_, entry in moved), default=record.number), parallel=beside)
        for key, place, entry in moved:
            server.now.entries.setdefault(key, {})[(place[0], record.rank)] = entry

    def _give_hints(self, servers: list[Server]) -> None:
        for stream, found in self.hints.items():
            mine = [server for server in servers if server.stream == stream or not stream]
            if len(mine) == 1:
                for key, entry in found.items():
                    if not (key == "model" and mine[0].now.has("served_model_name")):
                        mine[0].now.entries.setdefault(key, {(5, ""): entry})

    # --- starts → deployments ---------------------------------------------------------------------------------------

    def finish(self, skipped: tuple[Skipped, ...] = (), cut: bool = False) -> LogReading:
        servers = merged(list(self.servers.values()), self.name)
        self._give_hints(servers)
        now: list[Deployment] = []
        earlier: list[Deployment] = []
        owners: list[Server] = []
        extras: list[Extras] = []
        for server in servers:
            for notes in server.starts:
                if notes.ambiguous:
                    notes.forget_measures()
                server.grammar.settle(notes)
            kept = folded([notes for notes in server.starts if tells(notes)] or server.starts[-1:])
            inherit(kept)
            latest = [i for i, _ in enumerate(kept) if i + 1 == len(kept) or kept[i + 1].parallel]
            for i, notes in enumerate(kept):
                if i in latest:
                    now.append(built(server, notes, self.name))
                    owners.append(server)
                    extras.append(extras_of(notes, len(kept) - len(latest) + server.dropped))
                else:
                    earlier.append(built(server, notes, self.name))
        named = unique(now, owners)
        told = {deployment.id: extra for deployment, extra in zip(named, extras, strict=True)}
        return LogReading(tuple(named), tuple(earlier), skipped, cut, told)


#: "Model: org/name" of an issue form, and what /v1/models answered.
_MODEL_HINT = pattern(
    r"(?:^|\s)\**[Mm]odel(?: (?:name|path|id))?\**: ?\**[ `\"']{0,3}(?:((?:[\w.-]{1,100}/)[\w./-]{1,300})|([A-Za-z][\w.-]*-[\w.-]+)\W*$)"
)
#: A model in the answer of /v1/models.
_ROOT_HINT = pattern(r"\"root\": ?\"([\w./:@~-]{2,512})\"")
_LENGTH_HINT = pattern(r"\"max_model_len\": ?(\d{1,12})")

_PID = pattern(r" ?pid=\d+")


def _differs(now: Notes, said: list[Said]) -> bool:
    """True if a dump is that of another server than the one whose start is under way: another role or model."""
    for one in said:
        entry = now.best(one.key) if one.key in ("role", "model") else None
        if entry is not None and entry.value != one.value:
            return True
    return False


def all_anchors() -> list[bytes]:
    """The literal byte strings that are looked for in a log of any size, sorted (for the benchmark's ``grep``)."""
    return sorted({anchor for grammar in grammars() for anchor in grammar.anchors})


def all_words() -> list[bytes]:
    """All literal byte strings of the engines' lines, for the head of a log."""
    return sorted({word for grammar in grammars() for word in grammar.words})
