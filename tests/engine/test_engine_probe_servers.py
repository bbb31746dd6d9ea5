"""The probe against real servers: what a model without weights allows to verify, and the incident through SGLang's own router."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from probe_direct import SMALL

from checklistbot.config import Config
from checklistbot.facts import Inputs, gather
from checklistbot.probe.case import Case
from checklistbot.probe.inputs import bound_to
from checklistbot.probe.run import Options, Probe, Result
from checklistbot.probe.wire import HttpTransport
from checklistbot.simulator.engine import Cluster
from checklistbot.simulator.server import Running

pytestmark = pytest.mark.engine
EDGE = [
    {"id": "edge", "automation": {"kind": "boundary-request", "at": "context", "offsets": [-1, 0, 1]}},
]


def probe(url: str, **options: Any) -> Result:
    transport = HttpTransport(url, "127.0.0.1")
    try:
        return Probe(transport, Options(**{"key": "engines", "watch_seconds": 0.0, **options})).run()
    finally:
        transport.close()


def at(result: Result, length: int) -> list[Case]:
    return [case for case in result.run.cases if case.length == length]


def no_failure(result: Result) -> bool:
    return not any(name.startswith("FAIL") for name in result.summary.counts)


@pytest.mark.engine("vllm")
def test_vllm_without_weights_is_inconclusive_and_its_laws_hold(vllm: Any) -> None:
    result = probe(vllm.url, plan=EDGE)
    assert (result.run.limits.engine, result.run.limits.first_rejected, result.run.limits.sure) == ("vllm", 8192, True)
    # A model without weights recalls nothing: content proves nothing, and that is said.
    assert (result.summary.verdict, "weak-baseline" in result.summary.why) == ("inconclusive", True)
    assert no_failure(result)
    # Admission: L−1 is served, L and L+1 are refused by the engine, which names the limit.
    assert [case.reply.status for case in at(result, 8191)] == [200]
    assert [case.verdict for length in (8192, 8193) for case in at(result, length)] == ["PASS_REJECT"] * 2
    # Usage: the engine counted exactly what was made, in every reply.
    told = {case.reply.prompt_tokens == case.length for case in result.run.cases if case.answered}
    assert told == {True}


@pytest.mark.engine("llama-cpp")
def test_llama_cpp_with_a_small_model_does_not_fail(llama_cpp: Any) -> None:
    result = probe(llama_cpp.url, plan=EDGE, context=2048, answer_tokens=64)
    assert (result.summary.verdict, no_failure(result)) == ("inconclusive", True)
    # Asked again where codes were lost or the answer came too soon: by a model this small, or on a busy machine.
    assert {case.reply.status for case in at(result, 2047)} == {200}
    # Where a stream was asked for this server cannot refuse, it breaks off; the same prompt without a stream is refused.
    for length in (2048, 2049):
        assert not any(case.reply.text for case in at(result, length))
        assert at(result, length)[-1].verdict == "PASS_REJECT"
    told = [
        (case.length, case.reply.prompt_tokens) for case in result.run.cases if case.reply.prompt_tokens is not None
    ]
    assert all(length == tokens for length, tokens in told)


@pytest.fixture(params=["stub-handoff", "reject"])
def behind(request: pytest.FixtureRequest, pd_router: Any) -> Any:
    """The simulator's prefill and decode workers behind SGLang's own router; the fault's name, its address, the cluster."""
    made = dataclasses.replace(SMALL, faults=(request.param,), decode_speed=5_000.0)
    with Running(Cluster(made), workers=True) as running:
        url = pd_router(running.urls["prefill"], running.urls["decode"]).url
        yield request.param, url, running.cluster


@pytest.mark.engine("sglang-router")
def test_the_incident_through_the_engines_own_router(behind: Any) -> None:
    fault, url, cluster = behind
    # The router passes no limits on; its workers tell them, as `facts --endpoint` asks them.
    facts = gather(None, Config(), Inputs(endpoints=(url,)))
    limits, _ = bound_to(json.dumps(facts.to_json()), "facts", None)
    assert (limits.first_rejected, limits.context) == (SMALL.prefill_limit, SMALL.context)
    result = probe(url, limits=limits)
    if fault == "reject":
        assert (result.summary.verdict, result.summary.why) == ("pass", [])
        assert {case.verdict for case in at(result, SMALL.prefill_limit)} == {"PASS_REJECT"}
        return
    leak = next(case for case in result.run.cases if case.verdict == "FAIL_LEAK")
    assert result.over_requests <= 3
    assert leak.length == SMALL.prefill_limit
    owners = {name for opinion in leak.opinions for name in opinion.canaries}
    assert any(name.startswith("t") for name in owners)
    stub = next(entry for entry in cluster.trace if entry["stub"])
    assert stub["pages_sent"] == 1


@pytest.mark.engine("sglang-router")
@pytest.mark.parametrize("fault", ["stub-handoff", "reject"])
def test_limits_that_the_router_hides_are_found_by_content(fault: str, pd_router: Any) -> None:
    with Running(Cluster(dataclasses.replace(SMALL, faults=(fault,), decode_speed=5_000.0)), workers=True) as running:
        result = probe(pd_router(running.urls["prefill"], running.urls["decode"]).url)
    if fault == "reject":
        assert (result.summary.verdict, result.run.limits.first_rejected) == ("pass", SMALL.prefill_limit)
    else:
        # Whose text it was is a matter of which pages the engine gives out next; that nobody's own codes came back is not.
        assert result.summary.verdict == "fail"
        assert {"FAIL_LEAK", "FAIL_INCOHERENT"} & set(result.summary.counts)
