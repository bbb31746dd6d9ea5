"""``checklistbot explain``: what a rule or an advisory is about, without network."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from typing import Final, Literal

import click

from checklistbot import rules
from checklistbot.commands import _options as shared
from checklistbot.config import Config
from checklistbot.knowledge.advisory import advisories
from checklistbot.model import UsageError
from checklistbot.report.columns import columns, wrapped

_AS_OF: Final = {"en": "Knowledge of", "ko": "지식 기준일"}


@click.command(
    "explain",
    short_help="Explain a rule or an advisory, offline.",
    epilog=shared.epilog("checklistbot explain kv-pool-below-context"),
)
@click.argument("name", metavar="ID", required=False)
@shared.common
def command(settings: shared.Settings, name: str | None) -> int:
    """Explain the rule or advisory ID; without ID list them all."""
    language = settings.language(Config())
    if name is None:
        click.echo("\n".join(_list(language)))
    elif name in rules.registry():
        click.echo("\n".join(_rule(name, language)))
    elif name in advisories():
        click.echo("\n".join(_advisory(name, language)))
    else:
        close = difflib.get_close_matches(name, [*rules.registry(), *advisories()], 1)
        raise UsageError(
            f"no rule or advisory has that id{f'; did you mean {close[0]}?' if close else '; see checklistbot explain'}"
        )
    return 0


def _list(language: Literal["en", "ko"]) -> Iterator[str]:
    width = max(map(len, rules.registry())) + 2
    narrow = columns() < 2 * width
    for rule in rules.registry().values():
        yield from (
            wrapped(f"{rule.id} {rule.summary[language]}", hanging="  ")
            if narrow
            else _row(rule.id, rule.summary[language], width)
        )
    for advisory in advisories().values():
        yield ""
        yield advisory.id
        yield from wrapped(advisory.summary[language], "  ")


def _row(name: str, text: str, left: int) -> Iterator[str]:
    """The id, and beside it the text in as many lines as it needs."""
    first, *rest = wrapped(text, " " * left)
    yield f"{name:{left}}{first.lstrip()}"
    yield from rest


def _rule(name: str, language: Literal["en", "ko"]) -> Iterator[str]:
    from checklistbot.rules import _pages as pages

    rule = rules.registry()[name]
    yield f"{rule.id} ({pages.word(language, 'rule')})"
    yield from _page(pages.rule_paragraphs(rule, language), pages.rule_facts(rule, language))


def _advisory(name: str, language: Literal["en", "ko"]) -> Iterator[str]:
    from checklistbot.rules import _pages as pages

    advisory = advisories()[name]
    yield f"{advisory.id} ({pages.word(language, 'advisory')})"
    yield from _page(pages.advisory_paragraphs(advisory, language), pages.advisory_facts(advisory, language))
    yield f"{_AS_OF[language]}: {rules.knowledge_date()}"


def _page(paragraphs: Iterable[str], facts: Iterable[tuple[str, str]]) -> Iterator[str]:
    for paragraph in paragraphs:
        yield ""
        yield from wrapped(paragraph)
    yield ""
    for label, value in facts:
        yield from wrapped(f"{label}: {value}", hanging="  ")
