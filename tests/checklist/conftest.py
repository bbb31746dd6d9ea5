"""Facts to draft from: an incident-like pair in prod, and a vLLM server in staging whose pool nobody knows."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import date
from pathlib import Path

import pytest

from checklistbot import rules
from checklistbot.config import Config, load
from checklistbot.model import Check, Facts

DATA = Path(__file__).parent.parent / "data"
SENSITIVE = """
version: 1
deployments:
  - {match: {environment: prod}, tenancy: shared, data: sensitive}
  - {match: {environment: staging}, tenancy: shared, data: internal}
"""


@pytest.fixture(scope="session")
def facts() -> Facts:
    return Facts.from_json(json.loads((DATA / "checklist-facts.json").read_text("utf-8")))


@pytest.fixture(scope="session")
def judge() -> Callable[..., Check]:
    """``judge(facts, config text)``: the findings of the real rules."""

    def run(facts: Facts, config: str | None = None, language: str = "en") -> Check:
        settings = load(config, ".checklistbot.yml") if config else Config()
        return rules.evaluate(facts, settings, language=language, today=date(2026, 11, 30))  # type: ignore[arg-type]

    return run


@pytest.fixture(scope="session")
def check(facts: Facts, judge: Callable[..., Check]) -> Check:
    return judge(facts)


@pytest.fixture(scope="session")
def sensitive() -> str:
    return SENSITIVE
