"""The parts of the probe: keys, exact prompts, reading replies, matching, safety, inputs."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from checklistbot.model import InputError, UsageError
from checklistbot.probe.case import Limits, at_least, found_codes, words_of
from checklistbot.probe.inputs import bound_to, plan_items
from checklistbot.probe.keys import CANARY_WORDS, RunKey
from checklistbot.probe.oracles.foreign_canary import longest
from checklistbot.probe.prompts import Maker, body
from checklistbot.probe.reply import read
from checklistbot.probe.safety import allowed_address
from checklistbot.probe.wire import Answer
from checklistbot.simulator.tokens import Tokenizer

KEY = RunKey.of("key", 0)


def test_no_two_canaries_share_a_pair_of_words() -> None:
    key = RunKey.of("another", 1)
    pairs = [pair for index in range(200) for pair in zip(key.canary(index), key.canary(index)[1:], strict=False)]
    assert len(pairs) == len(set(pairs)) == 200 * (CANARY_WORDS - 1)


def test_any_process_with_the_key_gets_the_same_canaries() -> None:
    assert RunKey.of("k", 3).canary(7) == RunKey.of("k", 3).canary(7) != RunKey.of("k", 4).canary(7)


def test_replies_are_sealed_with_the_key() -> None:
    assert KEY.seal("text") != RunKey.of("other", 0).seal("text")


@given(st.integers(200, 30_000), st.integers(1, 16))
def test_prompts_have_exactly_the_tokens_asked_for(length: int, needles: int) -> None:
    tokenizer = Tokenizer()
    maker = Maker(RunKey.of("k", length), lambda text: len(tokenizer.encode(text)))
    maker.calibrate()
    try:
        prompt = maker.needles(length, needles)
    except ValueError:
        assert length < 300
        return
    text = "".join(prompt.chunks())
    assert len(tokenizer.encode(text)) == length == prompt.length
    places = [text.index(code) for code in prompt.codes]
    assert places == sorted(places)
    assert len(places) == needles


def test_a_body_is_streamed_and_its_length_is_known() -> None:
    maker = Maker(KEY, lambda text: len(text.split()))
    maker.calibrate()
    prompt = maker.needles(300_000, 8)
    made = body(prompt, chat=True, options={"model": "m", "max_tokens": 4})
    chunks = list(made)
    assert sum(map(len, chunks)) == made.length > 1_000_000
    assert max(map(len, chunks)) < 200_000
    data = json.loads(b"".join(chunks))
    assert data["messages"][0]["content"] == "".join(prompt.chunks())


def test_tokens_that_do_not_add_up_are_refused() -> None:
    with pytest.raises(ValueError, match="do not add up"):
        Maker(KEY, lambda text: len(text) ** 2).calibrate()


# --- replies -----------------------------------------------------------------------------------------------------------


def sse(*events: object) -> Answer:
    chunks = [(float(number), b"data: " + json.dumps(event).encode() + b"\n\n") for number, event in enumerate(events)]
    return Answer(200, "text/event-stream", [*chunks, (99.0, b"data: [DONE]\n\n")])


def test_ttft_is_the_first_text_and_not_the_role() -> None:
    reply = read(
        sse(
            {"choices": [{"delta": {"role": "assistant", "content": ""}}]},
            {"choices": [{"delta": {"content": "hello"}}]},
        )
    )
    assert (reply.ttft, reply.content, reply.done) == (1.0, "hello", True)


def test_reasoning_and_tool_arguments_are_text_too() -> None:
    delta = {"reasoning_content": "leak one", "tool_calls": [{"function": {"arguments": "leak two"}}]}
    assert {"leak one", "leak two"} <= {
        part for part in ("leak one", "leak two") if part in read(sse({"choices": [{"delta": delta}]})).text
    }


def test_an_error_inside_the_stream_is_a_refusal() -> None:
    reply = read(sse({"error": {"message": "Input length (5,322 tokens) exceeds 5321"}}))
    assert (reply.refused, reply.numbers) == (True, (5322, 5321))


def test_the_routers_refusal_of_a_stream_is_read_though_it_is_no_json() -> None:
    """SGLang's router 0.3.2 puts the worker's error into an event with single quotes."""
    message = "Input length (5,322 tokens) exceeds the maximum allowed length (5321 tokens)."
    worker = {"object": "error", "message": message, "code": 400, "error": {"message": message, "code": 400}}
    body = f"data: {{'error': {json.dumps({'message': worker, 'status': 400})}}}".encode()
    reply = read(Answer(400, "text/event-stream", [(0.0, body)]))
    assert (reply.engine_error, reply.numbers) == (True, (5322, 5321))


def test_a_refusal_that_blames_the_tokens_is_the_engines() -> None:
    """vLLM at exactly its limit: no number of the message is the length."""
    error = {"message": "max_tokens must be at least 1, got 0.", "param": "max_tokens", "code": 400}
    reply = read(Answer(400, "application/json", [(0.0, json.dumps({"error": error}).encode())]))
    assert (reply.parameter, reply.numbers) == ("max_tokens", ())


def test_a_list_of_ids_is_streamed_as_exactly_the_tokens() -> None:
    maker = Maker(KEY, len)
    maker.use_ids(lambda text: [ord(c) for c in text[:40]])
    for length in (1_000, 54_321):
        prompt = maker.needles(length, 8)
        made = body(prompt, chat=False, options={"model": "m"})
        data = b"".join(made)
        assert (len(json.loads(data)["prompt"]), made.length) == (length, len(data))
    filler = maker.filler(0, 1_000, repeat=True)
    ids = json.loads(b"".join(body(filler, chat=False, options={})))["prompt"]
    assert len(ids) == filler.length <= 1_000


def test_events_split_anywhere_are_read() -> None:
    whole = b"".join(data for _, data in sse({"choices": [{"text": "caf\u00e9"}]}).chunks)
    for cut in range(1, len(whole)):
        reply = read(Answer(200, "text/event-stream", [(0.0, whole[:cut]), (1.0, whole[cut:])]))
        assert (reply.content, reply.done) == ("caf\u00e9", True)


@given(
    st.binary(max_size=400),
    st.sampled_from([0, 200, 400, 413, 500]),
    st.sampled_from(["text/event-stream", "application/json", ""]),
)
def test_no_answer_breaks_the_reader(data: bytes, status: int, kind: str) -> None:
    assert read(Answer(status, kind, [(0.0, b"data: " + data), (1.0, data)])).status == status


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda v: (
            st.lists(v, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    ["choices", "delta", "usage", "error", "message", "content", "logprobs", "tokens", "prompt_tokens"]
                ),
                v,
                max_size=4,
            )
        ),
    )
)
@example(True)
def test_no_json_breaks_the_reader(data: object) -> None:
    read(Answer(200, "application/json", [(0.0, json.dumps(data).encode())]))
    read(sse(data, {"choices": data}, {"choices": [data]}))


# --- matching ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["1234567", "1,234,567", "**1234567**", "code:1 234 567.", "１２３４５６７"])
def test_codes_are_found_however_they_are_written(text: str) -> None:
    assert found_codes(text, ("1234567", "7654321")) == {"1234567"}


def test_codes_inside_longer_numbers_are_not_words_of_their_own() -> None:
    assert found_codes("no numbers", ("1234567",)) == set()


@given(st.lists(st.sampled_from(["and", "the", "zebra"]), max_size=20), st.integers(1, 6))
def test_a_run_of_canary_words_is_measured_anywhere(noise: list[str], size: int) -> None:
    canary = KEY.canary(3)
    said = [word for word in noise if word not in canary]
    assert longest(canary, [*said, *canary[:size], *said]) == size


def test_recombined_canaries_are_no_whole_ones() -> None:
    one, two = KEY.canary(0), KEY.canary(1)
    assert longest(one, [*one[:3], *two[3:]]) == 3


def test_marks_that_cannot_be_seen_do_not_hide_a_canary() -> None:
    canary = KEY.canary(0)
    text = " ".join(word[0].upper() + "\u200b" + word[1:] + "," for word in canary)
    assert longest(canary, words_of(text)) == CANARY_WORDS


def test_the_binomial_tail() -> None:
    assert at_least(0, 8, 0.03) == pytest.approx(1.0)
    assert at_least(4, 8, 0.03) == pytest.approx(5e-5, rel=0.1)


# --- whom it may talk to -------------------------------------------------------------------------------------------------


def address(url: str, *addresses: str, owned: bool = True, allow: tuple[str, ...] = ()) -> str:
    return allowed_address(url, owned=owned, allow_hosts=allow, resolver=lambda host, port: list(addresses))


def test_the_owner_must_say_so() -> None:
    with pytest.raises(UsageError, match="--i-own-this-endpoint"):
        address("http://127.0.0.1:1", "127.0.0.1", owned=False)


def test_private_and_loopback_addresses_are_pinned() -> None:
    assert address("http://staging:8000", "10.0.0.7") == "10.0.0.7"
    assert address("http://[::1]:8000", "::1") == "::1"


@pytest.mark.parametrize("where", ["93.184.216.34", "2606:4700::1111", "::ffff:93.184.216.34"])
def test_public_addresses_need_an_allowed_host(where: str) -> None:
    with pytest.raises(UsageError, match="--allow-host"):
        address("https://llm.example.org", where)
    assert address("https://llm.example.org", where, allow=("LLM.example.org",)) == where


def test_one_public_address_among_private_ones_is_enough_to_refuse() -> None:
    with pytest.raises(UsageError, match="public address"):
        address("http://two.example.org", "10.0.0.1", "93.184.216.34")


@pytest.mark.parametrize("where", ["169.254.169.254", "fe80::1%eth0", "0.0.0.0", "224.0.0.1", "::"])
def test_link_local_and_the_like_are_refused_even_if_allowed(where: str) -> None:
    with pytest.raises(UsageError, match="link-local"):
        address("http://host", where, allow=("host",))


@pytest.mark.parametrize(
    "host", ["api.openai.com", "API.Anthropic.com.", "metadata.google.internal", "my.openai.azure.com"]
)
def test_public_apis_are_refused_even_if_allowed(host: str) -> None:
    with pytest.raises(UsageError, match="never tests"):
        address(f"https://{host}", "10.0.0.1", allow=(host,))


@pytest.mark.parametrize("url", ["ftp://h", "http://", "h:8000", "http://user:pw@h", "http://h:99999"])
def test_bad_addresses_are_one_line_without_the_secret(url: str) -> None:
    with pytest.raises(UsageError) as caught:
        address(url, "10.0.0.1")
    assert "pw" not in str(caught.value)


# --- inputs ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "no JSON"),
        ("[]", "JSON object"),
        ('{"schema": "plan/2", "items": []}', "plan/1"),
        ('{"schema": "plan/1", "items": [{"id": "a"}]}', "item 1: needs"),
        ('{"schema": "plan/1", "items": [{"id": "a", "automation": {"kind": "manual"}}]}', "kind must be"),
        ('{"schema": "plan/1", "items": [{"id": "a", "automation": {"kind": "boundary-request", "at": "moon", "offsets": [1]}}]}', "at must be"),
        ('{"schema": "plan/1", "items": [{"id": "a", "automation": {"kind": "boundary-request", "at": "pool", "offsets": [true]}}]}', "offsets"),
        ('{"schema": "plan/1", "items": [{"id": "a", "automation": {"kind": "canary-leak", "fillers": 0, "probes": 1}}]}', "fillers"),
    ],
)  # fmt: skip
def test_a_plan_that_is_none_says_where(text: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        plan_items(text, "plan.json")


def test_facts_bind_the_limits_and_the_digests() -> None:
    source = {"kind": "declared", "path": "a.yaml", "line": 3}
    observed = {"kind": "observed", "path": "log", "line": 1}
    deployment = {
        "id": "prod/glm/prefill", "name": "glm", "environment": "prod", "group": "glm", "file": "a.yaml", "line": 1,
        "role": {"value": "prefill", "source": source}, "engine": {"value": "sglang", "source": source},
        "context_length": {"value": 8192, "source": source}, "kv_pool_tokens": {"value": 5328, "source": observed},
        "first_rejected_length": 5322,
    }  # fmt: skip
    digests = {"prod/glm": {"behaviour": "a" * 64, "capacity": "b" * 64}}
    data = {"schema": "facts/1", "deployments": [deployment], "digests": digests, "skipped": []}
    limits, binding = bound_to(json.dumps({"schema": "report/1", "facts": {"head": data}}), "r.json", None)
    assert (limits.first_rejected, limits.context, limits.pools) == (5322, 8192, {"prefill": 5328})
    assert (binding.group, binding.environment, binding.digests) == ("glm", "prod", digests["prod/glm"])


def test_a_predicted_pool_is_no_limit() -> None:
    deployment = {
        "id": "d/g/unified", "name": "g", "environment": "d", "group": "g",
        "kv_pool_tokens": {"value": 10, "source": {"kind": "predicted", "path": None, "line": None}}, "first_rejected_length": 4,
    }  # fmt: skip
    limits, _ = bound_to(json.dumps({"schema": "facts/1", "deployments": [deployment]}), "f", None)
    assert limits == Limits()


@pytest.mark.parametrize("text", ["{", "[]", '{"schema": "facts/1"}', '{"schema": "facts/1", "deployments": [{}]}', '{"schema": "report/1"}', '{"schema": "check/1"}'])  # fmt: skip
def test_facts_that_bind_nothing_are_refused(text: str) -> None:
    with pytest.raises((UsageError, InputError)):
        bound_to(text, "f.json", None)
