"""Slurm recipes that name an engine's settings by role (``backend: {sglang_config: {prefill: …, decode: …}}``)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Final

from checklistbot.discovery.base import Format
from checklistbot.discovery.tree import Tree
from checklistbot.discovery.yaml_docs import Map, Node, Seq, dig, mapping, settled, text, word, words
from checklistbot.engines.base import Launch, Word

_ENGINES: Final = {"sglang_config": "sglang", "vllm_config": "vllm", "trtllm_config": "tensorrt-llm"}
_ROLES: Final = {"prefill": "prefill", "decode": "decode", "aggregated": None, "agg": None}


def claims(path: str, body: str) -> bool:
    return (
        path.endswith((".yaml", ".yml"))
        and re.search(r"^[ \t]+(?:sglang|vllm|trtllm)_config:|^worker_config:", body, re.MULTILINE) is not None
    )


def launches(tree: Tree, path: str, body: str) -> Iterator[Launch]:
    from checklistbot.discovery import yaml_docs

    for root in yaml_docs.documents(path, body):
        if isinstance(root, Map):
            yield from _recipe(path, root)


#: TensorRT-LLM's own words for the two roles, and how its Slurm recipe counts their servers.
_PHASES: Final = {
    "ctx": ("prefill", "num_ctx_servers"),
    "gen": ("decode", "num_gen_servers"),
}


def _worker_config(path: str, root: Map) -> Iterator[Launch]:
    """TensorRT-LLM's disaggregated Slurm recipe: ``worker_config: {ctx: …, gen: …}`` hold its LLM arguments."""
    hardware = mapping(root.get("hardware"))
    for part, (role, count) in _PHASES.items():
        flags = dig(root, "worker_config", part)
        if not isinstance(flags, Map):
            continue
        line = mapping(root.get("worker_config")).lines.get(part, flags.line)
        model, image = word(dig(root, "environment", "model_path")), word(dig(root, "environment", "container_image"))
        yield Launch(
            argv=tuple(settled(w) for w in flag_words(_flat(flags))),
            path=path,
            line=line,
            name=path.rpartition("/")[2].partition(".")[0],
            image=None if image is None or "<" in (image.text or "") else image,
            replicas=word(hardware.get(count)),
            gpu_count=_gpus(flags, word(hardware.get("gpus_per_node"))),
            role=Word(role, path, line),
            engine="tensorrt-llm",
            model=None if model is None or "<" in (model.text or "") else model,
            format="recipe",
        )


def _flat(flags: Map) -> Map:
    """The KV settings that TensorRT-LLM's command line has flags for, beside the top ones."""
    found = Map(flags.path, flags.line)
    cache = mapping(flags.get("kv_cache_config"))
    for key, value in flags.items():
        if isinstance(value, Word):
            found.set(key, value, flags.lines.get(key, flags.line))
    for inner, flag in (
        ("free_gpu_memory_fraction", "kv_cache_free_gpu_memory_fraction"),
        ("dtype", "kv_cache_dtype"),
        ("tokens_per_block", "tokens_per_block"),
    ):
        if isinstance(cache.get(inner), Word):
            found.set(flag, cache[inner], cache.lines.get(inner, cache.line))
    return found


def _recipe(path: str, root: Map) -> Iterator[Launch]:
    if isinstance(root.get("worker_config"), Map):
        yield from _worker_config(path, root)
    # Sweeps keep the recipe one level down, under a key of their own.
    recipe = (
        root if "backend" in root else next((v for v in root.values() if isinstance(v, Map) and "backend" in v), root)
    )
    backend = mapping(recipe.get("backend"))
    for key, engine in _ENGINES.items():
        settings = mapping(backend.get(key))
        for part, role in _ROLES.items():
            flags = settings.get(part)
            if isinstance(flags, Map):
                yield _launch(path, recipe, engine, part, role, flags, settings.lines.get(part, flags.line))


def _launch(path: str, recipe: Map, engine: str, part: str, role: str | None, flags: Map, line: int) -> Launch:
    resources = mapping(recipe.get("resources"))
    short = "agg" if role is None else part
    container = word(dig(recipe, "identity", "container", "image")) or word(dig(recipe, "model", "container"))
    is_image = container is not None and re.search(r"[/:]|\.sqsh$", container.text or "") is not None
    env = {
        k: settled(v) for k, v in mapping(dig(recipe, "backend", f"{part}_environment")).items() if isinstance(v, Word)
    }
    version = word(dig(recipe, "identity", "frameworks", engine))
    if version is None and container is not None and re.fullmatch(r"v?\d+\.\d+[\w.]*", container.text or ""):
        version = container
    return Launch(
        argv=tuple(
            settled(w)
            for w in flag_words(
                flags, skip=("model-path", "model_path") if dig(recipe, "model", "path") is not None else ()
            )
        ),
        path=path,
        line=line,
        name=text(recipe.get("name")) or path.rpartition("/")[2].partition(".")[0],
        qualifier=text(recipe.get("name")),
        env=env,
        image=container if is_image else None,
        replicas=word(resources.get(f"{short}_workers")),
        gpu=word(resources.get("gpu_type")),
        gpu_count=word(resources.get(f"gpus_per_{short}")) or _gpus(flags, word(resources.get("gpus_per_node"))),
        role=Word(role, path, line) if role is not None else None,
        engine=engine,
        version=version,
        model=word(dig(recipe, "identity", "model", "repo")) or word(dig(recipe, "model", "path")),
        format="recipe",
    )


def _gpus(flags: Map, node: Word | None) -> Word | None:
    """GPUs of a worker on one node: all of the node's, or as many as its tensor parallelism takes of them."""
    for key in ("tensor-parallel-size", "tp-size", "tp", "tensor_parallel_size", "tp_size"):
        parallel = word(flags.get(key))
        if (
            parallel is not None
            and node is not None
            and (parallel.text or "").isdigit()
            and (node.text or "").isdigit()
        ):
            return parallel if int(parallel.text or 0) < int(node.text or 0) else node
    return node


def flag_words(flags: Map, skip: tuple[str, ...] = ()) -> Iterator[Word]:
    """A map of settings as ``--key value`` words with their lines; true is a bare switch, false and null are no flag."""
    for key, value in flags.items():
        if key in skip or value is None:
            continue
        line = flags.lines.get(key, flags.line)
        name = Word("--" + key.lstrip("-").replace("_", "-"), flags.path, line, key)
        if isinstance(value, Word):
            if (value.text or "").lower() == "false":
                continue
            yield name
            if (value.text or "").lower() != "true":
                yield value
        elif isinstance(value, Seq) and words(value) and len(words(value)) == len(value):
            yield name
            yield from words(value)
        else:
            yield name
            yield Word(json.dumps(plain(value)), flags.path, line)


def plain(node: Node) -> object:
    """A node as JSON data, every scalar as its text."""
    if isinstance(node, Map):
        return {key: plain(value) for key, value in node.items()}
    if isinstance(node, Seq):
        return [plain(value) for value in node]
    return node.shown if isinstance(node, Word) else None


FORMAT = Format("recipes", claims, launches)
