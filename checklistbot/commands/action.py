"""``checklistbot action``: what the GitHub Action runs. Hidden, because its inputs are the Action's, not a person's.

Inputs arrive as CHECKLISTBOT_INPUT_* and GITHUB_*; the work is done by the function that ``review`` calls.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, cast

import click

from checklistbot.encode import github_output, redact, workflow_data
from checklistbot.github.event import Event, read_event
from checklistbot.model import ChecklistbotError, InputError, UsageError
from checklistbot.record import record

if TYPE_CHECKING:
    from checklistbot.commands.review import ReviewOptions, ReviewOutcome

#: GitHub drops a step summary of more than 1 MiB.
_SUMMARY_BYTES: Final = 1_000_000
_EVENT_BYTES: Final = 32 * 2**20
#: Seconds that judging ticks may take, waits included.
_TICKS_S: Final = 120.0

_REVISION: Final = r"[0-9A-Za-z][0-9A-Za-z._/-]{0,254}"
_RELATIVE_PATH: Final = r"(?!/)(?!(?:.*/)?\.\.(?:/|$))[^\x00-\x1f\x7f]{1,1000}"
#: Input → pattern of its whole value; an empty value means "not given". Written as a user writes them in a workflow.
_FORMS: Final[Mapping[str, tuple[str, str]]] = {
    "path": (rf"{_RELATIVE_PATH}|/[^\x00-\x1f\x7f]{{1,1000}}", "a folder or file of the checkout"),
    "config": (_RELATIVE_PATH, "a path inside the repository"),
    "lang": ("ko|en", "ko or en"),
    "fail-on": ("block|unknown|warn|never", "block, unknown, warn or never"),
    "provider": ("auto|openai|anthropic|builtin", "auto, openai, anthropic or builtin"),
    "model": (r"[0-9A-Za-z][0-9A-Za-z._:/@-]{0,199}", "a model id"),
    "require-llm": ("true|false", "true or false"),
    "comment": ("true|false", "true or false"),
    "issue": ("true|false", "true or false"),
    "output": (rf"{_RELATIVE_PATH}|/[^\x00-\x1f\x7f]{{1,1000}}", "a folder below RUNNER_TEMP"),
    "base": (_REVISION, "a commit, branch or tag"),
    "head": (_REVISION, "a commit, branch or tag"),
}


@record
class Inputs:
    """The Action's inputs, checked. ``path`` and ``output`` are absolute."""

    path: Path
    output: Path
    config: str | None
    lang: Literal["en", "ko"] | None
    fail_on: str | None
    provider: str | None
    model: str | None
    require_llm: bool
    comment: bool
    issue: bool
    base: str | None
    head: str | None


def read_inputs(environment: Mapping[str, str]) -> Inputs:
    """The inputs from CHECKLISTBOT_INPUT_NAME (upper case, ``_`` for ``-``).

    Raises:
        UsageError: a value has not the form of its input; it names the input, never the value.
    """
    given = {name: _checked(name, environment) for name in _FORMS}
    if (given["base"] is None) != (given["head"] is None):
        raise UsageError("inputs base and head: give both or neither")
    temporary = _folder(environment, "RUNNER_TEMP")
    workspace = _folder(environment, "GITHUB_WORKSPACE")
    return Inputs(
        path=_inside(workspace / (given["path"] or "."), (workspace, temporary), "path"),
        output=_inside(temporary / (given["output"] or "checklistbot-report"), (temporary,), "output"),
        config=given["config"],
        lang=cast('Literal["en", "ko"] | None', given["lang"]),
        fail_on=given["fail-on"],
        provider=given["provider"],
        model=given["model"],
        require_llm=given["require-llm"] == "true",
        comment=given["comment"] != "false",
        issue=given["issue"] == "true",
        base=given["base"],
        head=given["head"],
    )


def _checked(name: str, environment: Mapping[str, str]) -> str | None:
    value = environment.get(f"CHECKLISTBOT_INPUT_{name.upper().replace('-', '_')}", "")
    form, meaning = _FORMS[name]
    if value and not re.fullmatch(form, value):
        raise UsageError(f"input {name}: expected {meaning}")
    return value or None


def _folder(environment: Mapping[str, str], name: str) -> Path:
    value = environment.get(name, "")
    if not value or not Path(value).is_dir():
        raise UsageError(f"{name} names no folder; the Action runs inside a GitHub workflow only")
    return Path(value).resolve()


def _inside(path: Path, folders: tuple[Path, ...], name: str) -> Path:
    """The path with its links resolved, so that a link in the checkout cannot lead out of it."""
    resolved = path.resolve()
    if not any(resolved.is_relative_to(folder) for folder in folders):
        raise UsageError(f"input {name}: expected {_FORMS[name][1]}")
    return resolved


def below_temporary(environment: Mapping[str, str], name: str) -> Path:
    """The folder that an input names, below RUNNER_TEMP; raises UsageError where it leads out of it."""
    temporary = _folder(environment, "RUNNER_TEMP")
    value = environment.get(f"CHECKLISTBOT_INPUT_{name.upper().replace('-', '_')}", "")
    if not re.fullmatch(_FORMS["output"][0], value):
        raise UsageError(f"input {name}: expected {_FORMS['output'][1]}")
    resolved = (temporary / value).resolve()
    if not resolved.is_relative_to(temporary):
        raise UsageError(f"input {name}: expected {_FORMS['output'][1]}")
    return resolved


def read_payload(environment: Mapping[str, str]) -> Mapping[str, Any]:
    """The event file at GITHUB_EVENT_PATH.

    Raises:
        UsageError: it is missing, too large or no JSON object.
    """
    path = environment.get("GITHUB_EVENT_PATH", "")
    try:
        with Path(path).open("rb") as file:
            data = file.read(_EVENT_BYTES + 1)
        payload = json.loads(data) if len(data) <= _EVENT_BYTES else None
    except (OSError, ValueError, RecursionError):
        payload = None
    if not isinstance(payload, dict):
        raise UsageError("GITHUB_EVENT_PATH names no event file; the Action runs inside a GitHub workflow only")
    return payload


# --- the run ----------------------------------------------------------------------------------------------------------


@record
class Result:
    """What the step ends with: exit code, outputs, what is shown as an annotation (level, message), and the lines that findings
    are about as ready workflow commands."""

    exit_code: int
    outputs: Mapping[str, str]
    annotations: tuple[tuple[str, str], ...] = ()
    commands: tuple[str, ...] = ()


def run(environment: Mapping[str, str]) -> int:
    """One run of the Action; returns the exit code of the step."""
    return guarded(environment, _decide)


def guarded(environment: Mapping[str, str], decide: Callable[[Mapping[str, str]], Result]) -> int:
    """``decide`` between stopped workflow commands; then its annotations and outputs. Returns the exit code of the step."""
    with _commands_stopped():
        result = _result(environment, decide)
    for level, message in result.annotations:
        click.echo(f"::{level} title=checklistbot::{workflow_data(redact(message))}")
    for command in result.commands:
        click.echo(command)
    _append(environment.get("GITHUB_OUTPUT"), "".join(github_output(n, v) for n, v in result.outputs.items()))
    return result.exit_code


def _result(environment: Mapping[str, str], decide: Callable[[Mapping[str, str]], Result]) -> Result:
    try:
        return decide(environment)
    except ChecklistbotError as error:
        return Result(error.exit_code, {}, (("error", str(error)),))


def _decide(environment: Mapping[str, str]) -> Result:
    event = read_event(environment, read_payload(environment))
    if event.plan == "refused":
        raise UsageError(event.why)
    if event.plan == "nothing":
        return Result(0, {}, (("notice", f"nothing to do: {event.why}"),))
    if event.plan == "ticks":
        return _ticks(event, environment)
    if event.plan == "recompute":
        return _recompute(read_inputs(environment), event, environment)
    return _review(read_inputs(environment), event, environment)


def _ticks(event: Event, environment: Mapping[str, str]) -> Result:
    """A comment was edited: who ticked what. No manifest is read and no LLM asked; what is required stands in the check run."""
    from datetime import UTC

    from checklistbot import clock
    from checklistbot.github import ticks
    from checklistbot.github.client import GitHub, GitHubError, api_url_of
    from checklistbot.retry import Deadline

    now = clock.now(environment).astimezone(UTC).isoformat().replace("+00:00", "Z")
    api = GitHub(environment.get("GITHUB_TOKEN", ""), deadline=Deadline(_TICKS_S), api_url=api_url_of(environment))
    try:
        comment = api.comment(event.repository, event.comment_id or 0)
        edited = ticks.Edited(comment.id, event.before, comment.body, event.sender)
        run = ticks.again(api, event.repository, event.pull_request or 0, comment, edited, now)
    except GitHubError as error:
        raise InputError(
            f"the ticks could not be judged: {error}; edit the comment again or re-run this job"
        ) from error
    finally:
        api.close()
    if run is None:
        return Result(0, {}, (("notice", "nothing to do: not our comment, or no ticks are required at this head"),))
    standing = run.conclusion or "pending"
    return Result(0, {"conclusion": standing}, (("notice", f"checklistbot / checklist: {standing}"),))


def _review(inputs: Inputs, event: Event, environment: Mapping[str, str]) -> Result:
    from checklistbot.commands.review import run_review

    event, notice = _with_commits(inputs, event, environment)
    outcome = run_review(_options(inputs, event, environment))
    _append(environment.get("GITHUB_STEP_SUMMARY"), _summary(outcome))
    warnings = (notice, *outcome.warnings) if notice else outcome.warnings
    shown = tuple(("warning", warning) for warning in warnings)
    if inputs.issue and event.name in ("schedule", "workflow_dispatch"):
        shown += (_keep_issue(outcome, event, environment),)
    return Result(outcome.exit_code, _outputs(outcome), shown, outcome.annotations)


def _keep_issue(outcome: ReviewOutcome, event: Event, environment: Mapping[str, str]) -> tuple[str, str]:
    """The nightly issue brought up to date, and the annotation that says so; a failure of GitHub's is a warning."""
    from checklistbot.github.client import GitHub, api_url_of
    from checklistbot.github.issue import keep
    from checklistbot.github.marker import split
    from checklistbot.retry import Deadline

    if outcome.output_dir is None:
        return "warning", "no issue: no report was written"
    body, marker = split((outcome.output_dir / "comment.md").read_text("utf-8"))
    if marker is None:
        return "warning", "no issue: the report has no marker"
    try:
        api = GitHub(environment.get("GITHUB_TOKEN", ""), deadline=Deadline(_TICKS_S), api_url=api_url_of(environment))
        try:
            blocked = outcome.conclusion == "failure"
            kept = keep(
                api, event.repository, body, marker, blocked=blocked, language=outcome.report.checklist.language
            )
        finally:
            api.close()
    except InputError as error:
        return "warning", f"no issue: {error}; the report is kept"
    return "notice", f"issue {kept.action} {kept.url}".rstrip()


def _recompute(inputs: Inputs, event: Event, environment: Mapping[str, str]) -> Result:
    """A fork's pull request from Git objects, with the base's policy; ``checklistbot-publish`` posts it in a job of its own.

    What blocks is said by the check run and the comment, so the step fails only where the review itself could not be done.
    """
    from checklistbot.commands.review import run_review
    from checklistbot.github.client import GitHub, api_url_of
    from checklistbot.github.fetch import ensure_commits, remote_of
    from checklistbot.github.workflow_run import empty_repository, find_pull
    from checklistbot.retry import Deadline

    _without_llm_key(environment)
    api = GitHub(environment.get("GITHUB_TOKEN", ""), deadline=Deadline(_TICKS_S), api_url=api_url_of(environment))
    try:
        pull = find_pull(api, event)
    finally:
        api.close()
    if pull is None:
        return Result(0, {}, (("notice", "nothing to do: no open pull request has this run's head any more"),))
    folder = Path(tempfile.mkdtemp(prefix="checklistbot-", dir=_folder(environment, "RUNNER_TEMP"))) / "repository"
    path = empty_repository(folder, _relative(inputs, environment))
    commits = ensure_commits(folder, pull.base_sha, event.head or "", remote_of(environment))
    if commits.base is None:
        raise InputError(f"{commits.notice}; without the base there is no policy to judge by; grant contents: read")
    event = replace(event, base=commits.base, head=commits.head, pull_request=pull.number, draft=pull.draft)
    outcome = run_review(_options(replace(inputs, path=path), event, environment))
    _append(environment.get("GITHUB_STEP_SUMMARY"), _summary(outcome))
    outputs = {**_outputs(outcome), "pull-request": str(pull.number), "comment-mode": outcome.comment_mode}
    outputs["create"] = "true" if outcome.concerned else "false"
    shown = tuple(("warning", warning) for warning in outcome.warnings)
    return Result(0 if outcome.exit_code == 1 else outcome.exit_code, outputs, shown)


def _without_llm_key(environment: Mapping[str, str]) -> None:
    """Raises UsageError where this job holds a key: a job that reads what a stranger wrote needs none."""
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "CHECKLISTBOT_LLM_KEY"):
        if environment.get(name):
            raise UsageError(f"on: workflow_run reads a fork's changes: take {name} out of this step's env")


def _relative(inputs: Inputs, environment: Mapping[str, str]) -> str:
    """The input ``path`` as a path in the repository: there is no checkout in this job."""
    workspace = _folder(environment, "GITHUB_WORKSPACE")
    if not inputs.path.is_relative_to(workspace):
        raise UsageError("input path: expected a path inside the repository (on: workflow_run has no checkout)")
    return inputs.path.relative_to(workspace).as_posix()


def _with_commits(inputs: Inputs, event: Event, environment: Mapping[str, str]) -> tuple[Event, str]:
    """The event with what is to be compared: the inputs' revisions as they are, or the event's commits, fetched."""
    if inputs.head is not None:
        return replace(event, base=inputs.base, head=inputs.head), ""
    from checklistbot.github.fetch import ensure_commits, remote_of

    if event.head is None:
        raise UsageError("this event names no commit; give the inputs base and head")
    top = _repository(inputs.path, _folder(environment, "GITHUB_WORKSPACE"))
    commits = ensure_commits(top, event.base, event.head, remote_of(environment))
    return replace(event, base=commits.base, head=commits.head), commits.notice


def _repository(path: Path, workspace: Path) -> Path:
    """The checkout that holds ``path``: the nearest folder with ``.git``, not above the workspace."""
    for folder in (path, *path.parents):
        if (folder / ".git").exists():
            return folder
        if folder == workspace:
            break
    raise UsageError("input path: no checkout there; add actions/checkout before this step")


def _options(inputs: Inputs, event: Event, environment: Mapping[str, str]) -> ReviewOptions:
    from checklistbot.commands.review import ReviewOptions

    return ReviewOptions(
        path=inputs.path,
        base=event.base,
        head=event.head,
        config=inputs.config,
        lang=inputs.lang,
        fail_on=inputs.fail_on,
        provider=inputs.provider if event.llm else "builtin",
        model=inputs.model,
        require_llm=inputs.require_llm and event.llm and event.plan == "full",
        output=inputs.output,
        publish=inputs.comment and event.comment,
        repository=event.repository,
        pull_request=event.pull_request,
        draft=event.draft,
        event=event,
        environ=environment,
    )


def _outputs(outcome: ReviewOutcome) -> dict[str, str]:
    check = outcome.report.check
    return {
        "verdict": check.verdict,
        "blocking-count": str(check.counts["block"]),
        "report-path": str(outcome.output_dir / "report.json") if outcome.output_dir else "",
        "comment-url": outcome.comment_url or "",
        "llm-status": outcome.llm_status,
        "conclusion": outcome.conclusion,
        "warning-count": str(check.counts["warn"]),
        "comment-id": str(outcome.comment_id or ""),
        "checklist-path": str(outcome.output_dir / "checklist.md") if outcome.output_dir else "",
        "sarif-path": str(outcome.output_dir / "report.sarif") if outcome.output_dir else "",
    }


def _summary(outcome: ReviewOutcome) -> str:
    """The comment, for the step summary, whole where a comment had no room for it; one line where it is larger than GitHub takes."""
    if outcome.output_dir is None:
        return ""
    from checklistbot.github.marker import split

    comment = outcome.summary or split((outcome.output_dir / "comment.md").read_text("utf-8"))[0]
    if len(comment.encode()) > _SUMMARY_BYTES:
        return (
            f"checklistbot: {outcome.report.check.verdict}. The comment is too large for this page; see report-path.\n"
        )
    return comment


# --- file commands and workflow commands ------------------------------------------------------------------------------


@contextmanager
def _commands_stopped() -> Iterator[None]:
    """What is printed inside is shown by the runner and never obeyed (operations-and-attacks 18)."""
    token = secrets.token_hex(16)
    click.echo(f"::stop-commands::{token}")
    sys.stdout.flush()
    try:
        yield
    finally:
        sys.stderr.flush()
        click.echo(f"::{token}::")
        sys.stdout.flush()


def _append(path: str | None, text: str) -> None:
    if not path or not text:
        return
    try:
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise InputError("a file of the runner (GITHUB_OUTPUT, GITHUB_STEP_SUMMARY) cannot be written") from error


@click.command(name="action", hidden=True)
def command() -> None:
    """Run one event of a GitHub workflow (called by the Action)."""
    raise SystemExit(run(os.environ))
