"""Command lines as the engines' own argparse reads them: aliases, ``--flag=value``, abbreviations, sizes.

The tables are data (``knowledge/flags/NAME.json``), loaded when the first launch of the engine is met.
"""

from __future__ import annotations

import bisect
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from checklistbot import resources
from checklistbot.encode import SECRET, Untrusted, redact, redact_value, secret_name
from checklistbot.engines.base import Word
from checklistbot.lazy import pattern
from checklistbot.model import Fact, Flag, Source, Unknown
from checklistbot.record import mutable_record, record

if TYPE_CHECKING:
    from packaging.version import Version


@record
class Spec:
    """One flag: its canonical long name without dashes, and how many words it takes ("0", "1", "?", "+", "*")."""

    name: str
    nargs: str = "1"
    first: str | None = None
    removed_in: str | None = None


@record
class Table:
    """All spellings of an engine's flags. ``underscores``: ``--max_model_len`` is ``--max-model-len``."""

    spellings: Mapping[str, Spec]
    underscores: bool = False
    prefixes: bool = True
    single_dash: frozenset[str] = frozenset()
    #: The spellings in order, so that those with one beginning stand together; empty where there are no prefixes.
    ordered: tuple[str, ...] = ()

    def find(self, spelled: str, version: Version | None) -> Spec | None:
        """The flag that argparse takes a spelling for, None if it takes it for none, or for several."""
        if self.underscores and spelled.startswith("--"):
            spelled = "--" + spelled[2:].replace("_", "-")
        exact = self.spellings.get(spelled)
        if exact is not None or not self.prefixes or not spelled.startswith("--") or len(spelled) < 4:
            return exact
        matches: dict[str, Spec] = {}
        for at in range(bisect.bisect_left(self.ordered, spelled), len(self.ordered)):
            if not self.ordered[at].startswith(spelled):
                break
            spec = self.spellings[self.ordered[at]]
            if _alive(spec, version):
                matches[spec.name] = spec
        return next(iter(matches.values())) if len(matches) == 1 else None


def _alive(spec: Spec, version: Version | None) -> bool:
    """True if the release knows the flag; an unknown release is taken for the newest examined one."""
    if version is None:
        return spec.removed_in is None
    from packaging.version import Version

    if spec.first is not None and version < Version(spec.first):
        return False
    return spec.removed_in is None or version < Version(spec.removed_in)


@cache
def table(engine: str) -> Table:
    """The flags of ``knowledge/flags/ENGINE.json``."""
    data = json.loads(resources.text("knowledge", "flags", f"{engine}.json"))
    spellings: dict[str, Spec] = {}
    for long, entry in data["flags"].items():
        nargs = entry.get("nargs")
        name = str(entry.get("same_as") or long).lstrip("-")
        spec = Spec(name, "1" if nargs is None else str(nargs), entry["first"], entry.get("removed_in"))
        for spelling in (long, *entry.get("aliases", ())):
            spellings[spelling] = spec
    for spelling, long in data["spellings"].items():
        if long in spellings:
            spellings.setdefault(spelling, spellings[long])
    singles = frozenset(s for s in spellings if len(s) > 2 and s[0] == "-" and s[1] != "-")
    return Table(
        spellings, bool(data["underscore_equals_dash"]), bool(data["prefixes"]), singles, tuple(sorted(spellings))
    )


def simple_table(
    flags: Iterable[str], *, switches: Iterable[str] = (), underscores: bool = False, prefixes: bool = True
) -> Table:
    """A table from lines of spellings, the canonical long one first: ``"--tp_size --tp"``."""
    spellings: dict[str, Spec] = {}
    for line, nargs in [*((f, "1") for f in flags), *((s, "0") for s in switches)]:
        names = line.split()
        spec = Spec(names[0].lstrip("-").replace("_", "-"), nargs)
        for name in names:
            spellings["--" + name[2:].replace("_", "-") if underscores and name.startswith("--") else name] = spec
    return Table(spellings, underscores, prefixes, ordered=tuple(sorted(spellings)) if prefixes else ())


# --- parsing -----------------------------------------------------------------------------------------------------------


@record
class Given:
    """One flag as given; ``values`` is empty for a bare switch."""

    name: str
    spelled: Word
    values: tuple[Word, ...] = ()
    known: bool = True

    @property
    def value(self) -> Word | None:
        return self.values[0] if self.values else None


@mutable_record
class Parsed:
    """A command line: flags in order, and the words that belong to none."""

    given: list[Given] = field(default_factory=list)
    positional: list[Word] = field(default_factory=list)

    def last(self, *names: str) -> Given | None:
        """The last of these flags: the one that the engine takes."""
        return next((entry for entry in reversed(self.given) if entry.name in names), None)


_NUMBER = pattern(r"-\.?\d")
_SPELLED = pattern(r"(--?[A-Za-z][\w.-]*)(?:=(.*))?", re.DOTALL)


def _flag_like(word: Word) -> bool:
    shown = word.text if word.text is not None else word.raw
    return shown.startswith("-") and len(shown) > 1 and not _NUMBER.match(shown) and " " not in shown.split("=", 1)[0]


def parse(words: Sequence[Word], flags: Table, version: Version | None = None) -> Parsed:
    """Reads words as argparse does; what no table knows takes the next word if that is no flag."""
    parsed = Parsed()
    at = 0
    while at < len(words):
        word = words[at]
        at += 1
        match = _SPELLED.fullmatch(word.text if word.text is not None else word.raw) if _flag_like(word) else None
        if match is None:
            parsed.positional.append(word)
            continue
        spelled, inline = match[1], match[2]
        spec, dotted = _lookup(flags, spelled, version)
        if spec is None and inline is None and not spelled.startswith("--") and len(spelled) > 2:
            spec, inline = _glued(flags, spelled)
        name = (spec.name if spec else spelled.lstrip("-").replace("_", "-")) + dotted
        if inline is not None:
            value = Word(inline if word.text is not None else None, word.path, word.line, inline, word.unknown)
            parsed.given.append(Given(name, word, (value,), spec is not None))
            continue
        count = _arity(spec, dotted)
        end = at
        while end < len(words) and not _flag_like(words[end]) and (end - at < count):
            end += 1
        parsed.given.append(Given(name, word, tuple(words[at:end]), spec is not None))
        at = end
    return parsed


def _lookup(flags: Table, spelled: str, version: Version | None) -> tuple[Spec | None, str]:
    """The flag, and for dotted JSON keys (``--kv-transfer-config.kv_role``) what stands behind the first dot."""
    base, dot, rest = spelled.partition(".")
    return flags.find(base, version), dot + rest


def _glued(flags: Table, spelled: str) -> tuple[Spec | None, str | None]:
    """``-c4096``: a short flag with its value in one word."""
    spec = flags.spellings.get(spelled[:2])
    return (spec, spelled[2:]) if spec is not None and spec.nargs != "0" else (None, None)


def _arity(spec: Spec | None, dotted: str) -> int:
    if spec is None or dotted:
        return 1
    if spec.nargs in ("+", "*"):
        return 1_000
    return 0 if spec.nargs == "0" else 1 if spec.nargs in ("1", "?") else int(spec.nargs)


# --- values ------------------------------------------------------------------------------------------------------------

_DECIMAL: Final = {"k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_BINARY: Final = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


def integer(text: str) -> int | None:
    """A whole number as Python's int() reads it (``131_072``), None for anything else."""
    try:
        return int(text.strip())
    except ValueError:
        return None


def human_integer(text: str) -> int | None:
    """vLLM's and SGLang's ``human_readable_int``: ``128k`` = 128,000, ``25.6k`` = 25,600, ``128K`` = 131,072; ``1.5K`` is refused."""
    text = text.strip()
    plain = integer(text)
    if plain is not None:
        return plain
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([kKmMgGtT])", text)
    if match is None:
        return None
    number, unit = match.groups()
    if unit in _DECIMAL:
        return round(float(number) * _DECIMAL[unit])
    return int(number) * _BINARY[unit] if number.isdigit() else None


def number(text: str) -> float | None:
    """A finite float as Python's float() reads it (``.91``), None for anything else."""
    try:
        value = float(text.strip())
    except ValueError:
        return None
    return value if abs(value) < 1e300 else None


def word_text(text: str) -> str | None:
    return text.strip() or None


def fact(word: Word | None, convert: Callable[[str], Any], *, supply: tuple[str, ...] = ()) -> Fact:
    """A word as a declared fact; unknown where it is not given, not static, or no such value."""
    if word is None:
        return Fact(unknown=Unknown("not-said", supply=supply))
    if word.text is None:
        unknown = word.unknown or Unknown("not-static")
        return Fact(unknown=Unknown(unknown.why, unknown.name, unknown.supply or supply))
    value = convert(word.text)
    if value is None:
        return Fact(unknown=Unknown("not-readable", supply=supply))
    if isinstance(value, str):
        value = Untrusted(redact(value))
    return Fact(value, Source("declared", word.path, word.line))


# --- flags as they may be kept -------------------------------------------------------------------------------------------

_JSON_SECRET = pattern(r"""(["'])([\w.-]+)\1(\s*:\s*)(["'])((?:(?!\4).)*)\4""")


def mask(name: str, value: str) -> str:
    """The value as it may leave the parser: secrets by name, by look, and inside JSON become ``***``."""
    value = redact_value(name, value)
    if ":" in value and ('"' in value or "'" in value):
        value = _JSON_SECRET.sub(
            lambda m: f"{m[1]}{m[2]}{m[1]}{m[3]}{m[4]}{SECRET if secret_name(m[2]) and m[5] else m[5]}{m[4]}", value
        )
    if re.search(r"(?i)\bbearer\s+\S", value):
        value = re.sub(r"(?i)(\bbearer\s+)\S+", rf"\1{SECRET}", value)
    return value


def as_flag(given: Given) -> Flag:
    """A given flag for the output; unknown values show their raw spelling."""
    spelled = given.spelled
    shown = [mask(given.name, word.text if word.text is not None else word.raw) for word in given.values]
    raw = spelled.text if spelled.text is not None else spelled.raw
    if shown and "=" in raw:
        raw = f"{raw.partition('=')[0]}={shown[0]}"
    elif shown:
        raw = " ".join([raw, *shown])
    known = all(word.text is not None for word in given.values)
    value = None if not shown or not known else Untrusted(" ".join(shown))
    line = given.values[0].line if given.values and given.values[0].path == spelled.path else spelled.line
    return Flag(Untrusted(given.name), value, Untrusted(raw[:2_000]), spelled.path, line)


def as_env(name: str, word: Word) -> Flag:
    """A variable of the server's environment for the output."""
    value = None if word.text is None else Untrusted(mask(name, word.text))
    return Flag(
        Untrusted(name), value, Untrusted(f"{name}={value if value is not None else '?'}"), word.path, word.line
    )
