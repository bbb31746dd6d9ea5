"""Ollama's log lines → facts: its own logfmt lines and those of the llama.cpp server that it runs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from checklistbot.engines._llamacpp_log import settle
from checklistbot.engines._log import LogGrammar, Record, Said, dtype_of, flags, pool_fits, whole
from checklistbot.lazy import pattern

_OWN = pattern(r"source=\w{1,40}\.go:\d{1,6}|level=\w{1,8} source=|\[GIN\]")
_KV = pattern(r"memory\.required\.kv=\"([\d.]{1,12}) (GiB|MiB)\"")
_DEVICE = pattern(r"msg=\"kv cache\" .{0,200}?size=\"([\d.]{1,12}) (GiB|MiB)\"")
_LOAD = pattern(r"KvSize:(\d{1,12})(?: KvCacheType:(\w{0,12}))?")
_PARALLEL = pattern(r"(?<!\w)Parallel:(\d{1,4})")
_VERSION = pattern(r"\(version (\d{1,2}\.\d{1,3}\.\d{1,3}[\w.-]{0,20})\)|ollama/ollama:(\d{1,2}\.\d{1,3}\.\d{1,3})")
_ENV = pattern(r"OLLAMA_(CONTEXT_LENGTH|NUM_PARALLEL|KV_CACHE_TYPE)[:=](\w{1,12})")
#: What "inference compute" says of a GPU; a CPU alone is listed there as well.
_GPU = pattern(r"msg=\"inference compute\" .{0,600}?(?:name|description)=\"([^\"]{2,80})\"")
_NUM_CTX = pattern(r"num_ctx[\"']?(?: |=|:) ?(\d{1,9})")


def _size(text: str) -> int | None:
    value = whole(text)
    return value if value is not None and value > 0 else None


def _read(record: Record) -> Iterator[Said]:
    text = record.text
    if _OWN.search(text) or "ollama" in text.lower():
        yield Said("seen", True)
    if match := _KV.search(text) or _DEVICE.search(text):
        amount = float(match[1]) if match[1].count(".") < 2 else 0.0
        yield Said("kv_gib", amount if match[2] == "GiB" else amount / 1024)
    if "library=cpu" not in text and (match := _GPU.search(text)) and re.search(r"\d", match[1]):
        yield Said("gpu", match[1], 50, first=True)
    if "starting llama server" in text or "starting runner" in text or "llama-server" in text:
        yield from _runner(text)
    if match := _LOAD.search(text):
        yield Said("n_ctx", int(match[1]), 70)
        if match[2]:
            yield Said("kv_cache_dtype", match[2].lower(), 70)
        if parallel := _PARALLEL.search(text):
            yield Said("slots", max(1, int(parallel[1])), 70)
    for name, value in _ENV.findall(text):
        if name == "CONTEXT_LENGTH" and (size := _size(value)):
            yield Said("context_length", size, 20)
        elif name == "KV_CACHE_TYPE" and (dtype := dtype_of(value)):
            yield Said("kv_cache_dtype", dtype, 20)
    if match := _VERSION.search(text):
        yield Said("engine_version", match[1] or match[2], 60)
    if "num_ctx" in text and "default_num_ctx" not in text and (match := _NUM_CTX.search(text)):
        yield Said("context_length", int(match[1]), 30)


def _runner(text: str) -> Iterator[Said]:
    """The command of the runner: the pool for all slots, the slots."""
    if "--ctx-size" not in text and " -c " not in text:
        return
    yield Said("boot", "runner")
    given = dict(flags(text))
    if size := _size(given.get("ctx-size", given.get("c", ""))):
        yield Said("n_ctx", size, 65)
    if slots := _size(given.get("parallel", given.get("np", ""))):
        yield Said("slots", slots, 65)


LOG: Final = LogGrammar(
    engine="ollama",
    anchors=(
        b"KvCacheType:",
    ),
    values=(
        b"KvSize:", b"memory.required", b"starting llama server", b"starting runner", b"OLLAMA_CONTEXT_LENGTH",
    ),
    colour=(b"source=", b"ollama", b"Ollama", b"[GIN]", b"num_ctx"),
    read=_read,
    fits=pool_fits,
    settle=settle,
    repeat="update",
    hosts=("llama.cpp",),
)  # fmt: skip
