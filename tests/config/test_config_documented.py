"""docs/configuration.md: its example is valid, both languages have the same one, and no key is missing."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import pytest

from checklistbot import resources
from checklistbot.config import DECLARABLE, Config, load

TOP = Path(__file__).parents[2]
PAGES = {"en": TOP / "docs/configuration.md", "ko": TOP / "docs/ko/configuration.md"}


def example(language: str) -> str:
    found = re.search(r"```yaml\n(.*?)```", PAGES[language].read_text("utf-8"), re.DOTALL)
    assert found
    return found[1]


def loaded(language: str) -> Config:
    config = load(example(language), ".checklistbot.yml")
    reasons = tuple(dataclasses.replace(waiver, reason="") for waiver in config.waivers)
    return dataclasses.replace(config, lang="en", waivers=reasons)


@pytest.mark.parametrize("language", PAGES)
def test_the_example_is_valid_and_in_its_language(language: str) -> None:
    assert load(example(language), ".checklistbot.yml").lang == language


def test_both_languages_show_the_same_config() -> None:
    assert loaded("en") == loaded("ko")


def keys(schema: Any) -> set[str]:
    """All property names of a JSON Schema, however deep."""
    if isinstance(schema, list):
        return set().union(*map(keys, schema))
    if not isinstance(schema, dict):
        return set()
    own = set(schema.get("properties", {}))
    return own.union(*(keys(value) for value in schema.values()))


@pytest.mark.parametrize("language", PAGES)
def test_every_key_of_the_schema_is_shown(language: str) -> None:
    schema = json.loads(resources.text("schemas", "config.json"))
    declarable = set(DECLARABLE)
    shown = set(re.findall(r"\b(\w+):", example(language)))
    assert keys(schema) - declarable <= shown | {"severity"}
