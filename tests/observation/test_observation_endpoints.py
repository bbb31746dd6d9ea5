"""Live servers, on loopback, with answers as the engines give them; and where no request ever goes."""

from __future__ import annotations

import ipaddress
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checklistbot.model import Deployment, Facts, InputError, UsageError
from checklistbot.observation import fetch
from checklistbot.observation.endpoints import AUTH, EndpointReading, observe_endpoint, read_endpoint
from checklistbot.observation.facts_file import read_facts_file
from checklistbot.observation.logs import open_log
from checklistbot.retry import Deadline

Reply = str | bytes | dict[str, Any] | list[Any] | tuple[int, dict[str, str], bytes]


class Stub(ThreadingHTTPServer):
    daemon_threads = True
    routes: dict[str, Reply]
    seen: list[tuple[str, str | None]]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    server: Stub

    def do_GET(self) -> None:
        self.server.seen.append((self.path, self.headers.get("Authorization")))
        reply = self.server.routes.get(self.path, (404, {}, b"{}"))
        status, headers, body = reply if isinstance(reply, tuple) else (200, {}, as_bytes(reply))
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        with suppress(OSError):
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def as_bytes(reply: object) -> bytes:
    if isinstance(reply, bytes):
        return reply
    return reply.encode() if isinstance(reply, str) else json.dumps(reply).encode()


@contextmanager
def serving(routes: dict[str, Reply]) -> Iterator[Stub]:
    stub = Stub(("127.0.0.1", 0), Handler)
    stub.routes, stub.seen = routes, []
    thread = threading.Thread(target=stub.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield stub
    finally:
        stub.shutdown()
        stub.server_close()


def read(url: str, **options: Any) -> EndpointReading:
    return read_endpoint(url, **{"auth": None, "from_argv": True, "deadline": Deadline(20), **options})


def values(deployment: Deployment) -> dict[str, object]:
    return {name: fact.value for name, fact in deployment.facts() if fact.kind == "observed"}


def sglang(role: str = "prefill", pool: int = 681280) -> dict[str, Reply]:
    return {
        "/v1/models": {"object": "list", "data": [
            {"id": "otter", "object": "model", "owned_by": "sglang", "root": "otter", "max_model_len": 1048576},
            {"id": "lora", "parent": "otter", "owned_by": "sglang", "max_model_len": None},
        ]},
        "/server_info": {
            "model_path": "acme/Otter-70B", "served_model_name": "otter", "context_length": None, "mem_fraction_static": 0.79,
            "page_size": 64, "tp_size": 8, "dp_size": 2, "pp_size": 1, "kv_cache_dtype": "fp8_e4m3", "disaggregation_mode": role,
            "max_total_num_tokens": pool + 64, "max_req_input_len": pool - 6, "version": "0.5.19", "api_key": "sk-canary-1234567890",
            "internal_states": [
                {"memory_usage": {"token_capacity": pool + 64}}, {"memory_usage": {"token_capacity": pool}},
            ],
        },
    }  # fmt: skip


def test_sglang() -> None:
    with serving(sglang()) as stub:
        (server,) = read(stub.url).servers
    found = values(server)
    assert (found["engine"], found["engine_version"], found["role"]) == ("sglang", "0.5.19", "prefill")
    assert (found["context_length"], found["kv_pool_tokens"]) == (1048576, 681280)
    assert server.kv_pool_tokens.per_rank == (681344, 681280)
    assert server.first_rejected_length == 681274
    assert server.fits_full_context is False
    assert (server.id, server.line) == ("observed/otter/prefill", None)
    assert server.kv_pool_tokens.source is not None
    assert server.kv_pool_tokens.source.path == stub.url
    assert "sk-canary" not in json.dumps(server.to_json())
    assert server.kv_pool_tokens.observation is not None
    assert server.kv_pool_tokens.observation.taken_under["memory_fraction"] == 0.79


def test_older_sglang_and_its_metrics() -> None:
    info = dict(sglang()["/server_info"])  # type: ignore[arg-type]
    metrics = (
        "# TYPE sglang:max_total_num_tokens gauge\n"
        'sglang:max_total_num_tokens{model_name="otter",engine_type="decode",tp_rank="0",dp_rank="0"} 90048.0\n'
        'sglang:max_total_num_tokens{model_name="otter",engine_type="decode",tp_rank="0",dp_rank="1"} 80064.0\n'
        '# TYPE sglang:context_len gauge\nsglang:context_len{model_name="otter",engine_type="decode"} 65536.0\n'
    )
    with serving({"/get_server_info": info}) as stub:
        assert read(stub.url).servers[0].kv_pool_tokens.value == 681280
    with serving({"/metrics": metrics}) as stub:
        (server,) = read(stub.url).servers
    found = values(server)
    assert (found["kv_pool_tokens"], found["context_length"], found["role"]) == (80064, 65536, "decode")
    assert server.fits_full_context is True


def gauge(**labels: object) -> str:
    text = ",".join(f'{name}="{value}"' for name, value in labels.items())
    return f"# TYPE vllm:cache_config_info gauge\nvllm:cache_config_info{{{text}}} 1.0\n"


VLLM_MODELS = {"data": [{"id": "otter", "owned_by": "vllm", "root": "acme/Otter-70B", "max_model_len": 65536}]}


def test_vllm() -> None:
    text = gauge(block_size=16, cache_dtype="fp8", gpu_memory_utilization=0.9, num_gpu_blocks=8000, engine=0,
                 kv_cache_size_tokens=64000, kv_cache_max_concurrency=0.97, sliding_window="None")  # fmt: skip
    with serving({"/v1/models": VLLM_MODELS, "/version": {"version": "0.27.1"}, "/metrics": text}) as stub:
        (server,) = read(stub.url).servers
    found = values(server)
    assert (found["engine_version"], found["model"], found["kv_pool_tokens"]) == ("0.27.1", "acme/Otter-70B", 64000)
    assert (found["context_length"], found["memory_fraction"], found["kv_cache_dtype"]) == (65536, 0.9, "fp8")
    assert server.fits_full_context is False


def test_vllm_before_the_token_label_sums_blocks_over_engines() -> None:
    text = "".join(gauge(block_size=16, num_gpu_blocks=20000, engine=i, sliding_window="None") for i in (0, 1))
    with serving({"/v1/models": VLLM_MODELS, "/metrics": text}) as stub:
        assert read(stub.url).servers[0].kv_pool_tokens.value == 160000


def test_vllm_blocks_of_mixed_layers_are_no_tokens() -> None:
    text = gauge(block_size=16, num_gpu_blocks=20000, engine=0, sliding_window="4096")
    with serving({"/v1/models": VLLM_MODELS, "/metrics": text}) as stub:
        assert read(stub.url).servers[0].kv_pool_tokens.value is None


OTHERS: dict[str, tuple[dict[str, Reply], dict[str, object]]] = {
    "llama.cpp": (
        {"/props": {"default_generation_settings": {"n_ctx": 8192}, "total_slots": 1, "model_path": "/m/otter.gguf",
                    "build_info": "b7123-abcdef0"}},
        {"engine": "llama.cpp", "context_length": 8192, "kv_pool_tokens": 8192, "model": "/m/otter.gguf", "engine_version": "b7123"},
    ),
    "llama-cpp-python": (
        {"/v1/models": {"object": "list", "data": [{"id": "otter", "owned_by": "me"}]},
         "/openapi.json": {"info": {"title": "🦙 llama.cpp Python API", "version": "0.3.36"}}},
        {"engine": "llama.cpp", "served_model_name": "otter"},
    ),
    "tgi": (
        {"/info": {"model_id": "acme/Otter", "version": "3.3.6", "max_total_tokens": 4096, "max_input_tokens": 4000},
         "/metrics": "# TYPE tgi_batch_max_total_tokens gauge\ntgi_batch_max_total_tokens 80156\n"},
        {"engine": "tgi", "engine_version": "3.3.6", "context_length": 4096, "kv_pool_tokens": 80156},
    ),
    "ollama": (
        {"/api/ps": {"models": [{"name": "otter:7b", "model": "otter:7b", "context_length": 32768}]}, "/api/version": {"version": "0.33.0"}},
        {"engine": "ollama", "engine_version": "0.33.0", "model": "otter:7b", "context_length": 32768},
    ),
    "tensorrt-llm": (
        {"/metrics": [{"iter": 1, "kvCacheStats": {"maxNumBlocks": 1000, "tokensPerBlock": 32}}], "/version": {"version": "1.2.0"}},
        {"engine": "tensorrt-llm", "engine_version": "1.2.0", "kv_pool_tokens": 32000, "page_size": 32},
    ),
}  # fmt: skip


@pytest.mark.parametrize("engine", OTHERS)
def test_other_engines(engine: str) -> None:
    routes, expected = OTHERS[engine]
    with serving(routes) as stub:
        (server,) = read(stub.url).servers
    assert {name: value for name, value in values(server).items() if name in expected} == expected


def test_a_router_in_front_of_a_pair() -> None:
    with serving(sglang("prefill")) as left, serving(sglang("decode", 1050624)) as right:
        workers = {"workers": [{"url": left.url, "worker_type": "prefill"}, {"url": right.url, "worker_type": "decode"},
                               {"url": "http://169.254.169.254/"}]}  # fmt: skip
        with serving({"/workers": workers}) as router:
            reading = read(router.url, auth="Bearer token-of-the-router")
    pools = {server.role.value: server.kv_pool_tokens.value for server in reading.servers}
    assert pools == {"prefill": 681280, "decode": 1050624}
    assert len(reading.skipped) == 1


def test_the_token_goes_to_the_named_host_only() -> None:
    with serving(sglang()) as worker, serving({}) as router:
        router.routes["/list_workers"] = {"urls": [worker.url.replace("127.0.0.1", "localhost")]}
        read(router.url, auth="Bearer secret", resolver=lambda host, port: ["127.0.0.1"])
    assert {auth for _, auth in router.seen} == {"Bearer secret"}
    assert {auth for _, auth in worker.seen} == {None}


def test_the_header_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert AUTH == "CHECKLISTBOT_ENDPOINT_AUTH"
    monkeypatch.setenv(AUTH, "Bearer abc")
    with serving(sglang()) as stub:
        observe_endpoint(stub.url)
    assert {auth for _, auth in stub.seen} == {"Bearer abc"}


# --- where no request goes ---------------------------------------------------------------------------------------------

REFUSED = [
    "169.254.169.254", "fe80::1", "224.0.0.1", "ff02::1", "0.0.0.0", "0.1.2.3", "::", "::ffff:169.254.169.254",
    "100.100.100.200", "fd00:ec2::254", "168.63.129.16", "240.0.0.1", "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::1",
]  # fmt: skip


@pytest.mark.parametrize("address", REFUSED)
def test_refused_addresses(address: str) -> None:
    with pytest.raises(UsageError, match="refused"):
        read("http://worker.lan:8000", resolver=lambda host, port: ["10.0.0.8", address])


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "::ffff:127.0.0.1"])
def test_loopback_only_from_the_command_line(address: str) -> None:
    with pytest.raises(UsageError, match="only the command line"):
        read("http://worker.lan:8000", from_argv=False, resolver=lambda host, port: [address])


@pytest.mark.parametrize(
    "url",
    ["file:///etc/passwd", "gopher://x", "ftp://x", "http://", "http://u:p@h/", "http://metadata.google.internal/",
     "http://METADATA.google.internal./", "http://h:99999/", "http://h/\r\nX: y", "//h", "worker:8000"],
)  # fmt: skip
def test_addresses_that_are_none(url: str) -> None:
    def never(host: str, port: int) -> list[str]:
        raise AssertionError("resolved")

    with pytest.raises(UsageError) as caught:
        read(url, resolver=never)
    assert "\n" not in str(caught.value)
    assert "u:p" not in str(caught.value)


@given(st.ip_addresses())
def test_every_address_is_judged(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> None:
    why = fetch.refusal(address, loopback=False)
    if address.is_link_local or address.is_multicast or address.is_loopback or address.is_unspecified:
        assert why


def test_names_are_resolved_once() -> None:
    asked: list[str] = []

    def resolver(host: str, port: int) -> list[str]:
        asked.append(host)
        return ["127.0.0.1"] if len(asked) == 1 else ["169.254.169.254"]

    with serving(sglang()) as stub:
        read(stub.url.replace("127.0.0.1", "worker.lan"), resolver=resolver)
    assert asked == ["worker.lan"]


def test_redirects_are_not_followed() -> None:
    with serving(sglang()) as target, serving({}) as stub:
        stub.routes = {path: (302, {"Location": target.url + path}, b"") for path in target.routes}
        with pytest.raises(InputError, match="no engine is recognised"):
            read(stub.url)
    assert target.seen == []


def test_bodies_are_bounded_and_never_echoed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "MAX_BODY", 1 << 16)
    body = json.dumps({"data": [{"owned_by": "vllm", "id": "SECRET-BODY" * 10_000}]})
    with serving({"/v1/models": body}) as stub, pytest.raises(InputError) as caught:
        read(stub.url)
    assert "SECRET" not in str(caught.value)


def test_a_server_that_never_answers_is_left_in_time() -> None:
    class Mute(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            done.wait(10)

        def log_message(self, *_: object) -> None:
            pass

    done = threading.Event()
    stub = ThreadingHTTPServer(("127.0.0.1", 0), Mute)
    threading.Thread(target=stub.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    try:
        with pytest.raises(InputError, match="no answer"):
            read(f"http://127.0.0.1:{stub.server_address[1]}", deadline=Deadline(0.2))
    finally:
        done.set()
        stub.shutdown()
        stub.server_close()


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(
        st.sampled_from(["data", "models", "internal_states", "memory_usage", "token_capacity", "max_total_num_tokens", "loads",
                         "mem_fraction_static", "kvCacheStats", "max_model_len", "total_slots", "n_ctx", "version", "owned_by"]),
        inner, max_size=5),
    max_leaves=20,
)  # fmt: skip
PATHS = ["/v1/models", "/server_info", "/props", "/info", "/api/ps", "/metrics", "/v1/loads", "/version"]


@given(st.dictionaries(st.sampled_from(PATHS), JSON.map(json.dumps) | st.text(max_size=200)))
def test_no_answer_makes_a_grammar_fail(bodies: dict[str, str]) -> None:
    from checklistbot.engines._live import live

    def ask(path: str) -> fetch.Answer | None:
        return fetch.Answer(200, bodies[path].encode("utf-8", "replace")) if path in bodies else None

    for grammar in live():
        for one in grammar.read(ask):
            assert all(entry.value for entry in one.entries("kv_pool_tokens"))


# --- --observed --------------------------------------------------------------------------------------------------------


def written(tmp_path: Path, change: Callable[[dict[str, Any]], None] = lambda data: None) -> str:
    log = tmp_path / "prefill.log"
    log.write_text("[2026-10-02 07:01:20 TP0] max_total_num_tokens=50016, chunked_prefill_size=1, context_len=65536\n")
    data = Facts(open_log(str(log)).servers).to_json()
    change(data)
    path = tmp_path / "observed.json"
    path.write_text(json.dumps(data))
    return str(path)


def test_observed_facts_come_back(tmp_path: Path) -> None:
    (server,) = read_facts_file(written(tmp_path)).deployments
    assert (server.kv_pool_tokens.value, server.kv_pool_tokens.kind) == (50016, "observed")
    assert (server.role.value, server.fits_full_context) == ("prefill", False)


def test_a_declared_pool_of_another_run_is_not_observed(tmp_path: Path) -> None:
    def change(data: dict[str, Any]) -> None:
        data["deployments"][0]["kv_pool_tokens"]["source"]["kind"] = "declared"

    (server,) = read_facts_file(written(tmp_path, change)).deployments
    assert not server.kv_pool_tokens.known
    assert server.fits_full_context is None


@pytest.mark.parametrize("text", ["", "[]", "{", '{"schema": "facts/2"}', '{"schema": "facts/1", "schema": "facts/1"}',
                                  '{"schema": "facts/1", "deployments": [{}]}', "[" * 100_000])  # fmt: skip
def test_what_is_no_facts_file(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(UsageError):
        read_facts_file(str(path))


def test_a_huge_facts_file_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(" " * (2 << 20))
    with pytest.raises(InputError):
        read_facts_file(str(path))
