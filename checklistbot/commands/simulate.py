"""``checklistbot simulate``: the paged-KV server with switchable faults."""

from __future__ import annotations

import click

from checklistbot.commands import _options as shared
from checklistbot.model import UsageError


@click.command(
    "simulate",
    short_help="Run a paged-KV LLM server with switchable faults, to test gateways and probes.",
    epilog=shared.epilog(
        "checklistbot simulate --fault stub-handoff --port 8200",
        "checklistbot simulate --unified --context 8192 --pool 5328",
        "checklistbot simulate --list",
    ),
)
@click.option(
    "--fault", "faults", multiple=True, metavar="NAME", help="Switch a fault on (repeatable; --list names them)."
)
@click.option("--list", "listed", is_flag=True, help="Print the faults and exit.")
@click.option("--port", type=click.IntRange(0, 65_533), default=8_200, show_default=True, help="0 takes a free one.")
@click.option(
    "--host", default="127.0.0.1", show_default=True, help="Address to bind; loopback unless you say otherwise."
)
@click.option(
    "--workers", is_flag=True, help="Also serve the prefill and decode workers, on the two ports after --port."
)
@click.option("--unified", is_flag=True, help="One server instead of prefill and decode.")
@click.option(
    "--context",
    type=click.IntRange(64, 1 << 24),
    default=1_048_576,
    show_default=True,
    help="Context length in tokens.",
)
@click.option(
    "--pool", type=click.IntRange(64, 1 << 24), default=681_280, show_default=True, help="Prefill KV pool in tokens."
)
@click.option(
    "--decode-pool",
    type=click.IntRange(64, 1 << 24),
    default=1_114_112,
    show_default=True,
    help="Decode KV pool in tokens.",
)
@click.option("--page-size", type=click.IntRange(1, 4_096), default=64, show_default=True)
@click.option(
    "--chunk", type=click.IntRange(16, 1 << 20), default=8_192, show_default=True, help="Prefill chunk in tokens."
)
@click.option(
    "--prefill-speed", type=click.FloatRange(1), default=400_000.0, show_default=True, help="Tokens per second."
)
@click.option("--decode-speed", type=click.FloatRange(1), default=2_000.0, show_default=True, help="Tokens per second.")
@click.option(
    "--order",
    type=click.Choice(["lifo", "fifo", "shuffled"]),
    default="lifo",
    show_default=True,
    help="Which free pages are given next.",
)
@click.option("--seed", type=int, default=0, show_default=True)
@shared.common
def command(
    settings: shared.Settings, faults: tuple[str, ...], listed: bool, port: int, host: str, workers: bool, unified: bool,
    context: int, pool: int, decode_pool: int, page_size: int, chunk: int, prefill_speed: float, decode_speed: float,
    order: str, seed: int,
) -> int:  # fmt: skip
    """Serve the OpenAI API from a simulated engine whose KV pages are not zeroed, until Ctrl-C.

    The defaults are the incident's sizes. The "model" answers only from the KV slots it can see.
    """
    import contextlib
    import signal
    import threading

    from checklistbot.simulator.engine import Cluster, Settings
    from checklistbot.simulator.faults import FAULTS
    from checklistbot.simulator.server import Running

    if listed:
        for fault in FAULTS.values():
            click.echo(
                f"{fault.name:20} {fault.number:>4}  {fault.text}{'  (no fault: must stay green)' if fault.twin else ''}"
            )
        return 0
    if min(pool, decode_pool) < 2 * page_size:
        raise UsageError("--pool and --decode-pool must hold at least two pages")
    made = Settings(
        context, pool, decode_pool, page_size, chunk, prefill_speed, decode_speed, disaggregated=not unified,
        order=order, seed=seed, faults=faults,  # type: ignore[arg-type]
    )  # fmt: skip
    ended = threading.Event()
    with Running(Cluster(made), host=host, port=port, workers=workers) as running:
        for face, url in running.urls.items():
            click.echo(f"{'unified' if unified else face:8} {url}")
        if not settings.quiet:
            click.echo(
                f"first rejected length {made.prefill_limit} tokens; faults: {', '.join(faults) or 'none'}; Ctrl-C ends",
                err=True,
            )
        signal.signal(signal.SIGTERM, lambda *_: ended.set())
        with contextlib.suppress(KeyboardInterrupt):
            ended.wait()
    return 0
