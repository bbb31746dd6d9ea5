"""``checklistbot probe`` as a process against a simulator on a socket: exit codes, output, what is sent to whom."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import jsonschema
import pytest
from probe_direct import SMALL

from checklistbot import resources
from checklistbot.probe.keys import RunKey
from checklistbot.probe.prompts import Maker, body
from checklistbot.probe.wire import Call, HttpTransport
from checklistbot.simulator.engine import Cluster, Settings
from checklistbot.simulator.server import Running

QUICK = dataclasses.replace(SMALL, prefill_speed=60_000.0, decode_speed=20_000.0)


@pytest.fixture(scope="module")
def leaking() -> Iterator[str]:
    with Running(Cluster(dataclasses.replace(QUICK, faults=("stub-handoff",)))) as server:
        yield server.url


@pytest.fixture(scope="module")
def fixed() -> Iterator[str]:
    with Running(Cluster(QUICK)) as server:
        yield server.url


def run(
    *arguments: str, stdin: str = "", cwd: Path | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "checklistbot", "probe", *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        cwd=cwd or Path("/"),
        env={**os.environ, **environment},
    )
    assert "Traceback" not in done.stderr
    return done


OWN = ("--i-own-this-endpoint", "--watch", "0")


def test_the_incident_is_exit_1_and_valid_evidence(leaking: str, tmp_path: Path) -> None:
    target = tmp_path / "evidence.json"
    done = run(leaking, *OWN, "--format", "json", "--output", str(target), CHECKLISTBOT_PROBE_KEY="key")
    assert done.returncode == 1
    made = json.loads(target.read_text())
    jsonschema.Draft202012Validator(json.loads(resources.text("schemas", "evidence.json"))).validate(made)
    assert (made["verdict"], made["unbound"], made["started"]) == ("fail", True, "2026-11-30T12:00:00Z")
    assert "may stall the engine" in done.stderr


def test_the_fixed_version_is_exit_0_in_both_languages(fixed: str) -> None:
    done = run(fixed, *OWN)
    assert (done.returncode, done.stdout.startswith("PASS ")) == (0, True)
    done = run(fixed, *OWN, "--lang", "ko", "-q")
    assert (done.returncode, done.stdout.startswith("통과 "), done.stderr) == (0, True, "")


def test_a_plan_with_an_abort_storm_says_skip_and_is_exit_3(fixed: str) -> None:
    items = [
        {"id": "a", "automation": {"kind": "boundary-request", "at": "first-rejected", "offsets": [-1, 0]}},
        {"id": "storm", "automation": {"kind": "abort-storm", "requests": 4, "seconds": 4}},
    ]
    done = run(fixed, *OWN, "--plan", "-", "--format", "json", stdin=json.dumps({"schema": "plan/1", "items": items}))
    assert (done.returncode, "SKIP storm" in done.stderr) == (3, True)
    assert json.loads(done.stdout)["not_done"] == ["storm"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "--i-own-this-endpoint"),
        (("--i-own-this-endpoint", "--profile", "deep"), "only smoke is"),
        (("--i-own-this-endpoint", "--shard", "1/2"), "--shard is not there yet"),
        ((*OWN, "--facts", "/nothing.json"), "/nothing.json: cannot be read"),
        ((*OWN, "--budget-tokens", "1000"), "give --budget-tokens"),
    ],
)
def test_what_is_refused_is_one_line(fixed: str, arguments: tuple[str, ...], says: str) -> None:
    done = run(fixed, *arguments, "-q")
    assert done.returncode in (2, 3)
    assert (done.stderr.count("\n"), says in done.stderr) == (1, True)


def test_keep_text_is_refused_in_ci(fixed: str) -> None:
    done = run(fixed, *OWN, "--keep-text", CI="true")
    assert (done.returncode, "refused where CI=true" in done.stderr) == (2, True)


def test_kept_text_is_private_and_elsewhere(leaking: str, tmp_path: Path) -> None:
    done = run(leaking, *OWN, "--keep-text", "-q", cwd=tmp_path, HOME=str(tmp_path / "home"))
    path = Path(done.stderr.split(" are kept in ")[1].split(";")[0])
    assert path.is_relative_to(tmp_path / "home")
    assert path.stat().st_mode & 0o777 == 0o600
    # Whose text the pages still hold depends on the moment.
    texts = [reply["text"] for reply in json.loads(path.read_text("utf-8"))]
    assert texts
    assert not any(text in done.stdout + done.stderr for text in texts if text.strip())


def test_a_pull_requests_own_config_opens_no_public_host() -> None:
    from checklistbot.commands.probe import allowed_hosts
    from checklistbot.config import Config

    config = dataclasses.replace(Config(), probe_allow_hosts=("staging.example",))
    assert allowed_hosts(config, ("own.example",), {}) == ("staging.example", "own.example")
    for environ in ({"GITHUB_EVENT_NAME": "pull_request"}, {"CI_MERGE_REQUEST_IID": "7"}):
        assert allowed_hosts(config, ("own.example",), environ) == ("own.example",)


def test_merging_shards_is_not_there_yet() -> None:
    from click.testing import CliRunner

    from checklistbot.commands.probe import command

    done = CliRunner().invoke(command, ["merge", "one.json", "two.json"])
    assert "not there yet" in str(done.exception)


def test_all_replies_of_a_run_together_have_a_ceiling(fixed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("checklistbot.probe.wire.MAX_RUN", 100)
    transport = HttpTransport(fixed, "127.0.0.1")
    errors = [transport.send([Call("GET", "/server_info")])[0].error for _ in range(2)]
    transport.close()
    assert errors == ["too-big", "too-big"]


def test_nobody_there_is_one_line() -> None:
    done = run("http://127.0.0.1:9", *OWN, "-q")
    assert (done.returncode, done.stderr.count("\n")) == (3, 1)


def test_the_sdks_base_url_is_understood(leaking: str) -> None:
    done = run(f"{leaking}/v1/", *OWN, "--dry-run")
    assert "first rejected length 5,322" in done.stdout


def test_a_dry_run_sends_nothing(leaking: str) -> None:
    done = run(leaking, *OWN, "--dry-run")
    assert (done.returncode, "Nothing was sent" in done.stdout) == (0, True)


def test_redirects_are_not_followed(fixed: str) -> None:
    import http.server
    import threading

    class Redirect(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(307)
            self.send_header("Location", fixed + self.path)
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_POST = do_GET

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Redirect)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    done = run(f"http://127.0.0.1:{server.server_address[1]}", *OWN, "-q")
    server.shutdown()
    server.server_close()
    assert done.returncode == 3


# VmHWM, not ru_maxrss: that one survives exec, so a child of a fat test runner would report the runner's size.
_CLIENT = r"""
import re, sys
from checklistbot.probe.keys import RunKey
from checklistbot.probe.prompts import Maker, body
from checklistbot.probe.wire import Call, HttpTransport
from checklistbot.probe.reply import read
maker = Maker(RunKey.of("k", 0), lambda text: len(text.replace(".", " .").replace(",", " ,").split()))
maker.calibrate()
prompt = maker.needles(1_048_000, 8)
transport = HttpTransport(sys.argv[1], "127.0.0.1")
answer = transport.send([Call("POST", "/v1/completions", body(prompt, chat=False, options={"model": "m", "max_tokens": 4}), 100)])[0]
peak = re.search(r"VmHWM:\s+(\d+) kB", open("/proc/self/status").read())[1]
print(answer.status, read(answer).prompt_tokens, int(peak) // 1024)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak from /proc")
def test_a_million_tokens_leave_the_client_below_150_mb() -> None:
    settings = Settings(prefill_pool=1_114_112, prefill_speed=1e8)
    with Running(Cluster(settings)) as server:
        done = subprocess.run(
            [sys.executable, "-c", _CLIENT, server.url], capture_output=True, text=True, check=True, timeout=120
        )
    status, tokens, megabytes = map(int, done.stdout.split())
    assert status == 200
    assert tokens > 1_000_000
    assert megabytes < 150


def test_64_streams_at_once() -> None:
    maker = Maker(RunKey.of("k", 0), lambda text: len(text.split()))
    maker.calibrate()
    with Running(Cluster(dataclasses.replace(QUICK, prefill_pool=200_000, decode_pool=200_000))) as server:
        transport = HttpTransport(server.url, "127.0.0.1")
        options = {"model": "m", "max_tokens": 64, "stream": True}
        calls = [
            Call("POST", "/v1/chat/completions", body(maker.needles(700, 8), chat=True, options=options), 100)
            for _ in range(64)
        ]
        answers = transport.send(calls, 64)
        transport.close()
    assert [answer.status for answer in answers] == [200] * 64
    assert all(answer.body.rstrip().endswith(b"[DONE]") for answer in answers)
