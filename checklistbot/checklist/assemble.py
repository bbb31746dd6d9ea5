"""Drafted items, an LLM's or a pasted chat's, become a checklist that can be trusted as far as it was checked.

The five topics keep our own automation, severity and place in time; what the draft leaves out is added from the built-in set;
deployments that do not exist are dropped. Nothing here reads or changes a verdict.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from checklistbot import encode
from checklistbot.checklist import builtin
from checklistbot.checklist.guards import (
    MAX_OWNER,
    MAX_TEXT,
    MAX_TITLE,
    Guard,
    known_flag,
    known_metrics,
    line,
    split_commands,
)
from checklistbot.checklist.words import Language, words
from checklistbot.encode import Untrusted
from checklistbot.engines.base import version_of
from checklistbot.model import (
    TOPICS,
    Check,
    Checklist,
    Deployment,
    Facts,
    Item,
    Origin,
    Severity,
    Topic,
    When,
)
from checklistbot.record import record

_WHEN: Final[tuple[When, ...]] = ("before-merge", "before-deploy", "after-deploy")
#: Where there is no deployment to hang an item on (a pasted answer without PATH).
NO_DEPLOYMENT: Final = "none"
#: Asked of every role; the other topics are asked of the group.
_PER_ROLE: Final[tuple[Topic, ...]] = ("pool-against-context", "engine-version")


@record
class Draft:
    """One item before it is checked. ``deployments`` are d1 … dn, () for all of them; None where the draft
    does not know these names (a chat's free text): it then becomes one item."""

    topic: Topic
    title: str
    steps: tuple[str, ...]
    pass_when: str
    commands: tuple[str, ...] = ()
    why: str = ""
    owner: str = ""
    severity: Severity = "required"
    when: When = "before-deploy"
    deployments: tuple[str, ...] | None = None
    automation: Mapping[str, Any] | None = None


def numbered(facts: Facts) -> dict[str, Deployment]:
    """d1 … dn, as the prompt calls them, in the order of the facts."""
    return {f"d{number}": deployment for number, deployment in enumerate(facts.deployments, 1)}


def assemble(
    drafts: Iterable[Draft], facts: Facts, check: Check, language: Language, *, origin: Origin, model: str | None
) -> Checklist:
    """The checked checklist, in the order of the deployments and topics; the same drafts give the same bytes."""
    ours = builtin.draft(facts, check, language)
    by_id = {item.id: item for item in ours.items}
    workshop = _Workshop(facts, by_id, language)
    for drafted in drafts:
        workshop.take(drafted)
    items = workshop.items + [
        replace(item, added=True)
        for item in ours.items
        if item.severity == "required" and item.id not in workshop.taken
    ]
    places = {item.id: number for number, item in enumerate(ours.items)}
    rank = {deployment.id: number for number, deployment in enumerate(facts.deployments)}

    def place(item: Item) -> tuple[int, int, int]:
        deployment = item.id.split("/", 1)[1]
        at = next(
            (number for id_, number in rank.items() if deployment == id_ or deployment.startswith(f"{id_}/")), len(rank)
        )
        return (at, TOPICS.index(item.topic), places.get(item.id, len(places)))

    items.sort(key=place)
    return Checklist(language, origin, Untrusted(encode.clean(model, limit=100)) if model else None, tuple(items))


class _Workshop:
    """Turns drafts into items one after the other, and remembers which of the required ones they cover."""

    def __init__(self, facts: Facts, ours: Mapping[str, Item], language: Language) -> None:
        self.facts = facts
        self.ours = ours
        self.language = language
        self.items: list[Item] = []
        self.taken: set[str] = set()
        self._names = numbered(facts)
        self._counts: dict[str, int] = {}

    def take(self, draft: Draft) -> None:
        """Adds the item once for each deployment it is about (each role, or each group by topic); drops it if none exists."""
        if draft.deployments is None:
            self.items.append(self._item(draft, self._guessed(draft)))
            return
        known = [self._names[name] for name in dict.fromkeys(draft.deployments) if name in self._names]
        if draft.deployments and not known:
            return
        targets = self._targets(draft.topic, known or list(self.facts.deployments))
        unknown = any(name not in self._names for name in draft.deployments)
        for target in targets:
            self.items.append(self._item(draft, target, several=len(targets) > 1, unknown=unknown))

    def _guessed(self, draft: Draft) -> Deployment | None:
        """Where an item goes that names no deployment: to the role that its title names, else to the first group."""
        group = next(iter(self.facts.groups().values()), ())
        if draft.topic in _PER_ROLE:
            named = [d for d in group if str(d.role.value) in draft.title.lower()]
            if len(named) == 1:
                return named[0]
        return next(iter(self._targets("other", list(group))), None)

    def _targets(self, topic: Topic, named: list[Deployment]) -> list[Deployment]:
        if topic in _PER_ROLE:
            return named
        anchors = {item.id.split("/", 1)[1] for item in self.ours.values() if item.topic == "canary-leak"}
        groups = {(d.environment, d.group) for d in named}
        return [d for d in self.facts.deployments if d.id in anchors and (d.environment, d.group) in groups]

    def _id(self, topic: Topic, target: Deployment | None) -> str:
        base = f"{topic}/{target.id if target else NO_DEPLOYMENT}"
        count = self._counts[base] = self._counts.get(base, 0) + 1
        return base if count == 1 else f"{base}/{count}"

    def _item(self, draft: Draft, target: Deployment | None, *, several: bool = False, unknown: bool = False) -> Item:
        id_ = self._id(draft.topic, target)
        model = self.ours.get(id_) if draft.topic != "other" else None
        if model is not None:
            self.taken.add(id_)
        title = line(draft.title, MAX_TITLE)
        if several and target is not None and draft.topic in _PER_ROLE:
            title = Untrusted(f"{title} ({target.role.value})")
        commands, notes = split_commands(draft.commands, self.language)
        steps = tuple(step for text in draft.steps if (step := line(text, MAX_TEXT)))
        pass_when, why = line(draft.pass_when, MAX_TEXT), line(draft.why, MAX_TEXT)
        about = (target,) if target else self.facts.deployments
        marks = Guard(about, self.facts.deployments, self.language).marks((title, *steps, *commands, pass_when, why))
        if unknown:
            notes.append(words(self.language)("guards.deployment"))
        if any(
            encode.redact(text) != text
            for text in (draft.title, draft.pass_when, draft.why, *draft.steps, *draft.commands)
        ):
            notes.append(words(self.language)("guards.secret"))
        return Item(
            id=id_,
            topic=draft.topic,
            severity="required" if model else draft.severity,
            title=title,
            why=why or (model.why if model else ""),
            steps=steps or (title,),
            commands=commands,
            pass_when=pass_when or title,
            owner=line(draft.owner, MAX_OWNER) or words(self.language).entry("owner")["release"],
            when=_earlier(draft.when, model.when) if model else draft.when,
            automation=model.automation if model else self._automation(draft.automation, target),
            facts_used=model.facts_used if model else _facts_used(target),
            not_verified=(*marks, *notes),
        )

    def _automation(self, automation: Mapping[str, Any] | None, target: Deployment | None) -> Mapping[str, Any]:
        """A typed automation of the draft, if what it names is real; else a person does it."""
        manual = {"kind": "manual"}
        if automation is None or target is None:
            return manual
        kind = automation["kind"]
        if kind == "flag-present" and not known_flag(str(automation["flag"]).lstrip("-"), target):
            return manual
        if kind == "health-and-metrics" and not set(automation["metrics"]) <= known_metrics():
            return manual
        if kind == "assert-version" and (automation["engine"] != target.engine.value or version_of(target) is None):
            return manual
        if kind == "content-needles" and max(automation["lengths"]) > 2 * (target.context_length.number() or 0):
            return manual
        return automation


def _earlier(one: When, other: When) -> When:
    return min(one, other, key=_WHEN.index)


def _facts_used(target: Deployment | None) -> dict[str, Any]:
    if target is None:
        return {}
    names = ("engine_version", "context_length", "kv_pool_tokens")
    return {name: value for name in names if (value := target.fact(name).value) is not None}
