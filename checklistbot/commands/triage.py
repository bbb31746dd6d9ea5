"""``checklistbot triage``: the night's run-time logs, read for answers that may have carried foreign text."""

from __future__ import annotations

import click

from checklistbot.commands import _options as shared


@click.command(
    "triage",
    short_help="Run-time logs: which answers may have carried foreign text, and what to do now.",
    epilog=shared.epilog(
        "checklistbot triage --log prefill.log --log decode.log",
        "kubectl logs deploy/prefill | checklistbot triage --log - --endpoint http://prefill-0:30000",
    ),
)
@click.option("--log", "logs", multiple=True, required=True, metavar="FILE", help="A run-time log, or - (repeatable).")
@click.option("--endpoint", "endpoints", multiple=True, metavar="URL", help="A worker that wrote them (repeatable).")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option("--output", metavar="FILE", help="Write there instead of standard output.")
@shared.common
def command(
    settings: shared.Settings, logs: tuple[str, ...], endpoints: tuple[str, ...], form: str, output: str | None
) -> int:
    """List the requests whose answers may have carried text of other requests, and exit 1 if there are any.

    Prints times, roles, request ids and lengths, never a text. A worker named with --endpoint tells the engine's version and role
    where the logs do not hold their start.
    """
    from checklistbot.config import Config
    from checklistbot.facts import Inputs, gather
    from checklistbot.observation.triage import triage

    config = shared.read_config(settings.config, None)
    asked = gather(None, Config(), Inputs(endpoints=endpoints))
    night = triage(logs, asked.deployments)
    if form == "json":
        from checklistbot.report.json import dump

        shared.write_output(dump(night.to_json()), output)
    else:
        from checklistbot.report.triage_text import render_triage

        text = render_triage(night, language=settings.language(config), color=settings.colored())
        shared.write_output(text, output)
    shared.tell(settings, asked.skipped)
    shared.say_unread((*asked.unread, *night.unread))
    return night.exit_code or (3 if asked.unread else 0)
