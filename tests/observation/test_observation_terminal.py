"""A log says the same however it reached the file: cut at a terminal's width, numbered, exported, quoted."""

from __future__ import annotations

import html
import io
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checklistbot.observation.logs import read_log
from checklistbot.observation.terminal import Terminal

VLLM = """\
(APIServer pid=7) INFO 10-02 07:00:01 [api_server.py:10] vLLM API server version 0.19.0
(EngineCore pid=9) INFO 10-02 07:00:09 [core.py:97] Initializing a V1 LLM engine (v0.19.0) with config: model='acme/Otter-7B', \
speculative_config=None, tokenizer='acme/Otter-7B', max_seq_len=40960, tensor_parallel_size=2, kv_cache_dtype=fp8, seed=0
(EngineCore pid=9) INFO 10-02 07:00:30 [gpu_worker.py:356] Available KV cache memory: 11.25 GiB
(EngineCore pid=9) INFO 10-02 07:00:30 [kv_cache_utils.py:1087] GPU KV cache size: 35,216 tokens
(EngineCore pid=9) INFO 10-02 07:00:30 [kv_cache_utils.py:1091] Maximum concurrency for 40,960 tokens per request: 0.86x
(APIServer pid=7) INFO 10-02 07:00:44 [launcher.py:29] Available routes are:
"""
SGLANG = """\
[2026-10-02 07:00:01] server_args=ServerArgs(model_path='acme/Heron-70B', tokenizer_path='acme/Heron-70B', context_length=65536, \
mem_fraction_static=0.82, tp_size=4, dp_size=1, page_size=64, kv_cache_dtype='fp8_e5m2', disaggregation_mode='null')
[2026-10-02 07:00:20 TP0] Load weight end. type=HeronForCausalLM, dtype=torch.bfloat16, avail mem=31.27 GB, mem usage=46.03 GB.
[2026-10-02 07:00:21 TP0] KV Cache is allocated. #tokens: 48064, K size: 11.52 GB, V size: 11.52 GB
[2026-10-02 07:00:40 TP0] max_total_num_tokens=48064, chunked_prefill_size=8192, max_prefill_tokens=16384, \
max_running_requests=2048, context_len=65536, available_gpu_mem=7.27 GB
"""
LLAMA = """\
0.02.182.847 I print_info: n_ctx_train           = 262144
0.08.462.473 I llama_context: n_ctx         = 8192
0.08.462.474 I llama_context: n_ctx_seq     = 8192
0.08.462.475 I llama_context: kv_unified    = false
"""


def _each(head: Callable[[int], str]) -> Callable[[str], str]:
    return lambda text: "".join(head(at) + line for at, line in enumerate(text.splitlines(keepends=True), 1))


def _wrapped(width: int) -> Callable[[str], str]:
    return lambda text: "".join(
        line[at : at + width] + "\n" for line in text.splitlines() for at in range(0, len(line), width)
    )


WAYS: dict[str, Callable[[str], str]] = {
    "80 columns": _wrapped(80),
    "97 columns": _wrapped(97),
    "cat -n": _each(lambda at: f"{at:6}\t"),
    "grep -n": _each(lambda at: f"logs/boot.log:{at}:"),
    "srun -l": _each(lambda _: "0: "),
    "stern": _each(lambda _: "worker-0 engine "),
    "escaped": lambda text: html.escape(text, quote=True),
    "csv": lambda text: (
        "Date,Host,Message\n"
        + "".join('2026-10-02T07:00:00.123Z,node7,"{}"\n'.format(line.replace('"', '""')) for line in text.splitlines())
    ),
    "json": lambda text: "".join(json.dumps({"log": line, "stream": "stderr"}) + "\n" for line in text.splitlines()),
    "iso": _each(lambda _: "2026-10-02T07:00:00.123456789Z "),
}


def _said(text: str) -> dict[str, Any]:
    (server,) = read_log(io.BytesIO(text.encode()), "boot.log").servers
    return {name: fact.value for name, fact in server.facts() if fact.kind == "observed"}


@pytest.mark.parametrize("log", [VLLM, SGLANG, LLAMA], ids=["vllm", "sglang", "llama.cpp"])
@pytest.mark.parametrize("way", WAYS)
def test_the_way_changes_nothing(log: str, way: str) -> None:
    assert _said(WAYS[way](log)) == _said(log)


@given(st.integers(62, 160))
def test_no_width_makes_another_value(width: int) -> None:
    """Where too few lines are cut to be sure, a value may be missed; none may be cut or glued."""
    for log in (VLLM, SGLANG):
        whole = _said(log)
        for name, value in _said(_wrapped(width)(log)).items():
            if name in ("context_length", "served_context", "kv_pool_tokens", "tensor_parallel"):
                assert value == whole.get(name), name


@given(st.lists(st.binary(max_size=200).filter(lambda line: b"\n" not in line), max_size=40))
def test_any_lines_keep_their_numbers(lines: list[bytes]) -> None:
    given_back = list(Terminal().lines(5, lines))
    numbers = [number for number, _ in given_back]
    assert numbers == sorted(set(numbers))
    assert len(given_back) <= len(lines)


def test_one_message_of_two_starts_is_not_cut() -> None:
    boot = "Memory profiling results: total_gpu_memory=23.58GiB initial_memory_usage=15.34GiB kv_cache_size={}GiB\n# GPU blocks: {}\n"
    text = boot.format("3.81", 1952) + "\n" + boot.format("2.89", 1478)
    lines = text.encode().splitlines()
    assert list(Terminal().lines(1, lines)) == list(enumerate(lines, 1))


def test_blocks_of_the_processor_are_no_pool_of_the_device() -> None:
    text = (
        "INFO 10-02 07:00:01 [x.py:1] Initializing an LLM engine (v0.7.2) with config: model='acme/Otter', max_seq_len=20000\n"
        "1952, # CPU blocks: 2048\n"
    )
    assert "kv_pool_tokens" not in _said(text)
