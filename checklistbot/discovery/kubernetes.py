"""Kubernetes manifests: workloads and any custom resource that carries pod specs.

A pod spec is found by its shape (``containers:``, Dynamo's ``mainContainer:``), not by a list of kinds: LeaderWorkerSet,
RoleBasedGroup, StormService, RayCluster, InferenceService, DynamoGraphDeployment, Rollout and what comes next are read alike.
What stands around it (replicas, group size, role, labels) is collected on the way down.
"""

from __future__ import annotations

import dataclasses
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Final

from checklistbot.discovery import kserve
from checklistbot.discovery.base import Format
from checklistbot.discovery.launches import expand, run_shell
from checklistbot.discovery.tree import STDIN_PATH, Tree, Unreadable
from checklistbot.discovery.yaml_docs import (
    Map,
    Node,
    Seq,
    dig,
    items,
    mapping,
    maps,
    mark,
    settled,
    text,
    walk,
    word,
    words,
)
from checklistbot.engines.base import OPEN, Launch, Word
from checklistbot.knowledge.accelerators import by_instance
from checklistbot.lazy import pattern
from checklistbot.record import record

_YAML = pattern(r"\.(?:ya?ml(?:\.(?:tmpl|tpl|in|template|tftpl|envsubst|erb|dist|example|sample))?|json)$")


def claims(path: str, body: str) -> bool:
    """YAML or JSON with apiVersion and kind."""
    if path != STDIN_PATH and _YAML.search(path) is None:
        return False
    return "apiVersion" in body and "kind" in body


def launches(tree: Tree, path: str, body: str) -> list[Launch]:
    from checklistbot.discovery import yaml_docs

    return from_documents(tree, yaml_docs.documents(path, body))


def from_documents(tree: Tree, roots: Sequence[Node], environment: str = "default") -> list[Launch]:
    """The launches of manifests that are read already (a rendered overlay, a chart, standard input)."""
    documents = [doc for root in roots for doc in _listed(root) if "kind" in doc]
    files = ConfigFiles(tree, documents)
    found: list[Launch] = []
    for document in documents:
        kind = text(document.get("kind")) or ""
        if (kind in _NO_WORKLOAD and not _knative(document)) or text(dig(document, "spec", "disabled")) == "true":
            continue
        place = Place(name=_name(document), path=document.path, files=files, environment=environment, tree=tree)
        if kind in kserve.RUNTIMES and (served := kserve.services_of(document, files)):
            for service in served:
                named = replace(place, name=_name(service), replicas=kserve.replicas(service))
                found += one_server_a_group(list(_visit(kserve.joined(document, service), named)))
            continue
        if kind == "InferenceService":
            found += kserve.without_runtime(document, place, files)
        found += one_server_a_group(list(_visit(document, place)))
    return found + list(_loose_scripts(files, documents, tree, environment))


#: Kinds that may hold something that looks like a pod spec or a command and deploy nothing themselves.
_NO_WORKLOAD: Final = frozenset(
    {
        "ConfigMap",
        "Secret",
        "CustomResourceDefinition",
        "Service",
        "LLMInferenceService",
        "LLMInferenceServiceConfig",
        "Kustomization",
        "Application",
    }
)


def _knative(document: Map) -> bool:
    """Knative's Service (and Cloud Run's) runs a container; the core one only leads to it."""
    return (text(document.get("apiVersion")) or "").startswith("serving.knative.dev/")


def _listed(root: Node) -> Iterator[Map]:
    if isinstance(root, Map):
        if (text(root.get("kind")) or "").endswith("List") and isinstance(root.get("items"), Seq):
            for entry in items(root.get("items")):
                yield from _listed(entry)
        else:
            yield root


def _name(document: Map) -> str:
    metadata = document.get("metadata")
    return text(dig(metadata, "name")) or (text(dig(metadata, "generateName")) or "").rstrip("-") or "unnamed"


# --- on the way down ---------------------------------------------------------------------------------------------------


@record
class Place:
    """What is known about a node from what stands around it."""

    name: str
    path: str
    files: ConfigFiles
    tree: Tree
    environment: str = "default"
    qualifier: str | None = None
    replicas: Word | None = None
    nodes: Word | None = None
    role: Word | None = None
    engine_hint: str | None = None
    image: Word | None = None
    gpu: Word | None = None
    gpus: Word | None = None
    templates: Mapping[str, Map] = field(default_factory=dict)
    worker: bool = False


_ROLE_VALUE = pattern(r"(?i)prefill|decode")
_ROLE_KEY = pattern(r"(?i)(?:^|[./-])(?:role|component|sub-?component-?type|disaggregation[-_]?mode|stage)$")


def _visit(node: Node, place: Place) -> Iterator[Launch]:
    if isinstance(node, Seq):
        for entry in node:
            yield from _visit(entry, _entered(entry, place))
        return
    if not isinstance(node, Map):
        return
    place = _collected(node, place)
    yield from _containers(node, place)
    shared = text(dig(node, "templateRef", "name")) in place.templates
    for key, value in node.items():
        if (
            key in _CLOSED
            or (shared and key in ("templateRef", "templatePatch", "patch"))
            or not isinstance(value, (Map, Seq))
        ):
            continue
        yield from _visit(value, _keyed(key, value, place))


#: Keys below which no container is run as a server.
_CLOSED: Final = frozenset(
    {
        "initContainers",
        "containers",
        "mainContainer",
        "metadata",
        "status",
        "volumes",
        "volumeClaimTemplates",
        "affinity",
        "roleTemplates",
    }
)


def _entered(entry: Node, place: Place) -> Place:
    """An element of a list of roles, services or components is named by itself."""
    if isinstance(entry, Map):
        name = text(entry.get("name"))
        if name and any(
            key in entry
            for key in ("replicas", "template", "podTemplate", "templateRef", "componentType", "type", "podSpec")
        ):
            return replace(place, qualifier=name, role=_role(word(entry.get("name"))) or place.role)
    return place


def _keyed(key: str, value: Node, place: Place) -> Place:
    """A key that is itself a role, or a service's name, tells which part of the object this is."""
    if key in ("workerTemplate", "worker", "workers", "workerGroupSpecs") and place.nodes is not None:
        place = replace(place, worker=True)
    line = value.line if isinstance(value, (Map, Seq)) else 1
    if _ROLE_VALUE.fullmatch(key):
        return replace(place, role=Word(key.lower(), place.path, max(1, line - 1), key), qualifier=key)
    if isinstance(value, Map) and any(k in value for k in ("componentType", "extraPodSpec", "dynamoNamespace")):
        return replace(place, qualifier=key)
    return place


def _role(found: Word | None) -> Word | None:
    return found if found is not None and found.text and _ROLE_VALUE.search(found.text) else None


def _collected(node: Map, place: Place) -> Place:
    changes: dict[str, object] = {}
    for key in ("replicas", "minReplicas", "min_replicas"):
        replicas = word(node.get(key))
        if replicas is not None and (replicas.text is None or replicas.text.isdigit()):
            changes["replicas"] = replicas
            break
    size = word(node.get("size"))
    if (
        size is not None
        and (size.text or "").isdigit()
        and any(k in node for k in ("workerTemplate", "leaderTemplate"))
    ):
        changes["nodes"] = size
    labels = [mapping(dig(node, "metadata", "labels")), mapping(node.get("labels"))]
    for key in node:
        if _ROLE_KEY.search(key) and isinstance(node[key], Word):
            changes["role"] = _role(word(node[key])) or changes.get("role") or place.role
    for group in labels:
        for key, value in group.items():
            if _ROLE_KEY.search(key) and isinstance(value, Word) and _role(word(value)):
                changes["role"] = word(value)
    if "extraPodSpec" in node or "podTemplate" in node:
        changes["gpus"] = accelerators(node) or place.gpus
    gpu = _gpu_name(node)
    if gpu is not None:
        changes["gpu"] = gpu
    if isinstance(node.get("roleTemplates"), Seq):
        changes["templates"] = {text(t.get("name")) or "": t for t in maps(node["roleTemplates"])}
    return replace(place, **changes) if changes else place  # type: ignore[arg-type]


_GPU_LABELS: Final = (
    "nvidia.com/gpu.product",
    "cloud.google.com/gke-accelerator",
    "cloud.google.com/gke-tpu-accelerator",
    "amd.com/gpu.product-name",
    "gpu.nvidia.com/class",
    "run.googleapis.com/accelerator",
    "accelerator",
    "gpu-type",
    "gpu_type",
    "node.kubernetes.io/gpu",
    "karpenter.k8s.aws/instance-gpu-name",
)
#: Labels of an instance type, which tells the GPU only if the type is one that is known.
_INSTANCE_LABELS: Final = ("node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type")


def _gpu_name(node: Map) -> Word | None:
    selector = mapping(node.get("nodeSelector"))
    for label in (*_GPU_LABELS, *_INSTANCE_LABELS):
        found = word(selector.get(label))
        if found is not None and found.text and (label in _GPU_LABELS or by_instance(found.text)):
            return found
    for term in walk(dig(node, "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")):
        key = text(term.get("key"))
        if key in (*_GPU_LABELS, *_INSTANCE_LABELS) and text(term.get("operator")) == "In":
            values = words(term.get("values"))
            if len(values) == 1 and (key in _GPU_LABELS or by_instance(values[0].text or "")):
                return settled(values[0])
    return None


# --- containers --------------------------------------------------------------------------------------------------------


def _containers(node: Map, place: Place) -> Iterator[Launch]:
    containers = maps(node.get("containers"))
    main = node.get("mainContainer")
    if isinstance(main, Map):
        containers = [main, *containers]
    runner = node.get("runner")
    if isinstance(runner, Map) and ("command" in runner or "args" in runner) and "routerConfig" not in node:
        containers = [runner, *containers]
    reference = text(dig(node, "templateRef", "name")) or text(dig(node, "templateSource", "templateRef", "name"))
    if reference is not None and reference in place.templates:
        yield from _patched(node, place.templates[reference], place)
        return
    volumes = maps(node.get("volumes"))
    for container in containers:
        yield from container_launches(container, place, volumes)


def _patched(node: Map, template: Map, place: Place) -> Iterator[Launch]:
    """A role that refers to a shared pod template and patches its containers by name (RoleBasedGroup)."""
    shared = next((found for found in walk(template) if isinstance(found.get("containers"), Seq)), None)
    patch = next(
        (
            found
            for patched in (node.get("templatePatch"), node.get("patch"), dig(node, "templateRef", "patch"))
            for found in walk(patched)
            if isinstance(found.get("containers"), Seq)
        ),
        None,
    )
    if shared is None:
        return
    patches = {text(c.get("name")): c for c in maps(patch.get("containers"))} if patch is not None else {}
    place = _collected(shared, place)
    for container in maps(shared.get("containers")):
        yield from container_launches(
            overlaid(container, patches.get(text(container.get("name")))), place, maps(shared.get("volumes"))
        )


def overlaid(base: Map, patch: Map | None) -> Map:
    """``base`` with the keys of ``patch`` over it, maps merged, everything else replaced."""
    if patch is None:
        return base
    merged = Map(base.path, base.line)
    for source in (base, patch):
        for key, value in source.items():
            old = merged.get(key)
            both = isinstance(old, Map) and isinstance(value, Map)
            merged.set(key, overlaid(old, value) if both else value, source.lines.get(key, source.line))  # type: ignore[arg-type]
    return merged


def merged_by_name(base: Map, patch: Map) -> Map:
    """A strategic merge: maps are merged, lists of named things by name, everything else replaced; lines are the patch's own."""
    merged = Map(patch.path, patch.line)
    for key, value in base.items():
        merged.set(key, value, base.lines.get(key, base.line))
    for key, value in patch.items():
        old = merged.get(key)
        line = patch.lines.get(key, patch.line)
        if isinstance(old, Map) and isinstance(value, Map):
            merged.set(key, merged_by_name(old, value), line)
        elif (
            isinstance(old, Seq)
            and isinstance(value, Seq)
            and maps(value)
            and all(text(m.get("name")) for m in maps(value))
        ):
            merged.set(key, _merged_lists(old, value), line)
        else:
            merged.set(key, value, line)
    return merged


def _merged_lists(base: Seq, patch: Seq) -> Seq:
    found = {text(entry.get("name")): entry for entry in maps(base)}
    for entry in maps(patch):
        name = text(entry.get("name"))
        found[name] = merged_by_name(found[name], entry) if name in found else entry
    return Seq(patch.path, patch.line, list(found.values()))


def container_launches(container: Map, place: Place, volumes: Sequence[Map] = ()) -> list[Launch]:
    """The servers of one container, with its image, environment, resources and mounted files."""
    env = environment_of(container, place.files)
    image = word(container.get("image")) or place.image
    template = Launch(
        argv=(),
        path=container.path,
        line=container.line,
        name=place.name,
        environment=place.environment,
        qualifier=place.qualifier,
        env=env,
        image=_substituted(image) if image is not None else None,
        replicas=place.replicas,
        gpu=place.gpu,
        gpu_count=accelerators(container) or place.gpus,
        nodes=place.nodes,
        role=place.role,
        mounted=place.files.mounted(container, volumes),
        engine=_engine_by_name(container, image),
        format="kubernetes",
    )
    command, arguments = words(container.get("command")), words(container.get("args"))
    argv = [_expanded(entry, env) for entry in [*command, *arguments]]
    return expand(template, argv, place.tree)


def _engine_by_name(container: Map, image: Word | None) -> str | None:
    """Where the image is a placeholder, or left to what a patch is laid over, the container's name may say what it runs."""
    if words(container.get("command")) or (image is not None and (image.text is None or "$" not in image.text)):
        return None
    name = text(container.get("name"))
    first = next(iter(words(container.get("args"))), None)
    return name if name in ("vllm", "sglang") and first is not None and first.shown.startswith("-") else None


_REFERENCE = pattern(r"\$\((\w+)\)|\$\$\((\w+)\)")
_PLACEHOLDER = pattern(r"\$\{(\w+)(?::?-([^}]*))?\}|\$([A-Za-z_]\w*)")
_SCRIPT = pattern(r"[\s;|&]")


def _expanded(entry: Word, env: Mapping[str, Word]) -> Word:
    """``$(NAME)`` as the kubelet replaces it, and, in a word that no shell will see, the ``${NAME}`` of a template."""
    if entry.text is None or "$" not in entry.text:
        return entry
    whole = re.fullmatch(r"\$\((\w+)\)", entry.text)
    if whole is not None and whole[1] in env:
        # The line that decides is the variable's own.
        return env[whole[1]]

    def value(match: re.Match[str]) -> str:
        if match[2]:
            return f"$({match[2]})"
        found = env.get(match[1])
        if found is None:
            return mark(f"$({match[1]})")
        return found.text if found.text is not None else mark(f"$({match[1]})")

    changed = _REFERENCE.sub(value, entry.text)
    if not _SCRIPT.search(changed):
        changed = _PLACEHOLDER.sub(lambda m: m[2] if m[2] is not None else mark(f"${m[1] or m[3]}"), changed)
    return dataclasses.replace(entry, text=changed, starts=entry.starts if len(changed) == len(entry.text) else ())


def _substituted(image: Word) -> Word:
    """``${TAG}`` of a template: the image stays as it is written where its repository is known, else it is unknown."""
    if image.text is None or "$" not in image.text:
        return image
    changed = _PLACEHOLDER.sub(lambda m: m[2] if m[2] is not None else mark(f"${m[1] or m[3]}"), image.text)
    repository, _, tag = image.text.rpartition(":")
    if OPEN in changed and "$" in tag and "{" not in repository and repository and "$" not in repository:
        return dataclasses.replace(image, raw=image.text)
    return settled(dataclasses.replace(image, text=changed))


def environment_of(container: Map, files: ConfigFiles) -> dict[str, Word]:
    """The container's variables: ``envFrom`` first, then ``env``; secrets and fields are unknown."""
    env: dict[str, Word] = {}
    for source in maps(container.get("envFrom")):
        name = text(dig(source, "configMapRef", "name"))
        if name is not None:
            env.update(files.data(name))
    for entry in maps(container.get("env")):
        name = text(entry.get("name"))
        if name is None:
            continue
        value = _env_value(entry, files)
        if value is not None:
            env[name] = _expanded(value, env) if value.text is not None and "$(" in value.text else value
    return env


def _env_value(entry: Map, files: ConfigFiles) -> Word | None:
    value = word(entry.get("value"))
    if value is not None:
        return value
    source = entry.get("valueFrom")
    name, key = text(dig(source, "configMapKeyRef", "name")), text(dig(source, "configMapKeyRef", "key"))
    if name is not None and key is not None:
        found = files.data(name).get(key)
        if found is not None:
            return found
    return None if source is None else settled(Word(mark(text(entry.get("name")) or ""), entry.path, entry.line))


_ACCELERATOR = pattern(
    r"nvidia\.com/(?:gpu|mig-.*)|amd\.com/gpu|google\.com/tpu|gpu\.intel\.com/\w+|habana\.ai/gaudi|huawei\.com/\w+|"
    r"aliyun\.com/gpu\S*|intel\.com/gpu|cloud-tpus\.google\.com/\S+|huawei\.com/[\w.-]+|rebellions\.ai/\S+|furiosa\.ai/\S+|mthreads\.com/\w+|metax-tech\.com/gpu|aws\.amazon\.com/neuron\w*"
)


def accelerators(container: Map) -> Word | None:
    """Accelerators of one container, by limits, else by requests."""
    resources = container.get("resources")
    for kind in ("limits", "requests"):
        for key, value in mapping(dig(resources, kind)).items():
            found = word(value)
            if _ACCELERATOR.fullmatch(key) and found is not None:
                return found
        gpu = word(dig(resources, kind, "gpu"))
        if gpu is not None:
            return gpu
    return None


# --- files from ConfigMaps ---------------------------------------------------------------------------------------------


class ConfigFiles:
    """ConfigMaps of the file, else of the files beside it: variables, mounted configuration and scripts."""

    def __init__(self, tree: Tree, documents: Sequence[Map]) -> None:
        self._tree = tree
        self._maps = {_name(doc): doc for doc in documents if text(doc.get("kind")) == "ConfigMap"}
        self._documents = list(documents)
        self._folders = {posixpath.dirname(doc.path) for doc in documents}
        self._near: dict[str, Map] | None = None
        self.used: set[str] = set()

    def get(self, name: str) -> Map | None:
        self.used.add(name)
        if name in self._maps:
            return self._maps[name]
        if self._near is None:
            self._near = {_name(doc): doc for doc in self._neighbours("ConfigMap")}
        return self._near.get(name)

    def document(self, kind: str, name: str) -> Map | None:
        """An object of that kind and name in the file or in the files beside it."""
        own = [doc for doc in self._documents if text(doc.get("kind")) == kind]
        return next((doc for doc in [*own, *self._neighbours(kind)] if _name(doc) == name), None)

    def documents(self, kind: str) -> list[Map]:
        """All objects of that kind in the file and in the files beside it."""
        own = [doc for doc in self._documents if text(doc.get("kind")) == kind]
        paths = {doc.path for doc in own}
        return [*own, *(doc for doc in self._neighbours(kind) if doc.path not in paths)]

    def own(self) -> Iterable[Map]:
        return self._maps.values()

    def _neighbours(self, kind: str) -> Iterator[Map]:
        from checklistbot.discovery import yaml_docs

        near = [
            p for p in self._tree.paths() if posixpath.dirname(p) in self._folders and p.endswith((".yaml", ".yml"))
        ]
        for path in near[:100]:
            try:
                body = self._tree.read(path)
            except Unreadable:
                continue
            if kind in body:
                for document in (d for root in yaml_docs.documents(path, body) for d in _listed(root)):
                    if text(document.get("kind")) == kind:
                        yield document

    def data(self, name: str) -> dict[str, Word]:
        found = self.get(name)
        entries = mapping(found.get("data")) if found is not None else Map("", 0)
        return {key: value for key, value in entries.items() if isinstance(value, Word)}

    def mounted(self, container: Map, volumes: Sequence[Map]) -> dict[str, tuple[str, str, int]]:
        """Path in the container → (text, path, first line) of what its volume mounts bring from ConfigMaps."""
        found: dict[str, tuple[str, str, int]] = {}
        by_name = {text(volume.get("name")): volume for volume in volumes}
        for mount in maps(container.get("volumeMounts")):
            volume = by_name.get(text(mount.get("name")))
            where, source = text(mount.get("mountPath")), text(dig(volume, "configMap", "name"))
            if where is None or source is None:
                continue
            renamed = {text(i.get("key")): text(i.get("path")) for i in maps(dig(volume, "configMap", "items"))}
            sub = text(mount.get("subPath"))
            for key, entry in self.data(source).items():
                name = renamed.get(key) or key
                if entry.text is not None and (not renamed or key in renamed) and (sub is None or sub == name):
                    found[where if sub is not None else posixpath.join(where, name)] = (
                        entry.text,
                        entry.path,
                        entry.line,
                    )
        return found


def _loose_scripts(files: ConfigFiles, documents: Sequence[Map], tree: Tree, environment: str) -> Iterator[Launch]:
    """Scripts in ConfigMaps that no workload of the file mounts: what another file, or a person, runs."""
    for document in files.own():
        name = _name(document)
        if name in files.used:
            continue
        for key, entry in mapping(document.get("data")).items():
            script = (
                isinstance(entry, Word)
                and entry.text
                and (key.endswith((".sh", ".bash")) or entry.text.startswith("#!"))
            )
            if script and isinstance(entry, Word):
                template = Launch((), entry.path, entry.line, name, environment, key, format="kubernetes")
                yield from run_shell(template, entry, tree)


# --- leaders and workers -----------------------------------------------------------------------------------------------

_PER_NODE = pattern(
    r"--(?:node-rank|node_rank|dist-init-addr|nccl-init-addr|nnodes|headless|data-parallel-start-rank|data-parallel-address|host|port)(?:=.*)?$"
)


def one_server_a_group(found: list[Launch]) -> list[Launch]:
    """Workers that repeat the leader's command are the same deployment (LeaderWorkerSet, multi-node services)."""
    kept: dict[tuple[object, ...], Launch] = {}
    for launch in found:
        kept.setdefault(
            (
                launch.name,
                launch.role and launch.role.text,
                launch.nodes is not None and launch.nodes.line,
                shape_of(launch),
            ),
            launch,
        )
    return list(kept.values())


def shape_of(launch: Launch) -> tuple[str, ...]:
    """The argv without what tells one node of a group from another."""
    shape: list[str] = []
    skip = False
    for entry in launch.argv:
        shown = entry.shown
        if skip and not shown.startswith("-"):
            skip = False
            continue
        skip = False
        if _PER_NODE.match(shown):
            skip = "=" not in shown
            continue
        shape.append(shown)
    return tuple(shape)


#: KServe: the model format names the runtime, and nothing in the file an engine.
FORMAT = Format("kubernetes", claims, launches, words=(b"serving.kserve.io",))
