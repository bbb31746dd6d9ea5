"""An engine's own configuration file (``vllm serve --config``, ``trtllm-serve --config``) that no command in the tree names."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from typing import Final

from checklistbot.discovery.base import Format
from checklistbot.discovery.recipes import flag_words
from checklistbot.discovery.tree import Tree
from checklistbot.discovery.yaml_docs import Map, settled
from checklistbot.engines._flags import table
from checklistbot.engines.base import Launch, Word

_ENGINES: Final = (
    ("vllm", re.compile(r"vllm")),
    ("sglang", re.compile(r"sglang|(?:^|[/_-])sgl(?:[/_-]|$)")),
    ("tensorrt-llm", re.compile(r"trt-?llm|tensorrt[_-]?llm")),
)
_DECIDES: Final = frozenset(
    [
        "model",
        "model-path",
        "max-model-len",
        "context-length",
        "tensor-parallel-size",
        "tp-size",
        "tp",
        "gpu-memory-utilization",
        "mem-fraction-static",
        "max-seq-len",
        "kv-cache-config",
        "kv-cache-free-gpu-mem-fraction",
        "kv-cache-free-gpu-memory-fraction",
    ]
)
_TRTLLM: Final = frozenset(
    [
        "tp_size",
        "pp_size",
        "ep_size",
        "backend",
        "kv_cache_config",
        "cuda_graph_config",
        "max_batch_size",
        "max_num_tokens",
        "max_seq_len",
        "moe_config",
        "enable_attention_dp",
        "llm_api_args",
        "kv_cache_free_gpu_mem_fraction",
        "print_iter_log",
        "enable_chunked_prefill",
        "speculative_config",
        "trust_remote_code",
        "tensor_parallel_size",
        "pipeline_parallel_size",
        "moe_expert_parallel_size",
        "cache_transceiver_config",
        "disable_overlap_scheduler",
        "stream_interval",
    ]
)


def claims(path: str, body: str) -> bool:
    if (
        not path.endswith((".yaml", ".yml"))
        or "apiVersion" in body
        or re.search(r"^(?:services|run|jobs|backend):\s*$", body, re.MULTILINE)
    ):
        return False
    return any(pattern.search(path.lower()) for _, pattern in _ENGINES)


def launches(tree: Tree, path: str, body: str) -> Iterator[Launch]:
    from checklistbot.discovery import yaml_docs

    roots = yaml_docs.documents(path, body)
    if len(roots) != 1 or not isinstance(roots[0], Map):
        return
    root = roots[0]
    for engine, pattern in _ENGINES:
        if pattern.search(path.lower()) and _is_config(engine, root):
            name = posixpath.basename(path).rpartition(".")[0]
            yield _launch(engine, root, path, body, name)
            return


def _is_config(engine: str, root: Map) -> bool:
    """True if nearly all keys are the engine's flags and one of them decides something."""
    keys = [key.lstrip("-").replace("_", "-") for key in root]
    if not any(key in _DECIDES for key in keys):
        return False
    if engine == "tensorrt-llm":
        known = sum(key.replace("-", "_") in _TRTLLM for key in keys)
    else:
        flags = table(engine)
        known = sum(flags.find("--" + key, None) is not None for key in keys)
    return known * 10 >= len(keys) * 8


def _launch(engine: str, root: Map, path: str, body: str, name: str) -> Launch:
    template = Launch((), path, root.line, name, engine=engine, format="engine-config")
    if engine == "tensorrt-llm":
        from checklistbot.engines.tensorrt_llm import settings

        words = tuple(settings(body, path, 1))
    else:
        words = tuple(settled(word) for word in flag_words(root))
    return Launch(
        words or (Word("--config", path, 1),), template.path, template.line, name, engine=engine, format="engine-config"
    )


FORMAT = Format("engine-config", claims, launches)
