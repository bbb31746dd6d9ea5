"""The simulator as a transport of the probe, without sockets and without waiting: same seed, same run."""

from __future__ import annotations

from collections.abc import Sequence

from checklistbot.probe.wire import Answer, Call
from checklistbot.simulator.api import App
from checklistbot.simulator.direct import Direct
from checklistbot.simulator.engine import Cluster, Settings

#: The incident's proportions at 1:128, page 16.
SMALL = Settings(
    context=8_192, prefill_pool=5_328, decode_pool=9_216, page_size=16, chunk=1_024, prefill_speed=20_000.0,
    decode_speed=500.0, proxy_bytes=16_000,
)  # fmt: skip


class DirectTransport:
    """``hidden`` paths answer 404, as routers that do not pass them on."""

    def __init__(self, settings: Settings = SMALL, *, hidden: tuple[str, ...] = ()) -> None:
        self.cluster = Cluster(settings)
        self.direct = Direct(App(self.cluster))
        self.hidden = hidden
        self.sent: list[Call] = []

    def send(self, calls: Sequence[Call], concurrency: int = 1) -> list[Answer]:
        self.sent += calls
        if calls and calls[0].path in self.hidden:
            return [Answer(404, "application/json") for _ in calls]
        raw = [(c.method, c.path, c.body if isinstance(c.body, bytes) else b"".join(c.body or ())) for c in calls]
        deadline = max(call.deadline for call in calls)
        played = self.direct.play(raw, deadline=deadline, concurrency=concurrency)
        return [
            Answer(0 if p.error == "timeout" and not p.chunks else p.status, p.content_type, p.chunks, p.error,
                   p.chunks[-1][0] if p.chunks else deadline)
            for p in played
        ]  # fmt: skip

    def sleep(self, seconds: float) -> None:
        self.direct.now += seconds

    def close(self) -> None:
        pass
