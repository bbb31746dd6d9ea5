"""From words to launches: wrappers are peeled off, shell strings followed, servers told from everything else."""

from __future__ import annotations

import dataclasses
import posixpath
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from functools import cache
from typing import Final

from checklistbot.discovery.tree import Tree
from checklistbot.engines import registry
from checklistbot.engines.base import Launch, Word, settled
from checklistbot.lazy import pattern
from checklistbot.model import Unknown
from checklistbot.record import mutable_record

_MAX_DEPTH: Final = 8
_ASSIGNMENT = pattern(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)


@cache
def engine_words() -> re.Pattern[str]:
    """One of the words without which no engine's server is started."""
    words = {word.decode() for engine in registry().values() for word in engine.words}
    return re.compile("|".join(map(re.escape, sorted(words))))


def serves(launch: Launch) -> bool:
    """True if some engine takes the launch for one of its servers."""
    return any(engine.serves(launch) for engine in registry().values())


def expand(template: Launch, words: Sequence[Word], tree: Tree | None = None, *, depth: int = 0) -> list[Launch]:
    """The servers that an argv starts, each as ``template`` with its own argv, line and what the wrappers say."""
    peeled = peel(template, words)
    if peeled.script is not None and depth < _MAX_DEPTH:
        return run_shell(peeled.launch, peeled.script, tree, arguments=peeled.arguments, depth=depth + 1)
    script = mounted_script(peeled)
    if script is not None and depth < _MAX_DEPTH:
        return run_shell(peeled.launch, script[0], tree, arguments=script[1], depth=depth + 1)
    from checklistbot.discovery import inline

    code = inline.launches(peeled.launch, peeled.words, None, tree)
    if code is not None:
        return [with_config(names_gpus(launch), tree) for launch in code if serves(launch)]
    launch = dataclasses.replace(peeled.launch, argv=tuple(settled(word) for word in peeled.words))
    if not serves(launch):
        return []
    return [with_config(names_gpus(at_token(launch, template)), tree)]


def mounted_script(peeled: Peeled) -> tuple[Word, list[Word]] | None:
    """``bash FILE ARG…`` or ``FILE ARG…`` where a volume brings the file: its text and its arguments."""
    words = peeled.words
    at = 0
    if words and re.fullmatch(r"(?:ba|z|da|k)?sh", re.split(r"/", words[0].shown)[-1]):
        at = next((i for i in range(1, len(words)) if not words[i].shown.startswith("-")), 0)
    if at >= len(words) or words[at].text is None or words[at].text not in peeled.launch.mounted:
        return None
    text, path, line = peeled.launch.mounted[words[at].text or ""]
    if at == 0 and not (text.startswith("#!") or (words[0].text or "").endswith(".sh")):
        return None
    return Word(text, path, line), list(words[at + 1 :])


def at_token(launch: Launch, template: Launch) -> Launch:
    """The launch at the line of its token, where that stands in the launch's own file.

    Bare arguments of an image that the command itself names (``docker run IMAGE --model …``) start at the command.
    """
    if launch.image is not template.image and launch.argv and launch.argv[0].shown.startswith("-"):
        return launch
    token = launch_token(launch)
    if token is None or token.path != launch.path:
        return launch
    # "$VENV/bin/vllm" begins where VENV is set; the launch is where the command is written.
    return dataclasses.replace(launch, line=token.starts[-1][1] if token.starts else token.line)


def at_script(launch: Launch) -> Launch:
    """The launch at its token in the script that a service or an image runs, unless the manifest itself gives arguments."""
    token = launch_token(launch)
    scripts = {path for _, path, _ in launch.mounted.values()}
    if token is None or token.path == launch.path or token.path not in scripts:
        return launch
    if any(word.path == launch.path and word.shown.startswith("-") for word in launch.argv):
        return launch
    return dataclasses.replace(launch, path=token.path, line=token.starts[-1][1] if token.starts else token.line)


def names_model(launch: Launch) -> bool:
    """True if the launch says which model it serves: what an image or a document needs to be a deployment."""
    for engine in registry().values():
        if engine.serves(launch):
            deployment = engine.deployment(launch)
            return deployment is not None and deployment.model.known
    return False


_DEVICES: Final = (
    "CUDA_VISIBLE_DEVICES",
    "NVIDIA_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES",
    "ASCEND_RT_VISIBLE_DEVICES",
    "ZE_AFFINITY_MASK",
)


def names_gpus(launch: Launch) -> Launch:
    """The number of GPUs by the list of visible devices, where nothing else says it."""
    if launch.gpu_count is not None:
        return launch
    for name in _DEVICES:
        word = launch.env.get(name)
        if word is not None and re.fullmatch(r"\d+(?:,\d+)*", (word.text or "").strip()):
            count = str((word.text or "").count(",") + 1)
            return dataclasses.replace(launch, gpu_count=Word(count, word.path, word.line, word.raw))
    return launch


_CONFIG_FLAGS: Final = (
    "--config",
    "--extra_llm_api_options",
    "--extra-engine-args",
    "--extra_engine_args",
    "--extra-llm-api-options",
)


def with_config(launch: Launch, tree: Tree | None) -> Launch:
    """Configuration files of the tree that the command names, beside what is mounted already."""
    if tree is None:
        return launch
    mounted = dict(launch.mounted)
    for at, word in enumerate(launch.argv):
        flag, equals, inline = word.shown.partition("=")
        if flag not in _CONFIG_FLAGS:
            continue
        name = inline if equals else launch.argv[at + 1].shown if at + 1 < len(launch.argv) else None
        if name and name not in mounted:
            found = _from_tree(tree, launch.path, name)
            if found is not None:
                mounted[name] = found
    return dataclasses.replace(launch, mounted=mounted) if len(mounted) != len(launch.mounted) else launch


def _from_tree(tree: Tree, beside: str, name: str) -> tuple[str, str, int] | None:
    """A file by its path from the root or from beside the one that names it; of a path in a container, by its last two parts."""
    from checklistbot.discovery.tree import Unreadable

    folder = posixpath.dirname(beside)
    candidates = (
        [posixpath.normpath(posixpath.join(folder, name)), posixpath.normpath(name)] if not name.startswith("/") else []
    )
    if name.startswith("/"):
        tail = "/".join(name.split("/")[-2:])
        candidates += [path for path in tree.paths() if path == tail or path.endswith("/" + tail)][:1]
    for candidate in candidates:
        if tree.exists(candidate):
            try:
                return tree.read(candidate), candidate, 1
            except Unreadable:
                return None
    return None


def run_shell(
    template: Launch,
    script: Word,
    tree: Tree | None = None,
    *,
    arguments: Sequence[Word] = (),
    depth: int = 0,
) -> list[Launch]:
    """The servers that shell text starts. ``arguments`` are its positional parameters ($1 …)."""
    if script.text is None:
        return []
    from checklistbot.discovery import shell

    return shell.launches(template, script, tree, arguments=arguments, depth=depth)


_MODEL_FLAG = pattern(r"--?(?:m|model|model-path|model_path|model-id|model_id|hf)(?:=.*)?")


def launch_token(launch: Launch) -> Word | None:
    """The word that names the server: the module behind ``-m``, the program, or of bare arguments the model's flag."""
    argv = launch.argv
    if not argv:
        return None
    if (argv[0].text or "").startswith("-"):
        return next((word for word in argv if _MODEL_FLAG.fullmatch(word.text or word.raw)), argv[0])
    if re.search(r"(?:python|pypy)[\d.]*(?:\.exe)?$", argv[0].shown):
        return next(
            (argv[i + 1] for i, word in enumerate(argv[:6]) if word.text == "-m" and i + 1 < len(argv)), argv[0]
        )
    return argv[0]


# --- wrappers ------------------------------------------------------------------------------------------------------------


@mutable_record
class Peeled:
    """What is left of a command: words to run, or a shell script with its positional parameters."""

    launch: Launch
    words: list[Word]
    script: Word | None = None
    arguments: list[Word] = field(default_factory=list)


def peel(template: Launch, words: Sequence[Word]) -> Peeled:
    """Takes off ``env``, ``sudo``, ``docker run``, ``srun``, … until a program or a shell script is left."""
    state = Peeled(template, list(words))
    for _ in range(24):
        if not state.words or state.script is not None or not _peel_once(state):
            break
    return state


def _peel_once(state: Peeled) -> bool:
    first = state.words[0]
    match = _ASSIGNMENT.fullmatch(first.text or "")
    if match is not None:
        _set_env(state, match[1], Word(match[2], first.path, first.line, match[2]))
        del state.words[0]
        return True
    name = re.split(r"[/\\]", first.shown)[-1].removesuffix(".exe")
    wrapper = _wrappers().get(name)
    if wrapper is None:
        return False
    before = len(state.words), state.script
    wrapper(state)
    return (len(state.words), state.script) != before


def _set_env(state: Peeled, name: str, value: Word) -> None:
    state.launch = dataclasses.replace(state.launch, env={**state.launch.env, name: settled(value)})


def _skip_options(words: Sequence[Word], start: int, valued: Iterable[str] = (), *, stop: str | None = "--") -> int:
    """The index of the first word that is no option; ``valued`` options take the next word."""
    takes = frozenset(valued)
    at = start
    while at < len(words):
        text = words[at].shown
        if text == stop:
            return at + 1
        if not text.startswith("-") or text == "-":
            return at
        at += 2 if text in takes else 1
    return at


def _drop(count: int, valued: Iterable[str] = (), operands: int = 0) -> Callable[[Peeled], None]:
    """A wrapper that is ``count`` words, its options, and a number of operands before the command."""
    takes = tuple(valued)

    def wrapper(state: Peeled) -> None:
        at = _skip_options(state.words, count, takes)
        state.words = state.words[at + operands :]

    return wrapper


def _env(state: Peeled) -> None:
    at = 1
    while at < len(state.words):
        text = state.words[at].text or ""
        if text in ("-u", "--unset", "-C", "--chdir"):
            at += 2
        elif text in ("-S", "--split-string") and at + 1 < len(state.words):
            state.script = state.words[at + 1]
            return
        elif text.startswith("-"):
            at += 1
        else:
            break
    state.words = state.words[at:]


_SHELL_VALUED: Final = ("-o", "-O", "--rcfile", "--init-file", "+o", "+O")


def _shell(state: Peeled) -> None:
    """``bash -lc SCRIPT [NAME ARG…]``; ``bash FILE`` is left to the reader of the file."""
    words = state.words
    at = 1
    while at < len(words):
        text = words[at].text or ""
        if text in _SHELL_VALUED:
            at += 2
            continue
        if not text.startswith(("-", "+")) or text == "-":
            break
        if re.fullmatch(r"-[a-zA-Z]*c[a-zA-Z]*", text):
            at = _skip_options(words, at + 1, _SHELL_VALUED, stop=None)
            if at < len(words):
                state.script = words[at]
                state.arguments = list(words[at + 2 :])
            return
        at += 1


def _string_command(at: int) -> Callable[[Peeled], None]:
    """A wrapper whose word ``at`` and all behind it are one shell string (``su -c``, ``ssh HOST …``)."""

    def wrapper(state: Peeled) -> None:
        rest = state.words[at:]
        if rest:
            state.script = joined(rest)

    return wrapper


def joined(words: Sequence[Word]) -> Word:
    """Words as one shell string with blanks between, each part with its own line."""
    text, starts = "", []
    for word in words:
        if text:
            text += " "
        starts += [(len(text) + offset, line) for offset, line in word.starts] or _line_starts(word, len(text))
        text += word.shown
    return Word(text, words[0].path, words[0].line, text, None, tuple(starts))


def _line_starts(word: Word, base: int) -> list[tuple[int, int]]:
    starts = [(base, word.line)]
    for number, match in enumerate(re.finditer("\n", word.text or ""), 1):
        starts.append((base + match.end(), word.line + number))
    return starts


def _ssh(state: Peeled) -> None:
    valued = ("-i", "-p", "-o", "-l", "-F", "-J", "-L", "-R", "-D", "-W", "-b", "-c", "-E", "-e", "-m", "-S", "-w")
    at = _skip_options(state.words, 1, valued)
    _string_command(at + 1)(state)


def _su(state: Peeled) -> None:
    for at, word in enumerate(state.words):
        if word.text in ("-c", "--command") and at + 1 < len(state.words):
            state.script = state.words[at + 1]
            return
    state.words = state.words[_skip_options(state.words, 1, ("-u", "-s", "-g", "-G")) :]


def _tmux(state: Peeled) -> None:
    """``tmux new-session -d -s NAME COMMAND`` and ``tmux send-keys -t NAME COMMAND C-m``."""
    words = state.words
    at = _skip_options(words, 1, ("-L", "-S", "-f"), stop=None)
    verb = (words[at].text or "") if at < len(words) else ""
    if verb in ("new-session", "new", "new-window", "neww", "split-window", "splitw", "respawn-pane", "respawn-window"):
        rest = words[_skip_options(words, at + 1, ("-s", "-n", "-c", "-t", "-x", "-y", "-e", "-F", "-l", "-p")) :]
    elif verb in ("send-keys", "send"):
        rest = words[_skip_options(words, at + 1, ("-t", "-N")) :]
        rest = [word for word in rest if word.text not in ("C-m", "Enter", "ENTER", "KPEnter")]
    else:
        rest = []
    state.words = []
    if rest:
        state.script = rest[0] if len(rest) == 1 else joined(rest)


def _screen(state: Peeled) -> None:
    words = state.words
    if any(word.text == "-X" for word in words):
        at = next((i for i, word in enumerate(words) if word.text == "stuff"), len(words))
        state.words = []
        if at + 1 < len(words):
            state.script = words[at + 1]
        return
    at = _skip_options(words, 1, ("-S", "-c", "-t", "-T", "-h", "-L", "-Logfile", "-dmS", "-dmLS", "-s"), stop=None)
    state.words = words[at:]


_DOCKER_SWITCHES: Final = frozenset(
    [
        "-d",
        "-i",
        "-t",
        "-it",
        "-ti",
        "-dit",
        "-dti",
        "-itd",
        "-P",
        "-q",
        "--detach",
        "--interactive",
        "--tty",
        "--rm",
        "--init",
        "--privileged",
        "--read-only",
        "--publish-all",
        "--no-healthcheck",
        "--oom-kill-disable",
        "--quiet",
        "--sig-proxy",
        "--disable-content-trust",
        "--replace",
        "--userns-keep-id",
        "--tls-verify",
    ]
)
_RUN: Final = ("run", "create")


def _docker(state: Peeled) -> None:
    words = state.words
    at = _skip_options(
        words, 1, ("-H", "--host", "-c", "--context", "--config", "-l", "--log-level", "-n", "--namespace"), stop=None
    )
    if at < len(words) and words[at].text == "container":
        at += 1
    verb = words[at].text if at < len(words) else None
    if verb == "exec":
        at = _skip_options(words, at + 1, ("-e", "--env", "-u", "--user", "-w", "--workdir", "--env-file"))
        state.words = words[at + 1 :]
    elif verb == "compose":
        at = next((i for i, word in enumerate(words) if word.text in ("run", "exec")), len(words))
        state.words = words[
            _skip_options(words, at + 1, ("-e", "--name", "-p", "-v", "-u", "-w", "--entrypoint")) + 1 :
        ]
    elif verb in _RUN:
        _docker_run(state, at + 1)
    else:
        state.words = []


def _docker_run(state: Peeled, at: int) -> None:
    """Options of ``docker run`` belong to docker, then the image, then the image's command."""
    words = state.words
    if words[0].path == state.launch.path:
        state.launch = dataclasses.replace(state.launch, line=words[0].line)
    entrypoint: Word | None = None
    changes: dict[str, Word | str] = {}
    while at < len(words):
        text = words[at].shown
        if not text.startswith("-"):
            break
        name, equals, inline = text.partition("=")
        if text in _DOCKER_SWITCHES or (not equals and re.fullmatch(r"-[ditPq]+", text)):
            at += 1
            continue
        if not equals and re.fullmatch(r"-[evpwuhlmca].+", text) and not text.startswith("--"):
            name, inline, equals = text[:2], text[2:], "="
        value = words[at] if equals else words[at + 1] if at + 1 < len(words) else None
        if value is not None and equals:
            value = Word(inline if value.text is not None else None, value.path, value.line, inline, value.unknown)
        at += 1 if equals else 2
        if value is not None:
            entrypoint = _docker_option(state, name, value, changes) or entrypoint
    if at >= len(words):
        state.words = []
        return
    image = settled(words[at])
    count = changes.get("gpus")
    state.launch = dataclasses.replace(
        state.launch,
        image=image,
        gpu_count=count if isinstance(count, Word) else state.launch.gpu_count,
        qualifier=str(changes["name"]) if "name" in changes else state.launch.qualifier,
    )
    rest = words[at + 1 :]
    state.words = [entrypoint, *rest] if entrypoint is not None and entrypoint.text else rest
    if not state.words:
        state.words = []


def _docker_option(state: Peeled, name: str, value: Word, changes: dict[str, Word | str]) -> Word | None:
    """Keeps what an option of ``docker run`` says; gives the word of ``--entrypoint``."""
    text = value.text if value.text is not None else ""
    if name in ("-e", "--env"):
        match = _ASSIGNMENT.fullmatch(text)
        if match is not None:
            _set_env(state, match[1], Word(match[2], value.path, value.line, match[2]))
        elif value.text is None and (match := _ASSIGNMENT.fullmatch(value.raw)):
            _set_env(state, match[1], Word(None, value.path, value.line, match[2], value.unknown))
    elif name == "--gpus":
        count = gpus_of(value)
        if count is not None:
            changes["gpus"] = count
    elif name == "--name" and text:
        changes["name"] = text
    elif name == "--entrypoint":
        return value
    return None


def gpus_of(value: Word) -> Word | None:
    """Docker's ``--gpus``: a number, or a list of devices; ``all`` says no number."""
    text = (value.text or "").strip().strip("\"'")
    devices = re.search(r"device=([\w,:.-]+)", text)
    if devices is not None:
        return Word(str(len([d for d in devices[1].strip("\"'").split(",") if d])), value.path, value.line, text)
    number = re.fullmatch(r"(?:count=)?(\d+)", text)
    return Word(number[1], value.path, value.line, text) if number else None


_SRUN_VALUED: Final = (
    "-n",
    "-N",
    "-c",
    "-p",
    "-t",
    "-J",
    "-o",
    "-e",
    "-w",
    "-x",
    "-A",
    "-D",
    "-G",
    "-C",
    "-q",
    "-m",
    "-d",
    "--ntasks",
    "--nodes",
    "--cpus-per-task",
    "--partition",
    "--time",
    "--job-name",
    "--output",
    "--error",
    "--nodelist",
    "--exclude",
    "--account",
    "--chdir",
    "--gpus",
    "--gres",
    "--mem",
    "--ntasks-per-node",
    "--gpus-per-node",
    "--gpus-per-task",
    "--container-image",
    "--container-mounts",
    "--container-name",
    "--container-workdir",
    "--export",
    "--mpi",
    "--qos",
    "--constraint",
    "--relative",
    "-r",
    "--cpu-bind",
    "--jobid",
    "--container-env",
    "--wait",
    "-W",
    "--kill-on-bad-exit",
    "-K",
)


def _srun(state: Peeled) -> None:
    words = state.words
    at = 1
    while at < len(words):
        text = words[at].shown
        if not text.startswith("-"):
            break
        name, equals, inline = text.partition("=")
        short = not text.startswith("--") and len(text) > 2 and not equals
        if short:
            name, inline, equals = text[:2], text[2:], "="
        value = (
            Word(inline, words[at].path, words[at].line, inline)
            if equals
            else words[at + 1]
            if at + 1 < len(words)
            else None
        )
        takes = name in _SRUN_VALUED
        if name == "--container-image" and value is not None:
            state.launch = dataclasses.replace(state.launch, image=settled(value))
        elif name in ("--gres", "--gpus-per-node", "-G", "--gpus") and value is not None:
            count = slurm_gpus(value)
            state.launch = dataclasses.replace(state.launch, gpu_count=count or state.launch.gpu_count)
        elif name in ("-N", "--nodes") and value is not None and (value.text or "").isdigit():
            state.launch = dataclasses.replace(state.launch, nodes=value)
        at += 2 if takes and not equals else 1
    state.words = words[at:]


def slurm_gpus(value: Word) -> Word | None:
    """``gpu:h100:8``, ``h100:8`` or ``8``."""
    match = re.search(r"(?:^|gpu:)(?:[A-Za-z][\w.-]*:)?(\d+)\b", value.text or "")
    return Word(match[1], value.path, value.line, value.text or "") if match else None


def _apptainer(state: Peeled) -> None:
    words = state.words
    at = _skip_options(words, 1, stop=None)
    if at >= len(words) or words[at].text not in ("exec", "run"):
        state.words = []
        return
    valued = (
        "-B",
        "--bind",
        "--env",
        "--env-file",
        "-H",
        "--home",
        "--pwd",
        "--cwd",
        "-W",
        "--workdir",
        "-S",
        "--scratch",
        "--overlay",
        "-o",
        "--mount",
        "--network",
    )
    at = _skip_options(words, at + 1, valued)
    if at < len(words):
        state.launch = dataclasses.replace(state.launch, image=settled(words[at]))
    state.words = words[at + 1 :]


def _uv(state: Peeled) -> None:
    """``uv run --with vllm==0.10.1 vllm serve``: the pinned package is the engine's version."""
    words = state.words
    at = 1 if words[0].text == "uvx" else 2 if len(words) > 1 and words[1].text == "run" else len(words)
    valued = (
        "--with",
        "--from",
        "-p",
        "--python",
        "--with-requirements",
        "--directory",
        "--project",
        "--extra",
        "--group",
        "--index-url",
        "--extra-index-url",
        "--torch-backend",
        "--index",
        "--env-file",
        "--package",
        "--with-editable",
        "-m",
        "--module",
    )
    while at < len(words):
        text = words[at].text or ""
        if text == "--":
            at += 1
            break
        if not text.startswith("-"):
            break
        name, equals, inline = text.partition("=")
        value = (
            Word(inline, words[at].path, words[at].line, inline)
            if equals and name in valued
            else words[at + 1]
            if at + 1 < len(words)
            else None
        )
        if name in ("-m", "--module"):
            state.words = [
                Word("python", words[at].path, words[at].line, "python"),
                Word("-m", words[at].path, words[at].line, "-m"),
                *words[at + 1 :],
            ]
            return
        if name in ("--with", "--from") and value is not None:
            _pin(state, value)
        at += 2 if name in valued and not (equals and name in valued) else 1
    state.words = words[at:]


_PIN = pattern(r"(?:^|[\s,'\"])(vllm|sglang|lmdeploy|tensorrt[-_]llm)(?:\[[\w,-]*\])?\s*==\s*([\w.+!]+)")


def pin_of(text: str) -> tuple[str, str] | None:
    """(package, version) of the first engine package that a requirement pins exactly."""
    match = _PIN.search(text)
    return (match[1].replace("_", "-"), match[2]) if match else None


def _pin(state: Peeled, value: Word) -> None:
    found = pin_of(value.text or "")
    if found is not None:
        state.launch = dataclasses.replace(
            state.launch, version=Word(found[1], value.path, value.line, value.text or "")
        )


def _after_dashes(state: Peeled) -> None:
    """Wrappers whose command stands behind ``--`` (``kubectl run``, ``dumb-init``, ``ray job submit``)."""
    at = next((i for i, word in enumerate(state.words) if word.text == "--"), None)
    state.words = state.words[at + 1 :] if at is not None else []


def _ray(state: Peeled) -> None:
    if len(state.words) > 2 and state.words[1].text == "job" and state.words[2].text == "submit":
        _after_dashes(state)
    else:
        state.words = []


def _torchrun(state: Peeled) -> None:
    """``torchrun … -m MODULE`` and ``torchrun … script.py`` run Python."""
    words = state.words
    at = 1
    while at < len(words):
        text = words[at].text or ""
        if text == "-m":
            break
        if not text.startswith("-"):
            break
        at += 1 if "=" in text or text in ("--standalone", "--no-python", "--no_python") else 2
    state.words = [Word("python", words[0].path, words[0].line, "python"), *words[at:]]


def _eval(state: Peeled) -> None:
    if len(state.words) > 1:
        state.script = joined(state.words[1:]) if len(state.words) > 2 else state.words[1]
    else:
        state.words = []


def _cmd(state: Peeled) -> None:
    at = next((i for i, word in enumerate(state.words) if (word.text or "").lower() in ("/c", "/k")), None)
    state.words = state.words[at + 1 :] if at is not None else []


def _start_stop_daemon(state: Peeled) -> None:
    at = next((i for i, word in enumerate(state.words) if word.text in ("--exec", "-x", "--startas", "-a")), None)
    if at is None or at + 1 >= len(state.words):
        state.words = []
        return
    rest = state.words[at + 2 :]
    dashes = next((i for i, word in enumerate(rest) if word.text == "--"), None)
    state.words = [state.words[at + 1], *(rest[dashes + 1 :] if dashes is not None else [])]


def _gcloud(state: Peeled) -> None:
    """``gcloud run deploy NAME --image IMAGE --args=A,B``: the container's arguments with commas between."""
    words = state.words
    if "run" not in [w.text for w in words[:4]] or not any(
        w.text in ("deploy", "replace", "create") for w in words[:5]
    ):
        state.words = []
        return
    argv: list[Word] = []
    changes: dict[str, Word] = {}
    for at, word in enumerate(words):
        name, equals, inline = word.shown.partition("=")
        value = (
            dataclasses.replace(word, text=inline if word.text is not None else None, raw=inline)
            if equals
            else words[at + 1]
            if at + 1 < len(words)
            else None
        )
        if value is None:
            continue
        if name in ("--command", "--args"):
            parts = [
                dataclasses.replace(value, text=part, raw=part, starts=()) for part in value.shown.split(",") if part
            ]
            argv = [*parts, *argv] if name == "--command" else [*argv, *parts]
        elif name in ("--image", "--gpu", "--gpu-type", "--min-instances"):
            changes[name] = settled(value)
    state.words = argv
    state.launch = dataclasses.replace(
        state.launch,
        image=changes.get("--image", state.launch.image),
        gpu_count=changes.get("--gpu", state.launch.gpu_count),
        gpu=changes.get("--gpu-type", state.launch.gpu),
        replicas=changes.get("--min-instances", state.launch.replicas),
    )


def _xargs(state: Peeled) -> None:
    """``xargs [-I {}] COMMAND``: what it adds comes from its input, which is not read: the command goes on with an unknown word."""
    words = state.words
    at = _skip_options(words, 1, ("-n", "-P", "-I", "-L", "-d", "-a", "-s", "-E", "--arg-file", "--delimiter"))
    place = next((words[i + 1].text for i in range(1, at - 1) if words[i].text == "-I"), None)
    rest = list(words[at:])
    if not rest:
        state.words = []
        return
    unread = Unknown("not-readable", "xargs")
    if place is None:
        rest.append(Word(None, rest[-1].path, rest[-1].line, "?", unread))
    else:
        rest = [
            Word(None, w.path, w.line, (w.text or "").replace(place, "?"), unread) if place in (w.text or "") else w
            for w in rest
        ]
    state.words = rest


def _supervise(state: Peeled) -> None:
    """``pm2 start "command"``: a string or words."""
    words = state.words
    if len(words) > 2 and words[1].text == "start":
        if " " in (words[2].text or ""):
            state.script = words[2]
        else:
            dashes = next((i for i, word in enumerate(words) if word.text == "--"), len(words))
            state.words = [words[2], *words[dashes + 1 :]]
    else:
        state.words = []


@cache
def _wrappers() -> Mapping[str, Callable[[Peeled], None]]:
    found: dict[str, Callable[[Peeled], None]] = {}

    def add(names: str, wrapper: Callable[[Peeled], None]) -> None:
        found.update(dict.fromkeys(names.split(), wrapper))

    add("env", _env)
    add(
        "nohup setsid command builtin stdbuf unbuffer catchsegv linux32 linux64 caffeinate sem time",
        _drop(1, ("-o", "-i", "-e", "-f")),
    )
    add("exec", _drop(1, ("-a",)))
    add("sudo doas", _drop(1, ("-u", "-g", "-h", "-p", "-C", "-r", "-t", "-D", "-U", "-T", "--user", "--group")))
    add("nice ionice", _drop(1, ("-n", "-c", "-p", "--adjustment")))
    add("timeout gtimeout", _drop(1, ("-k", "-s", "--kill-after", "--signal"), operands=1))
    add("taskset chrt", _drop(1, ("-p",), operands=1))
    add("numactl", _drop(1, ("-N", "-m", "-C", "-i", "-p", "-l")))
    add("gosu su-exec chpst", _drop(1, ("-u",), operands=1))
    add("tini dumb-init catatonit s6-setuidgid", _drop(1, ("-e", "-p", "--rewrite")))
    add(
        "mpirun mpiexec orterun prun",
        _drop(
            1,
            (
                "-n",
                "-np",
                "-N",
                "-H",
                "-host",
                "--host",
                "-x",
                "-hostfile",
                "--hostfile",
                "-ppn",
                "-map-by",
                "--map-by",
                "--bind-to",
                "-bind-to",
                "-genv",
            ),
        ),
    )
    add("trtllm-llmapi-launch", _drop(1))
    add("nsys", _drop(2, ("-o", "-t", "-c", "-s", "-w", "-f", "-x", "-y", "-d", "-n")))
    add("ncu rocprof rocprofv3 py-spy", _drop(1, ("-o", "--output")))
    add("conda mamba micromamba", _drop(2, ("-n", "--name", "-p", "--prefix", "--cwd")))
    add("poetry pipenv pdm hatch rye pixi", _drop(2, ("-e", "--environment")))
    add("uv uvx", _uv)
    add("bash sh zsh dash ksh ash busybox", _shell)
    add("su runuser", _su)
    add("ssh autossh", _ssh)
    add("pdsh clush", _string_command(3))
    add("tmux", _tmux)
    add("screen", _screen)
    add("script", _su)
    add(
        "systemd-run systemd-inhibit systemd-cat",
        _drop(1, ("-p", "-u", "--unit", "--property", "-E", "-t", "--setenv", "--uid", "--gid")),
    )
    add("docker podman nerdctl docker.io", _docker)
    add("nvidia-docker", _docker)
    add("apptainer singularity", _apptainer)
    add("enroot", _after_dashes)
    add("srun", _srun)
    add("kubectl oc", _after_dashes)
    add("ray", _ray)
    add("torchrun", _torchrun)
    add("accelerate", _torchrun)
    add("eval", _eval)
    add("cmd", _cmd)
    add("start-stop-daemon", _start_stop_daemon)
    add("pm2", _supervise)
    add("gcloud", _gcloud)
    add("xargs", _xargs)
    add("watchmedo nodemon", _after_dashes)
    return found
