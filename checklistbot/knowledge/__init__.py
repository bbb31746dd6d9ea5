"""Data that a domain expert edits without Python, and its typed readers. One advisory a file; the registry is the folder."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final

from checklistbot import resources
from checklistbot.strict_yaml import Table, Value, parse

if TYPE_CHECKING:
    from packaging.version import Version

LANGUAGES: Final = ("en", "ko")


@dataclass(frozen=True, slots=True)
class Tier:
    """A half-open interval of versions: from the bound of the tier before it up to, not including, ``below``."""

    below: str
    verdict: str
    state: dict[str, str]


@dataclass(frozen=True, slots=True)
class Advisory:
    """A known engine bug. ``fixed_in`` is the first release with the fix in its code, ``floor`` the release that policy asks for
    (None: the same). ``sources`` are "owner/repository#number" or a document's name."""

    id: str
    engine: str
    disaggregated: bool | None
    fixed_in: str | None
    floor: str | None
    evidence: str
    summary: dict[str, str]
    mitigation: dict[str, str]
    tiers: tuple[Tier, ...]
    sources: tuple[str, ...]

    def tier(self, version: Version) -> Tier | None:
        """The tier that covers the version, None from the floor upwards. Post-releases count with their release, development and
        rc builds of a bound are below it."""
        from packaging.version import Version

        release = Version(version.public)
        return next((tier for tier in self.tiers if release < Version(tier.below)), None)


@cache
def advisories() -> dict[str, Advisory]:
    """All advisories by id. Raises UsageError with file:line where a file is not as the schema has it."""
    found = {}
    for path in resources.files("knowledge", ".yml"):
        if path.parent.name == "advisories":
            advisory = _advisory(Table(parse(path.read_text(encoding="utf-8"), path.name)))
            found[advisory.id] = advisory
    return found


def _advisory(table: Table) -> Advisory:
    when = table.table("when")
    disaggregated = when.switch("disaggregated", False) if when and "disaggregated" in when.left else None
    if when:
        when.finish()
    advisory = Advisory(
        id=table.text("id", ""),
        engine=table.text("engine", ""),
        disaggregated=disaggregated,
        fixed_in=table.text("fixed_in", None),
        floor=table.text("floor", None),
        evidence=table.choice("evidence", "thread", ("source-read", "thread", "secondary")),
        summary=_both(table, "summary"),
        mitigation=_both(table, "mitigation"),
        tiers=tuple(_tier(entry) for entry in table.tables("tiers")),
        sources=table.texts("sources"),
    )
    table.finish()
    return advisory


def _tier(table: Table) -> Tier:
    tier = Tier(
        below=table.text("below", "", pattern=r"\d+(\.\d+)*", expected="a release in quotes"),
        verdict=table.choice("verdict", "block", ("block", "warn", "note")),
        state=_both(table, "state"),
    )
    table.finish()
    return tier


def _both(table: Table, key: str) -> dict[str, str]:
    inner = table.table(key)
    if inner is None:
        raise Value(None, table.value.path, table.value.line, key).wrong("given in en and ko")
    texts = {language: " ".join(inner.text(language, "").split()) for language in LANGUAGES}
    inner.finish()
    return texts
