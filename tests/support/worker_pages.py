"""A worker's HTTP pages, for scripts that ask them."""

from __future__ import annotations

from http.server import BaseHTTPRequestHandler
from typing import Any, ClassVar


class WorkerPages(BaseHTTPRequestHandler):
    """Answers GET with ``pages`` (path → body), anything else with 404; ``seen`` holds each path with its Authorization.

    Tests make a subclass of their own, so that they share nothing.
    """

    pages: ClassVar[dict[str, str]] = {}
    seen: ClassVar[list[tuple[str, str | None]]] = []

    def do_GET(self) -> None:
        type(self).seen.append((self.path, self.headers.get("Authorization")))
        page = type(self).pages.get(self.path)
        body = (page or "").encode()
        self.send_response(200 if page is not None else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: Any) -> None:
        pass
