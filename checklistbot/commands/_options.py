"""Options that several commands share, and what they become."""

from __future__ import annotations

import functools
import os
import posixpath
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import click

from checklistbot import clock
from checklistbot.config import FILE_NAME, Config, load
from checklistbot.model import NOTHING_ON_STDIN, InputError, Skipped, UsageError
from checklistbot.record import record

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from checklistbot.checklist.own import Own
    from checklistbot.discovery.render import Kind, Renderer
    from checklistbot.discovery.tree import Tree
    from checklistbot.facts import Inputs
    from checklistbot.model import Check, Facts

#: When the command began: this module is loaded with it.
_STARTED = time.perf_counter()
Command = TypeVar("Command", bound=Callable[..., Any])


@record
class Settings:
    """The options that every command takes. ``verbose`` 1: what was skipped, timings; 2: requests without bodies."""

    config: str | None
    lang: Literal["en", "ko"] | None
    color: str
    quiet: bool
    verbose: int

    def language(self, config: Config) -> Literal["en", "ko"]:
        return self.lang or config.lang

    def colored(self) -> bool:
        """``auto``: on a terminal, unless NO_COLOR is set (no-color.org)."""
        if self.color != "auto":
            return self.color == "always"
        return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"

    def now(self) -> datetime:
        return clock.now(os.environ)


_COMMON = (
    click.option(
        "--config",
        metavar="FILE",
        help=f"Config file (default: {FILE_NAME} at the top of the repository, else in PATH).",
    ),
    click.option("--lang", type=click.Choice(["ko", "en"]), help="Language of texts (default: the config's, else en)."),
    click.option("--color", type=click.Choice(["auto", "always", "never"]), default="auto", show_default=True),
    click.option("-q", "--quiet", is_flag=True, help="Only the result."),
    click.option(
        "-v", "--verbose", count=True, help="Also what was skipped, and the time taken; -vv: requests without bodies."
    ),
)
_INPUTS = (
    click.option("--log", "logs", multiple=True, metavar="FILE", help="A start-up log, or - (repeatable)."),
    click.option("--endpoint", "endpoints", multiple=True, metavar="URL", help="A running worker to ask (repeatable)."),
    click.option("--observed", multiple=True, metavar="FILE", help="Facts JSON of another run (repeatable)."),
)


def common(command: Command) -> Command:
    """The options of every command, gathered into ``settings``."""

    @functools.wraps(command)
    def wrapper(config: str | None, lang: Any, color: str, quiet: bool, verbose: int, **rest: Any) -> Any:
        if color == "always" and (context := click.get_current_context(silent=True)) is not None:
            context.color = True  # Otherwise click takes the styles out of what goes into a pipe.
        return command(settings=Settings(config, lang, color, quiet, verbose), **rest)

    return _with(wrapper, _COMMON)  # type: ignore[return-value]


def inputs(command: Command) -> Command:
    """--log, --endpoint and --observed, gathered into ``named``."""

    @functools.wraps(command)
    def wrapper(logs: tuple[str, ...], endpoints: tuple[str, ...], observed: tuple[str, ...], **rest: Any) -> Any:
        from checklistbot.facts import Inputs

        return command(named=Inputs(logs, endpoints, observed), **rest)

    return _with(wrapper, _INPUTS)  # type: ignore[return-value]


def render(command: Command) -> Command:
    """``--render``, for commands that read a tree which nobody else wrote."""
    option = click.option(
        "--render",
        type=click.Choice(["helm", "kustomize"]),
        help="Let the installed program render charts or kustomizations (default: our own substitution).",
    )
    return _with(command, (option,))  # type: ignore[return-value]


def _with(command: Callable[..., Any], options: tuple[Callable[[Any], Any], ...]) -> Callable[..., Any]:
    for option in reversed(options):
        command = option(command)
    return command


@record
class Learnt:
    """Config, facts and checks of one state: what ``prompt`` and ``draft`` start from."""

    config: Config
    facts: Facts
    check: Check
    language: Literal["en", "ko"]
    own: Own | None = None


def learn(settings: Settings, named: Inputs, path: str | None, revision: str | None) -> Learnt:
    """Read PATH and run the checks on it, without a base."""
    from checklistbot import rules
    from checklistbot.facts import gather

    tree = open_path(path, named, revision)
    config = read_config(settings.config, tree)
    language = settings.language(config)
    facts = gather(tree, config, named)
    check = rules.evaluate(facts, config, language=language, today=settings.now().date())
    return Learnt(config, facts, check, language, own_files(config, tree))


def epilog(*lines: str) -> str:
    """An example at the end of ``--help``, kept as it is written."""
    return "\b\nExample:\n" + "\n".join(f"  {line}" for line in lines)


def open_path(path: str | None, named: Inputs, revision: str | None = None) -> Tree | None:
    """The tree of PATH; None where only logs, endpoints or observed facts are to be read."""
    from checklistbot.discovery.tree import StdinManifests, open_tree

    if path == "-":
        if revision is not None:
            raise UsageError("--rev and --base need a repository, not standard input")
        if "-" in named.logs:
            raise UsageError("standard input is PATH already; give the log as a file")
        data = sys.stdin.buffer.read()
        if not data.strip():
            raise UsageError(NOTHING_ON_STDIN)
        return StdinManifests(data)
    if path is None and named and revision is None:
        return None
    return open_tree(Path(path or "."), revision)


def read_config(option: str | None, tree: Tree | None) -> Config:
    """The config that ``--config`` names, else the one at the top of the tree's repository, else the one in PATH, else defaults."""
    from checklistbot.discovery.tree import Unreadable

    if option is not None:
        return load(_read_file(option), option)
    if tree is None:
        return Config()
    top = "/".join([".."] * (tree.prefix.count("/") + 1)) if tree.prefix else ""
    for path in dict.fromkeys((f"{top}/{FILE_NAME}" if top else FILE_NAME, FILE_NAME)):
        if tree.exists(path):
            try:
                return load(tree.read(path), FILE_NAME if path.endswith(f"../{FILE_NAME}") else path)
            except Unreadable as error:
                raise UsageError(f"{path}: {error}; the config must be readable text inside the repository") from None
    return Config()


def own_files(config: Config, tree: Tree | None) -> Own | None:
    """The user's own prompt template and incidents, as ``tree`` holds them. None where the config names none.

    Their paths are relative to the repository. Raises UsageError with file:line for one that is missing or wrong.
    """
    if config.llm.prompt is None and not config.incidents:
        return None
    from checklistbot.checklist.own import own
    from checklistbot.discovery.tree import Unreadable

    def read(pattern: str) -> Iterator[tuple[str, str]]:
        if tree is None:
            return
        relative = posixpath.relpath(pattern, tree.prefix) if tree.prefix else pattern
        several = any(character in relative for character in "*?[")
        paths = [path for path in tree.paths() if fnmatchcase(path, relative)] if several else [relative]
        for path in paths:
            try:
                yield path, tree.read(path)
            except Unreadable:
                continue

    return own(config, read)


def _read_file(path: str) -> str:
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise UsageError(
            f"{path}: cannot be read ({error.strerror or 'no such file'}); --config names a file"
        ) from None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UsageError(f"{path}:1: not UTF-8 text") from None


def read_evidence(paths: tuple[str, ...]) -> tuple[dict[str, Any], ...]:
    """The probe results of these files. Raises UsageError for one that is no evidence/1, InputError for one that cannot be read."""
    import json

    from checklistbot.strict_yaml import MAX_BYTES

    found = []
    for path in paths:
        try:
            data = Path(path).read_bytes()
        except OSError as error:
            raise InputError(f"{path}: cannot be read ({error.strerror or 'no such file'})") from None
        try:
            result = json.loads(data) if len(data) <= MAX_BYTES else None
        except (ValueError, RecursionError):
            result = None
        if not isinstance(result, dict) or result.get("schema") != "evidence/1":
            raise UsageError(f"{path}:1: not a probe's result (evidence/1 as JSON, up to 1 MiB)")
        found.append(result)
    return tuple(found)


def write_output(text: str, output: str | None) -> None:
    """Print, or write to ``--output FILE``; a link there is not followed (operations-and-attacks 39)."""
    if output is None or output == "-":
        click.echo(text, nl=not text.endswith("\n"))
        return
    from checklistbot.report.files import write_text

    write_text(Path(output), text if text.endswith("\n") else text + "\n")


def ending(facts: Facts, code: int = 0) -> int:
    """The exit code with what was named and not read: said in a line each, 3 unless the code is 1 (CONTRACTS, "Exit codes")."""
    say_unread(facts.unread)
    return code or (3 if facts.unread else 0)


def say_unread(lines: Iterable[str]) -> None:
    """What was named and could not be read, a line each on standard error."""
    from checklistbot.encode import redact, terminal

    for line in lines:
        click.echo(f"checklistbot: {redact(terminal(line))}", err=True)


def tell(settings: Settings, skipped: tuple[Skipped, ...]) -> None:
    """What was not read, on standard error: under -v each, else one line that says how many."""
    if settings.quiet:
        return
    if settings.verbose:
        click.echo(f"took {time.perf_counter() - _STARTED:.2f} s", err=True)
    if not skipped:
        return
    from checklistbot.encode import terminal

    if settings.verbose:
        for entry in skipped:
            click.echo(f"skipped: {terminal(entry.path)}: {terminal(entry.reason)}", err=True)
    else:
        click.echo(f"not read: {len(skipped)} input(s), see -v", err=True)


def rendering(kind: Kind | None, environ: Mapping[str, str]) -> AbstractContextManager[Renderer | None]:
    """The renderer that --render asks for; without it not even its module is loaded."""
    from contextlib import nullcontext

    if kind is None:
        return nullcontext()
    from checklistbot.commands._live import from_fork
    from checklistbot.discovery.render import renderer

    return renderer(kind, environ, fork=from_fork(environ))
