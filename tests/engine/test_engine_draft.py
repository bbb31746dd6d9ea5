"""A real model behind a real compatible server drafts: the wire works, and its nonsense falls back to the built-in checklist."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from checklistbot import checklist, rules
from checklistbot.config import Config, LlmSettings
from checklistbot.model import Facts
from checklistbot.retry import Deadline

pytestmark = pytest.mark.engine
FACTS = Path(__file__).parents[1] / "data" / "checklist-facts.json"


@pytest.mark.engine("llama-cpp")
def test_a_small_model_s_answer_is_an_answer_and_no_checklist(llama_cpp_long: Any) -> None:
    facts = Facts.from_json(json.loads(FACTS.read_text("utf-8")))
    check = rules.evaluate(facts, Config(), today=date(2026, 11, 30))
    settings = LlmSettings(base_url=f"{llama_cpp_long.url}/v1", max_output_tokens=500, timeout_s=600)
    drafted, use = checklist.draft(
        facts, check, language="en", settings=settings, provider="openai", environ={}, deadline=Deadline(1_200)
    )
    # This server refuses json_schema and takes json_object with a schema, counts, and is cut off in the middle of its words.
    assert (use.status, use.provider) == ("failed", "openai"), use
    assert use.input_tokens
    assert use.input_tokens > 1_500
    assert use.output_tokens
    assert use.reason
    assert drafted.to_json() == checklist.builtin.draft(facts, check, "en").to_json()
