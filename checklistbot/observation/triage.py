"""Run-time logs → the requests whose answers may have carried foreign text (operations-and-attacks 17; sglang.md
1.9).

Looks for the engines' own traces only where a message begins with them, so that a prompt that quotes one is no
trace. Nothing of a message is kept but numbers, the time, and an id that is a plain word.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field
from datetime import UTC, datetime
from typing import Any, BinaryIO, Final, Literal, cast

from checklistbot.engines._log import Record
from checklistbot.engines.base import below, version_of
from checklistbot.lazy import pattern
from checklistbot.model import Deployment, InputError, Skipped
from checklistbot.observation.lines import records
from checklistbot.observation.logs import LogReader, all_anchors, all_words, ending
from checklistbot.observation.stream import Stretch, Stretches, open_stream
from checklistbot.record import record

Verdict = Literal["none", "vulnerable", "fixed", "unknown"]
Kind = Literal["rejected-and-handed-on", "truncated", "foreign-metadata", "checksum-mismatch", "read-after-release"]

#: What is listed at most; ``total`` counts on.
MAX_LISTED: Final = 100_000
#: The release whose code retires a rejected request before its pages are handed on (sglang.md 0).
_SGLANG_FIXED: Final = "0.5.20"

_ANCHORS: Final = (
    b"exceeds the maximum allowed length",
    b"longer than the KV cache pool size",
    b"Context corruption detected",
    b"KV checksum mismatch",
    b"Potentially invalid KV blocks",
    b"Releasing expired KV blocks",
)
_ID = r"([A-Za-z0-9][\w.:-]{0,127})"
_REJECTED = pattern(
    r"Input length \((\d{1,12}) tokens\) exceeds the maximum allowed length \((\d{1,12}) tokens\)"
    rf"(?:[^=\n]{{0,120}}(?:self\.)?rid=['\"]?{_ID})?"
)
_TRUNCATED = pattern(
    r"Request length is longer than the KV cache pool size or the max context length\. Truncated\. "
    r"len\(req\.origin_input_ids\)=(\d{1,12}), max_req_input_len=(\d{1,12})"
)
_CORRUPTION = pattern(rf"Context corruption detected: Request {_ID}(?![\w.:-])")
_CHECKSUM = pattern(rf"KV checksum mismatch req={_ID}(?![\w.:-])")
_INVALID = pattern(rf"Potentially invalid KV blocks for unrecognized request {_ID}(?![\w.:-])")
_EXPIRED = pattern(rf"Releasing expired KV blocks for request {_ID}(?![\w.:-]).{{0,80}}?retrieved by 0 ")


@record
class Suspect:
    """One request that may have carried foreign text. ``length`` and ``limit`` in tokens, ``time`` as the log
    prints it."""

    kind: Kind
    path: str
    line: int
    time: str | None = None
    role: str | None = None
    id: str | None = None
    length: int | None = None
    limit: int | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "time": self.time, "role": self.role, "id": self.id, "length": self.length, "line": self.line,
            "path": self.path, "kind": self.kind, "limit": self.limit,
        }  # fmt: skip


@record
class Action:
    """One step of containment: a code, its numbers, and our own sentence."""

    code: str
    text: str
    parameters: dict[str, int | str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return {"code": self.code, "text": self.text, "parameters": dict(self.parameters)}


@record
class Triage:
    """``triage/1``. ``total`` counts all suspects, ``requests`` lists the first 100,000. ``unread``: a line for each log
    that cannot be read or shows no request of a known engine; ``judged`` names the others."""

    requests: tuple[Suspect, ...] = ()
    total: int = 0
    verdict: Verdict = "none"
    containment: tuple[Action, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    cut: bool = False
    unread: tuple[str, ...] = ()
    judged: tuple[str, ...] = ()

    @property
    def lengths(self) -> tuple[int, int] | None:
        """The shortest and the longest suspect prompt in tokens."""
        found = [request.length for request in self.requests if request.length is not None]
        return (min(found), max(found)) if found else None

    @property
    def exit_code(self) -> int:
        """1 if any answer may have carried foreign text, 3 if a log was not read, or not to its end, else 0."""
        return 1 if self.total else 3 if self.cut or self.unread else 0

    def to_json(self) -> dict[str, Any]:
        times = [request.time for request in self.requests if request.time]
        return {
            "schema": "triage/1",
            "requests": [request.to_json() for request in self.requests],
            "total": self.total,
            "first": min(times, default=None),
            "last": max(times, default=None),
            "lengths": list(self.lengths) if self.lengths else None,
            "verdict": self.verdict,
            "containment": [action.to_json() for action in self.containment],
            "skipped": [entry.to_json() for entry in self.skipped],
        }


def triage(paths: Sequence[str], live: Iterable[Deployment] = ()) -> Triage:
    """Read run-time logs (``-`` for standard input); ``live`` are the servers that endpoints showed, for version
    and role. A log that cannot be read does not lose the others: it is in ``unread``.
    """
    night = _Night(tuple(live))
    for path in paths:
        try:
            with open_stream(path) as stream:
                night.read(stream, path)
        except InputError as error:
            night.unread.append(str(error))
            night.skipped.append(Skipped(path, "cannot be read"))
    return night.finish()


class _Night:
    """What several logs told together."""

    def __init__(self, live: tuple[Deployment, ...]) -> None:
        self.live = live
        self.servers: list[Deployment] = []
        self.skipped: list[Skipped] = []
        self.cut = False
        self.unread: list[str] = []
        self.judged: list[str] = []
        self.found: list[Suspect] = []
        self.total = 0

    def read(self, stream: BinaryIO, name: str) -> None:
        reader = LogReader(name)
        scan = _Scan(name)
        watched = _Watched(stream)
        stretches = Stretches(cast("BinaryIO", watched), [*all_anchors(), *_ANCHORS], all_words())
        try:
            for stretch in stretches:
                reader.feed(stretch)
                scan.feed(stretch)
        except OSError as error:
            raise InputError(f"{name}: cannot be read ({error.strerror or 'input error'})") from error
        skipped, cut = ending(stream, stretches, name)
        self.skipped += skipped
        self.cut = self.cut or cut
        servers = reader.finish().servers
        self.servers += servers
        known = [*servers, *self.live]
        for suspect in scan.found:
            self._add(suspect, known)
        self.total += scan.over
        if watched.requests or scan.found:
            self.judged.append(name)
        else:
            self.unread.append(f"{name}: no request of a known engine in it, nothing to judge; name a run-time log")
            self.skipped.append(Skipped(name, "no request of a known engine in it"))

    def _add(self, suspect: Suspect, known: list[Deployment]) -> None:
        role = _role(known)
        if suspect.kind in ("rejected-and-handed-on", "truncated") and (role == "unified" or _state(known) == "fixed"):
            # A single node, and a disaggregated one from 0.5.20 on, answers 400.
            return
        self.total += 1
        if len(self.found) < MAX_LISTED:
            self.found.append(
                Suspect(
                    suspect.kind,
                    suspect.path,
                    suspect.line,
                    suspect.time,
                    role,
                    suspect.id,
                    suspect.length,
                    suspect.limit,
                )
            )

    def finish(self) -> Triage:
        known = [*self.servers, *self.live]
        state = _state(known)
        verdict: Verdict = state if state == "fixed" or self.total else "none"
        actions = tuple(_containment(self.found, known)) if self.total else ()
        return Triage(
            tuple(self.found),
            self.total,
            verdict,
            actions,
            tuple(self.skipped),
            self.cut,
            tuple(self.unread),
            tuple(self.judged),
        )


#: What engines and their HTTP front ends write when they serve: a log without any of it says nothing about answers.
_REQUESTS: Final = (
    b"Prefill batch",
    b"Decode batch",
    b"throughput: ",
    b"Received request",
    b"/v1/chat/completions",
    b"/v1/completions",
    b"/v1/messages",
    b"/v1/responses",
    b"/generate",
    b"launch_slot_",
    b"update_slots",
)


class _Watched:
    """A log that remembers whether it showed requests; looks no further once it did."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.requests = False

    def read(self, size: int) -> bytes:
        block = self._stream.read(size)
        self.requests = self.requests or any(word in block for word in _REQUESTS)
        return block

    def readline(self, size: int) -> bytes:
        return self._stream.readline(size)


class _Scan:
    """The traces of one log."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.found: list[Suspect] = []
        self.over = 0
        self.ids: set[tuple[Kind, str]] = set()

    def feed(self, stretch: Stretch) -> None:
        for offset, line in enumerate(stretch.lines):
            if any(anchor in line for anchor in _ANCHORS):
                for record in records(stretch.number + offset, line):
                    self._record(record)

    def _record(self, record: Record) -> None:
        suspect = _trace(record, self.name)
        if suspect is None:
            return
        if suspect.id is not None:
            # A request that several ranks report, or that is released and then read, is one request.
            if (suspect.kind, suspect.id) in self.ids:
                return
            self.ids.add((suspect.kind, suspect.id))
        if len(self.found) < MAX_LISTED:
            self.found.append(suspect)
        else:
            self.over += 1


def _trace(record: Record, name: str) -> Suspect | None:
    text, number, time = record.text, record.number, _clock(record.seconds)
    if match := _REJECTED.match(text):
        return Suspect("rejected-and-handed-on", name, number, time, None, match[3], int(match[1]), int(match[2]))
    if match := _TRUNCATED.match(text):
        return Suspect("truncated", name, number, time, None, None, int(match[1]), int(match[2]))
    if match := _CORRUPTION.match(text):
        return Suspect("foreign-metadata", name, number, time, None, match[1])
    if match := _CHECKSUM.match(text):
        return Suspect("checksum-mismatch", name, number, time, None, match[1])
    if match := _INVALID.match(text) or _EXPIRED.match(text):
        return Suspect("read-after-release", name, number, time, None, match[1])
    return None


def _clock(seconds: float | None) -> str | None:
    """A time as the log's own clock prints it: with the year, without it (vLLM), or the time of day alone."""
    if seconds is None:
        return None
    moment = datetime.fromtimestamp(seconds, UTC)
    form = {2000: "%m-%d %H:%M:%S", 1900: "%H:%M:%S"}.get(moment.year, "%Y-%m-%d %H:%M:%S")
    return moment.strftime(form)


def _role(known: list[Deployment]) -> str | None:
    """The role of the server that wrote a log, None where its start does not say it."""
    roles = {str(server.role.value) for server in known if server.role.kind == "observed"}
    if len(roles) > 1 and "unified" not in roles:
        return None
    return roles.pop() if len(roles) == 1 else None


def _state(known: list[Deployment]) -> Verdict:
    """Whether the versions that are known hand rejected requests on."""
    versions = [version for server in known if server.engine.value == "sglang" and (version := version_of(server))]
    if not versions:
        return "unknown"
    return "vulnerable" if any(below(version, _SGLANG_FIXED) for version in versions) else "fixed"


def _containment(found: list[Suspect], known: list[Deployment]) -> Iterable[Action]:
    limits = [suspect.limit for suspect in found if suspect.limit]
    if limits:
        longest = min(limits) - 1
        yield Action(
            "gateway-limit",
            f"Refuse prompts longer than {longest:,} tokens in the gateway, before any worker sees them.",
            {"tokens": longest},
        )
    context = _safe_context(known)
    if context:
        yield Action(
            "context-length",
            f"Start both roles with --context-length {context}, so that the front end refuses what the pool cannot hold.",
            {"tokens": context},
        )
    if any(suspect.kind != "read-after-release" for suspect in found):
        yield Action("upgrade", "Upgrade both roles to SGLang 0.5.22 or later.", {"version": "0.5.22"})
    else:
        yield Action(
            "lease",
            "Raise the producer's KV lease above the longest wait of a decode request, and set kv_load_failure_policy to fail.",
        )
    yield Action(
        "roll-back", "Until then roll back to the last configuration whose context length was below every pool."
    )
    yield Action(
        "preserve",
        "Keep the logs of all roles and of the router, the responses of the listed ids, and the running configuration.",
    )


def _safe_context(known: list[Deployment]) -> int | None:
    """R − p − r of the smallest pool that a start showed: pool, one page, 512 reserved decode tokens (sglang.md
    4.6)."""
    safe = []
    for server in known:
        pool, page = server.kv_pool_tokens.number(), server.page_size.number() or 64
        if server.engine.value == "sglang" and pool and pool > page + 512:
            safe.append((pool - page - 512) // page * page)
    return min(safe, default=None)
