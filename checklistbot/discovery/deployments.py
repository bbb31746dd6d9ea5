"""Launches → deployments: which files are read, what is one deployment, how it is called."""

from __future__ import annotations

import dataclasses
import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Final

from checklistbot import engines
from checklistbot.discovery import limits, syntax
from checklistbot.discovery.base import Format, formats
from checklistbot.discovery.tree import Also, Tree, Unreadable, only_file
from checklistbot.engines.base import Launch, without_marks
from checklistbot.lazy import pattern
from checklistbot.model import Deployment, Skipped, declared
from checklistbot.record import record

#: How YAML and JSON spell an ordinary letter where the engine's name shall not be found by its letters.
_ESCAPED: Final = Also(frozenset((b"\\u00", b"\\U0000", b"\\x")), (".yaml", ".yml", ".json"))
_TRIPPED: Final = (ArithmeticError, AttributeError, LookupError, MemoryError, RecursionError, TypeError, ValueError)


@record
class Discovered:
    """What a tree deploys."""

    deployments: tuple[Deployment, ...]
    skipped: tuple[Skipped, ...]
    files_read: int


#: Path → the formats that claim the file.
Claimed = dict[str, list[Format]]


def discover(tree: Tree, exclude: Sequence[str] = ()) -> Discovered:
    """Reads every candidate file by the formats that claim it."""
    skipped: list[Skipped] = []
    texts = dict(_texts(tree, exclude, skipped))
    claimed = {path: [form for form in formats() if form.claims(path, body)] for path, body in texts.items()}
    consumed = _consumed(tree, texts, claimed)
    with limits.stored():
        found = _found(tree, texts, claimed, consumed, skipped)
    skipped += _broken(texts, consumed, {launch.path for launch, _ in found})
    found = _run_by_manifests(found)
    found = [pair for pair in found if pair[0].format != "engine-config" or not _referenced(pair[0].path, texts)]
    deployments = named(merged(paired([pair for pair in found if not _embeds(pair[1])])))
    # Files may be met again while others are read (configs, env files), so the tree's own list comes last.
    return Discovered(tuple(deployments), tuple(dict.fromkeys([*tree.skipped, *skipped])), tree.files_seen)


def _found(
    tree: Tree, texts: dict[str, str], claimed: Claimed, consumed: dict[str, set[str]], skipped: list[Skipped]
) -> list[tuple[Launch, Deployment]]:
    """What each file starts, by each format that claims it."""
    found: list[tuple[Launch, Deployment]] = []
    for path, body in texts.items():
        for form in claimed[path]:
            if path not in consumed or form.name in consumed[path]:
                with limits.watched() as left_out:
                    try:
                        found += _judged(form.launches(tree, path, body))
                    except _TRIPPED:
                        # A reader that trips over hostile input must not hide the other files, nor be silent about this one.
                        skipped.append(Skipped(path, f"{limits.UNREAD}{form.name}"))
                if left_out:
                    skipped.append(Skipped(path, limits.TOO_MUCH))
    return found


def _broken(texts: dict[str, str], consumed: dict[str, set[str]], deploying: set[str]) -> Iterator[Skipped]:
    """Files that are not the YAML or JSON that they say they are. A template is none before it is rendered: it counts only where nobody
    renders it and nothing was found in it."""
    for path, body in texts.items():
        if syntax.template(body) and (path in consumed or path in deploying):
            continue
        reason = syntax.broken(path, body)
        if reason is not None:
            yield Skipped(path, reason)


def _run_by_manifests(found: list[tuple[Launch, Deployment]]) -> list[tuple[Launch, Deployment]]:
    """A script that a service, an image or a unit runs is what that one starts, not a deployment of its own beside it."""
    run = {(launch.path, launch.line) for launch, _ in found if launch.format in _RUN_SCRIPTS}
    return [pair for pair in found if pair[0].format != "shell" or (pair[0].path, pair[0].line) not in run]


#: Formats that report a script's server at its line in the script.
_RUN_SCRIPTS: Final = frozenset(("compose", "dockerfile", "systemd", "supervisord"))


def _texts(tree: Tree, exclude: Sequence[str], skipped: list[Skipped]) -> Iterator[tuple[str, str]]:
    words = {word for engine in engines.registry().values() for word in engine.words}
    words.update(word for form in formats() for word in form.words)
    answer = tree.searching(words, _ESCAPED)
    candidates = set(tree.named([glob for form in formats() for glob in form.anchors]))
    candidates.update(answer())
    candidates |= _mentioning(tree, candidates)
    named = only_file(tree)
    candidates |= {named} if named is not None else set()
    excluded = _matcher(exclude)
    for path in sorted(candidates):
        if excluded(path):
            continue
        try:
            yield path, without_marks(tree.read(path))
        except Unreadable as error:
            skipped.append(Skipped(path, str(error)))


_VARIABLES_FILE = pattern(
    r"(?:^|/)[^/]*\.(?:env|vars|defaults)(?:\.[\w-]+)?$|(?:^|/)\.env[^/]*$|(?:^|/)[^/]*(?:env|vars|config)\.sh$"
)


def _mentioning(tree: Tree, candidates: set[str]) -> set[str]:
    """Files that name a file of variables in which an engine word stands: a script that sources it may hold none itself."""
    names = {path.rpartition("/")[2].encode() for path in candidates if _VARIABLES_FILE.search(path)}
    names = {name for name in names if len(name) > 4}
    return set(tree.candidates(names)) if names else set()


def _matcher(globs: Sequence[str]) -> Callable[[str], bool]:
    """True for a path that one of the globs matches; ``**`` crosses folders, as does a leading folder alone."""
    patterns = [glob.rstrip("/") for glob in globs]

    def matches(path: str) -> bool:
        return any(fnmatchcase(path, glob) or fnmatchcase(path, glob + "/*") for glob in patterns)

    return matches


def _consumed(tree: Tree, texts: dict[str, str], claimed: Claimed) -> dict[str, set[str]]:
    """Files that another file renders → the formats that render them."""
    consumed: dict[str, set[str]] = {}
    for path, body in texts.items():
        for form in claimed[path]:
            for other in form.consumes(tree, path, body):
                consumed.setdefault(other, set()).add(form.name)
    return consumed


def _judged(launches: Iterable[Launch]) -> Iterator[tuple[Launch, Deployment]]:
    """The launches that some engine takes for its server, with what it reads from them."""
    for launch in launches:
        for engine in engines.registry().values():
            if engine.serves(launch):
                deployment = engine.deployment(launch)
                if deployment is not None:
                    yield launch, deployment
                    break


def _referenced(path: str, texts: dict[str, str]) -> bool:
    """True for a configuration file that another file of the tree names: its command is the deployment."""
    name = path.rpartition("/")[2]
    return any(name in body for other, body in texts.items() if other != path)


_EMBEDDING = pattern(r"(?i)(?:^|[-_/.])(?:embed(?:ding|dings|der)?)(?=$|[-_/.\d])")


def _embeds(deployment: Deployment) -> bool:
    """True for servers of embeddings: they generate nothing, hand over nothing, and promise no context."""
    if any(
        flag.name in ("is-embedding", "embedding", "embeddings") and flag.value in (None, True)
        for flag in deployment.flags
    ):
        return True
    return any(_EMBEDDING.search(fact.text() or "") for fact in (deployment.model, deployment.served_model_name))


def paired(found: Sequence[tuple[Launch, Deployment]]) -> list[tuple[Launch, Deployment]]:
    """Roles that only show in pairs: names that differ in prefill and decode, and Dynamo's decode worker, which has no flag."""
    places: dict[tuple[object, ...], list[int]] = {}
    for at, (launch, deployment) in enumerate(found):
        key = (launch.environment, launch.path.rpartition("/")[0], deployment.engine.value, deployment.model.value)
        places.setdefault(key, []).append(at)
    result = list(found)
    for members in places.values():
        roles = [_role_named(*found[at]) for at in members]
        if set(roles) >= {"prefill", "decode"}:
            for at, role in zip(members, roles, strict=True):
                if role is not None and result[at][1].role.kind == "default":
                    result[at] = (found[at][0], _with_role(*found[at], role))
        elif any(found[at][1].role.value == "prefill" and _dynamo(found[at][0]) for at in members):
            for at in members:
                if (
                    _dynamo(found[at][0])
                    and found[at][1].role.kind == "default"
                    and found[at][0].path == found[members[0]][0].path
                ):
                    result[at] = (found[at][0], _with_role(*found[at], "decode"))
    return result


def _role_named(launch: Launch, deployment: Deployment) -> str | None:
    from checklistbot.engines._build import role_word

    if deployment.role.kind != "default":
        return str(deployment.role.value)
    names = (launch.qualifier, launch.name, launch.path.rpartition("/")[2])
    return next((role for role in map(role_word, names) if role is not None), None)


def _with_role(launch: Launch, deployment: Deployment, role: str) -> Deployment:
    return deployment.replace(role=declared(role, launch.path, launch.line))


def _dynamo(launch: Launch) -> bool:
    return any((word.text or "").startswith("dynamo.") for word in launch.argv[:6])


# --- what is one deployment ----------------------------------------------------------------------------------------------

#: Facts that two launches of one line must share to be copies of one server.
_SAME: Final = (
    "role",
    "engine",
    "model",
    "served_model_name",
    "context_length",
    "kv_pool_tokens",
    "memory_fraction",
    "tensor_parallel",
    "image",
)


def merged(found: Sequence[tuple[Launch, Deployment]]) -> list[tuple[Launch, Deployment]]:
    """Equal servers of one launch line (a loop over ports) become one deployment with that many replicas."""
    groups: dict[tuple[object, ...], list[tuple[Launch, Deployment]]] = {}
    for launch, deployment in found:
        values = tuple(deployment.fact(name).value for name in _SAME)
        key = (deployment.environment, deployment.file, deployment.line, deployment.name, launch.format, *values)
        groups.setdefault(key, []).append((launch, deployment))
    joined = [(members[0][0], _as_one([deployment for _, deployment in members])) for members in groups.values()]
    return _without_workers(joined)


_RANK = pattern(r"--?(?:node[-_]rank|headless)(?:=.*)?$")


def _without_workers(found: list[tuple[Launch, Deployment]]) -> list[tuple[Launch, Deployment]]:
    """A script that starts the leader on one line and the workers of the same group on another starts one server."""
    from checklistbot.discovery.kubernetes import shape_of

    kept: dict[tuple[object, ...], tuple[Launch, Deployment]] = {}
    for at, (launch, deployment) in enumerate(found):
        ranked = any(_RANK.match(word.shown) for word in launch.argv)
        key: tuple[object, ...] = (at,)
        if ranked and launch.format in ("shell", "makefile", "python"):
            key = (deployment.environment, deployment.file, deployment.role.value, shape_of(launch))
        kept.setdefault(key, (launch, deployment))
    return list(kept.values())


def _as_one(members: list[Deployment]) -> Deployment:
    first = members[0]
    if len(members) == 1 or first.replicas.known:
        return first
    return first.replace(replicas=declared(len(members), first.file, first.line))


# --- names ---------------------------------------------------------------------------------------------------------------

_ROLE_PART = pattern(
    r"(?i)(?:^|[-_.])(?:prefill|decode)(?:er|r)?(?:[-_.]?worker)?(?=$|[-_.])|(?:prefill|decode)(?:worker)?$"
)


def group_of(deployment: Deployment) -> str:
    """Served model name, else the model's last path element, else the workload's name without its role word."""
    served = deployment.served_model_name.text()
    if served:
        return _slug(re.split(r"[\s,]+", served.strip())[0])
    model = deployment.model.text()
    if model:
        return _slug(re.split(r"[/\\]", model.rstrip("/\\"))[-1] or model)
    return _slug(_ROLE_PART.sub("", deployment.name).strip("-_.") or deployment.name)


def _slug(text: str) -> str:
    return re.sub(r"[^\w.:@+-]+", "-", text).strip("-")[:120] or "unnamed"


def named(found: Sequence[tuple[Launch, Deployment]]) -> list[Deployment]:
    """The deployments with group and id; ``@`` and what tells them apart follow where an id is not unique.

    First the object, service or unit; then the function or loop key; then the file; last a digest of the flags. Never an ordinal
    of the file or a line number: both change when somebody edits something else.
    """
    grouped = [d.replace(group=group_of(d)) for _, d in found]
    plain = [f"{d.environment}/{d.group}/{d.role.value or 'unified'}" for d in grouped]
    ids = list(plain)
    for qualify in _QUALIFIERS:
        counts = {one: ids.count(one) for one in set(ids)}
        if max(counts.values(), default=0) < 2:
            break
        candidates = zip(ids, plain, found, strict=True)
        ids = [f"{base}@{_slug(qualify(*pair))}" if counts[one] > 1 else one for one, base, pair in candidates]
    return [dataclasses.replace(d, id=one) for d, one in zip(grouped, _distinct(ids), strict=True)]


def _flags_digest(launch: Launch, deployment: Deployment) -> str:
    text = "\n".join(flag.raw for flag in deployment.flags)
    return f"{launch.name}-{hashlib.sha256(text.encode('utf-8', 'replace')).hexdigest()[:8]}"


_QUALIFIERS: Final[tuple[Callable[[Launch, Deployment], str], ...]] = (
    lambda launch, deployment: launch.name,
    lambda launch, deployment: launch.qualifier or launch.name,
    lambda launch, deployment: deployment.file or launch.name,
    lambda launch, deployment: f"{deployment.file}:{launch.qualifier or launch.name}",
    _flags_digest,
)


def _distinct(ids: Sequence[str]) -> Iterator[str]:
    seen: dict[str, int] = {}
    for one in ids:
        seen[one] = seen.get(one, 0) + 1
        yield one if seen[one] == 1 else f"{one}.{seen[one]}"
