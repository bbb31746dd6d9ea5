"""The simulated engine: what it refuses, what it hands on, and that it answers only from what it can see."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from probe_direct import SMALL

from checklistbot.model import UsageError
from checklistbot.simulator.api import App
from checklistbot.simulator.direct import Direct, Played
from checklistbot.simulator.engine import Cluster, Settings
from checklistbot.simulator.faults import FAULTS, switches_of
from checklistbot.simulator.pool import ORDERS, PagePool
from checklistbot.simulator.tokens import Tokenizer


def ask(direct: Direct, text: str, path: str = "/v1/completions", **options: object) -> tuple[int, dict[str, object]]:
    played = post(direct, path, {"prompt": text, "max_tokens": 16, **options})
    return played.status, json.loads(b"".join(data for _, data in played.chunks))


def post(direct: Direct, path: str, data: object, deadline: float = 1_000) -> Played:
    return direct.play([("POST", path, json.dumps(data).encode())], deadline=deadline)[0]


def made(*faults: str, settings: Settings = SMALL) -> Direct:
    return Direct(App(Cluster(dataclasses.replace(settings, faults=faults))))


def text_of(body: dict[str, object]) -> str:
    return body["choices"][0]["text"]  # type: ignore[index,no-any-return]


@given(st.text(max_size=300))
def test_tokens_count_the_same_however_the_text_is_cut(text: str) -> None:
    whole, parts = Tokenizer(), Tokenizer()
    cut = text.find(" ", len(text) // 2)
    tokens = whole.encode(text)
    if cut >= 0:
        assert len(tokens) == len(parts.encode(text[:cut])) + len(parts.encode(text[cut:]))
    assert whole.encode(whole.decode(tokens)) == tokens
    assert whole.from_ids([ord(token) for token in tokens]) == tokens


def test_a_long_sentence_is_cut_where_a_word_ends() -> None:
    tokenizer = Tokenizer()
    assert len(tokenizer.encode("interesting " * 40_000)) == 40_000


@pytest.mark.parametrize("order", ORDERS)
def test_pages_keep_what_the_last_owner_wrote(order: str) -> None:
    pool = PagePool(64, 16, order, seed=1)  # type: ignore[arg-type]
    table = pool.take(4)
    assert table is not None
    pool.write(table, "a" * 60, "first")
    pool.free(table)
    again = pool.take(4)
    assert again is not None
    pool.write(again, "b", "second")
    seen = pool.read(again, 64)
    assert seen.count("b") == 1
    assert seen.count("a") >= 59
    assert pool.take(1) is None


def test_zeroed_pages_hold_nothing() -> None:
    pool = PagePool(32, 16)
    table = pool.take(2)
    assert table is not None
    pool.write(table, "a" * 32, "first")
    pool.free(table, zero=True)
    assert set(pool.read(table, 32)) == {"\0"}


@pytest.mark.parametrize("settings", [SMALL, dataclasses.replace(SMALL, disaggregated=False)])
def test_the_limits_are_sglangs(settings: Settings) -> None:
    direct, limit = made(settings=settings), settings.prefill_limit
    assert limit == 5_328 - 6
    assert ask(direct, "word " * (limit - 1))[0] == 200
    status, body = ask(direct, "word " * limit)
    assert (status, str(limit) in json.dumps(body)) == (400, True)
    status, body = ask(direct, "word " * settings.context)
    assert (status, str(settings.context) in json.dumps(body)) == (400, True)


def test_the_stub_hand_off_answers_another_tenants_text_with_200() -> None:
    direct, limit = made("stub-handoff"), SMALL.prefill_limit
    secret = "The access phrase is apple river stone. "
    assert ask(direct, secret * 600)[0] == 200
    status, body = ask(direct, "word " * limit)
    assert status == 200
    assert "apple river stone" in text_of(body)
    assert body["usage"]["prompt_tokens"] == limit  # type: ignore[index]
    record = direct.app.cluster.trace[-1]
    assert (record["stub"], record["pages_sent"], record["pages_reserved"]) == (True, 1, -(-limit // 16))


def test_a_single_node_returns_the_error_properly() -> None:
    settings = dataclasses.replace(SMALL, disaggregated=False)
    assert ask(made("stub-handoff", settings=settings), "word " * SMALL.prefill_limit)[0] == 400


def test_below_the_limit_the_fault_does_nothing() -> None:
    healthy, broken = made(), made("stub-handoff")
    for text in ("The code of a is 1234567. List the codes.", "one two three. " * 50):
        assert ask(healthy, text) == ask(broken, text)


def test_codes_are_answered_only_from_what_is_visible() -> None:
    status, body = ask(made(), "The code of a is 1234567. " + "word " * 900 + "List all codes.")
    assert (status, text_of(body)) == (200, "1234567.")


def test_token_ids_count_as_they_are() -> None:
    direct = made()
    tokens = json.loads(post(direct, "/tokenize", {"prompt": "one two three."}).chunks[0][1])["tokens"]
    status, body = ask(direct, tokens)  # type: ignore[arg-type]
    assert (status, body["usage"]["prompt_tokens"]) == (200, 4)  # type: ignore[index]


def test_logit_bias_forces_a_token() -> None:
    direct = made()
    number = json.loads(post(direct, "/tokenize", {"prompt": "banana"}).chunks[0][1])["tokens"][0]
    body = ask(direct, "Say something.", logit_bias={str(number): 100}, max_tokens=3)[1]
    assert text_of(body).split() == ["banana"] * 3


def test_a_stream_ends_with_usage_and_done() -> None:
    options = {"messages": [{"role": "user", "content": "one two. "}], "stream": True, "stream_options": {"include_usage": True}, "max_tokens": 4, "logprobs": True}  # fmt: skip
    played = post(made(), "/v1/chat/completions", options)
    events = b"".join(data for _, data in played.chunks).decode().split("\n\n")
    assert events[-2] == "data: [DONE]"
    usage = json.loads(events[-3].removeprefix("data: "))
    assert usage["usage"]["completion_tokens"] == 4
    first = json.loads(events[1].removeprefix("data: "))["choices"][0]
    assert first["logprobs"]["content"][0]["token"] == first["delta"]["content"]


def test_a_prompt_waits_for_the_time_that_prefill_takes() -> None:
    played = post(made(), "/v1/completions", {"prompt": "word " * 4_000, "max_tokens": 1})
    assert played.chunks[0][0] == pytest.approx(SMALL.latency + 4_000 / SMALL.prefill_speed + 1 / SMALL.decode_speed)


def test_a_hang_ends_at_the_deadline_only() -> None:
    played = post(made("hang"), "/v1/completions", {"prompt": "word " * 6_000}, deadline=30)
    assert (played.error, played.chunks) == ("timeout", [])


def test_workers_behind_another_router_meet_in_a_room() -> None:
    cluster = Cluster(dataclasses.replace(SMALL, faults=("stub-handoff",)))
    prefill, decode = App(cluster, "prefill"), App(cluster, "decode")
    ask(Direct(App(cluster)), "The access phrase is apple river stone. " * 600)
    data = {"prompt": "word " * SMALL.prefill_limit, "max_tokens": 24, "bootstrap_room": 7}
    first = json.loads(post(Direct(prefill), "/v1/completions", data).chunks[0][1])
    assert first["usage"]["prompt_tokens"] == 1, "the one honest number of the incident"
    second = json.loads(post(Direct(decode), "/v1/completions", data).chunks[0][1])
    assert second["usage"]["prompt_tokens"] == SMALL.prefill_limit
    assert "apple river stone" in second["choices"][0]["text"]


def test_decode_gives_up_where_no_pages_come() -> None:
    decode = App(Cluster(SMALL), "decode")
    played = post(Direct(decode), "/v1/completions", {"prompt": "word", "bootstrap_room": 1, "stream": True})
    assert b"no KV cache arrived" in played.chunks[-1][1]


NO_REQUEST = [
    b"", b"[]", b"{", b'{"prompt": 1}', b'{"prompt": [true]}', b'{"messages": []}', b"\xff",
    b'{"prompt": "a", "max_tokens": 0}', b'{"prompt": "a", "logit_bias": {"x": 1}}', b'{"prompt": [99999]}',
]  # fmt: skip


@pytest.mark.parametrize("body", NO_REQUEST)
@pytest.mark.parametrize("path", ["/v1/completions", "/v1/chat/completions", "/tokenize"])
def test_what_is_no_request_is_a_400(path: str, body: bytes) -> None:
    if path == "/tokenize" and (b"max_tokens" in body or b"bias" in body):
        pytest.skip("a question about tokens has no answer's options")
    assert Direct(made().app).play([("POST", path, body)], deadline=10)[0].status == 400


def test_faults_have_one_name_each_and_unknown_ones_are_refused() -> None:
    assert switches_of(["stub-handoff", "early-role"]) == {"stub", "early-role"}
    with pytest.raises(UsageError, match="no fault 'nonsense'"):
        switches_of(["nonsense"])
    numbers = {fault.number for fault in FAULTS.values() if not fault.twin}
    assert numbers >= set("1 2 3 3b 4 5 6 8 11 12 13 14 15 16 17 21 25 28 29 30".split())  # noqa: SIM905


@pytest.mark.parametrize("name", FAULTS)
def test_the_same_seed_gives_the_same_bytes(name: str) -> None:
    def run() -> list[object]:
        direct = made(name)
        calls = [("POST", "/v1/completions", json.dumps({"prompt": "The phrase is red blue. " * times, "max_tokens": 20}).encode()) for times in (90, 950, 200)]  # fmt: skip
        return [(p.status, p.chunks, p.error) for p in direct.play(calls, deadline=400, concurrency=3)]

    assert run() == run()


# VmHWM, not ru_maxrss: that one survives exec, so a child of a fat test runner would report the runner's size.
_BIG = r"""
import json, re
from checklistbot.simulator.api import App
from checklistbot.simulator.direct import Direct
from checklistbot.simulator.engine import Cluster, Settings
direct = Direct(App(Cluster(Settings(faults=("stub-handoff",)))))
body = json.dumps({"prompt": "The one of the two keeps three. " * 131068, "max_tokens": 16}).encode()
played = direct.play([("POST", "/v1/completions", body)], deadline=400)[0]
usage = json.loads(played.chunks[0][1])["usage"]
peak = re.search(r"VmHWM:\s+(\d+) kB", open("/proc/self/status").read())[1]
print(played.status, usage["prompt_tokens"], int(peak) // 1024)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak from /proc")
def test_a_million_tokens_fit_into_200_mb() -> None:
    # A process of its own: the peak of this one is everybody's.
    done = subprocess.run([sys.executable, "-c", _BIG], capture_output=True, text=True, check=True, timeout=120)
    status, tokens, megabytes = map(int, done.stdout.split())
    assert (status, tokens) == (200, 131_068 * 8)
    assert megabytes < 200
