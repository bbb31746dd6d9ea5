"""``checklistbot publish``: posts the report that ``review --output`` wrote.

The second half of a two-step workflow: this process holds a write token, and parses nothing of the pull request.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from checklistbot import clock
from checklistbot.commands._options import Settings, common, epilog, read_config
from checklistbot.config import CommentSettings
from checklistbot.model import InputError, UsageError
from checklistbot.record import record

if TYPE_CHECKING:
    from checklistbot.github.checks import Outline
    from checklistbot.github.comment import Target
    from checklistbot.github.marker import Marker
    from checklistbot.retry import Deadline

_COMMENT_BYTES: Final = 2**20
_REPORT_BYTES: Final = 16 * 2**20
#: Seconds for everything, waits included.
_DEADLINE_S: Final = 120.0


@click.command(
    "publish",
    epilog=epilog("checklistbot publish report/ --repo octo/serving --pr 12"),
    short_help="Post the comment of an earlier review to its pull request.",
)
@click.argument("report_dir", metavar="REPORT_DIR", type=click.Path(path_type=Path))
@click.option("--repo", metavar="OWNER/NAME", help="The repository of the pull request.")
@click.option("--pr", type=int, metavar="N", help="The pull request's number.")
@click.option("--head-ref", metavar="OWNER:BRANCH", help="The pull request's head, where the number is not known.")
@click.option("--gitlab", is_flag=True, help="Post to a merge request of GitLab, by default this job's (GITLAB_TOKEN).")
@common
def command(
    settings: Settings, report_dir: Path, repo: str | None, pr: int | None, head_ref: str | None, gitlab: bool
) -> None:
    """Post the comment of an earlier review to its pull request.

    REPORT_DIR is what `review --output` wrote. A comment that is there already is brought up to date. Needs
    GITHUB_TOKEN with `pull-requests: write`; exits with 3 if GitHub does not take it, and REPORT_DIR stays as it is.
    """
    from checklistbot.github.comment import Target

    comment = read_config(settings.config, None).comment
    if gitlab:
        if head_ref is not None:
            raise UsageError("--head-ref: not with --gitlab; give --pr N")
        click.echo(_gitlab(report_dir, repo, pr, comment))
        return
    if repo is None:
        raise UsageError("give --repo OWNER/NAME (or --gitlab)")
    click.echo(run(report_dir, Target(repo, pr, head_ref), os.environ, comment))


def _gitlab(report_dir: Path, project: str | None, number: int | None, comment: CommentSettings) -> str:
    from checklistbot.gitlab import from_environment

    if comment.mode == "off":
        return "note off"
    body, marker = read_report(report_dir, os.environ, comment.id)
    return from_environment(body, marker, project, number)


def run(
    report_dir: Path,
    target: Target,
    environment: Mapping[str, str],
    settings: CommentSettings | None = None,
    *,
    create: bool = True,
    head: str | None = None,
    pause_s: float = 1.0,
) -> str:
    """Publish the report and return one line that says what happened. ``pause_s``: seconds between two writes.

    Without ``create`` only a comment that stands there is brought up to date. ``head`` is the commit that it must be about.

    Raises:
        UsageError: token, address, clock or ``comment.mode`` is wrong.
        InputError: the report cannot be read, or GitHub does not take the comment.
    """
    from checklistbot.github.client import api_url_of
    from checklistbot.github.comment import publish
    from checklistbot.retry import Deadline

    settings = settings or CommentSettings()
    body, marker = read_report(report_dir, environment, settings.id)
    outline = read_outline(report_dir)
    if head is not None and (marker.head != head or (outline is not None and outline.head != head)):
        raise InputError(f"{report_dir}: this report is about another commit than the run")
    token, deadline = environment.get("GITHUB_TOKEN", ""), Deadline(_DEADLINE_S)
    done = publish(
        body,
        marker,
        target,
        token=token,
        deadline=deadline,
        mode=settings.mode,
        create=create,
        language=marker.checklist.language if marker.checklist else "en",
        api_url=api_url_of(environment),
        seconds_between_writes=pause_s,
    )
    if done.action == "refused":
        raise InputError(done.warning or "GitHub refuses the comment")
    if done.warning:
        click.echo(f"checklistbot: warning: {done.warning}", err=True)
    if outline is not None and done.action != "moved":
        checked = post_checks(
            outline, target, token=token, deadline=deadline, api_url=api_url_of(environment), pause_s=pause_s
        )
        for warning in checked.warnings:
            click.echo(f"checklistbot: warning: {warning}", err=True)
        if checked.failed:
            raise InputError("the comment stands, a check run does not; see the warning")
    return f"comment {done.action}: {done.url}" if done.url else f"comment {done.action}"


def read_report(report_dir: Path, environment: Mapping[str, str], comment_id: str = "default") -> tuple[str, Marker]:
    """The comment's text and its marker from comment.md and report.json.

    If comment.md ends in a marker that is it, with the moment at which the review took its view. If not, one is made
    from report.json and the clock.

    Raises:
        InputError: a file is missing, a link, too large, no UTF-8, or no report.
        UsageError: the clock in the environment cannot be read.
    """
    from checklistbot.github.carried import json_object
    from checklistbot.github.marker import of_report, split

    body, marker = split(_read(report_dir / "comment.md", _COMMENT_BYTES))
    report: dict[str, Any] | None = json_object(_read(report_dir / "report.json", _REPORT_BYTES))
    if report is None or report.get("schema") != "report/1":
        raise InputError(f"{report_dir / 'report.json'}: no report/1; write it with `review --output`")
    if marker is not None and marker.when is not None:
        return body, marker
    valid_at = clock.now(environment).isoformat().replace("+00:00", "Z")
    run_id = environment.get("GITHUB_RUN_ID") or None
    return body, of_report(body, report, valid_at=valid_at, id=comment_id, run=run_id)


def read_outline(report_dir: Path) -> Outline | None:
    """What the check runs are to say, from check-runs.json; None where the review wrote none.

    Raises:
        InputError: it is not what a review writes.
    """
    from checklistbot.github.carried import json_object
    from checklistbot.github.checks import outline_from

    path = report_dir / "check-runs.json"
    return outline_from(json_object(_read(path, _COMMENT_BYTES))) if os.path.lexists(path) else None


@record
class Checked:
    """What became of the check runs. ``annotated``: the verdict's stands, with the lines it is about."""

    annotated: bool = False
    failed: bool = False
    warnings: tuple[str, ...] = ()


def post_checks(
    outline: Outline, target: Target, *, token: str, deadline: Deadline, api_url: str, pause_s: float = 1.0
) -> Checked:
    """Post ``checklistbot / verdict``, and ``checklistbot / checklist`` where the policy asks for ticks.

    A token without ``checks: write`` is said only where ticks are asked for: nothing else rests on check runs.
    """
    from checklistbot.github import checks, ticks
    from checklistbot.github.client import GitHub, GitHubError
    from checklistbot.github.comment import pull_of

    verdict = checks.Wanted(
        checks.VERDICT, outline.conclusion, outline.title, outline.summary, annotations=outline.annotations
    )
    api = GitHub(token, deadline=deadline, api_url=api_url, seconds_between_writes=pause_s)
    try:
        checks.put(api, target.repo, outline.head, outline.id, outline.valid_at, verdict)
        if outline.required is not None:
            pull = pull_of(api, target, outline.head)
            judged = ticks.judge(api, target.repo, pull, outline.id, outline.required, outline.ticks_by)
            wanted = ticks.wanted(judged, outline.ticks_by, outline.language)
            checks.put(api, target.repo, outline.head, outline.id, outline.valid_at, wanted)
    except GitHubError as error:
        if error.kind == "permission" and outline.required is None:
            return Checked()
        return Checked(failed=error.kind != "permission", warnings=(f"no check run: {error}; the report is kept",))
    finally:
        api.close()
    return Checked(annotated=True)


def _read(path: Path, most: int) -> str:
    """A regular file as text; a link is not followed, for an artifact's can lead anywhere."""
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        with os.fdopen(os.open(path, flags), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise InputError(f"{path}: not a file")
            data = file.read(most + 1)
        if len(data) > most:
            raise InputError(f"{path}: larger than {most} bytes")
        return data.decode("utf-8")
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); write it with `review --output`") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: not UTF-8") from None
