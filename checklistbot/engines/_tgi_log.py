"""Text Generation Inference's log lines → facts: the router's inferred batch budget is the pool,
``max_total_tokens`` the context."""

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
    fraction,
    name_of,
    pool_fits,
    read_flags,
    whole,
)
from checklistbot.lazy import pattern

_POOL = pattern(r"(?:Setting|Inferred) max batch total tokens(?: to|:) (\d{1,15})")
_BLOCKS = pattern(r"KV-cache blocks: (\d{1,12}), size: (\d{1,6})")
_CONTEXT = pattern(
    r"(?:Maximum total tokens|Default `?max_total_tokens`?|`?max_total_tokens`?) (?:defaulted )?to (\d{1,12})"
)
_PIPELINE = pattern(r"no pipeline tag found for model (\S{1,512})")
_DOWNLOAD = pattern(r"(?:Starting check and download process for|Successfully downloaded weights for) ([\w./-]{1,512})")
_ARGUMENT = pattern(r"(?<!\w)([a-z_]{4,40}): (?:Some\(\s{0,12})?(\"[^\"]{0,512}\"|[\w.-]{1,64})")
_VERSION = pattern(r"text-generation-inference:(\d{1,2}\.\d{1,3}\.\d{1,3}(?:-rocm|-intel)?)(?![\w])")
_FATAL = ("NotEnoughMemory", "Not enough memory to handle", "max_total_tokens` must be <= `max_batch_total_tokens")


def _size(text: str) -> int | None:
    value = whole(text)
    return value if value is not None and value > 0 else None


_KEYS: Final[Mapping[str, tuple[str, Reader]]] = {
    "model_id": ("model", name_of),
    "max_total_tokens": ("context_length", _size),
    "num_shard": ("tensor_parallel", _size),
    "cuda_memory_fraction": ("memory_fraction", fraction),
    "kv_cache_dtype": ("kv_cache_dtype", dtype_of),
}
_FLAGS: Final[Mapping[str, tuple[str, Reader]]] = {key.replace("_", "-"): value for key, value in _KEYS.items()}


def _read(record: Record) -> Iterator[Said]:
    text = record.text
    if "text_generation_" in text or "text-generation-" in text:
        yield Said("seen", True)
    # The block that people paste has lost the line before it.
    if "Args {" in text or ("model_id: " in text and "max_total_tokens: " in text):
        yield Said("boot", "args")
        for name, value in _ARGUMENT.findall(text):
            found = (
                _KEYS[name][1](value.strip('"').lower() if "dtype" in name else value.strip('"'))
                if name in _KEYS
                else None
            )
            if found is not None and value != "None":
                yield Said(_KEYS[name][0], found, 60, first=True)
    elif "text-generation-launcher" in text or "text-generation-inference:" in text:
        yield Said("boot", "command")
        yield from read_flags(text, _FLAGS)
    if match := _POOL.search(text):
        yield Said("kv_pool_tokens", int(match[1]), 90)
    if match := _BLOCKS.search(text):
        yield Said("blocks", int(match[1]))
        yield Said("page_size", int(match[2]), 70)
    if match := _CONTEXT.search(text):
        yield Said("context_length", int(match[1]), 70)
    if match := _PIPELINE.search(text) or _DOWNLOAD.search(text):
        yield Said("model", match[1], 50)
    if match := _VERSION.search(text):
        yield Said("engine_version", match[1], 50)
    if any(words in text for words in _FATAL):
        yield Said("fatal", "no-memory")


def _settle(notes: Notes) -> None:
    blocks, page = notes.best("blocks"), notes.number("page_size")
    if blocks and page and not notes.has("kv_pool_tokens") and not isinstance(blocks.value, str):
        kept = notes.entries.setdefault("kv_pool_tokens", {})
        kept[(60, "")] = Entry(int(blocks.value) * int(page), 60, blocks.line, "")


LOG: Final = LogGrammar(
    engine="tgi",
    anchors=(
        b"max batch total tokens",
    ),
    values=(
        b"KV-cache blocks", b"text_generation_launcher: Args", b"NotEnoughMemory",
    ),
    colour=(
        b"text_generation_", b"text-generation-", b"aximum total tokens", b"max_total_tokens", b"no pipeline tag",
        b"Not enough memory to handle", b"Args {", b"model_id: ",
    ),
    read=_read,
    fits=pool_fits,
    settle=_settle,
    repeat="update",
)  # fmt: skip
