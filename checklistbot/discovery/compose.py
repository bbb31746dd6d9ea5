"""Docker compose files: services with their ``.env``, env files, anchors, ``extends``, overrides, and the images that they build."""

from __future__ import annotations

import dataclasses
import posixpath
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from checklistbot.discovery import envfile
from checklistbot.discovery.base import Format
from checklistbot.discovery.kubernetes import overlaid
from checklistbot.discovery.launches import at_script, expand, launch_token, names_gpus
from checklistbot.discovery.tree import Tree, Unreadable
from checklistbot.discovery.yaml_docs import Map, Node, Seq, dig, items, mapping, maps, settled, text, words
from checklistbot.engines import _images
from checklistbot.engines.base import Launch, Word
from checklistbot.lazy import pattern

if TYPE_CHECKING:
    from checklistbot.discovery.dockerfile import Stage

_NAME = pattern(r"(?:^|/)(?:docker-)?compose[\w.-]*\.ya?ml$")
_PLAIN: Final = ("compose.yaml", "compose.yml", "docker-compose.yml", "docker-compose.yaml")


def claims(path: str, body: str) -> bool:
    """YAML with services that are images or builds, and no Kubernetes object."""
    if not path.endswith((".yml", ".yaml")) or not re.search(r"^services:", body, re.MULTILINE):
        return False
    if _NAME.search(path):
        return True
    return "apiVersion:" not in body and re.search(r"^\s+(?:image|build):", body, re.MULTILINE) is not None


def launches(tree: Tree, path: str, body: str) -> list[Launch]:
    return [
        launch
        for environment, document in _documents(tree, path, body)
        for launch in _of_document(tree, path, document, environment)
    ]


def _documents(tree: Tree, path: str, body: str) -> Iterator[tuple[str, Map]]:
    """The file itself, or, for an override, the base with the override over it (environment NAME)."""
    from checklistbot.discovery import yaml_docs

    for root in yaml_docs.documents(path, body):
        if not isinstance(root, Map) or not isinstance(root.get("services"), Map):
            continue
        base = _base_of(tree, path, root)
        if base is None:
            yield "default", root
        else:
            yield _override_name(path), overlaid(base, root)


def _override_name(path: str) -> str:
    name = posixpath.basename(path).rpartition(".")[0]
    name = re.sub(r"^(?:docker-)?compose[.-]?", "", name)
    return "default" if name in ("", "override") else name


def _base_of(tree: Tree, path: str, root: Map) -> Map | None:
    """The plain compose file beside an override: a file whose services all stand there and that cannot run alone."""
    from checklistbot.discovery import yaml_docs

    if posixpath.basename(path) in _PLAIN or not _NAME.search(path):
        return None
    services = mapping(root.get("services"))
    if all("image" in mapping(s) or "build" in mapping(s) or "extends" in mapping(s) for s in services.values()):
        return None
    for name in _PLAIN:
        beside = posixpath.join(posixpath.dirname(path), name)
        if tree.exists(beside):
            try:
                found = next(iter(yaml_docs.documents(beside, tree.read(beside))), None)
            except Unreadable:
                return None
            if isinstance(found, Map) and set(services) <= set(mapping(found.get("services"))):
                return found
    return None


def _of_document(tree: Tree, path: str, document: Map, environment: str) -> Iterator[Launch]:
    variables = project_variables(tree, path)
    services = mapping(document.get("services"))
    for name, service in services.items():
        if isinstance(service, Map):
            whole = _extended(tree, path, services, service)
            yield from _of_service(tree, path, name, whole, variables, environment)


def project_variables(tree: Tree, path: str) -> dict[str, Word]:
    """The variables of the project's ``.env``, else of the example that stands in for it."""
    folder = posixpath.dirname(path)
    for name in envfile.NAMES:
        file = posixpath.join(folder, name)
        if tree.exists(file):
            try:
                return envfile.parse(tree.read(file), file)
            except Unreadable:
                continue
    return {}


def _extended(tree: Tree, path: str, services: Map, service: Map, depth: int = 0) -> Map:
    from checklistbot.discovery import yaml_docs

    extends = service.get("extends")
    name = text(extends) or text(dig(extends, "service"))
    if name is None or depth > 5:
        return service
    file = text(dig(extends, "file"))
    if file is not None:
        other = posixpath.normpath(posixpath.join(posixpath.dirname(path), file))
        try:
            services = mapping(dig(next(iter(yaml_docs.documents(other, tree.read(other))), None), "services"))
        except Unreadable:
            return service
        path = other
    base = services.get(name)
    return overlaid(_extended(tree, path, services, base, depth + 1), service) if isinstance(base, Map) else service


def _of_service(
    tree: Tree, path: str, name: str, service: Map, variables: Mapping[str, Word], environment: str
) -> Iterator[Launch]:
    env = _environment(tree, path, service, variables)
    image = _interpolated(service.get("image"), variables)
    line = service.lines.get("command", service.line) if service.path == path else service.line
    template = Launch(
        argv=(),
        path=path,
        line=line,
        name=name,
        environment=environment,
        env=env,
        image=settled(image) if image is not None else None,
        replicas=_settled(_interpolated(dig(service, "deploy", "replicas") or service.get("scale"), variables)),
        gpu_count=_gpus(service, variables),
        mounted=_mounts(tree, path, service, variables),
        format="compose",
    )
    built = _built(tree, path, service, variables)
    if built is not None:
        yield from _of_image(tree, template, service, built, variables)
        return
    argv = [*_argv(service.get("entrypoint"), variables), *_argv(service.get("command"), variables)]
    listed = isinstance(service.get("command"), Seq) and "entrypoint" not in service
    named_by_service = listed or any(w.path != path for w in argv[:1]) or not argv
    for launch in map(at_script, expand(names_gpus(template), argv, tree)):
        bare = not launch.argv or launch.argv[0].shown.startswith("-")
        yield dataclasses.replace(launch, line=service.line - 1) if bare and named_by_service else launch


def _built(tree: Tree, path: str, service: Map, variables: Mapping[str, Word]) -> tuple[str, Stage] | None:
    """The Dockerfile of the tree that the service builds, and the stage of it."""
    build = service.get("build")
    context = text(build) or text(dig(build, "context"))
    if context is None:
        return None
    folder = posixpath.normpath(
        posixpath.join(posixpath.dirname(path), envfile.interpolated(context, variables) or ".")
    )
    name = envfile.interpolated(text(dig(build, "dockerfile")) or "Dockerfile", variables)
    file = posixpath.normpath(posixpath.join(folder, name))
    given = dig(build, "args")
    arguments = {
        key: settled(found)
        for key, value in mapping(given).items()
        if (found := _interpolated(value, variables)) is not None and found.text
    }
    for entry in words(given) if isinstance(given, Seq) else []:
        key, equals, value = envfile.interpolated(entry.text or "", variables).partition("=")
        if equals:
            arguments[key] = settled(Word(value, entry.path, entry.line, value))
    from checklistbot.discovery import dockerfile

    try:
        stage = dockerfile.last_stage(file, tree.read(file), arguments, text(dig(build, "target")))
    except Unreadable:
        return None
    return (file, stage) if stage is not None else None


def _of_image(
    tree: Tree, template: Launch, service: Map, built: tuple[str, Stage], variables: Mapping[str, Word]
) -> Iterator[Launch]:
    """A service that runs what its own Dockerfile says; ``command`` and ``entrypoint`` of the service replace the image's."""
    from checklistbot.discovery import dockerfile

    file, stage = built
    entrypoint, command = _argv(service.get("entrypoint"), variables), _argv(service.get("command"), variables)
    if "entrypoint" in service:
        stage = dataclasses.replace(stage, entrypoint=entrypoint, command=command)
    elif "command" in service:
        stage = dataclasses.replace(stage, command=command)
    # The name that the built image is given says nothing of what is in it: its base does.
    base = dataclasses.replace(template, env={**stage.env, **template.env}, image=stage.image)
    for launch in dockerfile.started(names_gpus(base), stage, tree, file):
        placed = _named_image(at_script(launch), template.image)
        token = launch_token(placed)
        own = any(word.path == template.path for word in placed.argv)
        if placed.path == template.path and not own and token is not None and token.path == file:
            placed = dataclasses.replace(placed, path=file, line=token.line)
        yield placed


def _named_image(launch: Launch, image: Word | None) -> Launch:
    """The launch under the service's own image name, with what the base image says of engine and version."""
    base = launch.image.text if launch.image is not None else None
    if image is None or launch.image is image:
        return launch
    rule = _images.rule_of(base) if base else None
    version = _images.version_of(base, rule.engine) if base and rule is not None else None
    pinned = launch.version
    if version is not None and pinned is None and launch.image is not None:
        pinned = dataclasses.replace(launch.image, text=version)
    bare = rule is not None and rule.entrypoint and launch.argv and launch.argv[0].shown.startswith("-")
    engine = rule.engine if bare and rule is not None else launch.engine
    return dataclasses.replace(launch, image=image, engine=engine, version=pinned)


def consumes(tree: Tree, path: str, body: str) -> Iterator[str]:
    """The Dockerfiles of the services: what they run is the service's."""
    from checklistbot.discovery import yaml_docs

    if "build" not in body:
        return
    for root in yaml_docs.documents(path, body):
        variables = project_variables(tree, path)
        for service in mapping(dig(root, "services")).values():
            built = _built(tree, path, service, variables) if isinstance(service, Map) else None
            if built is not None:
                yield built[0]


def _settled(found: Word | None) -> Word | None:
    return settled(found) if found is not None else None


def _interpolated(node: Node, variables: Mapping[str, Word]) -> Word | None:
    if not isinstance(node, Word):
        return None
    if node.text is None or "$" not in node.text:
        return node
    name = re.fullmatch(r"\$\{?(\w+)(?::?-[^{}]*)?\}?", node.text.strip())
    origin = variables.get(name[1]) if name is not None else None
    changed = envfile.interpolated(node.text, variables)
    if origin is not None:
        return Word(changed, origin.path, origin.line, node.text)
    return dataclasses.replace(
        node,
        text=changed,
        starts=node.starts if changed.count("\n") == node.text.count("\n") and not node.starts else (),
    )


def _argv(node: Node, variables: Mapping[str, Word]) -> list[Word]:
    """A list is an argv; a string is split as a shell would, without being run by one."""
    if isinstance(node, Seq):
        return [w for entry in words(node) if (w := _interpolated(entry, variables)) is not None]
    found = _interpolated(node, variables)
    if found is None or found.text is None:
        return []
    from checklistbot.engines._shell_words import split_words

    return split_words(found)


def _environment(tree: Tree, path: str, service: Map, variables: Mapping[str, Word]) -> dict[str, Word]:
    """env_file first, then environment (map or list)."""
    env: dict[str, Word] = {}
    node = service.get("env_file")
    files = [text(entry.get("path")) for entry in maps(node)] + [w.text for w in words(node)]
    for file in files:
        if file is None:
            continue
        other = posixpath.normpath(posixpath.join(posixpath.dirname(path), envfile.interpolated(file, variables)))
        for candidate in (other, f"{other}.example"):
            try:
                env.update(envfile.parse(tree.read(candidate), candidate, variables))
                break
            except Unreadable:
                continue
    given = service.get("environment")
    if isinstance(given, Map):
        for name, value in given.items():
            found = _interpolated(value, variables)
            if found is not None:
                env[name] = settled(found)
    for entry in words(given) if isinstance(given, Seq) else []:
        found = _interpolated(entry, variables)
        key, equals, rest = (found.text or "").partition("=") if found is not None else ("", "", "")
        if equals and found is not None:
            env[key] = settled(dataclasses.replace(found, text=rest, raw=rest))
        elif key in variables:
            env[key] = variables[key]
    return env


def _gpus(service: Map, variables: Mapping[str, Word]) -> Word | None:
    """The number of devices that the service reserves; ``all`` says none."""
    for device in maps(dig(service, "deploy", "resources", "reservations", "devices")):
        ids = device.get("device_ids")
        if isinstance(ids, Seq) and ids:
            listed = [settled(w) for w in (_interpolated(entry, variables) for entry in words(ids)) if w is not None]
            if all(w.text is not None for w in listed):
                count = sum(len([d for d in (w.text or "").split(",") if d]) for w in listed)
                return (
                    Word(str(count), listed[0].path, listed[0].line, "")
                    if not any(w.text == "all" for w in listed)
                    else None
                )
            return None
        count_word = _settled(_interpolated(device.get("count"), variables))
        if count_word is not None and (count_word.text or "").isdigit():
            return count_word
    gpus = _settled(_interpolated(service.get("gpus"), variables))
    return gpus if gpus is not None and (gpus.text or "").isdigit() else None


def _mounts(tree: Tree, path: str, service: Map, variables: Mapping[str, Word]) -> dict[str, tuple[str, str, int]]:
    """Single files of the tree that a bind mount brings into the container."""
    found: dict[str, tuple[str, str, int]] = {}
    for volume in items(service.get("volumes")):
        if isinstance(volume, Map):
            source, target = text(volume.get("source")), text(volume.get("target"))
        else:
            given = _interpolated(volume, variables)
            parts = (given.text or "").split(":") if given is not None else []
            source, target = (parts[0], parts[1]) if len(parts) > 1 else (None, None)
        if source is None or target is None or not source.startswith("."):
            continue
        found.update(mounted_files(tree, posixpath.normpath(posixpath.join(posixpath.dirname(path), source)), target))
    return found


def mounted_files(tree: Tree, source: str, target: str) -> Iterator[tuple[str, tuple[str, str, int]]]:
    """(path in the container, (text, path, 1)) of one file, or of the scripts and configuration files of a folder."""
    wanted = (".sh", ".yaml", ".yml", ".json", ".env", ".conf", ".toml")
    if tree.exists(source):
        candidates = [(source, target)]
    else:
        inside = [p for p in tree.paths() if p.startswith(source + "/") and p.endswith(wanted)][:50]
        candidates = [(p, posixpath.join(target, p[len(source) + 1 :])) for p in inside]
    for file, where in candidates:
        try:
            yield where, (tree.read(file), file, 1)
        except Unreadable:
            continue


FORMAT = Format(
    "compose",
    claims,
    launches,
    consumes=consumes,
    anchors=("compose*.yml", "compose*.yaml", "docker-compose*.yml", "docker-compose*.yaml"),
)
