"""``checklistbot script``: a checklist or a report becomes a CI script."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from checklistbot.commands import _options as shared
from checklistbot.model import Checklist, Facts, UsageError

if TYPE_CHECKING:
    from checklistbot.model import Script

_MAX_BYTES: Final = 8 * 1024 * 1024


@click.command(
    "script",
    short_help="Render a CI script from a checklist or a report.",
    epilog=shared.epilog(
        "checklistbot script out/report.json --output ci/", "checklistbot script out/report.json --output ci/ --check"
    ),
)
@click.argument("source", metavar="CHECKLIST|REPORT", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--target", default="bash", show_default=True, help="What to render.")
@click.option(
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Write the files there instead of printing them.",
)
@click.option(
    "--check", "only_check", is_flag=True, help="Write nothing; exit 1 where the files in DIR are out of date."
)
@shared.common
def command(settings: shared.Settings, source: Path, target: str, output: Path | None, only_check: bool) -> int:
    """Render the automations of a checklist (checklist.json, or the report.json of a review) as a script that CI runs."""
    from checklistbot import scripts

    checklist, facts = _read(source)
    if target not in scripts.targets():
        raise UsageError(f"there is no target of that name; there are: {', '.join(scripts.targets())}")
    rendered = scripts.render(checklist, facts, target)
    if only_check:
        if output is None:
            raise UsageError("--check needs --output DIR, the folder that holds the committed script")
        return _compare(rendered, output)
    for script in rendered:
        if output is None:
            click.echo(script.text, nl=not script.text.endswith("\n"))
        else:
            from checklistbot.report.files import write_text

            write_text(output / script.path, script.text, executable=script.text.startswith("#!"))
    return 0


def _compare(rendered: tuple[Script, ...], folder: Path) -> int:
    stale = [script.path for script in rendered if _text(folder / script.path) != script.text]
    for path in stale:
        click.echo(f"out of date: {path}; render it again with checklistbot script --output", err=True)
    return 1 if stale else 0


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None


def _read(path: Path) -> tuple[Checklist, Facts]:
    """The checklist, and the facts that go with it (empty for a bare checklist). Raises UsageError for anything else."""
    data = _load(path)
    schema = data.get("schema")
    try:
        if schema == "report/1":
            return Checklist.from_json(data["checklist"]), Facts.from_json(data["facts"]["head"])
        if schema == "checklist/1":
            return Checklist.from_json(data), Facts()
    except (KeyError, TypeError, ValueError, AttributeError):
        raise UsageError(
            f"{path}: says {schema} but is not one; see checklistbot schema {str(schema).partition('/')[0]}"
        ) from None
    raise UsageError(f"{path}: neither a checklist/1 nor a report/1; give checklist.json or report.json of a review")


def _load(path: Path) -> dict[str, Any]:
    if path.stat().st_size > _MAX_BYTES:
        raise UsageError(f"{path}: larger than 8 MiB, that is no report")
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, json.JSONDecodeError, RecursionError):
        raise UsageError(f"{path}: not JSON; give checklist.json or report.json of a review") from None
    if not isinstance(data, dict):
        raise UsageError(f"{path}: not a JSON object; give checklist.json or report.json of a review")
    return data
