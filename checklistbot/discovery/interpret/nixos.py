"""What a Nix configuration starts."""

from __future__ import annotations

import dataclasses
import posixpath
import re
from collections.abc import Iterator
from typing import Final

from checklistbot.discovery.interpret.embed import Text
from checklistbot.discovery.interpret.marks import Place, settled, word
from checklistbot.discovery.interpret.nixlang import Applied, Attrs, Evaluator, NixError, Stop, Thunk
from checklistbot.discovery.interpret.pyvalues import Const, Seq, Unk, Value
from checklistbot.discovery.limits import gave_up
from checklistbot.discovery.tree import Tree
from checklistbot.engines.base import Launch, Word
from checklistbot.lazy import pattern

MAX_DEPTH: Final = 24
_DEVICE = pattern(r"(?:nvidia\.com/gpu=|--gpus[= ]\"?device=)(\S+)")
_SKIP: Final = frozenset({"options", "meta", "description", "example", "default", "type"})


def find(tree: Tree, path: str, text: str) -> list[Launch]:
    """The launches of one Nix file."""
    machine = Evaluator(tree, path)
    machine.assumes = re.search(r"\bmk(?:Enable|Package)?Option\b", text) is None
    try:
        value = machine.open_module(machine.file(path, text))
        found = list(_Walk(tree, machine, path).walk(value, "", (path, 1), 0))
    except (Stop, RecursionError):
        gave_up()
        return []
    except NixError:
        return []
    return list({(f.path, f.line, f.argv, f.name): f for f in found}.values())


class _Walk:
    def __init__(self, tree: Tree, machine: Evaluator, path: str) -> None:
        self.tree, self.machine, self.path = tree, machine, path

    def walk(self, value: Value, name: str, at: Place, depth: int) -> Iterator[Launch]:
        """Containers, services and scripts anywhere below; option declarations are not looked into."""
        if depth > MAX_DEPTH:
            return
        if isinstance(value, Attrs):
            if self._off(value):
                return
            special = self._special(value, name, at)
            if special is not None:
                yield from special
                return
            for key, child in value.data.items():
                if key not in _SKIP:
                    place = (child.path, child.line) if isinstance(child, Thunk) else child.at
                    yield from self.walk(
                        self.machine.force(child), key if not _is_container_word(key) else name, place, depth + 1
                    )
        elif isinstance(value, Seq):
            if value.data and all(isinstance(v, (Const, Unk)) for v in value.data):
                yield from self._argv(value, name, at)
            else:
                for item in value.data:
                    yield from self.walk(item, name, item.at, depth + 1)
        elif isinstance(value, Applied) and value.name.rsplit(".", 1)[-1] not in (
            "mkOption",
            "mkEnableOption",
            "mkPackageOption",
        ):
            for argument in value.args:
                inner = self.machine.open_module(self.machine.force(argument))
                yield from self.walk(inner, name, at, depth + 1)
        elif isinstance(value, Const) and isinstance(value.value, str) and " " in value.value:
            yield from self._script(value, Launch((), *at, name or "nix", format="nix"))

    def get(self, value: Value, *keys: str) -> Value | None:
        for key in keys:
            if not isinstance(value, Attrs) or key not in value.data:
                return None
            value = self.machine.force(value.data[key])
        return value

    def _off(self, value: Attrs) -> bool:
        enable = self.get(value, "enable")
        return isinstance(enable, Const) and enable.value is False

    def _special(self, value: Attrs, name: str, at: Place) -> Iterator[Launch] | None:
        image = self.get(value, "image")
        if isinstance(image, (Const, Unk)) and (
            "cmd" in value.data or "entrypoint" in value.data or "environment" in value.data
        ):
            return self._container(value, image, name, at)
        if self.get(value, "serviceConfig", "ExecStart") is not None or (
            "script" in value.data and "wantedBy" in value.data
        ):
            return self._service(value, name)
        if "Cmd" in value.data or "Entrypoint" in value.data:
            return self._image(value, name, at)
        if self.get(value, "enable") is not None and name == "llama-cpp":
            return self._llama(value, name, at)
        if self.get(value, "enable") is not None and name == "ollama":
            return iter(
                [
                    Launch(
                        (word("ollama", at), word("serve", at)),
                        *at,
                        name,
                        env=self._env(value, "environmentVariables"),
                        format="nix",
                    )
                ]
            )
        return None

    def _words(self, value: Value | None) -> list[Word]:
        items = value.data if isinstance(value, Seq) else [value] if isinstance(value, (Const, Unk)) else []
        return [
            dataclasses.replace(word(self.machine.text(v), v.at), starts=v.starts if isinstance(v, Const) else ())
            for v in items
        ]

    def _env(self, value: Value, key: str) -> dict[str, Word]:
        inner = self.get(value, key)
        if not isinstance(inner, Attrs):
            return {}
        forced = {k: self.machine.force(v) for k, v in inner.data.items()}
        return {k: settled(self.machine.text(v), v.at) for k, v in forced.items()}

    def _argv(self, value: Seq, name: str, at: Place) -> Iterator[Launch]:
        from checklistbot.discovery.launches import expand

        yield from expand(Launch((), *at, name or "nix", format="nix"), self._words(value), self.tree)

    def _container(self, value: Attrs, image: Value, name: str, at: Place) -> Iterator[Launch]:
        from checklistbot.discovery.launches import expand

        options = self._words(self.get(value, "extraOptions"))
        template = Launch(
            (), *at, name or "container", env=self._env(value, "environment"), image=settled(self.machine.text(image), image.at),
            gpu_count=_devices(options), format="nix",
        )  # fmt: skip
        words = self._words(self.get(value, "entrypoint")) + self._words(self.get(value, "cmd"))
        for launch in expand(template, words, self.tree):
            yield dataclasses.replace(launch, path=at[0], line=at[1])

    def _service(self, value: Attrs, name: str) -> Iterator[Launch]:
        start = self.get(value, "serviceConfig", "ExecStart") or self.get(value, "script")
        env = self._env(value, "environment")
        for entry in start.data if isinstance(start, Seq) else [start]:
            if isinstance(entry, Attrs):
                entry = self.get(entry, "text")
            if isinstance(entry, Const):
                yield from self._script(entry, Launch((), *entry.at, name or "service", env=env, format="nix"))

    def _script(self, value: Const, template: Launch) -> Iterator[Launch]:
        from checklistbot.discovery.launches import run_shell

        if isinstance(value.value, str) and value.value.strip():
            yield from run_shell(template, Text(value.value, value.at, value.starts).word(), self.tree)

    def _image(self, value: Attrs, name: str, at: Place) -> Iterator[Launch]:
        from checklistbot.discovery.launches import expand

        env = {}
        for entry in self._words(self.get(value, "Env")):
            key, equals, content = (entry.text or "").partition("=")
            if equals:
                env[key] = dataclasses.replace(entry, text=content)
        words = self._words(self.get(value, "Entrypoint")) + self._words(self.get(value, "Cmd"))
        yield from expand(
            Launch((), *at, name or posixpath.basename(self.path), env=env, format="nix"), words, self.tree
        )

    def _llama(self, value: Attrs, name: str, at: Place) -> Iterator[Launch]:
        """NixOS' own module: ``model``, ``host``, ``port``, ``extraFlags``."""
        argv = [word("llama-server", at)]
        for key, flag in (("model", "-m"), ("port", "--port")):
            given = self.get(value, key)
            if given is not None and not (isinstance(given, Const) and given.value is None):
                argv += [word(flag, given.at), word(self.machine.text(given), given.at)]
        argv += self._words(self.get(value, "extraFlags"))
        from checklistbot.discovery.launches import expand

        yield from expand(Launch((), *at, name, format="nix"), argv, self.tree)


def _is_container_word(key: str) -> bool:
    return key in ("serviceConfig", "config", "script", "exec", "command", "text", "cmd", "args")


def _devices(options: list[Word]) -> Word | None:
    found = []
    for option in options:
        match = _DEVICE.search(option.text or "")
        if match is not None:
            names = [d for d in match[1].strip("\"'").split(",") if d]
            if "all" in names:
                return None
            found += [dataclasses.replace(option, text=n) for n in names]
    return dataclasses.replace(found[0], text=str(len(found))) if found else None
