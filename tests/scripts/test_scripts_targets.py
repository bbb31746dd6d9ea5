"""The pytest, github and gitlab targets, run for real: healthy, too small a pool, nobody there, and a server that leaks."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from script_linters import LINTERS
from worker_pages import WorkerPages

from checklistbot import scripts
from checklistbot.model import Checklist, Deployment, Facts, Item, Script, declared
from checklistbot.scripts import _filters, _job

NEEDS = pytest.mark.needs("bash", "jq", "curl")
TARGETS = ("bash", "pytest", "github", "gitlab")
ID = "default/glm/unified"
HOSTILE = "a'\"$(touch pwned)`id`${{ secrets.X }}$CI_JOB_TOKEN \\;|&#!\n::error::x\x1b[31m\u202e가"

POOL = {"kind": "assert-fact", "fact": "kv_pool_tokens", "op": ">=", "to": "context_length", "from": "metrics"}
VERSION = {"kind": "assert-version", "engine": "sglang", "min": "0.5.19"}
HEALTH = {"kind": "health-and-metrics", "metrics": ["sglang:context_len"]}
FLAG = {"kind": "flag-present", "flag": "--enable-metrics", "value": True}
BOUNDARY = {"kind": "boundary-request", "at": "first-rejected", "offsets": [-1, 0, 1]}
CANARY = {"kind": "canary-leak", "fillers": 8, "probes": 3}
STORM = {"kind": "abort-storm", "requests": 8, "seconds": 5}


def item(topic: str, automation: dict[str, Any] | None, deployment: str = ID) -> Item:
    return Item(f"{topic}/{deployment}", topic, "required", HOSTILE, HOSTILE, (HOSTILE,), (HOSTILE,), HOSTILE, HOSTILE,
                "before-deploy", automation, {})  # type: ignore[arg-type]  # fmt: skip


def facts(context: int = 131_072, **changes: Any) -> Facts:
    one = Deployment(ID, "glm", "default", "glm", "serve.yaml", 3, engine=declared("sglang", "serve.yaml", 3),
                     context_length=declared(context, "serve.yaml", 4)).replace(**changes)  # fmt: skip
    return Facts((one,), {"default/glm": {"config": "ab" * 32}})


def render(target: str, *items: Item, known: Facts | None = None) -> tuple[Script, ...]:
    return scripts.render(Checklist("en", "openai", None, items), facts() if known is None else known, target)


ASSERTS = (item("pool-against-context", POOL), item("engine-version", VERSION), item("other", HEALTH), item("other", FLAG),
           item("isolation", None))  # fmt: skip
EVERY = (*ASSERTS, item("limit-length-content", BOUNDARY), item("canary-leak", CANARY))


# --- a worker's pages --------------------------------------------------------------------------------------------------


class Worker(WorkerPages):
    """The pages of an SGLang worker that the script reads; each test sets them."""

    pages: ClassVar[dict[str, str]] = {}
    seen: ClassVar[list[tuple[str, str | None]]] = []


def pages(pool: int = 200_000, version: str = "0.5.22") -> dict[str, str]:
    return {
        "/health": "",
        "/server_info": json.dumps({"version": version, "enable_metrics": True, "max_total_num_tokens": pool}),
        "/metrics": f'sglang:max_total_num_tokens{{dp_rank="0"}} {pool}.0\nsglang:context_len{{a="b"}} 1.31072e+05\n',
    }


@pytest.fixture
def server() -> Iterator[str]:
    Worker.pages = pages()
    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Worker)
    thread = threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{httpd.server_address[1]}"
    httpd.shutdown()
    httpd.server_close()
    thread.join()


# --- how a target's files run ------------------------------------------------------------------------------------------


def write(folder: Path, files: tuple[Script, ...]) -> None:
    for file in files:
        path = folder / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(file.text, encoding="utf-8")


def expressions(value: Any, variables: dict[str, str]) -> str:
    """What GitHub makes of the expressions that a workflow of ours may hold."""
    return re.sub(r"\$\{\{ (?:vars|secrets)\.(\w+) \}\}", lambda found: variables.get(found[1], ""), str(value))


def commands(folder: Path, target: str, variables: dict[str, str]) -> list[tuple[str, dict[str, str]]]:
    """The shell commands that a runner would run, each with its environment."""
    if target == "bash":
        return [("bash checklistbot.sh", variables)]
    if target == "pytest":
        return [
            (f"{sys.executable} -m pytest -q -p no:cacheprovider --junitxml=junit.xml test_checklistbot.py", variables)
        ]
    if target == "github":
        (path,) = (folder / ".github" / "workflows").iterdir()
        steps = yaml.safe_load(path.read_text("utf-8"))["jobs"]["checks"]["steps"]
        return [
            (step["run"], {"RUNNER_TEMP": str(folder / "tmp"), **{k: expressions(v, variables) for k, v in step.get("env", {}).items()}})
            for step in steps
            if "run" in step
        ]  # fmt: skip
    job = yaml.safe_load((folder / "ci" / "checklistbot.gitlab-ci.yml").read_text("utf-8"))["checklistbot-pre-deploy"]
    return [(line, {"CI_PROJECT_DIR": str(folder), **variables}) for line in job["script"]]


def run(folder: Path, target: str, files: tuple[Script, ...], **variables: str) -> tuple[int, str]:
    """The exit code of the last step, and everything that was printed. ``checklistbot`` is on PATH, as after an install."""
    write(folder, files)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    code, printed = 0, ""
    for command, environment in commands(folder, target, variables):
        clean = {"PATH": path, "HOME": str(folder), "LC_ALL": "C.UTF-8", **environment}
        done = subprocess.run(["bash", "-e", "-c", command], cwd=folder, env=clean, capture_output=True, text=True,
                              encoding="utf-8", timeout=120)  # fmt: skip
        code, printed = done.returncode, printed + done.stdout + done.stderr
    return code, printed


NEW = TARGETS[1:]


@NEEDS
@pytest.mark.parametrize("target", NEW)
def test_a_healthy_worker_passes(target: str, server: str, tmp_path: Path) -> None:
    code, printed = run(tmp_path, target, render(target, *ASSERTS), SERVER_URL=server)
    assert code == 0, printed
    assert ("5 passed, 1 skipped" if target == "pytest" else "4 passed") in printed  # pytest has one that counts
    if target == "pytest":
        assert 'failures="0"' in (tmp_path / "junit.xml").read_text()


@NEEDS
@pytest.mark.parametrize("target", NEW)
@pytest.mark.parametrize("change", [{"pool": 131_071}, {"version": "0.5.18"}, {"version": "0.5.19rc1"}])
def test_a_pool_too_small_or_an_old_release_fails(
    target: str, change: dict[str, Any], server: str, tmp_path: Path
) -> None:
    Worker.pages = pages(**change)
    code, printed = run(tmp_path, target, render(target, *ASSERTS), SERVER_URL=server)
    assert code == 1, printed


@NEEDS
@pytest.mark.parametrize("target", NEW)
@pytest.mark.parametrize("url", ["", "http://127.0.0.1:9", "file:///etc/passwd"])
def test_who_cannot_be_reached_is_3(target: str, url: str, tmp_path: Path) -> None:
    code, printed = run(tmp_path, target, render(target, *EVERY), SERVER_URL=url)
    assert code == 3, printed
    assert "root:" not in printed


@NEEDS
@pytest.mark.parametrize("target", TARGETS)
def test_an_abort_storm_is_skipped_and_counts_as_not_done(target: str, server: str, tmp_path: Path) -> None:
    files = render(target, item("engine-version", VERSION), item("other", STORM))
    code, printed = run(tmp_path, target, files, SERVER_URL=server, CHECKLISTBOT_I_OWN_THIS_ENDPOINT="127.0.0.1")
    assert code == 3, printed
    if target != "pytest":
        assert "SKIP other/default/glm/unified: abort-storm cannot be done" in printed


@pytest.mark.parametrize("have", ["0.5.22", "v0.5.22", "0.5.22.post1", "0.6", "0.5.100", "0.5.22+cu128"])
def test_pytest_compares_versions_as_releases(have: str, server: str, tmp_path: Path) -> None:
    Worker.pages = pages(version=have)
    files = render("pytest", item("engine-version", {**VERSION, "min": "0.5.22"}))
    assert run(tmp_path, "pytest", files, SERVER_URL=server)[0] == 0


@pytest.mark.parametrize("source", ["log", "server-info"])
def test_pytest_reads_every_source(source: str, server: str, tmp_path: Path) -> None:
    (tmp_path / "w.log").write_text(
        "x server_args=ServerArgs()\nmax_total_num_tokens=140000, x\nmax_total_num_tokens=131000\n"
    )
    files = render("pytest", item("pool-against-context", {**POOL, "from": source}))
    code, printed = run(tmp_path, "pytest", files, SERVER_URL=server, SERVER_LOG="w.log")
    assert (code, "131000" in printed) == ((1, True) if source == "log" else (0, False)), printed


# --- the requests, against the simulator -------------------------------------------------------------------------------


def simulator(*faults: str) -> tuple[subprocess.Popen[str], str]:
    command = [sys.executable, "-m", "checklistbot", "simulate", "--port", "0", "--context", "8192", "--pool", "5328",
               "--decode-pool", "9000", *(word for fault in faults for word in ("--fault", fault))]  # fmt: skip
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    for line in process.stdout:
        if found := re.search(r"http://127\.0\.0\.1:\d+", line):
            return process, found[0]
    raise AssertionError("the simulator did not start")


def probed(folder: Path, target: str, fault: str) -> tuple[int, str, dict[str, Any]]:
    """One target's script against a server of its own: exit code, what was printed, the evidence."""
    folder.mkdir()
    process, url = simulator(*([fault] if fault else []))
    try:
        files = render(target, item("limit-length-content", BOUNDARY), item("canary-leak", CANARY), known=facts(8_192))
        code, printed = run(folder, target, files, SERVER_URL=url, CHECKLISTBOT_I_OWN_THIS_ENDPOINT="127.0.0.1")
    finally:
        process.terminate()
        process.communicate()
    return code, printed, json.loads((folder / "evidence-server.json").read_text("utf-8"))


@NEEDS
def test_foreign_text_with_status_200_fails(tmp_path: Path) -> None:
    # One test: a probe mostly waits, so several run at once, and not once more in each of the runner's processes.
    cases = [(target, fault) for target in TARGETS for fault in ("", "stub-handoff")]
    with ThreadPoolExecutor(len(cases)) as pool:
        results = pool.map(lambda case: probed(tmp_path / "-".join(case), *case), cases)
    for (target, fault), (code, printed, evidence) in zip(cases, results, strict=True):
        expected = (1, "fail") if fault else (0, "pass")
        assert (code, evidence["verdict"]) == expected, (target, fault, printed)
        assert evidence["schema"] == "evidence/1"


# --- what the files are ------------------------------------------------------------------------------------------------


@pytest.mark.needs("ruff", "shellcheck", "shfmt", "zizmor", "check-jsonschema")
@pytest.mark.parametrize("hostile", [False, True])
@pytest.mark.parametrize(
    ("linter", "options", "takes"), LINTERS, ids=[f"{name}{n}" for n, (name, *_) in enumerate(LINTERS)]
)
def test_the_files_are_clean(
    linter: str, options: tuple[str, ...], takes: Any, hostile: bool, tool: Any, tmp_path: Path
) -> None:
    checked = 0
    for target in NEW:
        files = hostile_files(target) if hostile else render(target, *EVERY)
        write(tmp_path / target, files)
        for file in files:
            if takes(file.path):
                done = subprocess.run(
                    [tool(linter), *options, file.path], cwd=tmp_path / target, capture_output=True, text=True
                )
                assert done.returncode == 0, done.stdout + done.stderr
                checked += 1
    assert checked


def hostile_files(target: str) -> tuple[Script, ...]:
    """A repository and a checklist whose every name tries to be something else."""
    deployment = f"{HOSTILE}/{HOSTILE}/unified"
    bad = (
        facts()
        .deployments[0]
        .replace(id=deployment, environment=HOSTILE, group=HOSTILE, engine=declared(HOSTILE, HOSTILE, 1))
    )
    known = Facts((bad,), {HOSTILE: {"config": HOSTILE}, f"{HOSTILE}/x": {"config": "ef" * 32}})
    automations = [POOL, {**FLAG, "value": HOSTILE}, {**VERSION, "min": HOSTILE}, {**CANARY, "fillers": HOSTILE},
                   {"kind": HOSTILE}, {**HEALTH, "metrics": [HOSTILE]}]  # fmt: skip
    return render(target, *(item("other", automation, deployment) for automation in automations), known=known)


@NEEDS
@pytest.mark.parametrize("target", TARGETS)
def test_a_hostile_repository_runs_nothing(target: str, server: str, tmp_path: Path) -> None:
    files = hostile_files(target)
    code, printed = run(tmp_path, target, files, SERVER_URL=server)
    assert code in (1, 3)
    assert not list(tmp_path.rglob("pwned"))
    assert "\x1b" not in printed
    assert not re.search(r"(?m)^::", printed)
    for file in files:
        if file.path.endswith(".yml"):
            assert set(re.findall(r"\$\{\{.*?\}\}", file.text)) <= set(
                re.findall(r"\$\{\{ (?:vars|secrets)\.\w+ \}\}", file.text)
            )
            assert "$CI_JOB_TOKEN" not in file.text


@pytest.mark.parametrize("target", NEW)
def test_same_input_same_bytes_digest_and_no_prose(target: str) -> None:
    files = render(target, *EVERY)
    assert files == render(target, *EVERY)
    assert scripts.config_digests(files[0].text) == {"default/glm": "ab" * 32}
    for file in files:
        assert "touch" not in file.text
        assert "가" not in file.text
        assert not Path(file.path).is_absolute()


def test_every_python_literal_is_what_it_was() -> None:
    (file,) = hostile_files("pytest")
    found = [node.value for node in ast.walk(ast.parse(file.text)) if isinstance(node, ast.Constant)]
    assert _clean(HOSTILE) in found


def _clean(text: str) -> str:
    from checklistbot.encode import clean

    return clean(text, limit=200_000)


@given(st.text(max_size=80))
def test_python_and_yaml_literals_come_back(text: str) -> None:
    assert ast.literal_eval(_filters.py(text)) == _clean(text)
    assert yaml.safe_load(_filters.yaml(text, "gitlab")).replace("$$", "$") == _clean(text)


def test_expressions_are_defused_for_their_target() -> None:
    github = yaml.safe_load(_filters.yaml("a ${{ secrets.X }} b", "github"))
    assert github.replace("${{ '${{' }}", "\0").count("${{") == 0
    assert yaml.safe_load(_filters.yaml("$CI_JOB_TOKEN ${X}", "gitlab")) == "$$CI_JOB_TOKEN $${X}"


# --- the installer -----------------------------------------------------------------------------------------------------


def install(
    tmp_path: Path, files: tuple[Script, ...], path: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    write(tmp_path, files)
    clean = {"PATH": path, "HOME": str(tmp_path), **environment}
    return subprocess.run(
        ["bash", _job.INSTALL, "there"], cwd=tmp_path, env=clean, capture_output=True, text=True, timeout=60
    )


@NEEDS
def test_nothing_is_installed_where_this_version_is_there(tmp_path: Path) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    assert install(tmp_path, render("github", *EVERY), path).returncode == 0
    assert not (tmp_path / "there").exists()


@NEEDS
@pytest.mark.parametrize("ref", ["", "main", "v1.0", "abc", "a" * 39, "--upload-pack=id", "A" * 40])
def test_only_a_commit_is_installed(tmp_path: Path, ref: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_job, "commit", lambda: "")
    path = os.pathsep.join(sorted({str(Path(shutil.which(t) or "/bin/sh").parent) for t in ("bash", "git", "mkdir")}))
    done = install(tmp_path, render("github", *EVERY), path, CHECKLISTBOT_REF=ref)
    assert done.returncode == 3
    assert "set CHECKLISTBOT_REF to the commit" in done.stderr
    assert not (tmp_path / "there").exists()


def test_the_installer_names_repository_and_commit_and_no_bare_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_job, "commit", lambda: "c" * 40)
    text = next(file.text for file in render("gitlab", *EVERY) if file.path == _job.INSTALL)
    assert f"ref=${{CHECKLISTBOT_REF:-{'c' * 40}}}" in text
    assert re.search(r"^repository=https://\S+/checklistbot$", text, re.MULTILINE)
    assert not re.search(r"pip install (?:-\S+ )*checklistbot", text)
    assert "--require-hashes" in text


def test_a_job_without_requests_installs_nothing() -> None:
    for target in ("github", "gitlab"):
        files = render(target, *ASSERTS)
        assert _job.INSTALL not in {file.path for file in files}
        assert "nstall" not in files[0].text


# --- the command -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", TARGETS)
def test_check_tells_whether_committed_files_are_out_of_date(
    target: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from checklistbot.cli import main

    source, out = tmp_path / "checklist.json", tmp_path / "out"
    source.write_text(json.dumps(Checklist("en", "builtin", None, EVERY).to_json()), encoding="utf-8")
    words = ["script", str(source), "--target", target, "--output", str(out)]
    assert main([*words, "--check"]) == 1
    assert main(words) == 0
    assert main([*words, "--check"]) == 0
    written = next(path for path in sorted(out.rglob("*")) if path.is_file())
    written.write_text(written.read_text("utf-8") + "# edited\n", encoding="utf-8")
    capsys.readouterr()
    assert main([*words, "--check"]) == 1
    assert "out of date: " in capsys.readouterr().err
