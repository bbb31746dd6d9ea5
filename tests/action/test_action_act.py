"""The Action run for real by act: a runner without containers, GitHub and the package index on loopback."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from fake_github import FakeGitHub, serving
from git_http import GitServer
from openapi_contract import contract_of
from package_index import PackageIndex

TOP = Path(__file__).resolve().parents[2]
EXAMPLE = TOP / "examples" / "glm-5.3-disaggregated"
#: Stands for a commit of this project; act takes the folder that --local-repository names for it.
PIN = "c0ffee" + "0" * 34
TOKEN = "ghs_ThisTokenIsOnlyForThisTest00000000"

pytestmark = pytest.mark.needs("act", "wheelhouse", "npm:@octokit/openapi")

WORKFLOW = """\
on: [pull_request]
permissions: {{}}
jobs:
  review:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@3d3c42e5aac5ba805825da76410c181273ba90b1
{before}
      - uses: checklistbot/checklistbot/.github/actions/checklistbot@{pin}
        id: review
        with: {inputs}
      - if: always()
        env: {{STEP: "${{{{ toJSON(steps.review) }}}}", KEEP: "{keep}"}}
        run: printf '%s' "$STEP" > "$KEEP/step.json"; /bin/cp -R "$RUNNER_TEMP/checklistbot-report" "$KEEP/" || true
"""


def _git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """This project as a checkout of its own: the tracked files and the new ones, as a repository."""
    target = tmp_path_factory.mktemp("project")
    done = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=TOP,
        check=True,
        capture_output=True,
    )
    for name in filter(None, done.stdout.decode().split("\0")):
        if (TOP / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(TOP / name, target / name)
    return target


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A PATH with the machine's programs, but one Python only: this one, for which the wheels were downloaded."""
    folder = tmp_path_factory.mktemp("programs")
    for source in (Path("/bin"), Path("/usr/bin"), Path("/usr/local/bin")):
        for program in source.glob("*"):
            if not program.name.startswith(("python", "pip", "uv")) and not (folder / program.name).exists():
                (folder / program.name).symlink_to(program)
    (folder / "python3").symlink_to(os.path.realpath(sys.executable))
    return folder


@dataclass
class Runner:
    """act with everything it talks to; ``log`` is what the last run printed."""

    act: Path
    project: Path
    programs: Path
    folder: Path
    github: FakeGitHub
    git: GitServer
    index: PackageIndex
    log: str = ""
    step: dict[str, Any] = field(default_factory=dict)

    @property
    def report(self) -> Path:
        return self.folder / "keep" / "checklistbot-report"

    def run(self, checkout: Path, payload: dict[str, Any], before: str = "", **inputs: str) -> None:
        """One run of the Action on ``checkout`` for the pull request that ``payload`` describes."""
        keep = self.folder / "keep"
        keep.mkdir()
        self.github.pulls["octo/serving", 7].sha = payload["pull_request"]["head"]["sha"]
        inputs = {"index-url": self.index.url} | {name.replace("_", "-"): value for name, value in inputs.items()}
        text = WORKFLOW.format(before=before, pin=PIN, inputs=json.dumps(inputs), keep=keep)
        (self.folder / "workflow.yml").write_text(text, "utf-8")
        (self.folder / "event.json").write_text(json.dumps(payload), "utf-8")
        self.start(checkout, self.folder / "workflow.yml", "--eventpath", str(self.folder / "event.json"))
        self.step = json.loads((keep / "step.json").read_text("utf-8"))

    def start(self, checkout: Path, workflow: Path, *more: str, event: str = "pull_request") -> int:
        """Runs act and returns its exit code."""
        environment = {
            "PATH": str(self.programs),
            "HOME": str(self.folder / "home"),
            "XDG_CACHE_HOME": str(self.folder / "cache"),
            "LC_ALL": "C.UTF-8",
        }
        command = [str(self.act), event, "--directory", str(checkout), "--workflows", str(workflow)]
        command += ["--platform", "ubuntu-latest=-self-hosted", "--secret", f"GITHUB_TOKEN={TOKEN}"]
        command += ["--local-repository", f"checklistbot/checklistbot@{PIN}={self.project}"]
        command += ["--env", f"GITHUB_API_URL={self.github.api_url}", "--env", f"GITHUB_SERVER_URL={self.git.url}"]
        command += ["--env", "GITHUB_REPOSITORY=octo/serving"]
        (self.folder / "home").mkdir(exist_ok=True)
        done = subprocess.run([*command, *more], env=environment, capture_output=True, text=True, check=False)
        self.log = done.stdout + done.stderr
        return done.returncode


@pytest.fixture
def runner(
    tmp_path: Path, project: Path, programs: Path, tool: Callable[[str], Path], request: pytest.FixtureRequest
) -> Iterator[Runner]:
    contract = contract_of(request.config.rootpath / "tests" / "tools" / "node_modules" / "@octokit" / "openapi")
    (tmp_path / "server").mkdir()
    with (
        serving(contract) as github,
        GitServer(tmp_path / "server") as git,
        PackageIndex(Path(sys.prefix) / "wheelhouse") as index,
    ):
        github.bot(TOKEN)
        yield Runner(tool("act"), project, programs, tmp_path, github, git, index)
        assert github.violations == []


def _example(runner: Runner) -> Path:
    """The example's repository as the checkout of octo/serving."""
    checkout = runner.folder / "checkout"
    subprocess.run(["bash", str(EXAMPLE / "make-repository.sh"), str(checkout)], check=True)
    _git(checkout, "remote", "add", "origin", f"{runner.git.url}/octo/serving")
    return checkout


def _payload(base: str, head: str, **changes: Any) -> dict[str, Any]:
    repository = {"id": 1, "name": "serving", "full_name": "octo/serving", "owner": {"login": "octo"}}
    return {
        "action": "opened",
        "number": 7,
        "pull_request": {
            "number": 7,
            "draft": False,
            "base": {"sha": base, "ref": "main", "repo": repository},
            "head": {"sha": head, "ref": "topic", "repo": repository},
        },
        "repository": repository,
    } | changes


def test_incident_is_blocked_and_said_in_one_comment(runner: Runner) -> None:
    checkout = _example(runner)
    runner.run(checkout, _payload(_git(checkout, "rev-parse", "base"), _git(checkout, "rev-parse", "head")))
    outputs = runner.step["outputs"]
    assert (runner.step["outcome"], outputs["verdict"]) == ("failure", "block"), runner.log
    assert int(outputs["blocking-count"]) >= 1
    (body,) = runner.github.bodies()
    assert body.startswith("### ⛔ BLOCK")
    assert outputs["comment-url"].endswith(str(next(iter(runner.github.comments))))
    assert json.loads((runner.report / "report.json").read_text("utf-8"))["check"]["verdict"] == "block"
    assert TOKEN not in runner.log


# --- a pull request that attacks the runner ---------------------------------------------------------------------------

#: Modules that the program or its installer imports, and files that Python reads by itself.
_MODULES = ("yaml", "click", "json", "re", "pip", "uv", "packaging", "sitecustomize", "usercustomize", "checklistbot")


def _attack(checkout: Path, witness: Path, trap: str) -> None:
    """Everything that could make a tool run or fetch something, at the top of the checkout and in its git folder."""
    for name in _MODULES:
        (checkout / f"{name}.py").write_text(f"open({str(witness)!r}, 'a').write({name!r})\n")
    (checkout / "checklistbot").mkdir()
    for name in ("__init__", "__main__", "cli"):
        (checkout / "checklistbot" / f"{name}.py").write_text(f"open({str(witness)!r}, 'a').write('package')\n")
    (checkout / "evil.pth").write_text(f"import os; os.system('touch {witness}')\n")
    (checkout / "pyproject.toml").write_text(f'[tool.uv]\nindex-url = "{trap}"\n[tool.uv.pip]\nindex-url = "{trap}"\n')
    (checkout / "uv.toml").write_text(f'index-url = "{trap}"\n')
    (checkout / "pip.conf").write_text(f"[global]\nindex-url = {trap}\n")
    (checkout / ".netrc").write_text("machine 127.0.0.1 login stolen password stolen\n")
    (checkout / ".env").write_text(f"GITHUB_API_URL={trap}\nUV_DEFAULT_INDEX={trap}\n")
    (checkout / ".python-version").write_text("2.7\n")
    programs = checkout / "bin"
    programs.mkdir()
    for name in ("python3.14", "python3.13", "python3", "git", "sh", "mktemp", "cp"):
        (programs / name).write_text(f"#!/bin/sh\necho {name} >> {witness}\n")
        (programs / name).chmod(0o755)
    # A folder that git takes for a bare repository with a command in its configuration (operations-and-attacks 3).
    bare = checkout / "serve"
    (bare / "objects" / "x").mkdir(parents=True)
    (bare / "objects" / "x" / ".k").touch()
    (bare / "refs" / "heads").mkdir(parents=True)
    (bare / "refs" / "heads" / ".k").touch()
    (bare / "HEAD").write_text("ref: refs/heads/main\n")
    (bare / "config").write_text(f'[core]\nbare = false\nworktree = .\nfsmonitor = "touch {witness}"\n')
    hooks = checkout / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    for name in ("post-checkout", "reference-transaction", "post-index-change", "pre-auto-gc"):
        (hooks / name).write_text(f"#!/bin/sh\necho {name} >> {witness}\n")
        (hooks / name).chmod(0o755)


def test_hostile_shallow_checkout_of_a_fork_has_no_effect(runner: Runner) -> None:
    source = _example(runner)
    base, head = _git(source, "rev-parse", "base"), _git(source, "rev-parse", "head")
    witness = runner.folder / "witness"
    _git(source, "switch", "--quiet", "--create", "hostile")
    checkout = runner.folder / "shallow"
    with PackageIndex(runner.folder / "server") as trap:
        _attack(source, witness, trap.url)
        _git(source, "add", "--all", "--force")
        _git(source, "-c", "core.hooksPath=/dev/null", "commit", "--quiet", "--message", "hostile")
        head = _git(source, "rev-parse", "HEAD")
        _git(runner.folder, "clone", "--quiet", "--bare", str(source), str(runner.folder / "server/octo/serving"))
        _git(runner.folder / "server/octo/serving", "config", "uploadpack.allowReachableSHA1InWant", "true")
        _git(runner.folder, "clone", "--quiet", "--depth=1", f"{runner.git.url}/octo/serving", str(checkout))
        shutil.copytree(source / ".git" / "hooks", checkout / ".git" / "hooks", dirs_exist_ok=True)
        witness.unlink(missing_ok=True)
        runner.git.authorization.clear()

        payload = _payload(base, head)
        payload["pull_request"]["head"]["repo"] = {"id": 2, "full_name": "mallory/serving"}
        runner.github.bot(TOKEN, write=False)
        before = '      - run: echo "$GITHUB_WORKSPACE/bin" >> "$GITHUB_PATH"'
        runner.run(checkout, payload, before, path="serve")
        assert trap.requests == []

    assert not witness.exists(), witness.read_text("utf-8") + runner.log
    assert runner.index.authorization == []
    assert runner.git.authorization, "the base was not fetched"
    outputs = runner.step["outputs"]
    assert (runner.step["outcome"], outputs["verdict"]) == ("failure", "block"), runner.log
    # A fork's token cannot write: that is a warning, and the report is kept.
    assert (runner.github.bodies(), outputs["comment-url"]) == ([], "")
    assert "::warning title=checklistbot::" in runner.log
    assert json.loads((runner.report / "report.json").read_text("utf-8"))["base"]["commit"] == base


# --- this project's own workflow --------------------------------------------------------------------------------------

_UPLOAD = "actions/upload-artifact@043fb46d1a93c77aae656e7c1c64a875d1fc6a0a"
_STUB = """\
name: stands for upload-artifact
inputs: {name: {required: true}, path: {required: true}, if-no-files-found: {default: warn}}
runs:
  using: composite
  steps:
    - shell: bash
      env: {FOLDER: "${{ inputs.path }}"}
      run: test -s "$FOLDER/comment.md"
"""


def test_own_workflow_on_the_example(runner: Runner) -> None:
    checkout = runner.folder / "own"
    shutil.copytree(runner.project, checkout)
    _git(checkout, "init", "--quiet", "--initial-branch=main")
    _git(checkout, "remote", "add", "origin", f"{runner.git.url}/checklistbot/checklistbot")
    _git(checkout, "add", ".github")
    _git(checkout, "commit", "--quiet", "--message", "all")
    stub = runner.folder / "stub"
    stub.mkdir()
    (stub / "action.yml").write_text(_STUB, "utf-8")
    commit = _git(checkout, "rev-parse", "HEAD")
    (runner.folder / "event.json").write_text(json.dumps(_payload(commit, commit)), "utf-8")
    index = ["--env", f"PIP_INDEX_URL={runner.index.url}", "--env", f"UV_DEFAULT_INDEX={runner.index.url}"]
    local = ["--local-repository", f"{_UPLOAD}={stub}", "--eventpath", str(runner.folder / "event.json")]
    code = runner.start(checkout, checkout / ".github" / "workflows" / "checklistbot.yml", *index, *local)
    assert code == 0, runner.log
    assert "Blocked, as it should" in runner.log
    assert runner.index.requests
    assert runner.github.bodies() == []


# --- the workflows to copy, one by one (make test-action) -------------------------------------------------------------

#: The commit that stands in examples/workflows for "the commit you have read".
_READ = "0" * 40
_STORE = """\
name: stands for {name}
inputs: {{name: {{default: ""}}, path: {{default: ""}}, sarif_file: {{default: ""}}, category: {{default: ""}},
  if-no-files-found: {{default: ""}}, retention-days: {{default: ""}}}}
runs:
  using: composite
  steps:
    - shell: bash
      env: {{FROM: "{source}", TO: "{target}"}}
      run: mkdir -p "$TO" && cp -R "$FROM"/. "$TO"
"""


def _stubs(runner: Runner) -> list[str]:
    """Local stand-ins for the actions that act has not built in, as options of act."""
    store, options = runner.folder / "store", []
    wanted = {
        "actions/upload-artifact@043fb46d1a93c77aae656e7c1c64a875d1fc6a0a": ("${{ inputs.path }}", str(store)),
        "actions/download-artifact@3e5f45b2cfb9172054b4087a40e8e0b5a5461e7c": (str(store), "${{ inputs.path }}"),
    }
    for number, (name, (source, target)) in enumerate(wanted.items()):
        folder = runner.folder / f"stub{number}"
        folder.mkdir()
        (folder / "action.yml").write_text(_STORE.format(name=name, source=source, target=target), "utf-8")
        options += ["--local-repository", f"{name}={folder}"]
    sarif = runner.folder / "sarif"
    (sarif / "upload-sarif").mkdir(parents=True)
    text = _STORE.format(name="upload-sarif", source="", target="").partition("      env:")[0]
    run = f'      env: {{FILE: "${{{{ inputs.sarif_file }}}}"}}\n      run: cp "$FILE" {runner.folder}/report.sarif\n'
    (sarif / "upload-sarif" / "action.yml").write_text(text + run, "utf-8")
    commit = "5595ccaf912efad79be6eef63a5619ff05969be3"
    return [*options, "--local-repository", f"github/codeql-action@{commit}={sarif}"]


def _example_run(runner: Runner, name: str, event: str, payload: dict[str, Any], checkout: Path) -> int:
    """One run of examples/workflows/NAME as it stands; only the mirror's address is this machine's."""
    text = (TOP / "examples" / "workflows" / name).read_text("utf-8")
    workflow = runner.folder / name
    workflow.write_text(text.replace("https://pypi-mirror.internal.example/simple", runner.index.url), "utf-8")
    (runner.folder / "event.json").write_text(json.dumps(payload), "utf-8")
    index = ["--env", f"PIP_INDEX_URL={runner.index.url}", "--env", f"UV_DEFAULT_INDEX={runner.index.url}"]
    local = ["--local-repository", f"checklistbot/checklistbot@{_READ}={runner.project}", *_stubs(runner)]
    local += ["--platform", "self-hosted=-self-hosted", "--platform", "llm-network=-self-hosted"]
    return runner.start(
        checkout, workflow, *index, *local, "--eventpath", str(runner.folder / "event.json"), event=event
    )


def _pull_payload(runner: Runner, checkout: Path) -> dict[str, Any]:
    payload = _payload(_git(checkout, "rev-parse", "base"), _git(checkout, "rev-parse", "head"))
    runner.github.pulls["octo/serving", 7].sha = payload["pull_request"]["head"]["sha"]
    return payload


@pytest.mark.act
@pytest.mark.parametrize("name", ["same-repository.yml", "self-hosted.yml"])
def test_example_for_pull_requests(runner: Runner, name: str) -> None:
    checkout = _example(runner)
    assert _example_run(runner, name, "pull_request", _pull_payload(runner, checkout), checkout) == 1, runner.log
    (body,) = runner.github.bodies()
    assert body.startswith("### ⛔ BLOCK")


@pytest.mark.act
def test_example_for_forks(runner: Runner) -> None:
    checkout = _example(runner)
    head = _git(checkout, "rev-parse", "head")
    bare = runner.folder / "server" / "octo" / "serving"
    _git(runner.folder, "clone", "--quiet", "--bare", str(checkout), str(bare))
    _git(bare, "config", "uploadpack.allowReachableSHA1InWant", "true")
    pull = runner.github.pulls["octo/serving", 7]
    pull.owner, pull.sha, pull.base_sha, pull.repo_id = "mallory", head, _git(checkout, "rev-parse", "base"), 2
    own = {"id": 1, "full_name": "octo/serving", "name": "serving", "owner": {"login": "octo"}}
    run = {"id": 9, "event": "pull_request", "head_branch": "topic", "head_sha": head, "repository": own}
    run |= {"head_repository": {"id": 2, "full_name": "mallory/serving", "owner": {"login": "mallory"}}}
    payload = {"action": "completed", "workflow_run": run, "repository": own}
    assert _example_run(runner, "fork.yml", "workflow_run", payload, checkout) == 0, runner.log
    (body,) = runner.github.bodies()
    assert body.startswith("### ⛔ BLOCK")
    assert [run["conclusion"] for run in runner.github.checks.values()] == ["failure"]


@pytest.mark.act
def test_example_for_ticks(runner: Runner) -> None:
    checkout = _example(runner)
    stored = runner.github.put(runner.github.actors[TOKEN], "not ours")
    payload = {"action": "edited", "issue": {"number": 7, "pull_request": {}}, "comment": {"id": stored.id}}
    payload |= {"changes": {"body": {"from": "x"}}, "sender": {"login": "octo-reviewer"}}
    assert _example_run(runner, "tick-gate.yml", "issue_comment", payload, checkout) == 0, runner.log
    assert "nothing to do: not our comment" in runner.log


@pytest.mark.act
def test_example_by_night(runner: Runner) -> None:
    checkout = _example(runner)
    assert _example_run(runner, "nightly.yml", "schedule", {"schedule": "17 4 * * *"}, checkout) in (0, 1), runner.log
    assert json.loads((runner.folder / "report.sarif").read_text("utf-8"))["runs"][0]["results"]
    assert [issue["state"] for issue in runner.github.issues.values()] == ["open"], runner.log


@pytest.mark.act
def test_example_called_from_elsewhere(runner: Runner) -> None:
    checkout = _example(runner)
    folder = checkout / ".github" / "workflows"
    folder.mkdir(parents=True)
    shutil.copy2(TOP / "examples" / "workflows" / "reusable.yml", folder / "checklistbot.yml")
    caller = "on: [pull_request]\njobs:\n  checklistbot:\n    uses: ./.github/workflows/checklistbot.yml\n"
    (runner.folder / "caller.yml").write_text(caller, "utf-8")
    (runner.folder / "event.json").write_text(json.dumps(_pull_payload(runner, checkout)), "utf-8")
    index = ["--env", f"PIP_INDEX_URL={runner.index.url}", "--env", f"UV_DEFAULT_INDEX={runner.index.url}"]
    local = ["--local-repository", f"checklistbot/checklistbot@{_READ}={runner.project}"]
    event = ["--eventpath", str(runner.folder / "event.json")]
    assert runner.start(checkout, runner.folder / "caller.yml", *index, *local, *event) == 1, runner.log
    (body,) = runner.github.bodies()
    assert body.startswith("### ⛔ BLOCK")
