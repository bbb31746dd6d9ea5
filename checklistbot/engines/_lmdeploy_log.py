"""LMDeploy's log lines → facts (turbomind and pytorch engines). The engine cuts ``session_len`` to the pool and
goes on advertising it."""

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
    fraction,
    name_of,
    pool_fits,
    read_flags,
    whole,
)
from checklistbot.lazy import pattern

_BLOCKS = pattern(r"max_block_count ?[=:] ?(\d{1,12})")
_CUT = pattern(r"`?session_len`? \((\d{1,12})\), `?session_len`? truncated to (\d{1,12})")
_SESSION = pattern(r"(?<![\w`])session_len ?[=:] ?(\d{1,12})")
_BLOCK_LEN = pattern(r"`?cache_block_seq_len`? ?(?:is not set, default to |[=:] ?)(\d{1,6})")
_CACHE_CONFIG = pattern(r"CacheConfig\(")
_PAIR = pattern(
    r"(?<!\w)(block_size|num_gpu_blocks|cache_max_entry_count|tp|dp|model_path|model_name)=('[^']{1,512}'|[\w./-]{1,64})"
)
#: The model's own settings, printed as the lines of an ini file or of a JSON object.
_SETTING = pattern(r"\W{0,8}(tensor_para_size|cache_max_entry_count)\"? ?[=:] ?([\d.]{1,12})")
#: From 0.15 on; blocks are no longer printed.
_BUDGET = pattern(r"Object cache budget: (\d[\d.]{0,15}) MB from free [\d.]{1,16} MB and ratio ([\d.]{1,12})")
_VERSION = pattern(r"(?<![\w.-])lmdeploy(?:==|[ :=]{1,3}v?|/lmdeploy:v)(\d{1,2}\.\d{1,3}\.\d{1,3}[\w.]{0,20})")
_SERVE = pattern(r"lmdeploy serve (?:api_server|gradio)\s{1,20}(?!-)([\w./:@-]{2,512})")


def _size(text: str) -> int | None:
    value = whole(text)
    return value if value is not None and value > 0 else None


_FLAGS: Final[Mapping[str, tuple[str, Reader]]] = {
    "model-name": ("served_model_name", name_of),
    "session-len": ("context_length", _size),
    "cache-max-entry-count": ("memory_fraction", fraction),
    "cache-block-seq-len": ("page_size", _size),
    "tp": ("tensor_parallel", _size),
    "dp": ("data_parallel", _size),
}
_KEYS: Final[Mapping[str, tuple[str, Reader]]] = {
    "block_size": ("page_size", _size),
    "num_gpu_blocks": ("blocks", _size),
    "cache_max_entry_count": ("memory_fraction", fraction),
    "tp": ("tensor_parallel", _size),
    "dp": ("data_parallel", _size),
    "model_path": ("model", name_of),
    "model_name": ("served_model_name", name_of),
}


def _read(record: Record) -> Iterator[Said]:
    text = record.text
    if "[TM]" in text or "lmdeploy" in text or "LMDeploy" in text:
        yield Said("seen", True)
    if "lmdeploy serve" in text:
        yield Said("boot", "command")
        if match := _SERVE.search(text):
            yield Said("model", match[1], 42)
        yield from read_flags(text, _FLAGS)
        return
    if "EngineConfig(" in text or _CACHE_CONFIG.search(text):
        for name, value in _PAIR.findall(text):
            key, reader = _KEYS[name]
            found = reader(value.strip("'"))
            if found is not None:
                yield Said(key, found, 60)
    elif match := _SETTING.match(text):
        key, reader = _KEYS["tp" if match[1] == "tensor_para_size" else match[1]]
        if (found := reader(match[2])) is not None:
            yield Said(key, found, 55, claims=False)
    if match := _BLOCKS.search(text):
        yield Said("blocks", int(match[1]), 70)
    elif match := _BUDGET.search(text):
        yield Said("kv_gib", float(match[1]) / 1024 if match[1].count(".") < 2 else 0.0)
        if (share := fraction(match[2])) is not None:
            yield Said("memory_fraction", share, 50)
    if match := _CUT.search(text):
        yield Said("context_length", int(match[1]), 80)
        yield Said("served_context", int(match[2]), 80)
        yield Said("kv_pool_tokens", int(match[2]), 80)
    elif match := _SESSION.search(text):
        yield Said("context_length", int(match[1]), 50, first=True)
    if match := _BLOCK_LEN.search(text):
        yield Said("page_size", int(match[1]), 65)
    if match := _VERSION.search(text):
        yield Said("engine_version", match[1].rstrip("."), 50)


def _settle(notes: Notes) -> None:
    """Blocks × tokens a block is the pool; where only blocks and pool are said, their ratio is the block."""
    blocks = notes.best("blocks")
    if blocks is None or isinstance(blocks.value, str) or not blocks.value:
        return
    page, pool = notes.number("page_size"), notes.number("kv_pool_tokens")
    count = int(blocks.value)
    if pool and not page and pool % count == 0:
        notes.add(Said("page_size", int(pool) // count, 40), blocks.line, "")
    elif page and not pool:
        kept = notes.entries.setdefault("kv_pool_tokens", {})
        kept[(60, "")] = Entry(count * int(page), 60, blocks.line, "")


LOG: Final = LogGrammar(
    engine="lmdeploy",
    anchors=(
        b"BlockManager", b"CacheConfig(", b"Object cache budget",
    ),
    values=(
        b"session_len", b"cache_block_seq_len", b"tensor_para_size", b"cache_max_entry_count",
    ),
    colour=(b"[TM]", b"lmdeploy", b"LMDeploy", b"EngineConfig("),
    read=_read,
    fits=pool_fits,
    settle=_settle,
    repeat="update",
)  # fmt: skip
