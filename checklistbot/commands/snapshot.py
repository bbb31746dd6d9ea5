"""``checklistbot snapshot``: live workers → a dated facts file, for runners that cannot reach them."""

from __future__ import annotations

import click

from checklistbot.commands import _options as shared
from checklistbot.model import Facts, InputError, Skipped


@click.command(
    "snapshot",
    short_help="Ask live workers and write a dated facts file for --observed.",
    epilog=shared.epilog(
        "checklistbot snapshot --endpoint http://prefill-0:30000 --endpoint http://decode-0:30000 --output facts.json"
    ),
)
@click.option("--endpoint", "endpoints", multiple=True, required=True, metavar="URL", help="A worker (repeatable).")
@click.option("--output", metavar="FILE", help="Write there instead of standard output.")
@shared.common
def command(settings: shared.Settings, endpoints: tuple[str, ...], output: str | None) -> int:
    """Ask every worker at URL what it holds, and write facts/1 as JSON with the time.

    For a CronJob or a PostSync hook inside the cluster; `checklistbot check . --observed FILE` takes the file elsewhere. A worker that
    does not answer is named under "skipped", and the exit code is 3.
    """
    import dataclasses

    from checklistbot.config import Config
    from checklistbot.facts import Inputs, gather
    from checklistbot.report.json import dump

    shared.read_config(settings.config, None)
    asked = gather(None, Config(), Inputs(endpoints=endpoints))
    if not asked.deployments:
        # An earlier snapshot must not be overwritten by one that knows nothing.
        raise InputError("; ".join(asked.unread) or "no endpoint told anything; nothing was written")
    taken = settings.now().isoformat(timespec="seconds").replace("+00:00", "Z")
    facts = dataclasses.replace(asked, taken=taken, skipped=(*asked.skipped, *_silent(asked)))
    shared.write_output(dump(facts.to_json()), output)
    shared.tell(settings, asked.skipped)
    return shared.ending(facts)


def _silent(asked: Facts) -> tuple[Skipped, ...]:
    """The endpoints that told nothing, so that the file says what it lacks."""
    parts = (line.removeprefix("--endpoint ").partition(": ") for line in asked.unread)
    return tuple(Skipped(url, reason) for url, _, reason in parts)
