"""``checklistbot prompt``: the filled prompt, to paste into a chat."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from checklistbot.commands import _options as shared

if TYPE_CHECKING:
    from checklistbot.facts import Inputs


@click.command(
    "prompt",
    short_help="Print the filled prompt, ready to paste into a chat.",
    epilog=shared.epilog("checklistbot prompt . | pbcopy", "checklistbot prompt --lang ko --tokens"),
)
@click.argument("path", required=False)
@click.option("--rev", metavar="REV", help="Read this Git revision instead of the work tree.")
@shared.inputs
@click.option("--tokens", is_flag=True, help="Print an estimate of its length in tokens instead.")
@shared.common
def command(settings: shared.Settings, named: Inputs, path: str | None, rev: str | None, tokens: bool) -> int:
    """Fill the incident-derived prompt with the facts of the deployments below PATH (default: the current folder).

    Bring the answer back with checklistbot draft --response FILE.
    """
    from checklistbot.checklist import prompt

    found = shared.learn(settings, named, path, rev)
    text = prompt.render(found.facts, found.check, language=found.language, own=found.own)
    if tokens:
        click.echo(f"about {prompt.estimate_tokens(text):,} tokens (an estimate: every model counts differently)")
    else:
        click.echo(text, nl=not text.endswith("\n"))
    shared.tell(settings, found.facts.skipped)
    return shared.ending(found.facts)
