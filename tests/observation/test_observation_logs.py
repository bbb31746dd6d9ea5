"""What a log tells: one case a kind of input, written for this project."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from checklistbot.model import Deployment
from checklistbot.observation.logs import LogReading, open_log, read_log


def reading(text: str, name: str = "boot.log") -> LogReading:
    return read_log(io.BytesIO(text.encode()), name)


def only(text: str, name: str = "boot.log") -> Deployment:
    servers = reading(text, name).servers
    assert len(servers) == 1, [server.id for server in servers]
    return servers[0]


def values(deployment: Deployment) -> dict[str, object]:
    return {name: fact.value for name, fact in deployment.facts() if fact.kind == "observed"}


SGLANG = """\
[2026-10-02 07:00:01] server_args=ServerArgs(model_path='acme/Otter-70B', served_model_name='otter', \
context_length=65536, mem_fraction_static=0.83, tp_size=4, pp_size=1, dp_size=1, page_size=16, \
kv_cache_dtype='auto', disaggregation_mode='prefill', chunked_prefill_size=8192, max_running_requests=None, \
speculative_algorithm=None, speculative_draft_model_path='acme/Otter-draft', api_key='sk-canary-0123456789abcdef')
[2026-10-02 07:01:10 TP0] KV Cache is allocated. dtype: torch.bfloat16, #tokens: 50016, K size: 3.10 GB, V size: 3 GB
[2026-10-02 07:01:12 TP0] KV Cache is allocated. dtype: torch.bfloat16, #tokens: 9999, K size: 0.10 GB, V size: 0 GB
[2026-10-02 07:01:20 TP0] max_total_num_tokens=50016, chunked_prefill_size=8192, max_prefill_tokens=16384, \
max_running_requests=512, context_len=65536, available_gpu_mem=9.10 GB
[2026-10-02 07:01:21] The server is fired up and ready to roll!
"""


def test_sglang_dump_and_summary() -> None:
    server = only(SGLANG)
    assert server.id == "observed/otter/prefill"
    assert (server.line, server.file, server.fits_full_context) == (1, "boot.log", False)
    assert values(server) == {
        "role": "prefill", "engine": "sglang", "model": "acme/Otter-70B", "served_model_name": "otter",
        "context_length": 65536, "served_context": 65536, "kv_pool_tokens": 50016, "page_size": 16,
        "kv_cache_dtype": "bfloat16", "memory_fraction": 0.83, "tensor_parallel": 4, "pipeline_parallel": 1, "data_parallel": 1,
    }  # fmt: skip
    assert server.kv_pool_tokens.source is not None
    assert server.kv_pool_tokens.source.line == 4
    under = server.kv_pool_tokens.observation
    assert under is not None
    assert under.taken_under["memory_fraction"] == 0.83
    assert under.taken_under["speculative"] == "none"
    # 512 is what the scheduler resolved, not what the arguments stated.
    assert "max_running_requests" not in under.taken_under


def test_no_secret_of_a_dump_is_kept() -> None:
    result = reading(SGLANG)
    assert "sk-canary" not in json.dumps([server.to_json() for server in result.servers])


def test_dict_form_of_the_dump_and_nested_keys() -> None:
    server = only(
        "[2026-10-02 07:00:01] server_args={'model_path': 'acme/Otter', 'cuda_graph_config': {'decode': {'bs': 4}}, "
        "'mem_fraction_static': 0.7, 'tp_size': 2, 'disaggregation_mode': 'decode', 'context_length': None}\n"
        "[2026-10-02 07:01:20 TP0] max_total_num_tokens=4096, chunked_prefill_size=-1, max_prefill_tokens=16384, "
        "max_running_requests=8, context_len=4096\n"
    )
    assert values(server)["role"] == "decode"
    assert server.fits_full_context is True


VLLM = """\
(APIServer pid=7) INFO 10-02 07:00:00 [utils.py:299] ▄▄ ▄█ █     █     █ ▀▄▀ █  version 0.21.2
(APIServer pid=7) INFO 10-02 07:00:00 [utils.py:299]   █▄█▀ █     █     █     █  model   acme/Otter-70B
(APIServer pid=7) INFO 10-02 07:00:01 [utils.py:233] non-default args: {'model_tag': 'acme/Otter-70B', \
'model': 'acme/Otter-70B', 'max_model_len': 65536, 'served_model_name': ['otter'], 'tensor_parallel_size': 2, \
'gpu_memory_utilization': 0.88, 'kv_cache_dtype': 'fp8', 'max_num_seqs': 64}
(EngineCore pid=70) INFO 10-02 07:00:20 [core.py:77] Initializing a V1 LLM engine (v0.21.2) with config: \
model='acme/Otter-70B', max_seq_len=65536, tensor_parallel_size=2, kv_cache_dtype=fp8
(Worker_TP0 pid=71) INFO 10-02 07:01:00 [gpu_worker.py:460] Available KV cache memory: 9.50 GiB
(Worker_TP1 pid=72) INFO 10-02 07:01:00 [gpu_worker.py:460] Available KV cache memory: 9.40 GiB
(EngineCore pid=70) INFO 10-02 07:01:01 [kv_cache_utils.py:1713] GPU KV cache size: 70,016 tokens
(EngineCore pid=70) INFO 10-02 07:01:01 [kv_cache_utils.py:1718] Maximum concurrency for 65,536 tokens per request: 1.06x
"""


def test_vllm_start() -> None:
    server = only(VLLM)
    found = values(server)
    assert found["engine_version"] == "0.21.2"
    assert (found["model"], found["served_model_name"]) == ("acme/Otter-70B", "otter")
    assert (found["context_length"], found["kv_pool_tokens"], found["memory_fraction"]) == (65536, 70016, 0.88)
    assert (found["tensor_parallel"], found["kv_cache_dtype"]) == (2, "fp8")
    assert server.fits_full_context is True


def test_the_factor_decides_for_hybrid_models() -> None:
    """Before 0.21 the printed tokens of a hybrid are below its context although a full request fits."""
    assert only(VLLM.replace("70,016 tokens", "12,352 tokens")).fits_full_context is True
    assert only(VLLM.replace("1.06x", "0.97x")).fits_full_context is False


@pytest.mark.parametrize(
    ("line", "tokens"),
    [
        ("GPU KV cache size: 6,969,968 tokens, Maximum concurrency for 262,144 tokens per request: 26.59x", 6969968),
        ("GPU + host KV cache size: 300,000 tokens, Maximum concurrency for 262,144 tokens per request: 1.14x", 300000),
        ("# GPU blocks: 20000, # CPU blocks: 2048\nMaximum concurrency for 262144 tokens per request: 1.22x", 320000),
        ("# cuda blocks: 40000, # CPU blocks: 0\nMaximum concurrency for 262144 tokens per request: 1.22x", 320000),
    ],
)
def test_vllm_pool_lines(line: str, tokens: int) -> None:
    server = only(line + "\n")
    assert server.kv_pool_tokens.value == tokens
    assert server.context_length.value == 262144
    assert server.fits_full_context is True


def test_vllm_workers_of_one_process_are_ranks_and_the_smallest_counts() -> None:
    lines = "".join(
        f"INFO 04-25 10:00:0{i} [kv_cache_utils.py:634] GPU KV cache size: {tokens} tokens\n"
        f"INFO 04-25 10:00:0{i} [kv_cache_utils.py:637] Maximum concurrency for 8,192 tokens per request: {x}x\n"
        for i, (tokens, x) in enumerate([("538,880", "65.78"), ("520,256", "63.51")])
    )
    result = reading(lines)
    assert len(result.servers) == 1
    assert not result.earlier
    assert result.servers[0].kv_pool_tokens.value == 520256
    assert result.servers[0].kv_pool_tokens.per_rank == (538880, 520256)


def test_sglang_ranks_of_one_start() -> None:
    lines = "".join(
        f"[2026-10-02 07:01:20 DP{i} TP0] max_total_num_tokens={pool}, chunked_prefill_size=8192, "
        "max_prefill_tokens=16384, max_running_requests=512, context_len=65536\n"
        for i, pool in enumerate([90000, 64000])
    )
    server = only(lines)
    assert (server.kv_pool_tokens.value, server.fits_full_context) == (64000, False)
    assert server.kv_pool_tokens.per_rank == (90000, 64000)
    assert server.data_parallel.value == 2


def test_latest_start_counts_and_earlier_ones_are_reported() -> None:
    again = SGLANG.replace("07:0", "09:1").replace("50016", "80016")
    result = reading(SGLANG + "Killed\n" + again)
    assert [server.kv_pool_tokens.value for server in result.servers] == [80016]
    assert [server.kv_pool_tokens.value for server in result.earlier] == [50016]
    assert result.servers[0].line == 7
    assert result.extras[result.servers[0].id].earlier_starts == 1


def test_a_start_that_does_not_come_far_hides_the_pool_of_the_one_before() -> None:
    result = reading(SGLANG + SGLANG.splitlines()[0].replace("07:00", "09:00") + "\n")
    assert result.servers[0].kv_pool_tokens.value is None
    assert result.servers[0].fits_full_context is None
    assert result.earlier[0].kv_pool_tokens.value == 50016


def test_a_command_shown_below_its_log_is_the_same_start() -> None:
    pool = VLLM.splitlines()[-2:]
    text = "\n".join(pool) + "\n\nI started it with\n\nvllm serve acme/Otter-70B --gpu-memory-utilization 0.93 -tp 2\n"
    result = reading(text)
    assert values(result.servers[0])["kv_pool_tokens"] == 70016
    assert values(result.servers[0])["memory_fraction"] == 0.93
    assert not result.earlier


FATAL = (
    "ValueError: To serve at least one request with the model's max seq len (100000), (4.26 GiB KV cache is needed, which is "
    "larger than the available KV cache memory (4.25 GiB). Based on the available memory, the estimated maximum model "
    "length is 99728. Try increasing `gpu_memory_utilization` or decreasing `max_model_len` when initializing the engine."
)


def test_fatal_with_amounts() -> None:
    result = reading(f"(EngineCore pid=3) {FATAL}\n")
    server = result.servers[0]
    assert (server.context_length.value, server.kv_pool_tokens.value, server.fits_full_context) == (100000, None, False)
    extras = result.extras[server.id]
    assert (extras.needed_gib, extras.kv_gib, extras.estimated_max_context) == (4.26, 4.25, 99728)


@pytest.mark.parametrize("width", [80, 97, 120])
def test_fatal_wrapped_by_a_terminal(width: int) -> None:
    text = f"(EngineCore pid=3) {FATAL}"
    folded = "\n".join(text[at : at + width] for at in range(0, len(text), width))
    result = reading("(EngineCore pid=3)     raise ValueError(\n" + folded + "\n")
    assert len(result.servers) == 1
    extras = result.extras[result.servers[0].id]
    assert (extras.needed_gib, extras.kv_gib) == (4.26, 4.25)


def test_success_after_a_refused_start() -> None:
    result = reading(
        f"{FATAL}\n\nThen with less:\nGPU KV cache size: 99,728 tokens\n"
        "Maximum concurrency for 98,304 tokens per request: 1.01x\n"
    )
    assert result.servers[0].fits_full_context is True
    assert result.servers[0].context_length.value == 98304
    assert result.earlier[0].fits_full_context is False


def test_older_fatal_line_gives_the_pool() -> None:
    server = only(
        "ValueError: The model's max seq len (29000) is larger than the maximum number of tokens that can be stored in KV "
        "cache (23648). Try increasing `gpu_memory_utilization` or decreasing `max_model_len`.\n"
    )
    assert (server.context_length.value, server.kv_pool_tokens.value, server.fits_full_context) == (29000, 23648, False)


PREFIXES = {
    "compose": "vllm-1  | ",
    "kubectl": "[pod/otter-6f7d9c8b5d-x2x4z/server] ",
    "cri": "2026-10-02T07:01:20.123456789Z stderr F ",
    "docker": "2026-10-02T07:01:20.123456789Z ",
    "journal": "Oct 02 07:01:20 node7 otter[991]: ",
    "journal-iso": "2026-10-02T07:01:20+0000 node7 otter[991]: ",
    "stern": "otter-6f7d9c8b5d-x2x4z server ",
    "numbered": "   17\t",
    "ray": "(RayWorkerWrapper pid=41262, ip=10.0.0.1) ",
    "serve": "(ServeReplica:default:LLMServer:otter pid=41262) ",
    "quote": "> ",
    "notebook": "    ",
    "colour": "\x1b[36m",
    "slurm": "0: ",
}


@pytest.mark.parametrize("kind", PREFIXES)
@pytest.mark.parametrize("log", [SGLANG, VLLM], ids=["sglang", "vllm"])
def test_prefixes(kind: str, log: str) -> None:
    server = only("".join(PREFIXES[kind] + line + "\n" for line in log.splitlines()))
    plain = only(log)
    assert values(server) == values(plain)
    assert server.fits_full_context == plain.fits_full_context


@pytest.mark.parametrize(
    "wrap",
    [
        lambda line: {"log": line + "\n", "stream": "stderr", "time": "2026-10-02T07:01:20Z"},
        lambda line: {"message": line, "kubernetes": {"pod_name": "otter-0", "container_name": "server"}},
        lambda line: {"MESSAGE": line, "_SYSTEMD_UNIT": "otter.service"},
    ],
)
def test_json_lines(wrap) -> None:  # type: ignore[no-untyped-def]
    server = only("".join(json.dumps(wrap(line)) + "\n" for line in SGLANG.splitlines()))
    assert values(server) == values(only(SGLANG))


def test_two_servers_interleaved() -> None:
    left = [f"sglang-prefill-1  | {line}" for line in SGLANG.splitlines()]
    right = [f"vllm-1            | {line}" for line in VLLM.splitlines()]
    mixed = [line for pair in zip(left, right, strict=False) for line in pair] + right[len(left) :] + left[len(right) :]
    servers = {server.name: server for server in reading("\n".join(mixed) + "\n").servers}
    assert servers.keys() == {"sglang-prefill-1", "vllm-1"}
    assert values(servers["sglang-prefill-1"]) == values(only(SGLANG))
    assert values(servers["vllm-1"]) == values(only(VLLM))


def test_a_pair_in_one_stream_without_names_is_ambiguous() -> None:
    """Whose pool the summary is cannot be told, so neither role gets it."""
    dumps = [
        SGLANG.splitlines()[0],
        SGLANG.splitlines()[0].replace("prefill", "decode").replace("07:00:01", "07:00:02"),
    ]
    result = reading(
        "\n".join([*dumps, SGLANG.splitlines()[3], SGLANG.splitlines()[3].replace("50016", "90016")]) + "\n"
    )
    assert [server.role.value for server in result.servers] == ["prefill", "decode"]
    for server in result.servers:
        assert (server.context_length.value, server.kv_pool_tokens.value, server.fits_full_context) == (
            65536,
            None,
            None,
        )
        assert server.kv_pool_tokens.unknown is not None
        assert server.kv_pool_tokens.unknown.why == "ambiguous"
    assert not result.earlier


def test_two_engines_with_pids_in_one_stream() -> None:
    lines = "".join(
        f"(EngineCore_DP0 pid={pid}) INFO 11-20 10:00:0{i} [kv_cache_utils.py:1229] GPU KV cache size: {tokens} tokens\n"
        f"(EngineCore_DP0 pid={pid}) INFO 11-20 10:00:0{i} [kv_cache_utils.py:1234] Maximum concurrency for {length} tokens "
        f"per request: {factor}x\n"
        for i, (pid, tokens, length, factor) in enumerate(
            [(100, "150,000", "40,960", 3.66), (200, "50,000", "8,192", 6.10)]
        )
    )
    result = reading(lines)
    pools = [(server.kv_pool_tokens.value, server.context_length.value) for server in result.servers]
    assert pools == [(150000, 40960), (50000, 8192)]
    assert len({server.id for server in result.servers}) == 2
    later = reading(lines.replace("10:00:01", "10:07:01"))
    assert [(s.kv_pool_tokens.value, s.context_length.value) for s in later.servers] == [(50000, 8192)]
    assert [s.kv_pool_tokens.value for s in later.earlier] == [150000]


def test_ids_of_equal_servers_differ() -> None:
    text = "".join(f"[pod/otter-{i}/server] {line}\n" for line in VLLM.splitlines() for i in (0, 1))
    ids = [server.id for server in reading(text).servers]
    assert ids == ["observed/otter/unified@otter-0/server", "observed/otter/unified@otter-1/server"]


def test_role_from_the_name_of_the_container_or_file() -> None:
    assert only(VLLM, "logs/otter-decode.log").role.value == "decode"
    assert only("".join(f"otter-prefill-0  | {line}\n" for line in VLLM.splitlines())).role.value == "prefill"
    assert only(VLLM).role.kind == "default"


def test_glued_to_a_progress_bar_and_carriage_returns() -> None:
    summary = SGLANG.splitlines()[3]
    server = only(
        f"Capturing batches:   0%|   | 0/5 [00:00<?, ?it/s]\rCapturing:  20%|█  | 1/5 [00:01<?, ?it/s]{summary}\n"
    )
    assert server.kv_pool_tokens.value == 50016


def test_summary_wrapped_at_commas() -> None:
    server = only(
        "[TP0] max_total_num_tokens=484032, chunked_prefill_size=4096,\nmax_prefill_tokens=16384, max_running_requests=6,\n"
        "context_len=262144, available_gpu_mem=19.86 GB\n"
    )
    assert (server.kv_pool_tokens.value, server.context_length.value) == (484032, 262144)


def test_sliding_window_pool_is_not_the_full_pool() -> None:
    server = only(
        "[2026-01-31 13:50:39 TP0] Use sliding window memory pool. full_layer_tokens=375360, swa_layer_tokens=300288\n"
        "[2026-01-31 13:50:39 TP0] KV Cache is allocated. #tokens: 300288, K size: 8.38 GB, V size: 5.59 GB\n"
    )
    assert server.kv_pool_tokens.value == 375360


def test_cap_above_the_profiled_pool() -> None:
    server = only("[2026-01-31 13:50:39 TP0] max_total_tokens=1048576 is larger than the profiled value 579894.\n")
    assert server.kv_pool_tokens.value == 579894


def test_negative_pool_is_no_pool() -> None:
    server = only(
        "Use sliding window memory pool. full_layer_tokens=-40934, swa_layer_tokens=-32747\n"
        "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.\n"
    )
    assert (server.kv_pool_tokens.value, server.memory_fraction.value, server.fits_full_context) == (None, None, False)


def test_virtual_upper_bound_is_no_pool() -> None:
    text = "[2026-09-01 10:00:00 TP0] KV Cache VA upper bound. dtype: torch.bfloat16, #tokens: 9000000, K size: 1 GB, V size: 1 GB\n"
    assert only(SGLANG + text).kv_pool_tokens.value == 50016
    assert all(server.kv_pool_tokens.value is None for server in reading(text).servers)


def test_amounts_in_gigabytes_stay_amounts() -> None:
    result = reading(
        "INFO 02-14 02:38:02 worker.py:267] the current vLLM instance can use total_gpu_memory (79.33GiB) x "
        "gpu_memory_utilization (0.90) = 71.39GiB\nINFO 02-14 02:38:02 worker.py:267] model weights take 9.69GiB; "
        "the rest of the memory reserved for KV Cache is 57.48GiB.\n"
    )
    server = result.servers[0]
    assert (server.kv_pool_tokens.value, server.memory_fraction.value, server.fits_full_context) == (None, 0.9, None)
    assert result.extras[server.id].kv_gib == 57.48


def test_launch_commands() -> None:
    server = only(
        "python3 -m sglang.launch_server \\\n  --model-path acme/Otter \\\n  --tp 8 --context-length 128K \\\n"
        "  --mem-fraction-static 0.85\n[2026-10-02 07:01:20 TP0] KV Cache is allocated. #tokens: 9000, KV size: 1.00 GB\n"
    )
    found = values(server)
    assert (found["model"], found["tensor_parallel"], found["context_length"]) == ("acme/Otter", 8, 131072)
    assert server.fits_full_context is False


def test_argument_list_with_comments() -> None:
    server = only(
        "    args:\n      - --model\n      - /models/otter\n      # leave this alone, see the wiki\n      - --max-model-len\n"
        '      - "8192"\n      - --gpu-memory-utilization\n      - "0.9"\n'
        "      # GPU KV cache size: 9,000 tokens, maximum concurrency for 8,192 tokens per request: 1.09x\n"
    )
    found = values(server)
    assert (found["model"], found["context_length"], found["memory_fraction"]) == ("/models/otter", 8192, 0.9)
    assert found["kv_pool_tokens"] == 9000


OTHERS = {
    "tgi": (
        '2026-05-07T12:39:20.807178Z  INFO text_generation_launcher: Args {\n    model_id: "acme/Otter",\n    num_shard: Some(\n'
        "        2,\n    ),\n    max_total_tokens: Some(\n        4096,\n    ),\n}\n"
        "2026-05-07T12:39:22.1Z  INFO text_generation_router: router/src/main.rs:354: Setting max batch total tokens to 80156\n",
        {"engine": "tgi", "model": "acme/Otter", "tensor_parallel": 2, "context_length": 4096, "kv_pool_tokens": 80156},
        True,
    ),
    "tensorrt-llm": (
        "[TensorRT-LLM][INFO] [MemUsageChange] Allocated 9.00 GiB for max tokens in paged KV cache (90000).\n"
        "[TensorRT-LLM][INFO] Max KV cache blocks per sequence: 64 [window size=2048], tokens per block=32, primary "
        "blocks=2000, secondary blocks=0, max sequence length=2048\n"
        "[TensorRT-LLM][INFO] [MemUsageChange] Allocated 6.40 GiB for max tokens in paged KV cache (64000).\n",
        {"engine": "tensorrt-llm", "context_length": 2048, "kv_pool_tokens": 64000, "page_size": 32},
        True,
    ),
    "lmdeploy": (
        "[TM][INFO] [BlockManager] max_block_count = 1740\n"
        "[TM][WARNING] No enough blocks for `session_len` (131072), `session_len` truncated to 111360.\n",
        {"engine": "lmdeploy", "context_length": 131072, "served_context": 111360, "kv_pool_tokens": 111360, "page_size": 64},
        False,
    ),
    "llama.cpp": (
        "llama_context: n_seq_max     = 4\nllama_context: n_ctx         = 32768\nllama_context: n_ctx_seq     = 8192\n"
        "llama_context: n_ctx_seq (8192) < n_ctx_train (131072) -- the full capacity of the model will not be utilized\n"
        "llama_kv_cache: size = 4096.00 MiB ( 32768 cells,  32 layers,  4/4 seqs), K (q8_0): 2048.00 MiB, V (q8_0): 2048.00 MiB\n"
        "srv    load_model: initializing, n_slots = 4, n_ctx_slot = 8192, kv_unified = 'false'\n",
        {"engine": "llama.cpp", "context_length": 8192, "kv_pool_tokens": 32768, "kv_cache_dtype": "q8_0"},
        True,
    ),
    "ollama": (
        'time=2026-01-16T04:29:50.909Z level=INFO source=server.go:393 msg="starting llama server" cmd="/usr/bin/ollama runner '
        '--model /m --ctx-size 16384 --batch-size 512 --parallel 4"\n'
        "llama_init_from_model: n_ctx         = 16384\n"
        "llama_kv_cache_init: kv_size = 16384, offload = 1, type_k = 'f16', type_v = 'f16', n_layer = 24, can_shift = 1\n",
        {"engine": "ollama", "context_length": 4096, "kv_pool_tokens": 16384, "kv_cache_dtype": "f16"},
        True,
    ),
}  # fmt: skip


@pytest.mark.parametrize("engine", OTHERS)
def test_other_engines(engine: str) -> None:
    text, expected, fits = OTHERS[engine]
    server = only(text)
    assert {name: value for name, value in values(server).items() if name in expected} == expected
    assert server.fits_full_context is fits


def test_dumps_of_one_engine_are_not_anothers() -> None:
    lines = (
        "INFO 06-10 10:00:00 llm_engine.py:161] Initializing an LLM engine (v0.4.3) with config: model='acme/Otter', "
        "max_seq_len=8192, tensor_parallel_size=1, kv_cache_dtype=auto, served_model_name=acme/Otter)\n"
        "INFO 06-10 10:00:30 gpu_executor.py:83] # GPU blocks: 27959, # CPU blocks: 2048\n"
    )
    server = only(lines)
    assert (server.engine.value, server.kv_pool_tokens.value, server.context_length.value) == ("vllm", 447344, 8192)


def test_gpu_from_the_name_of_a_kernel_configuration() -> None:
    path = "/x/configs/N=4096,K=512,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[128, 128].json"
    server = only(SGLANG + f"[2026-10-02 07:01:25 TP0] Using configuration from {path} for W8A8 Block FP8 kernel.\n")
    assert server.gpu.value == "NVIDIA H200"
    assert server.kv_pool_tokens.observation is not None
    assert server.kv_pool_tokens.observation.taken_under["gpu"] == "NVIDIA H200"


def test_oldest_sglang_lines() -> None:
    server = only(
        "server_args=ServerArgs(model_path='acme/Otter', tp_size=1, mem_fraction_static=0.88, context_length=None)\n"
        "[gpu=0] Load weight begin. avail mem=78.58 GB\n[gpu=0] Memory pool end. avail mem=10.23 GB\n"
        "[gpu=0] max_total_num_tokens=455122, max_prefill_tokens=16384, max_running_requests=7111, context_len=32768\n"
    )
    assert (server.kv_pool_tokens.value, server.memory_fraction.value, server.model.value) == (
        455122,
        0.88,
        "acme/Otter",
    )


def test_further_nodes_of_a_server_are_no_servers() -> None:
    lines = [
        f"[pod/otter-{pod}/sglang] [2026-01-01 10:00:0{rank}] server_args=ServerArgs(model_path='acme/Otter', nnodes=2, "
        f"node_rank={rank}, tp_size=16, mem_fraction_static=0.8)\n"
        f"[pod/otter-{pod}/sglang] [2026-01-01 10:02:00 TP{8 * rank}] KV Cache is allocated. #tokens: 5000, KV size: 1.00 GB\n"
        for rank, pod in enumerate(["0", "0-1"])
    ]
    assert only("".join(lines)).name == "otter-0/sglang"


def test_a_command_is_one_start() -> None:
    result = reading(
        "docker run --gpus all vllm/vllm-openai:v0.11.2 \\\n  --model acme/Otter --max-model-len 40960 \\\n  --kv-cache-dtype fp8\n"
        "(EngineCore_DP0 pid=100) INFO 11-20 10:00:00 [kv_cache_utils.py:1229] GPU KV cache size: 150,000 tokens\n"
    )
    assert not result.earlier
    assert values(result.servers[0])["engine_version"] == "0.11.2"


def test_quoted_in_a_table() -> None:
    server = only(
        "| GPU KV cache size | **123,456** tokens |\n| Maximum concurrency for 32,768 tokens per request | 3.77x |\n"
    )
    assert (server.kv_pool_tokens.value, server.context_length.value) == (123456, 32768)


def test_utf_16(tmp_path: Path) -> None:
    path = tmp_path / "boot.log"
    path.write_text(VLLM, encoding="utf-16")
    assert values(open_log(str(path)).servers[0])["kv_pool_tokens"] == 70016


def test_nothing_is_made_of_nothing() -> None:
    assert reading("").servers == ()
    assert reading("GET /v1/models 200\nhello world model version 3\n").servers == ()
