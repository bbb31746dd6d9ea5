"""Ray Serve LLM configuration: ``llm_configs`` of an application, alone or in a RayService's ``serveConfigV2``."""

from __future__ import annotations

import re
from collections.abc import Iterator

from checklistbot.discovery.base import Format
from checklistbot.discovery.kubernetes import accelerators
from checklistbot.discovery.recipes import flag_words
from checklistbot.discovery.tree import Tree
from checklistbot.discovery.yaml_docs import Map, Node, dig, mapping, maps, settled, text, walk, word
from checklistbot.engines.base import Launch, Word


def claims(path: str, body: str) -> bool:
    return path.endswith((".yaml", ".yml")) and re.search(r"\b(?:llm_configs|prefill_config|llm_config)\s*:", body) is not None


def launches(tree: Tree, path: str, body: str) -> Iterator[Launch]:
    from checklistbot.discovery import yaml_docs

    for root in yaml_docs.documents(path, body):
        if not isinstance(root, Map):
            continue
        inner = dig(root, "spec", "serveConfigV2")
        if isinstance(inner, Word):
            for config in yaml_docs.documents(path, "\n" * (inner.line - 1) + (inner.text or "")):
                yield from _applications(config, root, text(dig(root, "metadata", "name")))
        else:
            yield from _applications(root, root, None)


def _applications(config: Node, root: Map, name: str | None) -> Iterator[Launch]:
    for application in maps(dig(config, "applications")):
        args = mapping(application.get("args"))
        named = text(application.get("name")) or name or "serve"
        for entry in maps(args.get("llm_configs")):
            yield _launch(entry, root, named, None)
        for key, role in (("prefill_config", "prefill"), ("decode_config", "decode")):
            if isinstance(args.get(key), Map):
                yield _launch(mapping(args[key]), root, named, role)


def _launch(entry: Map, root: Map, name: str, role: str | None) -> Launch:
    loading, kwargs = mapping(entry.get("model_loading_config")), mapping(entry.get("engine_kwargs"))
    served, source = word(loading.get("model_id")), word(loading.get("model_source"))
    scaling = mapping(dig(entry, "deployment_config", "autoscaling_config"))
    env = {k: settled(v) for k, v in mapping(dig(entry, "runtime_env", "env_vars")).items() if isinstance(v, Word)}
    return Launch(
        argv=tuple(settled(w) for w in flag_words(kwargs)),
        path=entry.path,
        line=entry.line,
        name=name,
        env=env,
        image=_image(root),
        replicas=word(dig(entry, "deployment_config", "num_replicas")) or word(scaling.get("min_replicas")),
        gpu=word(entry.get("accelerator_type")),
        gpu_count=_gpus(root),
        role=Word(role, entry.path, entry.line) if role is not None else None,
        engine="vllm",
        model=source or served,
        served_model_name=served,
        format="ray-serve",
    )


def _groups(root: Map) -> Iterator[Map]:
    cluster = dig(root, "spec", "rayClusterConfig") or dig(root, "spec")
    yield from maps(dig(cluster, "workerGroupSpecs"))
    head = dig(cluster, "headGroupSpec")
    if isinstance(head, Map):
        yield head


def _image(root: Map) -> Word | None:
    for group in _groups(root):
        for found in walk(group):
            image = word(found.get("image"))
            if image is not None:
                return image
    return None


def _gpus(root: Map) -> Word | None:
    """Accelerators of one worker pod, else what Ray is told of it."""
    for group in _groups(root):
        for found in walk(group):
            count = accelerators(found) if "resources" in found else None
            if count is not None:
                return count
        told = word(dig(group, "rayStartParams", "num-gpus"))
        if told is not None and (told.text or "0") != "0":
            return told
    return None


FORMAT = Format("ray-serve", claims, launches, words=(b"llm_configs", b"ray.serve.llm"))
