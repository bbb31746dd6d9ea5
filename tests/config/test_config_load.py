"""`.checklistbot.yml`: what is read, and what each mistake is told."""

from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checklistbot.config import Config, Located, load, only_worse
from checklistbot.model import Deployment, Fact, Source, UsageError

WHOLE = """\
version: 1
lang: ko
exclude: ["examples/**"]
deployments:
  - match: {environment: prod, file: "serve/**", group: glm-5.3, name: "glm-*", role: prefill}
    logs: ["ops/logs/prefill*.log"]
    endpoints: ["http://127.0.0.1:30000"]
    tenancy: dedicated
    data: sensitive
    upstream_limit: 600000
    cache_salt: gateway
    facts: {gpu: H200, engine_version: "0.5.22", memory_fraction: 0.9}
images: [{match: "registry.lan/vllm:*", engine: vllm, version: "0.27.1", fixes: [some-advisory]}]
rules: {kv-pool-not-pinned: off, kv-pool-unknown: {severity: block}}
waivers: [{rule: isolation, deployment: "prod/*", reason: one tenant, expires: 2027-01-31}]
fail_on: unknown
baseline: off
observe_until: 2026-12-14
require_evidence: {environment: staging, match: [behaviour, capacity], max_age_days: 7, profile: deep}
llm: {provider: openai, model: gpt-x, base_url: "https://llm.example", prompt: ops/p.md, max_output_tokens: 9000, timeout_s: 5,
      effort: low, budget_tokens: 40000, price: {input: 2.5, output: 10}}
incidents: [ops/incident.yml]
comment: {id: serving, mode: "off", on: always, require_ticks: [engine-version], ticks_by: write}
probe: {allow_hosts: [staging.example]}
override: {label: ship-it}
"""


def test_every_key_of_the_contract_is_read() -> None:
    config = load(WHOLE, "c.yml")
    (entry,) = config.deployments
    assert entry.tenancy == Located("dedicated", 8)
    assert entry.cache_salt == Located("gateway", 11)
    assert entry.facts["gpu"] == Located("H200", 12)
    assert config.images[0].fixes == ("some-advisory",)
    assert config.rules["kv-pool-not-pinned"].severity == "off"
    assert config.rules["kv-pool-unknown"].severity == "block"
    assert config.waivers[0].expires == date(2027, 1, 31)
    assert (config.fail_on, config.baseline, config.lang) == ("unknown", False, "ko")
    assert config.require_evidence is not None
    assert config.require_evidence.match == ("behaviour", "capacity")
    assert config.llm.timeout_s == 5
    assert config.comment.mode == "off"
    assert config.probe_allow_hosts == ("staging.example",)
    assert config.override_label == "ship-it"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lang: en\n", "c.yml:1: version is missing; write 'version: 1' in the first line"),
        ("version: 2\n", "c.yml:1: version must be 1, the only version there is"),
        ("version: true\n", "c.yml:1: version must be 1, the only version there is"),
        ("version: 1\nlang: fr\n", "c.yml:2: lang must be one of en, ko"),
        (
            "version: 1\ncomment:\n  ticks_by: everybody\n",
            "c.yml:3: comment.ticks_by must be write, maintain, admin or team:ORGANISATION/TEAM",
        ),
        (
            "version: 1\ndeployments:\n  - tenency: shared\n",
            "c.yml:3: unknown key 'tenency' under deployments[0]; did you mean 'tenancy'?",
        ),
        ("version: 1\ndeployments: {}\n", "c.yml:2: deployments must be a list of mappings"),
        (
            "version: 1\ndeployments: [{logs: [../x]}]\n",
            "c.yml:2: deployments[0].logs[0] must be a path that stays inside the repository",
        ),
        (
            "version: 1\ndeployments: [{logs: [/proc/self/environ]}]\n",
            "c.yml:2: deployments[0].logs[0] must be a path relative to the repository",
        ),
        (
            "version: 1\ndeployments: [{endpoints: ['ftp://x']}]\n",
            "c.yml:2: deployments[0].endpoints[0] must be an http(s) address without user or password",
        ),
        (
            "version: 1\nwaivers: [{rule: isolation}]\n",
            "c.yml:2: waivers[0] needs 'reason': who accepts this, and why",
        ),
        ("version: 1\nwaivers: [{reason: x}]\n", "c.yml:2: waivers[0] needs 'rule'"),
        (
            "version: 1\nrules: {isolation: {severity: unknown}}\n",
            "c.yml:2: rules.isolation.severity must be one of block, warn, note, off",
        ),
        ("version: 1\nversion: 1\n", "c.yml:2: a key stands twice under the document"),
        ("version: 1\na: &x [1]\nb: *x\n", "c.yml:3: aliases are not allowed here; write the value out"),
        ("version: 1\nlang: !!python/name:os.system x\n", "c.yml:2: tags are not allowed here"),
        ("version: 1\nlang: [\n", "c.yml:3: not valid YAML"),
        ("version: 1\n" + "x: " + "[" * 40 + "]" * 40, "c.yml:2: nested deeper than 32 levels"),
        ("#" * 1_100_000, "c.yml:1: larger than 1 MiB; such a file is not read"),
        ("- 1\n", "c.yml:1: the document must be a mapping (key: value)"),
        ("version: 1\nx\x00: 1", "c.yml:1: not valid YAML"),
    ],
)
def test_a_mistake_is_told_with_file_line_and_what_to_write(text: str, message: str) -> None:
    with pytest.raises(UsageError) as error:
        load(text, "c.yml")
    assert str(error.value).startswith(message)
    assert "\n" not in str(error.value)


def test_an_error_never_repeats_the_text_it_met() -> None:
    """A config that is really somebody's key file must not come back through the error (operations-and-attacks 25)."""
    with pytest.raises(UsageError) as error:
        load("version: 1\nroot:x:0:0:sk-canary123456: yes\n", "c.yml")
    assert "canary" not in str(error.value)
    with pytest.raises(UsageError) as error:
        load("version: 1\nlang: sk-canary123456\n", "c.yml")
    assert "canary" not in str(error.value)


@given(st.text(max_size=300) | st.text(alphabet="version: 1\n-[]{}&*!|>'\"#%@`,?", max_size=200))
def test_any_text_is_a_config_or_one_line_of_error(text: str) -> None:
    try:
        assert isinstance(load(text, "c.yml"), Config)
    except UsageError as error:
        assert str(error).startswith("c.yml:")
        assert "\n" not in str(error)


def _deployment(**facts: str) -> Deployment:
    role = Fact(facts.pop("role", "unified"), Source("declared"))
    return Deployment("prod/glm/prefill", "glm-a", "prod", "glm-5.3", "serve/a/x.yaml", 3, role=role)


@pytest.mark.parametrize(
    ("match", "hit"),
    [
        ("{}", True),
        ("{environment: prod}", True),
        ("{environment: stag*}", False),
        ("{file: 'serve/**', name: 'glm-*'}", True),
        ("{group: 'glm-5.*', role: unified}", True),
        ("{group: glm-5.3, role: decode}", False),
    ],
)
def test_all_keys_of_a_match_must_hold(match: str, hit: bool) -> None:
    config = load(f"version: 1\ndeployments:\n  - match: {match}\n    data: public\n", "c.yml")
    assert (config.entry_for(_deployment()) is not None) is hit


def test_the_heads_own_config_can_only_make_things_worse() -> None:
    config = load(
        "version: 1\nfail_on: never\nwaivers: [{rule: isolation, reason: x}]\n"
        "images: [{match: '*', version: '9.9', fixes: [a]}]\n"
        "deployments:\n  - {tenancy: dedicated, data: public, upstream_limit: 5, cache_salt: gateway, facts: {kv_pool_tokens: 99}, logs: [a.log]}\n"
        "  - {tenancy: shared, data: sensitive, endpoints: ['http://x']}\n",
        "c.yml",
    )
    allowed = only_worse(config)
    claims, worse = allowed.deployments
    assert (claims.tenancy, claims.data, claims.upstream_limit, claims.cache_salt, claims.facts) == (None,) * 4 + ({},)
    assert [log.value for log in claims.logs] == ["a.log"]
    assert worse.tenancy is not None
    assert worse.endpoints == ()
    assert (allowed.fail_on, allowed.waivers, allowed.images) == ("block", (), ())
