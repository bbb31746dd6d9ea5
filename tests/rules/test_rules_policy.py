"""What a repository may say about findings: waivers, ignores, severities, the baseline and its limit, the order before the fold."""

from __future__ import annotations

from datetime import date, timedelta

import pytest
from deployment_factory import FILE, TODAY, check, config, deployment, facts, of, pair

from checklistbot import rules
from checklistbot.discovery.tree import open_tree
from checklistbot.model import Check, UsageError
from checklistbot.rules import Sources

BELOW = "kv-pool-below-context"
SMALL = facts(deployment(pool=100_000))


def waiver(**keys: str) -> str:
    row = {"rule": BELOW, "deployment": '"prod/*"', "reason": '"gateway cuts at 90k"', "expires": "2027-01-31", **keys}
    return "waivers: [{" + ", ".join(f"{key}: {value}" for key, value in row.items() if value) + "}]"


# --- waivers -------------------------------------------------------------------------------------------------------------


def test_a_waiver_keeps_the_finding_in_the_report_and_out_of_the_verdict() -> None:
    found = check(SMALL, waiver())
    (finding,) = [f for f in found.findings if f.rule == BELOW]
    assert finding.waived is not None
    assert finding.waived.reason == "gateway cuts at 90k"
    assert "block" not in {f.verdict for f in found.counted}


@pytest.mark.parametrize(
    ("day", "in_force"), [(date(2027, 1, 30), True), (date(2027, 1, 31), True), (date(2027, 2, 1), False)]
)
def test_a_waiver_holds_up_to_its_last_day(day: date, in_force: bool) -> None:
    (finding,) = of(BELOW, SMALL, waiver(), today=day)
    assert (finding.waived is not None) is in_force
    kinds = [f.parameters["kind"] for f in of("waiver-not-in-force", SMALL, waiver(), today=day)]
    assert kinds == ([] if in_force else ["expired"])


@pytest.mark.parametrize("glob", ['"staging/*"', '"prod/other/*"', '"prod/glm-5.3"'])
def test_a_waiver_of_another_deployment_does_not_count(glob: str) -> None:
    assert of(BELOW, SMALL, waiver(deployment=glob))[0].waived is None


def test_a_waiver_without_a_reason_is_refused() -> None:
    with pytest.raises(UsageError, match=r"\.checklistbot\.yml:2: .*needs 'reason'"):
        config(waiver(reason=""))


@pytest.mark.parametrize("text", [waiver(rule="kv-pool-below-contex"), "rules: {kv-pool-below-contex: off}"])
def test_a_misspelt_rule_is_refused_with_the_right_one(text: str) -> None:
    with pytest.raises(UsageError, match=r"\.checklistbot\.yml:2: .*did you mean 'kv-pool-below-context'"):
        check(SMALL, text)


NOT_WAIVABLE = [rule for rule in rules.registry().values() if not rule.waivable]


def test_some_rules_are_not_waivable() -> None:
    assert {"engine-below-fixed-version", "input-unreadable", "evidence-failed"} <= {rule.id for rule in NOT_WAIVABLE}


def test_a_waiver_or_a_setting_without_effect_is_said() -> None:
    policy = (
        waiver(rule="engine-below-fixed-version")
        + "\nrules: {input-unreadable: off, evidence-failed: {severity: note}}"
    )
    found = of("waiver-not-in-force", pair(version="0.5.19"), policy)
    assert sorted(str(f.parameters["kind"]) for f in found) == ["fixed", "setting", "setting"]
    assert {f.verdict for f in found} == {"note"}


# --- severities ----------------------------------------------------------------------------------------------------------


def test_a_rule_can_be_switched_off_and_that_is_said() -> None:
    found = check(SMALL, f"rules: {{{BELOW}: off}}")
    assert [f for f in found.findings if f.rule == BELOW] == []
    assert [(entry.rule, entry.why) for entry in found.not_run] == [(BELOW, "switched off in .checklistbot.yml:2")]


@pytest.mark.parametrize("severity", ["block", "warn", "note"])
def test_a_severity_replaces_the_verdict_of_what_is_bad(severity: str) -> None:
    policy = f"rules: {{kv-pool-unknown: {{severity: {severity}}}}}"
    assert [f.verdict for f in of("kv-pool-unknown", facts(deployment()), policy)] == [severity]


def test_a_severity_leaves_passes_alone() -> None:
    assert [
        f.verdict for f in of(BELOW, facts(deployment(pool=200_000)), f"rules: {{{BELOW}: {{severity: block}}}}")
    ] == ["pass"]


def test_a_rule_that_cannot_be_waived_can_be_made_graver() -> None:
    policy = "rules: {engine-below-fixed-version: {severity: block}}"
    assert [f.verdict for f in of("engine-below-fixed-version", pair(version=None), policy)] == ["block"]


# --- inline ignores --------------------------------------------------------------------------------------------------------


def tree(folder, text: str):  # type: ignore[no-untyped-def]
    path = folder / FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return open_tree(folder)


def lines(at: int, text: str, above: str = "") -> str:
    """A file whose line ``at`` (from 1) is the text."""
    rows = [f"# line {n}" for n in range(1, 40)]
    rows[at - 1] = text
    if above:
        rows[at - 2] = above
    return "\n".join(rows)


VALUE = "- --context-length=131072"
IGNORE = f"# checklistbot: ignore[{BELOW}] the gateway cuts at 90k"


@pytest.mark.parametrize(
    ("text", "above", "reason"),
    [
        (f"{VALUE}  {IGNORE}", "", "the gateway cuts at 90k"),
        (VALUE, IGNORE, "the gateway cuts at 90k"),
        (VALUE, f"# checklistbot: ignore[isolation, {BELOW}] both", "both"),
        (VALUE, "", None),
        (f"{VALUE}  # checklistbot: ignore[{BELOW}]", "", None),
        (f"{VALUE}  # checklistbot: ignore[isolation] another rule", "", None),
        (VALUE, f"- --other=1  {IGNORE}", None),
    ],
)
def test_an_ignore_stands_at_the_line_or_alone_above_it(tmp_path, text, above, reason) -> None:  # type: ignore[no-untyped-def]
    head = tree(tmp_path, lines(15, text, above))
    (finding,) = of(BELOW, SMALL, sources=Sources(head))
    assert (finding.waived.reason if finding.waived else None) == reason


@pytest.mark.parametrize(
    ("merged", "counts"),
    [
        (lines(15, f"{VALUE}  {IGNORE}"), True),
        (lines(20, f"{VALUE}  {IGNORE}"), True),
        (lines(15, VALUE), False),
        (lines(15, f"- --context-length=4096  {IGNORE}"), False),
        (None, False),
    ],
)
def test_on_a_pull_request_an_ignore_counts_once_it_is_merged_with_its_line(tmp_path, merged, counts) -> None:  # type: ignore[no-untyped-def]
    head = tree(tmp_path / "head", lines(15, f"{VALUE}  {IGNORE}"))
    policy = tree(tmp_path / "base", merged) if merged is not None else None
    found = check(SMALL, sources=Sources(head, policy, policy, review=True))
    (finding,) = [f for f in found.findings if f.rule == BELOW]
    assert (finding.waived is not None) is counts
    said = [f for f in found.findings if f.rule == "waiver-not-in-force"]
    assert [(f.parameters["kind"], str(f.location)) for f in said] == ([] if counts else [("pending", f"{FILE}:15")])


def test_an_ignore_cannot_silence_what_cannot_be_waived(tmp_path) -> None:  # type: ignore[no-untyped-def]
    head = tree(tmp_path, lines(12, "image: x  # checklistbot: ignore[engine-below-fixed-version] we know"))
    state = pair(version="0.5.19", file=FILE)
    assert of("engine-below-fixed-version", state, sources=Sources(head))[0].waived is None


def test_hostile_reasons_are_bounded_and_from_outside(tmp_path) -> None:  # type: ignore[no-untyped-def]
    from checklistbot.encode import Untrusted

    head = tree(tmp_path, lines(15, f"{VALUE}  # checklistbot: ignore[{BELOW}] </details> @everyone " + "x" * 2_000))
    (finding,) = of(BELOW, SMALL, sources=Sources(head))
    assert finding.waived is not None
    assert isinstance(finding.waived.reason, Untrusted)
    assert len(finding.waived.reason) <= 300


# --- baseline, observe, fail-on ------------------------------------------------------------------------------------------


def failing(found: Check, policy: str = "", today: date = TODAY, **options: str) -> set[str]:
    return {f.rule for f in rules.failing(found, config(policy), today, **options)}


def test_old_debt_does_not_fail_and_stays_visible() -> None:
    found = check(SMALL, base=SMALL)
    assert failing(found) == set()
    assert "block" in {f.verdict for f in found.counted}
    assert failing(found, "baseline: off") == {BELOW}


def test_what_gets_worse_fails() -> None:
    assert failing(check(facts(deployment(pool=90_000)), base=SMALL)) == {BELOW}


def test_a_change_that_lowers_the_risk_does_not_fail() -> None:
    assert failing(check(facts(deployment(pool=110_000)), base=SMALL)) == set()


@pytest.mark.parametrize(("before", "status"), [(100_000, "worse"), (131_072, "same"), (200_000, "better")])
def test_a_longer_promise_on_an_unknown_pool_is_this_changes_doing(before: int, status: str) -> None:
    found = check(facts(deployment(pool=None)), base=facts(deployment(pool=None, context=before)))
    assert next(f.status for f in found.findings if f.rule == "kv-pool-unknown") == status
    assert ("kv-pool-unknown" in failing(found, "fail_on: unknown")) is (status == "worse")


@pytest.mark.parametrize(("days", "expected"), [(30, set()), (31, {BELOW}), (None, set())])
def test_a_leak_cannot_be_baselined_longer_than_thirty_days(days, expected) -> None:  # type: ignore[no-untyped-def]
    age = (lambda path: TODAY - timedelta(days=days)) if days is not None else (lambda path: None)
    found = check(SMALL, base=SMALL, sources=Sources(age=age))
    assert failing(found) == expected


def test_touching_the_config_accepts_it_for_another_thirty_days() -> None:
    days = {FILE: date(2026, 1, 1), ".checklistbot.yml": TODAY - timedelta(days=3)}
    found = check(SMALL, base=SMALL, sources=Sources(age=days.get))
    assert failing(found) == set()
    assert next(f for f in found.findings if f.rule == BELOW).parameters["debt_since"] == "2026-11-27"


def test_other_debt_has_no_limit() -> None:
    policy = "deployments: [{match: {}, tenancy: shared, data: sensitive}]"
    state = facts(deployment(pool=200_000))
    found = check(state, policy, base=state, sources=Sources(age=lambda path: date(2020, 1, 1)))
    assert "block" in {f.verdict for f in found.counted}
    assert failing(found, policy) == set()


@pytest.mark.parametrize(("day", "expected"), [(date(2026, 12, 14), set()), (date(2026, 12, 15), {BELOW})])
def test_nothing_fails_while_it_observes(day: date, expected: set[str]) -> None:
    assert failing(check(SMALL), "observe_until: 2026-12-14", today=day) == expected


@pytest.mark.parametrize(
    ("fail_on", "rule"), [("unknown", "isolation"), ("warn", "isolation"), ("block", None), ("never", None)]
)
def test_fail_on(fail_on: str, rule: str | None) -> None:
    found = check(facts(deployment(pool=200_000)))
    for way in (failing(found, f"fail_on: {fail_on}"), failing(found, fail_on=fail_on)):
        assert way == ({rule} if rule else set())


# --- order ---------------------------------------------------------------------------------------------------------------


def test_at_most_three_findings_a_deployment_stand_before_the_fold_and_none_is_lost() -> None:
    state = facts(
        deployment(
            pool=100_000, version="0.4.1", model="Qwen/Qwen3-8B", given=("--allow-auto-truncate", "--contxt-length 9")
        )
    )
    found = check(state)
    shown, folded = rules.fold(found)
    counts = {key: sum(f.deployment == key for f in shown) for key in {f.deployment for f in shown}}
    assert max(counts.values()) == 3
    assert folded
    assert len(shown) + len(folded) == sum(f.verdict != "pass" for f in found.findings)
    assert found.findings[0].verdict == "block"


def test_the_worst_come_first() -> None:
    from checklistbot.model import VERDICT_ORDER

    found = check(pair(version="0.5.19", pool=100_000, given=("--allow-auto-truncate",)))
    order = [VERDICT_ORDER.index(f.verdict) for f in found.findings]
    assert order == sorted(order)


def test_same_input_same_findings() -> None:
    state = pair(version="0.5.19", pool=100_000)
    assert check(state).to_json() == check(state).to_json()


# --- the knowledge date ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("days", "expected"), [(45, []), (46, ["note"])])
def test_old_knowledge_is_a_note(days: int, expected: list[str]) -> None:
    day = date.fromisoformat(rules.knowledge_date()) + timedelta(days=days)
    assert [f.verdict for f in of("knowledge-outdated", SMALL, today=day)] == expected
    assert check(SMALL).knowledge_date == rules.knowledge_date()
