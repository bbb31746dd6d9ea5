"""Every target for deployments of other engines and kinds, run for real on a loopback server that looks like that engine.

Healthy passes, a pool too small fails, nobody there is 3, foreign text with status 200 fails. `make test` runs the core of it (bash and
pytest without requests, one leaking server an engine kind); `make test-full` all of it (CHECKLISTBOT_TEST_FULL=1).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from script_linters import LINTERS

from checklistbot import scripts
from checklistbot.cli import main
from checklistbot.model import Checklist, Facts, Item, Script
from checklistbot.scripts._steps import REQUESTS
from checklistbot.simulator import api
from checklistbot.simulator.api import App, Served
from checklistbot.simulator.engine import Cluster, Settings
from checklistbot.simulator.server import Running

NEEDS = pytest.mark.needs("bash", "jq", "curl")
FULL = os.environ.get("CHECKLISTBOT_TEST_FULL") == "1"
TARGETS = ("bash", "pytest", "github", "gitlab")

SGLANG = """\
services:
  llama:
    image: lmsysorg/sglang:v0.5.22
    command: python3 -m sglang.launch_server --model-path meta-llama/Llama-3.1-8B-Instruct --context-length 8192 --enable-metrics
"""
VLLM = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: qwen}
spec:
  template:
    spec:
      containers:
        - name: server
          image: vllm/vllm-openai:v0.29.1
          command: ["vllm", "serve", "Qwen/Qwen3-32B"]
          args: ["--max-model-len", "8192"]
"""
TRT = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: trt}
spec:
  template:
    spec:
      containers:
        - name: server
          image: nvcr.io/nvidia/tensorrt-llm/release:1.1.0
          command: ["trtllm-serve", "serve", "Qwen/Qwen3-8B"]
          args: ["--max_seq_len", "8192"]
"""
LLAMA = """\
services:
  gguf:
    image: ghcr.io/ggml-org/llama.cpp:server
    command: --model /models/qwen3-8b.gguf --ctx-size 32768 --parallel 4 --metrics
"""
OLLAMA = """\
services:
  ollama:
    image: ollama/ollama:0.12.3
    environment: {OLLAMA_CONTEXT_LENGTH: "8192"}
    command: serve
"""
TGI = """\
services:
  tgi:
    image: ghcr.io/huggingface/text-generation-inference:3.3.5
    command: --model-id mistralai/Mistral-7B-Instruct-v0.3 --max-input-tokens 7168 --max-total-tokens 8192
"""
KSERVE = """\
apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata: {name: gemma}
spec:
  predictor:
    containers:
      - name: kserve-container
        image: vllm/vllm-openai:v0.29.1
        args: ["--model", "google/gemma-2-9b-it", "--max-model-len", "8192"]
"""


@dataclass(frozen=True)
class Case:
    """A deployment's file, and the pages by which its engine says version and pool."""

    file: str
    text: str
    engine: str


CASES = {
    "sglang-compose": Case("compose.yaml", SGLANG, "sglang"),
    "vllm-deployment": Case("serve.yaml", VLLM, "vllm"),
    "vllm-kserve": Case("isvc.yaml", KSERVE, "vllm"),
    "tensorrt-llm": Case("serve.yaml", TRT, "tensorrt-llm"),
    "llama.cpp": Case("compose.yaml", LLAMA, "llama.cpp"),
    "ollama": Case("compose.yaml", OLLAMA, "ollama"),
    "tgi": Case("compose.yaml", TGI, "tgi"),
}


def pages(engine: str, pool: int) -> dict[str, Any]:
    """What an engine answers that holds ``pool`` tokens."""
    known: dict[str, dict[str, Any]] = {
        "sglang": {
            "/server_info": {"version": "0.5.22", "max_total_num_tokens": pool, "max_req_input_len": min(8_192, pool) - 6,
                             "context_length": 8_192, "disaggregation_mode": "null"},
            "/metrics": f"sglang:max_total_num_tokens{{a=\"b\"}} {pool}\nsglang:context_len{{}} 8192\nsglang:token_usage{{}} 0\n",
        },
        "vllm": {
            "/version": {"version": "0.29.1"},
            "/metrics": f'vllm:cache_config_info{{block_size="16",kv_cache_size_tokens="{pool}"}} 1.0\n'
            + "".join(f'vllm:{name}{{engine="0"}} 0\n' for name in ("kv_cache_usage_perc", "num_requests_waiting",
                                                                   "num_requests_running", "num_preemptions_total")),
        },
        "tensorrt-llm": {
            "/version": {"version": "1.1.0"},
            "/metrics": [{"iter": 1}, {"kvCacheStats": {"maxNumBlocks": pool // 32, "tokensPerBlock": 32}}],
        },
        "llama.cpp": {"/props": {"default_generation_settings": {"n_ctx": min(pool, 8_192)}, "total_slots": 4}},
        "ollama": {
            "/api/version": {"version": "0.12.3"},
            "/api/ps": {"models": [{"name": "qwen3:8b", "context_length": min(pool, 8_192)}]},
        },
        "tgi": {
            "/info": {"version": "3.3.5", "model_id": "m", "max_total_tokens": 8_192},
            "/metrics": f"# TYPE x gauge\ntgi_batch_max_total_tokens {pool}\n",
        },
    }  # fmt: skip
    return known[engine]


class Faced(App):
    """The simulator behind the pages of another engine. What an engine has no page for is not there."""

    shown: dict[str, Any]

    def handle(self, method: str, path: str, body: bytes = b"", headers: Any = None) -> Served:
        if method == "GET" and path != "/health":
            if path not in self.shown:
                return api._json(404, {})
            page = self.shown[path]
            text = page if isinstance(page, str) else json.dumps(page)
            return Served(200, "text/plain", iter(((0.0, text.encode()),)))
        return super().handle(method, path, body, headers)


@contextmanager
def server(engine: str, pool: int = 200_000, *faults: str) -> Iterator[str]:
    # Except for SGLang the context itself is the first length that is refused.
    context = 8_192 if engine == "sglang" else 8_198
    settings = Settings(context=context, prefill_pool=5_328 if faults else 200_000, decode_pool=200_000, page_size=16,
                        chunk=8_192, prefill_speed=100_000.0, decode_speed=50_000.0, faults=faults)  # fmt: skip
    cluster = Cluster(settings)
    with Running(cluster) as running:
        held = running._servers["router"]
        held.app = Faced(cluster)
        card = {"id": cluster.settings.model, "object": "model"}
        if engine in ("sglang", "vllm"):
            card |= {"max_model_len": 8_192, "owned_by": engine}  # type: ignore[dict-item]
        held.app.shown = {"/v1/models": {"data": [card]}, **pages(engine, pool)}
        yield running.url


@pytest.fixture(scope="module", params=CASES)
def drafted(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Case, Checklist, Facts]:
    return draft(CASES[request.param], tmp_path_factory.mktemp("deployment"))


def draft(case: Case, folder: Path) -> tuple[Case, Checklist, Facts]:
    """The built-in checklist and the facts of one deployment, as the commands write them."""
    (folder / "repo").mkdir()
    (folder / "repo" / case.file).write_text(case.text, encoding="utf-8")
    checklist, facts = folder / "checklist.json", folder / "facts.json"
    for words, path in ((["draft", "--provider", "builtin"], checklist), (["facts"], facts)):
        assert main([words[0], str(folder / "repo"), *words[1:], "--format", "json", "--output", str(path)]) == 0
    return (
        case,
        Checklist.from_json(json.loads(checklist.read_text("utf-8"))),
        Facts.from_json(json.loads(facts.read_text("utf-8"))),
    )


def without_requests(checklist: Checklist) -> Checklist:
    def asks(item: Item) -> bool:
        return bool(item.automation) and item.automation["kind"] in REQUESTS  # type: ignore[index]

    return Checklist("en", "builtin", None, tuple(item for item in checklist.items if not asks(item)))


def commands(folder: Path, target: str) -> list[str]:
    """The shell commands that a runner would run."""
    if target == "bash":
        return ["bash checklistbot.sh"]
    if target == "pytest":
        return [f"{sys.executable} -m pytest -q -p no:cacheprovider -o addopts= test_checklistbot.py"]
    if target == "github":
        (path,) = (folder / ".github" / "workflows").iterdir()
        found = [s["run"] for s in yaml.safe_load(path.read_text("utf-8"))["jobs"]["checks"]["steps"] if "run" in s]
    else:
        path = folder / "ci" / "checklistbot.gitlab-ci.yml"
        found = yaml.safe_load(path.read_text("utf-8"))["checklistbot-pre-deploy"]["script"]
    return found[-1:]


def run(folder: Path, target: str, files: tuple[Script, ...], url: str) -> tuple[int, str]:
    for file in files:
        path = folder / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(file.text, encoding="utf-8")
    environment = {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}", "HOME": str(folder), "LC_ALL": "C.UTF-8",
        "RUNNER_TEMP": str(folder / "tmp"), "CI_PROJECT_DIR": str(folder), "SERVER_URL": url,
        "CHECKLISTBOT_I_OWN_THIS_ENDPOINT": "127.0.0.1",
    }  # fmt: skip
    (command,) = commands(folder, target)
    done = subprocess.run(["bash", "-e", "-c", command], cwd=folder, env=environment, capture_output=True, text=True,
                          encoding="utf-8", timeout=300)  # fmt: skip
    return done.returncode, done.stdout + done.stderr


@NEEDS
@pytest.mark.parametrize("target", TARGETS if FULL else ("bash",))
def test_what_the_engine_says_decides(drafted: tuple[Case, Checklist, Facts], target: str, tmp_path: Path) -> None:
    case, checklist, facts = drafted
    files = scripts.render(without_requests(checklist), facts, target)
    with server(case.engine) as url:
        code, printed = run(tmp_path, target, files, url)
        assert code == 0, printed
        assert "pool-against-context" in printed or target == "pytest"
    with server(case.engine, 5_328) as url:
        code, printed = run(tmp_path, target, files, url)
        assert code == 1, printed
        assert "kv_pool_tokens" in printed
    code, printed = run(tmp_path, target, files, "http://127.0.0.1:9")
    assert code == 3, printed


@pytest.mark.parametrize("target", ["pytest"])
def test_pytest_reads_what_bash_reads(drafted: tuple[Case, Checklist, Facts], target: str) -> None:
    """The pytest script's readers in this process: the same numbers from the same pages."""
    case, checklist, facts = drafted
    (file,) = scripts.render(checklist, facts, target)
    space: dict[str, Any] = {}
    exec(compile(file.text, file.path, "exec"), space)
    for pool in (200_000, 5_328):
        with server(case.engine, pool) as url:
            found = [
                n for source in ("metrics", "server-info") for n in space["READERS"][source](case.engine, "kv_pool_tokens", url)
            ]  # fmt: skip
        assert found
        assert (min(found) >= 8_193) == (pool > 8_193) or (
            case.engine in ("llama.cpp", "ollama") and min(found) <= 8_192
        )


LEAKING = tuple(CASES) if FULL else ("tgi",)


@NEEDS
@pytest.mark.parametrize("target", TARGETS if FULL else ("bash",))
def test_foreign_text_with_status_200_fails_on_any_engine(
    drafted: tuple[Case, Checklist, Facts], target: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if request.node.callspec.params["drafted"] not in LEAKING:
        pytest.skip("only in make test-full")
    case, checklist, facts = drafted
    files = scripts.render(checklist, facts, target)
    if FULL:
        with server(case.engine) as url:
            code, printed = run(tmp_path, target, files, url)
            assert code == 0, printed + (tmp_path / "evidence-server.json").read_text("utf-8")
    with server(case.engine, 200_000, "stub-handoff") as url:
        code, printed = run(tmp_path, target, files, url)
        assert code == 1, printed
        assert "the probe failed" in printed


@pytest.mark.needs("ruff", "shellcheck", "shfmt", "zizmor", "check-jsonschema")
def test_the_files_of_every_deployment_are_clean(tool: Any, tmp_path: Path) -> None:
    """Each deployment, each target, with and without requests; each linter once over all of it."""
    cases, paths = list(CASES.values())[:: 1 if FULL else 4], []
    for number, case in enumerate(cases):
        (tmp_path / f"deployment{number}").mkdir()
        _, checklist, facts = draft(case, tmp_path / f"deployment{number}")
        for target in TARGETS:
            for kind, wanted in (("all", checklist), ("reading", without_requests(checklist))):
                for file in scripts.render(wanted, facts, target):
                    path = tmp_path / f"files{number}" / target / kind / file.path
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_text(file.text, encoding="utf-8")
                    paths.append(str(path.relative_to(tmp_path)))
    for linter, options, takes in LINTERS:
        taken = [path for path in paths if takes(path)]
        assert len(taken) >= 2 * len(cases)
        done = subprocess.run([tool(linter), *options, *taken], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
