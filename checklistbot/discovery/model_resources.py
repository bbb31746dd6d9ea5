"""Custom resources that name a model instead of a command: KubeAI, KAITO, KServe's LLMInferenceService, kthena, and their like.

The operator builds the command; what the resource says of it (model, arguments, engine) is read as flags.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from typing import Final

from checklistbot.discovery.base import Format
from checklistbot.discovery.kubernetes import ConfigFiles, accelerators, environment_of, merged_by_name
from checklistbot.discovery.recipes import flag_words
from checklistbot.discovery.tree import STDIN_PATH, Tree
from checklistbot.discovery.yaml_docs import Map, Node, Seq, dig, mapping, maps, settled, text, walk, word, words
from checklistbot.engines.base import Launch, Word
from checklistbot.lazy import pattern

_KINDS: Final = (
    "Workspace",
    "InferenceSet",
    "LLMInferenceService",
    "LLMInferenceServiceConfig",
    "ModelBooster",
    "Model",
    "LLMModel",
)
_KIND = pattern(r"^[ \t]*kind:\s*[\"']?(\w+)", re.MULTILINE)
_ENGINE: Final = {
    "vllm": "vllm",
    "sglang": "sglang",
    "ollama": "ollama",
    "tensorrt-llm": "tensorrt-llm",
    "trtllm": "tensorrt-llm",
    "tgi": "tgi",
    "lmdeploy": "lmdeploy",
    "llamacpp": "llama.cpp",
}
_ARGUMENTS = pattern(r"(?i)^(?:(vllm|sglang|tgi|lmdeploy)_?)?(?:engine_?|extra_?|runtime_?|additional_?)*args$")


def claims(path: str, body: str) -> bool:
    if path != STDIN_PATH and not path.endswith((".yaml", ".yml", ".json")):
        return False
    return "apiVersion" in body and any(
        kind in _KINDS or re.search(r"Model|LLM|Inference", kind) for kind in _KIND.findall(body)
    )


def launches(tree: Tree, path: str, body: str) -> Iterator[Launch]:
    from checklistbot.discovery import yaml_docs

    documents = [root for root in yaml_docs.documents(path, body) if isinstance(root, Map)]
    files = ConfigFiles(tree, documents)
    for document in documents:
        kind, api = text(document.get("kind")) or "", text(document.get("apiVersion")) or ""
        reader = _READERS.get((api.partition("/")[0], kind))
        if reader is not None:
            yield from reader(document, files)
        elif isinstance(document.get("spec"), Map) and not any("containers" in found for found in walk(document)):
            yield from _generic(document)


def _template(document: Map, node: Node, **changes: object) -> Launch:
    line = node.line if isinstance(node, (Map, Seq, Word)) else document.line
    name = text(dig(document, "metadata", "name")) or "unnamed"
    return dataclasses.replace(Launch((), document.path, line, name, format="model-resource"), **changes)  # type: ignore[arg-type]


def _kubeai(document: Map, files: ConfigFiles) -> Iterator[Launch]:
    spec = mapping(document.get("spec"))
    engine = _ENGINE.get((text(spec.get("engine")) or "").lower())
    features = [w.text for w in words(spec.get("features"))]
    if engine is None or (features and "TextGeneration" not in features):
        return
    profile = word(spec.get("resourceProfile"))
    name, _, count = (profile.text or "").rpartition(":") if profile is not None else ("", "", "")
    gpu = profile is not None and count.isdigit() and not name.startswith("cpu")
    yield _template(
        document,
        spec.get("url"),
        argv=tuple(settled(w) for w in words(spec.get("args"))),
        engine=engine,
        model=word(spec.get("url")),
        env={k: settled(v) for k, v in mapping(spec.get("env")).items() if isinstance(v, Word)},
        replicas=word(spec.get("minReplicas")) or word(spec.get("replicas")),
        gpu=Word(name, document.path, profile.line) if gpu and profile is not None else None,
        gpu_count=Word(count, document.path, profile.line) if gpu and profile is not None else None,
        image=word(spec.get("image")),
    )


def _kaito(document: Map, files: ConfigFiles) -> Iterator[Launch]:
    inference = dig(document, "inference") or dig(document, "spec", "template", "inference")
    name = word(dig(inference, "preset", "name"))
    if name is None:
        return
    config = text(dig(inference, "config"))
    flags: list[Word] = []
    if config is not None:
        from checklistbot.discovery import yaml_docs

        for entry in files.data(config).values():
            for root in yaml_docs.documents(entry.path, "\n" * (entry.line - 1) + (entry.text or "")):
                flags += flag_words(mapping(dig(root, "vllm")))
    yield _template(
        document,
        dig(inference, "preset", "name"),
        argv=tuple(settled(w) for w in flags),
        engine="vllm",
        model=name,
        replicas=word(dig(document, "spec", "replicas")),
    )


def _llm_inference_service(document: Map, files: ConfigFiles) -> Iterator[Launch]:
    """``spec.template`` serves (decode, where there is a prefill part); ``spec.prefill`` is the other role."""
    spec = _with_bases(mapping(document.get("spec")), files)
    model, served = word(dig(spec, "model", "uri")), word(dig(spec, "model", "name"))
    prefill = spec.get("prefill")
    if model is None and not words(dig(spec, "model", "uri")):
        return
    roles = (("decode", spec), ("prefill", prefill)) if isinstance(prefill, Map) else ((None, spec),)
    for role, part in roles:
        if not isinstance(part, Map):
            continue
        yield from _service_part(document, files, spec, part, role, model, served)


def _with_bases(spec: Map, files: ConfigFiles) -> Map:
    """The spec over the LLMInferenceServiceConfigs that it names, where they are in the folder."""
    for name in [text(reference.get("name")) for reference in maps(spec.get("baseRefs"))]:
        base = files.document("LLMInferenceServiceConfig", name) if name is not None else None
        if base is not None:
            spec = merged_by_name(mapping(base.get("spec")), spec)
    return spec


def _service_part(
    document: Map, files: ConfigFiles, spec: Map, part: Map, role: str | None, model: Word | None, served: Word | None
) -> Iterator[Launch]:
    containers = maps(dig(part, "template", "containers"))
    container = next((c for c in containers if text(c.get("name")) == "main"), containers[0] if containers else None)
    env = environment_of(container, files) if container is not None else {}
    extra = env.get("VLLM_ADDITIONAL_ARGS")
    parallel = list(_parallelism(mapping(part.get("parallelism"))))
    anchor: Node = container if container is not None else part
    line = _anchor_line(container, part, spec, role, extra)
    image = word(container.get("image")) if container is not None else None
    argv = (
        [*(settled(w) for w in words(container.get("command"))), *(settled(w) for w in words(container.get("args")))]
        if container is not None
        else []
    )
    command = bool(container is not None and words(container.get("command")))
    template = _template(
        document,
        anchor,
        env={k: v for k, v in env.items() if k != "VLLM_ADDITIONAL_ARGS"},
        image=image,
        model=model,
        served_model_name=served,
        replicas=word(part.get("replicas")),
        gpu_count=accelerators(container) if container is not None else None,
        role=Word(role, document.path, line) if role is not None else None,
        line=line,
    )
    from checklistbot.discovery.launches import expand
    from checklistbot.engines._shell_words import split_words

    if command:
        found = expand(template, argv, None)
        if found:
            yield from (dataclasses.replace(launch, argv=(*launch.argv, *parallel)) for launch in found)
            return
        argv = []
    yield dataclasses.replace(
        template, engine="vllm", argv=(*argv, *parallel, *(split_words(extra) if extra is not None else ()))
    )


def _anchor_line(container: Map | None, part: Map, spec: Map, role: str | None, extra: Word | None) -> int:
    """What stands for the command: the variable with the arguments, the model's address, or the role's own key."""
    if role is not None and extra is not None and extra.path == spec.path:
        return extra.line
    if role == "prefill":
        return spec.lines.get("prefill", part.line)
    model = dig(spec, "model", "uri")
    return model.line if isinstance(model, Word) else spec.line


def _parallelism(node: Map) -> Iterator[Word]:
    names = {"tensor": "--tensor-parallel-size", "pipeline": "--pipeline-parallel-size", "data": "--data-parallel-size"}
    for key, flag in names.items():
        value = word(node.get(key))
        if value is not None:
            yield Word(flag, value.path, value.line, key)
            yield value


def _kthena(document: Map, files: ConfigFiles) -> Iterator[Launch]:
    spec = mapping(document.get("spec"))
    backends = [spec["backend"]] if isinstance(spec.get("backend"), Map) else maps(spec.get("backends"))
    for backend in backends:
        if not isinstance(backend, Map):
            continue
        kind = (text(backend.get("type")) or "").lower()
        engine = next((e for name, e in _ENGINE.items() if kind.startswith(name)), None)
        if engine is None:
            continue
        env = environment_of(backend, files)
        for worker in maps(backend.get("workers")):
            part = text(worker.get("type")) or "server"
            if part not in ("server", "prefill", "decode"):
                continue
            anchor = worker.get("type") if part != "server" else backend.get("type")
            yield _template(
                document,
                anchor,
                argv=tuple(settled(w) for w in flag_words(mapping(worker.get("config")))),
                engine=engine,
                env=env,
                model=word(backend.get("modelURI")),
                image=word(worker.get("image")),
                replicas=word(worker.get("replicas"))
                or word(backend.get("replicas"))
                or word(backend.get("minReplicas")),
                gpu_count=accelerators(worker),
                nodes=word(worker.get("pods")),
                role=word(worker.get("type")) if part != "server" else None,
                qualifier=text(backend.get("name")),
            )


def _generic(document: Map) -> Iterator[Launch]:
    """An unknown resource with a model and a list of an engine's arguments."""
    found = [
        (node, key, match)
        for node in walk(document.get("spec"))
        for key in node
        if (match := _ARGUMENTS.match(key)) and isinstance(node[key], Seq)
    ]
    engine = next(
        (e for node, key, match in found for e in [_engine_of(match[1], document, node)] if e is not None), None
    )
    model = _model_of(mapping(document.get("spec")))
    if engine is None or model is None:
        return
    arguments = [settled(w) for node, key, _ in found for w in words(node.get(key))]
    spec = document.get("spec")
    count = next((word(n.get("count")) for n in walk(dig(spec, "resources")) if word(n.get("count")) is not None), None)
    replicas = next((word(n.get("replicas")) for n in walk(spec) if isinstance(n.get("replicas"), Word)), None)
    parallel = next(
        (
            word(n.get(key))
            for n in walk(spec)
            for key in ("tensorParallelism", "tensorParallelSize", "tensor_parallel_size")
            if isinstance(n.get(key), Word)
        ),
        None,
    )
    if parallel is not None:
        arguments += [Word("--tensor-parallel-size", parallel.path, parallel.line), parallel]
    gpu = next(
        (
            word(dig(n, "nodeSelector", "nvidia.com/gpu.product"))
            for n in walk(spec)
            if dig(n, "nodeSelector", "nvidia.com/gpu.product") is not None
        ),
        None,
    )
    yield _template(
        document,
        model,
        argv=tuple(arguments),
        engine=engine,
        model=settled(model),
        replicas=replicas,
        gpu_count=count,
        gpu=gpu,
    )


def _engine_of(prefix: str | None, document: Map, node: Map) -> str | None:
    if prefix:
        return _ENGINE.get(prefix.lower())
    for name, engine in _ENGINE.items():
        for other in walk(document.get("spec")):
            if (
                other.get(name) is node
                or (text(other.get("engine")) or text(other.get("backend")) or "").lower() == name
            ):
                return engine
    return None


def _model_of(spec: Map) -> Word | None:
    model = spec.get("model")
    for candidate in (
        dig(model, "name"),
        dig(model, "uri"),
        dig(model, "id"),
        model,
        spec.get("modelName"),
        spec.get("modelURI"),
        spec.get("modelId"),
    ):
        if isinstance(candidate, Word):
            return candidate
    return None


_READERS: Final = {
    ("kubeai.org", "Model"): _kubeai,
    ("kaito.sh", "Workspace"): _kaito,
    ("kaito.sh", "InferenceSet"): _kaito,
    ("serving.kserve.io", "LLMInferenceService"): _llm_inference_service,
    ("workload.serving.volcano.sh", "ModelBooster"): _kthena,
}
FORMAT = Format(
    "model-resources", claims, launches, words=(b"kaito.sh", b"kubeai.org", b"LLMInferenceService", b"ModelBooster")
)
