"""A GitHub of our own for the tests: state, faults, schedules; every exchange is held against GitHub's own description.

It listens on loopback and speaks the few operations that ``checklistbot.github`` uses. Requests and answers are
validated against ``@octokit/openapi`` (see openapi_contract.py); what does not fit is collected in ``violations`` and
fails the test. GraphQL exchanges are collected in ``graphql_seen`` and held against ``@octokit/graphql-schema`` at the end.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from openapi_contract import Contract

from checklistbot.retry import Clock

COMMENTS_PER_PAGE = 30
EDITS_PER_PAGE = 100
LIMIT = 65_536


@dataclass
class Actor:
    """Who a token is. ``rest_user`` False: GET /user is forbidden, as to a workflow's GITHUB_TOKEN."""

    login: str
    kind: str = "Bot"
    id: int = 41898282
    write: bool = True
    rest_user: bool = False
    graphql: bool = True


@dataclass
class Saved:
    """One entry of a comment's history."""

    login: str
    body: str
    kind: str = "Bot"


@dataclass
class Stored:
    id: int
    actor: Actor
    body: str
    pull: int
    edits: list[Saved] = field(default_factory=list)
    hidden: bool = False
    created_at: str = "2026-11-30T11:00:00Z"

    def save(self, actor: Actor, body: str) -> None:
        """What an edit leaves: the new text, and all texts in the history."""
        if not self.edits:
            self.edits.append(Saved(self.actor.login, self.body, self.actor.kind))
        self.body = body
        self.edits.append(Saved(actor.login, body, actor.kind))


@dataclass
class Pull:
    number: int
    owner: str = "octo"
    branch: str = "topic"
    sha: str = "a" * 40
    state: str = "open"
    locked: bool = False
    author: str = "octo-author"
    labels: tuple[str, ...] = ()
    repo_id: int = 1
    base_sha: str = "b" * 40


@dataclass
class Fault:
    """What goes wrong with the ``nth`` call (from 1) of an operation, ``times`` calls long.

    ``when``: before the operation takes effect, or after it. ``how``: ``status`` answers with ``status``; ``close``
    hangs up without a word; ``cut`` sends half of the true answer under its full length; ``garbage`` sends half of it
    as if it were whole; ``wrong`` sends another JSON value; ``html`` a proxy's page; ``stall`` nothing, until ``release``.
    """

    op: str
    nth: int = 1
    times: int = 1
    when: str = "before"
    how: str = "status"
    status: int = 502
    headers: dict[str, str] = field(default_factory=dict)
    message: str = "Server Error"


@dataclass
class Call:
    """One request as it came in."""

    op: str
    token: str
    path: str
    query: dict[str, str]
    body: Any
    status: int = 0


class Answer(Exception):
    """Ends an operation early with a status and a message."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


#: Operation id of GitHub's description → method and path.
ROUTES = (
    ("users/get-authenticated", "GET", r"/user"),
    ("pulls/list", "GET", r"/repos/(?P<owner>[^/]+)/(?P<repo>[^/]+)/pulls"),
    ("pulls/get", "GET", r"/repos/(?P<owner>[^/]+)/(?P<repo>[^/]+)/pulls/(?P<issue_number>\d+)"),
    ("issues/get-comment", "GET", r"/repos/(?P<owner>[^/]+)/(?P<repo>[^/]+)/issues/comments/(?P<comment_id>\d+)"),
    (
        "repos/get-collaborator-permission-level",
        "GET",
        r"/repos/(?P<owner>[^/]+)/(?P<repo>[^/]+)/collaborators/(?P<username>[^/]+)/permission",
    ),
    (
        "teams/get-membership-for-user-in-org",
        "GET",
        r"/orgs/(?P<org>[^/]+)/teams/(?P<team>[^/]+)/memberships/(?P<username>[^/]+)",
    ),
    ("issues/list-events", "GET", r"/repos/(?P<owner>[^/]+)/(?P<repo>[^/]+)/issues/(?P<issue_number>\d+)/events"),
    ("repos/list-activities", "GET", r"/repos/(?P<owner>[^/]+)/(?P<repo>[^/]+)/activity"),
    ("checks/list-for-ref", "GET", r"/repos/(?P<owner>[^/]+)/(?P<repo>[^/]+)/commits/(?P<ref>[^/]+)/check-runs"),
    ("checks/create", "POST", r"/repos/(?P<owner>[^/]+)/(?P<repo>[^/]+)/check-runs"),
    ("checks/update", "PATCH", r"/repos/(?P<owner>[^/]+)/(?P<repo>[^/]+)/check-runs/(?P<check_run_id>\d+)"),
    ("issues/list-for-repo", "GET", r"/repos/(?P<owner>[^/]+)/(?P<repo>[^/]+)/issues"),
    ("issues/create", "POST", r"/repos/(?P<owner>[^/]+)/(?P<repo>[^/]+)/issues"),
    ("issues/update", "PATCH", r"/repos/(?P<owner>[^/]+)/(?P<repo>[^/]+)/issues/(?P<number>\d+)"),
    ("issues/list-comments", "GET", r"/repos/(?P<owner>[^/]+)/(?P<repo>[^/]+)/issues/(?P<issue_number>\d+)/comments"),
    ("issues/create-comment", "POST", r"/repos/(?P<owner>[^/]+)/(?P<repo>[^/]+)/issues/(?P<issue_number>\d+)/comments"),
    ("issues/update-comment", "PATCH", r"/repos/(?P<owner>[^/]+)/(?P<repo>[^/]+)/issues/comments/(?P<comment_id>\d+)"),
    ("issues/delete-comment", "DELETE", r"/repos/(?P<owner>[^/]+)/(?P<repo>[^/]+)/issues/comments/(?P<comment_id>\d+)"),
)
GRAPHQL = ("graphql/viewer", "graphql/edits", "graphql/hidden", "graphql/hide")
_GRAPHQL_WORDS = (("minimizeComment", "graphql/hide"), ("isMinimized", "graphql/hidden"), ("viewer", "graphql/viewer"))
OPERATIONS = (*(route[0] for route in ROUTES), *GRAPHQL)


class FakeGitHub:
    """The server. ``gate(call, moment)`` runs in the request's thread, before the operation, and before its answer."""

    def __init__(self, contract: Contract, *, prefix: str = "") -> None:
        self.contract = contract
        self.prefix = prefix
        self.actors: dict[str, Actor] = {}
        self.pulls: dict[tuple[str, int], Pull] = {("octo/serving", 7): Pull(7)}
        self.moved: dict[str, str] = {}
        self.ignores_head = False
        self.comments: dict[int, Stored] = {}
        self.next_id = 1000
        self.edits_per_page = EDITS_PER_PAGE
        self.faults: list[Fault] = []
        self.calls: list[Call] = []
        self.violations: list[str] = []
        self.graphql_seen: dict[str, dict[str, Any]] = {}
        self.roles: dict[str, str] = {}
        self.teams: dict[str, set[str]] = {}
        self.label_log: list[dict[str, Any]] = []
        self.pushes: list[tuple[str, str]] = []
        self.checks: dict[int, dict[str, Any]] = {}
        self.checks_allowed = True
        self.issues: dict[int, dict[str, Any]] = {}
        self.seen: dict[str, int] = {}
        self.gate: Callable[[Call, str], None] = lambda call, moment: None
        self.release = threading.Event()
        self.lock = threading.RLock()
        self.server = _Server(("127.0.0.1", 0), _Handler)
        self.server.github = self
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    @property
    def api_url(self) -> str:
        return self.origin + self.prefix

    # --- what tests say and ask

    def reset(self) -> None:
        """A new repository, with nobody in it."""
        with self.lock:
            self.actors, self.comments, self.calls, self.faults, self.seen = {}, {}, [], [], {}
            self.roles, self.teams, self.label_log, self.pushes = {}, {}, [], []
            self.checks, self.checks_allowed, self.issues = {}, True, {}
            self.pulls = {("octo/serving", 7): Pull(7)}
            self.moved = {}
            self.ignores_head = False
            self.next_id = 1000
            self.edits_per_page = EDITS_PER_PAGE
            self.release.set()
            self.release = threading.Event()
            self.gate = lambda call, moment: None

    def bot(self, token: str = "ghs_test", **changes: Any) -> str:
        """A workflow's token."""
        self.actors[token] = Actor("github-actions[bot]", **changes)
        return token

    def person(self, token: str, login: str, **changes: Any) -> str:
        self.actors[token] = Actor(login, "User", 1, rest_user=True, **changes)
        return token

    def put(self, actor: Actor, body: str, pull: int = 7) -> Stored:
        """A comment that is there already."""
        with self.lock:
            self.next_id += 1
            stored = Stored(self.next_id, actor, body, pull)
            self.comments[stored.id] = stored
            return stored

    def bodies(self, login: str = "github-actions[bot]") -> list[str]:
        """The comments of one author, oldest first."""
        with self.lock:
            return [c.body for c in sorted(self.comments.values(), key=lambda c: c.id) if c.actor.login == login]

    def ops(self, *names: str) -> list[str]:
        """The operations in the order of their arrival, or those of them that are named."""
        return [call.op for call in self.calls if not names or call.op in names]

    def fault_for(self, op: str) -> Fault | None:
        """Counts the call, and takes the fault that is meant for it."""
        with self.lock:
            count = self.seen[op] = self.seen.get(op, 0) + 1
            return next((f for f in self.faults if f.op == op and f.nth <= count < f.nth + f.times), None)

    def keep_graphql(self, request: Any, answer: Any) -> None:
        """One exchange of each shape, for the schema to judge at the end of the session."""
        shape = json.dumps([request["query"], _shape(request["variables"]), _shape(answer)], sort_keys=True)
        self.graphql_seen.setdefault(shape, {"request": request, "answer": answer})

    # --- operations

    def run(self, call: Call, arguments: dict[str, str]) -> tuple[int, Any, dict[str, str]]:
        """Status, JSON value (None: no content) and headers of an operation that goes well."""
        actor = self.actors.get(call.token)
        if actor is None:
            raise Answer(401, "Bad credentials")
        if call.op in GRAPHQL:
            return self.graphql(actor, call)
        if call.op == "users/get-authenticated":
            if not actor.rest_user:
                raise Answer(403, "Resource not accessible by integration")
            return 200, self.contract.user(actor.login, actor.id, self.origin), {}
        if call.op == "teams/get-membership-for-user-in-org":
            return self.membership(arguments)
        repo = f"{arguments['owner']}/{arguments['repo']}"
        if call.op == "pulls/list":
            return self.list_pulls(repo, call)
        if call.op == "repos/get-collaborator-permission-level":
            return self.permission(unquote(arguments["username"]))
        if call.op == "repos/list-activities":
            entries = [self.contract.activity(n, sha, at) for n, (sha, at) in enumerate(reversed(self.pushes), 1)]
            return 200, entries, {}
        if call.op.startswith("checks/"):
            return self.check(call, arguments)
        if call.op in ("issues/list-for-repo", "issues/create", "issues/update"):
            return self.issue(actor, call, int(arguments.get("number", 0)))
        if "comment_id" in arguments:
            return self.change(actor, call, int(arguments["comment_id"]))
        pull = self.pulls.get((repo, int(arguments["issue_number"])))
        if pull is None:
            raise Answer(404, "Not Found")
        if call.op == "pulls/get":
            return 200, self.contract.whole_pull(pull, repo, self.origin), {}
        if call.op == "issues/list-events":
            return 200, [self.contract.label_event(n, entry) for n, entry in enumerate(self.label_log, 1)], {}
        if call.op == "issues/list-comments":
            return self.list_comments(pull, repo, call)
        return self.create(actor, pull, repo, call)

    def list_comments(self, pull: Pull, repo: str, call: Call) -> tuple[int, Any, dict[str, str]]:
        size, page = int(call.query.get("per_page", COMMENTS_PER_PAGE)), int(call.query.get("page", 1))
        found = sorted((c for c in self.comments.values() if c.pull == pull.number), key=lambda c: c.id)
        part = found[(page - 1) * size : page * size]
        link = {}
        if page * size < len(found):
            path = f"{self.api_url}/repositories/42/issues/{pull.number}/comments"
            link["Link"] = f'<{path}?per_page={size}&page={page + 1}>; rel="next", <{path}?page=99>; rel="last"'
        return 200, [self.show(c, repo) for c in part], link

    def create(self, actor: Actor, pull: Pull, repo: str, call: Call) -> tuple[int, Any, dict[str, str]]:
        self.may_write(actor)
        if pull.locked:
            raise Answer(403, "Unable to create comment because issue is locked.")
        self.check_body(call.body)
        stored = self.put(actor, call.body["body"], pull.number)
        return 201, self.show(stored, repo), {"Location": f"{self.api_url}/repos/{repo}/issues/comments/{stored.id}"}

    def change(self, actor: Actor, call: Call, comment_id: int) -> tuple[int, Any, dict[str, str]]:
        stored = self.comments.get(comment_id)
        if stored is None:
            raise Answer(404, "Not Found")
        if call.op == "issues/get-comment":
            return 200, self.show(stored, "octo/serving"), {}
        self.may_write(actor)
        if call.op == "issues/delete-comment":
            del self.comments[comment_id]
            return 204, None, {}
        self.check_body(call.body)
        stored.save(actor, call.body["body"])
        return 200, self.show(stored, "octo/serving"), {}

    def graphql(self, actor: Actor, call: Call) -> tuple[int, Any, dict[str, str]]:
        if not actor.graphql:
            raise Answer(403, "Resource not accessible by integration")
        if call.op == "graphql/viewer":
            return 200, {"data": {"viewer": {"login": actor.login}}}, {}
        if call.op == "graphql/hidden":
            return 200, {"data": {"nodes": [self.minimised(node) for node in call.body["variables"]["ids"]]}}, {}
        node = call.body["variables"]["id"]
        stored = next((c for c in self.comments.values() if f"IC_{c.id}" == node), None)
        if stored is None:
            error = {"type": "NOT_FOUND", "path": ["node"], "message": "Could not resolve to a node"}
            return 200, {"data": {"node": None}, "errors": [error]}, {}
        if call.op == "graphql/hide":
            self.may_write(actor)
            stored.hidden = True
            shown = {"__typename": "IssueComment", "isMinimized": True}
            return 200, {"data": {"minimizeComment": {"minimizedComment": shown}}}, {}
        return (
            200,
            {"data": {"node": {"__typename": "IssueComment", "userContentEdits": self.history(stored, call)}}},
            {},
        )

    def minimised(self, node: str) -> dict[str, Any] | None:
        stored = next((c for c in self.comments.values() if f"IC_{c.id}" == node), None)
        return {"__typename": "IssueComment", "id": node, "isMinimized": stored.hidden} if stored else None

    def history(self, stored: Stored, call: Call) -> dict[str, Any]:
        """A page of a comment's edits, newest first."""
        after = call.body["variables"]["after"]
        start, size = int(after) if after else 0, self.edits_per_page
        nodes = [
            {"editor": {"__typename": saved.kind, "login": saved.login.removesuffix("[bot]")}, "diff": saved.body}
            for saved in reversed(stored.edits)
        ]
        more = start + size < len(nodes)
        page = {"hasNextPage": more, "endCursor": str(start + size) if more else None}
        return {"pageInfo": page, "nodes": nodes[start : start + size]}

    def permission(self, login: str) -> tuple[int, Any, dict[str, str]]:
        if login not in self.roles:
            raise Answer(404, "Not Found")
        return 200, self.contract.permission(login, self.roles[login], self.origin), {}

    def membership(self, arguments: dict[str, str]) -> tuple[int, Any, dict[str, str]]:
        if arguments["username"] not in self.teams.get(f"{arguments['org']}/{arguments['team']}", set()):
            raise Answer(404, "Not Found")
        return 200, self.contract.membership(arguments["org"], arguments["username"], self.origin), {}

    def check(self, call: Call, arguments: dict[str, str]) -> tuple[int, Any, dict[str, str]]:
        """Check runs: the latest of a name, a new one, a changed one."""
        if not self.checks_allowed:
            raise Answer(403, "Resource not accessible by integration")
        if call.op == "checks/list-for-ref":
            runs = [
                run
                for run in self.checks.values()
                if run["head_sha"] == arguments["ref"] and run["name"] == call.query["check_name"]
            ]
            return 200, {"total_count": len(runs), "check_runs": runs[::-1]}, {}
        if call.op == "checks/create":
            self.next_id += 1
            run = self.contract.check_run(self.next_id, self.origin)
            self.checks[self.next_id] = run
        else:
            found = self.checks.get(int(arguments["check_run_id"]))
            if found is None:
                raise Answer(404, "Not Found")
            run = found
        self.contract.update_check_run(run, call.body)
        return (201 if call.op == "checks/create" else 200), run, {}

    def issue(self, actor: Actor, call: Call, number: int) -> tuple[int, Any, dict[str, str]]:
        """Issues: those that are open and carry the label, a new one, a changed one."""
        if call.op == "issues/list-for-repo":
            wanted = call.query["labels"]
            found = (issue for issue in self.issues.values() if issue["state"] == call.query["state"])
            return 200, [issue for issue in found if any(label["name"] == wanted for label in issue["labels"])], {}
        self.may_write(actor)
        if call.op == "issues/create":
            self.next_id += 1
            self.issues[self.next_id] = self.contract.issue(self.next_id, actor.login, call.body)
            return 201, self.issues[self.next_id], {}
        if number not in self.issues:
            raise Answer(404, "Not Found")
        self.issues[number] |= call.body
        return 200, self.issues[number], {}

    def list_pulls(self, repo: str, call: Call) -> tuple[int, Any, dict[str, str]]:
        """GitHub ignores a ``head`` that has no colon."""
        head = "" if self.ignores_head else call.query.get("head", "")
        pulls = [
            pull
            for (name, _), pull in self.pulls.items()
            if name == repo and pull.state == call.query.get("state", "open")
            if ":" not in head or f"{pull.owner}:{pull.branch}".casefold() == head.casefold()
        ]
        return 200, [self.listed(pull) for pull in pulls], {}

    def listed(self, pull: Pull) -> dict[str, Any]:
        """A pull request as it stands in a list."""
        shown = self.contract.pull(pull.number, pull.owner, pull.branch, pull.sha, pull.state, self.origin)
        head = {**shown["head"], "repo": {**shown["head"]["repo"], "id": pull.repo_id}}
        return {**shown, "head": head, "base": {**shown["base"], "sha": pull.base_sha}}

    def may_write(self, actor: Actor) -> None:
        if not actor.write:
            raise Answer(403, "Resource not accessible by integration")

    def check_body(self, body: Any) -> None:
        if len(body["body"]) > LIMIT:
            raise Answer(422, "Validation Failed")

    def show(self, stored: Stored, repo: str) -> dict[str, Any]:
        actor = stored.actor
        return self.contract.comment(
            stored.id, stored.pull, repo, stored.body, actor.login, actor.kind, actor.id, self.origin
        ) | {"created_at": stored.created_at}


def _shape(value: Any) -> Any:
    """A JSON value without its texts and numbers, and without the equal ones of a list."""
    if isinstance(value, dict):
        return {key: entry if key == "__typename" else _shape(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [json.loads(text) for text in sorted({json.dumps(_shape(entry), sort_keys=True) for entry in value})]
    return type(value).__name__


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64
    github: FakeGitHub


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    timeout = 60

    def log_message(self, format: str, *args: Any) -> None:
        """Tests read ``calls``."""

    def do_GET(self) -> None:
        self.handle_call()

    do_POST = do_PATCH = do_DELETE = do_GET

    def handle_call(self) -> None:
        github = self.server.github
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = urlsplit(self.path)
        call, arguments = self.recognise(parts.path, parse_qs(parts.query, keep_blank_values=True), raw)
        if call is None:
            self.send(404, {"message": "Not Found", "documentation_url": "https://docs.github.com/rest"}, {})
            return
        named = f"{arguments.get('owner')}/{arguments.get('repo')}"
        if named in github.moved:
            where = github.origin + parts.path.replace(f"/{named}/", f"/{github.moved[named]}/")
            message = {"message": "Moved Permanently", "url": where}
            self.send(301 if self.command == "GET" else 307, message, {"Location": where})
            return
        github.gate(call, "before")
        fault = github.fault_for(call.op)
        if fault is not None and fault.when == "before" and fault.how not in ("cut", "garbage"):
            self.fail(call, fault, 0, None, {})
            return
        status, value, headers = self.perform(call, arguments)
        github.gate(call, "after")
        if fault is not None:
            self.fail(call, fault, status, value, headers)
            return
        call.status = status
        self.send(status, value, headers)

    def recognise(self, path: str, query: dict[str, list[str]], raw: bytes) -> tuple[Call | None, dict[str, str]]:
        github = self.server.github
        token = (self.headers.get("Authorization") or "").removeprefix("token ")
        body = json.loads(raw) if raw else None
        plain = {key: values[-1] for key, values in query.items()}
        graphql = "/api/graphql" if github.prefix else "/graphql"
        if self.command == "POST" and path == graphql:
            op = next((op for word, op in _GRAPHQL_WORDS if word in body["query"]), "graphql/edits")
            return self.record(Call(op, token, path, plain, body)), {}
        path = path.removeprefix(github.prefix).replace("/repositories/42/", "/repos/octo/serving/")
        for op, method, pattern in ROUTES:
            found = re.fullmatch(pattern, path)
            if found and method == self.command:
                return self.record(Call(op, token, path, plain, body)), found.groupdict()
        github.violations.append(f"{self.command} {path}: no operation of ours")
        return None, {}

    def record(self, call: Call) -> Call:
        github = self.server.github
        with github.lock:
            github.calls.append(call)
            if call.op not in GRAPHQL:
                github.violations += github.contract.request(call.op, call.query, call.body)
        return call

    def perform(self, call: Call, arguments: dict[str, str]) -> tuple[int, Any, dict[str, str]]:
        github = self.server.github
        with github.lock:
            try:
                status, value, headers = github.run(call, arguments)
            except Answer as answer:
                value = {"message": answer.message, "documentation_url": "https://docs.github.com/rest"}
                status, headers = answer.status, {}
                if call.op == "teams/get-membership-for-user-in-org":
                    value = None
            if call.op not in GRAPHQL:
                github.violations += github.contract.response(call.op, status, value)
            elif status == 200 and "errors" not in value:
                github.keep_graphql(call.body, value)
            return status, value, headers

    # --- answering

    def send(self, status: int, value: Any, headers: dict[str, str], raw: bytes | None = None, short: int = 0) -> None:
        """The whole answer in one write; ``short`` bytes of it are held back."""
        data = raw if raw is not None else b"" if value is None else json.dumps(value).encode()
        lines = [
            f"HTTP/1.1 {status} X",
            f"Content-Length: {len(data)}",
            "Content-Type: application/json; charset=utf-8",
        ]
        lines += [f"{name}: {text}" for name, text in headers.items()]
        try:
            self.wfile.write("\r\n".join(lines).encode() + b"\r\n\r\n" + data[: len(data) - short])
            self.wfile.flush()
        except OSError:
            self.close_connection = True
        if short:
            self.close_connection = True

    def fail(self, call: Call, fault: Fault, status: int, value: Any, headers: dict[str, str]) -> None:
        call.status = fault.status if fault.how == "status" else -1
        data = json.dumps(value).encode()
        if fault.how == "status":
            self.send(
                fault.status, {"message": fault.message, "documentation_url": "https://docs.github.com"}, fault.headers
            )
        elif fault.how == "cut":
            self.send(status, None, headers, data, short=max(1, len(data) // 2))
        elif fault.how == "garbage":
            self.send(status, None, headers, data[: len(data) // 2] or b"{")
        elif fault.how == "wrong":
            self.send(status or 200, {"unexpected": True}, {})
        elif fault.how == "html":
            self.send(status or 200, None, {}, b"<html><body>please sign in</body></html>")
        else:
            if fault.how == "stall":
                self.server.github.release.wait(30)
            self.close_connection = True


@contextmanager
def serving(contract: Contract, *, prefix: str = "") -> Iterator[FakeGitHub]:
    """A running server, stopped at the end."""
    github = FakeGitHub(contract, prefix=prefix)
    github.thread.start()
    try:
        yield github
    finally:
        github.release.set()
        github.server.shutdown()
        github.server.server_close()
        github.thread.join(5)


# --- time, and whose turn it is --------------------------------------------------------------------------------------


class ManualClock:
    """Time that passes only by sleeping."""

    def __init__(self, start: str = "2026-11-30T12:00:00Z") -> None:
        self.start = datetime.fromisoformat(start).astimezone(UTC).timestamp()
        self.slept: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)

    @property
    def clock(self) -> Clock:
        return Clock(
            now=lambda: sum(self.slept), wall=lambda: self.start + sum(self.slept), sleep=self.sleep, jitter=lambda: 0.5
        )


class Turns:
    """Lets several clients of one server make their calls one at a time, in an order of the test's choosing.

    A client is known by its token. ``choose`` gets the names of those who wait, each at its next call, and picks one;
    that one runs until its next call or its end. So an order is a list of names, and the same list gives the same run.
    """

    def __init__(self, names: Sequence[str], choose: Callable[[list[str]], str]) -> None:
        self.live = set(names)
        self.waiting: set[str] = set()
        self.turn = ""
        self.choose = choose
        self.order: list[str] = []
        self.condition = threading.Condition()

    def gate(self, call: Call, moment: str) -> None:
        """For ``FakeGitHub.gate``."""
        if moment != "before":
            return
        with self.condition:
            self.waiting.add(call.token)
            self._next()
            if not self.condition.wait_for(lambda: self.turn == call.token, timeout=30):
                raise AssertionError(f"{call.token} waits for its turn in vain: {self.order}")
            self.waiting.discard(call.token)
            self.turn = ""
            self.order.append(f"{call.token}:{call.op}")

    def finish(self, name: str) -> None:
        """A client that makes no more calls."""
        with self.condition:
            self.live.discard(name)
            self._next()

    def _next(self) -> None:
        if not self.turn and self.live and self.waiting == self.live:
            self.turn = self.choose(sorted(self.waiting))
            self.condition.notify_all()
