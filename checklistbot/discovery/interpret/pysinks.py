"""The calls of a Python file that start an engine server, as launches."""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import posixpath
import re
from typing import Final

from checklistbot.discovery.interpret import platforms, pyengines, pyimports
from checklistbot.discovery.interpret.marks import Place, has_mark, settled, without_marks, word
from checklistbot.discovery.interpret.pymachine import DEPTH, STEPS, Call, Exhausted, Leave, Machine
from checklistbot.discovery.interpret.pyvalues import Cls, Const, Func, Inst, Map, Obj, Seq, Unk, Value
from checklistbot.discovery.limits import gave_up
from checklistbot.discovery.tree import Tree, Unreadable
from checklistbot.engines import base
from checklistbot.engines.base import Launch, Word
from checklistbot.lazy import pattern as lazy_pattern

MAX_TEXT: Final = 2_000_000
MAX_FOUND: Final = 100
_ARGV: Final = frozenset(
    {
        "subprocess.run",
        "subprocess.Popen",
        "subprocess.call",
        "subprocess.check_call",
        "subprocess.check_output",
        "os.posix_spawn",
        "asyncio.create_subprocess_exec",
        "psutil.Popen",
        "trio.run_process",
        "anyio.open_process",
        "anyio.run_process",
    }
)
_SHELL: Final = frozenset(
    {
        "os.system",
        "os.popen",
        "subprocess.getoutput",
        "subprocess.getstatusoutput",
        "asyncio.create_subprocess_shell",
        "get_ipython.system",
        "sglang.utils.launch_server_cmd",
        "sglang.utils.execute_shell_command",
        "pexpect.spawn",
        "commands.getoutput",
    }
)
_EXEC = lazy_pattern(r"os\.(?:exec|spawn)([lv])(p?)(e?)$")
#: A call of something unknown that is handed a command counts if its name begins like one of these.
_VERB = lazy_pattern(
    r"(?:^|[._])(?:run|exec|execute|launch|start|spawn|submit|popen|serve|system|sudo|check_call|call)(?:_\w+)?$",
    re.IGNORECASE,
)
#: What a file that starts something holds somewhere: a way to run a command, an engine's class, a platform that makes a server of it.
#: Without one a file can only hand words to a helper; it gets few steps, and says nothing when they run out.
_STARTER = lazy_pattern(
    r"subprocess|os\.(?:system|popen|exec|spawn|posix_spawn)|[Pp]open|getoutput|get_ipython|launch_server|execute_shell|pexpect"
    r"|LLM\(|Engine\(|ServerArgs|EngineArgs|Llama\(|LLMConfig|HuggingFaceModel|docker\.|paramiko|\.serve\(|@modal|\.remote\(|\.options\("
)
_MODEL_FLAGS: Final = frozenset(
    {"--model", "--model-path", "--model_path", "-m", "--model-id", "--model-tag", "--model_name_or_path"}
)


#: What a file that holds a command for others to run has somewhere: the command's verb, the server's name, its image or an engine's class.
_COMMAND = lazy_pattern(r"serv|launch|entrypoint|image|docker|Engine|LLM\(|Args\(|Config\(|--\w")


def find(tree: Tree, path: str, text: str) -> list[Launch]:
    """The launches of a Python file, or of the files that import it where it only holds the builders."""
    found = Finder(tree, path).run_text(text)
    return found or _through_importers(tree, path, text)


def _through_importers(tree: Tree, path: str, text: str) -> list[Launch]:
    """A module that defines a command and starts nothing is used by another file that may hold no engine word itself."""
    stem = pyimports.module_name(path)
    if not _COMMAND.search(text) or not stem.isidentifier():
        return []
    found: list[Launch] = []
    pattern = re.compile(
        rf"^\s*(?:from\s+[\w.]*\b{stem}\s+import|import\s+[\w.]*\b{stem}\b|from\s+[\w.]+\s+import\s+.*\b{stem}\b)",
        re.MULTILINE,
    )
    for other in pyimports.users(tree, stem, path):
        try:
            content = tree.read(other)
        except Unreadable:
            continue
        if pattern.search(content) and not _holds_engine_word(content):
            found += [launch for launch in Finder(tree, other).run_text(content) if _from_file(launch, path)]
    return found


def _holds_engine_word(text: str) -> bool:
    """True if the file is a candidate of its own and is read anyway."""
    from checklistbot.engines import registry

    raw = text.encode("utf-8", "replace")
    return any(word in raw for engine in registry().values() for word in engine.words)


def _mentioned(node: ast.AST) -> set[str]:
    """The names and attributes that stand in a piece of code. ``ast.walk`` does the same in three times the time."""
    found: set[str] = set()
    left = [node]
    while left:
        node = left.pop()
        if isinstance(node, ast.Name):
            found.add(node.id)
            continue
        if isinstance(node, ast.Attribute):
            found.add(node.attr)
        for value in vars(node).values():
            if isinstance(value, ast.AST):
                left.append(value)
            elif isinstance(value, list):
                left += [item for item in value if isinstance(item, ast.AST)]
    return found


def _from_file(launch: Launch, path: str) -> bool:
    return any(w.path == path for w in launch.argv)


class Finder:
    """One entry file's launches."""

    def __init__(self, tree: Tree, path: str) -> None:
        self.tree = tree
        self.path = path
        self.machine = Machine(tree, path, self.hook)
        self.found: list[Launch] = []
        #: Shell escapes of a notebook: text, place, and the line of each of its lines.
        self.cells: list[tuple[str, Place]] = []
        self.cell_lines: list[list[int]] = []
        self.header = ""
        self.starter = True
        self._instances: dict[int, Value] = {}
        self._made: list[tuple[Obj, Launch]] = []

    def run_text(self, text: str) -> list[Launch]:
        if len(text) > MAX_TEXT:
            gave_up()
            return []
        try:
            body = ast.parse(without_marks(text)).body
        except (RecursionError, MemoryError):
            gave_up()
            return []
        except (SyntaxError, ValueError):
            return []
        self.header = text[:4_000]
        self.starter = _STARTER.search(text) is not None
        return self.run(body)

    def run(self, body: list[ast.stmt]) -> list[Launch]:
        machine = self.machine
        machine.grant(STEPS if self.starter else 0)
        try:
            machine.run_entry(body)
            self._run_unreached()
        except (Exhausted, RecursionError):
            if self.starter:
                gave_up()
        finally:
            machine.settle()
        return [launch for launch in self.found if not self._is_library(launch)]

    # --- functions that nothing calls -----------------------------------------------------------------------------------

    def _run_unreached(self) -> None:
        """Functions and methods that the platform calls (Modal, FastAPI, Truss, a console script), outermost first."""
        own = [f for f in self.machine.functions if f.path == self.path]
        # Of one function there is no order, and the walk costs as much as the run.
        mentioned = set().union(*(_mentioned(func.node) for func in own)) if len(own) > 1 else set()
        for func in sorted(own, key=lambda f: f.name in mentioned):
            if id(func.node) not in self.machine.reached and func.name != "__init__":
                self._run_function(func)
        # A class that a platform makes (``@bentoml.service``) may have nothing but a constructor.
        for owner in [f.owner for f in own if f.name == "__init__" and f.owner is not None and f.owner.decorators]:
            self._instance(owner)
        self._run_inner(len(own))

    def _run_inner(self, seen: int) -> None:
        """Functions that a function defines and hands to a platform (a web application's start-up event, a thread)."""
        while len(own := [f for f in self.machine.functions if f.path == self.path]) > seen:
            later, seen = own[seen:], len(own)
            for func in later:
                if id(func.node) not in self.machine.reached and func.name != "__init__":
                    self._run_function(func)

    def _run_function(self, func: Func) -> None:
        machine = self.machine
        args: list[Value] = []
        try:
            if func.owner is not None and not _is_static(func):
                args = [func.owner] if _is_classmethod(func) else [self._instance(func.owner)]
            kwargs = _cli(machine, func)
            value = machine.call_function(func, args, kwargs, func.at)
        except Leave:
            return
        if func.name == "__command__":
            self._argv(value, value.at, {}, func.name, func)

    def _instance(self, cls: Cls) -> Value:
        """An instance as the platform makes it; a Truss model is given its config."""
        from checklistbot.discovery.interpret import pylibrary

        if id(cls) not in self._instances:
            kwargs: dict[str, Value] = {}
            config = platforms.truss_config(self.tree, self.path)
            if config is not None and cls.name == "Model":
                kwargs = {"config": config, "secrets": Map(cls.at, {}, open=True), "data_dir": Const(cls.at, "data")}
                init = pylibrary.class_attribute(self.machine, cls, "__init__")
                if isinstance(init, Func) and init.node.args.kwarg is None:
                    names = {a.arg for a in [*init.node.args.args, *init.node.args.kwonlyargs]}
                    kwargs = {k: v for k, v in kwargs.items() if k in names}
            self._instances[id(cls)] = Inst(cls.at, cls, {})
            with contextlib.suppress(Leave):
                self._instances[id(cls)] = pylibrary.instantiate(self.machine, cls, [], kwargs, cls.at)
        return self._instances[id(cls)]

    # --- sinks ----------------------------------------------------------------------------------------------------------

    def hook(self, machine: Machine, call: Call) -> Value | None:
        """Looks at each call of something outside the tree; gives a value where it knows what the call returns."""
        name = call.name
        if name == "__sh__" and call.args and isinstance(call.args[0], Const):
            self._cell(int(call.args[0].value), call)
            return Const(call.at, None)
        if self._command(name, call):
            return None
        made = pyengines.engine_call(machine, call)
        if made is not None:
            return self._engine(made, call)
        platforms_launch = platforms.python_call(self, call)
        if platforms_launch is not None:
            self._emit(platforms_launch)
        return platforms.python_value(self.machine, self.tree, self.path, call)

    def _command(self, name: str, call: Call) -> bool:
        """True if the call is one that runs a command."""
        execute = _EXEC.match(name)
        if execute is not None:
            self._exec(execute, call)
        elif name in _SHELL and call.args:
            self._shell(call.args[0], call)
        elif name in _ARGV:
            first = call.args[0] if call.args else call.kwargs.get("args")
            several = name.endswith(("create_subprocess_exec",)) or (
                len(call.args) > 1 and all(_texty(a) for a in call.args)
            )
            if several:
                first = Seq(call.at, call.args)
            if first is not None:
                self._either(
                    first, call, self.machine.truth(call.kwargs.get("shell", Const(call.at, False))) is not False
                )
        elif _VERB.search(name) and call.args:
            self._loose(call)
        else:
            return False
        return True

    def _exec(self, match: re.Match[str], call: Call) -> None:
        args = call.args[1:] if "spawn" in match[0] else call.args
        if len(args) < 2:
            return
        if match[1] == "v":
            self._either(args[1], call, False, args[2] if match[3] and len(args) > 2 else None)
        else:
            words = args[1:-1] if match[3] else args[1:]
            self._argv(Seq(call.at, words), call.at, self._env(args[-1] if match[3] else None))

    def _either(self, first: Value, call: Call, shell: bool, env: Value | None = None) -> None:
        words = self._env(env or call.kwargs.get("env"))
        if isinstance(first, Seq):
            self._argv(first, call.at, words)
        elif isinstance(first, Const) and isinstance(first.value, str):
            self._shell(first, call) if shell or " " in first.value else None

    def _loose(self, call: Call) -> None:
        """``runner.run(cmd)``, ``connection.run("…")``, ``client.containers.run(image, command)``."""
        if call.name.endswith("containers.run"):
            self._docker(call)
            return
        for value in [*call.args[:3], *(call.kwargs.get(k) for k in ("command", "cmd", "args"))]:
            if isinstance(value, Seq) and len(value.data) > 1:
                self._argv(value, call.at, self._env(call.kwargs.get("env")))
            elif isinstance(value, Const) and isinstance(value.value, str) and " " in value.value:
                self._shell(value, call)

    def _docker(self, call: Call) -> None:
        image = call.args[0] if call.args else call.kwargs.get("image")
        command = call.args[1] if len(call.args) > 1 else call.kwargs.get("command")
        if image is None:
            return
        words = self._words(command) if command is not None else []
        template = self.template(call.at, self._env(call.kwargs.get("environment")))
        self._expand(dataclasses.replace(template, image=self._word(image)), words)

    def _cell(self, index: int, call: Call) -> None:
        """A shell escape of a notebook: ``{expression}`` and ``$name`` are Python's."""
        from checklistbot.discovery.launches import engine_words

        if index < len(self.cells):
            text, place = self.cells[index]
            filled = "\n".join(self._interpolate(line) for line in text.split("\n"))
            if engine_words().search(filled) is None:
                return
            starts, offset = [], 0
            for line, number in zip(filled.split("\n"), self.cell_lines[index], strict=False):
                starts.append((offset, number))
                offset += len(line) + 1
            self._shell(Const(place, filled), call, tuple(starts))

    def _interpolate(self, text: str) -> str:
        def braces(match: re.Match[str]) -> str:
            try:
                node = ast.parse(match[1].strip(), mode="eval").body
            except (SyntaxError, ValueError):
                return match[0]
            value = self.machine.eval(node)
            return self.machine.text(value) if isinstance(value, (Const, Unk, Inst)) else match[0]

        def dollar(match: re.Match[str]) -> str:
            value = self.machine.lookup(match[1])
            return self.machine.text(value) if isinstance(value, Const) else match[0]

        text = re.sub(r"(?<![\\${])\{([A-Za-z_][^{}\n]{0,200})\}", braces, text)
        return re.sub(r"(?<![\\$])\$([A-Za-z_]\w*)", dollar, text)

    # --- words ----------------------------------------------------------------------------------------------------------

    def _word(self, value: Value) -> Word:
        return settled(self.machine.text(value), value.at)

    def _words(self, command: Value) -> list[Word]:
        """The words of an argv; marks stay in them until ``launches.expand`` settles them."""
        if isinstance(command, Const) and isinstance(command.value, str):
            from checklistbot.discovery.interpret.pylibrary import shell_words

            command = shell_words(self.machine, command)
        if isinstance(command, Seq):
            return [word(self.machine.text(v), v.at) for v in command.data]
        return []

    def _env(self, value: Value | None) -> dict[str, Word]:
        given = {k[4:]: v for k, v in self.machine.files.items() if k.startswith("env:")}
        if isinstance(value, Map):
            given.update({str(k): v for k, v in value.data.items()})
        return {name: self._word(v) for name, v in given.items() if isinstance(v, (Const, Unk))}

    def template(self, at: Place, env: dict[str, Word] | None = None, func: Func | None = None) -> Launch:
        """What the surroundings of a call say: platform decorators, environment, the place in the entry file."""
        place = at if at[0] == self.path else self.machine.entry_place()
        functions = [f.func for f in reversed(self.machine.frames) if f.func is not None]
        if func is not None:
            functions.insert(0, func)
        outer = functions[-1].outer if functions else None
        while outer is not None and len(functions) < DEPTH:
            functions.append(outer)
            outer = outer.outer
        stem = posixpath.splitext(posixpath.basename(self.path))[0]
        launch = Launch((), place[0], place[1], stem, env=env if env is not None else self._env(None), format="python")
        return platforms.surround(self, launch, functions)

    def _argv(self, command: Value, at: Place, env: dict[str, Word], name: str = "", func: Func | None = None) -> None:
        if not isinstance(command, Seq) or not command.data or self._full():
            return
        words = self._words(command)
        template = self.template(at, env, func)
        first = words[0]
        place = (
            (first.path, first.line) if first.path == self.path else command.at if command.at[0] == self.path else None
        )
        if place is not None:
            template = dataclasses.replace(template, path=place[0], line=place[1])
        self._expand(template, words)

    def _shell(self, command: Value, call: Call, starts: tuple[tuple[int, int], ...] = ()) -> None:
        if not (isinstance(command, Const) and isinstance(command.value, str)) or self._full():
            return
        from checklistbot.discovery.launches import run_shell

        at = command.at if command.at[0] == self.path else self.machine.entry_place()
        template = self.template(at, self._env(call.kwargs.get("env")))
        script = dataclasses.replace(word(command.value, at), starts=starts or command.starts)
        for launch in run_shell(template, script, self.tree):
            self._emit(launch)

    def _expand(self, template: Launch, words: list[Word]) -> None:
        from checklistbot.discovery.launches import expand

        template = dataclasses.replace(template, mounted={**template.mounted, **self._written()})
        for launch in expand(template, words, self.tree):
            if launch.path != self.path:
                launch = dataclasses.replace(launch, path=template.path, line=template.line)
            self._emit(launch)

    def _written(self) -> dict[str, tuple[str, str, int]]:
        """Files that the launcher writes before it starts the server."""
        return {
            name: (str(v.value), *v.at)
            for name, v in self.machine.files.items()
            if not name.startswith("env:") and isinstance(v, Const) and not has_mark(name)
        }

    def _engine(self, made: pyengines.EngineCall, call: Call) -> Value:
        """An engine object or its arguments; where an engine takes an arguments object, that one's launch is replaced."""
        if not made.argv and made.model is None:
            return Obj(call.at, call.name, call.args, call.kwargs)
        replaced = [launch for owner, launch in self._made if owner is made.uses]
        self.found = [launch for launch in self.found if not any(launch is other for other in replaced)]
        place = call.at if call.at[0] == self.path else self.machine.entry_place()
        template = self.template(place)
        argv = [base.settled(w) for w in made.argv]
        launch = dataclasses.replace(
            template,
            argv=tuple(argv),
            engine=made.engine,
            mounted={**template.mounted, **made.mounted},
            model=made.model or template.model,
            served_model_name=made.served_model_name or template.served_model_name,
            gpu=made.gpu or template.gpu,
            gpu_count=made.gpu_count or template.gpu_count,
            replicas=made.replicas or template.replicas,
            role=made.role or template.role,
        )
        from checklistbot.discovery.launches import names_gpus

        owner = Obj(call.at, call.name, call.args, call.kwargs)
        self._emit(names_gpus(launch))
        self._made.append((owner, self.found[-1]))
        return owner

    def _full(self) -> bool:
        """True if the file starts more servers than any real one does."""
        if len(self.found) >= MAX_FOUND:
            gave_up()
        return len(self.found) >= MAX_FOUND

    def _emit(self, launch: Launch) -> None:
        if not self._full():
            self.found.append(platforms.with_version(self.tree, self, launch))

    # --- what is only a library -------------------------------------------------------------------------------------------

    def _is_library(self, launch: Launch) -> bool:
        """True if the model is a parameter that nobody gave."""
        parameters = self.machine.parameters
        if launch.model is not None:
            return launch.model.text is None and _name(launch.model) in parameters
        argv = launch.argv
        for index, entry in enumerate(argv):
            before = argv[index - 1].text if index else None
            named = entry.text is None and _name(entry) in parameters
            if named and (
                before in _MODEL_FLAGS or before == "serve" or (entry.raw or "").partition("=")[0] in _MODEL_FLAGS
            ):
                return True
        return False


def _name(entry: Word) -> str:
    return (entry.unknown.name or "") if entry.unknown else ""


def _texty(value: Value) -> bool:
    return isinstance(value, (Const, Unk))


def _is_static(func: Func) -> bool:
    return any(getattr(d, "name", "") == "staticmethod" for d in func.decorators)


def _is_classmethod(func: Func) -> bool:
    return any(getattr(d, "name", "") == "classmethod" for d in func.decorators)


def _cli(machine: Machine, func: Func) -> dict[str, Value]:
    from checklistbot.discovery.interpret import pyargs

    return pyargs.click_defaults(machine, func, func.at)
