"""``--render helm|kustomize``: the tree's charts or kustomizations, rendered by the real program (operations-and-attacks 23).

Only when asked for, never where the run holds a secret or reads a fork. The program works on a copy: regular text files only, so no
links, no schema files (their ``$ref`` can read files and addresses), and no kustomization that names something remote. It gets an empty
environment, a scratch home without plugins, no way to the network or a cluster, 20 s, 512 MB and 16 MiB of output. Where it fails our
own substitution is used, and that is said.
"""

from __future__ import annotations

import os
import posixpath
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from checklistbot.lazy import pattern
from checklistbot.model import Skipped, UsageError
from checklistbot.record import mutable_record

if TYPE_CHECKING:
    import subprocess

    from checklistbot.discovery.tree import Tree
    from checklistbot.discovery.yaml_docs import Node

Kind = Literal["helm", "kustomize"]
KINDS: Final[tuple[Kind, ...]] = ("helm", "kustomize")
SECONDS: Final = 20.0
MAX_OUTPUT: Final = 16 << 20
MAX_MEMORY: Final = 512 << 20
#: Renderings of one run, files and bytes of one copy.
MAX_RENDERINGS: Final = 64
MAX_FILES: Final = 5_000
MAX_COPY: Final = 64 << 20
#: Left out of the copy.
_SCHEMA: Final = "values.schema.json"
#: What kustomize would fetch: an address, a Git host, a query with a revision.
_REMOTE = pattern(
    r"(?m)^[\s-]*(?:[\w-]+:\s*)?[\"']?(?:[a-z+]{2,12}://|git@|github\.com[/:]|gitlab\.com[/:]|\S{1,400}\?(?:ref|timeout|submodules)=)"
)
_KUSTOMIZATIONS: Final = ("kustomization.yaml", "kustomization.yml", "Kustomization")
#: Variables that hold a secret wherever they are set; in CI every variable that is named like one does.
_SECRETS: Final = (
    "GITHUB_TOKEN", "GH_TOKEN", "GITLAB_TOKEN", "CI_JOB_TOKEN", "OPENAI_API_KEY", "ANTHROPIC_API_KEY", "CHECKLISTBOT_LLM_KEY",
    "CHECKLISTBOT_ENDPOINT_AUTH", "ACTIONS_RUNTIME_TOKEN", "ACTIONS_ID_TOKEN_REQUEST_TOKEN",
)  # fmt: skip
_SECRET_NAME = pattern(r"(?i)(?:^|_)(?:token|secret|password|passwd|api_?key|private_?key|credentials?)(?:_|$)")
_VERSION = pattern(r"v?\d{1,3}\.\d{1,3}\.\d{1,3}[\w.+-]{0,40}")


@mutable_record
class Renderer:
    """Runs one program for one run of ours. ``skipped`` says what it rendered and by which version, ``unread`` what it could not."""

    kind: Kind
    binary: str
    version: str
    scratch: Path
    skipped: list[Skipped] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)
    _copies: dict[int, Path | None] = field(default_factory=dict)
    _kept: list[Tree] = field(default_factory=list)
    _made: dict[tuple[int, str, tuple[str, ...]], tuple[Node, ...] | None] = field(default_factory=dict)

    def documents(self, tree: Tree, folder: str, values: Sequence[str] = ()) -> tuple[Node, ...] | None:
        """The documents of a kustomization's or a chart's folder (helm: with these values files); None where it could not be rendered."""
        key = (id(tree), folder, tuple(values))
        if key not in self._made:
            self._made[key] = self._render(tree, folder, values)
        return self._made[key]

    def _render(self, tree: Tree, folder: str, values: Sequence[str]) -> tuple[Node, ...] | None:
        from checklistbot.discovery.yaml_docs import documents

        if len(self._made) >= MAX_RENDERINGS:
            self._failed(folder, f"more than {MAX_RENDERINGS} renderings")
            return None
        copy = self._copy(tree)
        if copy is None:
            self._failed(folder, "too large to copy")
            return None
        if self.kind == "kustomize" and (remote := _remote(copy, folder)):
            self._failed(folder, f"{remote} names something outside of the tree")
            return None
        answer = self._run(self._command(folder, values), copy)
        if isinstance(answer, str):
            self._failed(folder, answer)
            return None
        shown = posixpath.join(folder, f"rendered-by-{self.kind}.yaml")
        self.skipped.append(
            Skipped(shown, f"rendered by {self.kind} {self.version}: its lines are those of the output")
        )
        return documents(shown, answer.decode("utf-8", "replace"))

    def _command(self, folder: str, values: Sequence[str]) -> list[str]:
        place = f"./{folder}" if folder else "."
        if self.kind == "kustomize":
            return [self.binary, "build", place]
        more = [part for path in values for part in ("--values", f"./{path}")]
        return [self.binary, "template", "release", place, *more]

    def _failed(self, folder: str, why: str) -> None:
        self.unread.append(
            f"--render {self.kind}: {folder or '.'}: {why}; read by checklistbot's own substitution instead"
        )

    def _copy(self, tree: Tree) -> Path | None:
        """A copy of the tree's text files; None where they are too many. The tree itself reads no link and nothing outside of it."""
        if id(tree) not in self._copies:
            self._kept.append(tree)  # its id stands for it, so it must not be freed
            target = self.scratch / f"tree{len(self._copies)}"
            self._copies[id(tree)] = target if _copied(tree, target) else None
        return self._copies[id(tree)]

    def _run(self, command: list[str], copy: Path) -> bytes | str:
        """Standard output, or why there is none."""
        import subprocess

        from checklistbot.encode import redact, terminal

        output, errors = self.scratch / "out", self.scratch / "err"
        with output.open("wb") as out, errors.open("wb") as err:
            child = subprocess.Popen(
                ["/bin/sh", "-c", _LIMITS, "sh", *command],
                cwd=copy, env=_environment(self.scratch), stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True,
            )  # fmt: skip
            why = _watch(child, output, errors)
        if why:
            return why
        if child.returncode != 0:
            first = next(iter(errors.read_bytes()[:4_000].decode("utf-8", "replace").splitlines()), "")
            return f"exit {child.returncode}: {redact(terminal(first, limit=200))}"
        return output.read_bytes()


#: The shell sets what only a parent can: memory that is written to (a Go program reserves more), processor time, no core, file size.
_LIMITS: Final = (
    f"for limit in '-d {MAX_MEMORY >> 10}' '-t {int(SECONDS)}' '-c 0' '-f {(MAX_OUTPUT >> 9) + 1}' '-n 256'; "
    'do ulimit $limit 2>/dev/null; done; exec "$@"'
)


def _watch(child: subprocess.Popen[bytes], *files: Path) -> str | None:
    """Wait for the end; why it was ended before that, None if it was not."""
    from subprocess import TimeoutExpired

    end = time.monotonic() + SECONDS
    while True:
        try:
            child.wait(0.05)
        except TimeoutExpired:
            too_long = time.monotonic() > end
            too_much = any(file.stat().st_size > MAX_OUTPUT for file in files) or _resident(child.pid) > MAX_MEMORY
            if not (too_long or too_much):
                continue
            _end(child)
            return (
                f"ended after {SECONDS:.0f} s" if too_long else "ended: more than 512 MB of memory or 16 MiB of output"
            )
        _end(child)
        over = any(file.stat().st_size > MAX_OUTPUT for file in files)
        return "more than 16 MiB of output" if over else None


def _end(child: subprocess.Popen[bytes]) -> None:
    """End the program and all that it started."""
    from signal import SIGKILL

    with suppress(OSError):  # all of them may have ended
        os.killpg(child.pid, SIGKILL)
    child.wait()


def _resident(pid: int) -> int:
    """Bytes of memory that a process holds; 0 where the system does not say."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0


def _environment(scratch: Path) -> dict[str, str]:
    """All variables that the program gets: none of ours, a home of its own, and no way out."""
    home = scratch / "home"
    home.mkdir(exist_ok=True)
    nowhere = "http://127.0.0.1:9"
    return {
        "PATH": os.defpath, "HOME": str(home), "TMPDIR": str(home), "LANG": "C", "GOMEMLIMIT": "400MiB", "KUBECONFIG": os.devnull,
        "XDG_CACHE_HOME": str(home), "XDG_CONFIG_HOME": str(home), "XDG_DATA_HOME": str(home), "HELM_CACHE_HOME": str(home),
        "HELM_CONFIG_HOME": str(home), "HELM_DATA_HOME": str(home), "HELM_PLUGINS": str(home / "none"), "HELM_NO_PLUGINS": "1",
        "KUSTOMIZE_PLUGIN_HOME": str(home / "none"), "HTTP_PROXY": nowhere, "HTTPS_PROXY": nowhere, "http_proxy": nowhere,
        "https_proxy": nowhere, "GIT_ALLOW_PROTOCOL": "none", "GIT_TERMINAL_PROMPT": "0",
    }  # fmt: skip


def _copied(tree: Tree, target: Path) -> bool:
    from checklistbot.discovery.tree import Unreadable

    size = files = 0
    target.mkdir()
    for path in tree.paths():
        parts = path.split("/")
        if parts[-1] == _SCHEMA or any(part in ("", ".", "..", ".git") for part in parts) or "\0" in path:
            continue
        try:
            data = tree.read(path).encode("utf-8", "replace")
        except Unreadable:
            continue
        size, files = size + len(data), files + 1
        if size > MAX_COPY or files > MAX_FILES:
            return False
        place = target.joinpath(*parts)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)
    return True


def _remote(copy: Path, folder: str) -> str | None:
    """The first kustomization at or beside ``folder`` that names something remote: a base may stand anywhere, so all of them are looked
    at if this one has one."""
    for found in sorted(copy.rglob("*")):
        if found.name in _KUSTOMIZATIONS and _REMOTE.search(found.read_text("utf-8", "replace")):
            name = found.relative_to(copy).as_posix()
            if _reaches(copy, folder, posixpath.dirname(name)):
                return name
    return None


def _reaches(copy: Path, folder: str, other: str) -> bool:
    """True if the kustomization of ``folder`` can lead to that of ``other`` by the folders that it and its bases name."""
    seen, left = set(), [folder]
    while left:
        at = left.pop()
        if at in seen:
            continue
        seen.add(at)
        for name in _KUSTOMIZATIONS:
            file = copy / at / name
            if file.is_file():
                words = re.findall(r"[\w./-]{1,400}", file.read_text("utf-8", "replace"))
                left += [posixpath.normpath(posixpath.join(at, w)) for w in set(words) if (copy / at / w).is_dir()]
    return (other or ".") in {entry or "." for entry in seen}


# --- for the formats ---------------------------------------------------------------------------------------------------

_ACTIVE: ContextVar[Renderer | None] = ContextVar("renderer", default=None)


def active(kind: Kind) -> Renderer | None:
    """The renderer of this run, if one of that kind was asked for."""
    renderer = _ACTIVE.get()
    return renderer if renderer is not None and renderer.kind == kind else None


@contextmanager
def using(renderer: Renderer | None) -> Iterator[None]:
    """Formats that are read in this block use the renderer."""
    token = _ACTIVE.set(renderer)
    try:
        yield
    finally:
        _ACTIVE.reset(token)


@contextmanager
def renderer(kind: Kind | None, environ: Mapping[str, str], *, fork: bool = False) -> Iterator[Renderer | None]:
    """The renderer that ``--render`` asks for (None: none), with a scratch folder that is gone afterwards.

    Raises UsageError where the run holds a secret or reads a fork, and where the program is not installed.
    """
    if kind is None:
        yield None
        return
    if fork:
        raise UsageError(
            f"--render {kind}: not on the pull request of a fork; its files would be input to a program that runs here"
        )
    secret = next((name for name in sorted(environ) if _holds_secret(name, environ)), None)
    if secret is not None:
        raise UsageError(
            f"--render {kind}: not in a run that holds a secret ({secret}); run it as: env -u {secret} checklistbot …"
        )
    import shutil
    import tempfile

    binary = shutil.which(kind, path=environ.get("PATH"))
    if binary is None:
        raise UsageError(
            f"--render {kind}: {kind} is not installed; pipe its output instead: {kind} … | checklistbot check -"
        )
    with tempfile.TemporaryDirectory(prefix="checklistbot-render-") as folder:
        made = Renderer(kind, str(Path(binary).resolve()), "unknown", Path(folder))
        made.version = _version_of(made)
        yield made


def _holds_secret(name: str, environ: Mapping[str, str]) -> bool:
    if not environ[name].strip():
        return False
    in_ci = environ.get("CI", "").lower() in ("true", "1") or "GITHUB_ACTIONS" in environ
    return name in _SECRETS or (in_ci and _SECRET_NAME.search(name) is not None)


def _version_of(made: Renderer) -> str:
    """What the program says of itself."""
    empty = made.scratch / "empty"
    empty.mkdir()
    command = [made.binary, "version", "--short"] if made.kind == "helm" else [made.binary, "version"]
    answer = made._run(command, empty)
    found = _VERSION.search(answer[:2_000].decode("utf-8", "replace")) if isinstance(answer, bytes) else None
    return found[0] if found else "of unknown version"
