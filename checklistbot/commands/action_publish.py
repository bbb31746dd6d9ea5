"""``checklistbot action_publish``: what the Action ``checklistbot-publish`` runs, in the job that holds the write token.

It reads no manifest, log or config: comment.md, report.json and check-runs.json come from the job before it, which recomputed
them, and are checked for size, form and commit before anything is posted.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Final, Literal, cast

import click

from checklistbot.commands import action
from checklistbot.config import CommentSettings
from checklistbot.github.event import read_event
from checklistbot.model import UsageError

_Mode = Literal["update", "recreate", "hide-and-recreate", "off"]
_MODES: Final = ("update", "recreate", "hide-and-recreate", "off")


def run(environment: Mapping[str, str]) -> int:
    """One run of the Action; returns the exit code of the step."""
    return action.guarded(environment, _decide)


def _decide(environment: Mapping[str, str]) -> action.Result:
    from checklistbot.commands import publish
    from checklistbot.github.comment import Target

    event = read_event(environment, action.read_payload(environment))
    if event.name != "workflow_run":
        raise UsageError(
            "checklistbot-publish runs on: workflow_run only; elsewhere the Action checklistbot posts by itself"
        )
    number = _given(
        environment, "PULL_REQUEST", r"[1-9][0-9]{0,9}|", "the output pull-request of the Action checklistbot"
    )
    if event.plan == "nothing" or not number:
        return action.Result(0, {}, (("notice", f"nothing to do: {event.why or 'no pull request'}"),))
    mode = _given(environment, "COMMENT_MODE", "|".join(_MODES), "update, recreate, hide-and-recreate or off")
    create = _given(environment, "CREATE", "true|false", "true or false") == "true"
    folder = action.below_temporary(environment, "report")
    line = publish.run(
        folder,
        Target(event.repository, int(number)),
        environment,
        replace(CommentSettings(), mode=cast(_Mode, mode)),
        create=create,
        head=event.head,
    )
    said, _, url = line.partition(": ")
    return action.Result(0, {"comment-url": url}, (("notice", said),))


def _given(environment: Mapping[str, str], name: str, form: str, meaning: str) -> str:
    value = environment.get(f"CHECKLISTBOT_INPUT_{name}", "")
    if not re.fullmatch(form, value):
        raise UsageError(f"input {name.lower().replace('_', '-')}: expected {meaning}")
    return value


@click.command(name="action_publish", hidden=True)
def command() -> None:
    """Post what the job before recomputed (called by the Action checklistbot-publish)."""
    raise SystemExit(run(os.environ))
