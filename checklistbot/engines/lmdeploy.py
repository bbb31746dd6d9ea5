"""LMDeploy: flags → facts (other-engines.md, "LMDeploy")."""

from __future__ import annotations

from checklistbot.engines import _build as build
from checklistbot.engines._flags import Table, fact, integer, number, parse, simple_table, word_text
from checklistbot.engines.base import Engine, Launch, Word
from checklistbot.model import Deployment, Fact, Source

_TABLE: Table = simple_table(
    (
        "--model-name",
        "--session-len",
        "--cache-max-entry-count",
        "--cache-block-seq-len",
        "--tp",
        "--dp",
        "--ep",
        "--backend",
        "--quant-policy",
        "--server-name",
        "--server-port",
        "--model-format",
        "--max-batch-size",
        "--max-prefill-token-num",
        "--num-tokens-per-iter",
        "--max-prefill-iters",
        "--chat-template",
        "--tool-call-parser",
        "--reasoning-parser",
        "--log-level",
        "--api-keys",
        "--rope-scaling-factor",
        "--revision",
        "--download-dir",
        "--dtype",
        "--device",
        "--proxy-url",
        "--role",
        "--migration-backend",
        "--communicator",
        "--vision-max-batch-size",
        "--hf-overrides",
        "--num-gpu-blocks",
    ),
    switches=(
        "--enable-prefix-caching",
        "--ssl",
        "--eager-mode",
        "--disable-fastapi-docs",
        "--enable-metrics",
        "--trust-remote-code",
    ),
)
_FACTS = {
    "served_model_name": build.Given(("model-name",), word_text),
    "context_length": build.Given(("session-len",), integer),
    "page_size": build.Given(("cache-block-seq-len",), integer),
    "memory_fraction": build.Given(("cache-max-entry-count",), number),
    "tensor_parallel": build.Given(("tp",), integer),
    "data_parallel": build.Given(("dp",), integer),
    "kv_cache_dtype": build.Given(("quant-policy",), {"4": "int4", "8": "int8"}.get),
}
_ROLES = {"Prefill": "prefill", "Decode": "decode"}


def _arguments(launch: Launch) -> tuple[Word, ...] | None:
    """The server's arguments; ``lmdeploy serve proxy`` is a router, ``chat`` and ``lite`` serve nothing."""
    name, first = build.program(launch.argv)
    rest = launch.argv[first:]
    if name in ("lmdeploy", "-m lmdeploy"):
        return rest[2:] if [w.text for w in rest[:2]] == ["serve", "api_server"] else None
    if name == "-m lmdeploy.serve.openai.api_server":
        return rest
    return launch.argv if launch.engine == "lmdeploy" else None


def deployment(launch: Launch) -> Deployment | None:
    """The deployment that a launch starts, None where it starts no LMDeploy server."""
    arguments = _arguments(launch)
    if arguments is None:
        return None
    parsed = parse(arguments, _TABLE)
    made: dict[str, Fact | None] = {}
    if parsed.positional:
        made["model"] = fact(parsed.positional[0], word_text)
    role = parsed.last("role")
    if role is not None and role.value is not None and role.value.text in _ROLES:
        made["role"] = Fact(_ROLES[role.value.text], Source("declared", role.value.path, role.value.line))
    return build.deployment(
        launch, "lmdeploy", parsed, _FACTS, engine_version=build.version(launch, "lmdeploy"), made=made
    )


def first_rejected_length(found: Deployment) -> int | None:
    """Prompts of session_len tokens and more are refused; between pool and session_len an error follows."""
    context, pool = found.context_length.number(), found.kv_pool_tokens.number()
    if context is None:
        return None
    return context if pool is None else min(context, pool)


def full_request_needs(found: Deployment) -> int | None:
    """Pool tokens for one request of full context: the PyTorch engine keeps one block back."""
    context = found.context_length.number()
    return None if context is None else context + (found.page_size.number() or 64)


ENGINE = Engine(
    name="lmdeploy",
    words=(b"lmdeploy", b"LMDeploy"),
    serves=lambda launch: _arguments(launch) is not None,
    deployment=deployment,
    first_rejected_length=first_rejected_length,
    full_request_needs=full_request_needs,
)
