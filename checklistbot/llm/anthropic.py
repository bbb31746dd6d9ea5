"""Anthropic through the Messages API with structured output."""

from __future__ import annotations

from typing import Any

from checklistbot.llm.base import Answer, Connection, Failed, Provider, Question, classify, http_client
from checklistbot.retry import Clock


def ask(question: Question, connection: Connection, clock: Clock) -> Answer:
    """One answer. Raises Failed."""
    try:
        import anthropic
    except ImportError:
        raise Failed("no-sdk") from None
    try:
        with http_client(connection, question.seconds) as http:
            client = anthropic.Anthropic(
                api_key=connection.key,
                base_url=connection.base_url,
                max_retries=0,
                timeout=question.seconds,
                http_client=http,
                open_telemetry=False,
            )
            return _messages(client, question, connection.model)
    except Exception as error:
        raise classify(error, clock) from None


def _messages(client: Any, question: Question, model: str | None) -> Answer:
    from checklistbot.llm import models

    message = client.messages.create(
        model=model or models()["providers"]["anthropic"]["default"],
        max_tokens=question.max_output_tokens,
        messages=[{"role": message.role, "content": message.text} for message in question.messages],
        output_config={
            "format": {"type": "json_schema", "schema": dict(question.schema)},
            **({"effort": question.effort} if question.effort else {}),
        },
    )
    usage = _usage(message.usage)
    if message.stop_reason == "refusal":
        raise Failed("refused", usage=usage)
    if message.stop_reason in ("max_tokens", "model_context_window_exceeded"):
        raise Failed("truncated", usage=usage)
    text = "".join(block.text for block in message.content or [] if getattr(block, "type", None) == "text")
    if not text.strip():
        raise Failed("empty", usage=usage)
    return Answer(text, message.model if isinstance(message.model, str) else None, *(usage or (None, None)))


def _usage(usage: Any) -> tuple[int, int] | None:
    """Input tokens count whether they were read, cached or written to the cache."""
    counts = [
        getattr(usage, name, None) or 0
        for name in ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    ]
    written = getattr(usage, "output_tokens", None)
    return (sum(counts), written) if isinstance(written, int) else None


PROVIDER = Provider(
    name="anthropic",
    key_name="ANTHROPIC_API_KEY",
    base_url_name=None,
    default_url="https://api.anthropic.com",
    hosts=("api.anthropic.com", ".api.anthropic.com"),
    ask=ask,
)
