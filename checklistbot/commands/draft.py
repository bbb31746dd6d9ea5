"""``checklistbot draft``: the pre-deploy checklist, from an LLM, from a pasted answer, or built in."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from checklistbot.commands import _options as shared
from checklistbot.model import UsageError

if TYPE_CHECKING:
    from checklistbot.facts import Inputs
    from checklistbot.model import Checklist, LlmUse

_RESPONSE_BYTES: Final = 256 * 1024
DEADLINE_S: Final = 300


@click.command(
    "draft",
    short_help="Write the pre-deploy checklist, by an LLM or the built-in drafter.",
    epilog=shared.epilog(
        "checklistbot draft .",
        "checklistbot draft . --provider anthropic --lang ko",
        "checklistbot draft . --response answer.md",
    ),
)
@click.argument("path", required=False)
@click.option("--rev", metavar="REV", help="Read this Git revision instead of the work tree.")
@shared.inputs
@click.option(
    "--provider",
    type=click.Choice(["auto", "openai", "anthropic", "builtin"]),
    help="Who writes it (default: the config's, else the one whose key is set).",
)
@click.option("--model", metavar="M", help="The LLM's model id.")
@click.option("--response", metavar="FILE", help="A chat's answer to the prompt, or -: JSON or a Markdown checklist.")
@click.option("--require-llm", is_flag=True, help="Exit 3 where the LLM gave no usable checklist.")
@click.option(
    "--format", "form", type=click.Choice(["markdown", "json", "yaml"]), default="markdown", show_default=True
)
@click.option("--output", metavar="FILE", help="Write there instead of standard output.")
@shared.common
def command(
    settings: shared.Settings,
    named: Inputs,
    path: str | None,
    rev: str | None,
    provider: str | None,
    model: str | None,
    response: str | None,
    require_llm: bool,
    form: str,
    output: str | None,
) -> int:
    """Write the pre-deploy checklist for exactly the deployments below PATH (default: the current folder).

    Without a key it is the built-in one. An LLM's answer is checked, completed and never trusted.
    """
    from checklistbot import checklist
    from checklistbot.checklist import cache
    from checklistbot.retry import Deadline

    found = shared.learn(settings, named, path, rev)
    if response is not None:
        drafted, use = checklist.from_response(_response(response), found.facts, found.check, language=found.language)
    else:
        drafted, use = checklist.draft(
            found.facts,
            found.check,
            language=found.language,
            settings=found.config.llm,
            provider=provider or found.config.llm.provider,
            model=model or found.config.llm.model,
            environ=os.environ,
            deadline=Deadline(DEADLINE_S),
            own=found.own,
            store=cache.for_user(os.environ),
        )
    shared.write_output(_render(drafted, form), output)
    if use.status == "failed" and use.reason:
        click.echo(f"checklistbot: {use.reason}", err=True)
    shared.tell(settings, found.facts.skipped)
    return shared.ending(found.facts, _exit_code(use, require_llm, response is not None))


def _exit_code(use: LlmUse, require_llm: bool, pasted: bool) -> int:
    """A pasted answer that was no checklist is an unusable input (3); an LLM that failed only counts where one is required."""
    if use.status in ("ok", "repaired"):
        return 0
    return 3 if require_llm or pasted else 0


def _response(name: str) -> str:
    try:
        data = sys.stdin.buffer.read(_RESPONSE_BYTES + 1) if name == "-" else _head(Path(name))
    except OSError as error:
        raise UsageError(f"{name}: cannot be read ({error.strerror or 'no such file'})") from None
    if len(data) > _RESPONSE_BYTES:
        raise UsageError(f"{name}: larger than 256 KiB; paste only the answer")
    return data.decode("utf-8-sig", "replace")


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_RESPONSE_BYTES + 1)


def _render(drafted: Checklist, form: str) -> str:
    if form == "markdown":
        from checklistbot.checklist import render

        return render.markdown(drafted)
    if form == "json":
        from checklistbot.report.json import dump

        return dump(drafted.to_json())
    import yaml

    from checklistbot.encode import json_safe

    text: str = yaml.safe_dump(json_safe(drafted.to_json()), sort_keys=False, allow_unicode=True, width=120)
    return text
