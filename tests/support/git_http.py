"""A Git server on loopback: the smart HTTP protocol through ``git http-backend``, requests remembered."""

from __future__ import annotations

import os
import subprocess
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from urllib.parse import urlsplit


@dataclass
class GitServer:
    """Serves the bare repositories below ``root`` at ``url``; ``authorization`` holds the headers of every request."""

    root: Path
    authorization: list[list[str]] = field(default_factory=list)

    def __enter__(self) -> GitServer:
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.authorization.append(self.headers.get_all("Authorization") or [])
                _run_backend(self, outer.root)

            do_POST = do_GET

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"


def _run_backend(handler: BaseHTTPRequestHandler, root: Path) -> None:
    """One CGI call: the request as environment and standard input, status and headers before the body as answer."""
    parts = urlsplit(handler.path)
    body = handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
    environment = {
        "PATH": os.environ["PATH"],
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_HTTP_EXPORT_ALL": "1",
        "GIT_PROJECT_ROOT": str(root),
        "GIT_PROTOCOL": handler.headers.get("Git-Protocol", ""),
        "HTTP_CONTENT_ENCODING": handler.headers.get("Content-Encoding", ""),
        "CONTENT_LENGTH": str(len(body)),
        "CONTENT_TYPE": handler.headers.get("Content-Type", ""),
        "PATH_INFO": parts.path,
        "QUERY_STRING": parts.query,
        "REMOTE_ADDR": "127.0.0.1",
        "REQUEST_METHOD": handler.command,
    }
    done = subprocess.run(["git", "http-backend"], input=body, env=environment, capture_output=True, check=False)
    head, _, content = done.stdout.partition(b"\r\n\r\n")
    fields = [line.split(": ", 1) for line in head.decode("latin-1").split("\r\n") if ": " in line]
    status = next((value for name, value in fields if name == "Status"), "200 OK")
    handler.send_response(int(status.split()[0]))
    for name, value in fields:
        if name != "Status":
            handler.send_header(name, value)
    handler.send_header("Content-Length", str(len(content)))
    handler.end_headers()
    handler.wfile.write(content)
