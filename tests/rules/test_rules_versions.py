"""engine-below-fixed-version and engine-version-unknown: the incident's tiers, told exactly."""

from __future__ import annotations

import pytest
from deployment_factory import check, deployment, facts, of, pair, verdicts

RULE = "engine-below-fixed-version"

#: version → what the finding must be. Post-releases count with their release, dev and rc builds of a bound are below it.
TIERS = [
    ("0.4.6", "block"), ("0.5.18.post2", "block"), ("0.5.19", "block"), ("0.5.19.post1", "block"), ("0.5.20.dev12+g1a2b3c4", "block"),
    ("0.5.20rc1", "block"), ("0.5.20", "block"), ("0.5.20.post1", "block"), ("0.5.21rc0", "block"), ("0.5.21", "block"),
    ("0.5.21.post2", "block"), ("0.5.22.dev20261001+g0a1b2c3", "block"), ("0.5.22rc0", "block"), ("0.5.22", "pass"), ("0.5.22.post1", "pass"),
    ("0.5.22+cu129", "pass"), ("0.5.23", "pass"), ("0.5.23rc1", "pass"), ("1.0.0", "pass"),
]  # fmt: skip
#: A sentence of the tier that must stand in the finding (English).
SAYS = {
    "0.5.19": "still handed to decode", "0.5.19.post1": "still handed to decode", "0.5.20rc1": "still handed to decode",
    "0.5.20": "retires a rejected request", "0.5.20.post1": "retires a rejected request", "0.5.21rc0": "retires a rejected request",
    "0.5.21": "both queues refuse", "0.5.21.post2": "both queues refuse", "0.5.22rc0": "both queues refuse",
}  # fmt: skip


@pytest.mark.parametrize(("version", "verdict"), TIERS)
def test_every_release_falls_into_its_tier(version: str, verdict: str) -> None:
    assert verdicts(RULE, pair(version=version)) == [verdict]


@pytest.mark.parametrize(("version", "says"), SAYS.items())
def test_the_tier_says_what_the_release_does(version: str, says: str) -> None:
    (finding,) = of(RULE, pair(version=version))
    assert says in finding.message
    assert finding.parameters["fixed"] == "0.5.22"
    assert finding.parameters["version"] == version


@pytest.mark.parametrize("version", ["0.5.19", "0.5.21"])
def test_it_reads_in_korean(version: str) -> None:
    (finding,) = of(RULE, pair(version=version), language="ko")
    assert "고객의 텍스트" in finding.title
    assert "니다." in finding.message


def test_one_finding_a_group_for_the_worst_role() -> None:
    findings = of(RULE, pair(prefill={"version": "0.5.22"}, decode={"version": "0.5.19"}))
    assert [(f.verdict, f.deployment, f.parameters["version"]) for f in findings] == [
        ("block", "prod/glm-5.3", "0.5.19")
    ]


@pytest.mark.parametrize("version", [None, "nightly", "2026.10-cuda"])
def test_a_release_that_is_not_known_is_never_a_pass(version: str | None) -> None:
    assert verdicts(RULE, pair(version=version)) == ["unknown"]


def test_one_unknown_role_keeps_the_group_from_passing() -> None:
    assert verdicts(RULE, pair(prefill={"version": "0.5.23"}, decode={"version": None})) == ["unknown"]


def test_an_unknown_role_does_not_hide_a_vulnerable_one() -> None:
    assert verdicts(RULE, pair(prefill={"version": None}, decode={"version": "0.5.19"})) == ["block"]


@pytest.mark.parametrize(
    "state", [facts(deployment(version="0.5.19")), facts(deployment("prefill", engine="vllm", version="0.5.4"))]
)
def test_silent_outside_the_mode_and_the_engine(state) -> None:  # type: ignore[no-untyped-def]
    assert verdicts(RULE, state) == []


def test_a_back_port_passes_and_says_so() -> None:
    policy = 'images: [{match: "registry.lan/sglang:*", engine: sglang, version: "0.5.19", fixes: [sglang-pd-rejected-prefill-handoff]}]'
    (finding,) = of(RULE, pair(version="0.5.19", image="registry.lan/sglang:a1"), policy)
    assert finding.verdict == "pass"
    assert "config" in finding.title


def test_the_mend_names_the_image_lines() -> None:
    (finding,) = of(RULE, pair(version="0.5.19", image="lmsysorg/sglang:v0.5.19"))
    assert finding.fix is not None
    assert [(e.path, e.after) for e in finding.fix.edits] == [
        ("serve/prefill.yaml", "lmsysorg/sglang:v0.5.22"),
        ("serve/decode.yaml", "lmsysorg/sglang:v0.5.22"),
    ]


def test_a_digest_is_not_edited() -> None:
    (finding,) = of(RULE, pair(version="0.5.19", image="lmsysorg/sglang:v0.5.19@sha256:" + "a" * 64))
    assert finding.fix is not None
    assert finding.fix.edits == ()


@pytest.mark.parametrize(
    ("base", "head", "status"),
    [
        ({"context": 131_072}, {"context": 1_048_576}, "worse"),
        ({"context": 1_048_576}, {"context": 131_072}, "better"),
        ({"context": 131_072}, {"context": 131_072}, "same"),
        ({"context": 131_072, "version": "0.5.22"}, {"context": 131_072}, "new"),
    ],
)
def test_a_rising_context_makes_old_debt_worse(base, head, status) -> None:  # type: ignore[no-untyped-def]
    (finding,) = of(RULE, pair(**{"version": "0.5.19", **head}), base=pair(**{"version": "0.5.19", **base}))
    assert finding.status == status


def test_growing_exposure_makes_old_debt_worse() -> None:
    base = pair(version="0.5.19", prefill={"pool": 100_000}, decode={"pool": 110_000})
    head = pair(version="0.5.19", prefill={"pool": 100_000}, decode={"pool": 120_000})
    assert of(RULE, head, base=base)[0].status == "worse"
    assert of(RULE, base, base=head)[0].status == "better"


def test_it_cannot_be_waived_switched_off_or_lowered() -> None:
    waiver = 'waivers: [{rule: engine-below-fixed-version, deployment: "*", reason: "we know", expires: 2027-01-31}]'
    for policy in (
        waiver,
        "rules: {engine-below-fixed-version: off}",
        "rules: {engine-below-fixed-version: {severity: note}}",
    ):
        (finding,) = of(RULE, pair(version="0.5.19"), policy)
        assert (finding.verdict, finding.waived) == ("block", None)


def test_the_same_upgrade_is_not_told_twice() -> None:
    findings = check(pair(version="0.5.19")).findings
    (below,) = [f for f in findings if f.rule == RULE]
    assert "sglang-pd-free-pages-under-rdma" in str(below.parameters["also"])
    assert not [f for f in findings if f.rule == "known-engine-bug" and f.parameters.get("aspect") == "upgrade"]


# --- engine-version-unknown ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (facts(deployment(engine="vllm", version=None)), ["unknown"]),
        (facts(deployment(engine="vllm", version="nightly-dev")), ["unknown"]),
        (facts(deployment(engine="vllm", version="0.33.0")), []),
        (facts(deployment(engine="sglang", version=None, given=("--enable-hierarchical-cache",))), ["unknown"]),
        (facts(deployment(engine="sglang", version=None)), []),
        (pair(version=None), []),
        (facts(deployment(engine="ollama", version=None)), []),
    ],
)
def test_a_missing_release_is_asked_for_once(state, expected) -> None:  # type: ignore[no-untyped-def]
    assert verdicts("engine-version-unknown", state) == expected


def test_it_counts_what_is_not_ruled_out_in_both_languages() -> None:
    state = facts(deployment(engine="vllm", version=None, image="registry.lan/vllm:prod"))
    for language, word in (("en", "cannot be ruled out"), ("ko", "배제하지 못했습니다")):
        (finding,) = of("engine-version-unknown", state, language=language)
        assert word in finding.title
        assert "registry.lan/vllm:prod" in finding.message
        assert int(finding.parameters["count"]) >= 1
