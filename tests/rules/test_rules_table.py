"""Every rule three times: where it must fire, where it must stay silent, and where a fact that it needs is not known.

"Unknown" never passes: the rule then says unknown itself, or leaves it to the rule that asks for the fact (kv-pool-unknown,
engine-version-unknown, input-unreadable); which one is written in the third row.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any, Final

import pytest
from deployment_factory import cap, check, deployment, derived, facts, pair, predicted, stale, unknown
from memory_tree import MemoryTree

from checklistbot import rules
from checklistbot.model import Candidate, Fact, Facts, Skipped, Source, declared, observed
from checklistbot.rules import Sources

C: Final = 131_072
SENSITIVE: Final = "deployments: [{match: {}, tenancy: shared, data: sensitive}]"
EVIDENCE: Final = "require_evidence: {environment: staging, match: [behaviour], max_age_days: 30, profile: standard}"
PROVEN: Final = {
    "schema": "evidence/1", "origin": {"kind": "run"}, "group": "glm-5.3", "environment": "staging", "unbound": False,
    "digests": {"behaviour": "b1"}, "finished": "2026-11-20T10:00:00Z", "profile": "standard", "verdict": "pass", "counts": {},
}  # fmt: skip
NIXL_UNCHECKED: Final = '--kv-transfer-config {"kv_connector": "NixlConnector", "kv_connector_extra_config": {"enforce_handshake_compat": false}}'
NIXL: Final = '--kv-transfer-config {"kv_connector": "NixlConnector"}'
GATEWAY: Final = "models:\n  - id: acme-glm\n    context_window: %s\n"


def one(role: str = "unified", **options: Any) -> Facts:
    return facts(deployment(role, **options))


def served(**options: Any) -> Facts:
    return one(served_model_name="acme-glm", **options)


def lost(*names: str, known: bool = True) -> Facts:
    """A deployment whose command a comment cuts; with ``known`` False nobody knows whether its flags arrive."""
    built = deployment(given=("--context-length 4096", "--page-size 64"))
    cut = tuple(dataclasses.replace(flag, reaches_server=flag.name not in names) for flag in built.flags)
    return facts(built.replace(flags=cut if known else ()))


def seen(value: int, *, shown: int) -> Fact:
    """A declared context length beside the one that a log shows."""
    source = Source("observed", "ops/a.log", 3)
    return declared(value, "serve/glm.yaml", 15).replace(others=(Candidate(shown, source),))


def with_digests(**digests: str) -> Facts:
    return Facts((deployment(),), {"prod/glm-5.3": digests} if digests else {})


@dataclass(frozen=True)
class Case:
    """A state and what the rule says about it; ``asks`` is the rule that says what is not known, where this one leaves it to another."""

    state: Facts
    expected: tuple[str, ...] = ()
    policy: str = ""
    files: dict[str, str] | None = None
    base: Facts | None = None
    evidence: tuple[dict[str, Any], ...] = ()
    options: dict[str, Any] = field(default_factory=dict)
    asks: str = ""

    def verdicts(self, rule: str, language: str = "en") -> tuple[str, ...]:
        tree = MemoryTree(self.files) if self.files is not None else None
        found = check(self.state, self.policy, base=self.base, evidence=self.evidence, language=language,
                      sources=Sources(tree), **self.options)  # type: ignore[arg-type] # fmt: skip
        return tuple(f.verdict for f in found.findings if f.rule == rule and f.status != "fixed")


def no(state: Facts, **more: Any) -> Case:
    return Case(state, (), **more)


#: rule → (must fire, must stay silent, a fact is not known)
TABLE: Final[dict[str, tuple[Case, Case, Case]]] = {
    "advertised-context-differs": (
        Case(served(context=C), ("warn",), files={"gw.yaml": GATEWAY % "1048576"}),
        no(served(context=C), files={"gw.yaml": GATEWAY % "131072"}),
        no(served(context=None), files={"gw.yaml": GATEWAY % "1048576"}, asks="kv-pool-unknown"),
    ),
    "auto-truncate-in-disaggregation": (
        Case(pair({"pool": 90_000}, {"pool": 99_000}, given=("--allow-auto-truncate",)), ("block",)),
        no(pair(pool=2 * C, given=("--allow-auto-truncate",))),
        Case(pair(given=("--allow-auto-truncate",)), ("block",)),  # "blocks unless the limits are known to be equal"
    ),
    "comment-cuts-command": (
        Case(lost("page-size"), ("warn",)),
        no(lost()),
        no(lost(known=False), asks="kv-pool-unknown"),
    ),
    "content-test-missing": (
        Case(one(context=C), ("note",), files={"serve/a.yaml": ""}),
        no(one(context=C), files={"ci/gate.sh": "checklistbot probe https://staging"}),
        no(one(context=None), files={"serve/a.yaml": ""}, asks="kv-pool-unknown"),
    ),
    "context-beyond-model": (
        Case(one(model="Qwen/Qwen3-8B", context=C), ("warn",)),
        no(one(model="Qwen/Qwen3-8B", context=40_960)),
        no(one(model="acme/own", context=C), asks="kv-pool-unknown"),
    ),
    "context-shared-by-slots": (
        Case(one(engine="llama.cpp", version=None, given=("--ctx-size 32768", "--parallel 4")), ("note",)),
        no(one(engine="llama.cpp", version=None, given=("--ctx-size 32768", "--parallel 1"))),
        no(one(engine="llama.cpp", version=None, given=("--ctx-size $SIZE", "--parallel 4")), asks="isolation"),
    ),
    "context-shrinks-silently": (
        Case(one(engine="tensorrt-llm", served_context=observed(90_000, "a.log", 1)), ("warn",)),
        no(one(engine="tensorrt-llm", served_context=observed(C, "a.log", 1))),
        Case(one(engine="tensorrt-llm"), ("note",), asks="kv-pool-unknown"),
    ),
    "deployment-disappeared": (
        Case(facts(), ("warn",), base=one()),
        no(one(), base=one()),
        no(Facts(skipped=(Skipped("serve/glm.yaml", "not UTF-8 text"),)), base=one(), asks="input-unreadable"),
    ),
    "disaggregated-pair-mismatch": (
        Case(pair({"pool": 100_000}, {"pool": 200_000}, version="0.5.19"), ("block",)),
        Case(pair(pool=2 * C, version="0.5.19"), ("pass",)),
        no(pair({"pool": 100_000}, version="0.5.19"), asks="kv-pool-unknown"),
    ),
    "disaggregation-safeguards": (
        Case(pair(), ("note",)),
        no(pair(given=("--disaggregation-enable-kv-checksum", "--kv-canary log"))),
        no(pair(version=None), asks="engine-below-fixed-version"),
    ),
    "engine-below-fixed-version": (
        Case(pair(version="0.5.19"), ("block",)),
        Case(pair(version="0.5.22"), ("pass",)),
        Case(pair(version=None), ("unknown",)),
    ),
    "engine-version-unknown": (
        Case(one(engine="vllm", version=None), ("unknown",)),
        no(one(engine="vllm")),
        no(pair(version=None), asks="engine-below-fixed-version"),
    ),
    "evidence-failed": (
        Case(with_digests(behaviour="b1"), ("block",), EVIDENCE, evidence=({**PROVEN, "verdict": "fail"},)),
        no(with_digests(behaviour="b1"), policy=EVIDENCE, evidence=(PROVEN,)),
        no(with_digests(behaviour="b1"), policy=EVIDENCE, evidence=({**PROVEN, "verdict": "inconclusive"},), asks="evidence-missing"),
    ),
    "evidence-missing": (
        Case(with_digests(behaviour="b1"), ("warn",), EVIDENCE),
        no(with_digests(behaviour="b1"), policy=EVIDENCE, evidence=(PROVEN,)),
        Case(with_digests(behaviour="b1"), ("warn",), EVIDENCE, evidence=({**PROVEN, "origin": None},)),
    ),
    "evidence-stale": (
        Case(with_digests(behaviour="b0"), ("warn",), EVIDENCE, evidence=(PROVEN,)),
        no(with_digests(behaviour="b1"), policy=EVIDENCE, evidence=(PROVEN,)),
        Case(with_digests(), ("warn",), EVIDENCE, evidence=(PROVEN,)),
    ),
    "input-unreadable": (
        Case(Facts(skipped=(Skipped("serve/x.yaml", "larger than 5 MiB"),)), ("unknown",)),
        no(Facts(skipped=(Skipped("docs/x.bin", "larger than 5 MiB"),))),
        Case(Facts(skipped=(Skipped("charts/app", "not rendered; pipe helm template"),)), ("unknown",)),
    ),
    "isolation": (
        Case(one(), ("block",), SENSITIVE),
        Case(one(), ("pass",), "deployments: [{match: {}, tenancy: dedicated, data: sensitive}]"),
        Case(one(), ("unknown",)),
    ),
    "knowledge-outdated": (
        Case(one(), ("note",), options={"today": rules.knowledge_date}),
        no(one()),
        no(facts(), options={"today": rules.knowledge_date}),  # without a deployment nobody's bugs are looked for
    ),
    "known-engine-bug": (
        Case(one(version="0.5.18", given=("--enable-hierarchical-cache",)), ("block",)),
        no(one(version="0.5.23", model="Qwen/Qwen3-8B")),
        Case(one(engine="vllm", version="0.17.0", model="acme/own"), ("unknown",)),
    ),
    "kv-pool-below-context": (
        Case(one(context=C, pool=C - 1), ("block",)),
        Case(one(context=C, pool=2 * C), ("pass",)),
        no(one(context=C, pool=stale(C - 1)), asks="kv-pool-unknown"),
    ),
    "kv-pool-not-pinned": (
        Case(one(engine="vllm", pool=2 * C), ("note",)),
        no(one(engine="vllm", pool=2 * C, given=("--kv-cache-memory-bytes 40G",))),
        no(one(engine="vllm"), asks="kv-pool-unknown"),
    ),
    "kv-pool-predicted-tight": (
        Case(one(context=C, pool=predicted(C, C - 9_000, C + 9_000)), ("warn",)),
        no(one(context=C, pool=predicted(2 * C, 2 * C - 9_000, 2 * C + 9_000))),
        no(one(context=C), asks="kv-pool-unknown"),
    ),
    "kv-pool-unknown": (
        Case(one(context=C), ("unknown",)),
        no(one(context=C, pool=2 * C)),
        Case(one(context=C, pool=cap(2 * C)), ("unknown",)),
    ),
    "observation-contradicts": (
        Case(one(context=seen(8_192, shown=4_096)), ("warn",), base=one(context=8_192)),
        no(one(context=seen(8_192, shown=8_192)), base=one(context=8_192)),
        Case(one(context=seen(8_192, shown=4_096)), ("note",)),  # no base: the manifest may have changed since
    ),
    "risky-change": (
        Case(one(memory_fraction=0.8), ("warn",), base=one(memory_fraction=0.9)),
        no(one(context=4_096), base=one(context=8_192)),
        no(one(memory_fraction=unknown()), base=one(memory_fraction=0.9), asks="kv-pool-unknown"),
    ),
    "rollout-skew": (
        Case(pair(version="0.5.22"), ("note",), base=pair(version="0.5.19")),
        no(pair(version="0.5.22"), base=pair(version="0.5.22")),
        no(pair(version="0.5.22"), base=pair(version=None), asks="kv-pool-unknown"),
    ),
    "shared-llm-api": (
        Case(one(), ("warn",), SENSITIVE, files={"app.py": "https://api.openai.com/v1"}),
        no(one(), policy=SENSITIVE, files={"app.py": "https://llm.internal/v1"}),
        no(one(), files={"app.py": "https://api.openai.com/v1"}, asks="isolation"),
    ),
    "silent-truncation": (
        Case(one(given=("--allow-auto-truncate",)), ("warn",)),
        no(one()),
        no(one(engine="llama.cpp", version=None, given=("--context-shift $SHIFT",)), asks="isolation"),
    ),
    "unknown-engine-flag": (
        Case(one(engine="vllm", version="0.18.0", given=("--swap-space 4",)), ("warn",)),
        no(one(engine="vllm", version="0.17.0", given=("--swap-space 4",))),
        no(one(engine="vllm", version=None, given=("--swap-space 4",)), asks="engine-version-unknown"),
    ),
    "unsafe-flag-combination": (
        Case(pair(engine="vllm", version="0.28.0", given=(NIXL_UNCHECKED,)), ("warn",)),
        no(pair(engine="vllm", version="0.28.0", given=(NIXL,))),
        no(one(version=None, given=("--enable-unified-memory",)), asks="engine-version-unknown"),
    ),
    "waiver-not-in-force": (
        Case(one(), ("note",), 'waivers: [{rule: isolation, deployment: "*", reason: r, expires: 2026-01-31}]'),
        no(one(), policy='waivers: [{rule: isolation, deployment: "*", reason: r, expires: 2027-01-31}]'),
        no(one(context=derived(C)), policy='waivers: [{rule: isolation, deployment: "*", reason: r}]', asks="kv-pool-unknown"),
    ),
}  # fmt: skip
KINDS: Final = ("fires", "silent", "unknown")
ROWS: Final = [(rule, kind, case) for rule, cases in TABLE.items() for kind, case in zip(KINDS, cases, strict=True)]


def test_every_rule_has_all_three() -> None:
    assert set(TABLE) == set(rules.registry())
    for rule, (fires, silent, _) in TABLE.items():
        assert set(fires.expected) & {"block", "unknown", "warn", "note"}, rule
        assert set(silent.expected) <= {"pass"}, rule


@pytest.mark.parametrize("language", ["en", "ko"])
@pytest.mark.parametrize(("rule", "kind", "case"), ROWS, ids=[f"{rule}-{kind}" for rule, kind, _ in ROWS])
def test_the_table(rule: str, kind: str, case: Case, language: str) -> None:
    if "today" in case.options:
        from datetime import date, timedelta

        old = date.fromisoformat(rules.knowledge_date()) + timedelta(days=46)
        case = Case(case.state, case.expected, options={"today": old})
    assert case.verdicts(rule, language) == case.expected
    if kind == "unknown":
        assert "pass" not in case.expected
        assert not case.asks or case.verdicts(case.asks, language) not in ((), ("pass",))
