"""How calls reach the endpoint. The runner knows only ``Transport``; tests play the simulator through one of their own."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import field
from typing import Any, Final, Protocol

from checklistbot.model import UsageError
from checklistbot.probe.prompts import Body
from checklistbot.record import mutable_record, record

MAX_ANSWER: Final = 8 << 20
#: Bytes and pieces of all answers of a run together: an endpoint that sends without end fills neither memory nor time.
MAX_RUN: Final = 256 << 20
_PIECES: Final = 100_000
CONNECT_SECONDS: Final = 10.0


@record
class Call:
    method: str
    path: str
    body: Body | bytes | None = None
    deadline: float = 60.0


@mutable_record
class Answer:
    """What came back. Times are seconds after the call began; ``error`` is timeout, cut, connect or too-big."""

    status: int = 0
    content_type: str = ""
    chunks: list[tuple[float, bytes]] = field(default_factory=list)
    error: str | None = None
    seconds: float = 0.0

    @property
    def body(self) -> bytes:
        return b"".join(data for _, data in self.chunks)

    def json(self) -> Any:
        """The body as JSON, None where it is none."""
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            return None


class Transport(Protocol):
    def send(self, calls: Sequence[Call], concurrency: int = 1) -> list[Answer]:
        """The answers in the order of the calls, at most ``concurrency`` calls at a time. Never repeats one."""

    def sleep(self, seconds: float) -> None: ...

    def close(self) -> None: ...


class HttpTransport:
    """The SDKs' own transport (httpx2): no redirects, no proxy of the environment, no retries, the body streamed.

    ``address`` is the resolved IP that every connection goes to, so that a name cannot change under the run.
    """

    def __init__(self, url: str, address: str, *, authorization: str | None = None) -> None:
        import httpx2

        self._httpx = httpx2
        base = httpx2.URL(url)
        self._host = base.host
        headers = {"Host": base.netloc.decode(), "User-Agent": "checklistbot-probe", "Accept-Encoding": "identity"}
        if authorization:
            headers["Authorization"] = authorization
        limits = httpx2.Limits(max_connections=128, max_keepalive_connections=0)
        self._client = httpx2.Client(headers=headers, follow_redirects=False, trust_env=False, limits=limits)
        self._base = base.copy_with(host=address)
        # People give the SDKs' base URL, which ends in /v1.
        self._prefix = base.path.rstrip("/").removesuffix("/v1")
        self._received = 0

    def send(self, calls: Sequence[Call], concurrency: int = 1) -> list[Answer]:
        answers = [Answer() for _ in calls]
        waiting = iter(range(len(calls)))
        lock = threading.Lock()

        def work() -> None:
            while True:
                with lock:
                    index = next(waiting, None)
                if index is None:
                    return
                self._one(calls[index], answers[index])

        # Daemon threads: an interrupted run must not wait for a server that hangs.
        threads = [threading.Thread(target=work, daemon=True) for _ in range(min(concurrency, len(calls)))]
        for thread in threads:
            thread.start()
        for thread in threads:
            while thread.is_alive():
                thread.join(0.2)
        return answers

    def _one(self, call: Call, answer: Answer) -> None:
        begun = time.monotonic()
        try:
            self._stream(call, answer, begun)
        except self._httpx.TimeoutException:
            answer.error = "timeout" if time.monotonic() - begun >= CONNECT_SECONDS or answer.status else "connect"
        except self._httpx.HTTPError:
            answer.error = "cut" if answer.status else "connect"
        finally:
            answer.seconds = time.monotonic() - begun

    def _stream(self, call: Call, answer: Answer, begun: float) -> None:
        headers = {"Content-Type": "application/json"}
        content: Iterable[bytes] | bytes | None = call.body
        if isinstance(call.body, Body):
            headers["Content-Length"] = str(call.body.length)
        timeout = self._httpx.Timeout(call.deadline, connect=min(CONNECT_SECONDS, call.deadline))
        url = self._base.copy_with(raw_path=(self._prefix + call.path).encode())
        extensions = {"sni_hostname": self._host}
        size = 0
        with self._client.stream(
            call.method, url, content=content, headers=headers, timeout=timeout, extensions=extensions
        ) as response:
            answer.status = response.status_code
            answer.content_type = response.headers.get("content-type", "")
            for data in response.iter_raw():
                now = time.monotonic() - begun
                answer.chunks.append((now, data))
                size += len(data)
                self._received += len(data)
                big = size > MAX_ANSWER or self._received > MAX_RUN or len(answer.chunks) > _PIECES
                if now > call.deadline or big:
                    answer.error = "too-big" if big else "timeout"
                    return

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def close(self) -> None:
        self._client.close()


def parse_url(url: str) -> tuple[str, str, int]:
    """Scheme, host and port of an http(s) URL without credentials; raises UsageError otherwise."""
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:
        raise UsageError("URL: is no valid address; give http://HOST:PORT") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError("URL: must begin with http:// or https:// and name a host")
    if parts.username or parts.password:
        raise UsageError("URL: holds credentials; put them into CHECKLISTBOT_ENDPOINT_AUTH")
    return parts.scheme, parts.hostname, port
