"""``checklistbot init``: a commented config with what was found, and the workflow. It asks nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import date, timedelta
from glob import escape
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from checklistbot.commands import _options as shared
from checklistbot.config import FILE_NAME
from checklistbot.model import UsageError

if TYPE_CHECKING:
    from checklistbot.discovery.tree import Tree
    from checklistbot.model import Deployment, Facts

WORKFLOW: Final = ".github/workflows/checklistbot.yml"
#: How long the first findings keep no job from passing.
OBSERVE_DAYS: Final = 14
#: What stands in a start-up log of an engine.
_LOG_WORDS: Final = (
    b"max_total_num_tokens=",
    b"KV cache size:",
    b" blocks: ",
    b"KV Cache is allocated",
    b"tokens per block=",
)
_LOG_NAMES: Final = (".log", ".txt", ".out")
_EXAMPLES: Final = ("examples/", "example/", "tests/", "test/", "docs/", "benchmarks/", "benchmark/")

_WORKFLOW: Final = """\
# One comment on every pull request that changes how a model is served. Nothing of the pull request is executed.
name: checklistbot
on:
  pull_request:
    types: [opened, synchronize, reopened, ready_for_review, labeled, unlabeled, edited]
permissions: {}
concurrency:
  group: checklistbot-${{ github.event.pull_request.number }}
  cancel-in-progress: true
jobs:
  review:
    runs-on: ubuntu-latest
    permissions:
      contents: read          # read both sides of the change
      pull-requests: write    # the one comment
    steps:
      - uses: actions/checkout@3d3c42e5aac5ba805825da76410c181273ba90b1 # v7.0.1
        with:
          persist-credentials: false
      # Replace COMMIT by the full id of the commit of SOURCE that you have read.
      - uses: SOURCE/.github/actions/checklistbot@COMMIT
        with:
          fail-on: block
"""


@click.command(
    "init",
    short_help="Write a commented .checklistbot.yml and the GitHub workflow.",
    epilog=shared.epilog("checklistbot init --dry-run", "checklistbot init"),
)
@click.argument("path", required=False, default=".", type=click.Path(path_type=Path, file_okay=False))
@click.option("--dry-run", is_flag=True, help="Print the files instead of writing them.")
@shared.common
def command(settings: shared.Settings, path: Path, dry_run: bool) -> int:
    """Write .checklistbot.yml and .github/workflows/checklistbot.yml at the top of the repository around PATH.

    What can be found out is filled in; what only you know (tenancy, data class) stands there as a comment. Files that exist stay.
    Outside a repository they are written into PATH itself.
    """
    from checklistbot.config import Config, load
    from checklistbot.discovery.git import find_top
    from checklistbot.discovery.tree import open_tree
    from checklistbot.facts import gather

    if not path.is_dir():
        raise UsageError(f"{path}: no such folder")
    around = find_top(path.resolve())
    top = around or path.resolve()
    tree = open_tree(top)
    facts = gather(tree, Config())
    today = settings.now().date()
    text = config_text(facts, tree, today, settings.lang or "en")
    load(text, FILE_NAME)  # what is written here must be read without complaint
    for name, content in ((FILE_NAME, text), (WORKFLOW, workflow_text())):
        _write(top, name, content, dry_run=dry_run)
    if not dry_run and not settings.quiet:
        _next_steps(top, today, repository=around is not None)
    return 0


def _next_steps(top: Path, today: date, *, repository: bool) -> None:
    """What only a person can do now; on standard error, as standard output is the list of files."""
    if not repository:
        click.echo(f"{top} is in no Git repository: GitHub reads the workflow only at the top of one.", err=True)
    steps = (
        f"replace COMMIT in {WORKFLOW} by the commit of the action that you have read",
        f"fill in tenancy and data in {FILE_NAME}, and confirm what stands there as a comment",
        f"observe_until: findings do not fail the run until {today + timedelta(days=OBSERVE_DAYS)}, that day included",
        "checklistbot check .   shows what would be said",
    )
    for number, step in enumerate(steps, 1):
        click.echo(f"next {number}. {step}", err=True)


def _write(top: Path, name: str, content: str, *, dry_run: bool) -> None:
    if dry_run:
        click.echo(f"# --- {name}\n{content}")
        return
    from checklistbot.report.files import write_text

    target = top / name
    if target.exists() or target.is_symlink():
        click.echo(f"kept: {name} is already there", err=True)
        return
    write_text(target, content)
    click.echo(f"written: {name}")


def workflow_text() -> str:
    """The workflow, with this project's repository in it."""
    return _WORKFLOW.replace("SOURCE", _source())


def _source() -> str:
    """OWNER/NAME of this project, from its metadata."""
    from importlib.metadata import PackageNotFoundError, metadata

    try:
        urls = metadata("checklistbot").get_all("Project-URL") or []
    except PackageNotFoundError:
        urls = []
    address = next((url.split(",", 1)[1].strip() for url in urls if url.startswith("Source,")), "")
    return "/".join(address.rstrip("/").rsplit("/", 2)[1:]) or "OWNER/NAME"


# --- the config --------------------------------------------------------------------------------------------------------


def config_text(facts: Facts, tree: Tree, today: date, language: str) -> str:
    """A commented config for what was found; valid as it stands."""
    lines = [
        "# What checklistbot cannot read from the manifests. Every key: docs/configuration.md of checklistbot.",
        "version: 1",
        f"lang: {language}",
        "",
        "# Blocks what is proven; what was there before a pull request does not fail it; nothing fails up to and on this day.",
        "fail_on: block",
        "baseline: on",
        f"observe_until: {today + timedelta(days=OBSERVE_DAYS)}",
        "",
        *_exclude(facts),
        *_deployments(facts, tree),
        *_images(facts),
        "# Findings that somebody accepts: with a reason and an end.",
        '# waivers: [{rule: isolation, deployment: "prod/*", reason: "…", expires: 2027-01-31}]',
    ]
    return "\n".join(lines) + "\n"


def _quoted(text: object) -> str:
    """A YAML scalar on one line, whatever the text holds."""
    return json.dumps(str(text))


def _exclude(facts: Facts) -> Iterator[str]:
    """Folders that usually deploy nothing, where deployments were found in them: a proposal, not a decision."""
    found = sorted({prefix for d in facts.deployments for prefix in _EXAMPLES if (d.file or "").startswith(prefix)})
    if found:
        yield "# Deployments were found in these folders. If nothing there is deployed, leave them out:"
        yield f"# exclude: [{', '.join(_quoted(prefix + '**') for prefix in found)}]"
        yield ""


def _deployments(facts: Facts, tree: Tree) -> Iterator[str]:
    """One entry a group, with the start-up logs that were found for it."""
    groups = facts.groups()
    if not groups:
        yield "# No deployment was found. An entry looks like this:"
        yield "# deployments:"
        yield '#   - match: {environment: prod, group: "my-model"}'
        yield "#     tenancy: shared     # shared: one engine serves several customers; dedicated: one each"
        yield "#     data: sensitive     # public | internal | sensitive"
        yield ""
        return
    logs = dict(_logs(facts, tree))
    yield "deployments:"
    for (environment, group), members in groups.items():
        yield f"  - match: {{environment: {_quoted(escape(environment))}, group: {_quoted(escape(group))}}}"
        yield f"    # {len(members)} found: {', '.join(map(_place, members[:4]))}"
        found = [log for member in members for log in logs.get(member.id, ())]
        named = [path for path, names_model in found if names_model]
        if named:
            yield f"    logs: [{', '.join(_quoted(log) for log in named)}]"
        elif found:
            yield f"    # {'only log' if len(found) == 1 else 'logs'} found; {'it names' if len(found) == 1 else 'they name'} no model: confirm"
            yield f"    # logs: [{', '.join(_quoted(path) for path, _ in found)}]"
        elif any(not m.kv_pool_tokens.proven for m in members):
            yield "    # The KV pool is not known. Commit a start-up log of each worker and name it here:"
            yield '    # logs: ["ops/logs/*.log"]'
        yield "    # tenancy: shared       # shared: one engine serves several customers; dedicated: one each"
        yield "    # data: sensitive       # public | internal | sensitive"
        yield "    # upstream_limit: 100000  # a gateway in front rejects longer prompts (tokens)"
        yield "    # cache_salt: gateway  # the gateway sets a cache_salt for each tenant"
    yield ""


def _place(member: Deployment) -> str:
    return f"{member.role.value} at {_quoted(f'{member.file}:{member.line}')}"


def _logs(facts: Facts, tree: Tree) -> Iterator[tuple[str, list[tuple[str, bool]]]]:
    """Deployment id → start-up logs of the repository that can only be its own, and whether they name its model. One that does not may
    be of anything: nobody but the user can tie it."""
    import io

    from checklistbot.discovery.tree import Unreadable
    from checklistbot.observation.logs import read_log

    found: dict[str, list[tuple[str, bool]]] = {}
    for path in sorted(tree.candidates(_LOG_WORDS)):
        if not path.endswith(_LOG_NAMES):
            continue
        try:
            servers = read_log(io.BytesIO(tree.read(path).encode("utf-8", "replace")), path).servers
        except Unreadable:
            continue
        fitting = {d.id for server in servers for d in facts.deployments if _could_be(d, server)}
        if len(fitting) == 1:
            names_model = any(server.model.known or server.served_model_name.known for server in servers)
            found.setdefault(fitting.pop(), []).append((path, names_model))
    yield from found.items()


def _could_be(deployment: Deployment, server: Deployment) -> bool:
    same_role = server.role.kind != "observed" or server.role.value == deployment.role.value
    models = [m.model.text() for m in (deployment, server)]
    same_model = None in models or len({str(m).rstrip("/").rpartition("/")[2].lower() for m in models}) == 1
    return server.engine.value == deployment.engine.value and same_role and same_model


def _images(facts: Facts) -> Iterator[str]:
    """Images that do not say which release they hold."""
    silent = {
        str(d.image.value): str(d.engine.value)
        for d in facts.deployments
        if d.image.known and not d.engine_version.known
    }
    if silent:
        yield "# These images do not say which release of the engine they hold. Fill in the version and uncomment:"
        yield "# images:"
        for image, engine in sorted(silent.items()):
            yield f'#   - {{match: {_quoted(image)}, engine: {_quoted(engine)}, version: "…"}}'
        yield ""
