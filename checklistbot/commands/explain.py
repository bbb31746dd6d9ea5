"""``checklistbot explain``: what a rule or an advisory is about, without network."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import Literal

import click

from checklistbot import knowledge, rules
from checklistbot.commands import _options as shared
from checklistbot.config import Config
from checklistbot.model import UsageError

_WORDS = {
    "en": {"rule": "rule", "advisory": "advisory", "subsumes": "Also speaks for", "fixed": "Fixed in", "floor": "Asked for",
           "below": "below {bound}", "sources": "Sources", "do": "What to do", "as-of": "Knowledge of"},
    "ko": {"rule": "규칙", "advisory": "권고", "subsumes": "함께 다루는 권고", "fixed": "수정 버전", "floor": "요구 버전",
           "below": "{bound} 미만", "sources": "출처", "do": "할 일", "as-of": "지식 기준일"},
}  # fmt: skip


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
    elif name in knowledge.advisories():
        click.echo("\n".join(_advisory(name, language)))
    else:
        close = difflib.get_close_matches(name, [*rules.registry(), *knowledge.advisories()], 1)
        raise UsageError(
            f"no rule or advisory has that id{f'; did you mean {close[0]}?' if close else '; see checklistbot explain'}"
        )
    return 0


def _list(language: Literal["en", "ko"]) -> Iterator[str]:
    width = max(map(len, [*rules.registry(), *knowledge.advisories()]))
    for rule in rules.registry().values():
        yield f"{rule.id:{width}}  {rule.summary[language]}"
    for advisory in knowledge.advisories().values():
        yield f"{advisory.id:{width}}  {advisory.summary[language]}"


def _rule(name: str, language: Literal["en", "ko"]) -> Iterator[str]:
    rule, words = rules.registry()[name], _WORDS[language]
    yield f"{rule.id} ({words['rule']})"
    yield ""
    yield rule.summary[language]
    for paragraph in rule.page.get(language, ()):
        yield ""
        yield paragraph
    if rule.subsumes:
        yield ""
        yield f"{words['subsumes']}: {', '.join(rule.subsumes)}"


def _advisory(name: str, language: Literal["en", "ko"]) -> Iterator[str]:
    advisory, words = knowledge.advisories()[name], _WORDS[language]
    yield f"{advisory.id} ({words['advisory']}, {advisory.engine})"
    yield ""
    yield advisory.summary[language]
    yield ""
    for tier in advisory.tiers:
        yield f"- {words['below'].format(bound=tier.below)}: {tier.state[language]}"
    yield ""
    yield f"{words['do']}: {advisory.mitigation[language]}"
    yield f"{words['fixed']}: {advisory.fixed_in or '-'}; {words['floor']}: {advisory.floor or advisory.fixed_in or '-'}"
    yield f"{words['sources']}: {', '.join(advisory.sources)}"
    yield f"{words['as-of']}: {rules.knowledge_date()}"
