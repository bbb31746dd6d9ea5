"""Prompt → LLM → validated checklist; the built-in drafter; pasted answers. No SDK is imported unless an LLM is asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from checklistbot.checklist import builtin, render
from checklistbot.checklist.words import Language
from checklistbot.model import Check, Checklist, Facts, LlmUse

if TYPE_CHECKING:
    from checklistbot.checklist.cache import Kept, Store
    from checklistbot.checklist.own import Own
    from checklistbot.checklist.validate import Invalid
    from checklistbot.config import LlmSettings
    from checklistbot.llm.base import Answer, Message, Provider
    from checklistbot.retry import Deadline

__all__ = ["builtin", "draft", "from_response", "render"]


def draft(
    facts: Facts,
    check: Check,
    *,
    language: Language,
    settings: LlmSettings,
    provider: str = "auto",
    model: str | None = None,
    environ: Mapping[str, str],
    deadline: Deadline,
    own: Own | None = None,
    store: Store | None = None,
) -> tuple[Checklist, LlmUse]:
    """The checklist for these deployments, and what the LLM cost.

    One question for all deployments, repaired at most once. Without a key, and after any failure, it is the built-in checklist;
    ``LlmUse.reason`` then says why, in our own words. ``own`` holds the user's own template and incidents; ``store`` answers of earlier runs (``cache``; None: each
    run asks). Raises UsageError
    for a provider that nobody knows or a template that is wrong; never because of an answer.
    """
    if provider == "builtin" or not facts.deployments:
        return builtin.draft(facts, check, language), LlmUse()
    from checklistbot import llm

    llm.base.known_provider(provider)
    chosen = llm.choose(provider, settings, environ)
    if chosen is None:
        return builtin.draft(facts, check, language), LlmUse()
    return _Conversation(chosen, settings, language, deadline, store).draft(facts, check, model, environ, own)


class _Conversation:
    """One question, and at most one more that sends the errors of the first answer back."""

    def __init__(
        self, provider: Provider, settings: LlmSettings, language: Language, deadline: Deadline, store: Store | None
    ) -> None:
        self._provider = provider
        self._settings = settings
        self._language: Language = language
        self._deadline = deadline
        self._store = store
        self._use = LlmUse(provider=provider.name)

    def draft(
        self, facts: Facts, check: Check, model: str | None, environ: Mapping[str, str], own: Own | None
    ) -> tuple[Checklist, LlmUse]:
        from checklistbot.checklist import assemble, cache, prompt
        from checklistbot.checklist.validate import Invalid, drafts
        from checklistbot.checklist.vocabulary import wire_schema
        from checklistbot.llm.base import Failed, Message, connect, sentence

        text = prompt.render(facts, check, language=self._language, own=own)
        try:
            self._connection = connect(self._provider, self._settings, model, environ)
            key = cache.key(text, wire_schema(), self._model_id())
            kept = self._store.get(key) if self._store else None
            if kept is not None:
                return self._kept(kept, facts, check)
            messages: tuple[Message, ...] = (Message("user", text),)
            answer = self._ask(messages)
            try:
                found, status = drafts(answer.text), "ok"
            except Invalid as error:
                answer = self._ask((*messages, *_repair(answer, error)))
                found, status = drafts(answer.text), "repaired"
            if self._store:
                self._store.put(key, answer)
        except (Failed, Invalid) as failure:
            if isinstance(failure, Failed) and failure.usage:
                self._count(*failure.usage)
            reason = sentence(failure.reason, self._language)  # type: ignore[arg-type]
            return builtin.draft(facts, check, self._language), replace(self._priced(), status="failed", reason=reason)
        use = replace(self._priced(), status=status)  # type: ignore[arg-type]
        drafted = assemble.assemble(found, facts, check, self._language, origin=self._provider.name, model=use.model)
        return drafted, use

    def _model_id(self) -> str:
        """What the key of an answer says about who gave it: the model, and the server where it is not the provider's own."""
        from checklistbot.llm import models

        connection, name = self._connection, self._provider.name
        model = connection.model or (models()["providers"][name]["default"] if connection.own else "its first")
        return f"{name}/{model}" + ("" if connection.own else f" at {connection.base_url}")

    def _kept(self, kept: Kept, facts: Facts, check: Check) -> tuple[Checklist, LlmUse]:
        """An answer of an earlier run: checked again, and this run paid nothing for it."""
        from checklistbot import encode
        from checklistbot.checklist import assemble

        model = encode.Untrusted(encode.clean(kept.model, limit=100)) if kept.model else None
        use = replace(self._use, status="ok", model=model, input_tokens=0, output_tokens=0)
        drafted = assemble.assemble(
            kept.drafts, facts, check, self._language, origin=self._provider.name, model=use.model
        )
        return drafted, use

    def _ask(self, messages: tuple[Message, ...]) -> Answer:
        from checklistbot import encode, retry
        from checklistbot.checklist.vocabulary import wire_schema
        from checklistbot.llm.base import MAX_ANSWER_BYTES, Failed, Question, again, seconds_left

        schema = wire_schema()
        clock = self._deadline.clock
        if not self._affordable(messages):
            raise Failed("budget")

        def action() -> Answer:
            settings = self._settings
            seconds = seconds_left(self._deadline, settings)
            question = Question(messages, schema, settings.max_output_tokens, seconds, settings.effort)
            return self._provider.ask(question, self._connection, clock)

        try:
            answer = retry.call(action, again, deadline=self._deadline)
        except retry.GaveUp as gave_up:
            raise (gave_up.last if isinstance(gave_up.last, Failed) else gave_up) from None
        named = answer.model or self._connection.model
        self._use = replace(self._use, model=encode.Untrusted(encode.clean(named, limit=100)) if named else None)
        if answer.input_tokens is not None and answer.output_tokens is not None:
            self._count(answer.input_tokens, answer.output_tokens)
        if len(answer.text.encode("utf-8", "surrogatepass")) > MAX_ANSWER_BYTES:
            raise Failed("too-large")
        return answer

    def _affordable(self, messages: tuple[Message, ...]) -> bool:
        """True if the question and the longest answer fit into what is left of the run's budget."""
        from checklistbot.checklist import prompt

        budget = self._settings.budget_tokens
        used = (self._use.input_tokens or 0) + (self._use.output_tokens or 0)
        asked = sum(prompt.estimate_tokens(message.text) for message in messages)
        return budget is None or used + asked + self._settings.max_output_tokens <= budget

    def _priced(self) -> LlmUse:
        price, use = self._settings.price, self._use
        if price is None or use.input_tokens is None or use.output_tokens is None:
            return use
        return replace(use, cost=f"{price.of(use.input_tokens, use.output_tokens):.4f} {price.currency}")

    def _count(self, read: int, written: int) -> None:
        """Tokens of both questions together."""
        self._use = replace(
            self._use,
            input_tokens=(self._use.input_tokens or 0) + read,
            output_tokens=(self._use.output_tokens or 0) + written,
        )


def _repair(answer: Answer, error: Invalid) -> tuple[Message, ...]:
    from checklistbot.llm.base import Message

    listed = "\n".join(f"- {line}" for line in error.errors)
    text = f"This is not the JSON object that was asked for:\n{listed}\nAnswer again with the whole corrected JSON object and nothing else."
    return (Message("assistant", answer.text), Message("user", text))


def from_response(text: str, facts: Facts, check: Check, *, language: Language) -> tuple[Checklist, LlmUse]:
    """The checklist of an answer that somebody pasted: JSON, fenced JSON or Markdown.

    A refusal, a cut or an empty answer gives the built-in checklist and ``LlmUse(status="failed")`` with the reason; of a cut answer
    what arrived is kept and completed.
    """
    from checklistbot.checklist import answer, assemble
    from checklistbot.llm.base import sentence

    parsed = answer.parse(text)
    if parsed.kind == "ok" or (parsed.kind == "truncated" and parsed.drafts):
        drafted = assemble.assemble(parsed.drafts, facts, check, language, origin="response", model=None)
        if parsed.kind == "ok":
            return drafted, LlmUse("ok", "response")
        return drafted, LlmUse("failed", "response", reason=sentence("truncated", language))
    return builtin.draft(facts, check, language), LlmUse("failed", "response", reason=sentence(parsed.reason, language))
