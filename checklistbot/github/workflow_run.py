"""The second half of the fork flow: what a fork's run was about is found out anew, and nothing it uploaded is believed.

A fork's ``pull_request`` run executes the fork's own copy of the workflow, so its artifact may say anything
(operations-and-attacks 1). In the ``workflow_run`` job, which runs the default branch's workflow, the pull request is looked for
by what only GitHub can say (the head repository's id and the head commit), and base and head are fetched as Git objects: there is
no checkout, and no file of the fork ever lies on the disk under its own name.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from checklistbot.discovery import git
from checklistbot.github.client import GitHub
from checklistbot.github.event import Event
from checklistbot.github.reading import Pull
from checklistbot.model import InputError


def find_pull(api: GitHub, event: Event) -> Pull | None:
    """The open pull request whose head repository and head commit are the run's; None where it is closed or has moved on.

    A branch name is not enough: another repository of the same owner, or the next one under a name that became free, can have it.

    Raises:
        GitHubError: GitHub did not answer.
    """
    found = [
        pull
        for pull in api.pulls_of(event.repository, event.head_ref)
        if pull.head_repo_id == event.head_repository and pull.head_sha == event.head and pull.base_sha
    ]
    # Two of one branch differ in their base; the run does not say which of them it was for.
    return min(found, key=lambda pull: pull.number, default=None)


def empty_repository(folder: Path, path: str) -> Path:
    """A repository without files or hooks at ``folder``, for objects to be fetched into; returns ``folder`` / ``path``.

    The folder of that name is made, empty: it tells the review which part of the tree to look at.

    Raises:
        InputError: git cannot make it.
    """
    folder.mkdir(parents=True)
    command = [
        "git",
        "-c",
        "core.hooksPath=/dev/null",
        "init",
        "--quiet",
        "--bare",
        "--template=",
        str(folder / ".git"),
    ]
    done = subprocess.run(
        command, cwd=folder, env=git.environment(), stdin=subprocess.DEVNULL, capture_output=True, check=False
    )
    if done.returncode:
        raise InputError(f"git init: exit {done.returncode}; is RUNNER_TEMP writable?")
    (folder / path).mkdir(parents=True, exist_ok=True)
    return folder / path
