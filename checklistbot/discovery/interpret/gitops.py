"""Release objects: Argo CD Application and ApplicationSet, Flux HelmRelease and Kustomization, Helmfile.

Each names a folder or a chart of the tree, the values over it, and thereby an environment: the object's name, with the generator's
element. What such an object deploys is not reported a second time by the file's own format.
"""

from __future__ import annotations

import dataclasses
import posixpath
import re
from collections.abc import Callable, Hashable, Iterator, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from itertools import islice, product
from typing import Final

from checklistbot.discovery import yaml_docs
from checklistbot.discovery.interpret import charts, data_files, gotemplate, kustomization, listing, releases
from checklistbot.discovery.interpret.gofunctions import FUNCTIONS, overlay
from checklistbot.discovery.interpret.gorender import Renderer, Stopped, show
from checklistbot.discovery.interpret.marks import mark, without_marks
from checklistbot.discovery.interpret.pyvalues import Const, Map, Seq, Unk, Value
from checklistbot.discovery.limits import gave_up
from checklistbot.discovery.tree import Tree, Unreadable
from checklistbot.discovery.yaml_docs import dig, items, mapping, maps, text
from checklistbot.engines.base import Launch, Word
from checklistbot.model import Skipped

MAX_ELEMENTS: Final = 100
MAX_FILES: Final = 300
_ARGO = b"argoproj.io/"
_FLUX = b"toolkit.fluxcd.io/"
_YAML: Final = (".yaml", ".yml")


_BRACES: Final = ("\ue0d0", "\ue0d1")


def read_documents(path: str, body: str) -> list[yaml_docs.Node]:
    """The documents of a file; an ApplicationSet keeps its ``{{…}}``, which a YAML reader would take for something else."""
    plain = list(yaml_docs.documents(path, body))
    if "{{" not in body or not any(text(dig(d, "kind")) == "ApplicationSet" for d in plain):
        return plain
    opened, closed = _BRACES
    kept = list(yaml_docs.documents(path, re.sub(r"\{\{([^{}\n]*)\}\}", rf"{opened}\1{closed}", body)))
    braced = [d for d in kept if text(dig(d, "kind")) == "ApplicationSet"]
    others = [d for d in plain if text(dig(d, "kind")) != "ApplicationSet"]
    return [*others, *(_substituted(d, _with_braces) for d in braced)]


def _with_braces(word: Word) -> Word:
    opened, closed = _BRACES
    if word.text is None or opened not in word.text:
        return word
    return dataclasses.replace(word, text=word.text.replace(opened, "{{").replace(closed, "}}"))


def deploy(tree: Tree, documents: Sequence[yaml_docs.Node], environment: str | None) -> list[Launch]:
    """What documents deploy: release objects by what they name, the rest as Kubernetes manifests. ``None``: each object names its environment."""
    from checklistbot.discovery import kubernetes

    plain: list[yaml_docs.Node] = []
    found: list[Launch] = []
    for document in documents:
        kind, version = text(dig(document, "kind")), text(dig(document, "apiVersion")) or ""
        if not isinstance(document, yaml_docs.Map):
            continue
        if kind in ("Application", "ApplicationSet") and version.startswith("argoproj.io/"):
            found += [
                launch for one in _applications(tree, document) for launch in _application(tree, one, environment)
            ]
        elif kind == "HelmRelease" and "fluxcd.io/" in version:
            found += _helm_release(tree, document, documents, environment)
        elif kind == "Kustomization" and "fluxcd.io/" in version:
            found += _flux_kustomization(tree, document, environment)
        else:
            plain.append(document)
    return found + kubernetes.from_documents(tree, plain, environment or "default")


# --- what is deployed by an object -----------------------------------------------------------------------------------------


def _cached(function: Callable[[Tree], frozenset[str]]) -> Callable[[Tree], frozenset[str]]:
    """Once for each tree: a state of a repository does not change while it is read."""
    remembered = lru_cache(maxsize=8)(function)

    def call(tree: Tree) -> frozenset[str]:
        return remembered(tree) if isinstance(tree, Hashable) else function(tree)

    return call


@_cached
def referenced(tree: Tree) -> frozenset[str]:
    """Folders and values files that some release object of the tree deploys."""
    found: set[str] = set()
    for path, root in _objects(tree):
        kind = text(dig(root, "kind"))
        if kind in ("Application", "ApplicationSet"):
            for application in _applications(tree, root):
                found |= _application_paths(tree, application)
        elif kind == "HelmRelease":
            chart = text(dig(root, "spec", "chart", "spec", "chart"))
            local = releases._local_chart(tree, path, chart) if chart and chart.startswith((".", "charts")) else None
            found |= {local} if local is not None else set()
        elif kind == "Kustomization":
            found |= {p for p in [_in_tree(tree, text(dig(root, "spec", "path")) or "")] if p is not None}
    for path in _helmfiles(tree):
        for release, folder in _helmfile_releases(tree, path):
            chart = text(release.get("chart")) or ""
            local = releases._local_chart(tree, path, chart) if chart.startswith(".") else None
            found |= {local} if local is not None else set()
            for entry in items(release.get("values")):
                name = text(entry)
                found |= {posixpath.normpath(posixpath.join(folder, name))} if name else set()
    return frozenset(found)


@_cached
def used_kustomizations(tree: Tree) -> frozenset[str]:
    """Folders that another kustomization of the tree builds on."""
    found: set[str] = set()
    for path in tree.named(kustomization.NAMES):
        found |= kustomization.bases(tree, posixpath.dirname(path))
    return frozenset(found)


def _objects(tree: Tree) -> Iterator[tuple[str, yaml_docs.Map]]:
    """Argo CD and Flux objects of the tree."""
    for path in list(tree.candidates([_ARGO, _FLUX]))[:MAX_FILES]:
        if not path.endswith((".yaml", ".yml")):
            continue
        for root in read_documents(path, _read(tree, path)):
            if isinstance(root, yaml_docs.Map):
                yield path, root


def _read(tree: Tree, path: str) -> str:
    try:
        return without_marks(tree.read(path))
    except Unreadable:
        return ""


def _in_tree(tree: Tree, path: str) -> str | None:
    """A repository path of an object as a folder of the tree, None where it is not there."""
    clean = posixpath.normpath(path.lstrip("/")) if path.strip("./") else ""
    clean = "" if clean == "." else clean
    if clean.startswith(".."):
        return None
    return clean if listing.holds(tree, clean) else None


# --- Argo CD ---------------------------------------------------------------------------------------------------------------


def _applications(tree: Tree, document: yaml_docs.Map) -> list[yaml_docs.Map]:
    """An Application as it is, an ApplicationSet once for each element of its generators."""
    if text(document.get("kind")) == "Application":
        return [document]
    spec = document.get("spec")
    template = dig(spec, "template")
    if not isinstance(template, yaml_docs.Map):
        return []
    go = text(dig(spec, "goTemplate")) == "true"
    elements = [e for generator in maps(dig(spec, "generators")) for e in _elements(tree, generator)][:MAX_ELEMENTS]
    found = []
    names: set[str] = set()
    for element in elements:
        application = _substituted(template, lambda w, e=element: _fill(w, e, go))  # type: ignore[misc]
        if not isinstance(application, yaml_docs.Map):
            continue
        name = dig(application, "metadata", "name")
        if isinstance(name, Word) and (name.text or "") in names:
            label = show(next(iter(element.values()), Const(("", 1), "")))
            mapping(application["metadata"])["name"] = dataclasses.replace(name, text=f"{name.text}-{label}")
        names.add(text(name) or "")
        found.append(application)
    return found


Element = dict[str, Value]


def _elements(tree: Tree, generator: yaml_docs.Map) -> list[Element]:
    """The elements of one generator: list, git directories and files, matrix, merge; clusters are unknown."""
    if "list" in generator:
        return [_element(entry) for entry in maps(dig(generator, "list", "elements"))]
    if "git" in generator:
        return _git_elements(tree, generator.get("git"))
    if "matrix" in generator:
        parts = [_elements(tree, g) for g in maps(dig(generator, "matrix", "generators"))]
        return (
            [{k: v for part in row for k, v in part.items()} for row in product(*parts)][:MAX_ELEMENTS] if parts else []
        )
    if "merge" in generator:
        return _merged_elements(tree, generator)
    if "clusters" in generator:
        at = (generator.path, generator.line)
        unknown = {k: Unk(at, f"clusters.{k}") for k in ("name", "nameNormalized", "server", "metadata")}
        values = dig(generator, "clusters", "values")
        return [{**unknown, **({"values": to_value(values)} if values is not None else {})}]
    return []


def _element(entry: yaml_docs.Map) -> Element:
    return {key: to_value(value) for key, value in entry.items()}


def _merged_elements(tree: Tree, generator: yaml_docs.Map) -> list[Element]:
    keys = [text(k) or "" for k in items(dig(generator, "merge", "mergeKeys"))]
    merged: dict[tuple[str, ...], Element] = {}
    for number, inner in enumerate(maps(dig(generator, "merge", "generators"))):
        for element in _elements(tree, inner):
            label = tuple(show(element[k]) if k in element else "" for k in keys)
            if number == 0 or label in merged:
                merged[label] = {**merged.get(label, {}), **element}
    return list(merged.values())


def _git_elements(tree: Tree, git: yaml_docs.Node) -> list[Element]:
    at = (git.path, git.line) if isinstance(git, yaml_docs.Map) else ("", 1)
    found: list[Element] = []
    folders = {posixpath.dirname(p) for p in listing.paths(tree)}
    every = sorted({"/".join(f.split("/")[:n]) for f in folders for n in range(1, f.count("/") + 2)} - {""})
    excluded = [text(d.get("path")) or "" for d in maps(dig(git, "directories")) if text(d.get("exclude")) == "true"]
    for directory in maps(dig(git, "directories")):
        glob = text(directory.get("path")) or ""
        if text(directory.get("exclude")) == "true":
            continue
        for folder in every:
            if _same_depth(folder, glob) and not any(_same_depth(folder, e) for e in excluded):
                found.append({"path": _path_value(folder, at)})
    for file in maps(dig(git, "files")):
        glob = text(file.get("path")) or ""
        for path in listing.paths(tree):
            if fnmatchcase(path, glob) and path.endswith((".json", ".yaml", ".yml")):
                value = data_files.load(_read(tree, path), (path, 1), "yaml")
                data = dict(value.data) if isinstance(value, Map) else {}
                found.append({**{str(k): v for k, v in data.items()}, "path": _path_value(posixpath.dirname(path), at)})
    return found[:MAX_ELEMENTS]


def _same_depth(folder: str, glob: str) -> bool:
    return folder.count("/") == glob.count("/") and fnmatchcase(folder, glob)


def _path_value(folder: str, at: tuple[str, int]) -> Map:
    parts = folder.split("/")
    data: dict[object, Value] = {
        "path": Const(at, folder),
        "basename": Const(at, parts[-1]),
        "basenameNormalized": Const(at, parts[-1]),
        "segments": Seq(at, [Const(at, p) for p in parts]),
    }
    return Map(at, dict(data))


def _fill(word: Word, element: Element, go: bool) -> Word:
    """A template's word with the element's parameters: ``{{name}}``, ``{{path.basename}}``, ``{{path[1]}}``, or Go template."""
    body = word.text
    if body is None or "{{" not in body:
        return word
    if go:
        rendered = _go(body, Map((word.path, word.line), dict(element)), word.path)
        return dataclasses.replace(word, text=rendered) if rendered is not None else word
    only = re.fullmatch(r"\{\{\s*([\w.\[\]-]+)\s*\}\}", body)
    filled = re.sub(r"\{\{\s*([\w.\[\]-]+)\s*\}\}", lambda m: show(_parameter(m[1], element)), body)
    source = _parameter(only[1], element) if only else None
    place = source.at if source is not None and isinstance(source, Const) else (word.path, word.line)
    return dataclasses.replace(word, text=filled, path=place[0], line=place[1])


def _parameter(name: str, element: Element) -> Value:
    value: Value = Map(("", 1), dict(element))
    if name in element:
        found = element[name]
        return found.data["path"] if name == "path" and isinstance(found, Map) else found
    for part in re.findall(r"[\w-]+", name):
        if isinstance(value, Map):
            inner = value.data.get(part)
            segments = value.data.get("segments")
            if inner is None and part.isdigit() and isinstance(segments, Seq) and int(part) < len(segments.data):
                inner = segments.data[int(part)]
            value = inner if inner is not None else Unk(("", 1), name)
        else:
            return value if isinstance(value, Unk) else Unk(("", 1), name)
    return value


def _go(body: str, dot: Value, path: str) -> str | None:
    try:
        nodes, _ = gotemplate.parse(body)
        return Renderer({}, FUNCTIONS).render(nodes, path, dot).text
    except gotemplate.TemplateError:
        return None
    except (Stopped, RecursionError):
        gave_up()
        return None


def _substituted(node: yaml_docs.Node, change: Callable[[Word], Word], depth: int = 0) -> yaml_docs.Node:
    if isinstance(node, Word):
        return change(node)
    if depth > 80:
        return None
    if isinstance(node, yaml_docs.Map):
        found = yaml_docs.Map(node.path, node.line)
        for key, value in node.items():
            found.set(key, _substituted(value, change, depth + 1), node.lines.get(key, node.line))
        return found
    if isinstance(node, yaml_docs.Seq):
        return yaml_docs.Seq(node.path, node.line, [_substituted(v, change, depth + 1) for v in node])
    return node


def _sources(application: yaml_docs.Map) -> list[yaml_docs.Map]:
    spec = application.get("spec")
    several = maps(dig(spec, "sources"))
    single = dig(spec, "source")
    return several or ([single] if isinstance(single, yaml_docs.Map) else [])


def _application_paths(tree: Tree, application: yaml_docs.Map) -> set[str]:
    found: set[str] = set()
    for source in _sources(application):
        path = _in_tree(tree, text(source.get("path")) or "") if text(source.get("path")) else None
        if path is not None:
            found.add(path)
        for entry in items(dig(source, "helm", "valueFiles")):
            target = _value_file(tree, path or "", text(entry) or "")
            found |= {target} if target is not None else set()
    return found


def _value_file(tree: Tree, folder: str, name: str) -> str | None:
    """``values-prod.yaml`` beside the chart, ``/x`` from the root, ``$ref/x`` of a source that is this repository."""
    if name.startswith("$"):
        target = posixpath.normpath(name.partition("/")[2])
    elif name.startswith("/"):
        target = posixpath.normpath(name.lstrip("/"))
    elif "://" in name:
        return None
    else:
        target = posixpath.normpath(posixpath.join(folder, name))
    return target if not target.startswith("..") and tree.exists(target) else None


def _application(tree: Tree, application: yaml_docs.Map, environment: str | None) -> list[Launch]:
    name = text(dig(application, "metadata", "name")) or "application"
    where = environment if environment is not None and environment != "default" else name.replace("/", "-")
    found: list[Launch] = []
    for source in _sources(application):
        if text(source.get("ref")) and not text(source.get("path")) and not text(source.get("chart")):
            continue
        found += _source(tree, application, source, name, where)
    return found


def _source(tree: Tree, application: yaml_docs.Map, source: yaml_docs.Map, name: str, where: str) -> list[Launch]:
    raw = text(source.get("path"))
    folder = _in_tree(tree, raw) if raw else None
    release = text(dig(source, "helm", "releaseName")) or name
    if folder is not None and charts.is_chart(tree, folder):
        return charts.launches(
            tree, charts.load(tree, folder), _argo_layers(tree, source, folder), environment=where, release=release
        )
    if text(source.get("chart")):
        layers = _argo_layers(tree, source, "")
        return releases.release(
            tree,
            application.path,
            release,
            text(source.get("chart")),
            layers,
            environment=where,
            remote=text(source.get("repoURL")) or "",
        )
    if folder is not None and kustomization.file_of(tree, folder) is not None:
        return _built(tree, folder, source.get("kustomize"), where)
    if folder is not None:
        return _plain_folder(tree, folder, where, recurse=text(dig(source, "directory", "recurse")) == "true")
    return []


def _argo_layers(tree: Tree, source: yaml_docs.Map, folder: str) -> list[Value]:
    """Argo's precedence: valueFiles in order, ``values``, ``valuesObject``, ``parameters`` (Argo CD documentation, "Helm")."""
    layers: list[Value] = []
    for entry in items(dig(source, "helm", "valueFiles")):
        name = text(entry) or ""
        target = _value_file(tree, folder, name)
        if target is not None:
            layers.append(charts.read_values(tree, target))
        elif text(dig(source, "helm", "ignoreMissingValueFiles")) != "true":
            tree.skipped.append(Skipped(source.path, f"values file {name[:120]} is not in the repository"))
    body = dig(source, "helm", "values")
    if isinstance(body, Word) and body.text:
        loaded = data_files.load(body.text, (body.path, body.line), "yaml")
        layers += [loaded] if loaded is not None else []
    structured = dig(source, "helm", "valuesObject")
    if structured is not None:
        layers.append(to_value(structured))
    pairs = [
        (text(p.get("name")) or "", p["value"])
        for p in maps(dig(source, "helm", "parameters"))
        if isinstance(p.get("value"), Word)
    ]
    if pairs:
        layers.append(
            releases.with_sets(Map((source.path, source.line), {}), [(n, w) for n, w in pairs if isinstance(w, Word)])
        )
    return layers


def _built(tree: Tree, folder: str, options: yaml_docs.Node, where: str) -> list[Launch]:
    """A kustomization with an object's own images, replicas and patches over it."""
    built = kustomization.build(tree, folder)
    if isinstance(options, yaml_docs.Map):
        root = yaml_docs.Map(options.path, options.line)
        for key, value in options.items():
            root.set(key, value, options.lines.get(key, options.line))
        images = yaml_docs.Seq(options.path, options.line, [_image_entry(i) for i in items(options.get("images"))])
        root.set("images", images, options.line)
        extra = kustomization._Build(tree, folder, options.path, root, built, 0)
        extra.documents = built.documents
        extra.transform(root)
        built.documents = extra.documents
    return deploy(tree, built.documents, where)


def _image_entry(entry: yaml_docs.Node) -> yaml_docs.Node:
    """``name=new:tag``, ``name:tag`` or Flux's map, as a kustomization's image entry."""
    if not isinstance(entry, Word) or not entry.text:
        return entry
    old, equals, new = entry.text.partition("=")
    target = new if equals else old
    base = kustomization._repository(target)
    found = yaml_docs.Map(entry.path, entry.line)
    found.set("name", dataclasses.replace(entry, text=old if equals else base), entry.line)
    found.set("newName", dataclasses.replace(entry, text=base), entry.line)
    rest = target[len(base) :]
    if rest.startswith("@"):
        found.set("digest", dataclasses.replace(entry, text=rest[1:]), entry.line)
    elif rest.startswith(":"):
        found.set("newTag", dataclasses.replace(entry, text=rest[1:]), entry.line)
    return found


def _plain_folder(tree: Tree, folder: str, where: str, *, recurse: bool) -> list[Launch]:
    documents: list[yaml_docs.Node] = []
    files = listing.below(tree, folder, _YAML) if recurse else listing.directly_in(tree, folder, _YAML)
    for path in islice(files, MAX_FILES):
        found = yaml_docs.documents(path, _read(tree, path))
        documents += [d for d in found if text(dig(d, "kind")) not in ("Application", "ApplicationSet")]
    return deploy(tree, documents, where)


def to_value(node: yaml_docs.Node) -> Value:
    """A YAML node as a value with its place; plain scalars get YAML's types."""
    if isinstance(node, yaml_docs.Map):
        return Map((node.path, node.line), {k: to_value(v) for k, v in node.items()})
    if isinstance(node, yaml_docs.Seq):
        return Seq((node.path, node.line), [to_value(v) for v in node])
    if isinstance(node, Word):
        at = (node.path, node.line)
        if node.text is None:
            return Unk(at, (node.unknown.name if node.unknown else None), "not-rendered")
        return Const(at, _typed(node.text))
    return Const(("", 1), None)


def _typed(body: str) -> str | int | float | bool | None:
    if re.fullmatch(r"-?\d{1,18}", body):
        return int(body)
    if re.fullmatch(r"-?\d{1,15}\.\d{1,15}", body):
        return float(body)
    return {"true": True, "false": False, "null": None, "~": None}.get(body, body)


# --- Flux --------------------------------------------------------------------------------------------------------------------


def _helm_release(
    tree: Tree, document: yaml_docs.Map, around: Sequence[yaml_docs.Node], environment: str | None
) -> list[Launch]:
    name = text(dig(document, "metadata", "name")) or "release"
    where = environment if environment is not None and environment != "default" else name
    spec = document.get("spec")
    chart = text(dig(spec, "chart", "spec", "chart"))
    layers: list[Value] = []
    local = (
        releases._local_chart(tree, document.path, chart) if chart and chart.startswith((".", "/", "charts")) else None
    )
    for entry in items(dig(spec, "chart", "spec", "valuesFiles")):
        target = _value_file(tree, "", text(entry) or "")
        layers += [charts.read_values(tree, target)] if target is not None else []
    for reference in maps(dig(spec, "valuesFrom")):
        layers += _values_from(tree, document, reference, around)
    values = dig(spec, "values")
    if values is not None:
        layers.append(to_value(values))
    return releases.release(
        tree,
        document.path,
        text(dig(spec, "releaseName")) or name,
        local if local is not None else chart,
        layers,
        environment=where,
    )


def _values_from(
    tree: Tree, document: yaml_docs.Map, reference: yaml_docs.Map, around: Sequence[yaml_docs.Node]
) -> list[Value]:
    """A ConfigMap of the same build or the same folder; what is not there is listed."""
    name, key = text(reference.get("name")), text(reference.get("valuesKey")) or "values.yaml"
    documents = list(around)
    folder = posixpath.dirname(document.path)
    for path in islice(listing.directly_in(tree, folder, _YAML), 50):
        documents += yaml_docs.documents(path, _read(tree, path))
    for other in documents:
        if text(dig(other, "kind")) == reference.get("kind", "ConfigMap") or text(dig(other, "kind")) == "ConfigMap":
            body = dig(other, "data", key)
            if text(dig(other, "metadata", "name")) == name and isinstance(body, Word) and body.text:
                loaded = data_files.load(body.text, (body.path, body.line), "yaml")
                target = text(reference.get("targetPath"))
                if target:
                    return [releases.with_sets(Map((body.path, body.line), {}), [(target, body)])]
                return [loaded] if loaded is not None else []
    if text(reference.get("optional")) != "true":
        tree.skipped.append(
            Skipped(
                document.path,
                f"values of {text(reference.get('kind')) or 'ConfigMap'} {name} are not in the repository",
            )
        )
    return []


def _flux_kustomization(tree: Tree, document: yaml_docs.Map, environment: str | None) -> list[Launch]:
    name = text(dig(document, "metadata", "name")) or "kustomization"
    where = environment if environment is not None and environment != "default" else name
    spec = document.get("spec")
    folder = _in_tree(tree, text(dig(spec, "path")) or "")
    if folder is None:
        return []
    if kustomization.file_of(tree, folder) is not None:
        documents: list[yaml_docs.Node] = list(kustomization.build(tree, folder).documents)
    else:
        paths = list(islice(listing.below(tree, folder, _YAML), MAX_FILES))
        documents = [d for p in paths if p != document.path for d in yaml_docs.documents(p, _read(tree, p))]
    documents = [
        d
        for d in documents
        if not (text(dig(d, "kind")) == "Kustomization" and text(dig(d, "metadata", "name")) == name)
    ]
    given = dig(spec, "postBuild", "substitute")
    if dig(spec, "postBuild") is not None:
        documents = [_substituted(d, lambda w: _variables(w, mapping(given))) for d in documents]
    options = yaml_docs.Map(document.path, document.line)
    for key in ("patches", "images"):
        node = dig(spec, key)
        if node is not None:
            options.set(key, node, document.line)
    if options:
        extra = kustomization._Build(tree, folder, document.path, options, kustomization.Built(), 0)
        extra.documents = [d for d in documents if isinstance(d, yaml_docs.Map)]
        extra.transform(options)
        documents = list(extra.documents)
    return deploy(tree, documents, where)


def _variables(word: Word, given: yaml_docs.Map) -> Word:
    """Flux's ``${VAR}`` and ``${VAR:=default}``."""
    body = word.text
    if body is None or "${" not in body:
        return word

    def one(match: re.Match[str]) -> str:
        known = given.get(match[1])
        if isinstance(known, Word) and known.text is not None:
            return known.text
        return match[2] if match[2] is not None else mark(match[1])

    whole = re.fullmatch(r"\$\{(\w+)(?::[-=][^}]*)?\}", body)
    source = given.get(whole[1]) if whole else None
    filled = re.sub(r"(?<!\$)\$\{(\w+)(?::[-=]([^}]*))?\}", one, body)
    place = source if isinstance(source, Word) else word
    return dataclasses.replace(word, text=filled, path=place.path, line=place.line)


# --- Helmfile ----------------------------------------------------------------------------------------------------------------


def _helmfiles(tree: Tree) -> list[str]:
    wanted = re.compile(r"(?:^|/)(?:helmfile\.ya?ml(?:\.gotmpl)?|helmfile\.d/[^/]+\.ya?ml(?:\.gotmpl)?)$")
    return [p for p in listing.paths(tree) if wanted.search(p)][:50]


def _helmfile_releases(tree: Tree, path: str) -> list[tuple[yaml_docs.Map, str]]:
    """(release, folder that its files are relative to) without an environment's values; for what a helmfile refers to."""
    folder = posixpath.dirname(path)
    return [(r, folder) for root in yaml_docs.documents(path, _read(tree, path)) for r in maps(dig(root, "releases"))]


def helmfile(tree: Tree, path: str, body: str) -> list[Launch]:
    """The releases of a helmfile in each of its environments."""
    body = without_marks(body)
    roots = yaml_docs.documents(path, body)
    environments = {k: v for root in roots for k, v in mapping(dig(root, "environments")).items()}
    found: list[Launch] = []
    for name in environments or {"default": None}:
        if len(environments) > 1 and name == "default":
            continue
        values = _environment_values(tree, path, environments.get(name))
        rendered = _go(body, _helmfile_dot(path, name, values), path) if "{{" in body else body
        for root in yaml_docs.documents(path, rendered if rendered is not None else body):
            for release in maps(dig(root, "releases")):
                label = text(release.get("name")) or "release"
                where = f"{label}-{name}" if environments and name != "default" else label
                found += _helmfile_release(tree, path, release, values, name, where, label)
    return found


def _environment_values(tree: Tree, path: str, node: yaml_docs.Node) -> Value:
    values: Value = Map((path, 1), {})
    for entry in items(dig(node, "values")):
        name = text(entry)
        target = posixpath.normpath(posixpath.join(posixpath.dirname(path), name)) if name else None
        layer = (
            charts.read_values(tree, target) if target is not None and not target.startswith("..") else to_value(entry)
        )
        values = overlay(values, layer)
    return values


def _helmfile_dot(path: str, environment: str, values: Value) -> Map:
    at = (path, 1)
    return Map(at, {"Environment": Map(at, {"Name": Const(at, environment)}), "Values": values, "StateValues": values})


def _helmfile_release(
    tree: Tree, path: str, release: yaml_docs.Map, state: Value, environment: str, where: str, label: str
) -> list[Launch]:
    if text(release.get("installed")) == "false":
        return []
    folder = posixpath.dirname(path)
    layers: list[Value] = []
    for entry in items(release.get("values")):
        name = text(entry)
        if name is None:
            layers.append(to_value(entry))
            continue
        target = posixpath.normpath(posixpath.join(folder, name))
        if target.startswith("..") or not tree.exists(target):
            tree.skipped.append(Skipped(path, f"values file {name[:120]} is not in the repository"))
            continue
        content = _read(tree, target)
        if target.endswith(".gotmpl"):
            content = _go(content, _helmfile_dot(target, environment, state), target) or ""
        loaded = data_files.load(content, (target, 1), "yaml")
        layers += [loaded] if loaded is not None else []
    sets = [
        (text(s.get("name")) or "", s["value"]) for s in maps(release.get("set")) if isinstance(s.get("value"), Word)
    ]
    if sets:
        layers.append(releases.with_sets(Map((path, 1), {}), [(n, w) for n, w in sets if isinstance(w, Word)]))
    return releases.release(tree, path, label, text(release.get("chart")), layers, environment=where)


# --- who reports a file --------------------------------------------------------------------------------------------------------


def application_paths(tree: Tree, path: str, body: str) -> set[str]:
    """Folders and values files that a file's Applications deploy."""
    found: set[str] = set()
    for root in read_documents(path, body):
        if isinstance(root, yaml_docs.Map) and text(root.get("kind")) in ("Application", "ApplicationSet"):
            for application in _applications(tree, root):
                found |= _application_paths(tree, application)
    return found


def flux_paths(tree: Tree, path: str, body: str) -> set[str]:
    """Folders that a file's Flux Kustomizations deploy."""
    roots = [r for r in yaml_docs.documents(path, body) if text(dig(r, "kind")) == "Kustomization"]
    return {p for r in roots if (p := _in_tree(tree, text(dig(r, "spec", "path")) or "")) is not None}


@_cached
def _manifests(tree: Tree) -> frozenset[str]:
    """Kubernetes manifests that are no Argo CD objects: what a release object of a folder deploys."""
    objects = frozenset(tree.candidates([_ARGO]))
    return frozenset(tree.candidates([b"apiVersion"])) - {p for p in objects if _is_object(tree, p)}


def files_below(tree: Tree, paths: set[str]) -> list[str]:
    """Manifests below the folders; values files as they are. Argo CD objects in them keep their own reader."""
    found: list[str] = []
    for target in sorted(paths):
        if tree.exists(target):
            found.append(target)
        else:
            found += [p for p in listing.below(tree, target, _YAML) if p in _manifests(tree)]
            found += list(listing.below(tree, target, (".tpl",))) if charts.is_chart(tree, target) else []
    return found[:5_000]


def _is_object(tree: Tree, path: str) -> bool:
    body = _read(tree, path)
    return "argoproj.io/" in body and re.search(r"kind\s*:\s*Application", body) is not None


def built_elsewhere(tree: Tree, path: str) -> bool:
    """True if a kustomization beside the file or above it lists it, or a Flux Kustomization deploys its folder."""
    for folder in _folders(path):
        if kustomization.file_of(tree, folder) is not None and path in kustomization.build(tree, folder).files:
            return True
    paths = {
        p
        for _, root in _objects(tree)
        if text(dig(root, "kind")) == "Kustomization"
        for p in [_in_tree(tree, text(dig(root, "spec", "path")) or "")]
        if p
    }
    return any(path.startswith(p + "/") for p in paths)


def _folders(path: str) -> list[str]:
    parts = path.split("/")[:-1]
    return ["/".join(parts[:n]) for n in range(len(parts), -1, -1)]


def helmfile_files(tree: Tree, path: str) -> list[str]:
    """Values files that a helmfile names."""
    found = []
    for release, folder in _helmfile_releases(tree, path):
        for entry in items(release.get("values")):
            name = text(entry)
            target = posixpath.normpath(posixpath.join(folder, name)) if name else ""
            found += [target] if target and tree.exists(target) else []
    return found
