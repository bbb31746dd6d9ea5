"""A loopback server that speaks both wire formats (aimock), a rude one of our own, and facts to draft from."""

from __future__ import annotations

import json
import socket
import subprocess
import threading
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import date
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from checklistbot import rules
from checklistbot.config import Config
from checklistbot.model import Check, Facts
from checklistbot.retry import Clock, Deadline

DATA = Path(__file__).parent.parent / "data"


class FakeTime:
    """A clock whose sleeps take no time but count."""

    def __init__(self) -> None:
        self.at = 0.0
        self.slept: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.at += seconds

    def deadline(self, seconds: float = 300.0) -> Deadline:
        return Deadline(seconds, Clock(lambda: self.at, lambda: 0.0, self.sleep, lambda: 0.5))


@pytest.fixture
def time_() -> FakeTime:
    return FakeTime()


@pytest.fixture(scope="session")
def facts() -> Facts:
    return Facts.from_json(json.loads((DATA / "checklist-facts.json").read_text("utf-8")))


@pytest.fixture(scope="session")
def check(facts: Facts) -> Check:
    return rules.evaluate(facts, Config(), today=date(2026, 11, 30))


def item(topic: str, *deployments: str, **changes: Any) -> dict[str, Any]:
    """One item as a well-behaved model writes it."""
    return {
        "topic": topic,
        "deployments": list(deployments),
        "severity": "required",
        "title": f"model's {topic}",
        "why": "so that nothing leaks",
        "steps": ["read the number", "compare it"],
        "commands": [],
        "pass_when": "the number is large enough",
        "owner": "SRE",
        "when": "before-deploy",
        "automation": None,
        **changes,
    }


@pytest.fixture(scope="session")
def make_item() -> Callable[..., dict[str, Any]]:
    return item


@pytest.fixture(scope="session")
def good_answer() -> str:
    topics = ("pool-against-context", "limit-length-content", "canary-leak", "engine-version", "isolation")
    return json.dumps({"items": [item(topic, "d1", "d2", "d3") for topic in topics]})


# --- aimock ------------------------------------------------------------------------------------------------------------


@dataclass
class Mock:
    url: str

    def _call(self, method: str, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.url}{path}", data, {"content-type": "application/json"}, method=method)
        with urllib.request.urlopen(request, timeout=10) as response:
            return json.loads(response.read() or b"null")

    def reset(self) -> None:
        self._call("POST", "/__aimock/reset")
        self._call("DELETE", "/__aimock/chaos")

    def answers(self, *responses: dict[str, Any]) -> None:
        """The n-th request gets the n-th response."""
        fixtures = [{"match": {"sequenceIndex": n}, "response": r} for n, r in enumerate(responses)]
        self._call("POST", "/__aimock/fixtures", {"fixtures": fixtures})

    def stall(self) -> None:
        """Every answer takes far longer than any test waits."""
        self._call("POST", "/__aimock/chaos", {"latencyMs": 30_000})

    def journal(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._call("GET", "/__aimock/journal")
        return [entry for entry in found if "__aimock" not in entry["path"]]


@pytest.fixture(scope="session")
def _mock_server(tool: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mock]:
    fixtures = tmp_path_factory.mktemp("aimock") / "none.json"
    fixtures.write_text('{"fixtures": [{"match": {"model": "never"}, "response": {"content": "x"}}]}')
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [tool("node"), tool("npm:@copilotkit/aimock") / "dist" / "cli.js", "-p", str(port), "-f", fixtures]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if "listening" in line.lower() or f":{port}" in line:
                break
        drain = threading.Thread(target=process.stdout.read, daemon=True)
        drain.start()
        yield Mock(f"http://127.0.0.1:{port}")
        process.terminate()
        drain.join()


@pytest.fixture
def mock(_mock_server: Mock) -> Mock:
    _mock_server.reset()
    return _mock_server


# --- a server that does what aimock does not ---------------------------------------------------------------------------


@dataclass
class Rude:
    """Answers each POST with what the test put in, in order; the last one again and again."""

    url: str = ""
    replies: list[tuple[int, dict[str, str], bytes]] = field(default_factory=list)
    seen: list[tuple[str, dict[str, str], Any]] = field(default_factory=list)

    def reply(self, status: int, body: Any, **headers: str) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.replies.append((status, {k.replace("_", "-"): v for k, v in headers.items()}, data))


@pytest.fixture
def rude() -> Iterator[Rude]:
    state = Rude()

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *args: Any) -> None:
            pass

        def _serve(self) -> None:
            length = int(self.headers.get("content-length") or 0)
            raw = self.rfile.read(length)
            state.seen.append((self.path, {k.lower(): v for k, v in self.headers.items()}, json.loads(raw or b"null")))
            status, headers, body = state.replies.pop(0) if len(state.replies) > 1 else state.replies[0]
            self.send_response(status)
            for name, value in {"content-type": "application/json", **headers}.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = _serve

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        state.url = f"http://127.0.0.1:{server.server_port}"
        yield state
        server.shutdown()
        thread.join()
