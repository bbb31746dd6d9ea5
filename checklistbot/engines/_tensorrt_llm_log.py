"""TensorRT-LLM's log lines → facts (0.5 to 1.x, ``trtllm-serve``, Triton back end, Dynamo).

The cache is sized twice, for profiling and for good; the last line counts. The engine shrinks ``max_seq_len`` to
the pool by itself: what was asked for is the context, what is left is the served context.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from checklistbot.engines._log import (
    Entry,
    LogGrammar,
    Notes,
    Reader,
    Record,
    Said,
    dtype_of,
    flags,
    fraction,
    name_of,
    pool_fits,
    read_flags,
    whole,
)
from checklistbot.lazy import pattern as lazy_pattern

_ALLOCATED = lazy_pattern(r"Allocated ([\d.]{1,12}) GiB for max tokens in paged KV cache \((\d{1,15})\)")
_USING = lazy_pattern(r"Using (\d{1,15}) tokens in paged KV cache")
_MAX_TOKENS = lazy_pattern(r"Max tokens in paged KV cache: (\d{1,15})\.")
_BYTES = lazy_pattern(r"Allocate (\d{1,18}) bytes for k/v cache")
_CAPACITY = lazy_pattern(r"total_kv_blocks=(\d{1,12}), kv_cache_block_size=(\d{1,6}), max_kv_tokens=(\d{1,15})")
_PER_BLOCK = lazy_pattern(r"(?:Number of )?tokens per block(?:: |=)(\d{1,6})")
_PRIMARY = lazy_pattern(r"primary blocks=(\d{1,12})|blocks in KV cache primary pool: (\d{1,12})")
_SEQUENCE = lazy_pattern(r"max sequence length=(\d{1,12})")
_MAX_SEQ_LEN = lazy_pattern(r"(?<![\w.])max_seq_len=(\d{1,12}), max_num_(?:requests|tokens)=")
_SEQUENCE_LEN = lazy_pattern(r"maxSequenceLen: (\d{1,12})")
_ADJUSTED = lazy_pattern(r"Adjusted max_seq_len to (\d{1,12})|reduced to (\d{1,12})")
_VERSION = lazy_pattern(
    r"TensorRT[- ]LLM version: ?v?(\d{1,2}\.\d{1,3}[\w.+-]{0,40})|tensorrt_llm(?:==|-)(\d{1,2}\.\d{1,3}\.\d{1,3}[\w.]{0,20})"
)
_SERVE = lazy_pattern(r"trtllm-serve(?: serve)?\s{1,20}(?!-|disaggregated)([\w./:@-]{2,512})")
_FATAL = (
    "larger than the maximum number of tokens",
    "Insufficient memory for KV",
    "no enough GPU memory for the KV cache",
)


def _size(text: str) -> int | None:
    value = whole(text)
    return value if value is not None and value > 0 else None


_FLAGS: Final[Mapping[str, tuple[str, Reader]]] = {
    "model": ("model", name_of),
    "max-seq-len": ("context_length", _size),
    "tp-size": ("tensor_parallel", _size),
    "pp-size": ("pipeline_parallel", _size),
    "tokens-per-block": ("page_size", _size),
    "kv-cache-free-gpu-memory-fraction": ("memory_fraction", fraction),
    "kv-cache-free-gpu-mem-fraction": ("memory_fraction", fraction),
    "free-gpu-memory-fraction": ("memory_fraction", fraction),
    "kv-cache-dtype": ("kv_cache_dtype", dtype_of),
}


def _command(text: str) -> Iterator[Said]:
    if match := _SERVE.search(text):
        yield Said("model", match[1], 42)
    yield Said("boot", "command")
    yield from read_flags(text, _FLAGS)
    # An engine is built for so much input and so much output; together they are what one request may hold.
    given = dict(flags(text))
    parts = [_size(given.get(name, "")) for name in ("max-input-len", "max-output-len")]
    if parts[0] and parts[1]:
        yield Said("context_length", parts[0] + parts[1], 35)


def _read(record: Record) -> Iterator[Said]:
    text = record.text
    if "TensorRT-LLM]" in text or "[TRT-LLM" in text or "TRTGptModel" in text:
        yield Said("seen", True)
    if any(
        word in text
        for word in ("trtllm-serve", "trtllm-build", "trtllm-llmapi", "dynamo.trtllm", "tensorrt_llm/examples")
    ):
        yield from _command(text)
    if match := _ALLOCATED.search(text):
        yield Said("kv_gib", float(match[1]) if match[1].count(".") < 2 else 0.0)
        yield Said("kv_pool_tokens", int(match[2]), 90)
    elif match := _USING.search(text) or _MAX_TOKENS.search(text):
        yield Said("kv_pool_tokens", int(match[1]), 90)
    elif match := _BYTES.search(text):
        yield Said("kv_gib", int(match[1]) / 2**30)
    if match := _CAPACITY.search(text):
        yield Said("kv_pool_tokens", int(match[3]), 92)
        yield Said("page_size", int(match[2]), 60)
    if match := _PER_BLOCK.search(text):
        yield Said("page_size", int(match[1]), 70)
    if match := _PRIMARY.search(text):
        yield Said("blocks", int(match[1] or match[2]))
    yield from _context(text)
    if match := _VERSION.search(text):
        yield Said("engine_version", (match[1] or match[2]).rstrip("."), 60)
    if any(words in text for words in _FATAL):
        yield Said("fatal", "no-memory")


def _context(text: str) -> Iterator[Said]:
    for pattern, strength in ((_SEQUENCE, 80), (_MAX_SEQ_LEN, 78), (_SEQUENCE_LEN, 70)):
        if match := pattern.search(text):
            yield Said("context_length", int(match[1]), strength, first=True)
            if strength == 78:
                # What holds in the end: profiling runs before it with a smaller pool, and cuts the length to that.
                yield Said("served_context", int(match[1]), 60)
    if ("Adjusted max_seq_len" in text or "are reduced to" in text) and (match := _ADJUSTED.search(text)):
        yield Said("served_context", int(match[1] or match[2]), 60)


def _settle(notes: Notes) -> None:
    blocks, page = notes.best("blocks"), notes.number("page_size")
    if blocks and page and not notes.has("kv_pool_tokens") and not isinstance(blocks.value, str):
        kept = notes.entries.setdefault("kv_pool_tokens", {})
        kept[(60, "")] = Entry(int(blocks.value) * int(page), 60, blocks.line, "")


LOG: Final = LogGrammar(
    engine="tensorrt-llm",
    anchors=(
        b"paged KV cache",
    ),
    values=(
        b"max_seq_len=", b"Adjusted max_seq_len", b"max sequence length=", b"maxSequenceLen", b"max_kv_tokens=", b"primary pool: ",
    ),
    colour=(
        b"TensorRT-LLM", b"TRT-LLM", b"trtllm", b"tensorrt_llm", b"tokens per block", b"bytes for k/v cache", b"TensorRT LLM",
        b"are reduced to",
    ),
    read=_read,
    fits=pool_fits,
    settle=_settle,
    repeat="update",
)  # fmt: skip
