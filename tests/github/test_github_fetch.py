"""A shallow checkout gets the commits it lacks, and the token goes to the server and nowhere else."""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from git_http import GitServer

from checklistbot.github.fetch import Remote, ensure_commits, remote_of
from checklistbot.model import InputError, UsageError

TOKEN = "ghs_ThisTokenIsOnlyForThisTest00000000"
ABSENT = "d" * 40


def _git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@dataclass(frozen=True)
class Place:
    """A bare repository on a loopback server and a checkout of its merge commit, as actions/checkout leaves it."""

    server: GitServer
    checkout: Path
    base: str
    head: str
    fork_point: str

    @property
    def remote(self) -> Remote:
        return Remote(f"{self.server.url}/acme/serving", TOKEN)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    work = tmp_path / "work"
    work.mkdir()
    _git(work, "init", "--quiet", "--initial-branch=main")

    def commit(text: str) -> str:
        (work / f"{text}.txt").write_text(text)
        _git(work, "add", ".")
        _git(work, "commit", "--quiet", "--message", text)
        return _git(work, "rev-parse", "HEAD")

    commit("first")
    fork_point = commit("second")
    _git(work, "switch", "--quiet", "--create", "change")
    head = commit("change")
    _git(work, "switch", "--quiet", "main")
    base = commit("third")
    _git(work, "switch", "--quiet", "--create", "merged")
    _git(work, "merge", "--quiet", "--no-edit", "change")
    merged = _git(work, "rev-parse", "HEAD")
    # The head of a fork is on the server only as refs/pull/7/head.
    _git(work, "update-ref", "refs/pull/7/head", head)
    _git(work, "branch", "--quiet", "--delete", "--force", "change")
    bare = tmp_path / "server" / "acme" / "serving"
    _git(tmp_path, "clone", "--quiet", "--mirror", str(work), str(bare))
    _git(bare, "config", "uploadpack.allowReachableSHA1InWant", "true")

    with GitServer(tmp_path / "server") as server:
        checkout = tmp_path / "checkout"
        checkout.mkdir()
        _git(checkout, "init", "--quiet")
        url = f"{server.url}/acme/serving"
        _git(checkout, "remote", "add", "origin", url)
        _git(checkout, "fetch", "--quiet", "--depth=1", "origin", merged)
        _git(checkout, "checkout", "--quiet", "--detach", merged)
        server.authorization.clear()
        yield Place(server, checkout, base, head, fork_point)


def _has(checkout: Path, commit: str) -> bool:
    command = ["git", "cat-file", "-e", f"{commit}^{{commit}}"]
    return subprocess.run(command, cwd=checkout, check=False, capture_output=True).returncode == 0


def test_missing_base_head_and_merge_base_are_fetched(place: Place) -> None:
    assert not any(_has(place.checkout, commit) for commit in (place.base, place.head, place.fork_point))
    commits = ensure_commits(place.checkout, place.base, place.head, place.remote)
    assert (commits.base, commits.head, commits.notice) == (place.base, place.head, "")
    assert _git(place.checkout, "merge-base", place.base, place.head) == place.fork_point


def test_nothing_is_asked_when_everything_is_there(place: Place) -> None:
    ensure_commits(place.checkout, place.base, place.head, place.remote)
    place.server.authorization.clear()
    ensure_commits(place.checkout, place.base, place.head, place.remote)
    assert place.server.authorization == []


def test_only_one_authorization_header_is_sent_though_checkout_left_its_own(place: Place) -> None:
    _git(place.checkout, "config", f"http.{place.server.url}/.extraheader", "AUTHORIZATION: basic bGVmdG92ZXI=")
    ensure_commits(place.checkout, place.base, place.head, place.remote)
    expected = "basic " + base64.b64encode(f"x-access-token:{TOKEN}".encode()).decode()
    assert place.server.authorization
    assert all(headers == [expected] for headers in place.server.authorization)


def test_token_reaches_neither_argv_nor_a_file(place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "argv.log"
    wrapper = tmp_path / "bin" / "git"
    wrapper.parent.mkdir()
    real = shutil.which("git")
    wrapper.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" >> "{log}"\nexec "{real}" "$@"\n')
    wrapper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{wrapper.parent}{os.pathsep}{os.environ['PATH']}")
    ensure_commits(place.checkout, place.base, place.head, place.remote)
    encoded = base64.b64encode(f"x-access-token:{TOKEN}".encode())
    assert "fetch" in log.read_text().split()
    written = [log, *(path for path in place.checkout.rglob("*") if path.is_file())]
    assert not [path for path in written if TOKEN.encode() in path.read_bytes() or encoded in path.read_bytes()]


def test_nothing_in_the_checkout_runs(place: Place, tmp_path: Path) -> None:
    witness = tmp_path / "witness"
    hooks = place.checkout / "hooks"
    hooks.mkdir()
    for name in ("reference-transaction", "post-checkout", "post-merge", "pre-auto-gc"):
        (hooks / name).write_text(f"#!/bin/sh\ntouch {witness}\n")
        (hooks / name).chmod(0o755)
    _git(place.checkout, "config", "core.hooksPath", str(hooks))
    _git(place.checkout, "config", "core.fsmonitor", f"touch {witness}")
    _git(place.checkout, "config", "credential.helper", f"!touch {witness}")
    ensure_commits(place.checkout, place.base, place.head, place.remote)
    assert not witness.exists()


def test_base_that_is_gone_is_said_and_head_is_still_there(place: Place) -> None:
    commits = ensure_commits(place.checkout, ABSENT, place.head, place.remote)
    assert commits.base is None
    assert commits.head == place.head
    assert f"base {ABSENT[:12]} is not available" in commits.notice


def test_head_that_is_gone_is_an_input_error(place: Place) -> None:
    with pytest.raises(InputError, match="could not be fetched") as error:
        ensure_commits(place.checkout, place.base, ABSENT, place.remote)
    assert TOKEN not in str(error.value)


@pytest.mark.parametrize(
    "server",
    [
        "",
        "github.com",
        "http://github.example",
        "ext::sh -c touch% pwn",
        "https://user:pass@host",
        "file:///etc",
        "https://h?x",
    ],
)
def test_server_that_is_not_https_is_refused(server: str) -> None:
    with pytest.raises(UsageError, match="GITHUB_SERVER_URL"):
        remote_of({"GITHUB_SERVER_URL": server, "GITHUB_REPOSITORY": "acme/serving", "GITHUB_TOKEN": TOKEN})


def test_remote_is_the_repository_of_the_run() -> None:
    environment = {"GITHUB_SERVER_URL": "https://ghes.example/", "GITHUB_REPOSITORY": "acme/serving"}
    assert remote_of(environment) == Remote("https://ghes.example/acme/serving", "")
