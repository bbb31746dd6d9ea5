"""isolation: what tenancy and data class are declared to be."""

from __future__ import annotations

import pytest
from deployment_factory import deployment, facts, of, pair, verdicts

RULE = "isolation"


def declared(**keys: str) -> str:
    inner = ", ".join(f"{key}: {value}" for key, value in keys.items())
    return f"deployments: [{{match: {{environment: prod}}, {inner}}}]" if keys else ""


@pytest.mark.parametrize(
    ("keys", "verdict"),
    [
        ({"tenancy": "shared", "data": "sensitive"}, "block"),
        ({"tenancy": "dedicated", "data": "sensitive"}, "pass"),
        ({"tenancy": "dedicated"}, "pass"),
        ({"tenancy": "shared", "data": "internal"}, "pass"),
        ({"tenancy": "shared", "data": "public"}, "pass"),
        ({"data": "public"}, "pass"),
        ({"data": "sensitive"}, "unknown"),
        ({"data": "internal"}, "unknown"),
        ({"tenancy": "shared"}, "unknown"),
        ({}, "unknown"),
    ],
)
def test_the_table(keys, verdict) -> None:  # type: ignore[no-untyped-def]
    for language in ("en", "ko"):
        assert verdicts(RULE, pair(), declared(**keys), language=language) == [verdict]


@pytest.mark.parametrize("given", [("--disable-radix-cache",), ("--no-enable-prefix-caching",)])
def test_prefix_caching_plays_no_part(given) -> None:  # type: ignore[no-untyped-def]
    state = facts(deployment(given=given))
    assert verdicts(RULE, state, declared(tenancy="shared", data="sensitive")) == ["block"]


def test_a_waiver_with_a_reason_is_shown_and_does_not_count() -> None:
    policy = declared(tenancy="shared", data="sensitive") + (
        '\nwaivers: [{rule: isolation, deployment: "prod/*", reason: "one hospital, one key", expires: 2027-01-31}]'
    )
    (finding,) = of(RULE, pair(), policy)
    assert finding.waived is not None
    assert (finding.waived.reason, finding.waived.expires) == ("one hospital, one key", "2027-01-31")


def test_the_gravest_member_speaks_for_the_group() -> None:
    policy = (
        "deployments: [{match: {role: prefill}, tenancy: dedicated, data: internal}, "
        "{match: {role: decode}, tenancy: shared, data: sensitive}]"
    )
    assert verdicts(RULE, pair(), policy) == ["block"]


def test_it_points_at_the_line_that_declares_it() -> None:
    (finding,) = of(RULE, pair(), declared(tenancy="shared", data="sensitive"))
    assert str(finding.location) == ".checklistbot.yml:2"
