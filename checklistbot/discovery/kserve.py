"""KServe: an InferenceService is served by the containers of the ServingRuntime that it names.

Source: KServe's documentation of serving runtimes: the service's ``args`` follow the runtime's, its ``env``, ``resources`` and ``image``
replace the runtime's of the same name, and ``{{.Name}}`` is the service's name.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from checklistbot.discovery.yaml_docs import Map, Node, Seq, dig, mapping, maps, settled, text, word, words
from checklistbot.engines.base import Launch, Word, mark
from checklistbot.lazy import pattern

if TYPE_CHECKING:
    from checklistbot.discovery.kubernetes import ConfigFiles, Place

RUNTIMES: Final = ("ServingRuntime", "ClusterServingRuntime")
#: The container that serves; the others are helpers beside it.
_SERVES: Final = "kserve-container"
_FORMATS: Final = {"vllm": "vllm", "sglang": "sglang", "tgi": "tgi", "lmdeploy": "lmdeploy", "huggingface": "vllm"}
#: KServe's own runtime for Hugging Face models starts vLLM, unless it is told to use the transformers library or to do another task.
_NO_ENGINE = pattern(r"--backend(?:=|\s+)huggingface|--task(?:=|\s+)(?!text_generation)")
_NAME = pattern(r"\{\{\s*\.Name\s*\}\}")


def _api(document: Map) -> str:
    return (text(document.get("apiVersion")) or "").partition("/")[0]


def _model(service: Map) -> Map:
    return mapping(dig(service, "spec", "predictor", "model"))


def services_of(runtime: Map, files: ConfigFiles) -> list[Map]:
    """The InferenceServices, of the file or beside it, that name the runtime."""
    if _api(runtime) != "serving.kserve.io":
        return []
    name = text(dig(runtime, "metadata", "name"))
    return [s for s in files.documents("InferenceService") if name and text(_model(s).get("runtime")) == name]


def replicas(service: Map) -> Word | None:
    return word(dig(service, "spec", "predictor", "minReplicas"))


def joined(runtime: Map, service: Map) -> Map:
    """The runtime with what the service says of its serving container."""
    spec, predictor = mapping(runtime.get("spec")), mapping(dig(service, "spec", "predictor"))
    serving = [c for c in maps(spec.get("containers")) if text(c.get("name")) == _SERVES] or maps(
        spec.get("containers")
    )[:1]
    name = text(dig(service, "metadata", "name")) or ""
    model = _model(service)
    changed: list[Node] = [
        _container(c, model, name) if any(c is s for s in serving) else c for c in maps(spec.get("containers"))
    ]
    merged = _copy(spec)
    merged.set("containers", Seq(spec.path, spec.lines.get("containers", spec.line), changed), spec.line)
    for key in ("nodeSelector", "affinity", "volumes"):
        if key in predictor:
            merged.set(key, predictor[key], predictor.lines.get(key, predictor.line))
    document = _copy(runtime)
    document.set("spec", merged, runtime.lines.get("spec", runtime.line))
    return document


def _copy(node: Map) -> Map:
    found = Map(node.path, node.line)
    for key, value in node.items():
        found.set(key, value, node.lines.get(key, node.line))
    return found


def _container(container: Map, model: Map, name: str) -> Map:
    merged = _copy(container)
    named = [_named(w, name) for w in words(container.get("args"))]
    arguments: list[Node] = [*named, *words(model.get("args"))]
    if arguments:
        merged.set("args", Seq(container.path, container.line, arguments), container.lines.get("args", container.line))
    for key in ("image", "command"):
        if model.get(key) is not None:
            merged.set(key, model[key], model.lines.get(key, model.line))
    if isinstance(model.get("resources"), Map):
        merged.set("resources", model["resources"], model.lines.get("resources", model.line))
    variables: list[Node] = [*maps(container.get("env")), *maps(model.get("env"))]
    if variables:
        merged.set("env", Seq(container.path, container.line, variables), container.line)
    return merged


def _named(entry: Word, name: str) -> Word:
    """``{{.Name}}`` as KServe fills it in."""
    unfilled = mark(".Name", "not-rendered")
    if entry.text is None or not name or not (unfilled in entry.text or _NAME.search(entry.text)):
        return entry
    filled = _NAME.sub(lambda _: name, entry.text.replace(unfilled, name))
    return dataclasses.replace(entry, text=filled, raw=filled, starts=())


def without_runtime(service: Map, place: Place, files: ConfigFiles) -> Iterator[Launch]:
    """A service whose runtime is not in the folder: its model format names the engine, its arguments reach it."""
    from checklistbot.discovery.kubernetes import accelerators, environment_of

    model = _model(service)
    form = word(dig(model, "modelFormat", "name"))
    engine = _FORMATS.get((form.text or "").lower()) if form is not None else None
    if engine is None or form is None or _api(service) != "serving.kserve.io":
        return
    name = text(model.get("runtime"))
    if name and any(files.document(kind, name) is not None for kind in RUNTIMES):
        return
    arguments = tuple(settled(w) for w in words(model.get("args")))
    if (form.text or "").lower() == "huggingface":
        if _NO_ENGINE.search(" ".join(w.shown for w in arguments)):
            return
        arguments = (*_server(form), *arguments)
    stated = any(re.match(r"--model(?:=|$|-path|[-_]id)", w.shown) for w in arguments)
    source = word(model.get("storageUri"))
    if source is None and not stated:
        return
    yield Launch(
        arguments,
        service.path,
        form.line,
        place.name,
        place.environment,
        env=environment_of(model, files),
        image=word(model.get("image")),
        replicas=replicas(service),
        gpu_count=accelerators(model),
        engine=engine,
        model=settled(source) if source is not None and not stated else None,
        format="kubernetes",
    )


def _server(form: Word) -> list[Word]:
    """How the runtime starts its server, at the place that names the runtime."""
    return [Word(part, form.path, form.line) for part in ("python", "-m", "huggingfaceserver")]
