"""Keyword arguments of the engines' Python interfaces as the flags of their servers.

Names follow the servers' own: SGLang and vLLM build their flags from these very fields; TensorRT-LLM, LMDeploy and llama.cpp
have other names for some (their documentation: ``LLM`` arguments, ``TurbomindEngineConfig``, ``Llama``).
"""

from __future__ import annotations

import json
from dataclasses import field
from typing import Final

from checklistbot.discovery.interpret import pylibrary
from checklistbot.discovery.interpret.marks import settled, word
from checklistbot.discovery.interpret.pymachine import Call, Machine
from checklistbot.discovery.interpret.pyvalues import Const, Inst, Map, Obj, Seq, Unk, Value
from checklistbot.engines.base import Word
from checklistbot.lazy import pattern
from checklistbot.record import mutable_record


@mutable_record
class EngineCall:
    """One construction of an engine: its flags, and what the call itself says about the deployment."""

    engine: str
    argv: list[Word]
    model: Word | None = None
    served_model_name: Word | None = None
    gpu: Word | None = None
    gpu_count: Word | None = None
    replicas: Word | None = None
    role: Word | None = None
    uses: Value | None = None
    mounted: dict[str, tuple[str, str, int]] = field(default_factory=dict)


_VLLM = pattern(
    r"(?:^vllm|\.vllm)(?:_\w+)?\.(?:.*\.)?(?:LLM|AsyncEngineArgs|EngineArgs|AsyncOmni|Omni)$|^(?:LLM|AsyncEngineArgs|EngineArgs)$"
)
_VLLM_OTHERS = pattern(r"(?:^|\.)(?:VLLMArgs|VLLM|VLLMOpenAI)$")
_SGLANG = pattern(r"^(?:sglang|sgl)\.(?:.*\.)?(?:Engine|Runtime|ServerArgs)$")
_SGLANG_ARGV = pattern(r"^(?:sglang|sgl)\.(?:.*\.)?prepare_server_args$")
_TRT = pattern(r"^tensorrt_llm\.(?:.*\.)?LLM$")
_LMDEPLOY = pattern(r"^lmdeploy\.(?:.*\.)?(?:pipeline|serve|api_server)$")
_LLAMA = pattern(r"^llama_cpp\.(?:.*\.)?Llama(?:\.from_pretrained)?$")
_RAY = pattern(r"^ray\.(?:.*\.)?LLMConfig$")
_TRT_NAMES: Final = {
    "tensor_parallel_size": "tp_size", "pipeline_parallel_size": "pp_size", "context_parallel_size": "cp_size",
    "moe_expert_parallel_size": "ep_size",
}  # fmt: skip
_LLAMA_NAMES: Final = {
    "model_path": "model", "n_ctx": "ctx-size", "n_gpu_layers": "n-gpu-layers", "n_batch": "batch-size",
    "type_k": "cache-type-k", "type_v": "cache-type-v", "flash_attn": "flash-attn",
}  # fmt: skip


def engine_call(machine: Machine, call: Call) -> EngineCall | None:
    """The engine that a call constructs, None where it constructs none."""
    name = call.name
    if _VLLM.search(name) and not name.startswith("tensorrt"):
        return _plain(machine, call, "vllm", "model")
    if _VLLM_OTHERS.search(name) and call.kwargs:
        return _langchain(machine, call)
    if _SGLANG.search(name):
        given = call.kwargs.get("server_args")
        if given is not None:
            given_kwargs = given.kwargs if isinstance(given, Obj) else {}
            call = Call(name, [], {**given_kwargs, **call.kwargs}, call.at, call.receiver, call.spread)
            call.kwargs.pop("server_args")
        made = _plain(machine, call, "sglang", "model_path")
        made.uses = given
        return made
    if _SGLANG_ARGV.search(name) and call.args and isinstance(call.args[0], Seq):
        return EngineCall("sglang", [word(machine.text(v), v.at) for v in call.args[0].data])
    if _TRT.search(name):
        return _tensorrt(machine, call)
    if _LMDEPLOY.search(name):
        return _lmdeploy(machine, call)
    if _LLAMA.search(name):
        return _llama(machine, call)
    if _RAY.search(name):
        return ray_config(machine, Map(call.at, dict(call.kwargs)))
    return None


def flag(machine: Machine, name: str, value: Value) -> list[Word]:
    """One keyword argument as words: True is a bare switch, None and empty say nothing, structures are JSON."""
    spelled = "--" + (name[1:] if name.startswith("=") else name.replace("_", "-"))
    if isinstance(value, Const):
        if value.value is None or value.value == "":
            return []
        if isinstance(value.value, bool):
            if value.value:
                return [word(spelled, value.at)]
            return [word("--no-" + name.replace("_", "-"), value.at)] if name.startswith("enable_") else []
    if isinstance(value, Unk) and value.assumed is None and value.kind != "environment":
        return []
    if isinstance(value, (Map, Seq, Obj)) or (isinstance(value, Inst) and "value" not in value.data):
        if isinstance(value, Seq) and all(isinstance(v, (Const, Unk)) for v in value.data):
            return [word(spelled, value.at), *(word(machine.text(v), v.at) for v in value.data)] if value.data else []
        if isinstance(value, Obj) and not value.kwargs:
            return [word(spelled, value.at), word(machine.text(Unk(value.at, value.name)), value.at)]
        return [word(spelled, value.at), word(_json(machine, value), value.at)]
    return [word(spelled, value.at), word(machine.text(value), value.at)]


def _json(machine: Machine, value: Value) -> str:
    try:
        return json.dumps(pylibrary.to_plain(machine, value), ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return machine.text(Unk(value.at))


def flags(machine: Machine, kwargs: dict[str, Value], names: dict[str, str] | None = None) -> list[Word]:
    return [entry for name, value in kwargs.items() for entry in flag(machine, (names or {}).get(name, name), value)]


def _underscored(names: dict[str, Value]) -> dict[str, str]:
    """TensorRT-LLM's flags keep the underscores of their names."""
    return {name: "=" + _TRT_NAMES.get(name, name) for name in names}


def _plain(machine: Machine, call: Call, engine: str, model: str) -> EngineCall:
    kwargs = dict(call.kwargs)
    if call.args and model not in kwargs:
        kwargs = {model: call.args[0], **kwargs}
    return EngineCall(engine, flags(machine, kwargs))


def _langchain(machine: Machine, call: Call) -> EngineCall | None:
    """LangChain's and LlamaIndex's VLLM, Beam's VLLMArgs: vLLM's names, the rest in ``vllm_kwargs``."""
    kwargs = dict(call.kwargs)
    if "openai_api_base" in kwargs or "base_url" in kwargs or "model" not in kwargs:
        return None
    inner = kwargs.pop("vllm_kwargs", None)
    extra = {str(k): v for k, v in inner.data.items()} if isinstance(inner, Map) else {}
    for name in ("temperature", "top_p", "top_k", "max_new_tokens", "callbacks", "max_tokens"):
        kwargs.pop(name, None)
    return EngineCall("vllm", flags(machine, {**kwargs, **extra}))


def _tensorrt(machine: Machine, call: Call) -> EngineCall:
    kwargs = dict(call.kwargs)
    if call.args and "model" not in kwargs:
        kwargs = {"model": call.args[0], **kwargs}
    model = kwargs.pop("model", None)
    argv = [word("trtllm-serve", call.at)]
    if model is not None:
        argv.append(word(machine.text(model), model.at))
    cache = kwargs.pop("kv_cache_config", None)
    made = EngineCall("tensorrt-llm", argv)
    if isinstance(cache, (Obj, Map, Inst)):
        data = cache.kwargs if isinstance(cache, Obj) else cache.data
        text = json.dumps({"kv_cache_config": {str(k): pylibrary.to_plain(machine, v) for k, v in data.items()}})
        argv += [word("--extra_llm_api_options", cache.at), word("/kv_cache_config.yaml", cache.at)]
        made.mounted["/kv_cache_config.yaml"] = (text, *cache.at)
    argv += flags(machine, kwargs, _underscored(kwargs))
    return made


def _lmdeploy(machine: Machine, call: Call) -> EngineCall:
    kwargs = dict(call.kwargs)
    model = call.args[0] if call.args else kwargs.pop("model_path", None)
    config = kwargs.get("backend_config") or (call.args[1] if len(call.args) > 1 else None)
    inner = config.kwargs if isinstance(config, Obj) else {}
    argv = [word(t, call.at) for t in ("lmdeploy", "serve", "api_server")]
    if model is not None:
        argv.append(word(machine.text(model), model.at))
    if isinstance(config, Obj) and "Pytorch" in config.name:
        argv += [word("--backend", config.at), word("pytorch", config.at)]
    name = kwargs.get("model_name")
    return EngineCall("lmdeploy", [*argv, *flags(machine, {**({"model_name": name} if name else {}), **inner})])


def _llama(machine: Machine, call: Call) -> EngineCall:
    kwargs = dict(call.kwargs)
    if call.args and "model_path" not in kwargs:
        kwargs = {"model_path": call.args[0], **kwargs}
    if "repo_id" in kwargs:
        kwargs["hf_repo"] = kwargs.pop("repo_id")
    kept = {k: v for k, v in kwargs.items() if k in _LLAMA_NAMES or k in ("hf_repo", "filename")}
    # One sequence at a time: the library has no slots, so the whole context belongs to the one request.
    argv = [word("llama-server", call.at), *flags(machine, kept, {**_LLAMA_NAMES, "filename": "hf-file"})]
    return EngineCall("llama.cpp", [*argv, word("--parallel", call.at), word("1", call.at)])


def ray_config(machine: Machine, config: Map) -> EngineCall:
    """Ray Serve's LLMConfig: vLLM is implied, ``model_id`` is the public name, ``model_source`` the model."""
    loading = _fields(config.data.get("model_loading_config"))
    model_id, source = loading.get("model_id"), loading.get("model_source") or loading.get("model_id")
    if isinstance(source, (Map, Obj)):
        source = model_id
    engine = _fields(config.data.get("engine_kwargs"))
    deployment = _fields(config.data.get("deployment_config"))
    scaling = _fields(deployment.get("autoscaling_config"))
    replicas = deployment.get("num_replicas") or scaling.get("min_replicas")
    accelerator = config.data.get("accelerator_type")

    def finished(value: Value | None) -> Word | None:
        known = value is not None and not (isinstance(value, Const) and value.value is None)
        return settled(machine.text(value), value.at) if known and value is not None else None

    return EngineCall(
        "vllm",
        [*(flag(machine, "model", source) if source else []), *flags(machine, {str(k): v for k, v in engine.items()})],
        served_model_name=finished(model_id if source is not model_id or "model_source" in loading else None),
        gpu=finished(accelerator),
        replicas=finished(replicas if isinstance(replicas, Const) and isinstance(replicas.value, int) else None),
    )


def _fields(value: Value | None) -> dict[str, Value]:
    if isinstance(value, (Map, Inst)):
        return {str(k): v for k, v in value.data.items()}
    return dict(value.kwargs) if isinstance(value, Obj) else {}
