"""What the endpoint says about its own limits: server info, models, metrics, props. Questions only, no prompt is sent."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from checklistbot.probe.case import Limits
from checklistbot.probe.wire import Call, Transport

_SECONDS: Final = 15.0
_MARGIN: Final = 6


def discover(transport: Transport) -> tuple[Limits, str | None]:
    """Limits and the first served model's name, as far as the endpoint tells them."""
    limits, model = Limits(), None
    info = _get(transport, "/server_info") or _get(transport, "/get_server_info")
    for worker in _workers(info):
        _sglang_worker(limits, worker)
    card = _first_card(_get(transport, "/v1/models"))
    if card is not None:
        model = card.get("id") if isinstance(card.get("id"), str) else None
        _context(limits, card.get("max_model_len"))
        if card.get("owned_by") == "vllm":
            limits.engine = limits.engine or "vllm"
    _metrics(limits, transport)
    _llama_cpp(limits, _get(transport, "/props"))
    settle(limits)
    return limits, model


def settle(limits: Limits) -> None:
    """The first rejected length, where the engine is known by what it said."""
    if limits.rejected_by_role:
        limits.first_rejected = min(limits.rejected_by_role.values())
        limits.sure = True
    elif limits.engine == "sglang" and limits.context and limits.pool:
        limits.first_rejected = min(limits.context, limits.pool) - _MARGIN
        limits.sure = True
    elif limits.engine in ("vllm", "llama.cpp") and limits.context:
        # Prompt and output share the context: a prompt that fills it leaves no room for one token.
        limits.first_rejected = limits.context
        limits.sure = True


def _get(transport: Transport, path: str) -> Any:
    answer = transport.send([Call("GET", path, deadline=_SECONDS)])[0]
    return answer.json() if answer.status == 200 else None


def _workers(info: Any) -> Iterator[dict[str, Any]]:
    """Server info of one worker, or of a router that gathers its workers'."""
    if not isinstance(info, dict):
        return
    for role in ("prefill", "decode"):
        for worker in info.get(role) or () if isinstance(info.get(role), list) else ():
            if isinstance(worker, dict):
                yield {"disaggregation_mode": role, **worker}
    if "max_total_num_tokens" in info or "max_req_input_len" in info:
        yield info


def _sglang_worker(limits: Limits, worker: dict[str, Any]) -> None:
    role = str(worker.get("disaggregation_mode") or "unified")
    role = role if role in ("prefill", "decode") else "unified"
    limits.engine = "sglang"
    version = worker.get("version")
    if isinstance(version, str) and re.fullmatch(r"[0-9A-Za-z.+-]{1,40}", version):
        limits.version = version
    pool, rejected = _whole(worker.get("max_total_num_tokens")), _whole(worker.get("max_req_input_len"))
    for state in worker.get("internal_states") or ():
        usage = state.get("memory_usage") if isinstance(state, dict) else None
        capacity = _whole(usage.get("token_capacity")) if isinstance(usage, dict) else None
        pool = min(pool, capacity) if pool and capacity else pool or capacity
    if pool:
        limits.pools[role] = min(pool, limits.pools.get(role, pool))
    if rejected:
        limits.rejected_by_role[role] = min(rejected, limits.rejected_by_role.get(role, rejected))
    _context(limits, worker.get("context_length"))
    limits.page = limits.page or _whole(worker.get("page_size"))
    limits.chunk = limits.chunk or _whole(worker.get("chunked_prefill_size"))


def _context(limits: Limits, value: Any) -> None:
    number = _whole(value)
    if number:
        limits.context = min(number, limits.context or number)


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= 1 << 40 else None


def _first_card(models: Any) -> dict[str, Any] | None:
    data = models.get("data") if isinstance(models, dict) else None
    return data[0] if isinstance(data, list) and data and isinstance(data[0], dict) else None


def _metrics(limits: Limits, transport: Transport) -> None:
    answer = transport.send([Call("GET", "/metrics", deadline=_SECONDS)])[0]
    if answer.status != 200:
        return
    text = answer.body.decode("utf-8", "replace")
    found = re.search(r"^vllm:cache_config_info\{([^}\n]*)\}", text, re.M)
    if found is not None:
        labels = dict(re.findall(r'(\w+)="([^"]*)"', found[1]))
        limits.engine = "vllm"
        limits.page = limits.page or _number(labels.get("block_size"))
        pool = _number(labels.get("kv_cache_size_tokens"))
        blocks = _number(labels.get("num_gpu_blocks"))
        if pool or (blocks and limits.page):
            limits.pools.setdefault("unified", pool or (blocks or 0) * (limits.page or 0))
    for name, role in re.findall(
        r'^sglang:max_total_num_tokens\{[^}\n]*engine_type="(\w+)"[^}\n]*\} ([0-9.e+]+)', text, re.M
    ):
        limits.engine = limits.engine or "sglang"
        limits.pools.setdefault(name if name in ("prefill", "decode") else "unified", int(float(role)))


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isdigit() and len(text) < 13 else None


def _llama_cpp(limits: Limits, props: Any) -> None:
    if not isinstance(props, dict):
        return
    settings = props.get("default_generation_settings")
    number = _whole(settings.get("n_ctx")) if isinstance(settings, dict) else _whole(props.get("n_ctx"))
    if number and "total_slots" in props:
        limits.engine = "llama.cpp"
        limits.context = number
