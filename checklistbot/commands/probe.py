"""``checklistbot probe``: the canary and coherence test against a live endpoint."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from checklistbot.commands import _options as shared
from checklistbot.commands._live import on_pull_request
from checklistbot.config import FILE_NAME, Config, load
from checklistbot.model import UsageError

if TYPE_CHECKING:
    from checklistbot.probe.evidence import Binding
    from checklistbot.probe.progress import Progress
    from checklistbot.probe.run import Options, Result
    from checklistbot.probe.text import Texts

_EXIT: Final = {"pass": 0, "fail": 1, "inconclusive": 3}


@click.command(
    "probe",
    short_help="Send canaries and limit-length prompts to a live endpoint, and judge what the answers say.",
    epilog=shared.epilog(
        "checklistbot probe http://staging.internal:8000 --facts facts.json --i-own-this-endpoint",
        "checklistbot probe http://127.0.0.1:8200 --dry-run --i-own-this-endpoint",
    ),
)
@click.argument("url", metavar="URL")
@click.argument("more", nargs=-1, metavar="")
@click.option("--facts", "facts_file", metavar="FILE", help="facts/1 or report/1 that the evidence is bound to.")
@click.option("--plan", "plan_file", metavar="FILE", help="Only the items of this plan/1; - is standard input.")
@click.option("--model", metavar="NAME", help="Served model name (default: the first that /v1/models lists).")
@click.option("--profile", type=click.Choice(["smoke", "standard", "deep"]), default="smoke", show_default=True)
@click.option(
    "--context", type=click.IntRange(1), metavar="N", help="Context length in tokens, where nothing tells it."
)
@click.option("--kv-pool", type=click.IntRange(1), metavar="N", help="KV pool in tokens, where nothing tells it.")
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--i-own-this-endpoint", "owned", is_flag=True, help="Required: over-limit prompts can stall an engine.")
@click.option(
    "--allow-host",
    "allow_hosts",
    multiple=True,
    metavar="H",
    help="A host with a public address that is yours (repeatable).",
)
@click.option("--allow-live-traffic", is_flag=True, help="Go on although other requests are being served.")
@click.option("--budget-tokens", type=click.IntRange(1), default=10_000_000, show_default=True, metavar="N")
@click.option(
    "--deadline",
    type=click.FloatRange(1, 3_600),
    default=340.0,
    show_default=True,
    help="Seconds for an over-limit request.",
)
@click.option(
    "--watch",
    "watch_seconds",
    type=click.FloatRange(0, 600),
    default=10.0,
    show_default=True,
    help="Seconds to look for other people's requests first.",
)
@click.option("--tokenize-url", metavar="U", help="A worker whose /tokenize counts tokens, where the router has none.")
@click.option("--shard", metavar="I/N", hidden=True)
@click.option("--reference-url", metavar="U", hidden=True)
@click.option("--dry-run", is_flag=True, help="Ask for limits, print what would be sent, send nothing.")
@click.option(
    "--keep-text", is_flag=True, help="Keep failing replies in a private file outside the tree (refused in CI)."
)
@click.option("--format", "form", type=click.Choice(["text", "json", "junit"]), default="text", show_default=True)
@click.option("--output", metavar="FILE", help="Write there instead of standard output.")
@shared.common
def command(
    settings: shared.Settings, url: str, more: tuple[str, ...], facts_file: str | None, plan_file: str | None, profile: str, form: str,
    output: str | None, owned: bool, allow_hosts: tuple[str, ...], tokenize_url: str | None, keep_text: bool, **rest: Any,
) -> int:  # fmt: skip
    """Test the OpenAI-compatible endpoint at URL for replies that carry other requests' text.

    Canaries are planted as tenants, then prompts around every limit are sent, those over it last and one at a time. The verdict
    rests on the text of the replies; no text is written anywhere. Exit code: 0 pass, 1 fail, 3 inconclusive.

    CHECKLISTBOT_PROBE_KEY makes canaries that other processes with the key can attribute; CHECKLISTBOT_ENDPOINT_AUTH is sent as
    the Authorization header.
    """
    from checklistbot.probe.evidence import Binding, junit
    from checklistbot.probe.inputs import bound_to, plan_items, read_file
    from checklistbot.probe.text import Texts, render

    if url == "merge" or more:
        raise UsageError(
            "probe merge is not there yet: it comes with --shard"
            if url == "merge"
            else "give one URL; each endpoint is a run of its own"
        )
    if profile != "smoke":
        raise UsageError(
            f"--profile {profile} is not there yet: only smoke is (boundary ladder and canaries, not load, aborts or eviction)"
        )
    if keep_text and os.environ.get("CI") == "true":
        raise UsageError("--keep-text is refused where CI=true: replies may be other people's text")
    for option, value in (("--shard", rest.pop("shard")), ("--reference-url", rest.pop("reference_url"))):
        if value is not None:
            raise UsageError(f"{option} is not there yet: it comes with the profiles standard and deep")
    config = _config(settings.config)
    limits, binding = None, Binding()
    if facts_file is not None:
        limits, binding = bound_to(read_file(facts_file), facts_file, rest["model"])
    items = plan_items(sys.stdin.read() if plan_file == "-" else read_file(plan_file), plan_file) if plan_file else None
    texts = Texts(settings.language(config), color=settings.colored() and output is None)
    allowed = allowed_hosts(config, allow_hosts, os.environ)
    started = _now()
    options = _options(limits, items, rest)
    result = _run(url, tokenize_url, owned, allowed, options, settings, texts)
    if form == "json":
        made = _evidence(result, binding, started, profile, items or [], rest["seed"])
        shared.write_output(json.dumps(made, indent=2, sort_keys=True), output)
    else:
        text = junit(result) if form == "junit" else render(result, texts, url=url, bound=bool(binding.digests))
        shared.write_output(text, output)
    for item in result.ladder.skipped if result.ladder else ():
        click.echo(f"SKIP {item}: this version does not do abort-storm yet", err=True)
    if keep_text:
        _keep(result)
    return 0 if rest["dry_run"] else _EXIT[result.summary.verdict]


def allowed_hosts(config: Config, named: tuple[str, ...], environ: Mapping[str, str]) -> tuple[str, ...]:
    """Hosts with public addresses that may be probed. The config of a pull request opens none: there only the command line does,
    which is written in the base's workflow."""
    return named if on_pull_request(environ) else (*config.probe_allow_hosts, *named)


def _now() -> datetime:
    from checklistbot import clock

    return clock.now(os.environ).astimezone(UTC)


def _config(option: str | None) -> Config:
    path = option or FILE_NAME
    if option is None and not Path(path).is_file():
        return Config()
    try:
        return load(Path(path).read_text(encoding="utf-8-sig"), path)
    except (OSError, UnicodeDecodeError):
        raise UsageError(f"{path}: cannot be read as UTF-8 text") from None


def _options(limits: Any, items: list[dict[str, Any]] | None, rest: Mapping[str, Any]) -> Options:
    import secrets

    from checklistbot.probe.run import Options

    return Options(
        key=os.environ.get("CHECKLISTBOT_PROBE_KEY") or secrets.token_hex(32), seed=rest["seed"], model=rest["model"],
        limits=limits, context=rest["context"], kv_pool=rest["kv_pool"], plan=items, budget=rest["budget_tokens"],
        dry_run=rest["dry_run"], watch_seconds=rest["watch_seconds"], allow_live_traffic=rest["allow_live_traffic"],
        over_deadline=rest["deadline"],
    )  # fmt: skip


def _run(
    url: str, tokenize_url: str | None, owned: bool, allowed: tuple[str, ...], options: Options,
    settings: shared.Settings, texts: Texts,
) -> Result:  # fmt: skip
    from checklistbot.probe.run import Probe
    from checklistbot.probe.safety import allowed_address
    from checklistbot.probe.wire import HttpTransport

    key = os.environ.get("CHECKLISTBOT_ENDPOINT_AUTH")
    authorization = None if not key else key if " " in key else f"Bearer {key}"
    transport = HttpTransport(url, allowed_address(url, owned=owned, allow_hosts=allowed), authorization=authorization)
    counter = None
    if tokenize_url is not None:
        # The header with the key goes to URL only.
        counter = HttpTransport(tokenize_url, allowed_address(tokenize_url, owned=owned, allow_hosts=allowed))
    shown = progress(settings, texts)
    try:
        return Probe(transport, options, shown, counter=counter).run()
    finally:
        shown.close()
        transport.close()
        if counter is not None:
            counter.close()


def progress(settings: shared.Settings, texts: Texts) -> Progress:
    """What is shown on standard error; a bar only on a terminal. Nothing under -q."""
    from checklistbot.probe.progress import Progress

    error = sys.stderr

    def write(text: str) -> None:
        if not settings.quiet:
            error.write(text)
            error.flush()

    return Progress(texts, write, drawn=error.isatty() and not settings.quiet, verbose=bool(settings.verbose))


def _evidence(
    result: Result, binding: Binding, started: datetime, profile: str, items: list[dict[str, Any]], seed: int
) -> dict[str, Any]:
    from checklistbot.probe.evidence import to_json

    environ = os.environ
    in_run = environ.get("GITHUB_ACTIONS") == "true"
    origin = {
        "kind": "run" if in_run else "file",
        "repo": environ.get("GITHUB_REPOSITORY") if in_run else None,
        "run_id": environ.get("GITHUB_RUN_ID") if in_run else None,
        "sha": environ.get("GITHUB_SHA") if in_run else None,
    }
    return to_json(
        result, binding=binding, started=started, finished=_now(), profile=profile, plan=items, seed=seed, origin=origin
    )


def _keep(result: Result) -> None:
    """Failing replies in a file of mode 0600 below the user's own state folder: outside every tree that is uploaded."""
    import secrets

    import platformdirs

    from checklistbot.probe.evidence import hits

    folder = Path(platformdirs.user_state_path("checklistbot")) / "quarantine"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    path = folder / f"{secrets.token_hex(8)}.json"
    kept = [{"request": case.prompt.id, "length": case.length, "text": case.reply.text} for case in hits(result)]
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0), 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        json.dump(kept, file)
    click.echo(
        f"failing replies are kept in {path}; they may be other people's text: delete it when you are done", err=True
    )
