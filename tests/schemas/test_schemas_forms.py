"""The schemas describe what model.py writes, all of it and nothing else; the config's schema agrees with its loader."""

from __future__ import annotations

import copy
import datetime
import json
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from checklistbot import config, scripts
from checklistbot.model import (
    Candidate,
    Checklist,
    Fact,
    Facts,
    Flag,
    Observation,
    Skipped,
    Source,
    Unknown,
    UsageError,
)
from checklistbot.observation.triage import Action, Suspect, Triage
from checklistbot.report import schema

_spec = spec_from_file_location("report_factory", Path(__file__).parent.parent / "report" / "factory.py")
assert _spec
assert _spec.loader
factory: Any = module_from_spec(_spec)
_spec.loader.exec_module(factory)

CASES = ["incident", "stale", "green", "unknown", "nothing"]


def closed(node: Any) -> Any:
    """The schema with every object closed: then a key that it does not describe is an error."""
    if isinstance(node, dict):
        node = {key: closed(value) for key, value in node.items()}
        if node.get("type") == "object" and "properties" in node:
            node.setdefault("additionalProperties", False)
    return [closed(entry) for entry in node] if isinstance(node, list) else node


def errors(name: str, data: Any, *, strict: bool = True) -> list[str]:
    form = schema.bundle(name)
    checker = jsonschema.Draft202012Validator(
        closed(form) if strict else form, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER
    )
    return [f"{'/'.join(map(str, e.absolute_path))}: {e.message[:200]}" for e in checker.iter_errors(data)]


@pytest.mark.parametrize("name", schema.names())
def test_each_schema_is_one_and_whole_by_itself(name: str) -> None:
    form = json.loads(schema.dump(name))
    jsonschema.Draft202012Validator.check_schema(form)
    assert form["$id"] == f"urn:checklistbot:{name}/1"
    assert form["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    list(jsonschema.Draft202012Validator(form).iter_errors({}))  # every reference resolves


def test_all_forms_of_the_contracts_are_there() -> None:
    wanted = {"facts", "check", "report", "finding", "evidence", "capacity", "plan", "triage", "config", "checklist"}
    assert wanted <= set(schema.names())


@pytest.mark.parametrize("case", CASES)
def test_reports_fit(case: str) -> None:
    assert errors("report", getattr(factory, case)().to_json()) == []


def test_hostile_reports_have_the_right_shape() -> None:
    """Enumerations, digests and dates refuse hostile values; no key is missing and none is too many."""

    def leaves(error: jsonschema.ValidationError) -> list[jsonschema.ValidationError]:
        return [leaf for each in error.context for leaf in leaves(each)] if error.context else [error]

    form = jsonschema.Draft202012Validator(
        closed(schema.bundle("report")), format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER
    )
    found = [leaf for error in form.iter_errors(factory.hostile("x<y>").to_json()) for leaf in leaves(error)]
    assert found
    assert {leaf.validator for leaf in found} <= {"enum", "pattern", "format", "type"}


def test_facts_fit_with_every_key_that_a_fact_can_have() -> None:
    source = Source("observed", "log", 3)
    full = Fact(
        5, source, low=1, high=9.5, bound="upper", per_rank=(5, 6), others=(Candidate(7, source),),
        observation=Observation({"tensor_parallel": 8}, ("gpu",), ("memory_fraction",)),
    )  # fmt: skip
    gap = Fact(unknown=Unknown("not-static", "$MODEL", ("log", "pin")))
    flag = Flag("api-key", "***", "--api-key", "a.yaml", 3)
    one = factory.deployment("prefill", kv_pool_tokens=full, model=gap, flags=(flag,), env=(flag,))
    data = factory.facts(one, taken="2026-11-30T12:00:00Z").to_json()
    assert errors("facts", data) == []
    assert Facts.from_json(data).to_json() == data


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("deployments", 0, "role"), None),
        (("deployments", 0, "role", "value"), [1]),
        (("deployments", 0, "role", "source"), None),
        (("deployments", 0, "role", "source", "kind"), "guessed"),
        (("deployments", 0, "surprise"), 1),
        (("digests", "prod/glm-5.3", "config"), "short"),
        (("schema",), "facts/2"),
    ],
)
def test_what_is_no_facts_file_is_refused(path: tuple[Any, ...], value: Any) -> None:
    data = copy.deepcopy(factory.incident().head_facts.to_json())
    at = data
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    assert errors("facts", data)


def test_schemas_may_grow() -> None:
    data = {**factory.incident().to_json(), "new_key": 1}
    assert errors("report", data, strict=False) == []


def test_the_plan_of_a_script_is_a_plan() -> None:
    items = (factory.item("canary-leak", automation={"kind": "canary-leak", "fillers": 8, "probes": 3}),)
    text = scripts.render(Checklist("en", "builtin", None, items), Facts(), "bash")[0].text
    plan = json.loads(text[text.index('{"items"') : text.index('"schema":"plan/1"}') + len('"schema":"plan/1"}')])
    assert errors("plan", plan, strict=False) == []
    plan["items"][0]["automation"] = {"kind": "manual"}
    assert errors("plan", plan, strict=False)


def test_capacity_evidence_and_triage_take_their_examples() -> None:
    unknown = {"schema": "capacity/1", "kv_pool_tokens": None, "kv_gib_per_gpu": None, "bytes_per_token": None,
               "why": ["model-unknown"], "parts": {}}  # fmt: skip
    assert errors("capacity", unknown) == []
    assert errors("capacity", {**unknown, "kv_pool_tokens": {"value": 5, "low": 1}})
    evidence = {
        "schema": "evidence/1", "origin": {"kind": "file", "repo": None, "run_id": None, "sha": None}, "group": None,
        "environment": None, "digests": {}, "unbound": True, "tool": "checklistbot 0.1.0",
        "started": "2026-11-30T12:00:00Z", "finished": "2026-11-30T12:01:00Z", "profile": "smoke", "plan": [], "seed": 7,
        "engine": {"name": "sglang", "version": None},
        "limits": dict.fromkeys(("context_length", "kv_pool_tokens", "first_rejected_length", "page_size"), 5),
        "counts": {"PASS_REJECT": 3, "FAIL_LEAK": 1}, "upper_bound_95": 0.05, "verdict": "fail",
        "hits": [{"verdict": "FAIL_LEAK", "oracle": "canary", "length": 9, "canary_ids": ["c1"], "reply_hmac": "ab"}],
    }  # fmt: skip
    assert errors("evidence", evidence) == []
    assert errors("evidence", {**evidence, "counts": {"fine": 1}})
    suspect = Suspect("truncated", "a.log", 7, "03:00:00", "prefill", "r1", 9, 8)
    night = Triage((suspect,), 1, "unknown", (Action("gateway-limit", "Refuse.", {"tokens": 7}),), (Skipped("a", "b"),))
    triage = night.to_json()
    assert errors("triage", Triage().to_json()) == []
    assert errors("triage", triage) == []


# --- the config: schema and loader agree -----------------------------------------------------------------------------

FULL = """\
version: 1
lang: ko
exclude: ["examples/**"]
deployments:
  - match: {environment: prod, file: "serve/**", group: glm-5.3, name: "glm-*", role: prefill}
    logs: ["ops/logs/prefill*.log"]
    endpoints: ["http://worker:30000"]
    tenancy: shared
    data: sensitive
    upstream_limit: 600000
    facts: {gpu: H200, memory_fraction: 0.9, engine_version: "0.5.22"}
images: [{match: "registry.lan/vllm:2025.07", engine: vllm, version: "0.27.1", fixes: []}]
rules: {kv-pool-unknown: {severity: block}, isolation: "off"}
waivers: [{rule: isolation, deployment: "prod/*", reason: one tenant, expires: 2027-01-31}]
fail_on: block
baseline: true
observe_until: 2026-12-14
require_evidence: {environment: staging, match: [behaviour], max_age_days: 30, profile: standard}
llm: {provider: auto, max_output_tokens: 6000, timeout_s: 120, effort: high, budget_tokens: 9, price: {input: 1, output: 2, currency: EUR}}
incidents: ["ops/incidents/*.yml"]
comment: {id: default, mode: update, "on": changed, require_ticks: [], ticks_by: write}
probe: {allow_hosts: []}
override: {label: checklistbot-override}
"""


def plain(text: str) -> Any:
    """YAML as JSON would hold it: a day is text there."""
    return json.loads(
        json.dumps(
            yaml.safe_load(text), default=lambda day: day.isoformat() if isinstance(day, datetime.date) else None
        )
    )


def test_the_whole_config_is_taken_by_both() -> None:
    assert config.load(FULL, ".checklistbot.yml").lang == "ko"
    assert errors("config", plain(FULL)) == []


@pytest.mark.parametrize(
    "text",
    [
        "lang: en\n", "version: 2\n", "version: 1\nlang: fr\n", "version: 1\nfail_no: block\n", "version: 1\nfail_on: 3\n",
        "version: 1\ndeployments: [{logs: [/etc/passwd]}]\n", "version: 1\ndeployments: [{logs: [a/../../b]}]\n",
        "version: 1\ndeployments: [{logs: ['~/x']}]\n", "version: 1\ndeployments: [{endpoints: ['http://u:p@h']}]\n",
        "version: 1\ndeployments: [{upstream_limit: 0}]\n", "version: 1\ndeployments: [{facts: {engine_version: 0.5}}]\n",
        "version: 1\ndeployments: [{facts: {memory_fraction: 2}}]\n", "version: 1\ndeployments: [{match: {namespace: x}}]\n",
        "version: 1\nimages: [{engine: vllm}]\n", "version: 1\nrules: {isolation: {severity: unknown}}\n", "version: 1\nrules: {isolation: on}\n",
        "version: 1\nwaivers: [{rule: isolation}]\n", "version: 1\nwaivers: [{rule: isolation, reason: ' '}]\n",
        "version: 1\nobserve_until: soon\n", "version: 1\nllm: {timeout_s: 5000}\n", "version: 1\ncomment: {mode: append}\n",
        "version: 1\nincidents: ['C:\\\\x']\n", "version: 1\nrequire_evidence: {profile: huge}\n",
    ],
)  # fmt: skip
def test_what_the_loader_refuses_the_schema_refuses(text: str) -> None:
    with pytest.raises(UsageError):
        config.load(text, ".checklistbot.yml")
    assert errors("config", plain(text))
