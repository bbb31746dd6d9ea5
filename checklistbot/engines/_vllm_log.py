"""vLLM's log lines → facts (versions 0.4 to 0.33).

Where both are printed the "maximum concurrency" decides whether a full request fits: of hybrid models before 0.21
the printed tokens are not comparable with the context. A pool is printed once per worker (to 0.11), later once per
DP engine; the smallest counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from checklistbot.engines._log import (
    FOLLOWS,
    Entry,
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
    read_flags,
    settle_ranks,
    whole,
)
from checklistbot.lazy import pattern as lazy_pattern
from checklistbot.model import Scalar

#: Markdown marks may stand around the numbers where people quote the line.
_TOKENS = lazy_pattern(r"KV cache size[:=|\s*`≈~]{1,8}(\d[\d,]{0,20})[*`]{0,2} ?tokens")
_CONCURRENCY = lazy_pattern(
    r"[Mm]aximum concurrency for [*`]{0,2}(\d[\d,]{0,20})[*`]{0,2} tokens per request[:=|\s*`≈~]{1,8}(\d{1,9}(?:\.\d{1,6})?) ?[x×]"
)
_CONCURRENCY_PROSE = lazy_pattern(
    r"(\d[\d,]{3,20}) tokens,? (?:at |and )?(\d{1,6}(?:\.\d{1,6})?) ?[x×] concurrency at (\d[\d,]{3,20})"
)
_BLOCKS = lazy_pattern(
    r"(?<![\w.])(?<!\d, )(?<!\d, # )(?:# )?(GPU|cuda|CUDA|TPU|tpu|HPU|hpu|XPU|xpu|NPU|npu|rocm|neuron|MUSA|musa|CPU) blocks: (\d{1,12})"
)
_AVAILABLE = lazy_pattern(r"Available KV cache memory: (-?[\d.]{1,20}) GiB")
_RESERVED = lazy_pattern(r"reserved (?:for KV Cache is )?(-?[\d.]{1,20}) ?GiB(?! memory for (?!KV))")
_PROFILED = lazy_pattern(r"kv_cache_size=(-?[\d.]{1,20}) ?GiB")
_FRACTION_V0 = lazy_pattern(r"gpu_memory_utilization ?(?:\(|=)(\d?\.?\d{1,8})")
_FRACTION = lazy_pattern(
    r"(?:The current --gpu-memory-utilization=|increase --gpu-memory-utilization from |[Gg]pu-memory-utilization=)(\d?\.\d{1,8})"
)
_DESIRED = lazy_pattern(r"[Dd]esired GPU memory utilization (?:is )?\((\d?\.?\d{1,8}),")
_SEQ_LEN = lazy_pattern(r"max seq len \((\d{1,12})\)")
_STORED = lazy_pattern(r"stored in (?:the )?KV cache \((\d{1,12})\)")
_NEEDED = lazy_pattern(r"(\d[\d.]{0,12}) ?GiB KV cache is needed")
_AVAILABLE_FATAL = lazy_pattern(r"available KV cache memory \((-?[\d.]{1,12}) ?GiB\)")
_ESTIMATED = lazy_pattern(r"estimated maximum model length is (\d[\d,]{0,15})")
_CONTEXT = lazy_pattern(r"Using max model len (\d{1,12})")
_AUTO = lazy_pattern(
    r"Auto-fit max_model_len: (?:reduced from (\d{1,12}) to (\d{1,12})|full model context length (\d{1,12}) fits)"
)
#: Before 0.4 without a version. The colon behind "config" would read as that of a pair.
_INIT = lazy_pattern(r"Initializing an? (V1 )?LLM engine (?:\(v?([^)\s]{1,80})\) ?)?(?:with config:?)?")
_VERSION = lazy_pattern(
    r"vLLM API server version (\S{1,80})|vLLM server version ([^\s,]{1,80})|█\s{1,8}version (\S{1,80})"
    r"|(?<![\w./-])(?:v|V)LLM(?: [Vv]ersion)?[:*` =]{1,6}v?(\d{1,2}\.\d{1,3}\.\d{1,3}[\w.+-]{0,60})"
    r"|vllm/vllm-openai:v(\d{1,2}\.\d{1,3}\.\d{1,3}(?:\.?(?:post|rc|dev)\d{1,4})?)|(?<![\w-])vllm==(\d{1,2}\.\d{1,3}[\w.+-]{0,40})"
    r"|(?<![\w./-])vLLM v?(\d\.\d{1,3}\.\d{1,3}[\w.+-]{0,60})(?![\w.])"
)
_MODEL = lazy_pattern(
    r"█\s{1,8}model\s{1,8}(\S{1,512})|serving model (\S{1,512})|Starting to load model ([^\s.][^\s]{0,512}?)\.\.\."
)
_ATTENTION_BLOCK = lazy_pattern(r"[Ss]etting attention block size to (\d{1,7}) tokens")
_DTYPE = lazy_pattern(r"kv_cache_dtype=(torch\.\w{1,40})|Using (fp8\w{0,10}) data type to store kv ?cache")
_ROLE = lazy_pattern(r"kv_role['\"]?(?:=|: ?)['\"]?(kv_producer|kv_consumer|kv_both)")
_PAIR = lazy_pattern(
    r"(?<![\w.-])['\"]?([a-z][a-z_]{2,60})['\"]?(?:=|: )"
    r"(\[?'(?:[^'\\]|\\\\){0,2048}'|\[?\"[^\"\\]{0,2048}\"|None|True|False|-?\d[\d.]{0,30}|[\w./:-]{1,512})"
)
#: A dump keeps the order of the engine's arguments: a type just before the scheduler's first argument is the cache's.
_CUT_DUMP = lazy_pattern(
    r"\W{0,3}'(fp8\w{0,8}|nvfp4|bfloat16|auto)', '(?:max_num_|enable_prefix_caching|num_gpu_blocks)"
)
#: The images start the server by themselves: what follows them are its arguments, the model first.
_SERVE = lazy_pattern(r"(?:vllm serve|vllm/vllm-openai:[\w.-]{1,128})\s{1,20}(?!-)([\w./:@~-]{2,512})")
_PYTHON = lazy_pattern(r"(?<![\w.])(?:LLM|AsyncEngineArgs|EngineArgs)\(\s{0,8}(?=model ?=)")
#: In a sentence ("Restart vllm serve with --enable-scale-out") no model, path or option follows at once.
_LAUNCH = lazy_pattern(
    r"vllm serve(?:\s{1,20}(?!(?:with|using|by|and|or|for|to|in|on)\b)"
    r"(?:[-$\"'{<\\]|[^\s,;]{0,256}[/\d_.$-]|[\w:@~]{2,128}\s{1,20}(?:\\|-))|\s{0,8}\Z)"
)
_LAST_WORD = lazy_pattern(r"\s((?:/|\./|~)[\w./:@~-]{2,512}|[\w.-]{2,100}/[\w.-]{2,200})\Z")
_ENTRY = ("vllm serve", "vllm.entrypoints", "vllm/vllm-openai", "dynamo.vllm")
_FATAL = (
    "No available memory for the cache blocks",
    "Cannot auto-fit max_model_len",
    "is less than desired GPU memory utilization",
)
_DIED = (
    "Engine core initialization failed",
    "EngineCore failed to start",
    "Engine process failed to start",
    "exceeds available Mamba",
)
_HYBRID = ("Mamba", "mamba", "padding layers", "hybrid KV cache", "Hybrid KV cache")
_NOT_A_COMMAND = (
    "Try increasing",
    "try increasing",
    "is equivalent to",
    "to maintain the same",
    "increase --gpu-memory",
)


def _size(text: str) -> int | None:
    value = human(text)
    return value if value is not None and value > 0 else None


def _kv_role(text: str) -> str | None:
    return {"kv_producer": "prefill", "kv_consumer": "decode", "kv_both": "unified"}.get(text)


def _first_name(text: str) -> str | None:
    return name_of(text.lstrip("[").strip("'\""))


def _version_of(text: str) -> str:
    return text.rstrip(".,;)").removeprefix("v")


_ARGUMENTS: Final[Mapping[str, tuple[str, Reader]]] = {
    "model": ("model", name_of),
    "model_tag": ("model", name_of),
    "served_model_name": ("served_model_name", _first_name),
    "max_model_len": ("context_length", _size),
    "max_seq_len": ("context_length", _size),
    "gpu_memory_utilization": ("memory_fraction", fraction),
    "kv_cache_memory_bytes": ("kv_cache_memory_bytes", _size),
    "block_size": ("page_size", _size),
    "kv_cache_dtype": ("kv_cache_dtype", dtype_of),
    "tensor_parallel_size": ("tensor_parallel", _size),
    "pipeline_parallel_size": ("pipeline_parallel", _size),
    "data_parallel_size": ("data_parallel", _size),
    "decode_context_parallel_size": ("decode_context_parallel", _size),
    "max_num_batched_tokens": ("chunked_prefill_size", whole),
    "max_num_seqs": ("max_running_requests", _size),
}
_FLAGS: Final[Mapping[str, tuple[str, Reader]]] = {
    "model": ("model", name_of),
    "served-model-name": ("served_model_name", name_of),
    "max-model-len": ("context_length", _size),
    "gpu-memory-utilization": ("memory_fraction", fraction),
    "kv-cache-memory-bytes": ("kv_cache_memory_bytes", _size),
    "kv-cache-memory": ("kv_cache_memory_bytes", _size),
    "block-size": ("page_size", _size),
    "kv-cache-dtype": ("kv_cache_dtype", dtype_of),
    "tensor-parallel-size": ("tensor_parallel", _size),
    "tp": ("tensor_parallel", _size),
    "pipeline-parallel-size": ("pipeline_parallel", _size),
    "pp": ("pipeline_parallel", _size),
    "data-parallel-size": ("data_parallel", _size),
    "dp": ("data_parallel", _size),
    "decode-context-parallel-size": ("decode_context_parallel", _size),
    "dcp": ("decode_context_parallel", _size),
    "max-num-batched-tokens": ("chunked_prefill_size", whole),
    "max-num-seqs": ("max_running_requests", _size),
}
#: Flags that no other engine has; a list of arguments with one of them is vLLM's.
_OWN_FLAGS = (
    "--max-model-len", "--max_model_len", "--gpu-memory-utilization", "--gpu_memory_utilization", "--max-num-seqs",
    "--kv-transfer-config", "--max-num-batched-tokens",
)  # fmt: skip


def _arguments(text: str, strength: int) -> Iterator[Said]:
    """Key–value pairs of an argument dump (Namespace, dict, config repr); the first of a key counts."""
    done: set[str] = set()
    for match in _PAIR.finditer(text):
        name, value = match[1], match[2].strip("'\"").rstrip(".").replace("\\\\", "\\")
        if name not in _ARGUMENTS or value == "None":
            continue
        key, reader = _ARGUMENTS[name]
        found = reader(value)
        if found is not None and key not in done:
            done.add(key)
            yield Said(key, found, strength)
    if role := _ROLE.search(text):
        yield Said("role", _kv_role(role[1]) or "unified", strength)
    speculative = "speculative_config=" in text and "speculative_config=None" not in text
    if speculative or "'speculative_config': {" in text:
        yield Said("speculative", "configured", strength)


def _dumps(text: str) -> Iterator[Said]:
    """What a start prints of its own configuration."""
    if match := _INIT.search(text):
        yield Said("boot", "engine")
        if match[2]:
            yield Said("engine_version", _version_of(match[2]), 80)
        yield Said("v1" if match[1] else "v0", True)
        yield from _arguments(text[match.end() :], 60)
    elif "non-default args" in text or "args: Namespace(" in text:
        yield Said("boot", "args")
        yield from _arguments(text[text.index("args") :], 65)
        if "non-default args" in text and text.rstrip().endswith("}") and "tensor_parallel_size" not in text:
            # The dump holds all that differs from a default, and is whole.
            yield Said("tensor_parallel", 1, FOLLOWS)
    elif match := _CUT_DUMP.match(text):
        yield Said("kv_cache_dtype", match[1], 55)
        yield from _arguments(text, 55)
    elif "'max_num_seqs':" in text or "'gpu_memory_utilization':" in text:
        # The tail of a dump whose head was cut off.
        yield from _arguments(text, 55)


def _python(text: str) -> Iterator[Said]:
    """A call of the Python interface; what it does not name is the engine's default."""
    if match := _PYTHON.search(text):
        for said in _arguments(text[match.end() :], 42):
            if said.key != "context_length" or "max_model_len" in text:
                yield said


def _pool(text: str) -> Iterator[Said]:
    if match := _TOKENS.search(text):
        yield Said("kv_pool_tokens", whole(match[1]) or 0, 90)
    elif match := _CONCURRENCY_PROSE.search(text):
        yield Said("kv_pool_tokens", whole(match[1]) or 0, 85)
        yield Said("factor", float(match[2]))
        yield Said("context_length", whole(match[3]) or 0, 80)
    elif found := _BLOCKS.findall(text):
        if found[0][0] in ("HPU", "hpu"):
            yield Said("device_page", 128)
        # "# CPU blocks" stands behind the device's own; alone it is the pool of a CPU server.
        yield Said("blocks", int(next((count for device, count in found if device != "CPU"), found[0][1])))
    if match := _CONCURRENCY.search(text):
        yield Said("context_length", whole(match[1]) or 0, 80)
        yield Said("factor", float(match[2]))
    for pattern in (_AVAILABLE, _RESERVED, _PROFILED):
        if match := pattern.search(text):
            yield Said("kv_gib", _decimal(match[1]))


def _decimal(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


def _fatal(text: str) -> Iterator[Said]:
    if match := _SEQ_LEN.search(text):
        yield Said("context_length", int(match[1]), 85)
        yield Said("fatal", "context-does-not-fit")
        if stored := _STORED.search(text):
            yield Said("kv_pool_tokens", int(stored[1]), 95)
        for key, pattern in (("needed_gib", _NEEDED), ("kv_gib", _AVAILABLE_FATAL)):
            if found := pattern.search(text):
                yield Said(key, _decimal(found[1]), 60)
    elif any(words in text for words in _FATAL):
        yield Said("fatal", "no-memory")
    elif any(words in text for words in _DIED):
        yield Said("died", True)
    if match := _ESTIMATED.search(text):
        yield Said("estimated", whole(match[1]) or 0)
        yield Said("fatal", "context-does-not-fit")


def _details(text: str) -> Iterator[Said]:
    if match := _CONTEXT.search(text):
        yield Said("context_length", int(match[1]), 70, first=True)
    elif match := _AUTO.search(text):
        yield Said("context_length", int(match[2] or match[3]), 75)
    share = _FRACTION_V0.search(text) or _DESIRED.search(text) or _FRACTION.search(text)
    if share and (value := fraction(share[1])) is not None:
        yield Said("memory_fraction", value, 50)
    if match := _VERSION.search(text):
        found = next(group for group in match.groups() if group)
        yield Said("engine_version", _version_of(found), 70 if match[1] or match[2] or match[3] else 40)
        if match[1] or match[2] or match[3]:
            yield Said("boot", "version")
    if match := _MODEL.search(text):
        yield Said("model", next(group for group in match.groups() if group), 55, first=True)
    yield from device(text)
    if match := _ATTENTION_BLOCK.search(text):
        yield Said("page_size", int(match[1]), 70)
        yield Said("hybrid", True)
    if any(words in text for words in _HYBRID):
        yield Said("hybrid", True)
    if match := _DTYPE.search(text):
        yield Said("kv_cache_dtype", dtype_of(match[1] or match[2]) or "", 62, first=True)


def _command(text: str) -> Iterator[Said]:
    """A launch command, an argument list, or flags quoted in prose."""
    entry = any(words in text for words in _ENTRY)
    if entry and "vllm serve" in text and not _LAUNCH.search(text):
        return
    own = any(words in text for words in _OWN_FLAGS)
    if not (entry or own) or any(words in text for words in _NOT_A_COMMAND):
        return
    if entry or text.startswith("--"):
        yield Said("boot", "command")
    if match := _SERVE.search(text):
        yield Said("model", match[1], 42)
    elif "vllm serve" in text and (match := _LAST_WORD.search(text[-800:].rstrip())):
        # The model may stand behind the flags.
        yield Said("model", match[1], 38)
    yield from read_flags(text, _FLAGS)
    if role := _ROLE.search(text):
        yield Said("role", _kv_role(role[1]) or "unified", 40)


def _read(record: Record) -> Iterator[Said]:
    text = record.text
    yield from _dumps(text)
    if not record.own:
        yield from _command(text)
    yield from _python(text)
    yield from _pool(text)
    yield from _fatal(text)
    yield from _details(text)
    if record.rank or any(word in text for word in ("GPU KV cache", "KV cache")):
        yield Said("seen", True)


def _before_0_21(notes: Notes) -> bool:
    """True unless the version is stated and 0.21 or later: from there on a hybrid's pool no longer follows its
    context."""
    version = notes.best("engine_version")
    match = re.match(r"(\d+)\.(\d+)", str(version.value)) if version else None
    return match is None or (int(match[1]), int(match[2])) < (0, 21)


_PAGES: Final = (16, 8, 32, 64, 128, 256, 1)


def _settle(notes: Notes) -> None:
    """Blocks → tokens: by the block size that is stated, else by the one that the printed concurrency shows, else
    16."""
    settle_ranks(notes)
    if notes.has("v0") or notes.has("blocks") or (notes.has("hybrid") and _before_0_21(notes)):
        notes.add(Said("pool_depends_on_context", True), notes.first_line, "")
    if notes.has("kv_pool_tokens") or not notes.has("blocks"):
        return
    stages = int(notes.number("pipeline_parallel") or 1)
    for entry in notes.strongest("blocks"):
        blocks = int(entry.value) // stages if not isinstance(entry.value, str) else 0
        tokens = blocks * _page(notes, blocks)
        if tokens > 0:
            kept = notes.entries.setdefault("kv_pool_tokens", {})
            kept[(80, entry.rank)] = Entry(tokens, 80, entry.line, entry.rank)


def _page(notes: Notes, blocks: int) -> int:
    stated = notes.number("page_size")
    if stated:
        return int(stated)
    factor, context = notes.number("factor"), notes.number("context_length")
    if factor and context and blocks:
        shown = factor * context / blocks
        return next((page for page in _PAGES if abs(shown - page) / page < 0.04), 16)
    return int(notes.number("device_page") or 16)


def _fits(notes: Notes) -> bool | None:
    if notes.has("fatal"):
        return False
    factors = _numbers(notes, "factor")
    if factors:
        return min(factors) >= 1.0
    pools, context = _numbers(notes, "kv_pool_tokens"), notes.number("context_length")
    if not pools or not context:
        return None
    if min(pools) >= context:
        return True
    # A V1 engine that starts with fewer tokens than its context is a hybrid, or its pool was overridden.
    return False if notes.has("blocks") else None


def _numbers(notes: Notes, key: str) -> list[float]:
    values: list[Scalar] = [entry.value for entry in notes.strongest(key)]
    return [float(value) for value in values if not isinstance(value, str)]


LOG: Final = LogGrammar(
    engine="vllm",
    anchors=(
        b"aximum concurrency", b"# CPU blocks: ", b"max seq len (", b"LLM engine (v", b"default args: ",
    ),
    values=(
        b"To serve at least one request", b"KV cache size", b"PU blocks: ", b"cuda blocks: ", b"vailable KV cache memory", b"max_model_len",
        b"desired GPU memory", b"vLLM API server", b"cache blocks", b"args: Namespace", b"default args",
    ),
    colour=(
        b"device_name=",
        b"vllm", b"vLLM", b" concurrency at ", b" blocks: ", b"version ", b"model ", b"max model len", b"GPU memory utilization",
        b"gpu_memory_utilization", b"gpu-memory-utilization", b"--max-model-len", b"--max_model_len", b"--max-num-seqs",
        b"kv_cache_dtype=", b"attention block size", b"Mamba", b"padding layers", b"Engine core initialization", b"max_num_seqs",
        b"maximum model length", b"for KV Cache ", b"kv_cache_size=", b"Resolved architecture", b"data type to store kv",
        b"Loading model weights took", b"Model loading took", b"to load model ", b"VLLM", b"LLM engine with config", b"LLM(model",
    ),
    read=_read,
    fits=_fits,
    settle=_settle,
    repeat="rank",
)  # fmt: skip
