"""What every engine's log half offers and speaks: the line it is given, what a line says, and the notes of one start.

An engine's patterns stand in ``engines/_NAME_log.py`` as ``LOG``; ``grammars`` reads the folder. Patterns begin at
a literal or are anchored, and match forward: nothing here may be quadratic in the length of a line
(operations-and-attacks 27).
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field
from functools import cache
from typing import Final, Literal

from checklistbot.lazy import pattern
from checklistbot.model import Scalar
from checklistbot.record import mutable_record, record

#: Ranks of one server that are kept apart; more than any real deployment has, so that a hostile log cannot fill the
#: memory.
MAX_RANKS: Final = 4096


@record
class Record:
    """One message of a log: prefixes, colours and envelopes are gone, a wrapped message is joined.

    ``number`` is its first line, counted from 1. ``stream`` names the container, pod or unit that wrote it (""
    where the log does not say), ``rank`` the process or rank ("TP0", "DP1 TP3", "EngineCore_DP0 pid=7"),
    ``seconds`` its time on the log's own clock. ``fresh`` is true if the line bore a prefix of its own, ``comment``
    if it stood behind a ``#``, ``own`` if a module of vLLM signed it: a command in it is advice, not a launch.
    """

    number: int
    text: str
    stream: str = ""
    rank: str = ""
    seconds: float | None = None
    fresh: bool = False
    comment: bool = False
    raw_length: int = 0
    own: bool = False


@record
class Said:
    """One thing that a line says.

    ``key`` is a fact's name or one of: boot (a new start begins; value names the kind of line), fatal (the start
    fails for want of memory), died (it fails for another reason), ready, factor (vLLM's "maximum concurrency"),
    blocks, kv_gib, needed_gib, estimated (longest context that would fit), cap, hybrid, and the inputs that are no
    facts (chunked_prefill_size, max_running_requests, speculative, decode_context_parallel, kv_cache_memory_bytes).
    ``claims`` is false for what any engine could have
    written: it counts only where the engine is known already. A stronger word wins, among equals the last, or the
    first if ``first``.
    """

    key: str
    value: Scalar
    strength: int = 50
    first: bool = False
    claims: bool = True


@record
class Entry:
    """A ``Said`` with the line and the rank that said it."""

    value: Scalar
    strength: int
    line: int
    rank: str


#: Amounts that are none when they are not above zero (SGLang prints negative pools before it dies).
_POSITIVE: Final = frozenset(("kv_pool_tokens", "context_length", "served_context", "page_size", "blocks"))


@mutable_record
class Notes:
    """All that one start of one server has said.

    ``parallel``: it ran beside the start before it, so that is another server. ``ambiguous``: two servers write to
    one stream without saying which of them does, so what is measured belongs to either.
    """

    first_line: int
    entries: dict[str, dict[tuple[int, str], Entry]] = field(default_factory=dict)
    ranks: set[str] = field(default_factory=set)
    began: float | None = None
    last: float | None = None
    parallel: bool = False
    ambiguous: bool = False

    def at(self, seconds: float | None) -> None:
        """Note the time of a line, in seconds of the log's own clock."""
        if seconds is not None:
            self.began = seconds if self.began is None else self.began
            self.last = seconds

    def forget_measures(self) -> None:
        """Drop what is not stated by the start's own arguments."""
        for key in ("kv_pool_tokens", "blocks", "factor", "kv_gib", "fatal"):
            self.entries.pop(key, None)
        stated = {place: entry for place, entry in self.entries.get("context_length", {}).items() if place[0] < 75}
        self.entries["context_length"] = stated
        if not stated:
            del self.entries["context_length"]

    def see(self, rank: str) -> None:
        """Note that a process or rank wrote something."""
        if rank and len(self.ranks) < MAX_RANKS:
            self.ranks.add(rank)

    def pools(self) -> list[Entry]:
        """Every entry of a pool, in tokens or blocks."""
        return [entry for key in ("kv_pool_tokens", "blocks") for entry in self.entries.get(key, {}).values()]

    def add(self, said: Said, line: int, rank: str) -> None:
        if said.key in _POSITIVE and not (isinstance(said.value, (int, float)) and said.value > 0):
            return
        kept = self.entries.setdefault(said.key, {})
        place = (said.strength, rank)
        if place in kept:
            if not said.first:
                kept[place] = Entry(said.value, said.strength, line, rank)
        elif len(kept) < MAX_RANKS:
            kept[place] = Entry(said.value, said.strength, line, rank)

    def strongest(self, key: str) -> list[Entry]:
        """The entries of the greatest strength, in order of lines."""
        kept = self.entries.get(key)
        if not kept:
            return []
        top = max(strength for strength, _ in kept)
        return sorted((e for (s, _), e in kept.items() if s == top), key=lambda entry: entry.line)

    def best(self, key: str) -> Entry | None:
        """The strongest entry, the last of equals."""
        found = self.strongest(key)
        return found[-1] if found else None

    def number(self, key: str) -> float | None:
        entry = self.best(key)
        if entry is None or isinstance(entry.value, (bool, str)):
            return None
        return float(entry.value)

    def has(self, key: str) -> bool:
        return key in self.entries

    @property
    def settled(self) -> bool:
        """True once this start has shown its pool or its end: what follows a new marker is another start."""
        return any(key in self.entries for key in ("kv_pool_tokens", "blocks", "fatal", "died", "ready"))


Repeat = Literal["restart", "rank", "update"]


@record
class LogGrammar:
    """The log half of an engine.

    ``anchors`` are few literal byte strings, so that a log of any size is searched for them fast; every start of a
    server prints one of them near each value. ``values`` are those of the other lines that carry a value,
    ``colour`` of lines that only help (who wrote this, a launch command); both are looked for at the head of a log
    and near an anchor. ``read`` yields what a message says; it is called for messages that hold one of them.
    ``settle`` adds what follows from several lines together (blocks × block size) and ``fits`` says whether one
    request of full context fits, None where it cannot be told. ``repeat`` says what it means that one rank prints
    its pool again: another start, another rank that the line does not name, or a newer value of the same pool.
    ``hosts`` are engines that run inside this one: their lines in the same stream are its own.
    """

    engine: str
    anchors: tuple[bytes, ...]
    values: tuple[bytes, ...]
    colour: tuple[bytes, ...]
    read: Callable[[Record], Iterable[Said]]
    fits: Callable[[Notes], bool | None]
    settle: Callable[[Notes], None] = lambda notes: None
    repeat: Repeat = "restart"
    hosts: tuple[str, ...] = ()
    variant: str | None = None

    @property
    def words(self) -> tuple[bytes, ...]:
        """All literal strings of the engine's lines."""
        return tuple(dict.fromkeys((*self.anchors, *self.values, *self.colour)))


@cache
def grammars() -> tuple[LogGrammar, ...]:
    """The log halves of all engines, by engine name."""
    import checklistbot.engines as package

    found = (
        m.name for m in pkgutil.iter_modules(package.__path__) if m.name.startswith("_") and m.name.endswith("_log")
    )
    modules = (importlib.import_module(f"{package.__name__}.{name}") for name in sorted(found) if name != "_log")
    return tuple(sorted((module.LOG for module in modules), key=lambda grammar: grammar.engine))


# --- shared pieces of the engines' patterns -------------------------------------------------------------------------

#: The value is only looked at, so that a quoted command behind ``bash -c`` is searched for flags as well.
_FLAG = pattern(
    r"(?<![\w-])(?:--([A-Za-z][\w.-]{0,80})|-(tp|pp|dp|dcp|m|c|np|ctk|ctv|a|hf))(?:\s{0,20}=\s{0,20}|\s{1,20})"
    r"(?=(\"[^\"]{0,512}\"|'[^']{0,512}'|[^\s\"'`-][^\s\"'`]{0,1024}|-?\d[\d.]{0,30}))"
)
#: A log that begins in the middle of a command begins in the middle of a flag.
_CUT_FLAG = pattern(r"([a-z]{1,40}(?:-[a-z]{1,40}){1,6})[ =](\S{1,1024})")
_HUMAN: Final[Mapping[str, int]] = {
    "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40,
}  # fmt: skip
_HUMAN_NUMBER = pattern(r"(\d{1,15}(?:\.\d{1,6})?)([kmgtKMGT]?)")


def whole(text: str) -> int | None:
    """A whole number with thousands separators ("1,049,344"), None if it is none."""
    digits = text.replace(",", "").replace("_", "").strip()
    return int(digits) if re.fullmatch(r"-?\d{1,18}", digits) else None


def human(text: str) -> int | None:
    """A size as the engines' argument parsers take it: 128k is 128,000, 128K is 131,072, 25.6k is 25,600; None if
    it is none."""
    match = _HUMAN_NUMBER.fullmatch(text.replace(",", "").strip())
    if not match or ("." in match[1] and not match[2]):
        return None
    return round(float(match[1]) * _HUMAN[match[2]]) if match[2] else int(match[1])


def fraction(text: str) -> float | None:
    """A share of memory, 0 < x ≤ 1, None if it is none."""
    if not re.fullmatch(r"\d{0,3}\.?\d{1,10}", text.strip()):
        return None
    value = float(text)
    return value if 0 < value <= 1 else None


def flags(text: str) -> Iterator[tuple[str, str]]:
    """(name with dashes, value) for each ``--name value`` of a command, quotes and trailing punctuation gone."""
    for match in _FLAG.finditer(text):
        value = match[3].strip("\"'`")
        if " --" not in value:
            yield (match[1] or match[2]).replace("_", "-"), value.rstrip("\\;,`")


Reader = Callable[[str], Scalar | None]


def read_flags(text: str, table: Mapping[str, tuple[str, Reader]], strength: int = 40) -> Iterator[Said]:
    """What the flags of a launch command say, by a table flag → (key, reader)."""
    found_flags = list(flags(text))
    if match := _CUT_FLAG.match(text):
        found_flags += [(name, match[2]) for name in table if name.endswith(match[1]) and name != match[1]][:1]
    for name, value in found_flags:
        if name in table and value and not value.startswith(("$", "<", "{")):
            key, reader = table[name]
            found = reader(value)
            if found is not None:
                yield Said(key, found, strength)


def name_of(text: str) -> str | None:
    """A model or served name: one word of sane length, None for a variable or a placeholder."""
    text = text.strip()
    return text if text and len(text) <= 512 and not re.search(r"[\s$<>{}]", text) else None


_DEVICE = pattern(r"device_name=([A-Z][\w.+-]{1,60}?)(?:,dtype|,block|\.json|,|$)")


def device(text: str) -> Iterator[Said]:
    """The GPU that a kernel's configuration file is named after."""
    if "device_name=" in text and (match := _DEVICE.search(text)):
        yield Said("gpu", match[1].replace("_", " "), 30, first=True, claims=False)


_DTYPES: Final[Mapping[str, str]] = {"float8_e4m3fn": "fp8_e4m3", "float8_e4m3": "fp8_e4m3", "float8_e5m2": "fp8_e5m2"}


def dtype_of(text: str) -> str | None:
    """A KV cache type without ``torch.``, eight-bit floats by the name that the flags use."""
    name = name_of(text.removeprefix("torch.").rstrip(".,"))
    return _DTYPES.get(name, name) if name else None


_RANK = pattern(r"(TP|DP|PP)_?(\d{1,5})")


def ranks_of(notes: Notes) -> dict[str, int]:
    """How many TP, DP and PP ranks there are by those that wrote: two or more without a gap, or three or more that
    are half of 4, 8, 16, … of them."""
    found: dict[str, set[int]] = {}
    for rank in notes.ranks:
        for kind, number in _RANK.findall(rank):
            found.setdefault(kind, set()).add(int(number))
    return {kind: max(numbers) + 1 for kind, numbers in found.items() if _complete(numbers)}


def _complete(numbers: set[int]) -> bool:
    count = max(numbers) + 1
    most = len(numbers) > 2 and count & (count - 1) == 0 and 2 * len(numbers) >= count
    return len(numbers) > 1 and 0 in numbers and (len(numbers) == count or most)


#: Strength of what only follows from other lines; it is told as a fact, but not as an input that a pool was taken
#: under.
FOLLOWS: Final = 12


def settle_ranks(notes: Notes) -> None:
    """Parallel sizes that nothing states, from the ranks that wrote."""
    names = {"TP": "tensor_parallel", "DP": "data_parallel", "PP": "pipeline_parallel"}
    for kind, count in ranks_of(notes).items():
        if not notes.has(names[kind]):
            notes.add(Said(names[kind], count, FOLLOWS), notes.first_line, "")


def pool_fits(notes: Notes) -> bool | None:
    """A start that failed for want of memory does not fit; else pool ≥ context where both are known."""
    if notes.has("fatal"):
        return False
    pools = [entry.value for entry in notes.strongest("kv_pool_tokens") if isinstance(entry.value, (int, float))]
    context = notes.number("context_length")
    return min(pools) >= context if pools and context else None
