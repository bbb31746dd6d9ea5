"""The probe against the simulator: what it finds, what it does not take for a fault, in which order it sends."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence

import jsonschema
import pytest
from probe_direct import SMALL, DirectTransport

from checklistbot import resources
from checklistbot.clock import now
from checklistbot.model import InputError, UsageError
from checklistbot.probe.evidence import Binding, junit, to_json
from checklistbot.probe.oracles import all_oracles
from checklistbot.probe.run import Options, Probe, Result
from checklistbot.probe.text import Texts, render
from checklistbot.probe.wire import Answer, Call
from checklistbot.simulator.engine import Settings
from checklistbot.simulator.faults import FAULTS
from checklistbot.simulator.tokens import Tokenizer

HIDDEN = ("/server_info", "/get_server_info", "/metrics")
WRONG = [name for name, fault in FAULTS.items() if not fault.twin]
PROVES_NOTHING = {"proxy-413", "hopeless-model", "refusal", "rate-limit"}


def probe(
    *faults: str, hidden: tuple[str, ...] = (), seed: int = 1, **options: object
) -> tuple[Result, DirectTransport]:
    transport = DirectTransport(dataclasses.replace(SMALL, faults=faults, seed=seed), hidden=hidden)
    made = Options(**{"key": "test", "seed": seed, "watch_seconds": 0.0, **options})  # type: ignore[arg-type]
    return Probe(transport, made).run(), transport


def oracles(result: Result) -> set[str]:
    return {opinion.oracle for case in result.run.cases for opinion in case.opinions}


@pytest.mark.parametrize("name", WRONG)
def test_every_fault_is_found(name: str) -> None:
    result, _ = probe(name)
    assert result.summary.verdict == "fail"
    assert result.over_requests <= 3


@pytest.mark.parametrize("name", [name for name, fault in FAULTS.items() if fault.twin])
def test_nothing_healthy_fails(name: str) -> None:
    result, _ = probe(name)
    assert result.summary.verdict == ("inconclusive" if name in PROVES_NOTHING else "pass"), result.summary
    assert result.summary.why or name not in PROVES_NOTHING


class BusyAtFirst(DirectTransport):
    """A healthy server on a machine that was busy while the first requests ran: ``slower`` times as long to the first text."""

    def __init__(self, settings: Settings, requests: int, slower: float) -> None:
        super().__init__(settings)
        self.left, self.slower = requests, slower

    def send(self, calls: Sequence[Call], concurrency: int = 1) -> list[Answer]:
        answers = super().send(calls, concurrency)
        if self.left > 0 and calls and "completions" in calls[0].path:
            self.left -= len(calls)
            for answer in answers:
                answer.chunks = [(took * self.slower, data) for took, data in answer.chunks]
        return answers


@pytest.mark.parametrize("requests", [10, 13, 16, 20, 30, 40])
def test_a_machine_that_was_busy_during_the_baseline_makes_no_failure(requests: int) -> None:
    """Six seconds a prompt while it was busy, half a second later: honest answers looked as if nobody had computed them."""
    transport = BusyAtFirst(SMALL, requests, 40.0)
    result = Probe(transport, Options(key="test", seed=1, watch_seconds=0.0)).run()
    assert result.summary.verdict == "pass", result.summary


def test_an_answer_that_came_too_soon_is_a_suspicion_and_two_are_needed() -> None:
    result, _ = probe("stub-all-zeroed", "hopeless-model", hidden=HIDDEN)
    failed = [case for case in result.run.cases if case.verdict.startswith("FAIL")]
    assert failed
    assert all(
        opinion.strength == "suspect" for c in failed for opinion in c.opinions if opinion.oracle == "ttft-floor"
    )
    assert all(len({opinion.oracle for opinion in case.opinions}) >= 2 for case in failed) or len(failed) >= 3


MUST_FIRE = {
    "stub-handoff": {"own-needles", "foreign-canary", "ttft-floor", "rejection-law"},
    "stub-stale-logprob": {"logprob-text"},
    "stub-all-zeroed": {"own-needles", "ttft-floor", "same-first-token"},
    "stub-output-pages": {"foreign-canary"},
    "stub-paraphrase": {"own-needles", "foreign-ngrams"},
    "empty": {"degenerate"},
    "hang": {"hang"},
    "cut-stream": {"degenerate"},
    "garbage": {"own-needles", "degenerate"},
    "truncate-tail": {"usage-law"},
    "truncate-head": {"usage-law"},
    "swap": {"foreign-needles"},
    "usage-lies": {"usage-law"},
    "early-role": {"ttft-floor"},
    "reasoning-leak": {"foreign-canary"},
}


@pytest.mark.parametrize("name", MUST_FIRE)
def test_the_oracle_made_for_a_fault_sees_it(name: str) -> None:
    assert MUST_FIRE[name] <= oracles(probe(name)[0])


def test_the_incident_names_whose_canary_came_back() -> None:
    result, transport = probe("stub-handoff")
    case = next(c for c in result.run.cases if c.verdict == "FAIL_LEAK")
    owners = {name for o in case.opinions if o.oracle == "foreign-canary" for name in o.canaries}
    assert owners
    stub = next(entry for entry in transport.cluster.trace if entry["stub"])
    assert case.length == stub["length"] == SMALL.prefill_limit
    assert " ".join(result.run.key.canary(int(min(owners)[1:]))) in case.reply.text


@pytest.mark.parametrize("name", ["stub-handoff", "stub-all-zeroed", "reject"])
def test_limits_that_nobody_tells_are_found_by_content(name: str) -> None:
    result, _ = probe(name, hidden=HIDDEN)
    assert result.summary.verdict == ("pass" if name == "reject" else "fail")
    if name == "reject":
        assert result.run.limits.first_rejected == SMALL.prefill_limit


def test_without_tokenize_the_lengths_are_exact_too() -> None:
    result, transport = probe("reject", hidden=("/tokenize",))
    assert result.summary.verdict == "pass"
    served = {entry["length"] for entry in transport.cluster.trace}
    assert SMALL.prefill_limit - 1 in served


def test_completions_serve_where_there_is_no_chat() -> None:
    result, transport = probe("stub-handoff", hidden=("/v1/chat/completions",))
    assert result.summary.verdict == "fail"
    assert transport.sent[-1].path == "/v1/completions"


def test_over_limit_requests_come_last_and_one_at_a_time() -> None:
    phases = [case.phase for case in probe("reject")[0].run.cases]
    first = phases.index("over")
    assert set(phases[first:]) == {"over", "after"}
    batches = [case.batch for case in probe("reject")[0].run.cases if case.phase == "over"]
    assert len(set(batches)) == len(batches)


def test_the_ladder_stands_around_every_limit() -> None:
    result, _ = probe("reject")
    lengths = {case.length for case in result.run.cases}
    limit = SMALL.prefill_limit
    assert {limit - 1, limit, limit + 1, SMALL.prefill_pool, SMALL.decode_limit, SMALL.context - 1, SMALL.context} - {SMALL.decode_limit} <= lengths  # fmt: skip


def test_the_run_stops_after_a_named_victim() -> None:
    result, transport = probe("stub-handoff")
    assert [c.verdict for c in result.run.cases if c.phase == "over"].count("FAIL_LEAK") == 1
    assert transport.sent[-1].path == "/v1/chat/completions"


def test_a_hang_is_followed_by_a_request_that_checks_recovery() -> None:
    result, _ = probe("hang")
    assert result.run.cases[-1].phase == "after"
    assert result.run.cases[-1].verdict == "PASS_ANSWER"


def test_foreign_traffic_stops_the_run_before_anything_is_sent() -> None:
    transport = DirectTransport(SMALL)
    transport.cluster.running = 2
    with pytest.raises(UsageError, match="serving other requests"):
        Probe(transport, Options(key="k", watch_seconds=0)).run()
    assert all(call.method == "GET" for call in transport.sent)
    assert Probe(transport, Options(key="k", watch_seconds=0, allow_live_traffic=True)).run().summary.verdict == "pass"


def test_a_dry_run_asks_and_sends_no_prompt() -> None:
    result, transport = probe("stub-handoff", dry_run=True)
    assert {call.method for call in transport.sent} == {"GET"}
    assert result.ladder is not None
    assert result.ladder.tokens() > 10_000
    assert (result.requests, result.summary.why) == (0, ["dry-run"])


def test_the_estimate_covers_what_is_sent() -> None:
    result, _ = probe("reject")
    assert result.ladder is not None
    assert result.tokens <= result.ladder.tokens()


def test_a_budget_below_the_estimate_is_refused() -> None:
    with pytest.raises(UsageError, match="give --budget-tokens"):
        probe("reject", budget=20_000)


def test_an_interruption_leaves_a_report() -> None:
    class Interrupted(DirectTransport):
        def send(self, calls: object, concurrency: int = 1) -> list[Answer]:
            if len(self.sent) > 30:
                raise KeyboardInterrupt
            return super().send(calls, concurrency)  # type: ignore[arg-type]

    result = Probe(Interrupted(SMALL), Options(key="k", watch_seconds=0)).run()
    assert result.interrupted
    assert (result.summary.verdict, "interrupted" in result.summary.why) == ("inconclusive", True)
    assert result.run.cases


def test_an_endpoint_that_dies_is_inconclusive() -> None:
    class Dying(DirectTransport):
        def send(self, calls: list[Call], concurrency: int = 1) -> list[Answer]:  # type: ignore[override]
            if len(self.sent) > 40:
                return [Answer(error="connect") for _ in calls]
            return super().send(calls, concurrency)

    result = Probe(Dying(SMALL), Options(key="k", watch_seconds=0)).run()
    assert result.summary.verdict == "inconclusive"
    assert {"not-recovered", "no-result"} & set(result.summary.why)
    assert result.run.cases


def test_the_same_key_and_seed_send_the_same_bytes() -> None:
    def bodies(key: str) -> list[bytes]:
        transport = DirectTransport(SMALL)
        Probe(transport, Options(key=key, watch_seconds=0)).run()
        return [b"".join(call.body or ()) for call in transport.sent if not isinstance(call.body, bytes)]

    assert bodies("one") == bodies("one")
    assert bodies("one") != bodies("two")


# --- plans ---------------------------------------------------------------------------------------------------------------


def item(kind: str, **automation: object) -> dict[str, object]:
    return {"id": kind, "automation": {"kind": kind, **automation}}


PLAN = [
    item("boundary-request", at="first-rejected", offsets=[-1, 0, 1]),
    item("content-needles", lengths=[1_000, 6_000], needles=4),
    item("canary-leak", fillers=4, probes=2),
]


@pytest.mark.parametrize("only", range(len(PLAN)))
def test_each_item_of_a_plan_finds_the_incident(only: int) -> None:
    assert probe("stub-handoff", plan=[PLAN[only]])[0].summary.verdict == "fail"
    assert probe("reject", plan=[PLAN[only]])[0].summary.verdict == "pass"


def test_an_abort_storm_is_not_done_and_not_a_pass() -> None:
    result, _ = probe("reject", plan=[PLAN[0], item("abort-storm", requests=4, seconds=2)])
    assert (result.summary.verdict, result.summary.why) == ("inconclusive", ["not-done"])
    assert result.ladder is not None
    assert result.ladder.skipped == ["abort-storm"]


# --- what is written ---------------------------------------------------------------------------------------------------


def evidence(result: Result) -> dict[str, object]:
    when = now({"CHECKLISTBOT_NOW": "2026-11-30T12:00:00Z"})
    origin = {"kind": "file", "repo": None, "run_id": None, "sha": None}
    return to_json(
        result, binding=Binding(), started=when, finished=when, profile="smoke", plan=[], seed=1, origin=origin
    )


@pytest.mark.parametrize("name", FAULTS)
def test_evidence_follows_its_schema_and_holds_no_text(name: str) -> None:
    result, _ = probe(name)
    made = evidence(result)
    jsonschema.Draft202012Validator(json.loads(resources.text("schemas", "evidence.json"))).validate(made)
    written = (
        json.dumps(made)
        + junit(result)
        + render(result, Texts("en"), url="http://x")
        + render(result, Texts("ko"), url="http://x")
    )
    for case in result.run.cases:
        words = case.reply.text.split()
        if len(words) >= 4:
            assert " ".join(words[:4]) not in written
        assert not any(code in written for code in case.prompt.codes)
        if case.prompt.canary is not None:
            assert " ".join(result.run.key.canary(case.prompt.canary)[:2]) not in written


def test_junit_shows_nothing_green_that_is_not() -> None:
    from xml.etree import ElementTree

    for name, tag in (("stub-handoff", "failure"), ("proxy-413", "error")):
        suite = ElementTree.fromstring(junit(probe(name)[0]).encode())[0]
        assert suite.findall(f".//{tag}")
    suite = ElementTree.fromstring(junit(probe("reject")[0]).encode())[0]
    assert not suite.findall(".//failure") + suite.findall(".//error")


def test_no_hit_is_a_bound_and_not_a_promise() -> None:
    result, _ = probe("reject")
    assert result.summary.upper_bound == pytest.approx(3 / result.summary.judged)
    assert f"0 of {result.summary.judged}" in render(result, Texts("en"), url="http://x")
    assert probe("stub-handoff")[0].summary.upper_bound is None


def test_both_languages_have_the_same_phrases() -> None:
    import string
    import tomllib

    tables = [tomllib.loads(resources.text("templates", f"probe.{language}.toml")) for language in ("en", "ko")]
    fields = [
        {(s, k): {f for _, f, _, _ in string.Formatter().parse(v) if f} for s, t in table.items() for k, v in t.items()}
        for table in tables
    ]
    assert fields[0] == fields[1]


# --- counting, speed, names --------------------------------------------------------------------------------------------


class Merging(Tokenizer):
    """A tokenizer whose counts of text do not add up, as where pieces merge across words; ids are exact all the same."""

    def encode(self, text: str) -> str:
        tokens = super().encode(text)
        return tokens + self.unknown * (len(tokens) // 37 % 3)


def merging(settings: Settings = SMALL) -> DirectTransport:
    transport = DirectTransport(settings)
    transport.cluster.tokenizer = Merging()
    transport.cluster.model = dataclasses.replace(transport.cluster.model, tokenizer=transport.cluster.tokenizer)
    return transport


def test_token_ids_serve_where_text_does_not_add_up() -> None:
    transport = merging()
    result = Probe(transport, Options(key="k", watch_seconds=0)).run()
    assert result.summary.verdict == "pass", result.summary
    prompts = [json.loads(b"".join(c.body or ())) for c in transport.sent if c.path == "/v1/completions" and not isinstance(c.body, bytes)]  # fmt: skip
    assert {type(prompt["prompt"][0]) for prompt in prompts} == {int}
    served = {entry["length"] for entry in transport.cluster.trace}
    assert SMALL.prefill_limit - 1 in served
    assert all(c.reply.prompt_tokens == c.length for c in result.run.cases if c.reply.prompt_tokens is not None)


def test_the_incident_is_found_with_token_ids() -> None:
    result = Probe(
        merging(dataclasses.replace(SMALL, faults=("stub-handoff",))), Options(key="k", watch_seconds=0)
    ).run()
    assert result.summary.verdict == "fail"


def test_without_text_counts_and_ids_it_says_so() -> None:
    transport = merging()
    transport.hidden = ("/tokenize",)
    with pytest.raises(InputError, match="takes no token ids"):
        Probe(transport, Options(key="k", watch_seconds=0)).run()


def test_a_hunt_has_a_slope_and_names_the_victim() -> None:
    result, _ = probe("stub-handoff", hidden=HIDDEN)
    assert result.run.baseline.slope
    assert "FAIL_LEAK" in result.summary.counts
    named = {name for case in result.run.cases for o in case.opinions for name in o.canaries if name.startswith("t")}
    assert named


def test_a_front_ends_own_limit_is_not_taken_for_the_workers() -> None:
    result, _ = probe("reject", hidden=(*HIDDEN, "/v1/models"), model="simulated")
    assert (result.run.limits.first_rejected, result.run.limits.context) == (SMALL.prefill_limit, SMALL.context)
    assert result.summary.verdict == "pass"


def test_a_model_that_recalls_nothing_is_not_asked_for_more_room() -> None:
    result, _ = probe("hopeless-model", answer_tokens=16)
    assert max(case.max_tokens for case in result.run.cases if case.phase == "baseline" and case.length > 700) == 16


def test_a_stream_that_breaks_off_before_any_text_is_asked_again_as_one_answer() -> None:
    """What llama-cpp-python's server does over the limit: it can refuse only where no stream was asked for."""

    class Breaking(DirectTransport):
        def send(self, calls: list[Call], concurrency: int = 1) -> list[Answer]:  # type: ignore[override]
            answers = super().send(calls, concurrency)
            body = calls[0].body
            streamed = not isinstance(body, bytes | None) and b'"stream": true' in b"".join(body)
            refused = [a for a in answers if streamed and a.status == 400]
            return [Answer(200, "text/event-stream", [], "cut") if a in refused else a for a in answers]

    result = Probe(Breaking(SMALL), Options(key="k", watch_seconds=0)).run()
    assert result.summary.verdict == "inconclusive"
    pairs = [c.verdict for c in result.run.cases if c.phase == "over" and c.length == SMALL.prefill_limit]
    assert pairs[:2] == ["INCONCLUSIVE", "PASS_REJECT"]


def test_progress_tells_tokens_and_time_and_draws_one_line() -> None:
    from checklistbot.probe.progress import Progress

    drawn: list[str] = []
    plain: list[str] = []
    for written, bar in ((drawn, True), (plain, False)):
        shown = Progress(Texts("en"), written.append, drawn=bar, clock=lambda: 0.0)
        Probe(DirectTransport(SMALL), Options(key="k", watch_seconds=0), shown).run()
        shown.close()
    assert any("at most" in line and "at 20,000 tokens a second" in line for line in plain)
    assert all(line.endswith("\n") for line in plain)
    bars = [part for part in drawn if "█" in part]
    assert "about" in bars[-1]
    assert "left" in bars[-1]
    assert drawn[-1] == "\r\x1b[K"


# --- each oracle is needed: rows of the ablation table of `make test-full` -------------------------------------------


NEEDED = {
    "degenerate": ("empty", ("hopeless-model",), HIDDEN),
    "foreign-canary": ("lost-transfer-output", ("hopeless-model",), ()),
    "foreign-needles": ("half-chunk", (), ()),
    "foreign-ngrams": ("lost-transfer-output", ("hopeless-model",), ()),
    "hang": ("hang", (), ()),
    "logprob-text": ("mixed-metadata", (), ()),
    "own-needles": ("lost-transfer-zeroed", (), ()),
    "rejection-law": ("admits-all", (), ()),
    "same-first-token": ("stub-all-zeroed", ("hopeless-model",), HIDDEN),
    "ttft-floor": ("stub-all-zeroed", ("hopeless-model",), HIDDEN),
    "usage-law": ("truncate-tail", ("hopeless-model",), HIDDEN),
}


@pytest.mark.parametrize("name", all_oracles())
def test_without_an_oracle_a_fault_goes_unseen_or_rests_on_one_other(name: str) -> None:
    fault, more, hidden = NEEDED[name]

    def failing(*off: str) -> set[str]:
        result, _ = probe(fault, *more, hidden=hidden, oracles_off=off)
        return {o.oracle for c in result.run.cases if c.verdict.startswith("FAIL") for o in c.opinions}

    assert name in failing()
    assert len(failing(name)) <= 1
