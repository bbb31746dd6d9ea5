"""What the values of well-known charts deploy, without the chart.

Sources: the values and templates of llm-d-modelservice and vllm production-stack (see the project's facts on other engines), and the common
names of home-made charts.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator
from typing import Final

from checklistbot.discovery.interpret.gorender import show
from checklistbot.discovery.interpret.marks import Place, settled, word
from checklistbot.discovery.interpret.pylibrary import shell_words
from checklistbot.discovery.interpret.pyvalues import Const, Map, Seq, Unk, Value
from checklistbot.discovery.tree import Tree
from checklistbot.engines.base import Launch, Word
from checklistbot.lazy import pattern

_GPU_KEY = pattern(r"(?:nvidia\.com/|amd\.com/|habana\.ai/|google\.com/tpu|gpu\.intel\.com/)(?!mig)")
_ENGINE = pattern(
    r"sglang|vllm|lmdeploy|tensorrt|trtllm|text-generation-inference|\btgi\b|llama\.?cpp|llama-server", re.IGNORECASE
)


def launches(tree: Tree, values: Value, *, environment: str = "default") -> list[Launch]:
    """The engines that the values deploy, by whichever chart they are for."""
    if not isinstance(values, Map):
        return []
    if isinstance(values.data.get("servingEngineSpec"), Map):
        found = list(_production_stack(tree, values))
    elif any(_list(_get(values, role, "containers")) for role in ("decode", "prefill")):
        found = list(_modelservice(tree, values))
    elif isinstance(catalog := values.data.get("catalog"), Map) and any(
        _get(entry, "engine") is not None for entry in catalog.data.values()
    ):
        found = list(_kubeai(values))
    else:
        found = list(_sectioned(values)) or list(_generic(tree, values, 0, "values"))
    return [dataclasses.replace(launch, environment=environment) for launch in found]


# --- access ------------------------------------------------------------------------------------------------------------------


def _get(value: Value | None, *keys: str) -> Value | None:
    for key in keys:
        value = value.data.get(key) if isinstance(value, Map) else None
    return None if isinstance(value, Const) and value.value is None else value


def _scalar(value: Value | None) -> Word | None:
    known = isinstance(value, (Const, Unk)) and not (isinstance(value, Const) and value.value in (None, ""))
    return settled(_plain(show(value)), value.at) if known and value is not None else None


def _plain(text: str) -> str:
    """A value with a reference to another value in it (``{{ .Values.x }}``) is not known without the chart."""
    from checklistbot.discovery.interpret.marks import mark

    return re.sub(r"\{\{[^{}]*\}\}", lambda m: mark(m[0].strip("{} "), "not-rendered"), text)


def _list(value: Value | None) -> list[Value]:
    return list(value.data) if isinstance(value, Seq) else []


def _words(value: Value | None) -> list[Word]:
    """Arguments as a list, as one string with line continuations, or as a map of flags."""
    if isinstance(value, Seq):
        return [word(_plain(show(v)), v.at) for v in value.data if not (isinstance(v, Const) and v.value is None)]
    if isinstance(value, Map):
        return [w for name, v in value.data.items() for w in _flag(str(name), v)]
    if isinstance(value, Const) and isinstance(value.value, str):
        first = value.at[1] + (1 if "\n" in value.value else 0)
        lines = Const((value.at[0], first), _plain(value.value))
        return [word(show(v), v.at) for v in _split(lines)]
    return []


def _split(text: Const) -> list[Value]:
    return [v for v in shell_words(None, text).data if show(v).strip() not in ("", "\\")]  # type: ignore[arg-type]


def _flag(name: str, value: Value | None) -> list[Word]:
    spelled = (
        name if name.startswith("-") else "--" + re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name).lower().replace("_", "-")
    )
    if value is None or (isinstance(value, Const) and value.value in (None, False)):
        return []
    if isinstance(value, Const) and value.value is True:
        return [word(spelled, value.at)]
    if isinstance(value, (Map, Seq)):
        from checklistbot.discovery.interpret.hcleval import plain

        return [word(spelled, value.at), word(json.dumps(plain(value)), value.at)] if value.data else []
    return [word(spelled, value.at), word(_plain(show(value)), value.at)]


def _environment(value: Value | None) -> dict[str, Word]:
    found: dict[str, Word] = {}
    for entry in _list(value):
        name, content = _get(entry, "name"), _get(entry, "value")
        if name is not None and isinstance(content, (Const, Unk)):
            found[show(name)] = settled(_plain(show(content)), content.at)
    if isinstance(value, Map):
        found.update(
            {str(k): settled(_plain(show(v)), v.at) for k, v in value.data.items() if isinstance(v, (Const, Unk))}
        )
    return found


def _image(value: Value | None, tag: Value | None = None) -> Word | None:
    """``image: repo:tag``, ``image: {repository, tag}`` or the two side by side."""
    if isinstance(value, Map):
        registry = _get(value, "registry")
        tag = _get(value, "tag")
        name = _get(value, "repository") or _get(value, "repo") or _get(value, "name")
        if name is None:
            return None
        prefix = show(registry) + "/" if registry is not None else ""
        return settled(_plain(prefix + show(name) + (f":{show(tag)}" if tag is not None else "")), (tag or name).at)
    if isinstance(value, (Const, Unk)) and tag is not None:
        return settled(_plain(f"{show(value)}:{show(tag)}"), tag.at)
    return _scalar(value)


def _gpus(resources: Value | None) -> Word | None:
    for section in ("limits", "requests"):
        limits = _get(resources, section)
        for key, value in limits.data.items() if isinstance(limits, Map) else ():
            if _GPU_KEY.match(str(key)):
                return _scalar(value)
    return None


def _off(value: Value | None) -> bool:
    return isinstance(value, Const) and value.value is False


# --- vLLM production-stack ---------------------------------------------------------------------------------------------------

_STACK: Final = {
    "maxModelLen": "--max-model-len", "gpuMemoryUtilization": "--gpu-memory-utilization", "tensorParallelSize": "--tensor-parallel-size",
    "pipelineParallelSize": "--pipeline-parallel-size", "dataParallelSize": "--data-parallel-size", "dtype": "--dtype",
    "maxNumSeqs": "--max-num-seqs", "maxNumBatchedTokens": "--max-num-batched-tokens", "kvCacheDtype": "--kv-cache-dtype",
    "enablePrefixCaching": "--enable-prefix-caching", "enableChunkedPrefill": "--enable-chunked-prefill", "maxLoras": "--max-loras",
    "quantization": "--quantization", "blockSize": "--block-size",
}  # fmt: skip


def _production_stack(tree: Tree, values: Map) -> Iterator[Launch]:
    spec = values.data["servingEngineSpec"]
    if _off(_get(spec, "enableEngine")):
        return
    for model in _list(_get(spec, "modelSpec")):
        url = _get(model, "modelURL")
        if not isinstance(model, Map) or url is None:
            continue
        config = _get(model, "vllmConfig")
        argv = [word(t, url.at) for t in ("vllm", "serve")] + [word(_plain(show(url)), url.at)]
        for option, flag in _STACK.items():
            argv += _flag(flag, _get(config, option))
        argv += _words(_get(config, "extraArgs"))
        role, transfer = _lmcache(_get(model, "lmcacheConfig"))
        name = _get(model, "name")
        template = Launch(
            (),
            model.at[0],
            model.at[1],
            show(name) if name is not None else "model",
            env=_environment(_get(model, "env")),
            image=_image(_get(model, "repository"), _get(model, "tag")),
            replicas=_scalar(_get(model, "replicaCount")),
            gpu=_mig(_get(model, "requestGPUType")),
            gpu_count=_scalar(_get(model, "requestGPU")),
            role=role,
            format="values",
        )
        yield from _expanded(tree, template, [*argv, *transfer])


def _mig(value: Value | None) -> Word | None:
    """A resource name says the vendor, only a MIG profile says more."""
    return _scalar(value) if value is not None and "mig" in show(value) else None


def _lmcache(config: Value | None) -> tuple[Word | None, list[Word]]:
    role = _get(config, "kvRole")
    if role is None or _off(_get(config, "enabled")):
        return None, []
    named = {"kv_producer": "prefill", "kv_consumer": "decode"}.get(show(role))
    transfer = json.dumps({"kv_connector": "LMCacheConnectorV1", "kv_role": show(role)})
    return (settled(named, role.at) if named else None), [
        word("--kv-transfer-config", role.at),
        word(transfer, role.at),
    ]


def _expanded(tree: Tree, template: Launch, words: list[Word]) -> list[Launch]:
    """The launch by the common reader, at the place that the values give it."""
    from checklistbot.discovery.launches import expand

    return [
        dataclasses.replace(found, path=template.path, line=template.line) for found in expand(template, words, tree)
    ]


# --- llm-d modelservice --------------------------------------------------------------------------------------------------------


def _modelservice(tree: Tree, values: Map) -> Iterator[Launch]:
    roles = [
        r for r in ("decode", "prefill") if isinstance(_get(values, r), Map) and not _off(_get(values, r, "create"))
    ]
    roles = [r for r in roles if _list(_get(values, r, "containers"))]
    for role in roles:
        section = values.data[role]
        for container in _list(_get(section, "containers")):
            if isinstance(container, Map):
                yield from _model_container(tree, values, section, container, role if len(roles) > 1 else None)


def _model_container(tree: Tree, values: Map, section: Value, container: Map, role: str | None) -> Iterator[Launch]:
    model = _get(values, "modelArtifacts", "name") or _get(values, "modelArtifacts", "uri")
    mode = _get(container, "modelCommand")
    kind = show(mode) if mode is not None else ""
    words = _words(_get(container, "command")) if kind in ("", "custom") else []
    at: Place = container.at
    if model is not None and kind in ("vllmServe", "imageDefault"):
        named = re.sub(r"^(?:hf|pvc\+hf|oci\+native|pvc)://", "", show(model))
        head = ["vllm", "serve", named] if kind == "vllmServe" else ["--model", named]
        words = [*(word(t, model.at if t == named else at) for t in head), *words]
    words += _words(_get(container, "args"))
    tensor = _get(section, "parallelism", "tensor")
    if (
        tensor is not None
        and kind == "vllmServe"
        and not any((w.text or "").startswith("--tensor-parallel-size") for w in words)
    ):
        words += _flag("--tensor-parallel-size", tensor)
    template = Launch(
        (),
        *at,
        show(model).rsplit("/", 1)[-1] if model is not None else "modelservice",
        env=_environment(_get(container, "env")),
        image=_image(_get(container, "image")),
        replicas=_scalar(_get(section, "replicas")),
        gpu=_scalar(_get(values, "accelerator", "type")),
        gpu_count=_gpus(_get(container, "resources")),
        role=settled(role, section.at) if role else None,
        format="values",
    )
    stated = isinstance(_get(container, "resources"), Map)
    for launch in _expanded(tree, template, words):
        # Where a pod states its resources, the list of visible devices does not say how many it is given.
        yield dataclasses.replace(launch, gpu_count=template.gpu_count) if stated else launch


# --- KubeAI's catalogue ---------------------------------------------------------------------------------------------------------


def _kubeai(values: Map) -> Iterator[Launch]:
    """``catalog: {NAME: {enabled, url, engine, args, resourceProfile}}``: what is not enabled is an offer, not a deployment."""
    everything = _get(values, "all", "enabled")
    catalog = values.data["catalog"]
    for name, entry in catalog.data.items() if isinstance(catalog, Map) else ():
        enabled, url, kind = _get(entry, "enabled"), _get(entry, "url"), _get(entry, "engine")
        on = any(isinstance(v, Const) and v.value is True for v in (enabled, everything))
        engine = {"vllm": "vllm", "ollama": "ollama"}.get(show(kind).lower()) if kind is not None else None
        features = [show(f) for f in _list(_get(entry, "features"))]
        if not on or engine is None or url is None or (features and "TextGeneration" not in features):
            continue
        profile = _scalar(_get(entry, "resourceProfile"))
        gpu, _, count = (profile.text or "").rpartition(":") if profile is not None else ("", "", "")
        accelerated = profile is not None and count.isdigit() and not gpu.startswith("cpu")
        yield Launch(
            tuple(map(_finished, _words(_get(entry, "args")))),
            *url.at,
            str(name),
            env=_environment(_get(entry, "env")),
            replicas=_scalar(_get(entry, "minReplicas")),
            gpu=dataclasses.replace(profile, text=gpu) if accelerated and profile is not None else None,
            gpu_count=dataclasses.replace(profile, text=count) if accelerated and profile is not None else None,
            engine=engine,
            model=_scalar(url),
            format="values",
        )


# --- charts with a section for each engine ----------------------------------------------------------------------------------------

_SECTIONS: Final = {
    "vllm": "vllm",
    "sglang": "sglang",
    "lmdeploy": "lmdeploy",
    "trtllm": "tensorrt-llm",
    "tensorrtLlm": "tensorrt-llm",
    "tgi": "tgi",
}


def _model_above(values: Map) -> Value | None:
    """The model that the values name beside the engine's section."""
    model = _get(values, "model")
    names = ("name", "id", "path", "repo") if isinstance(model, Map) else ()
    found = next((v for k in names if (v := _get(model, k)) is not None), model)
    return found if isinstance(found, Const) else None


def _sectioned(values: Map) -> Iterator[Launch]:
    """``model: {name, tp_size}``, ``job: {gpus}`` and ``sglang: {serverArgs: {…}}``: the section's name is the engine."""
    model = _model_above(values)
    for name, engine in _SECTIONS.items():
        section = _get(values, name)
        arguments = next((v for k in _ARGUMENTS if isinstance(v := _get(section, k), (Map, Seq))), None)
        if not isinstance(section, Map) or arguments is None or model is None or _off(_get(section, "enabled")):
            continue
        argv = _flag("--model-path" if engine == "sglang" else "--model", model)
        beside = _get(values, "model")
        for key, value in beside.data.items() if isinstance(beside, Map) else ():
            flag = _FLAGS.get(str(key).replace("_", "").replace("-", "").lower())
            if flag is not None and isinstance(value, (Const, Unk)):
                argv += _flag(_SGLANG.get(flag, flag) if engine == "sglang" else flag, value)
        argv += _words(arguments)
        job = next((m for k in ("job", "workload", "resources") if isinstance(m := _get(values, k), Map)), None)
        yield Launch(
            tuple(map(_finished, argv)),
            *section.at,
            str(name),
            image=_image(_get(section, "image") or _get(job, "image")),
            replicas=_scalar(_get(section, "replicaCount") or _get(section, "replicas")),
            gpu_count=_gpus(_get(section, "resources")) or _scalar(_get(job, "gpus")),
            engine=engine,
            format="values",
        )


# --- home-made charts ----------------------------------------------------------------------------------------------------------

_MODEL: Final = (
    "model",
    "modelId",
    "modelID",
    "model_id",
    "modelName",
    "model_name",
    "modelPath",
    "model_path",
    "modelURL",
    "modelUrl",
    "repo",
    "hfModel",
)
_FLAGS: Final[dict[str, str]] = {
    "servedmodelname": "--served-model-name", "tpsize": "--tensor-parallel-size", "tp": "--tensor-parallel-size",
    "tensorparallelsize": "--tensor-parallel-size", "tensorparallel": "--tensor-parallel-size", "ppsize": "--pipeline-parallel-size",
    "pipelineparallelsize": "--pipeline-parallel-size", "dpsize": "--data-parallel-size", "dataparallelsize": "--data-parallel-size",
    "contextlength": "--context-length", "maxmodellen": "--max-model-len", "maxmodellength": "--max-model-len",
    "memfractionstatic": "--mem-fraction-static", "gpumemoryutilization": "--gpu-memory-utilization", "kvcachedtype": "--kv-cache-dtype",
    "maxtotaltokens": "--max-total-tokens", "maxnumseqs": "--max-num-seqs", "maxrunningrequests": "--max-running-requests",
    "dtype": "--dtype", "quantization": "--quantization", "disaggregationmode": "--disaggregation-mode",
}  # fmt: skip
_SGLANG: Final = {
    "--tensor-parallel-size": "--tp-size",
    "--pipeline-parallel-size": "--pp-size",
    "--data-parallel-size": "--dp-size",
    "--max-model-len": "--context-length",
}
_ARGUMENTS: Final = (
    "args",
    "extraArgs",
    "extra_args",
    "extraFlags",
    "serverArgs",
    "engineArgs",
    "vllmArgs",
    "sglangArgs",
    "additionalArgs",
    "command",
)


def _engine(values: Map) -> tuple[str | None, Word | None]:
    image = _image(_get(values, "image"), _get(values, "tag")) if _get(values, "image") is not None else None
    named = next(
        (
            v
            for k in ("framework", "engine", "backend", "runtime", "inferenceEngine")
            if isinstance(v := _get(values, k), Const)
        ),
        None,
    )
    text = show(named) if named is not None else ""
    match = _ENGINE.search(text) or _ENGINE.search((image.text or "") if image else "")
    if match is None:
        return None, image
    names = {
        "trtllm": "tensorrt-llm",
        "tensorrt": "tensorrt-llm",
        "text-generation-inference": "tgi",
        "llamacpp": "llama.cpp",
        "llama-server": "llama.cpp",
    }
    found = match[0].lower()
    return names.get(found, found), image


def _generic(tree: Tree, values: Map, depth: int, name: str) -> Iterator[Launch]:
    """Maps that name an engine (or its image) and a model."""
    engine, image = _engine(values)
    model = next((v for k in _MODEL if isinstance(v := _get(values, k), (Const, Unk))), None)
    inner = _get(values, "model")
    if model is None and isinstance(inner, Map):
        model = next(
            (v for k in ("name", "id", "path", *_MODEL) if isinstance(v := _get(inner, k), (Const, Unk))), None
        )
    enabled = _get(values, "enabled")
    if engine is not None and model is not None and not _off(enabled):
        yield from _generic_launch(tree, values, engine, image, model, name)
        return
    if depth < 5 and not _off(enabled):
        for key, value in values.data.items():
            for entry in [value] if isinstance(value, Map) else _list(value):
                if isinstance(entry, Map):
                    title = _get(entry, "name")
                    yield from _generic(tree, entry, depth + 1, show(title) if isinstance(title, Const) else str(key))


def _generic_launch(
    tree: Tree, values: Map, engine: str, image: Word | None, model: Value, name: str
) -> Iterator[Launch]:
    argv = _flag("--model-path" if engine == "sglang" else "--model", model)
    inner = _get(values, "model")
    for source in (values, inner if isinstance(inner, Map) else Map(values.at, {})):
        for key, value in source.data.items():
            flag = _FLAGS.get(str(key).replace("_", "").replace("-", "").lower())
            if (
                flag is not None
                and isinstance(value, (Const, Unk))
                and not (isinstance(value, Const) and value.value in (None, ""))
            ):
                argv += _flag(_SGLANG.get(flag, flag) if engine == "sglang" else flag, value)
    for key in _ARGUMENTS:
        argv += _words(_get(values, key))
    gpus = _gpus(_get(values, "resources")) or _scalar(
        next(
            (
                v
                for k in ("gpus", "gpuCount", "numGpus", "requestGPU", "gpu")
                if isinstance(v := _get(values, k), Const) and str(v.value).isdigit()
            ),
            None,
        )
    )
    yield Launch(
        tuple(map(_finished, argv)),
        *model.at,
        name,
        env=_environment(
            next((v for k in ("extraEnv", "env", "envs", "environment") if (v := _get(values, k)) is not None), None)
        ),
        image=image,
        replicas=_scalar(_get(values, "replicas") or _get(values, "replicaCount")),
        gpu=_scalar(
            next((v for k in ("gpuType", "accelerator", "gpuProduct") if isinstance(v := _get(values, k), Const)), None)
        ),
        gpu_count=gpus,
        nodes=_scalar(_get(values, "nnodes") or _get(values, "nodes")),
        engine=engine,
        format="values",
    )


def _finished(entry: Word) -> Word:
    from checklistbot.engines.base import settled as finish

    return finish(entry)
