"""A start-up log → the servers that it shows, as observed deployments.

Stretches of lines (stream.py) become records (lines.py); the engines' grammars say what each record tells; a server
is one engine in one stream; a start is what it said between two beginnings. The latest start counts, earlier ones
are reported.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import PurePath
from typing import BinaryIO, Final

from checklistbot.engines._log import MAX_RANKS, Entry, LogGrammar, Notes, Record, Said, grammars
from checklistbot.lazy import pattern
from checklistbot.model import (
    Deployment,
    Fact,
    InputError,
    Scalar,
    Skipped,
    Unknown,
)
from checklistbot.observation.build import build
from checklistbot.observation.lines import records
from checklistbot.observation.stream import MAX_LOOKED_AT, Stretch, Stretches, open_stream, was_cut

MAX_SERVERS: Final = 256
MAX_STARTS: Final = 64
_JOIN_LINES: Final = 12
#: A dump that opens a bracket at the end of its line goes on for more lines than a sentence does.
_BLOCK_LINES: Final = 200
_COMMAND_LINES: Final = 120
_JOIN_LENGTH: Final = 1 << 16
#: Two pools of one rank further apart than this (seconds) belong to two starts.
_SAME_START: Final = 120.0
#: Two engines that show different contexts within so few seconds run beside each other.
_BESIDE: Final = 5.0
#: The line with the context follows its pool at once, others of the same moment between them.
_NEXT_LINES: Final = 3
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


@dataclass(frozen=True, slots=True)
class Extras:
    """What a log says of a server beyond the facts; None where it does not. Sizes in GiB, lengths in tokens."""

    factor: float | None = None
    kv_gib: float | None = None
    needed_gib: float | None = None
    estimated_max_context: int | None = None
    fatal: str | None = None
    earlier_starts: int = 0


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


@dataclass(slots=True)
class _Server:
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


def _any(words: Iterable[bytes]) -> re.Pattern[str]:
    """Any of the words, the longest first."""
    return re.compile("|".join(re.escape(word.decode()) for word in sorted(set(words), key=len, reverse=True)))


class LogReader:
    """Takes the stretches of one log, in order, and makes a reading of them."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.servers: dict[tuple[str, str], _Server] = {}
        self.hints: dict[str, dict[str, Entry]] = {}
        self.waiting: dict[str, set[str]] = {}
        self._anchor = _any(word for grammar in grammars() for word in grammar.words)
        self._per_grammar = [(grammar, _any(grammar.words)) for grammar in grammars()]
        self._strong = _any(word for grammar in grammars() for word in (*grammar.anchors, *grammar.values))

    def feed(self, stretch: Stretch) -> None:
        by_stream: dict[str, list[Record]] = {}
        for offset, line in enumerate(stretch.lines):
            for record in records(stretch.number + offset, line):
                by_stream.setdefault(record.stream, []).append(record)
        for found in by_stream.values():
            self._see_ranks(found)
            for record in self._joined(found):
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

    def _joined(self, found: list[Record]) -> Iterator[Record]:
        """Each record that holds an anchor, joined with the lines that its message was wrapped over."""
        widths: dict[int, int] = {}
        for record in found:
            widths[record.raw_length] = widths.get(record.raw_length, 0) + 1
        done = listed = 0
        for index, record in enumerate(found):
            # Comments in an argument list are no part of it, and are read for themselves.
            if index < done or (index < listed and not record.comment) or not self._anchor.search(record.text):
                continue
            if record.text.endswith("\\") or (_is_argument(record) and not record.comment):
                command, listed = self._command(found, index)
                yield command
                continue
            text, done = self._wrapped(found, index, widths)
            yield record if text is record.text else replace(record, text=text)

    def _command(self, found: list[Record], index: int) -> tuple[Record, int]:
        """A launch command, or one line of an argument list, with the lines that belong to it."""
        start = index
        while start and index - start < _COMMAND_LINES and _continues(found[start - 1], found[start]):
            start -= 1
        stop = index + 1
        while stop < len(found) and stop - start < _COMMAND_LINES and _continues(found[stop - 1], found[stop]):
            stop += 1
        words = [record.text.rstrip("\\").strip(" ,") for record in found[start:stop] if not record.comment]
        return replace(found[index], number=found[start].number, text=" ".join(words)[:_JOIN_LENGTH]), stop

    def _wrapped(self, found: list[Record], index: int, widths: dict[int, int]) -> tuple[str, int]:
        """A message with the lines that it was wrapped over, and the index behind them."""
        record = found[index]
        text = record.text
        if text.endswith((")", "}")) and _DUMP.search(text):
            return text, index + 1
        block = text.endswith(("{", "("))
        for at in range(index + 1, min(len(found), index + 1 + (_BLOCK_LINES if block else _JOIN_LINES))):
            previous, after = found[at - 1], found[at]
            # A terminal cuts at its width, within a word; people and editors break between words.
            full = previous.raw_length >= 60 and widths[previous.raw_length] > 1
            tight = full and not previous.text.endswith((" ", ",")) and not after.text[:1].isupper()
            if after.fresh or not after.text or len(text) > 8192 or after.comment != record.comment:
                return text, at
            if not block and not tight and self._begins(after.text):
                return text, at
            text += ("" if tight else " ") + after.text
            if block and after.text == "}":
                return text, at + 1
        return text, index + 1

    def _begins(self, text: str) -> bool:
        """True if a line without a prefix is a message of its own rather than the rest of the one before."""
        if text.startswith(("```", "Traceback", "--")) or self._anchor.match(text):
            return True
        return text[0].isupper() and self._strong.search(text) is not None

    def _read(self, record: Record) -> None:
        for grammar, anchor in self._per_grammar:
            if anchor.search(record.text):
                said = list(grammar.read(record))
                if said:
                    self._note(grammar, record, said)

        if "odel" in record.text or "max_model_len" in record.text:
            self._hint(record)

    def _hint(self, record: Record) -> None:
        """What a line says without saying of which engine; it fills gaps of the only server of its stream."""
        kept = self.hints.setdefault(record.stream, {}) if len(self.hints) < MAX_SERVERS else {}
        if match := _MODEL_HINT.search(record.text):
            kept.setdefault("model", Entry(match[1] or match[2], 5, record.number, record.rank))
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
            server = self.servers[key] = _Server(grammar, record.stream, [Notes(record.number)])
            server.now.ranks |= self.waiting.get(record.stream, set())
        rank = self._rank(server, record, said)
        server.now.see(record.rank)
        server.now.at(record.seconds)
        for one in said:
            server.now.add(one, record.number, rank)

    def _rank(self, server: _Server, record: Record, said: list[Said]) -> str:
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
    def _profiles_again(server: _Server, record: Record, said: list[Said]) -> bool:
        """True if a rank measures its memory a second time behind a pool: measuring comes first, so this is another
        start."""
        if server.grammar.repeat == "update" or not all(
            one.key in ("kv_gib", "memory_fraction", "seen") for one in said
        ):
            return False
        measured = [entry for entry in server.now.strongest("kv_gib") if entry.rank == record.rank]
        measures = any(one.key == "kv_gib" for one in said)
        return measures and any(entry.line < last.line for entry in measured for last in server.now.pools())

    def _pool_rank(self, server: _Server, record: Record, strength: int, context: Scalar | None) -> str:
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

    def _move_last_pool(self, server: _Server, record: Record) -> None:
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

    def _give_hints(self, servers: list[_Server]) -> None:
        for stream, found in self.hints.items():
            mine = [server for server in servers if server.stream == stream or not stream]
            if len(mine) == 1:
                for key, entry in found.items():
                    if not (key == "model" and mine[0].now.has("served_model_name")):
                        mine[0].now.entries.setdefault(key, {(5, ""): entry})

    # --- starts → deployments ---------------------------------------------------------------------------------------

    def finish(self, skipped: tuple[Skipped, ...] = (), cut: bool = False) -> LogReading:
        servers = _merged(list(self.servers.values()), self.name)
        self._give_hints(servers)
        now: list[Deployment] = []
        earlier: list[Deployment] = []
        owners: list[_Server] = []
        extras: list[Extras] = []
        for server in servers:
            for notes in server.starts:
                if notes.ambiguous:
                    notes.forget_measures()
                server.grammar.settle(notes)
            kept = _folded([notes for notes in server.starts if _tells(notes)] or server.starts[-1:])
            _inherit(kept)
            latest = [i for i, _ in enumerate(kept) if i + 1 == len(kept) or kept[i + 1].parallel]
            for i, notes in enumerate(kept):
                if i in latest:
                    now.append(_built(server, notes, self.name))
                    owners.append(server)
                    extras.append(_extras(notes, len(kept) - len(latest) + server.dropped))
                else:
                    earlier.append(_built(server, notes, self.name))
        named = _unique(now, owners)
        told = {deployment.id: extra for deployment, extra in zip(named, extras, strict=True)}
        return LogReading(tuple(named), tuple(earlier), skipped, cut, told)


#: "Model: org/name" of an issue form, and what /v1/models answered.
_MODEL_HINT = pattern(
    r"(?:^|\s)\**[Mm]odel(?: (?:name|path|id))?\**: ?\**[ `\"']{0,3}(?:((?:[\w.-]{1,100}/)[\w./-]{1,300})|([A-Za-z][\w.-]*-[\w.-]+)\W*$)"
)
_LENGTH_HINT = pattern(r"\"max_model_len\": ?(\d{1,12})")
#: An argument dump that ends in its bracket is whole.
_DUMP = pattern(r"server_args=|args: (?:Namespace\(|\{)")
_PID = pattern(r" ?pid=\d+")


def _is_argument(record: Record) -> bool:
    return record.text.startswith("--")


def _continues(before: Record, after: Record) -> bool:
    """True if ``after`` belongs to the command that ``before`` is part of: a backslash, or an argument list one
    word a line."""
    if after.fresh or not after.text:
        return False
    if before.text.endswith("\\"):
        return True
    if after.comment:
        return _listed(before)
    return _listed(before) and (_is_argument(after) or len(after.text.split()) == 1)


def _listed(record: Record) -> bool:
    """True for one element of an argument list: a flag, a value, a comment between them."""
    return record.comment or _is_argument(record) or len(record.text.split()) == 1


def _tells(notes: Notes) -> bool:
    """True if a start says anything that a deployment is made of."""
    return any(notes.has(key) for key in _TELLING)


def _merged(servers: list[_Server], name: str) -> list[_Server]:
    """Servers that are worth reporting: a host takes the lines of the engine inside it, lines without a prefix join
    the only stream there is, streams that say nothing go."""
    servers = _hosted(servers, name)
    by_engine: dict[str, list[_Server]] = {}
    for server in servers:
        by_engine.setdefault(server.grammar.engine, []).append(server)
    for group in by_engine.values():
        named = [server for server in group if server.stream]
        bare = [server for server in group if not server.stream]
        if len(named) == 1 and bare and not (bare[0].now.settled and named[0].now.settled):
            _absorb(named[0], bare[0])
            servers.remove(bare[0])
    telling = [server for server in servers if any(_tells(notes) for notes in server.starts)]
    telling = [server for server in telling if not _is_worker(server, telling)]
    return telling or servers[:1]


def _is_worker(server: _Server, servers: list[_Server]) -> bool:
    """True for the log of a further node of a server whose first node is in the same log: the first one speaks for
    all."""
    others = [one for one in servers if one is not server and one.grammar is server.grammar]
    node = server.now.number("node_rank")
    if node:
        return any(not one.now.number("node_rank") for one in others)
    if any(server.now.has(key) for key in _SPEAKS):
        return False
    return any(one.now.settled for one in others)


def _hosted(servers: list[_Server], name: str) -> list[_Server]:
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


def _absorb(server: _Server, other: _Server) -> None:
    for key, kept in other.now.entries.items():
        for place, entry in kept.items():
            server.now.entries.setdefault(key, {}).setdefault(place, entry)
    server.now.first_line = min(server.now.first_line, other.now.first_line)


def _folded(starts: list[Notes]) -> list[Notes]:
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


def _inherit(starts: list[Notes]) -> None:
    for before, after in pairwise(starts):
        for key in _IDENTITY:
            if key in before.entries and key not in after.entries:
                after.entries[key] = dict(before.entries[key])


def _built(server: _Server, notes: Notes, name: str) -> Deployment:
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


def _differs(now: Notes, said: list[Said]) -> bool:
    """True if a dump is that of another server than the one whose start is under way: another role or model."""
    for one in said:
        entry = now.best(one.key) if one.key in ("role", "model") else None
        if entry is not None and entry.value != one.value:
            return True
    return False


def _unique(found: list[Deployment], servers: list[_Server]) -> list[Deployment]:
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


def _extras(notes: Notes, earlier: int) -> Extras:
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


def all_anchors() -> list[bytes]:
    """The literal byte strings that are looked for in a log of any size, sorted (for the benchmark's ``grep``)."""
    return sorted({anchor for grammar in grammars() for anchor in grammar.anchors})


def all_words() -> list[bytes]:
    """All literal byte strings of the engines' lines, for the head of a log."""
    return sorted({word for grammar in grammars() for word in grammar.words})
