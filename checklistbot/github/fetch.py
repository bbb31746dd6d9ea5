"""Brings the commits of an event into a shallow checkout, by object id (operations-and-attacks 31).

``actions/checkout`` fetches one commit. Facts are compared with the merge base, and an observation's age is read from
the history, so what is missing is fetched here: from the repository's own address, with the token in an environment
variable that only this git process sees, never in argv and never in a configuration file.
"""

from __future__ import annotations

import base64
import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from checklistbot.discovery import git
from checklistbot.model import InputError, UsageError
from checklistbot.record import record

#: Seconds for one attempt.
_TIMEOUT_S: Final = 180
#: Commits behind each tip where the whole history is too large.
_DEPTH: Final = 200

#: On top of what every git call has (discovery/git.py): no helper, prompt or redirect may see the token.
_SETTINGS: Final = (
    "credential.helper=",
    "core.askPass=",
    "gc.auto=0",
    "maintenance.auto=false",
    "fetch.recurseSubmodules=false",
    "http.followRedirects=false",
)
_FETCH: Final = (
    "fetch",
    "--quiet",
    "--no-tags",
    "--no-write-fetch-head",
    "--no-recurse-submodules",
    "--no-auto-maintenance",
)
_LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})


@record
class Remote:
    """Where commits come from. ``url`` is https (http on loopback only); ``token`` is "" where none is needed."""

    url: str
    token: str = ""


@record
class Commits:
    """What is there now. ``base`` is None where it or the merge base could not be had; ``notice`` then says why."""

    base: str | None
    head: str
    notice: str = ""


def remote_of(environment: Mapping[str, str]) -> Remote:
    """The repository's address from GITHUB_SERVER_URL and GITHUB_REPOSITORY, the token from GITHUB_TOKEN.

    Raises:
        UsageError: the server is reached over plain http, or the address is none.
    """
    server = environment.get("GITHUB_SERVER_URL", "").rstrip("/")
    parts = urlsplit(server)
    secure = parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _LOOPBACK)
    if not secure or parts.username or parts.query or not re.fullmatch(r"[A-Za-z0-9.:/_\[\]-]+", server):
        raise UsageError("GITHUB_SERVER_URL: expected https://HOST")
    return Remote(f"{server}/{environment['GITHUB_REPOSITORY']}", environment.get("GITHUB_TOKEN", ""))


def ensure_commits(top: Path, base: str | None, head: str, remote: Remote) -> Commits:
    """Fetches ``head``, ``base`` and their merge base into the repository at ``top`` unless they are there.

    Args:
        top: folder that holds ``.git``.
        base: full object id, None if the event has none.
        head: full object id.

    Raises:
        InputError: ``head`` cannot be had; there is nothing to look at then.
    """
    repository = git.Repository(top)
    trouble = "" if _complete(repository, base, head) else _fetch_somehow(repository, remote, base, head)
    if not _has(repository, head):
        reason = trouble or "the server does not have it"
        raise InputError(f"commit {head[:12]} could not be fetched ({reason}); grant contents: read")
    if _complete(repository, base, head):
        return Commits(base, head)
    return Commits(None, head, f"base {str(base)[:12]} is not available ({trouble or 'no common history'})")


def _complete(repository: git.Repository, base: str | None, head: str) -> bool:
    """True if head, base and their merge base are there: in a shallow repository the latter can lie beyond the edge."""
    if base is None or not _has(repository, head):
        return _has(repository, head)
    return _has(repository, base) and repository.merge_base(base, head) is not None


def _has(repository: git.Repository, commit: str) -> bool:
    try:
        return repository.resolve(commit) == commit
    except UsageError:
        return False


def _fetch_somehow(repository: git.Repository, remote: Remote, base: str | None, head: str) -> str:
    """The whole history, else a bounded one, else head alone (base was force-pushed away). Returns what went wrong."""
    both = [head] if base is None else [base, head]
    for commits, depth in ((both, None), (both, _DEPTH), ([head], _DEPTH)):
        trouble = _fetch(repository, remote, commits, depth)
        if not trouble:
            break
    return trouble


def _fetch(repository: git.Repository, remote: Remote, commits: list[str], depth: int | None) -> str:
    """Fetches the commits with ``depth`` (None: everything behind them). Returns what went wrong, "" if nothing did."""
    options = [] if depth is None else [f"--depth={depth}"]
    if depth is None and repository.run("rev-parse", "--is-shallow-repository").strip() == b"true":
        options = ["--unshallow"]
    settings = (*_SETTINGS, f"protocol.{urlsplit(remote.url).scheme}.allow=always")
    before = [part for setting in settings for part in ("-c", setting)]
    try:
        done = subprocess.run(
            repository.command([*before, *_FETCH, *options, remote.url, *commits]),
            cwd=repository.top,
            env={**git.environment(), **_certificates(), **_authorization(remote)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"git fetch took more than {_TIMEOUT_S} s"
    # git's own text holds what the server said: the exit code is enough.
    return "" if done.returncode == 0 else f"git fetch: exit {done.returncode}"


def _certificates() -> dict[str, str]:
    """The runner's certificates: some are named by variables of git's own, which ``environment`` takes away."""
    return {name: value for name, value in os.environ.items() if name.startswith("GIT_SSL_")}


def _authorization(remote: Remote) -> dict[str, str]:
    """The header as configuration in the environment.

    The empty entry first drops a header that ``actions/checkout`` left in the configuration: GitHub answers 400 to two.
    The whole address as key makes ours the most specific one.
    """
    if not remote.token:
        return {}
    credentials = base64.b64encode(f"x-access-token:{remote.token}".encode()).decode()
    key = f"http.{remote.url}.extraHeader"
    return {
        "GIT_CONFIG_COUNT": "2",
        "GIT_CONFIG_KEY_0": key,
        "GIT_CONFIG_VALUE_0": "",
        "GIT_CONFIG_KEY_1": key,
        "GIT_CONFIG_VALUE_1": f"AUTHORIZATION: basic {credentials}",
    }
