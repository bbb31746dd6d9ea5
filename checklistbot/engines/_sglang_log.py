"""SGLang's log lines → facts (versions 0.2 to 0.5.23).

The summary line is the word that counts: the final pool, per scheduler. Allocation lines are printed for draft and
sliding-window pools too, so they count only where nothing better is said, and of a rank only the first (the target
model allocates before its draft).
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping
from typing import Final

from checklistbot.engines._log import (
    FOLLOWS,
    LogGrammar,
    Notes,
    Reader,
    Record,
    Said,
    device,
    dtype_of,
    fraction,
    human,
    name_of,
    pool_fits,
    read_flags,
    settle_ranks,
    whole,
)
from checklistbot.lazy import pattern

_SUMMARY = pattern(r"(?<![\w.])max_total_num_tokens[`*'\"]{0,3}\s?[=:]\s?[`*]{0,3}(-?\d[\d,]{0,20})")
_ALLOCATED = pattern(r"KV Cache (?:is )?allocated[.:]? ?(?:dtype: ([\w.]{1,40}), )?#tokens:? (\d[\d,]{0,20})")
_SLIDING = pattern(
    r"Use [Ss]liding window memory pool(?: \(all SWA\))?\. "
    r"(?:full_layer_tokens=(-?\d{1,15}), )?swa_layer_tokens=(-?\d{1,15})"
)
_SWA_POOL = pattern(r"SWAKVPool mem usage: [\d.]{1,20} GB, swa size: \d{1,15}, full size: (\d{1,15})")
_DSV4_SIZES = pattern(r"DS[Vv]4 pool sizes: full=(\d{1,15}), swa=\d{1,15}")
_DSV4_CALCULATION = pattern(r"(?<![\w.])full_token=(\d{1,15})(?![\d.])")
_POST_CAPTURE = pattern(
    r"Post-capture KV sizing: (draft )?KV cache allocated\. dtype: ([\w.]{1,40}), #tokens: (\d{1,15})"
)
_NO_OP = pattern(r"KV Cache skipped \(no-op pool\)\. Logical #tokens: (\d{1,15})")
_HOLDS = pattern(r"KV pool holds (\d{1,15}) tokens, fewer than --context-length (\d{1,15})")
_CAPPED = pattern(r"max_total_tokens=(\d{1,15}) is larger than the profiled value (\d{1,15})")
_SCHEDULER = pattern(
    r"Got total KV blocks from scheduler: \d{1,12} \(max_total_tokens=(\d{1,15}), page_size=(\d{1,6})\)"
)
_PAGE = pattern(r"[Ss]etting page[ _]size ?(?:to |= ?)(\d{1,6})")
_DTYPE = pattern(r"Using KV cache dtype: ([\w.]{1,40})")
_FATAL = (
    "Not enough memory. Please try to increase --mem-fraction-static", "Not enough GPU memory for hybrid",
    "Loaded weights leave no GPU memory for the KV cache", "Not enough memory. Please try to increase",
    "is too small to serve", "SWA pool is too small",
)  # fmt: skip
_PAIR = pattern(
    r"(?<![\w.-])['\"]?([a-z][a-z_]{2,60})['\"]?\s?(?:=|: )\s?"
    r"('[^'\\]{0,2048}'|\"[^\"\\]{0,2048}\"|None|True|False|-?\d[\d.]{0,30}(?:e-?\d{1,3})?|[\w./:-]{1,512})"
)
_PARALLEL_LABEL = pattern(r"\((TP|DPA?|PP)(\d{1,4})\)")
_VERSION = pattern(
    r"(?<![\w./-])(?:lmsysorg/)?(?i:sglang)(?:[ _](?i:version))?(?:==|[:*` =]{1,5})v?"
    r"(\d{1,2}\.\d{1,3}\.\d{1,3}[\w.+-]{0,60})"
)
_MODEL = pattern(r"(?:Tokenizer for|Found local HF snapshot for) ([\w./-]{2,512})(?: is still| at )")
#: Keys that no other engine's arguments have, and dumps that are another engine's.
_OWN_KEYS = ("mem_fraction_static", "disaggregation_mode", "tp_size", "dp_size", "context_len=")
_NOT_OURS = ("LLM engine (v", "Namespace(", "default args", "EngineConfig(", "CacheConfig(", "Args {")
_LAUNCH = ("launch_server", "sglang serve", "sglang.bench", "dynamo.sglang")
#: What SGLang prints beside the lines with values; they tell whose log this is.
_SEEN = (
    "Load weight begin", "Load weight end", "Memory pool end", "Capture cuda graph",
    "Capture target decode CUDA graph", "The server is fired up and ready to roll", "Prefill batch",
    "Decode batch", "Tree cache initialized", "Mamba Cache is allocated",
)  # fmt: skip


def _role(text: str) -> str | None:
    return {"prefill": "prefill", "decode": "decode", "null": "unified", "None": "unified"}.get(text)


def _positive(text: str) -> int | None:
    value = human(text)
    return value if value is not None and value > 0 else None


def _algorithm(text: str) -> str | None:
    return "none" if text in ("None", "null") else name_of(text)


#: Key of the argument dump → (what it says, how to read it).
_ARGUMENTS: Final[Mapping[str, tuple[str, Reader]]] = {
    "model_path": ("model", name_of),
    "served_model_name": ("served_model_name", name_of),
    "context_length": ("context_length", _positive),
    "context_len": ("context_length", _positive),
    "mem_fraction_static": ("memory_fraction", fraction),
    "page_size": ("page_size", _positive),
    "kv_cache_dtype": ("kv_cache_dtype", dtype_of),
    "tp_size": ("tensor_parallel", _positive),
    "pp_size": ("pipeline_parallel", _positive),
    "dp_size": ("data_parallel", _positive),
    "dcp_size": ("decode_context_parallel", _positive),
    "disaggregation_mode": ("role", _role),
    "node_rank": ("node_rank", whole),
    "max_total_tokens": ("cap", _positive),
    "chunked_prefill_size": ("chunked_prefill_size", whole),
    "max_running_requests": ("max_running_requests", _positive),
    "speculative_algorithm": ("speculative", _algorithm),
}
_FLAGS: Final[Mapping[str, tuple[str, Reader]]] = {
    "model-path": ("model", name_of),
    "model": ("model", name_of),
    "served-model-name": ("served_model_name", name_of),
    "context-length": ("context_length", _positive),
    "mem-fraction-static": ("memory_fraction", fraction),
    "max-total-tokens": ("cap", _positive),
    "page-size": ("page_size", _positive),
    "kv-cache-dtype": ("kv_cache_dtype", dtype_of),
    "tp-size": ("tensor_parallel", _positive),
    "tensor-parallel-size": ("tensor_parallel", _positive),
    "tp": ("tensor_parallel", _positive),
    "pp-size": ("pipeline_parallel", _positive),
    "pipeline-parallel-size": ("pipeline_parallel", _positive),
    "dp-size": ("data_parallel", _positive),
    "dp": ("data_parallel", _positive),
    "data-parallel-size": ("data_parallel", _positive),
    "attn-dp-size": ("data_parallel", _positive),
    "dcp-size": ("decode_context_parallel", _positive),
    "decode-context-parallel-size": ("decode_context_parallel", _positive),
    "disaggregation-mode": ("role", _role),
    "chunked-prefill-size": ("chunked_prefill_size", whole),
    "max-running-requests": ("max_running_requests", _positive),
    "speculative-algorithm": ("speculative", _algorithm),
    "speculative-algo": ("speculative", _algorithm),
}


def _arguments(text: str, strength: int) -> Iterator[Said]:
    """Key–value pairs of the dump (dataclass or dict form), of a bullet list or of another line; the first of a key
    counts."""
    done: set[str] = set()
    for match in _PAIR.finditer(text):
        name, value = match[1], match[2].strip("'\"").rstrip(".")
        if name not in _ARGUMENTS or name in done:
            continue
        done.add(name)
        key, reader = _ARGUMENTS[name]
        found = None if value == "None" and key not in ("speculative", "role") else reader(value)
        if found is not None:
            yield Said(key, found, strength)


def _summary(text: str) -> Iterator[Said]:
    match = _SUMMARY.search(text)
    if match is None:
        return
    pool = whole(match[1])
    derived = text[: match.start()].rstrip().endswith("->")
    if pool is not None and pool > 0:
        yield Said("kv_pool_tokens", pool, 40 if derived else 90)
        if derived:
            yield from (said for said in _arguments(text[: match.start()], 30) if said.key == "page_size")
    if not derived:
        # The line prints what the scheduler resolved; as an input it counts less than what the arguments stated.
        for said in _arguments(text[match.end() :], 80):
            yield said if said.key == "context_length" else Said(said.key, said.value, 20)
        for label in _PARALLEL_LABEL.finditer(text[: match.start()]):
            key = {"TP": "tensor_parallel", "PP": "pipeline_parallel"}.get(label[1], "data_parallel")
            yield Said(key, int(label[2]), 30)


def _pools(text: str) -> Iterator[Said]:
    if match := _ALLOCATED.search(text):
        if "draft" not in text[max(0, match.start() - 60) : match.start()].lower():
            yield Said("kv_pool_tokens", whole(match[2]) or 0, 50, first=True)
            if match[1]:
                yield Said("kv_cache_dtype", dtype_of(match[1]) or "", 65, first=True)
    elif match := _SLIDING.search(text):
        tokens = int(match[1] or match[2])
        if tokens > 0:
            yield Said("kv_pool_tokens", tokens, 60)
    elif match := _SWA_POOL.search(text):
        yield Said("kv_pool_tokens", int(match[1]), 60, first=True)
    elif match := _DSV4_SIZES.search(text):
        yield Said("kv_pool_tokens", int(match[1]), 65)
    elif text.startswith(("DSV4 memory calculation", "DSv4 memory calculation")):
        if match := _DSV4_CALCULATION.search(text):
            yield Said("kv_pool_tokens", int(match[1]), 45)
    elif match := _POST_CAPTURE.search(text):
        if not match[1]:
            yield Said("kv_pool_tokens", int(match[3]), 70)
    elif match := _NO_OP.search(text):
        yield Said("kv_pool_tokens", int(match[1]), 50, first=True)
    elif match := _HOLDS.search(text):
        yield Said("kv_pool_tokens", int(match[1]), 88)
        yield Said("context_length", int(match[2]), 78)
    elif match := _SCHEDULER.search(text):
        yield Said("kv_pool_tokens", int(match[1]), 75)
        yield Said("page_size", int(match[2]), 66)
    elif match := _CAPPED.search(text):
        yield Said("cap", int(match[1]), 60)
        yield Said("kv_pool_tokens", int(match[2]), 62)


def _other(text: str) -> Iterator[Said]:
    if match := _PAGE.search(text):
        yield Said("page_size", int(match[1]), 70)
    if match := _DTYPE.search(text):
        yield Said("kv_cache_dtype", dtype_of(match[1]) or "", 70, first=True)
    yield from device(text)
    if any(words in text for words in _FATAL):
        yield Said("fatal", "no-memory")
    if match := _VERSION.search(text):
        yield Said("engine_version", match[1].rstrip(".-"), 50)
    if match := _MODEL.search(text):
        yield Said("model", match[1], 30)
    if "fired up and ready to roll" in text:
        yield Said("ready", True)
    elif any(words in text for words in _SEEN):
        yield Said("seen", True)


def _read(record: Record) -> Iterator[Said]:
    text = record.text
    at = text.find("server_args")
    if at >= 0 and text[at + 11 : at + 12] in ("=", ":", " ") and ".py" not in text[at : at + 15]:
        yield Said("boot", "server_args")
        yield from _arguments(text[at + 11 :], 60)
        return
    if any(word in text for word in _LAUNCH) or "--mem-fraction-static" in text or "--disaggregation-mode" in text:
        if any(word in text for word in _LAUNCH):
            yield Said("boot", "command")
            yield Said("command", True)
        if "Raise --mem-fraction-static" not in text and "increase --mem-fraction-static" not in text:
            yield from read_flags(text, _FLAGS)
    if "max_total_num_tokens" in text:
        yield from _summary(text)
    elif "tokens" in text or "full_token=" in text or "full size" in text or "sizes: full" in text:
        yield from _pools(text)
    elif "=" in text[:200] and "Error" not in text and not any(words in text for words in _NOT_OURS):
        own = any(key in text for key in _OWN_KEYS)
        yield from (dataclasses.replace(said, claims=own) for said in _arguments(text, 35))
    yield from _other(text)


def _settle(notes: Notes) -> None:
    """Parallel sizes from ranks; a command without a TP flag whose server prints no other rank than TP0 runs on one
    GPU."""
    settle_ranks(notes)
    alone = not any(re.search(r"TP[1-9]", rank) for rank in notes.ranks)
    if alone and notes.has("command") and notes.has("kv_pool_tokens") and not notes.has("tensor_parallel"):
        notes.add(Said("tensor_parallel", 1, FOLLOWS), notes.first_line, "")


LOG: Final = LogGrammar(
    engine="sglang",
    anchors=(
        b"max_total_num_tokens", b"server_args",
    ),
    values=(
        b"KV Cache ", b"layer_tokens=", b"KV pool ", b"ot enough ", b"weights leave no",
        b"Post-capture KV sizing", b"profiled value",
    ),
    colour=(
        b"device_name=",
        b"DSV4 ", b"DSv4 ", b"SWAKVPool ", b"etting page", b"Using KV cache dtype", b"launch_server", b"sglang",
        b"SGLang", b"--mem-fraction-static", b"--disaggregation-mode", b"mem_fraction_static",
        b"disaggregation_mode", b"tp_size", b"context_length", b"context_len=", b"kv_cache_dtype",
        b"Load weight ", b"Memory pool end", b"Capture cuda graph", b"CUDA graph end", b"fired up and ready",
        b"Tree cache initialized", b"Mamba Cache is allocated",
        b"ServerArgs", b"from scheduler: ", b"Tokenizer for ", b"local HF snapshot",
    ),
    read=_read,
    fits=pool_fits,
    settle=_settle,
)  # fmt: skip
