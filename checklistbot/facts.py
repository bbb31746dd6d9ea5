"""Facts of one state of a repository: discovery, config and observations merged by precedence (DESIGN, "The way of the data").

The floor between discovery/observation and the rules: it only joins what those two say. Declared values win over observed ones, except
that the pool an engine printed wins over a declared cap, which is only an upper bound (operations-and-attacks 10).
"""

from __future__ import annotations

import dataclasses
import io
import posixpath
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from checklistbot import engines
from checklistbot.config import Config, ImageEntry
from checklistbot.discovery import Discovered, discover, limits, syntax
from checklistbot.discovery.digests import digests
from checklistbot.discovery.tree import (
    BINARY,
    CLOSED,
    FORBIDDEN,
    LFS_POINTER,
    STDIN_PATH,
    TOO_LARGE,
    Tree,
    Unreadable,
    only_file,
)
from checklistbot.model import FACT_NAMES, Deployment, Fact, Facts, InputError, Skipped, Source, UsageError, merge
from checklistbot.record import mutable_record, record

if TYPE_CHECKING:
    from checklistbot.discovery.render import Renderer
    from checklistbot.observation.configured import Endpoints
    from checklistbot.observation.logs import LogReading

#: Facts that no observation speaks for: what a request is promised is what the repository says it is.
_DECLARED_FIRST = tuple(name for name in FACT_NAMES if name not in ("kv_pool_tokens", "served_context"))


@record
class Inputs:
    """What was named on the command line beside PATH. Logs are paths or "-"; endpoints are addresses."""

    logs: tuple[str, ...] = ()
    endpoints: tuple[str, ...] = ()
    observed: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.logs or self.endpoints or self.observed)


@mutable_record
class _Gathering:
    """The servers that were observed, and what could not be read."""

    servers: list[tuple[Deployment, str]] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)
    not_started: list[tuple[str, str]] = field(default_factory=list)


@record
class LogSource:
    """Where the logs that the config names are read. ``added`` is the reviewed state, from which a log that differs is taken too, but
    only to the worse (operations-and-attacks 5)."""

    tree: Tree | None
    added: Tree | None = None


@record
class LiveSource:
    """Who asks the endpoints that the config names. ``changed`` names the inputs of a deployment that differ from what runs there, as far
    as Git tells (None: it does not)."""

    endpoints: Endpoints
    changed: Callable[[Deployment], frozenset[str] | None] | None = None


def gather(
    tree: Tree | None,
    config: Config,
    inputs: Inputs | None = None,
    *,
    logs: LogSource | None = None,
    live: LiveSource | None = None,
    renderer: Renderer | None = None,
    changed: Callable[[Deployment, str], frozenset[str] | None] | None = None,
) -> Facts:
    """The facts of ``tree`` under ``config``; without a tree only what was observed.

    ``logs`` says where the config's logs are read (default: ``tree`` itself), ``live`` who asks its endpoints (default: nobody),
    ``renderer`` which program renders charts or kustomizations (default: our own substitution).
    ``changed`` names the inputs of a deployment that changed in Git after the log at that path did; without it only what the log states
    is compared. A log or endpoint that was named and cannot be read is in ``Facts.unread``.
    """
    named = _named(inputs or Inputs())
    if tree is None:
        members = [_finish(server) for server, _ in named.servers]
        return Facts(
            tuple(members),
            digests(members),
            tuple(named.skipped),
            unread=tuple(named.unread),
            not_started=tuple(named.not_started),
        )
    found = _discovered(tree, config, renderer)
    if not found.deployments:
        _refuse_a_log(tree)
    source = logs or LogSource(tree)
    skipped = list(found.skipped)
    if renderer is not None:
        skipped += renderer.skipped
        named.unread += [line for line in renderer.unread if line not in named.unread]
    named.unread += _unread_path(tree, found.skipped)
    members = []
    for deployment in found.deployments:
        settled = _settle(deployment, config)
        settled = _observe(settled, config, source, skipped, changed)
        members.append(_ask(settled, config, live, named) if live else settled)
    members = _attach_named(members, named)
    members = [_finish(member) for member in members]
    skipped += named.skipped
    return Facts(
        tuple(members),
        digests(members),
        tuple(dict.fromkeys(skipped)),
        found.files_read,
        unread=tuple(named.unread),
        not_started=tuple(named.not_started),
    )


def _discovered(tree: Tree, config: Config, renderer: Renderer | None) -> Discovered:
    if renderer is None:
        return discover(tree, config.exclude)
    from checklistbot.discovery.render import using

    with using(renderer):
        return discover(tree, config.exclude)


def _refuse_a_log(tree: Tree) -> None:
    """Raises UsageError where PATH is one file and that is a start-up log: "nothing deployed here" would be read as green."""
    path = only_file(tree)
    if path is None:
        return
    try:
        starts = _reading(tree.read(path), path).servers
    except Unreadable:
        return
    # An image's name alone makes a server of a text that is no log.
    if any(start.kv_pool_tokens.known or start.served_context.known or start.context_length.known for start in starts):
        name = "standard input" if path == STDIN_PATH else path
        raise UsageError(f"{name}: a start-up log, not a manifest; give it as --log {path}")


#: Reasons under which a file was opened and not understood, or could not be opened.
_UNREADABLE: Final = (BINARY, FORBIDDEN, TOO_LARGE, CLOSED, LFS_POINTER, limits.TOO_MUCH)


def _unread_path(tree: Tree, skipped: Iterable[Skipped]) -> Iterator[str]:
    """A line where PATH itself could not be read: one file, standard input, or a folder that may not be listed."""
    only = only_file(tree)
    for entry in skipped:
        if only is None and (entry.path, entry.reason) != (".", FORBIDDEN):
            continue
        if entry.path not in (only, "."):
            continue
        if entry.reason in _UNREADABLE or entry.reason.startswith((syntax.BROKEN, limits.UNREAD)):
            line = syntax.line_of(entry.reason)
            place = "standard input" if only == STDIN_PATH else "PATH" if only is None else entry.path
            mend = "pipe rendered manifests into it" if only == STDIN_PATH else "nothing in it is checked"
            yield f"{place}{f':{line}' if line else ''}: {entry.reason}; {mend}"


# --- config ------------------------------------------------------------------------------------------------------------


def _settle(deployment: Deployment, config: Config) -> Deployment:
    """What the config says about an image or a deployment fills what the manifests leave open."""
    changes: dict[str, Fact] = {}
    image = deployment.image.text()
    entry = next((e for e in config.images if image and fnmatchcase(image, e.match)), None)
    if entry is not None:
        changes.update(_from_image(deployment, entry, config))
    settings = config.entry_for(deployment)
    for name, located in (settings.facts if settings else {}).items():
        fact = Fact(located.value, Source("declared", config.path, located.line))
        changes[name] = merge([changes.get(name, deployment.fact(name)), fact], fact)
    return _with_gpu(deployment.replace(**changes) if changes else deployment)


def _with_gpu(deployment: Deployment) -> Deployment:
    """The GPU under its id of knowledge/accelerators; what is not there stays as it is written (CONTRACTS)."""
    name = deployment.gpu.text()
    if not name:
        return deployment
    from checklistbot.knowledge.accelerators import find

    found = find(name)
    if found is None:
        return deployment.replace(gpu_known=False)
    return deployment.replace(gpu=deployment.gpu.replace(value=found.id), gpu_known=True)


def _from_image(deployment: Deployment, entry: ImageEntry, config: Config) -> Iterator[tuple[str, Fact]]:
    """An image entry outranks a tag: it exists because the tag does not say it."""
    source = Source("declared", config.path, entry.line)
    if entry.version is not None:
        yield "engine_version", merge([Fact(entry.version, source), deployment.engine_version], Fact())
    if entry.engine is not None and not deployment.engine.known:
        yield "engine", Fact(entry.engine, source)


# --- observations ------------------------------------------------------------------------------------------------------


def _named(inputs: Inputs) -> _Gathering:
    """What the command line names. One input that cannot be read does not lose the others."""
    gathering = _Gathering()
    readers = ((inputs.logs, _read_log), (inputs.endpoints, _read_endpoint), (inputs.observed, _read_observed))
    for names, read in readers:
        for name in names:
            try:
                gathering.servers += [(server, name) for server in read(name, gathering)]
            except InputError as error:
                gathering.unread.append(str(error))
    return gathering


def _read_log(path: str, gathering: _Gathering) -> Iterable[Deployment]:
    from checklistbot.observation.logs import open_log

    reading = open_log(path)
    gathering.skipped += reading.skipped
    if reading.cut:
        gathering.unread.append(f"{path}: not read to its end ({_reasons(reading)}); give a shorter or a whole log")
    fatal = {extra.fatal for extra in reading.extras.values() if extra.fatal}
    gathering.not_started += [(path, why) for why in sorted(fatal)]
    if not reading.servers:
        gathering.skipped.append(Skipped(path, "no start-up lines of a known engine"))
    return reading.servers


def _reasons(reading: LogReading) -> str:
    return "; ".join(entry.reason for entry in reading.skipped) or "too long"


def _read_endpoint(url: str, gathering: _Gathering) -> Iterable[Deployment]:
    from checklistbot.observation.endpoints import observe_endpoint

    reading = observe_endpoint(url)
    gathering.skipped += reading.skipped
    return reading.servers


def _read_observed(path: str, gathering: _Gathering) -> Iterable[Deployment]:
    """The observed facts of another run's facts/1."""
    from checklistbot.observation.facts_file import read_facts_file

    return read_facts_file(path).deployments


def _observe(
    deployment: Deployment,
    config: Config,
    source: LogSource,
    skipped: list[Skipped],
    changed: Callable[[Deployment, str], frozenset[str] | None] | None,
) -> Deployment:
    settings = config.entry_for(deployment)
    if settings is None:
        return deployment
    for located in settings.logs:
        merged = _matching(source.tree, str(located.value))
        added = [path for path in _matching(source.added, str(located.value)) if _differs(source, path)]
        if not merged and not added:
            skipped.append(Skipped(str(located.value), f"no such file, named in {config.path}:{located.line}"))
        for path in merged:
            newer = changed(deployment, path) if changed else None
            deployment = _join(deployment, _tree_log(source.tree, path, skipped), path, newer, skipped)
        for path in added:
            servers = _tree_log(source.added, path, skipped)
            after = _join(deployment, servers, path, None, skipped, certain=True)
            deployment = _only_worse(deployment, after)
            skipped.append(
                Skipped(
                    path,
                    "added or changed by this pull request: before it is merged it can make a verdict worse, not better",
                )
            )
    return deployment


def _ask(deployment: Deployment, config: Config, live: LiveSource, named: _Gathering) -> Deployment:
    """The deployment with what the endpoints say that the config ties to it. Several servers that can be it are its replicas: each must
    hold a request by itself, so the smallest pool counts."""
    settings = config.entry_for(deployment)
    replicas = 0
    for located in settings.endpoints if settings else ():
        url = str(located.value)
        asked = live.endpoints.ask(url, f"{config.path}:{located.line}")
        named.skipped += asked.skipped
        if asked.unread and asked.unread not in named.unread:
            named.unread.append(asked.unread)
        # The config ties this address; on the command line it need not be told apart again.
        named.servers = [(server, name) for server, name in named.servers if name != url]
        mine = [server for server in asked.servers if _could_be(deployment, server)]
        if asked.servers and not mine:
            named.skipped.append(Skipped(url, f"no server there can be {deployment.id}"))
        replicas += len(mine)
        newer = live.changed(deployment) if live.changed else None
        for server in mine:
            deployment = _with(deployment, server, newer)
    stated = deployment.replicas.number()
    if replicas and stated and replicas < stated:
        named.skipped.append(Skipped(deployment.id, f"{replicas} of {stated:.0f} replicas observed"))
    return deployment


def _matching(tree: Tree | None, pattern: str) -> list[str]:
    """The files that a repository-relative glob names, relative to PATH as all of a tree's paths are."""
    if tree is None:
        return []
    relative = posixpath.relpath(pattern, tree.prefix) if tree.prefix else pattern
    if not any(character in relative for character in "*?["):
        return [relative] if tree.exists(relative) else []
    return [path for path in tree.paths() if fnmatchcase(path, relative)]


def _differs(source: LogSource, path: str) -> bool:
    if source.added is None or source.tree is None:
        return source.added is not None
    try:
        return not source.tree.exists(path) or source.tree.read(path) != source.added.read(path)
    except Unreadable:
        return True


@lru_cache(maxsize=4)
def _reading(text: str, path: str) -> LogReading:
    """What a committed log says; base and head of a review mostly hold the same one."""
    from checklistbot.observation.logs import read_log

    return read_log(io.BytesIO(text.encode("utf-8", "replace")), path)


def _tree_log(tree: Tree | None, path: str, skipped: list[Skipped]) -> tuple[Deployment, ...]:
    if tree is None:
        return ()
    try:
        reading = _reading(tree.read(path), path)
    except Unreadable as error:
        skipped.append(Skipped(path, str(error)))
        return ()
    skipped += reading.skipped
    if reading.cut:
        skipped.append(Skipped(path, "cut short: not read to its end"))
        return ()
    if not reading.servers:
        skipped.append(Skipped(path, "no start-up lines of a known engine"))
    return reading.servers


def _join(
    deployment: Deployment,
    servers: Sequence[Deployment],
    path: str,
    newer: frozenset[str] | None,
    skipped: list[Skipped],
    *,
    certain: bool = False,
) -> Deployment:
    """The deployment with what the one server that can be it says; several that could be it are ambiguous, and it is said."""
    candidates = [server for server in servers if _could_be(deployment, server)]
    if len(candidates) > 1:
        exact = [server for server in candidates if server.role.value == deployment.role.value]
        candidates = exact or candidates
    if len(candidates) != 1:
        if servers:
            why = "several servers in it could be" if candidates else "no server in it can be"
            skipped.append(Skipped(path, f"{why} {deployment.id}{_whose(servers)}"))
        return deployment
    return _with(deployment, candidates[0], newer, replace=certain)


def _whose(servers: Sequence[Deployment]) -> str:
    """What the log's servers are, so that the reader sees why they do not fit."""
    said = dict.fromkeys(
        f"{s.engine.text() or '?'} {_short(s.model) or _short(s.served_model_name) or '?'} ({s.role.value})"
        for s in servers
    )
    return f"; it is of {', '.join(list(said)[:3])}"


def _could_be(deployment: Deployment, server: Deployment) -> bool:
    """Engine, model and role do not contradict; what a log does not say contradicts nothing."""
    if server.engine.value != deployment.engine.value:
        return False
    if server.role.kind == "observed" and server.role.value != deployment.role.value:
        return False
    names = {_short(deployment.model), _short(deployment.served_model_name)} - {None}
    said = {_short(server.model), _short(server.served_model_name)} - {None}
    return not names or not said or bool(names & said)


def _short(fact: Fact) -> str | None:
    text = fact.text()
    return text.rstrip("/").rsplit("/", 1)[-1].lower() if text else None


def _with(
    deployment: Deployment, server: Deployment, newer: frozenset[str] | None, *, replace: bool = False
) -> Deployment:
    from checklistbot.observation.compare import compare

    changes: dict[str, Fact] = {}
    for name in _DECLARED_FIRST:
        mine, theirs = deployment.fact(name), server.fact(name)
        if name == "role" or not theirs.known or theirs.kind == "default":
            continue
        changes[name] = merge([theirs, mine] if mine.kind == "default" else [mine, theirs], mine)
    pool = compare(
        server.kv_pool_tokens,
        deployment,
        engine=server.engine.text(),
        changed_after=_unstated(newer, server.kv_pool_tokens),
    )
    if newer is not None and pool.observation and not pool.stale:
        pool = pool.replace(observation=dataclasses.replace(pool.observation, unchanged_in_git=True))
    if pool.known:
        changes["kv_pool_tokens"] = pool if replace else _pool(deployment.kv_pool_tokens, pool)
    # What an engine says it serves, and whether a full request fits, holds only for the context it was said about.
    same = server.context_length.value == deployment.context_length.value or not deployment.context_length.known
    if same and not pool.stale and server.served_context.known:
        changes["served_context"] = server.served_context
    fits = server.fits_full_context if same and not pool.stale else None
    if fits is None or deployment.fits_full_context is False:
        fits = deployment.fits_full_context  # of several servers one that is too small decides
    printed = [deployment.full_requests, server.full_requests if same and not pool.stale else None]
    smallest = min((factor for factor in printed if factor is not None), default=None)
    return deployment.replace(**changes, fits_full_context=fits, full_requests=smallest)


def _unstated(newer: frozenset[str] | None, pool: Fact) -> frozenset[str]:
    """What Git says changed and the log does not state: of what it states, its own word is the better witness."""
    return (newer or frozenset()) - (pool.observation.taken_under.keys() if pool.observation else set())


def _pool(mine: Fact, theirs: Fact) -> Fact:
    """The pool of several sources: an earlier valid observation keeps the smaller value; a cap that is below wins over a stale pool."""
    if not mine.known:
        return theirs
    if mine.bound == "upper":
        smaller = theirs.stale and (mine.number() or 0) < (theirs.number() or 0)
        return merge([mine, theirs] if smaller else [theirs, mine], mine)
    if mine.kind == "declared":
        return merge([mine, theirs], mine)
    if theirs.stale != mine.stale:
        return merge([mine, theirs] if theirs.stale else [theirs, mine], mine)
    return merge(sorted([mine, theirs], key=lambda fact: fact.number() or 0), mine)


def _only_worse(before: Deployment, after: Deployment) -> Deployment:
    """The state with the smaller pool; where no pool was known, only one that is too small: what a pull request says about itself can
    make a verdict worse, not better."""
    known = before.kv_pool_tokens.number() if before.kv_pool_tokens.proven else before.context_length.number()
    new = after.kv_pool_tokens.number()
    return after if new is not None and known is not None and new < known else before


def _attach_named(members: list[Deployment], named: _Gathering) -> list[Deployment]:
    """Logs and endpoints of the command line, each tied to the one deployment that it can be. What names no model could be of any
    service: it proves nothing about this one until the config ties it (issue 3, "Observation")."""
    untied: dict[str, list[str]] = {}
    for server, name in named.servers:
        fitting = [i for i, member in enumerate(members) if _could_be(member, server)]
        exact = [i for i in fitting if members[i].role.value == server.role.value]
        fitting = exact if len(fitting) > 1 and exact else fitting
        if len(fitting) == 1 and (server.model.known or server.served_model_name.known):
            members[fitting[0]] = _with(members[fitting[0]], server, None)
            continue
        untied.setdefault(name, []).append(_untied(server, [members[i].id for i in fitting]))
    named.skipped += [Skipped(name, "; ".join(dict.fromkeys(reasons))) for name, reasons in untied.items()]
    return members


def _untied(server: Deployment, ids: Sequence[str]) -> str:
    """Why an observed server was taken for no deployment, and how to mend it."""
    if not ids:
        return f"no deployment found that it could be{_whose([server])}"
    if len(ids) > 1:
        return f"ambiguous: it could be {', '.join(ids[:3])}; name it in .checklistbot.yml"
    return f"it names no model, so nothing shows that it is of {ids[0]}; tie it to that in .checklistbot.yml (deployments: logs or endpoints)"


# --- what follows from the facts ---------------------------------------------------------------------------------------


def _finish(deployment: Deployment) -> Deployment:
    """Derived facts: the GPU's id, served context, first rejected length, whether a full-length request fits."""
    if deployment.gpu.kind == "observed":
        deployment = _with_gpu(deployment)
    engine = engines.get(deployment.engine.text())
    first = engine.first_rejected_length(deployment) if engine else None
    pool, length = deployment.kv_pool_tokens, deployment.context_length.number()
    fits = deployment.fits_full_context
    if fits is None and pool.number() is not None and length is not None and not pool.stale and _comparable(pool):
        fits = _fits(pool, length)
    return deployment.replace(first_rejected_length=first, fits_full_context=fits)


def _fits(pool: Fact, length: int) -> bool | None:
    """Pool ≥ context, from a proven pool; an upper bound can only show that it does not fit."""
    enough = (pool.number() or 0) >= length
    if pool.bound == "upper":
        return None if enough else False
    return enough if pool.proven else None


def _comparable(pool: Fact) -> bool:
    """False where vLLM's printed tokens cannot be held against the context: of hybrid models before 0.21 only the printed factor tells
    whether a full request fits, and that is the observation's own answer (engines/_vllm_log.py)."""
    return not (pool.observation and pool.observation.taken_under.get("pool_depends_on_context"))
