"""Truss (Baseten) ``config.yaml``: ``docker_server.start_command``, ``build.model_server`` and TensorRT-LLM builds.

A ``model.py`` is read by ``python.py``.
"""

from __future__ import annotations

import dataclasses
import posixpath
import re
from collections.abc import Iterable, Iterator

from checklistbot.discovery import yaml_docs
from checklistbot.discovery.base import Format
from checklistbot.discovery.tree import Tree
from checklistbot.engines.base import Launch, Word, settled
from checklistbot.lazy import pattern

_MARK = pattern(r"^(?:docker_server|trt_llm|base_image|model_metadata|build_commands|build)\s*:", re.MULTILINE)


def claims(path: str, text: str) -> bool:
    """A ``config.yaml`` with a section that only Truss has."""
    return posixpath.basename(path) in ("config.yaml", "config.yml") and _MARK.search(text) is not None


def launches(tree: Tree, path: str, text: str) -> Iterable[Launch]:
    """The server that the configuration starts."""
    for root in yaml_docs.documents(path, text)[:1]:
        if isinstance(root, yaml_docs.Map):
            yield from _config(tree, path, root)


def _config(tree: Tree, path: str, root: yaml_docs.Map) -> Iterator[Launch]:
    from checklistbot.discovery.interpret import pins
    from checklistbot.discovery.launches import run_shell

    gpu, count = accelerator(yaml_docs.word(yaml_docs.dig(root, "resources", "accelerator")))
    env = {
        name: word
        for name, node in yaml_docs.mapping(root.get("environment_variables")).items()
        if (word := yaml_docs.word(node)) is not None
    }
    template = Launch(
        (),
        path,
        1,
        yaml_docs.text(root.get("model_name")) or posixpath.basename(posixpath.dirname(path)) or "model",
        env=env,
        image=yaml_docs.word(yaml_docs.dig(root, "base_image", "image")),
        gpu=gpu,
        gpu_count=count,
        format="truss",
    )
    pinned = pins.in_words([*yaml_docs.words(root.get("requirements")), *yaml_docs.words(root.get("build_commands"))])
    command = yaml_docs.dig(root, "docker_server", "start_command")
    if isinstance(command, Word):
        for launch in run_shell(dataclasses.replace(template, line=command.line), command, tree):
            yield dataclasses.replace(launch, version=launch.version or pins.choose(pinned, launch))
    yield from _model_server(template, root)
    build = yaml_docs.dig(root, "trt_llm", "build")
    if isinstance(build, yaml_docs.Map):
        yield _tensorrt(template, root, build)


def accelerator(value: Word | None) -> tuple[Word | None, Word | None]:
    """``H100:2`` → (H100, 2); a bare name is one."""
    if value is None or value.text is None:
        return value, None
    name, _, count = value.text.partition(":")
    return dataclasses.replace(value, text=name), dataclasses.replace(value, text=count or "1")


_MODEL_SERVERS = {"vllm": "vllm", "tgi": "tgi"}
_NO_FLAGS = ("endpoint", "model", "model_id")


def _model_server(template: Launch, root: yaml_docs.Map) -> Iterator[Launch]:
    """``build: {model_server: VLLM|TGI, arguments: {…}}``: Truss builds the image and hands the arguments to the server."""
    from checklistbot.discovery.recipes import flag_words

    build = root.get("build")
    server = yaml_docs.word(yaml_docs.dig(build, "model_server"))
    engine = _MODEL_SERVERS.get((server.text or "").lower()) if server is not None else None
    arguments = yaml_docs.mapping(yaml_docs.dig(build, "arguments"))
    model = yaml_docs.word(arguments.get("model")) or yaml_docs.word(arguments.get("model_id"))
    if engine is None or server is None or model is None:
        return
    yield dataclasses.replace(
        template,
        argv=tuple(settled(word) for word in flag_words(arguments, skip=_NO_FLAGS)),
        line=server.line,
        engine=engine,
        model=settled(model),
    )


def _tensorrt(template: Launch, root: yaml_docs.Map, build: yaml_docs.Map) -> Launch:
    """Baseten's engine builder: its own names for TensorRT-LLM's build and run-time options."""
    runtime = yaml_docs.mapping(yaml_docs.dig(root, "trt_llm", "runtime"))
    repository = yaml_docs.dig(build, "checkpoint_repository", "repo")
    argv = [Word("trtllm-serve", template.path, build.line)]
    if isinstance(repository, Word):
        argv.append(settled(repository))
    for source, name, flag in (
        (build, "max_seq_len", "--max_seq_len"),
        (build, "max_batch_size", "--max_batch_size"),
        (build, "max_num_tokens", "--max_num_tokens"),
        (build, "tensor_parallel_count", "--tp_size"),
        (build, "pipeline_parallel_count", "--pp_size"),
        (runtime, "kv_cache_free_gpu_mem_fraction", "--kv_cache_free_gpu_memory_fraction"),
    ):
        value = source.get(name)
        if isinstance(value, Word):
            argv += [Word(flag, value.path, value.line), settled(value)]
    served = yaml_docs.word(runtime.get("served_model_name"))
    return dataclasses.replace(
        template, argv=tuple(argv), line=build.line, engine="tensorrt-llm", served_model_name=served
    )


FORMAT = Format("truss", claims, launches)
