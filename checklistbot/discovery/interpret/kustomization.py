"""Builds a kustomization from the tree without ``kustomize``: resources, components, patches, generators, images, replicas.

The documents that come out keep the file and line of every scalar, whichever file won it. Remote bases are never fetched.
"""

from __future__ import annotations

import dataclasses
import posixpath
import re
from collections.abc import Iterable, Iterator
from dataclasses import field
from typing import Final

from checklistbot.discovery import yaml_docs
from checklistbot.discovery.interpret.marks import without_marks
from checklistbot.discovery.tree import Tree, Unreadable
from checklistbot.discovery.yaml_docs import Map, Node, Seq, dig, items, mapping, maps, text
from checklistbot.engines.base import Word, mark
from checklistbot.lazy import pattern as lazy_pattern
from checklistbot.model import Skipped
from checklistbot.record import mutable_record

NAMES: Final = ("kustomization.yaml", "kustomization.yml", "Kustomization")
MAX_FILES: Final = 400
MAX_DEPTH: Final = 16
_REMOTE = lazy_pattern(r"^(?:https?://|ssh://|git@|git::|github\.com/|[\w.-]+\.[a-z]{2,}/[^/]+/)|\?ref=")


@mutable_record
class Built:
    """The documents of a kustomization, every file that went into them, and what was not there."""

    documents: list[Map] = field(default_factory=list)
    files: set[str] = field(default_factory=set)
    folders: set[str] = field(default_factory=set)


def file_of(tree: Tree, folder: str) -> str | None:
    """The kustomization file of a folder."""
    return next((p for n in NAMES if tree.exists(p := posixpath.join(folder, n))), None)


def build(tree: Tree, folder: str, built: Built | None = None, depth: int = 0) -> Built:
    """The kustomization in ``folder``; an empty one where there is none."""
    built = built or Built()
    path = file_of(tree, folder)
    if path is None or depth > MAX_DEPTH or folder in built.folders or len(built.files) > MAX_FILES:
        return built
    built.folders.add(folder)
    built.files.add(path)
    for root in yaml_docs.documents(path, _read(tree, path))[:1]:
        if isinstance(root, Map):
            built.documents += _Build(tree, folder, path, root, built, depth).run()
    return built


def _read(tree: Tree, path: str) -> str:
    try:
        return without_marks(tree.read(path))
    except Unreadable as error:
        tree.skipped.append(Skipped(path, str(error)))
        return ""


def bases(tree: Tree, folder: str) -> set[str]:
    """Folders of other kustomizations that this one names as resources, components or bases."""
    path = file_of(tree, folder)
    roots = yaml_docs.documents(path, _read(tree, path))[:1] if path else ()
    found = set()
    for root in roots:
        for key in ("resources", "bases", "components"):
            for entry in items(dig(root, key)):
                name = text(entry)
                target = _inside(folder, name) if name and not _REMOTE.search(name) else None
                if target is not None and file_of(tree, target) is not None:
                    found.add(target)
    return found


def _inside(folder: str, name: str) -> str | None:
    """A path relative to the folder, None where it leaves the tree."""
    path = posixpath.normpath(posixpath.join(folder, name))
    return None if path.startswith(("..", "/")) else "" if path == "." else path


class _Build:
    def __init__(self, tree: Tree, folder: str, path: str, root: Map, built: Built, depth: int) -> None:
        self.tree, self.folder, self.path, self.root, self.built, self.depth = tree, folder, path, root, built, depth
        self.documents: list[Map] = []

    def run(self) -> list[Map]:
        for key in ("resources", "bases"):
            for entry in items(self.root.get(key)):
                self._resource(text(entry))
        self._generators("configMapGenerator", "ConfigMap")
        self._generators("secretGenerator", "Secret")
        for entry in items(self.root.get("components")):
            self._component(text(entry))
        self.transform(self.root)
        return self.documents

    def _resource(self, name: str | None) -> None:
        if not name:
            return
        if _REMOTE.search(name):
            self.tree.skipped.append(
                Skipped(
                    self.path,
                    f"remote base {name[:120]} is not fetched; pipe `kustomize build {self.folder or '.'} | checklistbot check -`",
                )
            )
            return
        target = _inside(self.folder, name)
        if target is None:
            return
        if self.tree.exists(target):
            self.built.files.add(target)
            roots = yaml_docs.documents(target, _read(self.tree, target))
            self.documents += [copy for root in roots for copy in map(copied, _listed(root))]
            return
        if file_of(self.tree, target) is not None:
            inner = build(self.tree, target, Built([], self.built.files, set(self.built.folders)), self.depth + 1)
            self.built.folders |= inner.folders
            self.documents += inner.documents

    def _component(self, name: str | None) -> None:
        """A component transforms what is there so far."""
        target = _inside(self.folder, name) if name and not _REMOTE.search(name) else None
        path = file_of(self.tree, target) if target is not None else None
        if target is None or path is None or self.depth > MAX_DEPTH:
            return
        self.built.files.add(path)
        self.built.folders.add(target)
        for root in yaml_docs.documents(path, _read(self.tree, path))[:1]:
            if isinstance(root, Map):
                inner = _Build(self.tree, target, path, root, self.built, self.depth + 1)
                inner.documents = self.documents
                inner.run()
                self.documents = inner.documents

    # --- generators -------------------------------------------------------------------------------------------------------

    def _generators(self, key: str, kind: str) -> None:
        for entry in maps(self.root.get(key)):
            name = entry.get("name")
            if not isinstance(name, Word):
                continue
            data = Map(self.path, entry.line)
            for file in items(entry.get("files")):
                self._file(data, text(file))
            for literal in items(entry.get("literals")):
                if isinstance(literal, Word) and literal.text:
                    label, _, value = literal.text.partition("=")
                    data.set(label, dataclasses.replace(literal, text=value.strip("\"'")), literal.line)
            sources = [*items(entry.get("envs")), *([entry["env"]] if isinstance(entry.get("env"), Word) else [])]
            for source in sources:
                self._env_file(data, text(source))
            self._generated(kind, name, data, text(entry.get("behavior")))

    def _generated(self, kind: str, name: Word, data: Map, behavior: str | None) -> None:
        existing = [
            d for d in self.documents if text(d.get("kind")) == kind and text(dig(d, "metadata", "name")) == name.text
        ]
        if behavior in ("merge", "replace") and existing:
            before = mapping(existing[0].get("data"))
            merged = data if behavior == "replace" else _over(before, data)
            existing[0].set("data", merged, name.line)
            return
        document = Map(self.path, name.line)
        document.set("apiVersion", Word("v1", self.path, name.line), name.line)
        document.set("kind", Word(kind, self.path, name.line), name.line)
        metadata = Map(self.path, name.line)
        metadata.set("name", name, name.line)
        document.set("metadata", metadata, name.line)
        document.set("data", data, name.line)
        self.documents.append(document)

    def _file(self, data: Map, spec: str | None) -> None:
        if not spec:
            return
        key, equals, name = spec.partition("=")
        target = _inside(self.folder, name if equals else spec)
        if target is None or not self.tree.exists(target):
            return
        self.built.files.add(target)
        label = key if equals else posixpath.basename(target)
        data.set(label, Word(_read(self.tree, target), target, 1), 1)

    def _env_file(self, data: Map, name: str | None) -> None:
        target = _inside(self.folder, name) if name else None
        if target is None or not self.tree.exists(target):
            return
        self.built.files.add(target)
        for number, line in enumerate(_read(self.tree, target).split("\n"), 1):
            label, equals, value = line.strip().partition("=")
            if equals and not label.startswith("#"):
                data.set(label, Word(value.strip().strip("\"'"), target, number), number)

    # --- transformers -----------------------------------------------------------------------------------------------------

    def transform(self, root: Map) -> None:
        """Patches, images, replicas, names, in kustomize's order."""
        for entry in items(root.get("patchesStrategicMerge")):
            self._strategic_entry(entry)
        for entry in maps(root.get("patches")):
            self._patch(entry)
        for entry in maps(root.get("patchesJson6902")):
            self._patch(entry)
        for entry in maps(root.get("replicas")):
            self._replicas(entry)
        for entry in maps(root.get("images")):
            for document in self.documents:
                _image(document, entry)
        for entry in maps(root.get("replacements")):
            self._replacement(entry)
        for key, make in (("namePrefix", "{0}{1}"), ("nameSuffix", "{1}{0}")):
            added = text(root.get(key))
            if added:
                self._rename(added, make)

    def _strategic_entry(self, entry: Node) -> None:
        body = text(entry)
        if body is None or not isinstance(entry, Word):
            return
        target = _inside(self.folder, body) if "\n" not in body else None
        if target is not None and self.tree.exists(target):
            self._apply(target, _read(self.tree, target), None)
        elif "\n" in body:
            self._apply(entry.path, "\n" * (entry.line - 1) + body, None)

    def _patch(self, entry: Map) -> None:
        selector = entry.get("target")
        inline, path = entry.get("patch"), text(entry.get("path"))
        if isinstance(inline, Word) and inline.text:
            self._apply(inline.path, "\n" * (inline.line - 1) + inline.text, selector)
        elif path:
            target = _inside(self.folder, path)
            if target is not None and self.tree.exists(target):
                self._apply(target, _read(self.tree, target), selector)

    def _apply(self, path: str, body: str, selector: Node) -> None:
        self.built.files.add(path)
        for root in yaml_docs.documents(path, body):
            if isinstance(root, Seq):
                for document in self._selected(selector):
                    for operation in maps(root):
                        json_patch(document, operation)
            elif isinstance(root, Map):
                for patch in _listed(root):
                    chosen = self._selected(selector) if selector is not None else self._named(patch)
                    for document in chosen:
                        merge(document, patch, _strategic(document))
                    if text(patch.get("$patch")) == "delete":
                        self.documents = [d for d in self.documents if all(d is not c for c in chosen)]

    def _named(self, patch: Map) -> list[Map]:
        kind, name = text(patch.get("kind")), text(dig(patch, "metadata", "name"))
        return [d for d in self.documents if text(d.get("kind")) == kind and name in _names(d)]

    def _selected(self, selector: Node) -> list[Map]:
        """Documents that a target names; name and kind are regular expressions anchored at both ends, kept to plain ones."""
        kind, name = text(dig(selector, "kind")), text(dig(selector, "name"))
        labels = text(dig(selector, "labelSelector"))
        found = []
        for document in self.documents:
            if kind and not _like(kind, [text(document.get("kind")) or ""]):
                continue
            if name and not _like(name, _names(document)):
                continue
            if labels and not _labelled(document, labels):
                continue
            found.append(document)
        return found

    def _replicas(self, entry: Map) -> None:
        name, count = text(entry.get("name")), entry.get("count")
        for document in self.documents:
            if name in _names(document) and isinstance(count, Word) and isinstance(document.get("spec"), Map):
                mapping(document["spec"]).set("replicas", count, count.line)

    def _replacement(self, entry: Map) -> None:
        """A field of one object put into fields of others; a part of a field (``options``) is not computed: it is unknown."""
        source = entry.get("source")
        value = self._replaced_by(source) if dig(source, "options") is None else None
        for target in maps(entry.get("targets")):
            whole = value if target.get("options") is None else None
            for document in self._selected(target.get("select")):
                for field_path in items(target.get("fieldPaths")):
                    _set(document, _field_parts(text(field_path) or ""), whole)

    def _replaced_by(self, source: Node) -> Word | None:
        """The value of the one object that the source names, None where it is not here or not one."""
        chosen = self._selected(source)
        if len(chosen) != 1:
            return None
        found = _at_path(chosen[0], _field_parts(text(dig(source, "fieldPath")) or "metadata.name"))
        return found[0] if len(found) == 1 and isinstance(found[0], Word) else None

    def _rename(self, added: str, form: str) -> None:
        renamed: dict[str, str] = {}
        for document in self.documents:
            name = dig(document, "metadata", "name")
            kind = text(document.get("kind"))
            if isinstance(name, Word) and name.text and kind not in ("Namespace", "CustomResourceDefinition"):
                _remember(document, name.text)
                changed = form.replace("{0}", added).replace("{1}", name.text)
                mapping(document["metadata"])["name"] = dataclasses.replace(name, text=changed)
                renamed[name.text] = changed
        for document in self.documents:
            _refer(document, renamed)


#: Fields that name a ConfigMap or a Secret; a prefix changes the reference with the name.
_REFERENCES: Final = frozenset({"configMapKeyRef", "configMapRef", "secretKeyRef", "secretRef", "configMap"})


def _refer(node: Node, renamed: dict[str, str], depth: int = 0) -> None:
    if depth > 100:
        return
    if isinstance(node, Map):
        for key, value in node.items():
            name = value.get("name") if isinstance(value, Map) and key in _REFERENCES else None
            if isinstance(name, Word) and isinstance(value, Map) and name.text in renamed:
                value["name"] = dataclasses.replace(name, text=renamed[name.text])
            _refer(value, renamed, depth + 1)
    elif isinstance(node, Seq):
        for value in node:
            _refer(value, renamed, depth + 1)


_ORIGINAL: Final = "\0original"


def _remember(document: Map, name: str) -> None:
    """Patches of outer layers may use a resource's name from before a prefix."""
    metadata = mapping(document.get("metadata"))
    names = metadata.get(_ORIGINAL)
    kept = names if isinstance(names, Seq) else Seq(document.path, document.line)
    kept.append(Word(name, document.path, document.line))
    metadata[_ORIGINAL] = kept


def _names(document: Map) -> list[str]:
    current = text(dig(document, "metadata", "name"))
    former = [text(n) for n in items(dig(document, "metadata", _ORIGINAL))]
    return [n for n in (current, *former) if n]


def _like(pattern: str, names: list[str]) -> bool:
    """A selector's pattern without running it as a regular expression: literals, ``.*`` and alternatives."""
    for option in pattern.strip("^$()").split("|"):
        parts = [re.escape(p) for p in re.split(r"\.\*|\.\+", option)]
        simple = re.compile("[^\n]*".join(parts[:6]))
        if any(simple.fullmatch(n[:253]) for n in names):
            return True
    return False


def _labelled(document: Map, selector: str) -> bool:
    labels = mapping(dig(document, "metadata", "labels"))
    for part in selector.split(","):
        key, equals, value = part.replace("==", "=").partition("=")
        if equals and text(labels.get(key.strip())) != value.strip():
            return False
    return True


def _listed(root: Node) -> Iterator[Map]:
    if isinstance(root, Map):
        if (text(root.get("kind")) or "").endswith("List") and isinstance(root.get("items"), Seq):
            yield from maps(root.get("items"))
        else:
            yield root


# --- nodes -------------------------------------------------------------------------------------------------------------------


def copied(node: Map) -> Map:
    """A deep copy: a base is built into several overlays."""
    result = _copy(node, 0)
    return result if isinstance(result, Map) else Map(node.path, node.line)


def _copy(node: Node, depth: int) -> Node:
    if depth > 120:
        return None
    if isinstance(node, Map):
        found = Map(node.path, node.line)
        for key, value in node.items():
            found.set(key, _copy(value, depth + 1), node.lines.get(key, node.line))
        return found
    if isinstance(node, Seq):
        return Seq(node.path, node.line, [_copy(v, depth + 1) for v in node])
    return node


def _over(under: Map, over: Map) -> Map:
    found = Map(under.path, under.line)
    for source in (under, over):
        for key, value in source.items():
            found.set(key, value, source.lines.get(key, source.line))
    return found


#: Lists of the built-in kinds that merge by a key (Kubernetes API, "patchMergeKey").
_KEYS: Final = {
    "containers": "name", "initContainers": "name", "ephemeralContainers": "name", "env": "name", "volumes": "name",
    "volumeMounts": "mountPath", "ports": "containerPort", "imagePullSecrets": "name", "volumeDevices": "devicePath",
}  # fmt: skip
_BUILTIN: Final = ("v1", "apps/", "batch/", "extensions/", "networking.k8s.io/", "policy/", "autoscaling/")


def _strategic(document: Map) -> bool:
    """True for built-in kinds; lists of other kinds are replaced as a whole."""
    return (text(document.get("apiVersion")) or "").startswith(_BUILTIN)


def merge(target: Map, patch: Map, strategic: bool, depth: int = 0) -> None:
    """Strategic merge of one map into another; null removes a key."""
    if depth > 60:
        return
    for key, value in patch.items():
        line = patch.lines.get(key, patch.line)
        if key.startswith("$"):
            continue
        if value is None or (isinstance(value, Map) and text(value.get("$patch")) == "delete"):
            target.pop(key, None)
        elif isinstance(value, Map) and isinstance(target.get(key), Map) and text(value.get("$patch")) != "replace":
            merge(mapping(target[key]), value, strategic, depth + 1)
        elif strategic and key in _KEYS and isinstance(value, Seq) and isinstance(target.get(key), Seq):
            _merge_list(items(target[key]), value, _KEYS[key], depth)
        else:
            target.set(key, _copy(value, 0), line)


def _merge_list(target: Seq, patch: Seq, key: str, depth: int) -> None:
    if any(isinstance(e, Map) and text(e.get("$patch")) == "replace" for e in patch):
        target[:] = [e for e in patch if not (isinstance(e, Map) and "$patch" in e)]
        return
    for entry in patch:
        label = text(dig(entry, key))
        index = next((i for i, e in enumerate(target) if label is not None and text(dig(e, key)) == label), None)
        if index is None:
            target.append(_copy(entry, 0))
        elif isinstance(entry, Map) and text(entry.get("$patch")) == "delete":
            del target[index]
        elif isinstance(entry, Map):
            merge(mapping(target[index]), entry, True, depth + 1)


def json_patch(document: Map, operation: Map) -> None:
    """One RFC 6902 operation: add, replace, remove; copy and move are read as add."""
    name, pointer = text(operation.get("op")), text(operation.get("path")) or ""
    parts = [p.replace("~1", "/").replace("~0", "~") for p in pointer.split("/")[1:]]
    value = operation.get("value")
    if name in ("copy", "move"):
        source = [p.replace("~1", "/").replace("~0", "~") for p in (text(operation.get("from")) or "").split("/")[1:]]
        value = _at(document, source)
        if name == "move":
            _change(document, source, None, "remove")
        name = "add"
    if parts and name in ("add", "replace", "remove"):
        _change(document, parts, _copy(value, 0), name, operation.lines.get("value", operation.line))


def _step(node: Node, part: str) -> Node:
    if isinstance(node, Map):
        return node.get(part)
    if isinstance(node, Seq) and part.isdigit() and int(part) < len(node):
        return node[int(part)]
    return None


def _at(node: Node, parts: Iterable[str]) -> Node:
    for part in parts:
        node = _step(node, part)
    return node


def _change(document: Map, parts: list[str], value: Node, name: str, line: int = 1) -> None:
    owner, last = _at(document, parts[:-1]), parts[-1]
    if isinstance(owner, Map):
        if name == "remove":
            owner.pop(last, None)
        else:
            owner.set(last, value, line)
    elif isinstance(owner, Seq):
        if last == "-" and name == "add":
            owner.append(value)
        elif last.isdigit() and int(last) <= len(owner):
            index = int(last)
            if name == "add":
                owner.insert(index, value)
            elif index < len(owner):
                if name == "remove":
                    del owner[index]
                else:
                    owner[index] = value


def _field_parts(path: str) -> list[str]:
    return [p.replace("\0", ".") for p in path.replace("\\.", "\0").split(".") if p]


def _at_path(document: Map, parts: list[str]) -> list[Node]:
    """The nodes at a field path: keys, indices, ``*`` and ``[name=x]``."""
    nodes: list[Node] = [document]
    for part in parts:
        following: list[Node] = []
        for node in nodes:
            keyed = re.fullmatch(r"\[(\w+)=(.*)\]", part)
            if part == "*" and isinstance(node, Seq):
                following += list(node)
            elif keyed and isinstance(node, Seq):
                following += [e for e in node if text(dig(e, keyed[1])) == keyed[2]]
            else:
                following.append(_step(node, part))
        nodes = following[:200]
    return nodes


def _set(document: Map, parts: list[str], value: Word | None) -> None:
    """Puts the value where the path leads to a scalar; without one the scalar becomes unknown."""
    for node in _at_path(document, parts[:-1]) if parts else []:
        key: str | int = parts[-1]
        if isinstance(node, Seq) and str(key).isdigit() and int(key) < len(node):
            before, key = node[int(key)], int(key)
        else:
            before = node.get(str(key)) if isinstance(node, Map) else None
        if not isinstance(before, Word):
            continue
        made = value or dataclasses.replace(before, text=mark("replacement", "not-rendered"))
        if isinstance(node, Seq):
            node[int(key)] = made
        elif isinstance(node, Map):
            node.set(str(key), made, made.line)


def _image(node: Node, entry: Map, depth: int = 0) -> None:
    """``images:`` of a kustomization: the tag's line wins."""
    wanted = text(entry.get("name"))
    if depth > 100 or not wanted:
        return
    if isinstance(node, Map):
        image = node.get("image")
        if isinstance(image, Word) and image.text and _repository(image.text) == wanted:
            node["image"] = _replaced(image, entry)
        for value in node.values():
            _image(value, entry, depth + 1)
    elif isinstance(node, Seq):
        for value in node:
            _image(value, entry, depth + 1)


def _repository(image: str) -> str:
    bare = image.partition("@")[0]
    head, slash, tail = bare.rpartition("/")
    return head + slash + tail.partition(":")[0]


def _replaced(image: Word, entry: Map) -> Word:
    name, tag, digest = (entry.get(k) for k in ("newName", "newTag", "digest"))
    base = text(name) or _repository(image.text or "")
    rest = (image.text or "")[len(_repository(image.text or "")) :]
    source = next((w for w in (digest, tag, name) if isinstance(w, Word)), image)
    if text(digest):
        rest = "@" + (text(digest) or "")
    elif text(tag) is not None:
        rest = ":" + (text(tag) or "")
    return Word(base + rest, source.path, source.line)
