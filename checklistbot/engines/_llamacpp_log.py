"""llama.cpp's log lines → facts (forks included). ``n_ctx`` is the whole pool; a request gets its slot,
``n_ctx_slot`` or ``n_ctx_seq``."""

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
    name_of,
    pool_fits,
    read_flags,
    whole,
)
from checklistbot.lazy import pattern

_N_CTX = pattern(r"(?:llama_context|llama_new_context_with_model|llama_init_from_model): n_ctx +=? *(\d{1,12})")
_PER_SEQ = pattern(r"n_ctx_(?:per_seq|seq|pre_seq) *(?:=|\()? *(\d{1,12})")
_SLOT = pattern(r"(?:n_ctx_slot ?=|new slot,? n_ctx =) ?(\d{1,12})")
_SLOTS = pattern(r"n_slots ?= ?(\d{1,6})")
_SEQUENCES = pattern(r"n_seq_max *= *(\d{1,6})")
_CELLS = pattern(r"\( *(\d{1,12}) cells, *\d{1,5} layers, *[\d/]{1,12} seqs\)")
_CREATING = pattern(r"creating (non-)?SWA KV cache, size = (\d{1,12}) cells")
_KV_SIZE = pattern(r"kv_size = (\d{1,12}), offload")
_DTYPE = pattern(r"(?:K \(|c\^KV \(|type_k = ')([a-z]{1,6}\d{0,2}(?:_[a-z0-9]{1,3}){0,2})[)']")
_UNIFIED = pattern(r"kv_unified *= *'?(true|false)")
_NAME = pattern(r"general\.name(?: str)? *=+ *(.{1,200})")
_LOADED = pattern(r"loaded meta data with .{1,80}? from (\S{1,512}) \(version")
_LOADING = pattern(r"load_model: loading model '([^']{1,512})'")
_BUILD = pattern(r"(?:^|\s)build: (\d{3,6}) \([0-9a-f]{6,40}\)")
_FATAL = (
    "failed to allocate buffer for kv cache",
    "failed to allocate KV cache",
    "failed to create context with model",
)


def _size(text: str) -> int | None:
    value = whole(text)
    return value if value is not None and value > 0 else None


_FLAGS: Final[Mapping[str, tuple[str, Reader]]] = {
    "model": ("model", name_of),
    "m": ("model", name_of),
    "hf": ("model", name_of),
    "hf-repo": ("model", name_of),
    "alias": ("served_model_name", name_of),
    "a": ("served_model_name", name_of),
    "ctx-size": ("n_ctx", _size),
    "c": ("n_ctx", _size),
    "parallel": ("slots", _size),
    "np": ("slots", _size),
    "cache-type-k": ("kv_cache_dtype", dtype_of),
    "ctk": ("kv_cache_dtype", dtype_of),
}


def _read(record: Record) -> Iterator[Said]:
    text = record.text
    if "llama_" in text or "srv " in text or "slot " in text:
        yield Said("seen", True)
    if "llama-server" in text or "llama_cpp.server" in text:
        yield Said("boot", "command")
        yield from read_flags(text, _FLAGS)
    if _BUILD.search(text):
        yield Said("boot", "build")
    yield from _context(text)
    yield from _cache(text)
    if match := _LOADED.search(text) or _LOADING.search(text):
        if "/blobs/" not in match[1] and (name := name_of(match[1])):
            yield Said("model", name, 50, first=True)
    elif (match := _NAME.search(text)) and (name := name_of(match[1].strip())):
        yield Said("model", name, 30, first=True)
    if any(words in text for words in _FATAL):
        yield Said("fatal", "no-memory")


def _context(text: str) -> Iterator[Said]:
    if match := _N_CTX.search(text):
        yield Said("n_ctx", int(match[1]), 60, first=True)
    if match := _PER_SEQ.search(text):
        yield Said("per_sequence", int(match[1]), 60, first=True)
    if match := _SLOT.search(text):
        yield Said("per_slot", int(match[1]), 60)
    if match := _SLOTS.search(text):
        yield Said("slots", int(match[1]), 60)
    if match := _SEQUENCES.search(text):
        yield Said("sequences", int(match[1]), 60, first=True)


def _cache(text: str) -> Iterator[Said]:
    """Cells are the pool's tokens. A sliding-window model has two caches; the one for the other layers is made
    first."""
    if match := _CREATING.search(text):
        if match[1]:
            yield Said("kv_pool_tokens", int(match[2]), 80, first=True)
    elif (match := _CELLS.search(text)) or (match := _KV_SIZE.search(text)):
        yield Said("kv_pool_tokens", int(match[1]), 60, first=True)
    if ("KV" in text or "kv" in text) and (match := _DTYPE.search(text)):
        yield Said("kv_cache_dtype", match[1], 60, first=True)
    if match := _UNIFIED.search(text):
        yield Said("unified", match[1] == "true")


def settle(notes: Notes) -> None:
    """The context is the slot's; the pool is the cells, else the whole context, else slots × slot."""
    total, slots = notes.number("n_ctx"), notes.number("slots") or notes.number("sequences") or 1
    unified = notes.best("unified")
    share = total / slots if total and not (unified and unified.value is True) else total
    for key in ("per_slot", "per_sequence"):
        entry = notes.best(key)
        if entry is not None:
            notes.add(Said("context_length", entry.value, 70), entry.line, "")
            break
    else:
        if share and (entry := notes.best("n_ctx")) is not None:
            notes.add(Said("context_length", int(share), 60), entry.line, "")
    if not notes.has("kv_pool_tokens"):
        source = notes.best("n_ctx") or notes.best("per_slot")
        tokens = total or (notes.number("per_slot") or 0) * slots
        if source is not None and tokens:
            notes.entries["kv_pool_tokens"] = {(40, ""): Entry(int(tokens), 40, source.line, "")}


LOG: Final = LogGrammar(
    engine="llama.cpp",
    anchors=(
        b"llama_kv_cache",
    ),
    values=(
        b"n_ctx", b"SWA KV cache", b"KV self size",
    ),
    colour=(
        b"llama_", b"llama-server", b"n_slots", b"n_seq_max", b"kv_unified", b"general.name", b"loaded meta data", b"loading model",
        b"build: ", b"kv cache", b"kv_size = ", b"new slot",
    ),
    read=_read,
    fits=pool_fits,
    settle=settle,
    repeat="update",
)  # fmt: skip
