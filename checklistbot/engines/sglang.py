"""SGLang: flags → facts, limits by version (sglang.md sections 3, 4.1, 4.2, 4.6)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from checklistbot.engines import _build as build
from checklistbot.engines import _config
from checklistbot.engines._flags import Parsed, fact, human_integer, integer, number, parse, table, word_text
from checklistbot.engines.base import Engine, Launch, Word, below, version_of
from checklistbot.model import Deployment, Fact, Source, Unknown

if TYPE_CHECKING:
    from packaging.version import Version

_MODULES = (
    "-m sglang.launch_server",
    "-m sglang.srt.server",
    "-m sglang_router.launch_server",
    "-m sglang.launch_server_http",
    "launch_server.py",
    "sglang.launch_server",
)
_DYNAMO = ("-m dynamo.sglang", "-m dynamo.sglang.worker", "-m dynamo.sglang.main")
_FACTS = {
    "model": build.Given(("model-path",), word_text),
    "served_model_name": build.Given(("served-model-name",), word_text),
    "context_length": build.Given(("context-length",), human_integer),
    "kv_pool_tokens": build.Given(("max-total-tokens",), human_integer),
    "page_size": build.Given(("page-size",), integer),
    "kv_cache_dtype": build.Given(("kv-cache-dtype",), word_text),
    "memory_fraction": build.Given(("mem-fraction-static",), number),
    "tensor_parallel": build.Given(("tp-size",), integer),
    "pipeline_parallel": build.Given(("pp-size",), integer),
    "data_parallel": build.Given(("dp-size",), integer),
}


def _arguments(launch: Launch) -> tuple[Word, ...] | None:
    """The server's arguments, None where the launch does not start SGLang's server."""
    name, first = build.program(launch.argv)
    if name in _MODULES or name in _DYNAMO:
        return launch.argv[first:]
    if name == "sglang" and len(launch.argv) > first and launch.argv[first].text == "serve":
        return launch.argv[first + 1 :]
    if launch.engine == "sglang" or build.arguments_only(launch, "sglang"):
        return launch.argv
    return None


def deployment(launch: Launch) -> Deployment | None:
    """The deployment that a launch starts, None where it starts no SGLang server."""
    arguments = _arguments(launch)
    if arguments is None:
        return None
    version = build.version(launch, "sglang")
    release = build.as_version(version)
    parsed = parse(_config.merged(launch, arguments, "sglang"), table("sglang"), release)
    made = {"role": _role(launch, parsed)}
    if parsed.last("model-path") is None and parsed.positional and launch.model is None:
        made["model"] = fact(parsed.positional[0], word_text)
    found = build.deployment(launch, "sglang", parsed, _FACTS, engine_version=version, made=made)
    return _without_sizes(build.capped(found), release)


def _role(launch: Launch, parsed: Parsed) -> Fact | None:
    mode = parsed.last("disaggregation-mode")
    if mode is not None and mode.value is not None:
        if mode.value.text in ("prefill", "decode"):
            return Fact(mode.value.text, Source("declared", mode.value.path, mode.value.line))
        if mode.value.text is None:
            return build.role_by_name(launch)
        return Fact("unified", Source("declared", mode.value.path, mode.value.line))
    return None


def _without_sizes(found: Deployment, release: Version | None) -> Deployment:
    """Releases before 0.5.10 read whole numbers only: ``--context-length 128k`` does not start there."""
    if release is None or not below(release, "0.5.10"):
        return found
    changes = {}
    for name, flag in (("context_length", "context-length"), ("kv_pool_tokens", "max-total-tokens")):
        given = found.flag(flag)
        if (
            given is not None
            and isinstance(given.value, str)
            and integer(given.value) is None
            and found.fact(name).known
        ):
            changes[name] = Fact(unknown=Unknown("not-readable", supply=build.SUPPLY[name]))
    return found.replace(**changes)


# --- limits ------------------------------------------------------------------------------------------------------------

#: tp_worker.py: max_req_len = min(context - 1, cap - 1), max_req_input_len = max_req_len - 5; refused at len >= that.
_MARGIN = 6
_RESERVED_DECODE_TOKENS = 512
#: Share of the full-attention pool that the sliding-window layers get; from 0.5.20 the default is worked out at start-up.
_SWA_RATIO = 0.8


def cap(found: Deployment) -> int | None:
    """Tokens of KV pool that one request may use: the pool, times what the release multiplies it by (sglang.md 4.2).

    0.5.17–0.5.20 multiply by the decode context parallel size. From 0.5.21 logs and servers print logical tokens, which hold that
    factor; ``--max-total-tokens`` still counts rows. KV sharding multiplies by more (``shares_kv_across_ranks``): the cap is then at
    least this.
    """
    pool = found.kv_pool_tokens.number()
    release = version_of(found)
    if pool is None or release is None or below(release, "0.5.17"):
        return pool
    if below(release, "0.5.21") or found.kv_pool_tokens.bound == "upper":
        return pool * _flag_number(found, "dcp-size", 1)
    return pool


def shares_kv_across_ranks(found: Deployment) -> bool:
    """True with KV sharding (from 0.5.22): the limit is the pool times a factor that no file and no log tells (sglang.md 4.2)."""
    return found.flag("enable-kv-cache-sharding") is not None


def _flag_number(found: Deployment, name: str, default: int) -> int:
    flag = found.flag(name)
    value = human_integer(str(flag.value)) if flag is not None and flag.value is not None else None
    return value if value is not None else default


def _block_unknown(found: Deployment) -> bool:
    """True for a diffusion model from 0.5.21 on: its limit is lower by a block that only ``--dllm-algorithm-config`` names."""
    release = version_of(found)
    return found.flag("dllm-algorithm") is not None and (release is None or not below(release, "0.5.21"))


def first_rejected_length(found: Deployment) -> int | None:
    """The shortest prompt that the scheduler refuses: min(context, pool) − 6 (0.3.6–0.5.23), None where one is unknown.

    From 0.5.21 a diffusion model's block comes off as well; its size stands in no flag, so nothing is told. With KV sharding the
    limit is told only where the context alone decides it.
    """
    context, pool = found.context_length.number(), cap(found)
    if context is None or pool is None or _block_unknown(found):
        return None
    if pool >= context and found.kv_pool_tokens.bound == "upper":
        return None
    if pool < context and shares_kv_across_ranks(found):
        return None
    return max(0, min(context, pool) - _MARGIN)


def full_request_needs(found: Deployment) -> int | None:
    """Pool tokens for one request of full context: C + p (p from 0.5.11), and on decode C + reserved + p; None without a context."""
    context = found.context_length.number()
    if context is None:
        return None
    release = version_of(found)
    free = 0 if release is not None and below(release, "0.5.11") else page(found)
    if found.role.value == "decode":
        return context + _reserved(found) + free
    return context + free


def page(found: Deployment) -> int:
    """Page size in tokens; where nothing says it the default: 64 for sparse attention (DSA), 256 for DeepSeek-V4, 128 for MiniMax-M3,
    else 1 (sglang.md 1.5, 3)."""
    said = found.page_size.number()
    if said is not None:
        return said
    from checklistbot.knowledge.families import families

    kinds = families(found.model.text()) or families(found.served_model_name.text())
    if "dsa" in kinds:
        return 256 if "swa_hybrid" in kinds else 64
    return 128 if "minimax-m3" in kinds else 1


def _reserved(found: Deployment) -> int:
    return _flag_number(found, "num-reserved-decode-tokens", _RESERVED_DECODE_TOKENS)


def swa_pool(found: Deployment) -> int | None:
    """Tokens of the sliding-window pool: ``--swa-full-tokens-ratio`` (0.8 before 0.5.20) of the full-attention pool, in whole pages.

    None where the pool or the ratio is not known, and where there is no such pool (before 0.4.10.post2, or switched off).
    """
    pool, release = found.kv_pool_tokens.number(), version_of(found)
    if pool is None or release is None or below(release, "0.4.10.post2"):
        return None
    if found.flag("disable-hybrid-swa-memory") is not None or found.kv_pool_tokens.bound == "upper":
        return None
    flag = found.flag("swa-full-tokens-ratio")
    ratio = number(str(flag.value)) if flag is not None and flag.value is not None else None
    if flag is None and below(release, "0.5.20"):
        ratio = _SWA_RATIO
    size = page(found)
    return int(pool * float(ratio)) // size * size if ratio is not None else None


def swa_needs(found: Deployment, window: int) -> int:
    """Tokens of the sliding-window pool without which no long request is admitted, ``window`` being the model's (sglang.md 4.6): more
    than window + page, and on decode the window in whole pages beside the reserve. From 0.5.20 the server does not start below that."""
    size = page(found)
    needed = window + size + 1
    if found.role.value == "decode":
        return max(needed, -(-window // size) * size + _reserved(found))
    return needed


ENGINE = Engine(
    name="sglang",
    words=(b"sglang", b"sgl.Engine", b"SGLang"),
    serves=lambda launch: _arguments(launch) is not None,
    deployment=deployment,
    first_rejected_length=first_rejected_length,
    full_request_needs=full_request_needs,
)
