"""GitHub's published OpenAPI description (npm ``@octokit/openapi``) as a judge of exchanges and a source of examples.

Nothing of it is in this repository: the operations and schemas that are needed are taken from the package at test time.
"""

from __future__ import annotations

import copy
import json
from functools import cache
from pathlib import Path
from typing import Any

from openapi_schema_validator import OAS30Validator, oas30_format_checker


class Contract:
    """Validates requests and responses by operation id.

    Statuses that the description leaves out (a 502, a 403 on a list) must at least have the form of an error.
    """

    def __init__(self, package: Path) -> None:
        text = (package / "generated" / "api.github.com.json").read_text("utf-8")
        self.document: dict[str, Any] = json.loads(text)
        self.operations = {
            operation["operationId"]: operation
            for methods in self.document["paths"].values()
            for operation in methods.values()
            if isinstance(operation, dict) and "operationId" in operation
        }
        self._validators: dict[str, OAS30Validator] = {}
        self._examples: dict[str, Any] = {}

    # --- judging

    def request(self, op: str, query: dict[str, str], body: Any) -> list[str]:
        """What is wrong with a request: an undescribed query parameter, a value that does not fit, the body."""
        operation = self.operations[op]
        allowed = {
            p["name"]: p["schema"] for p in map(self.resolve, operation.get("parameters", [])) if p["in"] == "query"
        }
        wrong = [f"{op}: query parameter {name} is not described" for name in query if name not in allowed]
        for name, value in query.items():
            schema = allowed.get(name, {})
            typed: Any = int(value) if schema.get("type") == "integer" and value.isdigit() else value
            wrong += self.errors(f"{op}?{name}", schema, typed)
        described = operation.get("requestBody")
        if described is None:
            return wrong + ([f"{op}: a body is not described"] if body is not None else [])
        return wrong + self.errors(f"{op} body", described["content"]["application/json"]["schema"], body)

    def response(self, op: str, status: int, value: Any) -> list[str]:
        """What is wrong with an answer."""
        described = self.operations[op]["responses"].get(str(status))
        if described is None:
            if status < 400:
                return [f"{op}: status {status} is not described"]
            return self.errors(f"{op} {status}", {"$ref": "#/components/schemas/basic-error"}, value)
        content = self.resolve(described).get("content")
        if content is None:
            return [] if value is None else [f"{op} {status}: a body is not described"]
        return self.errors(f"{op} {status}", content["application/json"]["schema"], value)

    def resolve(self, node: dict[str, Any]) -> dict[str, Any]:
        while "$ref" in node:
            target: Any = self.document
            for key in node["$ref"].removeprefix("#/").split("/"):
                target = target[key]
            node = target
        return node

    def errors(self, where: str, schema: dict[str, Any], value: Any) -> list[str]:
        return [
            f"{where}: {'/'.join(map(str, e.path))}: {e.message[:200]}"
            for e in self.validator(schema).iter_errors(value)
            # A nullable enum that does not list null: the description's own example of a pending check run breaks it.
            if not (e.validator == "enum" and e.instance is None and e.schema.get("nullable"))
        ]

    def validator(self, schema: dict[str, Any]) -> OAS30Validator:
        key = json.dumps(schema, sort_keys=True)
        if key not in self._validators:
            whole = {**schema, "components": self.document["components"]}
            self._validators[key] = OAS30Validator(whole, format_checker=oas30_format_checker)
        return self._validators[key]

    # --- examples, filled

    def example(self, name: str) -> Any:
        return copy.deepcopy(self.document["components"]["examples"][name]["value"])

    def comment(
        self, id: int, pull: int, repo: str, body: str, login: str, kind: str, user_id: int, origin: str
    ) -> dict[str, Any]:
        example = self._examples.setdefault("comment", self.example("issue-comment"))
        return {
            **example,
            "id": id,
            "node_id": f"IC_{id}",
            "url": f"{origin}/repos/{repo}/issues/comments/{id}",
            "html_url": f"https://github.com/{repo}/pull/{pull}#issuecomment-{id}",
            "issue_url": f"{origin}/repos/{repo}/issues/{pull}",
            "body": body,
            "user": {**example["user"], "login": login, "id": user_id, "type": kind},
        }

    def user(self, login: str, user_id: int, origin: str) -> dict[str, Any]:
        example = self.example("private-user-response-with-public-profile-information")
        return {**example, "login": login, "id": user_id, "url": f"{origin}/users/{login}", "user_view_type": "public"}

    def pull(self, number: int, owner: str, branch: str, sha: str, state: str, origin: str) -> dict[str, Any]:
        example = self.example("pull-request-simple-items")[0]
        head = {**example["head"], "label": f"{owner}:{branch}", "ref": branch, "sha": sha}
        # The description's own example lacks the type of a requested team, which its schema demands.
        return {**example, "number": number, "state": state, "head": head, "requested_teams": []}

    def whole_pull(self, pull: Any, repo: str, origin: str) -> dict[str, Any]:
        """A pull request by itself (``pull`` is the server's)."""
        example = self._examples.setdefault("pull", self.example("pull-request"))
        head = example["head"]
        repository = {**head["repo"], "full_name": repo}
        label = example["labels"][0]
        return {
            **example,
            "number": pull.number,
            "state": pull.state,
            "locked": pull.locked,
            "user": {**example["user"], "login": pull.author},
            "labels": [{**label, "name": name} for name in pull.labels],
            "head": {
                **head,
                "label": f"{pull.owner}:{pull.branch}",
                "ref": pull.branch,
                "sha": pull.sha,
                "repo": repository,
            },
            "url": f"{origin}/repos/{repo}/pulls/{pull.number}",
            "requested_teams": [],
        }

    def permission(self, login: str, role: str, origin: str) -> dict[str, Any]:
        """GitHub folds maintain into write and triage into read in the older field."""
        example = self.example("repository-collaborator-permission-response-if-user-has-admin-permissions")
        older = {"maintain": "write", "triage": "read"}.get(
            role, role if role in ("admin", "write", "read") else "none"
        )
        user = {**example["user"], "login": login, "role_name": role}
        return {**example, "permission": older, "role_name": role, "user": user}

    def membership(self, organisation: str, login: str, origin: str) -> dict[str, Any]:
        return self.example("team-membership-response-if-user-is-a-team-maintainer")

    def label_event(self, number: int, entry: dict[str, Any]) -> dict[str, Any]:
        """``entry``: event (labeled, unlabeled), login, label, at."""
        example = self.example("issue-event-for-issue-items")[0]
        return {
            **example,
            "id": number,
            "event": entry["event"],
            "created_at": entry["at"],
            "actor": {**example["actor"], "login": entry["login"]},
            "label": {"name": entry["label"], "color": "ff0000"},
        }

    def activity(self, number: int, sha: str, at: str) -> dict[str, Any]:
        example = self.example("activity-items")[0]
        # The description's own example lacks what its schema demands.
        filled = {"activity_type": "push", "actor": example.get("pusher"), **example}
        return {**filled, "id": number, "after": sha, "timestamp": at}

    def issue(self, number: int, login: str, sent: dict[str, Any]) -> dict[str, Any]:
        """What GitHub makes of a request to open an issue."""
        example = {k: v for k, v in self.example("issue").items() if k != "pull_request"}
        label = next(entry for entry in example["labels"] if isinstance(entry, dict))
        return {
            **example,
            "number": number,
            "html_url": f"https://github.com/octo/serving/issues/{number}",
            "user": {**example["user"], "login": login},
            "state": "open",
            "title": sent["title"],
            "body": sent["body"],
            "labels": [{**label, "name": name} for name in sent["labels"]],
        }

    def check_run(self, number: int, origin: str) -> dict[str, Any]:
        example = self.example("check-run")
        address = f"https://github.com/octo/serving/runs/{number}"
        return {**example, "id": number, "pull_requests": [], "html_url": address, "output": dict(example["output"])}

    def update_check_run(self, run: dict[str, Any], sent: dict[str, Any]) -> None:
        """What GitHub makes of a request to create or change a check run: annotations are added to those there are."""
        output = sent.get("output", {})
        for key in ("name", "head_sha", "external_id", "status", "details_url", "started_at", "completed_at"):
            if key in sent:
                run[key] = sent[key]
        if "conclusion" in sent:
            run["conclusion"], run["status"] = sent["conclusion"], "completed"
        elif sent.get("status") in ("queued", "in_progress"):
            run["conclusion"] = run["completed_at"] = None
        run["output"].update({key: output[key] for key in ("title", "summary", "text") if key in output})
        kept = run.setdefault("_annotations", [])
        kept += output.get("annotations", [])
        run["output"]["annotations_count"] = len(kept)


@cache
def contract_of(package: Path) -> Contract:
    return Contract(package)
