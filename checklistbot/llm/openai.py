"""OpenAI through the Responses API; any other server that speaks its wire format through chat completions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from checklistbot.llm.base import Answer, Connection, Failed, Provider, Question, classify, http_client
from checklistbot.retry import Clock

_SCHEMA_NAME = "checklist"
#: What a server answers that does not know ``json_schema``: most say 4xx, llama-cpp-python says 500.
_SCHEMA_REFUSED = ("bad-request", "server-error", "not-found")


@contextmanager
def _client(connection: Connection, question: Question) -> Iterator[Any]:
    try:
        import openai
    except ImportError:
        raise Failed("no-sdk") from None
    with http_client(connection, question.seconds) as http:
        # The account's names go to the account's provider only.
        foreign_headers: dict[str, Any] = (
            {} if connection.own else {"OpenAI-Organization": openai.Omit(), "OpenAI-Project": openai.Omit()}
        )
        yield openai.OpenAI(
            api_key=connection.key,
            base_url=connection.base_url,
            max_retries=0,
            timeout=question.seconds,
            http_client=http,
            default_headers=foreign_headers,
        )


def ask(question: Question, connection: Connection, clock: Clock) -> Answer:
    """One answer. Raises Failed."""
    from checklistbot.llm import models

    try:
        with _client(connection, question) as client:
            if connection.own:
                return _responses(client, question, connection.model or models()["providers"]["openai"]["default"])
            return _compatible(client, question, connection.model or _first_model(client), clock)
    except Exception as error:
        raise classify(error, clock) from None


def _messages(question: Question) -> list[dict[str, str]]:
    return [{"role": message.role, "content": message.text} for message in question.messages]


def _responses(client: Any, question: Question, model: str) -> Answer:
    response = client.responses.create(
        model=model,
        input=_messages(question),
        store=False,
        max_output_tokens=question.max_output_tokens,
        **({"reasoning": {"effort": question.effort}} if question.effort else {}),
        text={"format": {"type": "json_schema", "name": _SCHEMA_NAME, "schema": dict(question.schema), "strict": True}},
    )
    usage = _usage(response.usage, "input_tokens", "output_tokens")
    details = getattr(response.incomplete_details, "reason", None)
    parts = [part for item in response.output or [] for part in getattr(item, "content", None) or []]
    if any(getattr(part, "type", None) == "refusal" for part in parts):
        raise Failed("refused", usage=usage)
    if details == "content_filter":
        raise Failed("filtered", usage=usage)
    if response.status == "incomplete":
        raise Failed("truncated", usage=usage)
    if response.status == "failed":
        raise Failed("server-error", usage=usage)
    return _answer(response.output_text, response.model, usage)


def _first_model(client: Any) -> str:
    """The first model a compatible server lists; what it serves is not ours to know."""
    for model in client.models.list().data or []:
        if isinstance(model.id, str) and model.id:
            return model.id[:200]
    raise Failed("not-found")


def _formats(question: Question) -> Iterator[Mapping[str, Any]]:
    schema = dict(question.schema)
    yield {"type": "json_schema", "json_schema": {"name": _SCHEMA_NAME, "schema": schema, "strict": True}}
    yield {"type": "json_object", "schema": schema}


def _compatible(client: Any, question: Question, model: str, clock: Clock) -> Answer:
    failure = Failed("bad-request")
    for number, response_format in enumerate(_formats(question)):
        try:
            completion = client.chat.completions.create(
                model=model,
                messages=_messages(question),
                max_tokens=question.max_output_tokens,
                response_format=response_format,
                **({"reasoning_effort": question.effort} if question.effort else {}),
            )
        except Exception as error:
            again = classify(error, clock)
            if again.reason not in _SCHEMA_REFUSED:
                raise again from None
            # The first refusal is the server's own word; a second one is only about the fallback.
            failure = again if number == 0 else failure
            continue
        return _completion(completion)
    raise failure


def _completion(completion: Any) -> Answer:
    usage = _usage(completion.usage, "prompt_tokens", "completion_tokens")
    if not completion.choices:
        raise Failed("empty", usage=usage)
    choice = completion.choices[0]
    if getattr(choice.message, "refusal", None):
        raise Failed("refused", usage=usage)
    if choice.finish_reason == "content_filter":
        raise Failed("filtered", usage=usage)
    if choice.finish_reason == "length":
        raise Failed("truncated", usage=usage)
    return _answer(choice.message.content, completion.model, usage)


def _usage(usage: Any, first: str, second: str) -> tuple[int, int] | None:
    counts = (getattr(usage, first, None), getattr(usage, second, None))
    return (counts[0], counts[1]) if isinstance(counts[0], int) and isinstance(counts[1], int) else None


def _answer(text: Any, model: Any, usage: tuple[int, int] | None) -> Answer:
    if not isinstance(text, str) or not text.strip():
        raise Failed("empty", usage=usage)
    return Answer(text, model if isinstance(model, str) else None, *(usage or (None, None)))


PROVIDER = Provider(
    name="openai",
    key_name="OPENAI_API_KEY",
    base_url_name="OPENAI_BASE_URL",
    default_url="https://api.openai.com/v1",
    hosts=("api.openai.com", ".api.openai.com"),
    ask=ask,
)
