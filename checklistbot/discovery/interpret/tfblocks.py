"""Terraform's and Nomad's blocks as launches."""

from __future__ import annotations

import dataclasses
import posixpath
import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Final

from checklistbot.discovery.interpret import embed, hcl, listing, sagemaker
from checklistbot.discovery.interpret.hcleval import Module, Stop, assumed_of, number_of, text_of
from checklistbot.discovery.interpret.marks import settled, without_marks, word
from checklistbot.discovery.interpret.pyvalues import Const, Map, Seq, Unk, Value
from checklistbot.discovery.limits import gave_up
from checklistbot.discovery.tree import Tree, Unreadable
from checklistbot.engines.base import Launch, Word
from checklistbot.lazy import pattern

MAX_FILES: Final = 200
MAX_CALLERS: Final = 20
_REPLICAS: Final = (
    "replicas",
    "desired_count",
    "desired_capacity",
    "target_size",
    "initial_instance_count",
    "instance_count",
    "node_count",
)
_MACHINE: Final = ("instance_type", "machine_type", "size", "vm_size", "flavor_name", "instance_types")
_COMMAND: Final = ("entry_point", "entryPoint", "entrypoint", "command", "args", "arguments")
_GPU_KEY = pattern(r"(?:nvidia\.com|amd\.com|habana\.ai|google\.com|gpu\.intel\.com|aws\.amazon\.com)/")


def find(tree: Tree, path: str, text: str) -> list[Launch]:
    """The launches of one file, evaluated with its whole folder; once for each module block that calls the folder."""
    folder = posixpath.dirname(path)
    try:
        found: list[Launch] = []
        for qualifier, given in _callers(tree, folder) or [(None, {})]:
            module = load(tree, folder, path, text)
            module.given.update(given)
            found += _module_launches(tree, module, path, qualifier)
        return found
    except (Stop, RecursionError):
        gave_up()
        return []


def load(tree: Tree, folder: str, path: str, text: str) -> Module:
    """The folder's variables, locals and blocks."""
    module = Module(tree, folder)
    module.add(path, hcl.parse(without_marks(text)))
    for other in _files(tree, folder, (".tf", ".tofu")):
        if other != path:
            module.add(other, hcl.parse(_read(tree, other)))
    for name in _files(tree, folder, (".tfvars",)):
        if posixpath.basename(name) == "terraform.tfvars" or name.endswith(".auto.tfvars"):
            for key, expr in hcl.parse(_read(tree, name)).attributes.items():
                module.given[key] = module.eval(expr, name, {})
    return module


def _files(tree: Tree, folder: str, endings: tuple[str, ...]) -> list[str]:
    return list(islice(listing.directly_in(tree, folder, endings), MAX_FILES))


def _read(tree: Tree, path: str) -> str:
    try:
        return without_marks(tree.read(path))
    except Unreadable:
        return ""


def _callers(tree: Tree, folder: str) -> list[tuple[str | None, dict[str, Value]]]:
    """Module blocks of the tree whose source is the folder: (name, inputs)."""
    if not folder:
        return []
    found: list[tuple[str | None, dict[str, Value]]] = []
    needle = posixpath.basename(folder)
    for other in listing.paths(tree):
        here = posixpath.dirname(other)
        if not other.endswith((".tf", ".tofu")) or here == folder:
            continue
        text = _read(tree, other)
        if "module" not in text or needle not in text:
            continue
        caller = load(tree, here, other, text)
        for path, block in caller.blocks:
            source = block.body.attributes.get("source")
            if block.type != "module" or path != other or source is None:
                continue
            where = text_of(caller.eval(source, path, {}))
            if where.startswith(".") and posixpath.normpath(posixpath.join(here, where)) == folder:
                inputs = {k: caller.eval(e, path, {}) for k, e in block.body.attributes.items() if k != "source"}
                found.append((block.labels[0] if block.labels else None, inputs))
                if len(found) >= MAX_CALLERS:
                    return found
    return found


def _mine(tree: Tree, module: Module, path: str) -> set[str]:
    """The file itself, and of its folder the files without an engine word, which no one else reads; the first candidate has them."""
    from checklistbot.engines import registry

    words = [w for engine in registry().values() for w in engine.words]
    files = sorted({p for p, _ in module.blocks} | {path})
    holding = [p for p in files if any(w in _read(tree, p).encode() for w in words)]
    return {path, *(p for p in files if p not in holding)} if holding and holding[0] == path else {path}


def _module_launches(tree: Tree, module: Module, path: str, qualifier: str | None) -> list[Launch]:
    mine = _mine(tree, module, path)
    found: list[Launch] = []
    for home, block in module.blocks:
        if home in mine and block.type in ("resource", "job", "data"):
            for launch in Resource(tree, module, home, block, qualifier).launches():
                found.append(launch)
    return found


class Resource:
    """One block with what it says around its containers and scripts."""

    def __init__(self, tree: Tree, module: Module, path: str, block: hcl.Block, qualifier: str | None) -> None:
        self.tree, self.module, self.path, self.block = tree, module, path, block
        self.qualifier = qualifier
        self.label = block.labels[-1] if block.labels else block.type
        self.type = block.labels[0] if len(block.labels) > 1 else block.type

    def launches(self) -> Iterator[Launch]:
        for key, scope in self._instances():
            value = self._body(self.block.body, scope)
            template = self._template(value, key)
            yield from self._walk(value, template, 0)

    def _instances(self) -> Iterator[tuple[str | None, dict[str, Value]]]:
        attributes = self.block.body.attributes
        if "count" in attributes and assumed_of(self.module.eval(attributes["count"], self.path, {})) == 0:
            return
        if "for_each" not in attributes:
            yield None, {"count": Map((self.path, self.block.line), {"index": Const((self.path, self.block.line), 0)})}
            return
        source = self.module.eval(attributes["for_each"], self.path, {})
        pairs: Iterable[tuple[Any, Value]] = source.data.items() if isinstance(source, Map) else ()
        if isinstance(source, Seq):
            pairs = [(text_of(v), v) for v in source.data]
        if not isinstance(source, (Map, Seq)):
            unknown = Unk(source.at, getattr(source, "name", "each"))
            yield None, {"each": Map(source.at, {"key": unknown, "value": unknown})}
        for key, value in list(pairs)[:200]:
            yield str(key), {"each": Map(value.at, {"key": Const(value.at, str(key)), "value": value})}

    def _body(self, body: hcl.Body, scope: dict[str, Value], depth: int = 0) -> Map:
        """Attributes and nested blocks as one map; blocks of one type are a list."""
        at = (self.path, self.block.line)
        found = Map(at, {k: self.module.eval(e, self.path, scope) for k, e in body.attributes.items()})
        for block in body.blocks:
            if depth > 20:
                break
            name, contents = block.type, [self._body(block.body, scope, depth + 1)]
            if block.type == "dynamic" and block.labels:
                name, contents = block.labels[0], self._dynamic(block, scope, depth)
            for content in contents:
                content.at = (self.path, block.line)
                if block.labels and block.type != "dynamic":
                    content.data["__label__"] = Const(content.at, block.labels[0])
                known = found.data.get(name)
                entries = known.data if isinstance(known, Seq) else []
                found.data[name] = Seq(content.at, [*entries, content])
        return found

    def _dynamic(self, block: hcl.Block, scope: dict[str, Value], depth: int) -> list[Map]:
        attributes = block.body.attributes
        source = self.module.eval(attributes["for_each"], self.path, scope) if "for_each" in attributes else None
        content = next((b for b in block.body.blocks if b.type == "content"), None)
        if content is None or not isinstance(source, (Seq, Map)):
            return []
        iterator = attributes.get("iterator")
        name = iterator.parts[0] if iterator is not None and iterator.kind == "name" else block.labels[0]
        pairs = source.data.items() if isinstance(source, Map) else enumerate(source.data)
        rows = []
        for key, value in list(pairs)[:100]:
            each = Map(value.at, {"key": Const(value.at, key), "value": value})
            rows.append(self._body(content.body, {**scope, name: each}, depth + 1))
        return rows

    # --- surroundings ---------------------------------------------------------------------------------------------------

    def _template(self, value: Map, key: str | None) -> Launch:
        referring = self._referring()
        replicas = self._first(_REPLICAS, [value, *referring]) or self._count()
        machine = self._first(_MACHINE, [value, *referring])
        accelerator = _accelerator(value)
        return Launch(
            (),
            self.path,
            self.block.line,
            self.label,
            qualifier=key or self.qualifier,
            replicas=replicas,
            gpu=accelerator[0] or machine,
            gpu_count=accelerator[1],
            format="terraform",
        )

    def _count(self) -> Word | None:
        count = self.block.body.attributes.get("count")
        value = self.module.eval(count, self.path, {}) if count is not None else None
        known = value is not None and count is not None and count.kind != "if"
        return settled(text_of(value), value.at) if known and value is not None else None

    def _referring(self) -> list[Map]:
        """Bodies of other blocks that name this one: services of a task, groups of a template, variants of a model."""
        address = f"{self.type}.{self.label}"
        found = []
        for path, block in self.module.blocks:
            if block is not self.block and block.type == "resource" and _mentions(block.body, self.type, self.label):
                other = Resource(self.tree, self.module, path, block, None)
                found += _flat_maps(other._body(block.body, {}))
        return found if address else []

    def _first(self, names: Iterable[str], maps: list[Map]) -> Word | None:
        for entry in maps:
            for name in names:
                value = entry.data.get(name)
                if isinstance(value, Seq) and value.data and not isinstance(value.data[0], Map):
                    value = value.data[0]
                if isinstance(value, (Const, Unk)) and not (isinstance(value, Const) and value.value in (None, "")):
                    return settled(text_of(value), value.at)
        return None

    # --- containers and scripts --------------------------------------------------------------------------------------------

    def _walk(self, value: Value, template: Launch, depth: int) -> Iterator[Launch]:
        if depth > 20:
            return
        if isinstance(value, Map):
            template = self._narrowed(value, template)
            if "image" in value.data and not isinstance(value.data["image"], (Map, Seq)):
                yield from self._container(value, template, template)
                return
            if self.type == "aws_sagemaker_model":
                yield from self._sagemaker(value, template)
                return
            if self.type == "helm_release" and depth == 0:
                yield from self._helm(value)
                return
            config = value.data.get("config")
            if (
                isinstance(config, Seq)
                and config.data
                and isinstance(config.data[0], Map)
                and "image" in config.data[0].data
            ):
                merged = Map(config.data[0].at, {**value.data, **config.data[0].data})
                yield from self._container(merged, self._narrowed(value, template), template)
                return
            for child in value.data.values():
                yield from self._walk(child, template, depth + 1)
        elif isinstance(value, Seq):
            if value.data and all(isinstance(v, (Const, Unk)) for v in value.data):
                yield from self._list(value, template)
            else:
                for child in value.data:
                    yield from self._walk(child, template, depth + 1)
        elif isinstance(value, Const) and isinstance(value.value, str):
            yield from self._string(value, template)

    def _narrowed(self, value: Map, template: Launch) -> Launch:
        replicas = self._first(("replicas",), [value])
        count = value.data.get("count")
        if self.block.type == "job" and count is not None:
            replicas = settled(text_of(count), count.at)
        gpu, gpus = _accelerator(value)
        return dataclasses.replace(
            template,
            replicas=replicas or template.replicas,
            gpu=gpu or template.gpu,
            gpu_count=gpus or template.gpu_count,
        )

    def _string(self, value: Const, template: Launch) -> Iterator[Launch]:
        text = str(value.value)
        if value.origin is not None:
            yield from self._walk(value.origin, template, 1)
            return
        if len(text) < 12 or not re.search(r"\s", text):
            return
        if text.lstrip()[:1] in "[{" and '"image"' in text:
            loaded = embed.Text(text, value.at, value.starts).structure()
            if loaded is not None:
                yield from self._walk(loaded, template, 1)
            return
        place = dataclasses.replace(template, line=value.at[1], path=value.at[0])
        yield from embed.launches_of(self.tree, place, embed.Text(text, value.at, value.starts))

    def _list(self, value: Seq, template: Launch) -> Iterator[Launch]:
        """A list of strings: an argv, or the lines of a remote-exec provisioner."""
        from checklistbot.discovery.launches import expand

        found = list(expand(template, self._words(value), self.tree))
        if not found:
            for item in value.data:
                if isinstance(item, Const):
                    found += list(self._string(item, template))
        yield from found

    def _words(self, value: Value | None) -> list[Word]:
        items = value.data if isinstance(value, Seq) else [value] if isinstance(value, (Const, Unk)) else []
        return [
            dataclasses.replace(word(text_of(v), v.at), starts=v.starts if isinstance(v, Const) else ())
            for v in items
            if isinstance(v, (Const, Unk)) and not (isinstance(v, Const) and v.value is None)
        ]

    def _container(self, value: Map, template: Launch, outer: Launch) -> Iterator[Launch]:
        from checklistbot.discovery.launches import expand

        image = value.data["image"]
        gpu, gpus = _accelerator(value)
        title = value.data.get("name") or value.data.get("__label__")
        named = text_of(title) if isinstance(title, Const) and title.value else None
        template = dataclasses.replace(
            template,
            image=settled(text_of(image), image.at),
            env={**template.env, **_environment(value)},
            gpu=gpu or template.gpu,
            gpu_count=gpus or template.gpu_count,
            qualifier=template.qualifier or (named if named != template.name else None),
            # The image may be written elsewhere (a variable's default): the launch is where the container is.
            path=image.at[0] if image.at[0] == self.path else value.at[0],
            line=image.at[1] if image.at[0] == self.path else value.at[1],
        )
        words = [w for key in _COMMAND for w in self._words(value.data.get(key))]
        yield from expand(template, words, self.tree)

    def _sagemaker(self, value: Map, template: Launch) -> Iterator[Launch]:
        for entry in _flat_maps(value):
            image = entry.data.get("image")
            env = _environment(entry)
            if env:
                found = settled(text_of(image), image.at) if isinstance(image, (Const, Unk)) else None
                place = dataclasses.replace(template, path=entry.at[0], line=entry.at[1])
                launch = sagemaker.launch_of(place, env, found)
                if launch is not None:
                    yield launch

    def _helm(self, value: Map) -> Iterator[Launch]:
        """``helm_release``: values as text, and ``set`` blocks, of a chart in the tree or of a chart whose values are known."""
        from checklistbot.discovery.interpret import releases

        values = value.data.get("values")
        texts = [v for v in (values.data if isinstance(values, Seq) else []) if isinstance(v, Const)]
        sets = value.data.get("set")
        pairs = []
        for entry in sets.data if isinstance(sets, Seq) else []:
            if isinstance(entry, Map) and "name" in entry.data and "value" in entry.data:
                pairs.append(
                    (text_of(entry.data["name"]), settled(text_of(entry.data["value"]), entry.data["value"].at))
                )
        chart = value.data.get("chart")
        name = value.data.get("name")
        yield from releases.terraform_release(
            self.tree,
            self.path,
            text_of(name) if name is not None else self.label,
            text_of(chart) if isinstance(chart, Const) else None,
            [embed.Text(str(t.value), t.at, t.starts, t.origin) for t in texts],
            pairs,
        )


def _mentions(body: hcl.Body, kind: str, label: str) -> bool:
    """True if an expression of the body refers to ``kind.label``."""

    def inside(node: Any, depth: int = 0) -> bool:
        if depth > 40:
            return False
        if isinstance(node, hcl.Expr):
            if node.kind == "get" and node.parts[0].kind == "name" and node.parts[0].parts[0] == kind:
                return bool(node.parts[1].parts[:1] == (label,))
            return any(inside(part, depth + 1) for part in node.parts)
        return isinstance(node, (list, tuple)) and any(inside(part, depth + 1) for part in node)

    return any(map(inside, body.attributes.values())) or any(_mentions(b.body, kind, label) for b in body.blocks)


def _flat_maps(value: Value, depth: int = 0) -> list[Map]:
    found = [value] if isinstance(value, Map) else []
    if depth < 12:
        for child in value.data.values() if isinstance(value, Map) else value.data if isinstance(value, Seq) else ():
            found += _flat_maps(child, depth + 1)
    return found


def _environment(value: Map) -> dict[str, Word]:
    """``env`` as blocks or objects with name and value, as a map, or as ``NAME=value`` strings."""
    found: dict[str, Word] = {}
    for key in ("env", "environment", "environment_variables"):
        entry = value.data.get(key)
        entries = entry.data if isinstance(entry, Seq) else [entry] if isinstance(entry, Map) else []
        for item in entries:
            if isinstance(item, Map) and "name" in item.data:
                content = item.data.get("value")
                if isinstance(content, (Const, Unk)):
                    found[text_of(item.data["name"])] = settled(text_of(content), content.at)
            elif isinstance(item, Map):
                pairs = {k: v for k, v in item.data.items() if isinstance(v, (Const, Unk)) and k != "__label__"}
                found.update({str(k): settled(text_of(v), v.at) for k, v in pairs.items()})
            elif isinstance(item, Const) and "=" in str(item.value):
                name, _, content_text = str(item.value).partition("=")
                found[name] = settled(content_text, item.at)
    return found


def _accelerator(value: Map) -> tuple[Word | None, Word | None]:
    """(type, count) from guest accelerators, resource requirements, limits and Nomad devices of this very map."""
    gpu: Word | None = None
    count: Word | None = None
    for entry in _entries(value.data.get("guest_accelerator")):
        kind, number = entry.data.get("type"), entry.data.get("count")
        gpu = settled(text_of(kind), kind.at) if kind is not None else gpu
        count = settled(text_of(number), number.at) if number is not None else count
    for key in ("resourceRequirements", "resource_requirements"):
        for entry in _entries(value.data.get(key)):
            kind, number = entry.data.get("type"), entry.data.get("value")
            if kind is not None and text_of(kind).upper() == "GPU" and number is not None:
                count = settled(text_of(number), number.at)
    for entry in _entries(value.data.get("resources")):
        for name in ("limits", "requests"):
            for limits in _entries(entry.data.get(name)):
                hit = next((v for k, v in limits.data.items() if _GPU_KEY.match(str(k))), None)
                count = count or (settled(text_of(hit), hit.at) if hit is not None else None)
        for device in _entries(entry.data.get("device")):
            number = device.data.get("count")
            count = settled(text_of(number), number.at) if number is not None else settled("1", device.at)
    selector = value.data.get("node_selector")
    for entry in _entries(selector):
        hit = next((v for k, v in entry.data.items() if re.search(r"accelerator|gpu\.product|gpu-type", str(k))), None)
        gpu = settled(text_of(hit), hit.at) if isinstance(hit, (Const, Unk)) else gpu
    gpus = value.data.get("gpus")
    if isinstance(gpus, Const) and number_of(gpus) is not None:
        count = settled(text_of(gpus), gpus.at)
    return gpu, count


def _entries(value: Value | None) -> list[Map]:
    if isinstance(value, Map):
        return [value]
    return [v for v in value.data if isinstance(v, Map)] if isinstance(value, Seq) else []
