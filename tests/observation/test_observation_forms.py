"""Forms in which people post logs: each case is one mechanism, written for this project."""

from __future__ import annotations

import io
from typing import Any

import pytest

from checklistbot.observation.logs import read_log

#: name → (log, what the one server in it says).
FORMS: dict[str, tuple[str, dict[str, Any]]] = {
    "the model of an engine's own dump": (
        "(EngineCore pid=9) INFO 10-02 07:00:09 [core.py:99] Initializing a V1 LLM engine (v0.24.1) with config: "
        "model='acme/Otter-7B', dtype=torch.bfloat16, max_seq_len=8192, tensor_parallel_size=2\n",
        {"model": "acme/Otter-7B", "engine_version": "0.24.1", "context_length": 8192, "tensor_parallel": 2},
    ),
    "an engine before it printed its version": (
        "INFO 01-02 07:00:09 llm_engine.py:70] Initializing an LLM engine with config: model='/models/otter', "
        "max_seq_len=4096, tensor_parallel_size=1)\nINFO 01-02 07:00:19 llm_engine.py:275] # GPU blocks: 300, # CPU blocks: 512\n",
        {"model": "/models/otter", "engine_version": None, "context_length": 4096, "kv_pool_tokens": 4800},
    ),
    "a path of Windows": (
        "(EngineCore pid=9) INFO 10-02 07:00:09 [core.py:105] Initializing a V1 LLM engine (v0.19.0) with config: "
        "model='C:\\\\Models\\\\Otter-1B', max_seq_len=4096, tensor_parallel_size=1\n",
        {"model": "C:\\Models\\Otter-1B"},
    ),
    "an image whose entry point is the server": (
        "$ docker run --gpus all -p 8000:8000 \\\n  -e HF_HUB_OFFLINE=1 \\\n  vllm/vllm-openai:latest \\\n    acme/Otter-7B \\\n"
        "    --served-model-name otter \\\n    --tensor-parallel-size 4\n"
        "(EngineCore pid=5) INFO 10-02 07:00:19 [kv_cache_utils.py:1] GPU KV cache size: 70,016 tokens\n",
        {"model": "acme/Otter-7B", "served_model_name": "otter", "tensor_parallel": 4, "kv_pool_tokens": 70016},
    ),
    "a call of the Python interface": (
        "llm = LLM(model='models/otter', enforce_eager=True,\n          max_model_len=2048, gpu_memory_utilization=0.4)\n"
        "INFO [kv_cache_utils.py:1] GPU KV cache size: 70,016 tokens\n",
        {"model": "models/otter", "context_length": 2048, "memory_fraction": 0.4},
    ),
    "the answer of /v1/models below the log": (
        "[kv_cache_utils.py:1] GPU KV cache size: 70,016 tokens\n"
        '{\n "data": [{\n  "id": "otter",\n  "root": "/models/otter",\n  "max_model_len": 2048\n }]\n}\n',
        {"model": "/models/otter", "context_length": 2048},
    ),
    "the role of a launch command": (
        "vllm serve acme/Otter-7B \\\n  --block-size 128 \\\n  --kv-transfer-config "
        '\'{"kv_connector":"MooncakeStoreConnector","kv_role":"kv_producer"}\'\n',
        {"role": "prefill", "page_size": 128, "model": "acme/Otter-7B"},
    ),
    "bytes for a token are no tokens": (
        "[2026-10-02 07:01:10 TP0] DSv4 memory calculation: bytes_per_full_token=16000.5, available_bytes=4.0 GB, "
        "full_token=268800\n",
        {"kv_pool_tokens": 268800},
    ),
    "two ranks of four are too few to count them": (
        "[2026-10-02 07:01:10 TP0] max_total_num_tokens=5000, context_len=4096\n"
        "[2026-10-02 07:01:10 TP3] max_total_num_tokens=5000, context_len=4096\n",
        {"tensor_parallel": None, "kv_pool_tokens": 5000},
    ),
    "four ranks of eight are enough": (
        "".join(f"[2026-10-02 07:01:10 TP{n}] max_total_num_tokens=5000, context_len=4096\n" for n in (0, 2, 5, 7)),
        {"tensor_parallel": 8},
    ),
    "a journal with Chinese months": (
        "2月  2 07:01:10 box ollama[77]: time=2026-02-02T07:01:10Z level=INFO source=server.go:1 msg=\"starting llama server\" "
        'cmd="ollama runner --model /m/blobs/sha256-aa --ctx-size 8192 --parallel 4"\n'
        "2月  2 07:01:12 box ollama[77]: llama_kv_cache_init:        CPU KV buffer size =  1024.00 MiB\n",
        {"engine": "ollama", "context_length": 2048, "kv_pool_tokens": 8192},
    ),
    "the GPU that Ollama found": (
        'time=2026-02-02T07:01:10Z level=INFO source=types.go:1 msg="inference compute" id=GPU-1 library=cuda '
        'name="NVIDIA GeForce RTX 4090" total="23.6 GiB"\n'
        "time=2026-02-02T07:01:11Z level=INFO source=runner.go:1 msg=load request=\"{Operation:commit Parallel:1 "
        'KvSize:4096 KvCacheType:q8_0 }"\n',
        {"gpu": "NVIDIA GeForce RTX 4090", "kv_cache_dtype": "q8_0", "context_length": 4096},
    ),
    "arguments of TGI that lost their first line": (
        '{ model_id: "acme/otter", num_shard: Some(8), max_input_length: 3072, max_total_tokens: 4096, port: 80 }\n'
        "Not enough memory to handle 16000 total tokens with 2 prefill tokens.\n",
        {"model": "acme/otter", "tensor_parallel": 8, "context_length": 4096},
    ),
    "settings of LMDeploy, a line each": (
        "2026-08-05 05:41:03,897 - lmdeploy - WARNING - model_config:\n\n[llama]\nmodel_name = otter\ntensor_para_size = 2\n"
        "session_len = 16384\ncache_max_entry_count = 0.7\ncache_block_seq_len = 64\n"
        "[TM][INFO] [BlockManager] max_block_count = 500\n",
        {
            "tensor_parallel": 2, "memory_fraction": 0.7, "page_size": 64, "context_length": 16384, "kv_pool_tokens": 32000,
        },
    ),
    "LMDeploy without blocks": (
        "[TM][INFO] Object cache budget: 4096 MB from free 5120 MB and ratio 0.8\n",
        {"engine": "lmdeploy", "memory_fraction": 0.8, "kv_pool_tokens": None},
    ),
    "a length that was cut for profiling only": (
        "[10/02/2026-07:00:10] [TRT-LLM] [W] Adjusted max_seq_len to 8224\n"
        "[TensorRT-LLM][INFO] [MemUsageChange] Allocated 0.56 GiB for max tokens in paged KV cache (8224).\n"
        "[10/02/2026-07:00:11] [TRT-LLM] [I] max_seq_len=8224, max_num_requests=64, max_num_tokens=8192\n"
        "[TensorRT-LLM][INFO] Max KV cache blocks per sequence: 4097 [window size=131072], tokens per block=32, "
        "primary blocks=9120, secondary blocks=0, max sequence length=131072\n"
        "[TensorRT-LLM][INFO] [MemUsageChange] Allocated 20.04 GiB for max tokens in paged KV cache (291840).\n"
        "[10/02/2026-07:00:31] [TRT-LLM] [I] max_seq_len=131072, max_num_requests=64, max_num_tokens=8192\n",
        {"context_length": 131072, "served_context": 131072, "kv_pool_tokens": 291840},
    ),
    "a cache type of a fork": (
        "llama_context: n_ctx = 4096\nllama_kv_cache: size = 15.00 MiB (  4096 cells,  62 layers,  1/1 seqs), "
        "K (turbo4):  7.50 MiB, V (turbo4):  7.50 MiB\n",
        {"kv_cache_dtype": "turbo4", "kv_pool_tokens": 4096},
    ),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_form(form: str) -> None:
    text, said = FORMS[form]
    (server,) = read_log(io.BytesIO(text.encode()), "boot.log").servers
    facts = {name: fact.value for name, fact in server.facts() if fact.kind == "observed"}
    assert {name: facts.get(name) for name in said} == said


def test_a_call_in_a_traceback_begins_no_start() -> None:
    reading = read_log(
        io.BytesIO(
            b"INFO 01-02 07:00:09 llm_engine.py:70] Initializing an LLM engine (v0.5.4) with config: model='/models/otter', "
            b"max_seq_len=4096\nINFO 01-02 07:00:19 gpu_executor.py:76] # GPU blocks: 100, # CPU blocks: 512\n"
            b"Traceback (most recent call last):\n    llm = LLM(model='/models/otter')\n"
        ),
        "boot.log",
    )
    assert reading.earlier == ()
    assert reading.servers[0].kv_pool_tokens.value == 1600


@pytest.mark.parametrize(
    "advice",
    [
        "(APIServer pid=7) INFO 10-02 07:01:10 [factories.py:89] Scale-out is disabled. Restart vllm serve with --enable-scale-out.",
        "Restart vllm serve with --enable-scale-out to enable them.",
        "(APIServer pid=7) INFO 10-02 07:01:10 [a.py:1] for example: vllm serve acme/Heron --max-model-len 1024",
    ],
)
def test_advice_of_a_running_engine_is_no_launch(advice: str) -> None:
    log = (
        "(APIServer pid=7) INFO 10-02 07:00:01 [utils.py:1] non-default args: {'model': 'acme/Otter', 'max_model_len': 8192}\n"
        "(EngineCore pid=9) INFO 10-02 07:01:00 [kv_cache_utils.py:1] GPU KV cache size: 70,016 tokens, "
        "Maximum concurrency for 8,192 tokens per request: 8.55x\n"
    )
    reading = read_log(io.BytesIO(f"{log}{advice}\n".encode()), "boot.log")
    assert reading.earlier == ()
    (server,) = reading.servers
    assert (server.model.value, server.kv_pool_tokens.value, server.context_length.value) == ("acme/Otter", 70016, 8192)


def test_memory_that_was_set_by_hand_is_an_amount() -> None:
    text = (
        "(EngineCore pid=3) INFO 10-02 07:37:44 [core.py:9] Initializing a V1 LLM engine (v0.19.0) with config: model='acme/Otter'\n"
        "(EngineCore pid=3) INFO 10-02 07:37:44 [gpu_worker.py:1] Initial free memory 31.16 GiB, reserved 4.25 GiB memory for KV "
        "Cache as specified by kv_cache_memory_bytes config and skipped memory profiling.\n"
    )
    reading = read_log(io.BytesIO(text.encode()), "boot.log")
    assert reading.extras[reading.servers[0].id].kv_gib == 4.25
