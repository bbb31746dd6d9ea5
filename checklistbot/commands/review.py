"""``checklistbot review``: the main job. Base against head: facts, changes, checks, checklist, script, comment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import field, replace
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import click

from checklistbot.commands import _options as shared
from checklistbot.config import FILE_NAME, Config, load, only_worse
from checklistbot.model import Checklist, InputError, Report, Revision, UsageError
from checklistbot.record import record

if TYPE_CHECKING:
    from checklistbot.checklist.cache import Store
    from checklistbot.discovery.tree import Tree
    from checklistbot.facts import Inputs
    from checklistbot.github.checks import Outline
    from checklistbot.github.comment import Target
    from checklistbot.github.event import Event
    from checklistbot.github.marker import Marker
    from checklistbot.github.override import Labelled
    from checklistbot.history import Changed
    from checklistbot.model import Checklist, Facts
    from checklistbot.retry import Deadline
    from checklistbot.rules import Sources

#: Seconds that the LLM call and GitHub may take together, retries included.
DEADLINE_S: Final = 600


@record
class ReviewOptions:
    """What ``review`` and the Action ask for. ``config`` is a path in the base's repository, or an absolute one of this machine;
    ``head`` None is HEAD, ``base`` None: there is none. With ``base_manifests`` and ``head_manifests`` no Git is needed.

    ``draft``: the pull request is one, and its comment is folded. ``event`` is what the Action runs on: an event about overrides asks
    GitHub whether somebody broke the glass, and has a comment only if so."""

    path: Path
    base: str | None = None
    head: str | None = None
    base_manifests: Path | None = None
    head_manifests: Path | None = None
    config: str | None = None
    lang: Literal["en", "ko"] | None = None
    fail_on: str | None = None
    provider: str | None = None
    model: str | None = None
    require_llm: bool = False
    output: Path | None = None
    publish: bool = False
    repository: str | None = None
    pull_request: int | None = None
    head_ref: str | None = None
    draft: bool = False
    event: Event | None = None
    logs: tuple[str, ...] = ()
    endpoints: tuple[str, ...] = ()
    observed: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()
    color: bool = False
    show: bool = True
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)


@record
class ReviewOutcome:
    """How a review ended; ``warnings`` are our own sentences (a comment that could not be posted, …); ``conclusion`` is the check run's."""

    exit_code: int
    report: Report
    comment_url: str | None = None
    llm_status: str = "not-asked"
    output_dir: Path | None = None
    warnings: tuple[str, ...] = ()
    comment_id: int | None = None
    conclusion: str = ""
    #: The whole comment where it was too long for one; for the step summary.
    summary: str = ""
    #: Workflow commands for the changed lines; empty where a check run carries them.
    annotations: tuple[str, ...] = ()
    #: For a job that posts this later: whether the change deserves a comment, and the config's ``comment.mode``.
    concerned: bool = True
    comment_mode: str = "update"


@record
class _Sides:
    """The two states that are compared. ``policy`` is the tip of the base branch: config and merged logs come from it."""

    head: Tree
    head_revision: Revision
    base: Tree | None
    base_revision: Revision | None
    policy: Tree | None
    git: bool
    notices: tuple[str, ...] = ()
    #: The commit of ``policy``.
    tip: str | None = None


def run_review(options: ReviewOptions) -> ReviewOutcome:
    """Do the whole review, write what ``output`` asks for, publish if asked. Raises UsageError and InputError."""
    from checklistbot import clock
    from checklistbot.github.marker import join
    from checklistbot.retry import Deadline

    now = clock.now(options.environ)
    deadline = Deadline(DEADLINE_S)
    sides = _sides(options)
    config, config_notices = _config(options, sides)
    report, prompt = _report(options, sides, config, config_notices, now, deadline)
    report, warning = _overridden(report, config, options, now, deadline)
    language = options.lang or config.lang
    body, whole = _comment(report, config, options, sides, language, now)
    marker = _marker(report, body, config, options, now, prompt)
    outline = _outline(report, body, marker, config, options, sides, now)
    output = _write(report, join(body, marker), outline, options)
    if output is not None and options.event is not None:
        _write_sarif(report, output, sides, language)
    if options.show:
        _show(report, options, language)
    posted = _Posted()
    if options.publish or _glass(config, options):
        posted = _publish(body, marker, outline, config, options, deadline, concerned=concerns(report, config, options))
    code = _exit_code(report, config, options, posted, now.date())
    return ReviewOutcome(
        code,
        report,
        posted.url,
        report.llm.status,
        output,
        (*([warning] if warning else []), *posted.warnings),
        posted.comment_id,
        _conclusion(report, config, options, now),
        whole,
        () if posted.annotated else _annotations(report, sides, language),
        concerns(report, config, options),
        config.comment.mode,
    )


# --- what is compared --------------------------------------------------------------------------------------------------


def _sides(options: ReviewOptions) -> _Sides:
    from checklistbot.discovery.tree import open_tree

    if options.head_manifests is not None:
        head = open_tree(options.head_manifests)
        base = open_tree(options.base_manifests) if options.base_manifests else None
        return _Sides(
            head,
            Revision(options.head_manifests.name, None),
            base,
            Revision(options.base_manifests.name, None) if options.base_manifests else None,
            base,
            git=False,
        )
    return _git_sides(options)


def _git_sides(options: ReviewOptions) -> _Sides:
    """Facts are compared with the merge base, policy comes from the tip of the base branch (operations-and-attacks 31)."""
    from checklistbot.discovery.tree import merge_base, open_tree, resolve

    head_ref = options.head or "HEAD"
    head = resolve(options.path, head_ref)
    head_tree, head_revision = open_tree(options.path, head), Revision(head_ref, head)
    if options.base is None:
        # The nightly check looks at what is merged: the configuration that stands there is in force.
        merged = options.event is not None and options.event.name in ("schedule", "workflow_dispatch")
        policy, notices = (head_tree, ()) if merged else (None, ("no-base",))
        return _Sides(head_tree, head_revision, None, None, policy, git=True, notices=notices)
    tip = resolve(options.path, options.base)
    fork = merge_base(options.path, tip, head)
    base = fork or tip
    return _Sides(
        head_tree,
        head_revision,
        open_tree(options.path, base),
        Revision(options.base, base),
        open_tree(options.path, tip),
        True,
        () if fork else ("no-merge-base",),
        tip,
    )


def _config(options: ReviewOptions, sides: _Sides) -> tuple[Config, tuple[str, ...]]:
    """The base tip's config. Where the base has none, the head's deployments serve for display and to the worse only."""
    if options.config and Path(options.config).is_absolute():
        return shared.read_config(options.config, None), ()
    if sides.policy is not None:
        if options.config is not None and not sides.policy.exists(options.config):
            raise UsageError(
                f"{options.config}: not in the base; a pull request's own config is not in force before it is merged"
            )
        config = (
            load(sides.policy.read(options.config), options.config)
            if options.config
            else shared.read_config(None, sides.policy)
        )
        if config.path is not None:
            return config, _policy_change(sides, config.path)
    try:
        own = shared.read_config(None, sides.head)
    except UsageError:
        return Config(), ("head-config-broken",)
    return (only_worse(own), ("head-config",)) if own.path is not None else (Config(), ())


def _policy_change(sides: _Sides, path: str) -> tuple[str, ...]:
    top = "/".join([".."] * (sides.head.prefix.count("/") + 1)) + "/" if sides.head.prefix else ""
    full = f"{top}{path}" if path == FILE_NAME else path
    try:
        return ("policy-changed",) if sides.policy and sides.policy.read(full) != sides.head.read(full) else ()
    except Exception:  # gone or unreadable in the head: that is a change of policy as well
        return ("policy-changed",)


# --- the report --------------------------------------------------------------------------------------------------------


def _report(
    options: ReviewOptions, sides: _Sides, config: Config, notices: tuple[str, ...], now: datetime, deadline: Deadline
) -> tuple[Report, str | None]:
    """The report, and the key of the question whose answer its checklist is (None: no LLM answered)."""
    from checklistbot import __version__, checklist, rules, scripts
    from checklistbot.changes import changes, renamed
    from checklistbot.checklist.cache import Carried
    from checklistbot.commands._live import of_base
    from checklistbot.facts import LiveSource, LogSource, gather
    from checklistbot.history import changed_between

    language = options.lang or config.lang
    named = _named(options)
    base_logs = LogSource(sides.policy)
    head_logs = LogSource(sides.policy, sides.head)
    changed = _history(options, sides, config)
    endpoints = of_base(config, options.endpoints, options.environ)
    live = LiveSource(endpoints)
    base = gather(sides.base, config, logs=base_logs, live=live, changed=changed) if sides.base is not None else None
    live = LiveSource(endpoints, changed_between(base.deployments) if base is not None else None)
    head = gather(sides.head, config, named, logs=head_logs, live=live, changed=changed)
    check = rules.evaluate(
        head,
        config,
        language=language,
        base=base,
        pairs=renamed(base, head) if base else None,
        today=now.date(),
        sources=_sources(options, sides),
        evidence=shared.read_evidence(options.evidence),
    )
    store = _store(options, config, head, deadline)
    drafted, use = checklist.draft(
        head,
        check,
        language=language,
        settings=config.llm,
        provider=_provider(config, options),
        model=options.model or config.llm.model,
        environ=options.environ,
        deadline=deadline,
        own=shared.own_files(config, sides.policy),
        store=store,
    )
    drafted = _ticked_first(drafted, config)
    answered = use.status in ("ok", "repaired")
    report = Report(
        base=sides.base_revision,
        head=sides.head_revision,
        base_facts=base,
        head_facts=head,
        changes=changes(base, head) if base is not None else (),
        check=check,
        checklist=drafted,
        scripts=tuple(scripts.render(drafted, head, "bash")),
        llm=use,
        tool=f"checklistbot {__version__}",
        notices=(*sides.notices, *notices),
    )
    return report, store.asked if answered and isinstance(store, Carried) else None


def _ticked_first(drafted: Checklist, config: Config) -> Checklist:
    """The checklist with the items first that a check waits for: a long comment leaves out the last ones."""
    from checklistbot.github.checks import to_tick

    must = to_tick(drafted.items, config.comment.require_ticks)
    rest = tuple(item for item in drafted.items if item not in must)
    return replace(drafted, items=(*must, *rest))


def _provider(config: Config, options: ReviewOptions) -> str:
    """Who drafts; nobody is asked for a comment that is not written."""
    event = options.event
    unwritten = event is not None and event.plan == "overrides" and not _glass(config, options)
    return "builtin" if unwritten else options.provider or config.llm.provider


def _store(options: ReviewOptions, config: Config, head: Facts, deadline: Deadline) -> Store | None:
    """Where an answer of an earlier run may lie: in our earlier comment in GitHub Actions, else in the user's cache folder."""
    from checklistbot.checklist import cache

    if not cache.in_actions(options.environ):
        return cache.for_user(options.environ)

    def fetch() -> tuple[str | None, Checklist | None] | None:
        from checklistbot.github.client import api_url_of
        from checklistbot.github.comment import Target
        from checklistbot.github.earlier import earlier

        if not options.publish and not _glass(config, options):
            return None
        target = Target(options.repository or "", options.pull_request, options.head_ref)
        token, api_url = options.environ.get("GITHUB_TOKEN", ""), api_url_of(options.environ)
        found = earlier(target, config.comment.id, token=token, deadline=deadline, api_url=api_url)
        return (found.prompt, found.checklist) if found else None

    return cache.Carried(fetch, head)


def _sources(options: ReviewOptions, sides: _Sides) -> Sources:
    """The files of both states; ignores are those of the policy, and Git says how old a finding is at least."""
    from checklistbot.history import file_days
    from checklistbot.rules import Sources

    age = file_days(options.path, sides.tip) if sides.tip else None
    return Sources(sides.head, sides.base, sides.policy, review=True, age=age)


def _named(options: ReviewOptions) -> Inputs:
    from checklistbot.facts import Inputs

    return Inputs(options.logs, options.endpoints, options.observed)


def _history(options: ReviewOptions, sides: _Sides, config: Config) -> Changed | None:
    if sides.tip is None:
        return None
    from checklistbot.discovery.git import find_top
    from checklistbot.discovery.git import repository as open_repository
    from checklistbot.history import changed_inputs

    top = find_top(options.path.resolve() if options.path.is_dir() else options.path.resolve().parent)
    return changed_inputs(open_repository(top), sides.tip, options.path, config) if top else None


# --- what comes out ----------------------------------------------------------------------------------------------------


def _overridden(
    report: Report, config: Config, options: ReviewOptions, now: datetime, deadline: Deadline
) -> tuple[Report, str]:
    """The report with the break-glass that GitHub tells of, and a warning where it does not answer: then there is none."""
    event = options.event
    asked = options.publish or (event is not None and event.plan in ("overrides", "recompute"))
    target = _target(options) if asked else None
    if target is None or report.head.commit is None:
        return report, ""
    from checklistbot import rules
    from checklistbot.github.client import GitHub, GitHubError, api_url_of
    from checklistbot.github.comment import pull_of
    from checklistbot.github.override import calls

    found: tuple[rules.Call, ...] = ()
    warning = ""
    try:
        api = GitHub(options.environ.get("GITHUB_TOKEN", ""), deadline=deadline, api_url=api_url_of(options.environ))
        try:
            pull = pull_of(api, target, report.head.commit)
            found = calls(api, target.repo, pull, config.override_label, _labelled(event))
        finally:
            api.close()
    except GitHubError as error:
        warning = (
            ""
            if error.kind in ("token", "not-found")
            else f"whether an override is in force could not be asked: {error}"
        )
    except UsageError:
        return report, ""  # publishing will say what is wrong with token or target
    check = rules.override(report.check, found, config, head=report.head.commit, now=now)
    return replace(report, check=check), warning


def _labelled(event: Event | None) -> Labelled | None:
    from checklistbot.github.override import Labelled

    if event is None or event.action != "labeled" or not event.head:
        return None
    return Labelled(event.sender, event.label, event.head)


def _glass(config: Config, options: ReviewOptions) -> bool:
    """True if the event is about the label that breaks the glass: then the comment is brought up to date."""
    event = options.event
    return event is not None and event.plan == "overrides" and event.breaks_glass(config.override_label)


def _target(options: ReviewOptions) -> Target | None:
    from checklistbot.github.comment import Target

    if not options.repository or (options.pull_request is None) == (options.head_ref is None):
        return None
    return Target(options.repository, options.pull_request, options.head_ref)


def concerns(report: Report, config: Config, options: ReviewOptions) -> bool:
    """True if this change deserves a comment (``comment.on``); one that stands there already is brought up to date anyway.

    ``changed``: it changes a deployment, brings or mends a finding, changes the policy, or somebody broke the glass.
    ``failure``: something reaches ``fail_on``, observed or not.
    """
    from checklistbot import rules

    if config.comment.on == "always":
        return True
    if config.comment.on == "failure":
        return bool(rules.reaching(report.check, options.fail_on or config.fail_on, baseline=config.baseline))
    brought = any(
        f.status in ("new", "worse", "fixed", "better") and f.verdict not in ("pass", "note")
        for f in report.check.findings
    )
    policy = bool(report.notices and (report.head_facts.deployments or set(report.notices) & {"policy-changed"}))
    return bool(report.changes) or brought or policy or report.check.policy.override is not None


#: Characters of a marker without its checklist, its boxes left out; and of one box.
_MARKER, _BOX = 900, 41
#: GitHub drops a step summary of more than 1 MiB, and a character can have four bytes.
_SUMMARY: Final = 250_000


def _comment(
    report: Report, config: Config, options: ReviewOptions, sides: _Sides, language: Literal["en", "ko"], now: datetime
) -> tuple[str, str]:
    """The comment, and the whole of it where that is longer than a comment may be ("" where it is not)."""
    from checklistbot.github.checks import to_tick
    from checklistbot.report import markdown

    links = None
    if options.repository and report.head.commit:
        server = options.environ.get("GITHUB_SERVER_URL") or "https://github.com"
        run = options.environ.get("GITHUB_RUN_ID") or None
        links = markdown.Links(server, options.repository, report.head.commit, sides.head.prefix, run)
    limit = markdown.COMMENT - _MARKER - _BOX * min(100, len(report.checklist.items))
    must = {item.id for item in to_tick(report.checklist.items, config.comment.require_ticks)}
    body = markdown.render(
        report, language=language, links=links, now=now, limit=limit, folded=options.draft, must_tick=must
    )
    if len(body) < limit // 4:
        return body, ""
    whole = markdown.render(report, language=language, links=links, now=now, limit=_SUMMARY, folded=options.draft)
    return body, whole if whole != body else ""


def _conclusion(
    report: Report, config: Config, options: ReviewOptions, now: datetime
) -> Literal["success", "neutral", "failure"]:
    """What the check run ends with. What blocks is neutral only where the policy forbids red: observe mode, fail-on never."""
    from checklistbot import rules
    from checklistbot.report.view import view

    if rules.failing(report.check, config, now.date(), fail_on=options.fail_on):
        return "failure"
    override = report.check.policy.override
    if override is not None and override.in_force:
        return "success"
    return "neutral" if view(report).standing in ("block", "unknown") else "success"


def _outline(
    report: Report, body: str, marker: Marker, config: Config, options: ReviewOptions, sides: _Sides, now: datetime
) -> Outline | None:
    """What the check runs say; None outside of GitHub."""
    if not options.repository or report.head.commit is None:
        return None
    from checklistbot.github.checks import MAX_TEXT, Outline, required_of
    from checklistbot.report import github, headline, markdown

    language = options.lang or config.lang
    summary = body
    if len(body) > MAX_TEXT - 500:
        summary = markdown.render(report, language=language, now=now, limit=MAX_TEXT - 500)
    ticks = config.comment.require_ticks
    required = (
        required_of(report.checklist.items if concerns(report, config, options) else (), ticks) if ticks else None
    )
    return Outline(
        marker.id,
        report.head.commit,
        marker.valid_at or "",
        _conclusion(report, config, options, now),
        headline.one_line(report, language),
        summary,
        tuple(github.for_check_run(report.check, report.head_facts, root=sides.head.prefix)),
        required,
        config.comment.ticks_by,
        language,
    )


def _annotations(report: Report, sides: _Sides, language: Literal["en", "ko"]) -> tuple[str, ...]:
    from checklistbot.report import github

    check = github.brought(report.check)
    return tuple(github.commands(check, report.head_facts, language=language, root=sides.head.prefix))


def _marker(
    report: Report, body: str, config: Config, options: ReviewOptions, now: datetime, prompt: str | None
) -> Marker:
    """The comment's last line. It stands in comment.md too, so that a later ``publish`` knows when this view was taken."""
    from checklistbot.github.marker import of_report

    valid_at = now.isoformat().replace("+00:00", "Z")
    run = options.environ.get("GITHUB_RUN_ID") or None
    return of_report(body, report.to_json(), valid_at=valid_at, id=config.comment.id, run=run, prompt=prompt)


def _write(report: Report, comment: str, outline: Outline | None, options: ReviewOptions) -> Path | None:
    """comment.md, report.json, checklist.json, checklist.md and ci/…, each whole or not at all; on GitHub check-runs.json too."""
    if options.output is None:
        return None
    from checklistbot import checklist
    from checklistbot.report.files import write_text
    from checklistbot.report.json import dump

    folder = options.output
    write_text(folder / "report.json", dump(report.to_json()))
    write_text(folder / "comment.md", comment)
    if outline is not None:
        write_text(folder / "check-runs.json", dump(outline.to_json()))
    write_text(folder / "checklist.json", dump(report.checklist.to_json()))
    write_text(folder / "checklist.md", checklist.render.markdown(report.checklist))
    for script in report.scripts:
        write_text(folder / "ci" / script.path, script.text, executable=script.text.startswith("#!"))
    return folder


def _write_sarif(report: Report, folder: Path, sides: _Sides, language: Literal["en", "ko"]) -> None:
    """In the Action: what the change brought, for code scanning."""
    from checklistbot.report import sarif
    from checklistbot.report.files import write_text

    text = sarif.render_check(report.check, report.head_facts, language=language, root=sides.head.prefix)
    write_text(folder / "report.sarif", text)


def _show(report: Report, options: ReviewOptions, language: Literal["en", "ko"]) -> None:
    from checklistbot.report.terminal import render_review

    click.echo(render_review(report, language=language, color=options.color))


@record
class _Posted:
    """What became of the comment. ``failed``: GitHub did not do it; a token that may not write is a warning only."""

    url: str | None = None
    warnings: tuple[str, ...] = ()
    failed: bool = False
    comment_id: int | None = None
    annotated: bool = False


def _publish(
    body: str,
    marker: Marker,
    outline: Outline | None,
    config: Config,
    options: ReviewOptions,
    deadline: Deadline,
    *,
    concerned: bool,
) -> _Posted:
    """Post the comment, then the check runs; whatever GitHub says, the report is kept."""
    from checklistbot.commands.publish import post_checks
    from checklistbot.github.client import api_url_of
    from checklistbot.github.comment import Target, publish

    target = Target(options.repository or "", options.pull_request, options.head_ref)
    token, api_url = options.environ.get("GITHUB_TOKEN", ""), api_url_of(options.environ)
    try:
        done = publish(
            body,
            marker,
            target,
            token=token,
            deadline=deadline,
            mode=config.comment.mode,
            create=concerned,
            language=options.lang or config.lang,
            api_url=api_url,
        )
    except InputError as error:
        return _Posted(None, (f"no comment: {error}; the report is kept",), failed=True)
    warnings = [done.warning] if done.warning else []
    if outline is None or done.action in ("refused", "moved"):
        return _Posted(done.url, tuple(warnings), comment_id=done.comment_id)
    checked = post_checks(outline, target, token=token, deadline=deadline, api_url=api_url)
    warnings += checked.warnings
    return _Posted(done.url, tuple(warnings), checked.failed, done.comment_id, checked.annotated)


def _exit_code(report: Report, config: Config, options: ReviewOptions, posted: _Posted, today: date) -> int:
    """2 > 1 > 3 > 0; an LLM that failed only counts under --require-llm."""
    from checklistbot import rules

    if rules.failing(report.check, config, today, fail_on=options.fail_on):
        return 1
    if options.require_llm and report.llm.status not in ("ok", "repaired"):
        return 3
    return 3 if posted.failed else 0


@click.command(
    "review",
    short_help="Compare two revisions: facts, checks, checklist, CI script, comment.",
    epilog=shared.epilog(
        "checklistbot review --base main --head HEAD", "checklistbot review --base main --output out --lang ko"
    ),
)
@click.argument("path", required=False, default=".", type=click.Path(path_type=Path))
@click.option("--base", metavar="REV", help="The branch that the change goes to.")
@click.option("--head", metavar="REV", help="The change (default: HEAD).")
@click.option(
    "--base-manifests",
    type=click.Path(path_type=Path, exists=True),
    metavar="DIR",
    help="Rendered manifests before the change.",
)
@click.option(
    "--head-manifests",
    type=click.Path(path_type=Path, exists=True),
    metavar="DIR",
    help="Rendered manifests after the change.",
)
@shared.inputs
@click.option(
    "--fail-on",
    type=click.Choice(["block", "unknown", "warn", "never"]),
    help="Exit 1 from here up (default: the config's, else block).",
)
@click.option("--evidence", multiple=True, metavar="FILE", help="A probe's result, evidence/1 (repeatable).")
@click.option(
    "--provider",
    type=click.Choice(["auto", "openai", "anthropic", "builtin"]),
    help="Who writes the checklist (default: the config's, else auto).",
)
@click.option("--model", metavar="M", help="The LLM's model id.")
@click.option("--require-llm", is_flag=True, help="Exit 3 where the LLM gave no usable checklist.")
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Write comment.md, report.json, checklist.*, ci/ there.",
)
@click.option("--publish", is_flag=True, help="Create or update the comment on the pull request (GITHUB_TOKEN).")
@click.option("--repo", metavar="OWNER/NAME", help="The pull request's repository.")
@click.option("--pr", type=click.IntRange(1), metavar="N", help="The pull request's number.")
@click.option("--head-ref", metavar="OWNER:BRANCH", help="Or the branch it comes from.")
@shared.common
def command(
    settings: shared.Settings,
    named: Inputs,
    path: Path,
    base: str | None,
    head: str | None,
    base_manifests: Path | None,
    head_manifests: Path | None,
    fail_on: str | None,
    evidence: tuple[str, ...],
    provider: str | None,
    model: str | None,
    require_llm: bool,
    output: Path | None,
    publish: bool,
    repo: str | None,
    pr: int | None,
    head_ref: str | None,
) -> int:
    """Review a change to the serving configuration below PATH, as the GitHub Action does, and exit 1 if it blocks.

    Config, waivers and merged logs come from the base: what the change says about itself can make a verdict worse, not better.
    """
    if (base_manifests is None) != (head_manifests is None):
        raise UsageError("give --base-manifests and --head-manifests together")
    if base is None and base_manifests is None:
        raise UsageError(
            "give --base REV (the branch that the change goes to), or --base-manifests and --head-manifests"
        )
    if publish and (repo is None or (pr is None) == (head_ref is None)):
        raise UsageError("--publish needs --repo OWNER/NAME and one of --pr N, --head-ref OWNER:BRANCH")
    outcome = run_review(
        ReviewOptions(
            path=path,
            base=base,
            head=head,
            base_manifests=base_manifests,
            head_manifests=head_manifests,
            config=settings.config,
            lang=settings.lang,
            fail_on=fail_on,
            provider=provider,
            model=model,
            require_llm=require_llm,
            output=output,
            publish=publish,
            repository=repo,
            pull_request=pr,
            head_ref=head_ref,
            logs=named.logs,
            endpoints=named.endpoints,
            observed=named.observed,
            evidence=evidence,
            color=settings.colored(),
            show=not settings.quiet,
        )
    )
    shared.tell(settings, outcome.report.check.skipped)
    for warning in outcome.warnings:
        click.echo(f"checklistbot: {warning}", err=True)
    return shared.ending(outcome.report.head_facts, outcome.exit_code)
