"""What ``facts --endpoint`` and ``facts --log`` say of real servers, and that both say the same."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from checklistbot.config import Config
from checklistbot.facts import Inputs, gather
from checklistbot.model import Deployment
from checklistbot.observation.logs import open_log

pytestmark = pytest.mark.engine


def asked(url: str) -> Deployment:
    facts = gather(None, Config(), Inputs(endpoints=(url,)))
    assert facts.unread == ()
    (only,) = facts.deployments
    return only


def said(deployment: Deployment, *names: str) -> dict[str, object]:
    facts = {name: fact.value for name, fact in deployment.facts() if fact.kind == "observed"}
    return {name: facts.get(name) for name in names} if names else facts


@pytest.mark.engine("vllm")
def test_vllm_endpoint_and_log(vllm: Any) -> None:
    live = asked(vllm.url)
    assert said(
        live, "engine", "engine_version", "served_model_name", "context_length", "kv_pool_tokens", "page_size"
    ) == {
        "engine": "vllm",
        "engine_version": "0.32.0",
        "served_model_name": "tiny",
        "context_length": 8192,
        "kv_pool_tokens": 262144,
        "page_size": 128,
    }
    assert live.fits_full_context is True
    reading = open_log(str(vllm.log))
    (logged,) = reading.servers
    names = (
        "engine",
        "engine_version",
        "model",
        "served_model_name",
        "context_length",
        "kv_pool_tokens",
        "kv_cache_dtype",
    )
    assert said(logged, *names) == said(live, *names)
    assert reading.extras[logged.id].factor == 32.0
    assert logged.fits_full_context is True


@pytest.mark.engine("vllm")
def test_vllm_refuses_a_context_that_does_not_fit(start: Any, vllm_command: Callable[..., list[str]]) -> None:
    server = start(
        vllm_command("--max-model-len", "300000"),
        ready=None,
        environ={"VLLM_CPU_KVCACHE_SPACE": "1"},
        name="vllm-fatal",
    )
    assert server.ended(300) != 0
    reading = open_log(str(server.log))
    (logged,) = reading.servers
    assert logged.fits_full_context is False
    assert logged.context_length.value == 300_000
    extras = reading.extras[logged.id]
    assert (extras.needed_gib, extras.estimated_max_context) == (1.14, 262_016)


@pytest.mark.engine("vllm")
def test_vllm_fits_the_context_by_itself(start: Any, vllm_command: Callable[..., list[str]]) -> None:
    server = start(
        vllm_command("--max-model-len", "auto"),
        ready="/health",
        environ={"VLLM_CPU_KVCACHE_SPACE": "1"},
        name="vllm-auto",
    )
    live, (logged,) = asked(server.url), open_log(str(server.log)).servers
    # One block of the pool is never usable.
    assert live.context_length.value == logged.context_length.value == 262_144 - 128
    assert live.kv_pool_tokens.value == logged.kv_pool_tokens.value


@pytest.mark.engine("llama-cpp")
def test_llama_cpp_endpoint_and_log(llama_cpp: Any) -> None:
    assert said(asked(llama_cpp.url), "engine", "served_model_name", "context_length") == {
        "engine": "llama.cpp",
        "served_model_name": "smol",
        "context_length": None,
    }
    (logged,) = open_log(str(llama_cpp.log)).servers
    assert said(logged, "engine", "context_length", "kv_pool_tokens", "kv_cache_dtype") == {
        "engine": "llama.cpp",
        "context_length": 2048,
        "kv_pool_tokens": 2048,
        "kv_cache_dtype": "f16",
    }
    assert str(logged.model.value).endswith(".gguf")


class _Worker(BaseHTTPRequestHandler):
    """Answers what SGLang's router and ``facts`` ask of a worker, in SGLang 0.5.22's form."""

    server: ThreadingHTTPServer

    def do_GET(self) -> None:
        role, pool = self.server.about  # type: ignore[attr-defined]
        info = {
            "model_path": "acme/Otter-70B", "served_model_name": "otter", "disaggregation_mode": role, "context_length": 65536,
            "max_total_num_tokens": pool, "max_req_input_len": pool - 6, "mem_fraction_static": 0.8, "page_size": 64, "tp_size": 4,
            "dp_size": 1, "pp_size": 1, "version": "0.5.22", "disaggregation_bootstrap_port": 9001,
        }  # fmt: skip
        replies: dict[str, dict[str, Any]] = {
            "/health": {}, "/server_info": info, "/get_server_info": info, "/model_info": {"model_path": "acme/Otter-70B"},
            "/get_model_info": {"model_path": "acme/Otter-70B"},
            "/v1/models": {"object": "list", "data": [{"id": "otter", "owned_by": "sglang", "max_model_len": 65536}]},
        }  # fmt: skip
        reply = replies.get(self.path.partition("?")[0])
        body = json.dumps(reply or {}).encode()
        self.send_response(404 if reply is None else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def workers() -> Iterator[tuple[str, str]]:
    servers = []
    for about in (("prefill", 50_048), ("decode", 90_048)):
        server = ThreadingHTTPServer(("127.0.0.1", 0), _Worker)
        server.about = about  # type: ignore[attr-defined]
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        servers.append(server)
    yield tuple(f"http://127.0.0.1:{server.server_address[1]}" for server in servers)  # type: ignore[misc]
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.mark.engine("sglang-router")
def test_a_router_tells_its_workers(pd_router: Any, workers: tuple[str, str]) -> None:
    facts = gather(None, Config(), Inputs(endpoints=(pd_router(*workers).url,)))
    found = {
        str(d.role.value): (d.engine_version.value, d.kv_pool_tokens.value, d.context_length.value)
        for d in facts.deployments
    }
    assert found == {"prefill": ("0.5.22", 50_048, 65_536), "decode": ("0.5.22", 90_048, 65_536)}
    assert facts.unread == ()
