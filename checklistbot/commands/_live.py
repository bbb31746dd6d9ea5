"""Which endpoints of a config a command may ask, and which servers get the token (operations-and-attacks 24).

In a run on a pull request the work tree is the pull request's, so its config names nothing that is asked; for a fork's
nothing is asked at all. Outside of one the work tree's config is asked, but gets no token.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from checklistbot.config import Config
from checklistbot.model import UsageError

if TYPE_CHECKING:
    from checklistbot.facts import Inputs
    from checklistbot.observation.configured import Endpoints

#: Variables that CI systems set in a run on a pull or merge request; "false" is what some set elsewhere.
_PULL_REQUEST: Final = (
    "CI_MERGE_REQUEST_IID", "CHANGE_ID", "BITBUCKET_PR_ID", "SYSTEM_PULLREQUEST_PULLREQUESTID", "CIRCLE_PULL_REQUEST",
    "BUILDKITE_PULL_REQUEST", "TRAVIS_PULL_REQUEST", "DRONE_PULL_REQUEST",
)  # fmt: skip
_EVENT_BYTES: Final = 8 << 20


def of_work_tree(config: Config, named: Inputs, environ: Mapping[str, str], *, base: Config | None = None) -> Endpoints:
    """For ``facts`` and ``check``: the config is the work tree's, ``base`` that of ``--base`` if there is one."""
    from checklistbot.observation.configured import Endpoints, addresses

    known = addresses(base) if base is not None else frozenset()
    argv = frozenset(named.endpoints)
    if from_fork(environ):
        return Endpoints(argv, known, frozenset(), "this run is a fork's", environ)
    if on_pull_request(environ):
        why = "this pull request's own config names it; what the base's names is asked by checklistbot review and check --base"
        return Endpoints(argv, known, known | argv, why, environ)
    return Endpoints(argv, known, environ=environ)


def of_base(config: Config, endpoints: tuple[str, ...], environ: Mapping[str, str]) -> Endpoints:
    """For ``review``: the config is the base's, or one that the command line names by its path on this machine."""
    from checklistbot.observation.configured import Endpoints, addresses

    known = addresses(config)
    if from_fork(environ):
        return Endpoints(frozenset(endpoints), known, frozenset(), "this pull request comes from a fork", environ)
    return Endpoints(frozenset(endpoints), known, environ=environ)


def on_pull_request(environ: Mapping[str, str]) -> bool:
    """True in a run of a CI system on a pull or merge request."""
    if environ.get("GITHUB_EVENT_NAME", "").startswith(("pull_request", "merge_group")):
        return True
    return any(environ.get(name, "false").strip() not in ("", "false") for name in _PULL_REQUEST)


def from_fork(environ: Mapping[str, str]) -> bool:
    """True in a run on a pull request of a fork, and where that cannot be told."""
    name = environ.get("GITHUB_EVENT_NAME", "")
    if name in ("workflow_run", "pull_request_target"):
        return True  # they run with the base's rights, on behalf of whoever opened the pull request
    if not name.startswith("pull_request"):
        return False
    from checklistbot.github.event import read_event

    try:
        with Path(environ.get("GITHUB_EVENT_PATH", "")).open("rb") as stream:
            payload = json.loads(stream.read(_EVENT_BYTES))
        return read_event({**environ, "GITHUB_EVENT_NAME": "pull_request"}, payload).fork
    except (OSError, ValueError, TypeError, AttributeError, RecursionError, UsageError):
        return True
