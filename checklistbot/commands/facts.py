"""``checklistbot facts``: what is known, and from where."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from checklistbot.commands import _options as shared

if TYPE_CHECKING:
    from checklistbot.discovery.render import Kind
    from checklistbot.facts import Inputs


@click.command(
    "facts",
    short_help="What a repository, a start-up log or a live server says about its deployments.",
    epilog=shared.epilog("checklistbot facts .", "checklistbot facts --log prefill.log --format json"),
)
@click.argument("path", required=False)
@click.option("--rev", metavar="REV", help="Read this Git revision instead of the work tree.")
@shared.inputs
@shared.render
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option("--output", metavar="FILE", help="Write there instead of standard output.")
@shared.common
def command(
    settings: shared.Settings,
    named: Inputs,
    path: str | None,
    rev: str | None,
    render: Kind | None,
    form: str,
    output: str | None,
) -> int:
    """Print the facts of every deployment below PATH (default: the current folder), each with its source.

    PATH may be a folder, a file, or - for rendered manifests on standard input. With --log, --endpoint or --observed and no PATH
    only these are read.
    """
    import os

    from checklistbot.commands._live import of_work_tree
    from checklistbot.facts import LiveSource, gather

    tree = shared.open_path(path, named, rev)
    config = shared.read_config(settings.config, tree)
    live = LiveSource(of_work_tree(config, named, os.environ))
    with shared.rendering(render, os.environ) as made:
        facts = gather(tree, config, named, live=live, renderer=made)
    if form == "json":
        from checklistbot.report.json import dump

        shared.write_output(dump(facts.to_json()), output)
    else:
        from checklistbot.report.facts_text import render_facts

        shared.write_output(render_facts(facts, language=settings.language(config), color=settings.colored()), output)
    shared.tell(settings, facts.skipped)
    return shared.ending(facts)
