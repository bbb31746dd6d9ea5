"""A GitLab on loopback, as far as one merge request's notes go. Stateful; every request is remembered."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

_NOTES = re.compile(r"/api/v4/projects/(?:42|acme%2Fserving)/merge_requests/7/notes(?:/(\d+))?")


@dataclass
class FakeGitLab:
    """``faults``: (method, status, after) taken one by one; ``after`` answers so although the request took effect."""

    url: str = ""
    head: str = "a" * 40
    user: int = 11
    page: int = 2
    notes: list[dict[str, Any]] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)
    tokens: set[str] = field(default_factory=set)
    faults: list[tuple[str, int, bool]] = field(default_factory=list)
    next_id: int = 100

    def put(self, body: str, author: int | None = None) -> dict[str, Any]:
        self.next_id += 1
        note = {"id": self.next_id, "body": body, "author": {"id": author or self.user}, "system": False}
        self.notes.append(note)
        return note

    def answer(self, method: str, address: str, body: Any) -> tuple[int, Any, dict[str, str]]:
        parts = urlsplit(address)
        fault = next((entry for entry in self.faults if entry[0] == method), None)
        if fault is not None:
            self.faults.remove(fault)
            if not fault[2]:
                return fault[1], {"message": "secret text of the server"}, {"Retry-After": "0"}
        status, value, headers = self.perform(method, parts.path, parse_qs(parts.query), body)
        return (fault[1], {}, {"Retry-After": "0"}) if fault is not None else (status, value, headers)

    def perform(
        self, method: str, path: str, query: dict[str, list[str]], body: Any
    ) -> tuple[int, Any, dict[str, str]]:
        if path == "/api/v4/user":
            return 200, {"id": self.user, "username": "project_42_bot"}, {}
        if path.endswith("/merge_requests/7"):
            return 200, {"iid": 7, "sha": self.head}, {}
        found = _NOTES.fullmatch(path)
        if found is None:
            return 404, {"message": "404 Not Found"}, {}
        if method == "GET":
            page = int(query["page"][0])
            part = self.notes[(page - 1) * self.page : page * self.page]
            more = page * self.page < len(self.notes)
            return 200, part, {"X-Next-Page": str(page + 1) if more else ""}
        if method == "POST":
            return 201, self.put(body["body"]), {}
        note = next((entry for entry in self.notes if str(entry["id"]) == found[1]), None)
        if note is None:
            return 404, {"message": "404 Not Found"}, {}
        if method == "DELETE":
            self.notes.remove(note)
            return 204, None, {}
        note["body"] = body["body"]
        return 200, note, {}


@contextmanager
def serving() -> Iterator[FakeGitLab]:
    """A running server, stopped at the end."""
    gitlab, lock = FakeGitLab(), threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            with lock:
                gitlab.calls.append(self.command)
                gitlab.tokens.add(self.headers.get("PRIVATE-TOKEN", ""))
                status, value, headers = gitlab.answer(self.command, self.path, json.loads(raw) if raw else None)
            content = b"" if value is None else json.dumps(value).encode()
            self.send_response(status)
            for name, text in {**headers, "Content-Length": str(len(content))}.items():
                self.send_header(name, text)
            self.end_headers()
            self.wfile.write(content)

        do_POST = do_PUT = do_DELETE = do_GET

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    gitlab.url = f"http://127.0.0.1:{server.server_port}/api/v4"
    try:
        yield gitlab
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)
