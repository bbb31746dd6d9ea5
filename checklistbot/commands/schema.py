"""``checklistbot schema``: the JSON forms, for whoever reads them by machine."""

from __future__ import annotations

import click

from checklistbot.commands import _options as shared
from checklistbot.model import UsageError
from checklistbot.report import schema


@click.command(
    "schema",
    short_help="Print one of the JSON Schemas.",
    epilog=shared.epilog("checklistbot schema report > report.schema.json"),
)
@click.argument("name", required=False)
@shared.common
def command(settings: shared.Settings, name: str | None) -> int:
    """Print the JSON Schema NAME (facts, check, report, checklist, …); without NAME the list of names."""
    names = schema.names()
    if name is None:
        click.echo("\n".join(names))
        return 0
    plain = name.removesuffix("/1")
    if plain not in names:
        raise UsageError(f"there is no such schema; there are: {', '.join(names)}")
    click.echo(schema.dump(plain))
    return 0
