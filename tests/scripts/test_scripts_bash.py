"""The bash target, run for real: against a loopback server that is healthy, one whose pool is too small, and none."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import threading
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from worker_pages import WorkerPages

from checklistbot import scripts
from checklistbot.model import Checklist, Deployment, Facts, Item, Observation, Source, UsageError, declared
from checklistbot.model import Fact as FactValue
from checklistbot.scripts import _filters

NEEDS = pytest.mark.needs("bash", "jq", "curl")
ID = "default/glm/unified"
HOSTILE = "a'\"$(touch pwned)`id`${x} \\;|&<>*?~#!\n::error::x\x1b[31m\u202e가"


def item(topic: str, automation: dict[str, Any] | None, deployment: str = ID, **used: Any) -> Item:
    return Item(f"{topic}/{deployment}", topic, "required", HOSTILE, HOSTILE, (HOSTILE,), (HOSTILE,), HOSTILE, HOSTILE,
                "before-deploy", automation, used)  # type: ignore[arg-type]  # fmt: skip


def checklist(*items: Item) -> Checklist:
    return Checklist("en", "openai", None, items)


def facts(engine: str = "sglang", **changes: Any) -> Facts:
    one = Deployment(ID, "glm", "default", "glm", "serve.yaml", 3, engine=declared(engine, "serve.yaml", 3),
                     context_length=declared(131_072, "serve.yaml", 4)).replace(**changes)  # fmt: skip
    return Facts((one,), {"default/glm": {"config": "ab" * 32}})


POOL = {"kind": "assert-fact", "fact": "kv_pool_tokens", "op": ">=", "to": "context_length", "from": "server-info"}
VERSION = {"kind": "assert-version", "engine": "sglang", "min": "0.5.22"}


class Engine(WorkerPages):
    """The pages of an SGLang worker that the script reads; each test sets them."""

    pages: ClassVar[dict[str, str]] = {}
    seen: ClassVar[list[tuple[str, str | None]]] = []


def pages(pool: int = 200_000, version: str = "0.5.22") -> dict[str, str]:
    info = {
        "max_total_num_tokens": pool + 64,
        "internal_states": [{"memory_usage": {"token_capacity": pool}}, {"memory_usage": {"token_capacity": pool + 1}}],
        "version": version, "disaggregation_mode": "prefill", "enable_metrics": True, "page_size": 64,
    }  # fmt: skip
    metrics = (
        f'# HELP x\nsglang:max_total_num_tokens{{dp_rank="0"}} {pool}.0\nsglang:context_len{{a="b"}} 1.31072e+05\n'
    )
    return {
        "/health": "",
        "/server_info": json.dumps(info),
        "/v1/models": json.dumps({"data": [{"id": "glm", "max_model_len": 131_072}]}),
        "/metrics": metrics + 'vllm:cache_config_info{block_size="16",kv_cache_size_tokens="7000"} 1\n',
        "/version": json.dumps({"version": version}),
    }


@pytest.fixture
def server() -> Iterator[str]:
    Engine.pages, Engine.seen = pages(), []
    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Engine)
    thread = threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{httpd.server_address[1]}"
    httpd.shutdown()
    httpd.server_close()


def run(tmp_path: Path, text: str, **environment: str) -> subprocess.CompletedProcess[str]:
    path = tmp_path / "check.sh"
    path.write_text(text, encoding="utf-8")
    clean = {"PATH": os.environ["PATH"], **environment}
    return subprocess.run(["bash", str(path)], cwd=tmp_path, env=clean, capture_output=True, text=True, timeout=60)


def render(*items: Item, known: Facts | None = None) -> str:
    (script,) = scripts.render(checklist(*items), known if known is not None else facts(), "bash")
    return script.text


# --- run for real ----------------------------------------------------------------------------------------------------


@NEEDS
def test_a_healthy_worker_passes(server: str, tmp_path: Path) -> None:
    text = render(
        item("pool-against-context", POOL),
        item("pool-against-context", {**POOL, "from": "metrics", "to": 199_999, "op": ">"}),
        item("engine-version", VERSION),
        item("other", {"kind": "health-and-metrics", "metrics": ["sglang:context_len"]}),
        item("other", {"kind": "flag-present", "flag": "--disaggregation-mode", "value": "prefill"}),
        item("other", {"kind": "flag-present", "flag": "enable-metrics", "value": None}),
        item("isolation", {"kind": "manual"}),
        item("isolation", None),
    )
    done = run(tmp_path, text, SERVER_URL=server)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("PASS") == 6
    assert done.stdout.count("MANUAL") == 2
    assert "6 passed, 0 failed, 0 not done" in done.stdout


@NEEDS
def test_a_pool_that_is_too_small_fails(server: str, tmp_path: Path) -> None:
    Engine.pages = pages(pool=131_008)
    done = run(tmp_path, render(item("pool-against-context", POOL), item("engine-version", VERSION)), SERVER_URL=server)
    assert done.returncode == 1
    assert f"FAIL pool-against-context/{ID}: kv_pool_tokens is 131008, not >= 131072" in done.stdout
    assert "PASS engine-version" in done.stdout


@NEEDS
@pytest.mark.parametrize("url", ["", "http://127.0.0.1:9", "file:///etc/passwd", "ftp://127.0.0.1/x"])
def test_what_cannot_be_reached_is_not_done(url: str, tmp_path: Path) -> None:
    done = run(tmp_path, render(item("pool-against-context", POOL), item("engine-version", VERSION)), SERVER_URL=url)
    assert (done.returncode, done.stderr) == (3, "")
    assert done.stdout.count("SKIP") == 2
    assert "PASS" not in done.stdout


@NEEDS
def test_a_failure_outranks_what_was_not_done(server: str, tmp_path: Path) -> None:
    Engine.pages = pages(version="0.5.19")
    text = render(item("engine-version", VERSION), item("pool-against-context", {**POOL, "from": "log"}))
    assert run(tmp_path, text, SERVER_URL=server).returncode == 1


@NEEDS
@pytest.mark.parametrize(
    ("have", "outcome"),
    [("0.5.22", 0), ("v0.5.22", 0), ("0.5.22.post1", 0), ("0.6", 0), ("0.10.0", 0), ("0.5.22+cu128", 0), ("0.5.100", 0),
     ("0.5.22rc0", 1), ("0.5.22.dev20261001+g1", 1), ("0.5.21.post2", 1), ("0.5.9", 1), ("", 3), ("main", 3)],
)  # fmt: skip
def test_versions_are_compared_as_releases(server: str, tmp_path: Path, have: str, outcome: int) -> None:
    Engine.pages = pages(version=have)
    assert run(tmp_path, render(item("engine-version", VERSION)), SERVER_URL=server).returncode == outcome


@NEEDS
def test_numbers_come_from_the_last_start_in_a_log(tmp_path: Path) -> None:
    log = tmp_path / "a log.txt"
    log.write_text(
        "[2026-01-01 00:00:00] max_total_num_tokens=900000, x=1, context_len=131072\n"
        "[2026-01-02 00:00:00] server_args=ServerArgs(page_size=64, mem_fraction_static=0.8)\n"
        "[2026-01-02 00:00:00 TP0] max_total_num_tokens=140000, x=1, context_len=131072\n"
        "[2026-01-02 00:00:00 TP1] max_total_num_tokens=130000, x=1, context_len=131072\n"
    )
    steps = [item("pool-against-context", {**POOL, "from": "log", "op": "==", "to": 130_000}),
             item("other", {**POOL, "from": "log", "fact": "context_length", "op": "==", "to": 131_072}),
             item("other", {**POOL, "from": "log", "fact": "page_size", "op": "==", "to": 64})]  # fmt: skip
    done = run(tmp_path, render(*steps), SERVER_LOG=str(log))
    assert (done.returncode, done.stdout.count("PASS"), done.stderr) == (0, 3, "")


@NEEDS
def test_vllm_is_read_from_its_own_lines(server: str, tmp_path: Path) -> None:
    (tmp_path / "vllm.log").write_text("INFO GPU KV cache size: 1,234,567 tokens\nINFO max_seq_len=131072, x\n")
    steps = [item("pool-against-context", {**POOL, "from": "log", "op": "==", "to": 1_234_567}),
             item("other", {**POOL, "from": "metrics", "op": "==", "to": 7_000}),
             item("other", {**POOL, "fact": "context_length", "op": "==", "to": 131_072}),
             item("engine-version", {"kind": "assert-version", "engine": "vllm", "min": "0.5.1"})]  # fmt: skip
    done = run(tmp_path, render(*steps, known=facts("vllm")), SERVER_URL=server, SERVER_LOG="vllm.log")
    assert (done.returncode, done.stdout.count("PASS")) == (0, 4)


@NEEDS
def test_facts_are_the_defaults_and_the_environment_wins(server: str, tmp_path: Path) -> None:
    text = render(item("pool-against-context", POOL))
    assert run(tmp_path, text, SERVER_URL=server).returncode == 0
    assert run(tmp_path, text, SERVER_URL=server, SERVER_CONTEXT_LENGTH="1048576").returncode == 1


@NEEDS
def test_the_header_reaches_the_worker_and_no_argument_list(server: str, tmp_path: Path) -> None:
    bin_ = tmp_path / "bin"
    bin_.mkdir()
    curl = subprocess.run(["which", "curl"], capture_output=True, text=True).stdout.strip()
    (bin_ / "curl").write_text(f'#!/bin/sh\necho "$@" >>{tmp_path}/arguments\nexec {curl} "$@"\n')
    (bin_ / "curl").chmod(0o755)
    secret = 'Bearer a"b\\c $(id)'
    text = render(item("engine-version", VERSION))
    path = f"{bin_}:{os.environ['PATH']}"
    done = run(tmp_path, text, SERVER_URL=server, CHECKLISTBOT_ENDPOINT_AUTH=secret, PATH=path)
    assert done.returncode == 0
    assert ("/server_info", secret) in Engine.seen
    assert "Bearer" not in (tmp_path / "arguments").read_text()


# --- the requests go to the probe ------------------------------------------------------------------------------------

BOUNDARY = {"kind": "boundary-request", "at": "first-rejected", "offsets": [-1, 0, 1]}
CANARY = {"kind": "canary-leak", "fillers": 8, "probes": 3}


def probe(folder: Path, code: int) -> str:
    """A stand-in for the probe on PATH: it keeps what it was called with."""
    folder.mkdir()
    (folder / "checklistbot").write_text(
        '#!/bin/sh\n[ "$2" = --help ] && exit 0\necho "$@" >>calls\ncat >>plans\nexit ' + str(code) + "\n"
    )
    (folder / "checklistbot").chmod(0o755)
    return f"{folder}:{os.environ['PATH']}"


@NEEDS
@pytest.mark.parametrize(("code", "word", "outcome"), [(0, "PASS", 0), (1, "FAIL", 1), (3, "SKIP", 3), (2, "SKIP", 3)])
def test_all_requests_are_one_run_of_the_probe(tmp_path: Path, code: int, word: str, outcome: int) -> None:
    text = render(item("limit-length-content", BOUNDARY), item("canary-leak", CANARY))
    done = run(tmp_path, text, SERVER_URL="http://user@localhost:8000/v1", PATH=probe(tmp_path / "bin", code),
               CHECKLISTBOT_I_OWN_THIS_ENDPOINT="localhost")  # fmt: skip
    assert done.returncode == outcome
    assert done.stdout.count(word) == 2
    calls = (tmp_path / "calls").read_text().splitlines()
    assert len(calls) == 1
    assert calls[0].startswith("probe http://user@localhost:8000/v1 --plan - ")
    assert "--i-own-this-endpoint" in calls[0]
    plan = json.loads((tmp_path / "plans").read_text())
    assert plan == {
        "schema": "plan/1",
        "items": [
            {"id": f"limit-length-content/{ID}", "automation": BOUNDARY},
            {"id": f"canary-leak/{ID}", "automation": CANARY},
        ],
    }


@NEEDS
@pytest.mark.parametrize("owned", ["", "other.host", "localhost:8000"])
def test_no_request_is_sent_to_an_endpoint_that_nobody_vouches_for(tmp_path: Path, owned: str) -> None:
    text = render(item("canary-leak", CANARY))
    done = run(tmp_path, text, SERVER_URL="http://localhost:8000", PATH=probe(tmp_path / "bin", 0),
               CHECKLISTBOT_I_OWN_THIS_ENDPOINT=owned)  # fmt: skip
    assert (done.returncode, done.stdout.count("SKIP")) == (3, 1)
    assert not (tmp_path / "calls").exists()


@NEEDS
def test_without_the_probe_the_requests_are_not_done(tmp_path: Path) -> None:
    bin_ = tmp_path / "bin"
    bin_.mkdir()
    for tool in ("bash", "awk", "grep", "curl", "jq", "tail", "sed", "tr"):
        found = subprocess.run(["which", tool], capture_output=True, text=True).stdout.strip()
        (bin_ / tool).symlink_to(found)
    done = run(tmp_path, render(item("canary-leak", CANARY), item("other", {"kind": "evidence-fresh", "profile": "smoke",
               "max_age_days": 7})), SERVER_URL="http://localhost:8000", CHECKLISTBOT_I_OWN_THIS_ENDPOINT="localhost",
               PATH=str(bin_))  # fmt: skip
    assert (done.returncode, done.stdout.count("SKIP"), done.stderr) == (3, 2, "")
    assert "evidence-fresh cannot be done by this script yet" in done.stdout


# --- what the text is ------------------------------------------------------------------------------------------------

EVERY = (
    item("pool-against-context", POOL),
    item("engine-version", VERSION),
    item("limit-length-content", BOUNDARY),
    item("canary-leak", CANARY),
    item("other", {"kind": "health-and-metrics", "metrics": ["sglang:token_usage"]}),
    item("other", {"kind": "flag-present", "flag": "enable-metrics", "value": True}),
    item("isolation", None),
)


@pytest.mark.needs("shellcheck", "shfmt")
def test_the_script_is_clean_shell(tmp_path: Path) -> None:
    path = tmp_path / "check.sh"
    path.write_text(render(*EVERY), encoding="utf-8")
    assert subprocess.run(["shellcheck", str(path)], capture_output=True, text=True).stdout == ""
    assert subprocess.run(["shfmt", "-d", str(path)], capture_output=True, text=True).stdout == ""


def test_same_input_same_bytes_and_the_digest_in_the_header() -> None:
    assert render(*EVERY) == render(*EVERY)
    assert scripts.config_digests(render(*EVERY)) == {"default/glm": "ab" * 32}
    assert scripts.config_digests("# checklistbot-config: default/glm short\n") == {}


def test_no_prose_of_a_checklist_reaches_the_script() -> None:
    text = render(*EVERY)
    for word in ("touch", "pwned", "::error", "가"):
        assert word not in text


@NEEDS
@given(st.text(min_size=1, max_size=60))
def test_a_hostile_name_stays_one_word(tmp_path_factory: pytest.TempPathFactory, name: str) -> None:
    """Names reach the script quoted: what bash sees is what shlex sees, and nothing runs."""
    deployment = f"default/{name}{HOSTILE}/unified"
    text = render(item("isolation", None, deployment), known=Facts(digests={f"default/{name}": {"config": "cd" * 32}}))
    for line in text.split("\n"):
        if line.strip().startswith("by_hand "):
            assert len(shlex.split(line.strip())) == 2
    header = text[: text.index("set -euo")]
    assert all(row == "" or row.startswith("#") for row in header.split("\n"))


@NEEDS
def test_a_hostile_repository_runs_nothing(server: str, tmp_path: Path) -> None:
    deployment = f"{HOSTILE}/{HOSTILE}/unified"
    bad = (
        facts()
        .deployments[0]
        .replace(id=deployment, environment=HOSTILE, group=HOSTILE, engine=declared(HOSTILE, HOSTILE, 1))
    )
    source = Source("observed", "x=$(touch pwned) ; touch pwned", 1)
    bad = bad.replace(kv_pool_tokens=FactValue(5, source), context_length=declared(HOSTILE, HOSTILE, 1))
    known = Facts((bad,), {HOSTILE: {"config": HOSTILE}, f"{HOSTILE}/x": {"config": "ef" * 32}})
    items = [item("pool-against-context", {**POOL, "from": "log"}, deployment), item("other", {**POOL}, deployment),
             item("other", {"kind": "flag-present", "flag": "x", "value": HOSTILE}, deployment),
             item("engine-version", {**VERSION, "min": HOSTILE}, deployment),
             item("canary-leak", {"kind": "canary-leak", "fillers": HOSTILE}, deployment),
             item("other", {"kind": HOSTILE}, deployment)]  # fmt: skip
    done = run(tmp_path, render(*items, known=known), SERVER_URL=server)
    assert done.returncode in (1, 3)
    assert done.stderr == ""
    assert sorted(path.name for path in tmp_path.iterdir()) == ["check.sh"]
    assert "\x1b" not in done.stdout
    assert not re.search(r"(?m)^::", done.stdout)


def test_a_stale_log_is_no_default() -> None:
    source = Source("observed", "ops/logs/old.log", 3)
    step = item("pool-against-context", {**POOL, "from": "log"})
    fresh = facts(kv_pool_tokens=FactValue(5, source))
    stale = facts(kv_pool_tokens=FactValue(5, source, observation=Observation(stale=("memory_fraction",))))
    assert "default SERVER_LOG ops/logs/old.log" in render(step, known=fresh)
    assert "default SERVER_LOG ''" in render(step, known=stale)


def test_variables_are_short_and_unique() -> None:
    def names(*ids: str) -> list[str]:
        text = render(
            *(item("pool-against-context", {**POOL, "role": i.rpartition("/")[2]}, i) for i in ids), known=Facts()
        )
        return re.findall(r"^default (\w+)_URL", text, re.MULTILINE)

    assert names("prod/glm-5.3/prefill", "prod/glm-5.3/decode") == ["PREFILL", "DECODE"]
    assert names("prod/a/unified", "prod/b/unified") == ["A_SERVER", "B_SERVER"]
    assert names("prod/a/unified", "staging/a/unified") == ["PROD_A_SERVER", "STAGING_A_SERVER"]
    assert len(set(names("prod/가/unified", "prod/나/unified"))) == 2


def test_a_bare_checklist_gives_a_script_too() -> None:
    text = render(item("pool-against-context", POOL, context_length=131_072, engine="sglang"), known=Facts())
    assert "default SERVER_CONTEXT_LENGTH 131072" in text
    assert f"assert_fact pool-against-context/{ID} sglang SERVER" in text


def test_targets_are_read_from_the_folder() -> None:
    assert "bash" in scripts.targets()
    with pytest.raises(UsageError, match="bash"):
        scripts.render(checklist(*EVERY), facts(), "powershell")
    assert scripts.render(checklist(), facts(), "bash") == ()


# --- the filters -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", ["text", 5, None, True])
def test_a_bare_variable_does_not_render(value: Any) -> None:
    with pytest.raises(TypeError, match="no filter"):
        _filters.from_string("echo {{ value }}").render(value=value)


@given(st.text(max_size=200))
def test_quoting_survives_bash_words(text: str) -> None:
    words = shlex.split(_filters.sh(text))
    assert len(words) == 1
    assert "\n" not in words[0]


@pytest.mark.parametrize("value", ["a b", "1x", "", "a;b", "ünï"])
def test_names_are_identifiers(value: str) -> None:
    with pytest.raises(ValueError):
        _filters.name(value)
