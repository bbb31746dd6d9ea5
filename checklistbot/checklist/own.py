"""A user's own prompt template and incidents (``llm.prompt`` and ``incidents:`` of the config).

Whoever calls decides where they are read: ``review`` gives the files of the base's tip, ``prompt`` and ``draft`` those of the work
tree (DESIGN, "What never happens"). A template is filled in a sandbox; what is wrong with a file is one line with file:line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from checklistbot.checklist.incidents import Incident
from checklistbot.checklist.words import Language
from checklistbot.config import Config
from checklistbot.model import TOPICS, Topic, UsageError
from checklistbot.record import record
from checklistbot.strict_yaml import Table, Value, parse

MAX_TEMPLATE_BYTES: Final = 64 * 1024
_MAX_TEXT, _MAX_ENTRIES, _MAX_INCIDENTS = 2_000, 12, 8
_TOPIC_NAMES: Final[tuple[Topic, ...]] = TOPICS

#: The files that one entry of the config names (a path, or a glob for ``incidents:``), each with its text.
Read = Callable[[str], Iterable[tuple[str, str]]]


@record
class Template:
    """A prompt template's text, and the path that its errors name."""

    text: str
    path: str


@record
class Own:
    """What the config adds to the prompt. The first incident of ``incidents`` is the one the prompt tells."""

    template: Template | None = None
    incidents: tuple[Incident, ...] = ()


def own(config: Config, read: Read) -> Own:
    """The files that ``config`` names. Raises UsageError where one is missing or wrong."""
    return Own(_template(config, read), _incidents(config, read))


def _files(config: Config, line: int, read: Read, key: str, pattern: str) -> list[tuple[str, str]]:
    found = list(read(pattern))
    if not found:
        raise UsageError(
            f"{config.path}:{line}: {key} names no file that can be read; it must be text inside the repository, no link"
        )
    return found


def _template(config: Config, read: Read) -> Template | None:
    if config.llm.prompt is None:
        return None
    ((path, text), *more) = _files(config, config.llm.prompt_line, read, "llm.prompt", config.llm.prompt)
    if more:
        raise UsageError(
            f"{config.path}:{config.llm.prompt_line}: llm.prompt names {len(more) + 1} files; it takes one"
        )
    if len(text.encode("utf-8", "replace")) > MAX_TEMPLATE_BYTES:
        raise UsageError(f"{path}:1: larger than 64 KiB; such a prompt template is not read")
    return Template(text, path)


def _incidents(config: Config, read: Read) -> tuple[Incident, ...]:
    found = {}
    for pattern, line in zip(config.incidents, config.incident_lines, strict=True):
        for path, text in _files(config, line, read, "incidents", pattern):
            incident = incident_from(text, path)
            if incident.id in found:
                raise UsageError(f"{path}:1: a second incident with this id; give it one of its own")
            found[incident.id] = incident
    if len(found) > _MAX_INCIDENTS:
        raise UsageError(
            f"{config.path}:{config.incident_lines[0]}: incidents names {len(found)} incidents; at most {_MAX_INCIDENTS} are read"
        )
    return tuple(found.values())


# --- one incident file -------------------------------------------------------------------------------------------------


def incident_from(text: str, path: str) -> Incident:
    """An incident of the user's own: ``id``, ``title``, ``story`` and ``lessons`` at least. Raises UsageError with path:line.

    A text is ``{en: …, ko: …}``, or one of both, or a plain text for both languages.
    """
    table = Table(parse(text, path))
    lessons = tuple(_lesson(entry) for entry in table.tables("lessons"))
    incident = Incident(
        id=_required(table, "id", pattern=r"[a-z0-9][a-z0-9.-]{0,80}", expected="lower-case letters, digits, dashes"),
        published=table.text("published", "", pattern=r"[0-9]{4}(-[0-9]{2}){0,2}", expected="a month such as 2026-09"),
        engines=table.texts("engines"),
        fixed_in=_versions(table.table("fixed_in")),
        title=_text(table, "title"),
        story=_text(table, "story"),
        preconditions=_texts(table, "preconditions"),
        lessons=lessons,
        required_topics=tuple(_topic(value) for value in table.entries("required_topics", _is_topic, _TOPICS)),
        would_have_caught=_texts(table, "would_have_caught"),
        sources=table.texts("sources"),
    )
    if not lessons:
        raise UsageError(f"{path}:1: lessons is missing; write what was learnt, one entry a topic")
    table.finish()
    return incident


_TOPICS: Final = "a list of " + ", ".join(TOPICS)


def _is_topic(value: Value) -> bool:
    return value.data in _TOPIC_NAMES


def _topic(value: Value) -> Topic:
    return next(name for name in _TOPIC_NAMES if name == value.data)


def _required(table: Table, key: str, **form: Any) -> str:
    value = table.text(key, None, **form)
    if value is None:
        raise UsageError(f"{table.value.path}:{table.value.line}: {key} is missing")
    return str(value)


def _lesson(table: Table) -> tuple[Topic, dict[Language, str]]:
    topic = table.take("topic")
    if topic is None or not _is_topic(topic):
        where = topic or table.value
        raise UsageError(f"{where.path}:{where.line}: topic must be one of {', '.join(TOPICS)}")
    texts = _languages(table, table.value)
    table.finish()
    return _topic(topic), texts


def _text(table: Table, key: str) -> dict[Language, str]:
    value = table.take(key)
    if value is None:
        raise UsageError(f"{table.value.path}:{table.value.line}: {key} is missing")
    return _either(value)


def _texts(table: Table, key: str) -> tuple[dict[Language, str], ...]:
    value = table.take(key)
    if value is None:
        return ()
    if not isinstance(value.data, list) or len(value.data) > _MAX_ENTRIES:
        raise value.wrong(f"a list of up to {_MAX_ENTRIES} texts")
    return tuple(_either(entry) for entry in value.data)


def _either(value: Value) -> dict[Language, str]:
    """A plain text for both languages, or a mapping."""
    if isinstance(value.data, str):
        return {"en": _line(value), "ko": _line(value)}
    inner = Table(value)
    texts = _languages(inner, value)
    inner.finish()
    return texts


def _languages(table: Table, where: Value) -> dict[Language, str]:
    english, korean = table.take("en"), table.take("ko")
    one = english or korean
    if one is None:
        raise where.wrong("a text, or a mapping with en, ko or both")
    return {"en": _line(english or one), "ko": _line(korean or one)}


def _line(value: Value) -> str:
    """One line of visible characters, so that a story cannot pretend to be another part of the prompt."""
    from checklistbot.encode import clean

    if not isinstance(value.data, str) or not value.data.strip() or len(value.data) > _MAX_TEXT:
        raise value.wrong(f"text of up to {_MAX_TEXT:,} characters")
    return " ".join(clean(value.data, limit=_MAX_TEXT, keep="").split())


def _versions(table: Table | None) -> dict[str, str]:
    if table is None:
        return {}
    form: dict[str, Any] = {"pattern": r"[0-9]+(\.[0-9]+){0,3}([a-z0-9.]{0,12})", "expected": "a version in quotes"}
    found = {engine: str(version) for engine in list(table.left) if (version := table.text(engine, None, **form))}
    table.finish()
    return found
