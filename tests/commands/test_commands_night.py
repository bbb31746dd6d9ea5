"""triage and snapshot as commands: exit codes, what is printed, what never is."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import jsonschema
import pytest

from checklistbot import cli
from checklistbot.observation.facts_file import read_facts_file
from checklistbot.report import schema

LOG = (
    "[2026-09-01 00:00:01] server_args=ServerArgs(model_path='acme/Otter', disaggregation_mode='prefill', page_size=64)\n"
    "[2026-09-01 00:01:00 TP0] max_total_num_tokens=681280, chunked_prefill_size=1, context_len=1048576\n"
    "[2026-09-01 03:00:00 TP0] Input length (700000 tokens) exceeds the maximum allowed length (681274 tokens). "
    "Use a shorter input or enable --allow-auto-truncate., self.rid='abc1'\n"
    "[2026-09-01 03:01:00 TP0] KV checksum mismatch req=abc2 room=3 SECRET WORDS\n"
)
ANSWERS = {
    "/v1/models": {"data": [{"id": "otter", "owned_by": "sglang", "root": "otter", "max_model_len": 1048576}]},
    "/server_info": {
        "model_path": "acme/Otter", "served_model_name": "otter", "page_size": 64, "tp_size": 8, "version": "0.5.19",
        "disaggregation_mode": "prefill", "max_total_num_tokens": 681280, "max_req_input_len": 681274,
    },
}  # fmt: skip


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        answer = ANSWERS.get(self.path)
        self.send_response(200 if answer else 404)
        self.end_headers()
        with suppress(OSError):
            self.wfile.write(json.dumps(answer or {}).encode())

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def worker() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


@pytest.fixture
def log(tmp_path: Path) -> str:
    path = tmp_path / "prefill.log"
    path.write_text(LOG)
    return str(path)


def dead(unused_tcp_port: int = 1) -> str:
    """Nobody listens on port 1 of loopback."""
    return f"http://127.0.0.1:{unused_tcp_port}"


def test_triage_lists_requests_and_never_a_text(log: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["triage", "--log", log]) == 1
    out = capsys.readouterr().out
    assert "2 requests may have been answered" in out
    assert "abc1" in out
    assert "700,000" in out
    assert "681,273 tokens in the gateway" in out
    assert "SECRET" not in out
    assert "unknown" in out


def test_triage_in_korean(log: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["triage", "--log", log, "--lang", "ko"]) == 1
    out = capsys.readouterr().out
    assert "요청 2건" in out
    assert "게이트웨이" in out


def test_triage_as_json_is_of_its_schema(log: str, worker: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["triage", "--log", log, "--endpoint", worker, "--format", "json"]) == 1
    out = capsys.readouterr().out
    data = json.loads(out)
    jsonschema.Draft202012Validator(schema.bundle("triage")).validate(data)
    assert (data["verdict"], data["total"], data["lengths"]) == ("vulnerable", 2, [700000, 700000])
    assert "SECRET" not in out


def test_triage_of_a_quiet_night(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "quiet.log"
    path.write_text(LOG.partition("[2026-09-01 03")[0] + "[2026-09-01 00:02:00 TP0] Prefill batch, #new-seq: 1\n")
    assert cli.main(["triage", "--log", str(path)]) == 0
    assert f"No trace of foreign text in {path}." in capsys.readouterr().out


@pytest.mark.parametrize("text", [None, "", "2026 nginx started\n", LOG.partition("[2026-09-01 03")[0]])
def test_triage_reassures_about_nothing_that_it_did_not_judge(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str | None
) -> None:
    path = tmp_path / "other.log"
    if text is not None:
        path.write_text(text)
    assert cli.main(["triage", "--log", str(path)]) == 3
    shown = capsys.readouterr()
    assert "No trace" not in shown.out
    assert "Nothing to judge" in shown.out
    assert str(path) in shown.err


@pytest.mark.parametrize("language", ["en", "ko"])
def test_triage_writes_flags_as_a_shell_reads_them(log: str, capsys: pytest.CaptureFixture[str], language: str) -> None:
    assert cli.main(["triage", "--log", log, "--lang", language]) == 1
    assert "--context-length 680704" in capsys.readouterr().out


def test_triage_reads_the_logs_that_it_can(log: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["triage", "--log", "/no/such.log", "--log", log]) == 1
    shown = capsys.readouterr()
    assert "/no/such.log" in shown.err
    assert "abc1" in shown.out
    assert cli.main(["triage", "--log", "/no/such.log"]) == 3
    assert cli.main(["triage"]) == 2


def test_a_quiet_log_and_a_silent_worker_are_not_a_clean_bill(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "quiet.log"
    path.write_text(LOG.partition("[2026-09-01 03")[0])
    assert cli.main(["triage", "--log", str(path), "--endpoint", dead()]) == 3
    assert "no answer" in capsys.readouterr().err


def test_a_snapshot_is_dated_facts_that_observed_takes(
    worker: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHECKLISTBOT_NOW", "2026-11-30T12:00:00Z")
    target = tmp_path / "facts.json"
    assert cli.main(["snapshot", "--endpoint", worker, "--output", str(target)]) == 0
    data = json.loads(target.read_text())
    jsonschema.Draft202012Validator(schema.bundle("facts")).validate(data)
    assert data["taken"] == "2026-11-30T12:00:00Z"
    facts = read_facts_file(str(target))
    assert facts.taken == "2026-11-30T12:00:00Z"
    assert [d.kv_pool_tokens.value for d in facts.deployments] == [681280]


def test_a_snapshot_says_which_worker_was_silent(worker: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["snapshot", "--endpoint", worker, "--endpoint", dead()]) == 3
    shown = capsys.readouterr()
    data = json.loads(shown.out)
    assert [entry["path"] for entry in data["skipped"]] == [dead()]
    assert "no answer" in data["skipped"][0]["reason"]
    assert dead() in shown.err


def test_a_snapshot_of_nobody_overwrites_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "facts.json"
    target.write_text("earlier")
    assert cli.main(["snapshot", "--endpoint", dead(), "--output", str(target)]) == 3
    assert target.read_text() == "earlier"
    assert len(capsys.readouterr().err.splitlines()) == 1
