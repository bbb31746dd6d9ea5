"""Incidents as data: ``knowledge/incidents/*.yml``, what prompt and checklist are derived from."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from checklistbot import resources
from checklistbot.checklist.words import Language, load_yaml
from checklistbot.model import Topic
from checklistbot.record import record


@record
class Incident:
    """One story with its lessons. Texts by language; ``fixed_in`` is the first release that mends it, by engine."""

    id: str
    published: str
    engines: tuple[str, ...]
    fixed_in: Mapping[str, str]
    title: Mapping[Language, str]
    story: Mapping[Language, str]
    preconditions: tuple[Mapping[Language, str], ...]
    lessons: tuple[tuple[Topic, Mapping[Language, str]], ...]
    required_topics: tuple[Topic, ...]
    would_have_caught: tuple[Mapping[Language, str], ...]
    sources: tuple[str, ...]

    def lesson(self, topic: Topic, language: Language) -> str | None:
        """The lesson on that topic, None if the incident teaches none."""
        return next((texts[language] for name, texts in self.lessons if name == topic), None)

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Incident:
        """Raises KeyError for a missing part; ``tests/checklist`` loads every file."""
        return cls(
            id=data["id"],
            published=str(data["published"]),
            engines=tuple(data["engines"]),
            fixed_in={name: str(version) for name, version in data["fixed_in"].items()},
            title=data["title"],
            story=data["story"],
            preconditions=tuple(data["preconditions"]),
            lessons=tuple((lesson["topic"], {"en": lesson["en"], "ko": lesson["ko"]}) for lesson in data["lessons"]),
            required_topics=tuple(data["required_topics"]),
            would_have_caught=tuple(data["would_have_caught"]),
            sources=tuple(data["sources"]),
        )


@cache
def registry() -> dict[str, Incident]:
    """All incidents by id, newest first."""
    found = [
        Incident.from_data(load_yaml(path.read_text(encoding="utf-8")))
        for path in resources.files("knowledge", ".yml")
        if path.parent.name == "incidents"
    ]
    found.sort(key=lambda incident: (incident.published, incident.id), reverse=True)
    return {incident.id: incident for incident in found}


def teaching(topic: Topic) -> Incident | None:
    """The newest incident that has a lesson on that topic."""
    return next((incident for incident in registry().values() if incident.lesson(topic, "en")), None)
