"""A Python package index on loopback that serves a folder of wheels (the simple repository API, HTML)."""

from __future__ import annotations

import html
import re
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from urllib.parse import unquote


def _project(filename: str) -> str:
    return re.sub(r"[-_.]+", "-", filename.split("-")[0]).lower()


@dataclass
class PackageIndex:
    """Serves ``folder`` at ``url``; ``requests`` holds the paths that were asked for, ``authorization`` the credentials."""

    folder: Path
    requests: list[str] = field(default_factory=list)
    authorization: list[str] = field(default_factory=list)

    def __enter__(self) -> PackageIndex:
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.requests.append(self.path)
                outer.authorization += self.headers.get_all("Authorization") or []
                body, kind = outer.answer(unquote(self.path))
                self.send_response(200 if body is not None else 404)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body or b"")))
                self.end_headers()
                self.wfile.write(body or b"")

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
        return f"http://127.0.0.1:{self._server.server_port}/simple"

    def answer(self, path: str) -> tuple[bytes | None, str]:
        """Body and content type of one path, body None where there is nothing."""
        files = {file.name: file for file in self.folder.iterdir()}
        if path.startswith("/files/"):
            file = files.get(path.removeprefix("/files/"))
            return (file.read_bytes() if file else None), "application/octet-stream"
        project = path.removeprefix("/simple/").strip("/")
        links = [f'<a href="/files/{html.escape(n)}">{html.escape(n)}</a>' for n in files if _project(n) == project]
        return ("\n".join(links).encode() if links else None), "text/html"
