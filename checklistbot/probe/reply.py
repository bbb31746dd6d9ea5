"""An answer of the endpoint as one typed reply, from a stream or from one JSON body."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import field
from typing import Any, Final

from checklistbot.probe.wire import Answer
from checklistbot.record import mutable_record

_ERROR_TEXT: Final = 4_000
_PARAMETERS: Final = ("input_tokens", "max_tokens")


@mutable_record
class Reply:
    """``text`` is all a client can read: content, reasoning, tool arguments. Nothing of it is ever written down.

    ``ttft``: seconds to the first character of text, None without any. ``numbers``: the whole numbers of an error's message;
    ``parameter``: the name of the request's parameter that it blames, if it is one of ours.
    """

    status: int
    content: str = ""
    reasoning: str = ""
    other: str = ""
    finish: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    first_logprob: str | None = None
    first_text: str | None = None
    ttft: float | None = None
    seconds: float = 0.0
    done: bool = False
    streamed: bool = False
    error: str | None = None
    engine_error: bool = False
    numbers: tuple[int, ...] = ()
    parameter: str | None = None
    logprob_tokens: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "\n".join(part for part in (self.reasoning, self.content, self.other) if part)

    @property
    def unsaid(self) -> bool:
        """A stream that breaks off before any text: nothing leaked, and nothing was refused in words either."""
        return self.status == 200 and self.streamed and not self.done and not self.text and self.error in (None, "cut")

    @property
    def refused(self) -> bool:
        return self.status >= 400 or (self.engine_error and not self.text)


def read(answer: Answer) -> Reply:
    """Never raises: what cannot be read is an empty reply with its status."""
    reply = Reply(answer.status, error=answer.error, seconds=answer.seconds)
    if answer.status >= 400 or not answer.status:
        _error(reply, _error_body(answer))
    elif "event-stream" in answer.content_type:
        reply.streamed = True
        for when, data in _events(answer):
            _take(reply, data, when)
    else:
        data = answer.json()
        when = answer.chunks[-1][0] if answer.chunks else 0.0
        if isinstance(data, dict):
            _take(reply, data, when)
            reply.done = True
    return reply


def _error_body(answer: Answer) -> Any:
    """The JSON of an error. SGLang's router wraps that of a worker, where a stream was asked for, into an event that is no JSON
    itself (quoted with '): then the first object in it that tells a message."""
    whole = answer.json()
    text = answer.body[:_ERROR_TEXT].decode("utf-8", "replace")
    if whole is not None or not text.startswith("data:"):
        return whole
    decoder = json.JSONDecoder()
    for start in [found.start() for found in re.finditer(r"\{", text)][:8]:
        try:
            data, _ = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            continue
        if isinstance(data, dict) and "message" in data:
            inner = data["message"]
            return inner if isinstance(inner, dict) else data
    return None


def _events(answer: Answer) -> Iterator[tuple[float, Any]]:
    """Data of server-sent events with the time at which each was complete."""
    rest = b""
    for when, chunk in answer.chunks:
        rest += chunk
        *lines, rest = rest.split(b"\n")
        for line in lines:
            if not line.startswith(b"data:"):
                continue
            data = line[5:].strip()
            if data == b"[DONE]":
                yield when, None
                continue
            try:
                yield when, json.loads(data)
            except (ValueError, RecursionError):
                continue


def _take(reply: Reply, data: Any, when: float) -> None:
    if data is None:
        reply.done = True
        return
    if not isinstance(data, dict):
        return
    if data.get("error") is not None:
        _error(reply, data)
    usage = data.get("usage")
    if isinstance(usage, dict):
        _usage(reply, usage)
    choices = data.get("choices")
    for choice in choices if isinstance(choices, list) else ():
        if isinstance(choice, dict):
            _choice(reply, choice, when)


def _usage(reply: Reply, usage: dict[str, Any]) -> None:
    reply.prompt_tokens = _whole(usage.get("prompt_tokens"))
    reply.completion_tokens = _whole(usage.get("completion_tokens"))
    details = usage.get("prompt_tokens_details")
    if isinstance(details, dict):
        reply.cached_tokens = _whole(details.get("cached_tokens"))


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _choice(reply: Reply, choice: dict[str, Any], when: float) -> None:
    delta = choice.get("delta") or choice.get("message") or {}
    content = delta.get("content") if isinstance(delta, dict) else None
    content = content if content is not None else choice.get("text")
    reasoning = (delta.get("reasoning_content") or delta.get("reasoning")) if isinstance(delta, dict) else None
    tools = json.dumps(delta.get("tool_calls")) if isinstance(delta, dict) and delta.get("tool_calls") else ""
    said = "".join(part for part in (reasoning, content) if isinstance(part, str)) + tools
    if said and reply.ttft is None:
        reply.ttft = when
        reply.first_text = said
    reply.content += content if isinstance(content, str) else ""
    reply.reasoning += reasoning if isinstance(reasoning, str) else ""
    reply.other += tools
    if choice.get("finish_reason"):
        reply.finish = str(choice["finish_reason"])
    _logprobs(reply, choice.get("logprobs"))


def _logprobs(reply: Reply, logprobs: Any) -> None:
    if not isinstance(logprobs, dict):
        return
    entries = logprobs.get("content")
    tokens = (
        [e.get("token") for e in entries if isinstance(e, dict)]
        if isinstance(entries, list)
        else logprobs.get("tokens")
    )
    if not isinstance(tokens, list):
        return
    told = [token for token in tokens if isinstance(token, str)]
    reply.logprob_tokens += told
    if told and reply.first_logprob is None:
        reply.first_logprob = told[0]


def _error(reply: Reply, data: Any) -> None:
    """An error in the engine's own form; of its message only the numbers are kept."""
    if not isinstance(data, dict):
        return
    error = data.get("error")
    message = (
        error.get("message") if isinstance(error, dict) else error if isinstance(error, str) else data.get("message")
    )
    blamed = error.get("param") if isinstance(error, dict) else None
    reply.parameter = blamed if blamed in _PARAMETERS else None
    if isinstance(message, str):
        reply.engine_error = True
        reply.numbers = tuple(int(n) for n in re.findall(r"\d{2,9}", message[:_ERROR_TEXT].replace(",", "")))
