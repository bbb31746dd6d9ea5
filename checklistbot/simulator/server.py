"""The simulator on a socket: one thread a connection, real sleeping, loopback unless told otherwise."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final

from checklistbot.model import InputError
from checklistbot.simulator.api import MAX_BODY, App, Served
from checklistbot.simulator.engine import Cluster

_READ: Final = 1 << 20


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], app: App, lock: threading.Lock) -> None:
        self.app = app
        self.lock = lock
        super().__init__(address, _Handler)

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that went away is no error of the server."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        self._answer("GET", b"")

    def do_POST(self) -> None:
        body = self._body()
        if body is not None:
            self._answer("POST", body)

    def _body(self) -> bytes | None:
        if "chunked" in self.headers.get("Transfer-Encoding", "").lower():
            return self._chunked_body()
        length = self.headers.get("Content-Length", "")
        if not length.isdigit() or int(length) > MAX_BODY:
            self.close_connection = True
            self.send_error(411 if not length.isdigit() else 413)
            return None
        return self.rfile.read(int(length))

    def _chunked_body(self) -> bytes | None:
        parts, total = list[bytes](), 0
        while size := int(self.rfile.readline(64).split(b";")[0] or b"0", 16):
            total += size
            if total > MAX_BODY:
                self.close_connection = True
                self.send_error(413)
                return None
            parts.append(self.rfile.read(size))
            self.rfile.readline(8)
        while self.rfile.readline(1024).strip():
            pass
        return b"".join(parts)

    def _answer(self, method: str, body: bytes) -> None:
        with self.server.lock:
            served = self.server.app.handle(method, self.path, body)
        del body
        try:
            self._send(served)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True
        finally:
            close = getattr(served.chunks, "close", None)
            if close is not None:
                with self.server.lock:
                    close()

    def _send(self, served: Served) -> None:
        started = False
        for wait, data in self._timed(served):
            self._sleep(wait)
            if data == b"":
                continue
            if not started:
                self.send_response(served.status)
                self.send_header("Content-Type", served.content_type)
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                started = True
            if data is None:
                self.close_connection = True
                self.wfile.flush()
                return
            self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))
        self.wfile.write(b"0\r\n\r\n")

    def _timed(self, served: Served) -> Iterator[tuple[float, bytes | None]]:
        """The next chunk is made under the lock, the waiting is not."""
        while True:
            with self.server.lock:
                entry = next(served.chunks, None)
            if entry is None:
                return
            yield entry

    def _sleep(self, seconds: float) -> None:
        """Sleep; for ever means until the client is gone or the server ends."""
        if seconds == float("inf"):
            self.connection.settimeout(1.0)
            while not getattr(self.server, "_BaseServer__shutdown_request", False):
                with contextlib.suppress(TimeoutError):
                    if not self.rfile.read(1):
                        raise BrokenPipeError
            raise BrokenPipeError
        if seconds > 0:
            time.sleep(seconds)


class Running:
    """A running simulator; ``urls`` by face. Use it as a context manager."""

    def __init__(self, cluster: Cluster, *, host: str = "127.0.0.1", port: int = 0, workers: bool = False) -> None:
        """Binds now; port 0 takes a free one; with ``workers`` the prefill and decode workers get the two ports after it.

        Raises InputError where a port is taken.
        """
        lock = threading.Lock()
        self.cluster = cluster
        self._servers: dict[str, _Server] = {}
        faces = ("router", "prefill", "decode") if workers and cluster.settings.disaggregated else ("router",)
        for number, face in enumerate(faces):
            try:
                server = _Server((host, port + number if port else 0), App(cluster, face), lock)  # type: ignore[arg-type]
            except OSError as error:
                self.close()
                raise InputError(
                    f"port {port + number} of {host} cannot be used ({error.strerror}); give another --port"
                ) from None
            self._servers[face] = server
        self.urls = {face: f"http://{host}:{server.server_address[1]}" for face, server in self._servers.items()}

    @property
    def url(self) -> str:
        return self.urls["router"]

    def __enter__(self) -> Running:
        for server in self._servers.values():
            threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        for server in self._servers.values():
            server.shutdown()
        self.close()

    def close(self) -> None:
        for server in self._servers.values():
            server.server_close()
