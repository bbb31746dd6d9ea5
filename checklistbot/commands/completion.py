"""``checklistbot completion``: shell completion, written by click."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from checklistbot.commands import _options as shared


@click.command(
    "completion",
    short_help="Print the completion script for bash, zsh or fish.",
    epilog=shared.epilog('eval "$(checklistbot completion bash)"'),
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@shared.common
@click.pass_context
def command(context: click.Context, settings: shared.Settings, shell: str) -> int:
    """Print the script that makes SHELL complete commands and options."""
    kind = get_completion_class(shell)
    if kind is None:  # pragma: no cover  (the choices are click's own)
        raise click.UsageError("click does not know this shell")
    root = context.find_root()
    click.echo(kind(root.command, {}, "checklistbot", "_CHECKLISTBOT_COMPLETE").source())
    return 0
