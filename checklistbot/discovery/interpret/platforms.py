"""What serving platforms say around a Python launcher: Modal, Ray Serve, BentoML, Truss, SageMaker, Kubernetes clients.

GPU, image, replicas and the pinned engine version come from decorators, fluent image chains and the platform's own files.
"""

from __future__ import annotations

import dataclasses
import posixpath
from typing import TYPE_CHECKING, Final

from checklistbot.discovery.interpret import data_files, pins, sagemaker
from checklistbot.discovery.interpret.marks import settled, without_marks
from checklistbot.discovery.interpret.pyvalues import Cls, Const, Func, Inst, Map, Obj, Seq, Value, chain
from checklistbot.discovery.tree import Tree, Unreadable
from checklistbot.engines.base import Launch, Word
from checklistbot.lazy import pattern

if TYPE_CHECKING:
    from checklistbot.discovery.interpret.pymachine import Call, Machine
    from checklistbot.discovery.interpret.pysinks import Finder

_MODAL: Final = ("function", "cls", "server")
_GPU = pattern(r"^([A-Za-z][\w.-]*?)!?(?::(\d+))?$")


def surround(finder: Finder, launch: Launch, functions: list[Func]) -> Launch:
    """The launch with what the decorators of the functions and classes around it say, the innermost first."""
    for func in functions:
        decorators = [*func.decorators, *(func.owner.decorators if func.owner else [])]
        for decorator in decorators:
            if isinstance(decorator, Obj):
                launch = _decorated(finder, launch, decorator, func)
    return launch


def _decorated(finder: Finder, launch: Launch, decorator: Obj, func: Func) -> Launch:
    kind = decorator.name.rsplit(".", 1)[-1]
    name = func.owner.name if func.owner else func.name
    if decorator.name.startswith("modal.") and kind in _MODAL:
        return dataclasses.replace(_modal(finder, launch, decorator), qualifier=name)
    if decorator.name in ("bentoml.service", "bentoml.Service"):
        return dataclasses.replace(_bento(finder, launch, decorator), qualifier=name)
    if decorator.name in ("ray.serve.deployment", "serve.deployment", "ray.remote"):
        return dataclasses.replace(_ray(finder, launch, decorator), qualifier=name)
    if kind in ("endpoint", "pod", "asgi", "function", "task_queue") and decorator.name.startswith("be"):
        return _beam(finder, launch, decorator)
    return launch


def word_of(finder: Finder, value: Value | None) -> Word | None:
    """A known or unknown scalar as a word, None for None and for structures."""
    if value is None or (isinstance(value, Const) and value.value is None) or isinstance(value, (Seq, Map, Inst)):
        return None
    return settled(finder.machine.text(value), value.at)


def gpu_words(finder: Finder, value: Value | None) -> tuple[Word | None, Word | None]:
    """``"H100:2"``, ``modal.gpu.A100(count=2, size="80GB")``, ``["H100", "A100"]`` → (type, count)."""
    if isinstance(value, Seq):
        value = value.data[0] if value.data else None
    if isinstance(value, Obj):
        size = value.kwargs.get("size")
        name = value.name.rsplit(".", 1)[-1] + (f"-{size.value}" if isinstance(size, Const) else "")
        number = value.kwargs.get("count") or Const(value.at, 1)
        return settled(name, value.at), word_of(finder, number)
    found = word_of(finder, value)
    match = _GPU.match(found.text) if found is not None and found.text else None
    if found is None or match is None:
        return found, None
    count = match[2] or "1"
    return dataclasses.replace(found, text=match[1]), dataclasses.replace(found, text=count)


def _modal(finder: Finder, launch: Launch, decorator: Obj) -> Launch:
    kwargs = decorator.kwargs
    gpu, count = gpu_words(finder, kwargs.get("gpu"))
    app = decorator.receiver
    image = kwargs.get("image") or (app.kwargs.get("image") if isinstance(app, Obj) else None)
    replicas = word_of(finder, kwargs.get("min_containers") or kwargs.get("keep_warm"))
    found = image_of(finder, image)
    pinned = pins.in_words(_image_texts(finder, image))
    return dataclasses.replace(
        launch,
        gpu=launch.gpu or gpu,
        gpu_count=launch.gpu_count or count,
        replicas=launch.replicas or replicas,
        image=launch.image or found,
        version=launch.version or pins.choose(pinned, launch),
    )


def image_of(finder: Finder, image: Value | None) -> Word | None:
    """The registry image at the root of a fluent image chain."""
    for step in chain(image):
        if step.name.endswith("from_registry") and step.args:
            return word_of(finder, step.args[0])
    return None


def _image_texts(finder: Finder, image: Value | None) -> list[Word]:
    """Every string that the image chain installs or runs, requirement files included."""
    texts: list[Word] = []
    for step in chain(image):
        for value in step.args:
            for entry in value.data if isinstance(value, Seq) else [value]:
                if isinstance(entry, Const) and isinstance(entry.value, str):
                    texts.append(settled(entry.value, entry.at))
                    if step.name.endswith("requirements"):
                        texts += requirement_lines(finder.tree, finder.path, entry.value)
    return texts


def requirement_lines(tree: Tree, path: str, name: str) -> list[Word]:
    """The lines of a requirements file named relative to the launcher."""
    candidate = posixpath.normpath(posixpath.join(posixpath.dirname(path), name))
    if candidate.startswith(("..", "/")) or not tree.exists(candidate):
        return []
    try:
        text = without_marks(tree.read(candidate))
    except Unreadable:
        return []
    return [Word(line.strip(), candidate, number) for number, line in enumerate(text.split("\n")[:2_000], 1)]


def _bento(finder: Finder, launch: Launch, decorator: Obj) -> Launch:
    resources = decorator.kwargs.get("resources")
    data = resources.data if isinstance(resources, Map) else {}
    scaling = decorator.kwargs.get("scaling")
    replicas = scaling.data.get("min_replicas") if isinstance(scaling, Map) else None
    image = decorator.kwargs.get("image")
    pinned = pins.in_words(_image_texts(finder, image))
    return dataclasses.replace(
        launch,
        gpu=launch.gpu or word_of(finder, data.get("gpu_type")),
        gpu_count=launch.gpu_count or word_of(finder, data.get("gpu")),
        replicas=launch.replicas or word_of(finder, replicas),
        version=launch.version or pins.choose(pinned, launch) or bento_pin(finder.tree, finder.path, launch),
    )


def bento_pin(tree: Tree, path: str, launch: Launch) -> Word | None:
    """The engine's version from the files beside a BentoML service."""
    texts: list[Word] = []
    for name in ("requirements.txt", "pyproject.toml", "bentofile.yaml", "requirements.lock"):
        texts += requirement_lines(tree, path, name)
    return pins.choose(pins.in_words(texts), launch)


def _ray(finder: Finder, launch: Launch, decorator: Obj) -> Launch:
    kwargs = decorator.kwargs
    actor = kwargs.get("ray_actor_options")
    data = actor.data if isinstance(actor, Map) else {}
    scaling = kwargs.get("autoscaling_config")
    replicas = kwargs.get("num_replicas") or (scaling.data.get("min_replicas") if isinstance(scaling, Map) else None)
    gpus = data.get("num_gpus") or kwargs.get("num_gpus")
    return dataclasses.replace(
        launch,
        gpu=launch.gpu or word_of(finder, data.get("accelerator_type") or kwargs.get("accelerator_type")),
        gpu_count=launch.gpu_count or word_of(finder, gpus),
        replicas=launch.replicas or word_of(finder, replicas),
    )


def _beam(finder: Finder, launch: Launch, decorator: Obj) -> Launch:
    gpu, count = gpu_words(finder, decorator.kwargs.get("gpu"))
    pinned = pins.in_words(_image_texts(finder, decorator.kwargs.get("image")))
    counted = word_of(finder, decorator.kwargs.get("gpu_count")) or count
    return dataclasses.replace(
        launch,
        gpu=launch.gpu or gpu,
        gpu_count=launch.gpu_count or counted,
        version=launch.version or pins.choose(pinned, launch),
    )


# --- calls that deploy ---------------------------------------------------------------------------------------------------

_CONTAINERS: Final = ("V1Container", "KubernetesPodOperator", "create_pod", "Sandbox.create", "Model.upload")


def python_call(finder: Finder, call: Call) -> Launch | None:
    """A call that deploys a container or an endpoint."""
    if call.name.endswith(".deploy") and isinstance(call.receiver, Obj):
        return sagemaker.python_deploy(finder, call)
    if call.name.endswith(".create_model") and "PrimaryContainer" in call.kwargs:
        return sagemaker.boto_model(finder, call)
    if call.name.endswith(_CONTAINERS):
        return _container(finder, call)
    return None


def _container(finder: Finder, call: Call) -> Launch | None:
    from checklistbot.discovery.launches import expand

    kwargs = call.kwargs
    image = kwargs.get("image") or kwargs.get("image_name") or kwargs.get("serving_container_image_uri")
    command = kwargs.get("command") or kwargs.get("cmds") or kwargs.get("serving_container_command")
    arguments = (
        kwargs.get("args")
        or kwargs.get("arguments")
        or kwargs.get("docker_args")
        or kwargs.get("serving_container_args")
    )
    if image is None:
        return None
    environment = kwargs.get("env_vars") or kwargs.get("serving_container_environment_variables") or kwargs.get("env")
    words = [w for part in (command, arguments) if part is not None for w in finder._words(part)]
    template = dataclasses.replace(finder.template(call.at, finder._env(environment)), image=finder._word(image))
    gpu, count = _gpu_limit(finder, kwargs.get("resources") or kwargs.get("container_resources"))
    template = dataclasses.replace(template, gpu=template.gpu or gpu, gpu_count=template.gpu_count or count)
    found = list(expand(template, words, finder.tree))
    for launch in found[1:]:
        finder._emit(launch)
    return found[0] if found else None


def _gpu_limit(finder: Finder, resources: Value | None) -> tuple[Word | None, Word | None]:
    limits = resources.kwargs.get("limits") if isinstance(resources, Obj) else None
    data = limits.data if isinstance(limits, Map) else {}
    count = next((v for k, v in data.items() if isinstance(k, str) and "/gpu" in k), None)
    return None, word_of(finder, count)


def python_value(machine: Machine, tree: Tree, path: str, call: Call) -> Value | None:
    """What a platform's helper returns: BentoML's arguments, Truss' config."""
    if call.name == "bentoml.use_arguments" and call.args and isinstance(call.args[0], Cls):
        from checklistbot.discovery.interpret import pylibrary

        return pylibrary.instantiate(machine, call.args[0], [], bento_arguments(tree, path), call.at)
    return None


def bento_arguments(tree: Tree, path: str) -> dict[str, Value]:
    """``[tool.bentoml.build.args]`` of pyproject.toml, or ``args`` of bentofile.yaml, beside the service or above it."""
    for name, kind, keys in (
        ("pyproject.toml", "toml", ("tool", "bentoml", "build", "args")),
        ("bentofile.yaml", "yaml", ("args",)),
    ):
        value = nearest(tree, path, name, kind)
        for key in keys:
            value = value.data.get(key) if isinstance(value, Map) else None
        if isinstance(value, Map):
            return {str(k): v for k, v in value.data.items()}
    return {}


def nearest(tree: Tree, path: str, name: str, kind: str) -> Value | None:
    """The data of a file of that name in the folder of ``path`` or the one above it."""
    folder = posixpath.dirname(path)
    for place in (folder, posixpath.dirname(folder)):
        candidate = posixpath.join(place, name)
        if tree.exists(candidate):
            try:
                return data_files.load(without_marks(tree.read(candidate)), (candidate, 1), kind)
            except Unreadable:
                return None
    return None


# --- Truss ---------------------------------------------------------------------------------------------------------------


def truss_config(tree: Tree, path: str) -> Map | None:
    """The config.yaml of the Truss that a model file belongs to (``model/model.py`` below it)."""
    folder = posixpath.dirname(posixpath.dirname(path))
    if posixpath.basename(path) != "model.py" or not tree.exists(posixpath.join(folder, "config.yaml")):
        return None
    value = nearest(tree, posixpath.join(folder, "x"), "config.yaml", "yaml")
    return value if isinstance(value, Map) else None


def with_version(tree: Tree, finder: Finder, launch: Launch) -> Launch:
    """Versions and GPUs from files that belong to the launcher: Truss' config, PEP 723 metadata."""
    config = truss_config(tree, finder.path)
    if config is not None:
        launch = _with_truss(finder, launch, config)
    if launch.version is None and "# /// script" in finder.header:
        lines = [
            Word(line, finder.path, n) for n, line in enumerate(finder.header.split("\n"), 1) if line.startswith("#")
        ]
        launch = dataclasses.replace(launch, version=pins.choose(pins.in_words(lines), launch))
    return launch


def _with_truss(finder: Finder, launch: Launch, config: Map) -> Launch:
    resources = config.data.get("resources")
    accelerator = resources.data.get("accelerator") if isinstance(resources, Map) else None
    gpu, count = gpu_words(finder, accelerator)
    base = config.data.get("base_image")
    image = base.data.get("image") if isinstance(base, Map) else None
    requirements = config.data.get("requirements")
    texts = (
        [settled(str(v.value), v.at) for v in requirements.data if isinstance(v, Const)]
        if isinstance(requirements, Seq)
        else []
    )
    named = config.data.get("requirements_file")
    if isinstance(named, Const) and isinstance(named.value, str):
        texts += requirement_lines(
            finder.tree, posixpath.join(posixpath.dirname(posixpath.dirname(finder.path)), "x"), named.value
        )
    title = config.data.get("model_name")
    return dataclasses.replace(
        launch,
        name=str(title.value) if isinstance(title, Const) and title.value else launch.name,
        gpu=launch.gpu or gpu,
        gpu_count=launch.gpu_count or count,
        image=launch.image or word_of(finder, image),
        version=launch.version or pins.choose(pins.in_words(texts), launch),
    )
