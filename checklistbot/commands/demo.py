"""``checklistbot demo``: the incident on this machine, in three acts."""

from __future__ import annotations

import dataclasses
import time
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import click

from checklistbot.commands import _options as shared

if TYPE_CHECKING:
    from checklistbot.probe.run import Result
    from checklistbot.probe.text import Texts
    from checklistbot.simulator.engine import Cluster, Settings

_KEY: Final = "checklistbot-demo"
_RULE: Final = "─" * 78
_CELLS: Final = 72


@click.command(
    "demo",
    short_help="Replay the incident on this machine, without a GPU.",
    epilog=shared.epilog("checklistbot demo", "checklistbot demo --lang ko"),
)
@click.option(
    "--scale", type=click.IntRange(1, 256), default=1, show_default=True, metavar="N",
    help="Divide all sizes by N, for slow machines.",
)  # fmt: skip
@shared.common
def command(settings: shared.Settings, scale: int) -> int:
    """Start a simulated server with the incident's sizes and fault on loopback, run a test that looks at status and latency
    (it passes), then the probe (it fails), then the probe against the fixed version (it passes). No GPU, no key, no network.

    Exit code 0 if it all went as told.
    """
    from checklistbot.config import Config
    from checklistbot.probe.text import Texts
    from checklistbot.simulator.engine import Cluster

    texts = Texts(settings.language(Config()), color=settings.colored())
    begun = time.monotonic()
    broken, fixed = sizes(scale)
    _opening(texts, broken, scale)
    cluster = Cluster(broken)
    passed = _act_one(texts, cluster)
    leaked = _act_two(texts, cluster)
    mended = _act_three(texts, Cluster(fixed))
    click.echo(f"\n{texts.style(texts.say('demo.end'), 'bold')}")
    click.echo("  checklistbot probe http://STAGING:PORT --facts facts.json --i-own-this-endpoint")
    click.echo(texts.style(f"  {texts.say('demo.took', round(time.monotonic() - begun))}", "dim"))
    if passed and leaked and mended:
        return 0
    click.echo(f"checklistbot: {texts.say('demo.odd')}", err=True)
    return 1


def sizes(scale: int) -> tuple[Settings, Settings]:
    """The incident's server and its fixed version, sizes divided by ``scale``; pools stay whole pages."""
    from checklistbot.simulator.engine import Settings

    whole = Settings()
    page = whole.page_size if scale < 32 else 16
    broken = dataclasses.replace(
        whole, context=whole.context // scale, prefill_pool=whole.prefill_pool // scale // page * page,
        decode_pool=whole.decode_pool // scale // page * page, page_size=page, chunk=max(512, whole.chunk // scale),
        prefill_speed=1_000_000.0 / scale, faults=("stub-handoff",), seed=7,
    )  # fmt: skip
    return broken, dataclasses.replace(broken, faults=(), version="0.5.22")


def _opening(texts: Texts, made: Settings, scale: int) -> None:
    click.echo(texts.style(texts.say("demo.title"), "bold"))
    sized = (made.context, made.prefill_pool, made.decode_pool, made.page_size, made.prefill_limit)
    click.echo(texts.say("demo.setting", *sized))
    if scale > 1:
        click.echo(texts.say("demo.scaled", scale))


def _heading(texts: Texts, key: str) -> None:
    click.echo(f"\n{texts.style(_RULE, 'dim')}\n{texts.style(texts.say(key), 'bold')}\n")


# --- 1: what was tested before the launch --------------------------------------------------------------------------------


def _act_one(texts: Texts, cluster: Cluster) -> bool:
    """Long prompts, judged by status and latency. True if all look good, as they did then."""
    from checklistbot.probe.prompts import Prompt, body
    from checklistbot.probe.wire import Call, HttpTransport
    from checklistbot.simulator.server import Running

    _heading(texts, "demo.act1")
    context = cluster.settings.context
    good = True
    with Running(cluster) as running:
        transport = HttpTransport(running.url, "127.0.0.1")
        for words in (context // 4, context * 3 // 4, context - 64):
            prompt = Prompt("s", "needles", (("word ", words), ("Summarise.", 1)), words)
            options = {"model": "simulated", "max_tokens": 16, "temperature": 0}
            answer = transport.send([Call("POST", "/v1/chat/completions", body(prompt, chat=True, options=options))])[0]
            good = good and answer.status == 200 and answer.error is None
            mark = texts.style("✓" if answer.status == 200 else "✗", "pass" if answer.status == 200 else "fail")
            click.echo(f"  {mark} {texts.say('demo.row', words, answer.status, f'{answer.seconds:.1f}')}")
        transport.close()
    click.echo(f"\n  {texts.style(texts.say('verdict.pass'), 'pass')}  {texts.say('demo.status-pass')}")
    click.echo(f"  {texts.style(texts.say('demo.status-note'), 'dim')}")
    return good


# --- 2 and 3: the probe ---------------------------------------------------------------------------------------------------


def _probed(cluster: Cluster, texts: Texts, *, announced: bool) -> tuple[Result, str]:
    from checklistbot.probe.run import Options, Probe
    from checklistbot.probe.wire import HttpTransport
    from checklistbot.simulator.server import Running

    def notify(event: str, data: dict[str, Any]) -> None:
        if event == "announce" and announced:
            click.echo(f"  {texts.style('!', 'inconclusive')} {texts.say('announce.over', data['length'])}")
        elif event == "phase" and data["name"] in ("baseline", "below", "over"):
            click.echo(f"  {texts.style('…', 'dim')} {texts.say('demo.' + data['name'])}")

    with Running(cluster) as running:
        transport = HttpTransport(running.url, "127.0.0.1")
        # Nobody else is on a server that was started a moment ago.
        options = Options(key=_KEY, seed=7, watch_seconds=0, budget=50_000_000)
        try:
            return Probe(transport, options, notify).run(), running.url
        finally:
            transport.close()


def _act_two(texts: Texts, cluster: Cluster) -> bool:
    from checklistbot.probe.text import render

    _heading(texts, "demo.act2")
    result, url = _probed(cluster, texts, announced=True)
    click.echo("")
    for line in render(result, texts, url=url, bound=True).splitlines():
        click.echo(f"  {line}")
    click.echo("")
    for line in _inside(texts, result, cluster):
        click.echo(f"  {line}")
    return result.summary.verdict == "fail" and "FAIL_LEAK" in result.summary.counts


def _inside(texts: Texts, result: Result, cluster: Cluster) -> Iterator[str]:
    """Whose canary came back where, and which pages it lay in: the simulator's own record, which no client could see."""
    for case in result.run.cases:
        # Words or numbers: both are canaries that were planted as that tenant.
        named = (name for o in case.opinions if o.strength == "fail" for name in o.canaries)
        owner = next((name for name in named if name.startswith("t")), None)
        if owner is not None:
            yield texts.style(texts.say("demo.whose", owner, case.length), "fail")
            break
    stub = next((entry for entry in reversed(cluster.trace) if entry["stub"]), None)
    if stub is None:
        return
    names = _tenants(result, cluster)
    owners: Counter[str] = Counter()
    for request, pages in stub["stale_pages_of"].items():
        owners[names.get(request, request)] += pages
    yield ""
    yield texts.say("demo.pages", stub["pages_reserved"], stub["pages_sent"])
    yield from _picture(texts, owners, stub["pages_reserved"] - stub["pages_sent"])


def _picture(texts: Texts, owners: Counter[str], stale: int) -> Iterator[str]:
    """The pages that decode read: the placeholder's, then whose text the others still held, each in its share of a bar."""
    ranked = [(name, pages) for name, pages in owners.most_common() if pages * _CELLS >= stale]
    bar = "".join(
        texts.style("▓▒"[number % 2] * round(pages * _CELLS / stale), "fail")
        for number, (name, pages) in enumerate(ranked)
    )
    yield f"  {texts.style('█', 'pass')}{bar}"
    yield f"  {texts.style(texts.say('demo.placeholder'), 'pass')}  {texts.style(texts.say('demo.stale', stale), 'fail')}"
    yield texts.style(f"  {' · '.join(f'{name} {pages:,}' for name, pages in ranked)}", "dim")


def _tenants(result: Result, cluster: Cluster) -> dict[str, str]:
    """The server's request ids → the probe's names of the prompts, by the tag words with which each prompt begins."""
    tags = {}
    for case in result.run.cases:
        words = case.prompt.pieces[0][0].split(".")[0].rsplit(" ", 4)[1:]
        tags[" ".join(words)] = case.prompt.id
    found = {}
    for entry in cluster.trace:
        name = next((name for tag, name in tags.items() if tag in entry["opening"]), None)
        if name is not None:
            found[entry["request"]] = name
    return found


def _act_three(texts: Texts, cluster: Cluster) -> bool:
    _heading(texts, "demo.act3")
    result, _ = _probed(cluster, texts, announced=False)
    verdict = result.summary.verdict
    click.echo(f"\n  {texts.style(texts.say(f'verdict.{verdict}'), verdict)}  sglang {cluster.settings.version}")
    click.echo(f"  {texts.say('demo.fixed', result.summary.counts.get('PASS_REJECT', 0))}")
    if result.summary.upper_bound is not None:
        click.echo(
            f"  {texts.style(texts.say('line.upper', result.summary.judged, f'{result.summary.upper_bound:.1%}'), 'dim')}"
        )
    return verdict == "pass"
