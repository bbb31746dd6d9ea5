"""Rules that read files of the repository, and rules over probe evidence."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from deployment_factory import TODAY, cap, deployment, derived, facts, of, pair, verdicts

from checklistbot.discovery.tree import open_tree
from checklistbot.model import Facts
from checklistbot.rules import Sources

SENSITIVE = "deployments: [{match: {}, tenancy: dedicated, data: sensitive}]"
SERVED = facts(deployment(served_model_name="acme-glm", context=131_072))


def sources(folder: Path, files: dict[str, str]) -> Sources:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    (folder / "empty.txt").touch()
    return Sources(open_tree(folder))


# --- shared-llm-api -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "files", "hosts"),
    [
        (SENSITIVE, {"app/client.py": 'BASE = "https://api.openai.com/v1"'}, ["api.openai.com"]),
        (SENSITIVE, {"a.py": "api.anthropic.com", "b.py": "api.anthropic.com api.openai.com"}, ["api.anthropic.com", "api.openai.com"]),
        (SENSITIVE, {"README.md": "we left api.openai.com"}, []),
        (SENSITIVE, {"app/client.py": "https://llm.internal/v1"}, []),
        ("deployments: [{match: {}, data: internal}]", {"app/client.py": "api.openai.com"}, []),
        ("", {"app/client.py": "api.openai.com"}, []),
    ],
)  # fmt: skip
def test_shared_apis_matter_where_data_is_sensitive(tmp_path, policy, files, hosts) -> None:  # type: ignore[no-untyped-def]
    for language in ("en", "ko"):
        found = of("shared-llm-api", SERVED, policy, sources=sources(tmp_path, files), language=language)
        assert [f.parameters["host"] for f in found] == hosts
        assert {f.verdict for f in found} <= {"warn"}


# --- content-test-missing ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "files", "expected"),
    [
        (pair(context=4096), {}, ["note"]),
        (SERVED, {}, ["note"]),
        (facts(deployment(context=8192)), {}, []),
        (SERVED, {".github/workflows/ci.yml": "run: checklistbot probe https://staging"}, []),
        (SERVED, {"ci/gate.sh": "bash ci/checklistbot.sh"}, []),
        (SERVED, {"docs/ci.md": "run checklistbot probe"}, ["note"]),
        (SERVED, {".github/workflows/ci.yml": "run: checklistbot check ."}, ["note"]),
    ],
)
def test_a_repository_without_a_content_test(tmp_path, state, files, expected) -> None:  # type: ignore[no-untyped-def]
    assert verdicts("content-test-missing", state, sources=sources(tmp_path, files)) == expected


def test_with_an_evidence_policy_the_evidence_rules_speak(tmp_path: Path) -> None:
    policy = "require_evidence: {environment: staging, match: [behaviour]}"
    assert verdicts("content-test-missing", SERVED, policy, sources=sources(tmp_path, {})) == []
    assert verdicts("content-test-missing", SERVED) == []


# --- advertised-context-differs ------------------------------------------------------------------------------------------

GATEWAY = """\
model_list:
  - model_name: acme-glm
    litellm_params: {api_base: http://glm}
    model_info:
      max_input_tokens: %s
  - model_name: another
    model_info:
      max_input_tokens: 9000000
"""


@pytest.mark.parametrize(
    ("state", "files", "expected"),
    [
        (SERVED, {"gateway/config.yaml": GATEWAY % "1048576"}, ["warn"]),
        (SERVED, {"gateway/config.yaml": GATEWAY % "1_048_576"}, ["warn"]),
        (SERVED, {"gateway/config.yaml": GATEWAY % "131072"}, []),
        (SERVED, {"gateway/config.yaml": GATEWAY % "100000"}, []),
        (SERVED, {"gateway/config.yaml": "models:\n  - id: acme-glm-large\n    context_window: 1048576\n"}, []),
        (SERVED, {"gateway/config.yaml": "models:\n  - id: acme-glm\n    owner: us\n  - id: b\n    context_window: 1048576\n"}, []),
        (SERVED, {"gateway/models.json": '{\n  "id": "acme-glm",\n  "context_window": 1048576\n}\n'}, ["warn"]),
        (SERVED, {"data/rows.jsonl": '{"id": "acme-glm"}\n{"context_window": 1048576}\n'}, []),
        (facts(deployment(served_model_name="chat", context=4096)), {"docs/a.md": "For chat: 128K context is enough"}, []),
        (SERVED, {"docs/models.md": "acme-glm-large: 1M context"}, []),
        (SERVED, {"docs/models.md": "acme-glm: 1M context"}, ["note"]),
        (SERVED, {"docs/models.md": "acme-glm has a context window of 262,144 tokens"}, ["note"]),
        (SERVED, {"docs/models.md": "acme-glm은 최대 컨텍스트 1,048,576 토큰을 지원합니다"}, ["note"]),
        (SERVED, {"docs/models.md": "acme-glm: 128K context"}, []),
        (SERVED, {"docs/models.md": "another: 1M context"}, []),
        (SERVED, {"docs/models.md": "acme-glm served 1,048,576 requests"}, []),
        (facts(deployment(context=131_072)), {"docs/models.md": "glm-5.3: 1M context"}, []),
        (facts(deployment(served_model_name="acme-glm", context=derived(1_048_576), pool=681_280)),
         {"gateway/config.yaml": GATEWAY % "1000000"}, ["block"]),
        (facts(deployment(served_model_name="acme-glm", context=derived(1_048_576), pool=cap(681_280))),
         {"gateway/config.yaml": GATEWAY % "1000000"}, ["block"]),
        (facts(deployment(served_model_name="acme-glm", context=derived(1_048_576), pool=681_280)),
         {"docs/models.md": "acme-glm: 1M context"}, []),
        (facts(deployment(served_model_name="acme-glm", context=derived(1_048_576))), {"gateway/config.yaml": GATEWAY % "1000000"}, []),
    ],
)  # fmt: skip
def test_what_is_promised_elsewhere(tmp_path, state, files, expected) -> None:  # type: ignore[no-untyped-def]
    for language in ("en", "ko"):
        assert (
            verdicts("advertised-context-differs", state, sources=sources(tmp_path, files), language=language)
            == expected
        )


def test_the_promise_is_pointed_at(tmp_path: Path) -> None:
    (finding,) = of("advertised-context-differs", SERVED, sources=sources(tmp_path, {"gw.yaml": GATEWAY % "1048576"}))
    assert str(finding.location) == "gw.yaml:5"
    assert (finding.parameters["advertised"], finding.parameters["served"]) == (1_048_576, 131_072)


def test_the_deployment_itself_is_no_promise(tmp_path: Path) -> None:
    state = facts(deployment(served_model_name="acme-glm", file="serve/glm.yaml"))
    files = {"serve/glm.yaml": "args: [acme-glm]\ncontext_length: 1048576\n"}
    assert of("advertised-context-differs", state, sources=sources(tmp_path, files)) == []


# --- evidence ----------------------------------------------------------------------------------------------------------------

DIGESTS = {"prod/glm-5.3": {"behaviour": "b1", "capacity": "c1", "config": "x"}}
POLICY = "require_evidence: {environment: staging, match: [behaviour], max_age_days: 30, profile: standard}"
STATE = Facts((deployment(),), DIGESTS)


def result(**changes: Any) -> dict[str, Any]:
    base = {
        "schema": "evidence/1", "origin": {"kind": "run"}, "group": "glm-5.3", "environment": "staging", "unbound": False,
        "digests": {"behaviour": "b1", "capacity": "c9"}, "finished": "2026-11-20T10:00:00Z", "profile": "standard", "verdict": "pass",
        "counts": {"PASS_REJECT": 9},
    }  # fmt: skip
    return {**base, **changes}


def standing(*evidence: dict[str, Any], policy: str = POLICY, today: date = TODAY) -> set[tuple[str, str]]:
    rules = ("evidence-missing", "evidence-stale", "evidence-failed")
    return {(r, f.verdict) for r in rules for f in of(r, STATE, policy, evidence=tuple(evidence), today=today)}


MISSING, STALE = {("evidence-missing", "warn")}, {("evidence-stale", "warn")}


@pytest.mark.parametrize(
    ("evidence", "expected"),
    [
        ([], MISSING),
        ([result()], set()),
        ([result(origin={"kind": "attested"})], set()),
        ([result(origin={"kind": "file"})], MISSING),
        ([result(origin=None)], MISSING),
        ([result(unbound=True)], MISSING),
        ([result(environment="dev")], MISSING),
        ([result(group="other")], MISSING),
        ([result(profile="smoke")], MISSING),
        ([result(profile="deep")], set()),
        ([result(verdict="inconclusive")], MISSING),
        ([result(digests={"behaviour": "b0"})], STALE),
        ([result(digests={})], STALE),
        ([result(digests=None)], STALE),
        ([result(finished="2026-10-30T10:00:00Z")], STALE),
        ([result(finished="2026-10-31T10:00:00Z")], set()),
        ([result(finished="soon")], STALE),
        ([result(digests={"behaviour": "b0"}), result()], set()),
        ([result(verdict="fail")], {*MISSING, ("evidence-failed", "block")}),
        ([result(verdict="fail", origin={"kind": "file"}), result()], {("evidence-failed", "block")}),
    ],
)
def test_evidence_under_a_policy(evidence, expected) -> None:  # type: ignore[no-untyped-def]
    assert standing(*evidence) == expected


def test_capacity_counts_where_the_policy_names_it() -> None:
    policy = POLICY.replace("[behaviour]", "[behaviour, capacity]")
    assert standing(result(), policy=policy) == STALE
    assert standing(result(digests={"behaviour": "b1", "capacity": "c1"}), policy=policy) == set()


def test_without_a_policy_only_a_failure_is_said() -> None:
    assert standing(policy="") == set()
    assert standing(result(), policy="") == set()
    assert standing(result(verdict="fail", environment="prod"), policy="") == {("evidence-failed", "warn")}


def test_evidence_ages() -> None:
    assert standing(result(), today=TODAY + timedelta(days=21)) == STALE


def test_evidence_reads_in_korean() -> None:
    for evidence in ((), (result(digests={}),), (result(verdict="fail", counts={"FAIL_LEAK": 2}),)):
        for rule in ("evidence-missing", "evidence-stale", "evidence-failed"):
            for finding in of(rule, STATE, POLICY, evidence=evidence, language="ko"):
                assert any("가" <= letter <= "힣" for letter in finding.message)
    assert (
        "FAIL_LEAK 2"
        in of("evidence-failed", STATE, POLICY, evidence=(result(verdict="fail", counts={"FAIL_LEAK": 2}),))[0].message
    )
