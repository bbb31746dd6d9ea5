"""What a compatible server may do besides answering: refuse, redirect, pack, flood, and send what its API does not know."""

from __future__ import annotations

import gzip
import json
import socket
from typing import Any

import pytest

from checklistbot import checklist
from checklistbot.config import LlmSettings
from checklistbot.llm import base
from checklistbot.llm.anthropic import PROVIDER as ANTHROPIC
from checklistbot.llm.base import Connection, Failed, Message, Question
from checklistbot.llm.openai import PROVIDER as OPENAI
from checklistbot.retry import Clock

QUESTION = Question((Message("user", "hello"),), {"type": "object", "properties": {}}, 100, 5.0)
CLOCK = Clock()


def completion(text: Any, finish: str = "stop", **message: Any) -> dict[str, Any]:
    return {
        "id": "c",
        "object": "chat.completion",
        "model": "m",
        "choices": [
            {"index": 0, "finish_reason": finish, "message": {"role": "assistant", "content": text, **message}}
        ],
        "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5},
    }


def response(text: str | None, status: str = "completed", **more: Any) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text, "annotations": []}] if text else []
    output = [{"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": content}]
    usage = {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5}
    return {"id": "r", "object": "response", "model": "m", "status": status, "output": output, "usage": usage, **more}


def message(text: str | None, stop: str = "end_turn") -> dict[str, Any]:
    content = [{"type": "text", "text": text}] if text else []
    usage = {"input_tokens": 3, "output_tokens": 2, "cache_read_input_tokens": 4}
    return {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": content,
        "stop_reason": stop,
        "usage": usage,
    }


def chat(rude: Any) -> Any:
    return OPENAI.ask(QUESTION, Connection(f"{rude.url}/v1", "k", "m", False), CLOCK)


def responses(rude: Any) -> Any:
    return OPENAI.ask(QUESTION, Connection(f"{rude.url}/v1", "k", "m", True), CLOCK)


def messages(rude: Any) -> Any:
    return ANTHROPIC.ask(QUESTION, Connection(rude.url, "k", "m", False), CLOCK)


@pytest.mark.parametrize(
    ("ask", "body", "read"),
    [(chat, completion("hi"), 3), (responses, response("hi"), 3), (messages, message("hi"), 7)],
)
def test_an_answer_comes_with_what_it_cost(rude: Any, ask: Any, body: Any, read: int) -> None:
    rude.reply(200, body)
    answer = ask(rude)
    assert (answer.text, answer.model, answer.input_tokens, answer.output_tokens) == ("hi", "m", read, 2)


@pytest.mark.parametrize(
    ("ask", "body", "place"),
    [
        (chat, completion("hi"), ("response_format", "json_schema", "schema")),
        (responses, response("hi"), ("text", "format", "schema")),
        (messages, message("hi"), ("output_config", "format", "schema")),
    ],
)
def test_every_wire_carries_the_schema_and_a_limit_and_no_tools(rude: Any, ask: Any, body: Any, place: Any) -> None:
    rude.reply(200, body)
    ask(rude)
    sent = rude.seen[0][2]
    limit = sent.get("max_tokens") or sent.get("max_output_tokens")
    assert limit == QUESTION.max_output_tokens
    assert not {"tools", "functions", "temperature", "top_p"} & set(sent)
    assert sent.get("store") in (None, False)
    for key in place:
        sent = sent[key]
    assert sent == QUESTION.schema


REFUSAL_PART = [
    {
        "type": "message",
        "id": "m",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "refusal", "refusal": "no"}],
    }
]


@pytest.mark.parametrize(
    ("ask", "body", "reason"),
    [
        (chat, completion(None, refusal="no"), "refused"),
        (chat, completion("x", "content_filter"), "filtered"),
        (chat, completion("x", "length"), "truncated"),
        (chat, completion("  "), "empty"),
        (chat, completion(["x"]), "empty"),
        (chat, {"choices": []}, "empty"),
        (chat, {"choices": [{"message": None}]}, "bad-response"),
        (chat, ["not", "an", "object"], "bad-response"),
        (responses, response(None, output=REFUSAL_PART), "refused"),
        (responses, response("x", "incomplete", incomplete_details={"reason": "max_output_tokens"}), "truncated"),
        (responses, response("x", "incomplete", incomplete_details={"reason": "content_filter"}), "filtered"),
        (responses, response(None), "empty"),
        (responses, response("x", "failed"), "server-error"),
        (responses, {"output": 7}, "bad-response"),
        (messages, message("x", "refusal"), "refused"),
        (messages, message("x", "max_tokens"), "truncated"),
        (messages, message("x", "model_context_window_exceeded"), "truncated"),
        (messages, message(None), "empty"),
        (messages, {"content": 3}, "bad-response"),
    ],
)
def test_each_way_not_to_answer_has_its_class(rude: Any, ask: Any, body: Any, reason: str) -> None:
    rude.reply(200, body)
    with pytest.raises(Failed) as failed:
        ask(rude)
    assert failed.value.reason == reason


@pytest.mark.parametrize("ask", [chat, responses, messages])
@pytest.mark.parametrize(
    ("status", "reason"),
    [(401, "unauthorised"), (403, "unauthorised"), (404, "not-found"), (408, "timed-out"), (429, "rate-limited"), (503, "overloaded"),
     (529, "overloaded"), (502, "server-error"), (400, "bad-request"), (413, "bad-request")],
)  # fmt: skip
def test_each_status_has_its_class_and_no_word_of_the_server(rude: Any, ask: Any, status: int, reason: str) -> None:
    rude.reply(status, {"error": {"message": "<script>sk-leak-12345678</script>", "type": "x"}})
    with pytest.raises(Failed) as failed:
        ask(rude)
    assert failed.value.reason == reason
    assert "script" not in str(failed.value)


@pytest.mark.parametrize("ask", [chat, responses, messages])
def test_the_sdks_do_not_repeat_on_their_own(rude: Any, ask: Any) -> None:
    rude.reply(503, {"error": {"message": "x"}})
    with pytest.raises(Failed):
        ask(rude)
    assert len(rude.seen) == 1


@pytest.mark.parametrize("ask", [chat, responses, messages])
@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_is_not_followed(rude: Any, ask: Any, status: int) -> None:
    rude.reply(status, b"", location=f"{rude.url}/elsewhere")
    with pytest.raises(Failed) as failed:
        ask(rude)
    assert failed.value.reason == "redirected"
    assert [path for path, _, _ in rude.seen if "elsewhere" in path] == []


@pytest.mark.parametrize("ask", [chat, responses, messages])
def test_a_flood_and_a_packed_flood_are_cut_off(rude: Any, ask: Any) -> None:
    flood = json.dumps({"x": "a" * (base.MAX_RESPONSE_BYTES + 1)}).encode()
    for body, headers in ((flood, {}), (gzip.compress(flood), {"content_encoding": "gzip"})):
        rude.replies.clear()
        rude.reply(200, body, **headers)
        with pytest.raises(Failed) as failed:
            ask(rude)
        assert failed.value.reason == "too-large"


@pytest.mark.parametrize("ask", [chat, responses, messages])
@pytest.mark.parametrize("body", [b"<html>", b"\xff\xfe", b"{", b""])
def test_a_body_that_is_no_json(rude: Any, ask: Any, body: bytes) -> None:
    rude.reply(200, body)
    with pytest.raises(Failed) as failed:
        ask(rude)
    assert failed.value.reason in ("bad-response", "empty")


def test_nobody_there() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
    for provider in (OPENAI, ANTHROPIC):
        with pytest.raises(Failed) as failed:
            provider.ask(QUESTION, Connection(url, "k", "m", False), CLOCK)
        assert failed.value.reason == "no-connection"


@pytest.mark.parametrize("status", [400, 422, 500])
def test_a_server_without_json_schema_gets_json_object(rude: Any, status: int) -> None:
    rude.reply(status, {"error": {"message": "response_format json_schema is not supported"}})
    rude.reply(200, completion("hi"))
    assert chat(rude).text == "hi"
    kinds = [body["response_format"]["type"] for _, _, body in rude.seen]
    assert kinds == ["json_schema", "json_object"]
    assert rude.seen[1][2]["response_format"]["schema"] == QUESTION.schema


def test_a_compatible_server_says_itself_what_it_serves(rude: Any) -> None:
    rude.reply(200, {"object": "list", "data": [{"id": "local-model", "object": "model"}]})
    rude.reply(200, completion("hi"))
    OPENAI.ask(QUESTION, Connection(f"{rude.url}/v1", "k", None, False), CLOCK)
    assert [path for path, _, _ in rude.seen] == ["/v1/models", "/v1/chat/completions"]
    assert rude.seen[1][2]["model"] == "local-model"


def test_account_names_and_foreign_settings_stay_home(rude: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Variables that the SDKs would read by themselves do not travel to a foreign server."""
    for name in (
        "OPENAI_ORG_ID",
        "OPENAI_PROJECT_ID",
        "OPENAI_API_KEY",
        "OPENAI_ADMIN_KEY",
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_AUTH_TOKEN",
    ):
        monkeypatch.setenv(name, f"home-{name.lower()}")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:9")
    rude.reply(200, completion("hi"))
    chat(rude)
    rude.replies.clear()
    rude.reply(200, message("hi"))
    messages(rude)
    for _, headers, _ in rude.seen:
        assert not [value for value in headers.values() if "home-" in value]


def test_a_keyless_local_server_is_enough(rude: Any, facts: Any, check: Any, good_answer: str, time_: Any) -> None:
    rude.reply(200, completion(good_answer))
    settings = LlmSettings(base_url=f"{rude.url}/v1", model="local")
    drafted, use = checklist.draft(
        facts, check, language="en", settings=settings, environ={}, deadline=time_.deadline()
    )
    assert (use.status, drafted.origin, use.input_tokens, use.output_tokens) == ("ok", "openai", 3, 2)


def test_both_calls_of_a_repair_are_counted(rude: Any, facts: Any, check: Any, good_answer: str, time_: Any) -> None:
    rude.reply(200, completion("no json"))
    rude.reply(200, completion(good_answer))
    settings = LlmSettings(base_url=f"{rude.url}/v1", model="local")
    _, use = checklist.draft(facts, check, language="en", settings=settings, environ={}, deadline=time_.deadline())
    assert (use.status, use.input_tokens, use.output_tokens) == ("repaired", 6, 4)


def test_an_answer_above_256_kib_falls_back(rude: Any, facts: Any, check: Any, make_item: Any, time_: Any) -> None:
    long = json.dumps({"items": [make_item("other", "d1", title="x" * 4000) for _ in range(80)]})
    rude.reply(200, completion(long))
    settings = LlmSettings(base_url=f"{rude.url}/v1", model="local")
    _, use = checklist.draft(facts, check, language="en", settings=settings, environ={}, deadline=time_.deadline())
    assert (use.status, use.reason) == ("failed", base.sentence("too-large", "en"))
    assert len(rude.seen) == 1
