"""Known engine bugs as data: one file each in ``advisories/`` (schema: ``schemas/advisory.json``)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from checklistbot import resources
from checklistbot.knowledge import compiled
from checklistbot.record import record
from checklistbot.strict_yaml import Table, Value

if TYPE_CHECKING:
    from packaging.version import Version

LANGUAGES: Final = ("en", "ko")
FOLDER: Final = "advisories"
#: Keys of ``when`` whose truth no file of a repository shows: only a person can say it. ``runtime`` is never needed for a match.
ASKED_KEYS: Final = frozenset({"exposure", "change", "lmcache", "mooncake", "kv_cache_config", "cache_transceiver"})
#: Engines whose release no manifest states: they come inside another engine's image.
LIBRARIES: Final = ("lmcache", "mooncake")


@record
class Tier:
    """A half-open interval of versions: from the bound of the tier before it up to, not including, ``below``."""

    below: str
    verdict: str
    state: dict[str, str]


@record
class Advisory:
    """A known engine bug.

    ``affected`` holds half-open bounds over releases (">=0.5.16,<0.5.22"); ``fixed_in`` is the first release with the fix in its code,
    ``floor`` the release that policy asks for (None: the same). ``when`` are the conditions on a deployment; all must hold. ``ask`` is
    the question that decides a condition which is given in words. ``sources`` are "owner/repository#number" or a document's name.
    """

    id: str
    engine: str
    component: str
    affected: str
    affected_basis: str
    fixed_in: str | None
    fix_status: str
    floor: str | None
    when: Mapping[str, Any]
    ask: dict[str, str]
    kind: str
    severity: str
    evidence: str
    probe_phase: str
    symptom: str
    client_sees: str
    summary: dict[str, str]
    mitigation: dict[str, str]
    tiers: tuple[Tier, ...]
    sources: tuple[str, ...]

    @property
    def disaggregated(self) -> bool | None:
        found = self.when.get("disaggregated")
        return found if isinstance(found, bool) else None

    @property
    def leak(self) -> bool:
        """True if one request's data can reach another."""
        return self.kind in ("cross-request-leak", "stale-kv")

    @property
    def may_block(self) -> bool:
        """Proven enough to block on a definite match: read in the source, with bounds that are not estimated."""
        return self.severity == "block" and self.evidence == "source-read" and self.affected_basis != "estimate"

    @property
    def decidable(self) -> bool:
        """True if facts of a repository can settle every condition, so that the match can be definite."""
        storage = self.when.get("storage")
        return self.engine not in LIBRARIES and not (ASKED_KEYS & self.when.keys()) and not isinstance(storage, dict)

    def tier(self, version: Version) -> Tier | None:
        """The tier that covers the version, None from the floor upwards. Post-releases count with their release, development and
        rc builds of a bound are below it."""
        from packaging.version import Version

        release = Version(version.public)
        return next((tier for tier in self.tiers if release < Version(tier.below)), None)

    def covers(self, version: Version | None) -> bool | None:
        """Whether the release is affected; None where the version is not known and not every release is.

        Bounds are half-open and compared as versions, not as specifier sets: an rc of the fixed release is affected, and so is an rc of
        the first affected one.
        """
        if version is None:
            low, high = _bounds(self.affected)
            return True if high is None and not any(low.release) else None
        return within(version, self.affected)


@lru_cache(maxsize=8_192)
def within(version: Version, spec: str) -> bool:
    """True if the version lies in ">=a,<b" (either bound may be left out), compared as ``Advisory.covers`` does."""
    from packaging.version import Version

    low, high = _bounds(spec)
    release = Version(version.public) if version.local else version
    # An early build of the first affected release may hold the bug already: it counts with its release.
    start = Version(version.base_version) if version.is_prerelease else release
    return start >= low and (high is None or release < high)


@cache
def _bounds(spec: str) -> tuple[Version, Version | None]:
    from packaging.version import Version

    low, high = Version("0"), None
    for part in spec.split(","):
        if part.startswith(">="):
            low = Version(part[2:].strip())
        elif part.startswith("<"):
            high = Version(part[1:].strip())
    return low, high


@cache
def advisories() -> dict[str, Advisory]:
    """All advisories by id, sorted. Raises UsageError with file:line where a file is not as the schema has it."""
    found = {}
    for path in files():
        data = compiled.load(path, f"{FOLDER}/{path.name}", build)
        found[data["id"]] = Advisory(
            **{**data, "tiers": tuple(Tier(**tier) for tier in data["tiers"]), "sources": tuple(data["sources"])}
        )
    return found


def files() -> list[Path]:
    """The advisories' files, sorted by name."""
    return sorted((resources.folder("knowledge") / FOLDER).glob("*.yml"))


def build(document: Value) -> dict[str, Any]:
    """The fields of an Advisory from its file. Raises UsageError with file:line."""
    table = Table(document)
    when = table.take("when")
    conditions = when.plain() if when else {}
    if when is not None and not isinstance(conditions, dict):
        raise when.wrong("a mapping of conditions")
    fields = {
        "id": _text(table, "id", r"[a-z0-9][a-z0-9-]{2,60}", "a short id in lower case"),
        "engine": _text(table, "engine", r"[a-z][a-z.-]+", "an engine's name"),
        "component": _text(table, "component"),
        "affected": _text(table, "affected", r"(>=[\w.]+)?(,?<[\w.]+)?", 'bounds in quotes: ">=a,<b"'),
        "affected_basis": table.choice("affected_basis", "estimate", ("source", "report", "estimate")),
        "fixed_in": table.text("fixed_in", None),
        "fix_status": table.choice("fix_status", "unknown", ("fixed", "partial", "open", "unknown")),
        "floor": table.text("floor", None),
        "when": conditions,
        "ask": _both(table, "ask") if "ask" in table.left else {},
        "kind": _text(table, "class"),
        "severity": table.choice("severity", "warn", ("block", "warn", "note")),
        "evidence": table.choice("evidence", "thread", ("source-read", "thread", "secondary")),
        "probe_phase": _text(table, "probe_phase"),
        "symptom": " ".join(_text(table, "symptom").split()),
        "client_sees": " ".join(_text(table, "client_sees").split()),
        "summary": _both(table, "summary"),
        "mitigation": _both(table, "mitigation"),
        "tiers": [_tier(entry) for entry in table.tables("tiers")],
        "sources": list(table.texts("sources")),
    }
    table.take("exposed_lengths")
    table.finish()
    return fields


def _text(table: Table, key: str, pattern: str | None = None, expected: str = "text") -> str:
    found = table.text(key, None, pattern=pattern, expected=expected)
    if found is None:
        raise Value(None, table.value.path, table.value.line, key).wrong(expected)
    return found


def _tier(table: Table) -> dict[str, Any]:
    tier = {
        "below": table.text("below", "", pattern=r"\d+(\.\d+)*", expected="a release in quotes"),
        "verdict": table.choice("verdict", "block", ("block", "warn", "note")),
        "state": _both(table, "state"),
    }
    table.finish()
    return tier


def _both(table: Table, key: str) -> dict[str, str]:
    inner = table.table(key)
    if inner is None:
        raise Value(None, table.value.path, table.value.line, key).wrong("given in en and ko")
    texts = {language: " ".join(inner.text(language, "").split()) for language in LANGUAGES}
    inner.finish()
    if not all(texts.values()):
        raise Value(None, table.value.path, table.value.line, key).wrong("given in en and ko")
    return texts
