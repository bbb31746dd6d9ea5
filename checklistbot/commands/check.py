"""``checklistbot check``: the deterministic verdict."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from checklistbot.commands import _options as shared

if TYPE_CHECKING:
    from checklistbot.config import Config
    from checklistbot.discovery.render import Kind, Renderer
    from checklistbot.discovery.tree import Tree
    from checklistbot.facts import Inputs
    from checklistbot.model import Check, Facts
    from checklistbot.observation.configured import Endpoints
    from checklistbot.rules import Sources

FORMATS = ("text", "json", "markdown", "sarif", "junit", "github")


@click.command(
    "check",
    short_help="Run the deterministic checks on a repository's deployments.",
    epilog=shared.epilog("checklistbot check .", "kustomize build overlays/prod | checklistbot check -",
                         "checklistbot check . --base main --format sarif --output results.sarif"),
)  # fmt: skip
@click.argument("path", required=False)
@click.option("--rev", metavar="REV", help="Read this Git revision instead of the work tree.")
@click.option("--base", metavar="REV", help="Compare with this revision: what was there before does not fail the run.")
@shared.inputs
@shared.render
@click.option("--format", "form", type=click.Choice(FORMATS), default="text", show_default=True)
@click.option(
    "--fail-on",
    type=click.Choice(["block", "unknown", "warn", "never"]),
    help="Exit 1 from here up (default: the config's, else block).",
)
@click.option("--evidence", multiple=True, metavar="FILE", help="A probe's result, evidence/1 (repeatable).")
@click.option("--output", metavar="FILE", help="Write there instead of standard output.")
@shared.common
def command(
    settings: shared.Settings,
    named: Inputs,
    path: str | None,
    rev: str | None,
    base: str | None,
    render: Kind | None,
    form: str,
    fail_on: str | None,
    evidence: tuple[str, ...],
    output: str | None,
) -> int:
    """Check every deployment below PATH (default: the current folder) and exit 1 if something blocks.

    PATH may be a folder, a file, or - for rendered manifests on standard input.
    """
    import os

    from checklistbot import rules
    from checklistbot.changes import renamed
    from checklistbot.facts import LiveSource, gather
    from checklistbot.history import changed_between

    tree = shared.open_path(path, named, rev)
    config = shared.read_config(settings.config, tree)
    with shared.rendering(render, os.environ) as made:
        before, sources = _base(path, base, config, tree, made)
        live = _endpoints(settings, config, named, sources.base)
        # What runs is what the base says, as far as it is known here: a changed input makes what it told older than the change.
        changed = changed_between(before.deployments) if before else None
        facts = gather(tree, config, named, live=LiveSource(live, changed), renderer=made)
    check = rules.evaluate(
        facts,
        config,
        language=settings.language(config),
        base=before,
        pairs=renamed(before, facts) if before else None,
        today=settings.now().date(),
        sources=sources,
        evidence=shared.read_evidence(evidence),
    )
    root = tree.prefix if tree is not None else ""
    shared.write_output(_render(check, facts, settings.language(config), settings, form, root), output)
    shared.tell(settings, facts.skipped)
    reached = rules.failing(check, config, settings.now().date(), fail_on=fail_on)
    return shared.ending(facts, 1 if reached else 0)


def _base(
    path: str | None, base: str | None, config: Config, tree: Tree | None, made: Renderer | None
) -> tuple[Facts | None, Sources]:
    """The facts of the base, and the files of both states."""
    from checklistbot.rules import Sources

    if base is None:
        return None, Sources(tree)
    from checklistbot.facts import Inputs, gather
    from checklistbot.history import file_days

    before = shared.open_path(path, Inputs(), base)
    return gather(before, config, renderer=made), Sources(tree, before, age=file_days(Path(path or "."), base))


def _endpoints(settings: shared.Settings, config: Config, named: Inputs, base: Tree | None) -> Endpoints:
    """Who asks the config's endpoints; those that the base's config names as well may get the token."""
    import os

    from checklistbot.commands._live import of_work_tree
    from checklistbot.model import UsageError

    known = None
    if base is not None and settings.config is None and any(entry.endpoints for entry in config.deployments):
        try:
            known = shared.read_config(None, base)
        except UsageError:  # a base whose config is broken vouches for nothing
            known = None
    return of_work_tree(config, named, os.environ, base=known)


def _render(
    check: Check, facts: Facts, language: Literal["en", "ko"], settings: shared.Settings, form: str, root: str
) -> str:
    """The check in that format; ``root`` is PATH in its repository, for formats whose paths must be relative to that."""
    if form == "text":
        from checklistbot.report.terminal import render_check

        return render_check(
            check, facts, language=language, color=settings.colored(), everything=bool(settings.verbose)
        )
    import importlib

    module = importlib.import_module(f"checklistbot.report.{form}")
    if form == "json":
        return str(module.dump(check.to_json()))
    placed = {"root": root} if form in ("sarif", "github") else {}
    return str(module.render_check(check, facts, language=language, **placed))
