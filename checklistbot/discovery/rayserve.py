"""Ray Serve LLM configs in YAML: a Serve config file, or the ``serveConfigV2`` string of a RayService.

``llm_configs`` (and ``prefill_config``/``decode_config`` of the P/D application) hold LLMConfig's fields; vLLM is implied. Image and GPUs are those of
the worker group.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

from checklistbot.discovery import yaml_docs
from checklistbot.discovery.base import Format
from checklistbot.discovery.tree import Tree
from checklistbot.discovery.yaml_docs import dig, maps, text
from checklistbot.engines.base import Launch, Word
from checklistbot.lazy import pattern

_PINNED = pattern(r"\b(?:vllm|sglang)\s*==")
_CONFIG = pattern(r"\b(?:llm_configs|llm_config|prefill_config|decode_config)\s*:")


def claims(path: str, body: str) -> bool:
    """YAML that holds an LLMConfig."""
    if not path.endswith((".yaml", ".yml")):
        return False
    return ("engine_kwargs" in body and _CONFIG.search(body) is not None) or (
        "import_path" in body and _PINNED.search(body) is not None and "MODEL" in body
    )


def launches(tree: Tree, path: str, body: str) -> Iterable[Launch]:
    """One launch for each LLMConfig."""
    for root in yaml_docs.documents(path, body):
        inline = dig(root, "spec", "serveConfigV2")
        if isinstance(inline, Word) and inline.text:
            inner = yaml_docs.documents(path, "\n" * (inline.line - 1) + inline.text)
            template = _cluster(root, path)
            for config in inner:
                yield from _applications(tree, config, template)
        elif isinstance(root, yaml_docs.Map) and "applications" in root:
            yield from _applications(tree, root, Launch((), path, root.line, "serve", format="rayserve"))


def _cluster(root: yaml_docs.Node, path: str) -> Launch:
    """Name, image and GPUs of a RayService's workers."""
    from checklistbot.discovery.kubernetes import accelerators

    workers = [
        container
        for group in maps(dig(root, "spec", "rayClusterConfig", "workerGroupSpecs"))
        for container in maps(dig(group, "template", "spec", "containers"))
    ]
    with_gpu = next((c for c in workers if accelerators(c) is not None), None)
    return Launch(
        (), path, 1, text(dig(root, "metadata", "name")) or "serve",
        image=yaml_docs.word(dig(with_gpu or (workers[0] if workers else None), "image")),
        gpu_count=accelerators(with_gpu) if with_gpu is not None else None,
        format="rayserve",
    )  # fmt: skip


def _applications(tree: Tree, root: yaml_docs.Node, template: Launch) -> Iterator[Launch]:
    for application in maps(dig(root, "applications")):
        args = dig(application, "args")
        yield from _by_variables(application, template)
        for config in [
            *maps(dig(args, "llm_configs")),
            *([c] if isinstance(c := dig(args, "llm_config"), yaml_docs.Map) else []),
        ]:
            yield _launch(tree, config, template, None)
        for role in ("prefill", "decode"):
            config_node = dig(args, f"{role}_config")
            if isinstance(config_node, yaml_docs.Map):
                yield _launch(tree, config_node, template, Word(role, config_node.path, config_node.line))


#: What serving applications call their variables (KubeRay's and Google's samples) → the flag that each stands for.
_VARIABLES = {
    "TENSOR_PARALLELISM": "--tensor-parallel-size",
    "TENSOR_PARALLEL_SIZE": "--tensor-parallel-size",
    "PIPELINE_PARALLELISM": "--pipeline-parallel-size",
    "PIPELINE_PARALLEL_SIZE": "--pipeline-parallel-size",
    "MAX_MODEL_LEN": "--max-model-len",
    "GPU_MEMORY_UTILIZATION": "--gpu-memory-utilization",
}


def _by_variables(application: yaml_docs.Map, template: Launch) -> Iterator[Launch]:
    """An application of code that is elsewhere: its environment pins vLLM and names the model."""
    from checklistbot.discovery.interpret import pins

    pinned = pins.in_words(yaml_docs.words(dig(application, "runtime_env", "pip")))
    variables = yaml_docs.mapping(dig(application, "runtime_env", "env_vars"))
    model = next((w for k in ("MODEL_ID", "MODEL", "MODEL_NAME") if (w := yaml_docs.word(variables.get(k)))), None)
    if len(pinned) != 1 or model is None or not set(pinned) <= {"vllm"}:
        return
    argv: list[Word] = []
    for name, flag in _VARIABLES.items():
        value = yaml_docs.word(variables.get(name))
        if value is not None and value.text:
            argv += [Word(flag, value.path, value.line, name), value]
    replicas = next(
        (w for d in maps(application.get("deployments")) if (w := yaml_docs.word(d.get("num_replicas")))), None
    )
    place = application.get("import_path")
    yield dataclasses.replace(
        template,
        argv=tuple(argv),
        path=application.path,
        line=place.line if isinstance(place, Word) else application.line,
        engine="vllm",
        model=model,
        version=pinned["vllm"],
        replicas=replicas,
    )


def _launch(tree: Tree, config: yaml_docs.Map, template: Launch, role: Word | None) -> Launch:
    from checklistbot.discovery.interpret import pyengines
    from checklistbot.discovery.interpret.gitops import to_value
    from checklistbot.discovery.interpret.pymachine import Machine
    from checklistbot.discovery.interpret.pyvalues import Map
    from checklistbot.engines.base import settled

    value = to_value(config)
    made = pyengines.ray_config(
        Machine(tree, config.path, lambda machine, call: None),
        value if isinstance(value, Map) else Map((config.path, 1), {}),
    )
    env = {
        name: found
        for name, node in yaml_docs.mapping(dig(config, "runtime_env", "env_vars")).items()
        if (found := yaml_docs.word(node)) is not None
    }
    return dataclasses.replace(
        template,
        argv=tuple(map(settled, made.argv)),
        path=config.path,
        line=config.line,
        env=env,
        engine="vllm",
        served_model_name=made.served_model_name,
        gpu=made.gpu,
        replicas=made.replicas,
        role=role,
    )


FORMAT = Format("rayserve", claims, launches, words=(b"llm_configs", b"prefill_config"))
