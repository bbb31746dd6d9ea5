"""SageMaker's way to configure a server: a container image and environment variables.

Three families (AWS documentation): Hugging Face's TGI images take TGI's own variables (``HF_MODEL_ID``, ``SM_NUM_GPUS``,
``MAX_TOTAL_TOKENS``); the vLLM and SGLang images take ``SM_VLLM_FLAG`` and ``SM_SGLANG_FLAG``; the LMI (DJL) images take
``OPTION_NAME``, which names the fields of vLLM's arguments unless the rolling batch says otherwise.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from checklistbot.discovery.interpret.pyvalues import Const, Map, Obj, Value, chain
from checklistbot.engines.base import Launch, Word
from checklistbot.lazy import pattern

if TYPE_CHECKING:
    from checklistbot.discovery.interpret.pymachine import Call
    from checklistbot.discovery.interpret.pysinks import Finder

_OPTIONS: Final = {
    "model_id": "--model", "tensor_parallel_degree": "--tensor-parallel-size", "pipeline_parallel_degree": "--pipeline-parallel-size",
    "max_rolling_batch_size": "--max-num-seqs", "max_rolling_batch_prefill_tokens": "--max-num-batched-tokens",
}  # fmt: skip
_NOT_FLAGS: Final = frozenset({"rolling_batch", "async_mode", "entryPoint", "entrypoint", "mpi_mode", "engine"})
_TGI = pattern(r"text-generation-inference|huggingface-pytorch-tgi|tgi-inference")


def launch_of(template: Launch, env: Mapping[str, Word], image: Word | None, hint: str = "") -> Launch | None:
    """The server that a SageMaker container with these variables runs, None where it is none of ours."""
    shown = f"{image.text or image.raw if image else ''} {hint}"
    if _TGI.search(shown) or (
        {"MAX_TOTAL_TOKENS", "MAX_INPUT_LENGTH", "MAX_INPUT_TOKENS"} & set(env) and "HF_MODEL_ID" in env
    ):
        return _tgi(template, env, image)
    for prefix, engine in (("SM_VLLM_", "vllm"), ("SM_SGLANG_", "sglang")):
        if any(name.startswith(prefix) for name in env):
            argv = _prefixed(env, prefix)
            return dataclasses.replace(template, argv=argv, engine=engine, env=env, image=image)
    if "djl" in shown or "lmi" in shown or any(name.startswith("OPTION_") for name in env):
        return _lmi(template, env, image)
    return None


def _tgi(template: Launch, env: Mapping[str, Word], image: Word | None) -> Launch:
    shards = env.get("SM_NUM_GPUS") or env.get("NUM_SHARD")
    argv: tuple[Word, ...] = ()
    if shards is not None and "NUM_SHARD" not in env:
        argv = (dataclasses.replace(shards, text="--num-shard"), shards)
    model = env.get("HF_MODEL_ID")
    if model is not None and "MODEL_ID" not in env:
        argv = (dataclasses.replace(model, text="--model-id"), model, *argv)
    gpus = template.gpu_count or env.get("SM_NUM_GPUS")
    return dataclasses.replace(template, argv=argv, engine="tgi", env=env, image=image, gpu_count=gpus)


def _prefixed(env: Mapping[str, Word], prefix: str) -> tuple[Word, ...]:
    argv: list[Word] = []
    for name, value in env.items():
        if name.startswith(prefix):
            spelled = dataclasses.replace(
                value, text="--" + name[len(prefix) :].lower().replace("_", "-"), unknown=None
            )
            argv += [spelled] if (value.text or "").lower() == "true" else [spelled, value]
    return tuple(argv)


def _lmi(template: Launch, env: Mapping[str, Word], image: Word | None) -> Launch | None:
    options = {name[7:].lower(): value for name, value in env.items() if name.startswith("OPTION_")}
    if "HF_MODEL_ID" in env:
        options.setdefault("model_id", env["HF_MODEL_ID"])
    if "TENSOR_PARALLEL_DEGREE" in env:
        options.setdefault("tensor_parallel_degree", env["TENSOR_PARALLEL_DEGREE"])
    batch = (options["rolling_batch"].text or "") if "rolling_batch" in options else "vllm"
    if not options or batch not in ("vllm", "auto", "lmi-dist", "disable", "sglang"):
        return None
    argv: list[Word] = []
    for name, value in options.items():
        if name in _NOT_FLAGS or (value.text or "").lower() in ("false", "max"):
            continue
        spelled = dataclasses.replace(value, text=_OPTIONS.get(name, "--" + name.replace("_", "-")), unknown=None)
        argv += [spelled] if (value.text or "").lower() == "true" else [spelled, value]
    engine = "sglang" if batch == "sglang" else "vllm"
    return dataclasses.replace(template, argv=tuple(argv), engine=engine, env=env, image=image)


# --- the Python SDK --------------------------------------------------------------------------------------------------------


def python_deploy(finder: Finder, call: Call) -> Launch | None:
    """``HuggingFaceModel(env=…, image_uri=…).deploy(instance_type=…, initial_instance_count=…)``."""
    from checklistbot.discovery.interpret.platforms import word_of

    model = next(
        (o for o in chain(call.receiver) if "env" in o.kwargs and ("image_uri" in o.kwargs or "Model" in o.name)), None
    )
    if model is None:
        return None
    env = _environment(finder, model.kwargs["env"])
    template = dataclasses.replace(
        finder.template(model.at, env),
        replicas=word_of(finder, call.kwargs.get("initial_instance_count")),
        gpu=word_of(finder, call.kwargs.get("instance_type")),
    )
    image, version, hint = _image(finder, model.kwargs.get("image_uri"))
    launch = launch_of(template, env, image, hint)
    return dataclasses.replace(launch, version=version) if launch is not None and version is not None else launch


def boto_model(finder: Finder, call: Call) -> Launch | None:
    """``client.create_model(PrimaryContainer={"Image": …, "Environment": {…}})``."""
    container = call.kwargs["PrimaryContainer"]
    data = container.data if isinstance(container, Map) else {}
    env = _environment(finder, data.get("Environment"))
    image, version, hint = _image(finder, data.get("Image"))
    launch = launch_of(finder.template(call.at, env), env, image, hint)
    return dataclasses.replace(launch, version=version) if launch is not None and version is not None else launch


def _environment(finder: Finder, value: Value | None) -> dict[str, Word]:
    from checklistbot.discovery.interpret.platforms import word_of

    data = value.data if isinstance(value, Map) else {}
    words = {str(name): word_of(finder, v) for name, v in data.items()}
    return {name: w for name, w in words.items() if w is not None}


def _image(finder: Finder, value: Value | None) -> tuple[Word | None, Word | None, str]:
    """(image, engine version, what the helper's name says): Hugging Face's helper takes TGI's own version."""
    from checklistbot.discovery.interpret.platforms import word_of

    if isinstance(value, Obj):
        if value.name.endswith("get_huggingface_llm_image_uri"):
            backend = value.args[0] if value.args else value.kwargs.get("backend")
            version = word_of(finder, value.kwargs.get("version"))
            named = str(backend.value) if isinstance(backend, Const) else ""
            if named == "lmi":
                return None, None, "lmi"
            # Other backends (huggingface-neuronx) count their own releases.
            return None, version if named in ("", "huggingface") else None, "text-generation-inference"
        if value.name.endswith("image_uris.retrieve"):
            framework = value.kwargs.get("framework") or (value.args[0] if value.args else None)
            return None, None, str(framework.value) if isinstance(framework, Const) else ""
        return None, None, value.name
    return word_of(finder, value), None, ""
