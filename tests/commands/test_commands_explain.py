"""``explain`` and the pages under docs/: every rule and advisory in both languages, and in step with the code."""

from __future__ import annotations

import sys
import unicodedata
from pathlib import Path

import pytest

from checklistbot import cli, rules
from checklistbot.knowledge.advisory import advisories

TOP = Path(__file__).resolve().parents[2]
NAMES = [*rules.registry(), *advisories()]


def columns(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in text)


@pytest.mark.parametrize("language", ["en", "ko"])
@pytest.mark.parametrize("name", NAMES)
def test_everything_is_explained(name: str, language: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["explain", name, "--lang", language]) == 0
    text = capsys.readouterr().out
    assert text.startswith(name)
    assert len(text.splitlines()) >= 5
    assert any("가" <= letter <= "힣" for letter in text) is (language == "ko")
    assert max(columns(line) for line in text.splitlines() if " " in line.strip()) <= 100


@pytest.mark.parametrize("rule", rules.registry().values(), ids=lambda rule: rule.id)
def test_every_rule_has_its_texts(rule: rules.Rule) -> None:
    module = f"checklistbot/rules/{rule.id.replace('-', '_')}.py"
    assert (TOP / module).is_file(), "a rule's file is named after it"
    for language in ("en", "ko"):
        assert rule.summary[language].endswith(".")  # type: ignore[index]
        assert rule.page[language]  # type: ignore[index]


def test_the_list_names_them_all(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["explain"]) == 0
    text = capsys.readouterr().out
    assert all(name in text for name in NAMES)


def test_a_near_miss_is_helped(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["explain", "kv-pool-below-contxt"]) == 2
    assert "did you mean kv-pool-below-context?" in capsys.readouterr().err


def test_the_pages_are_as_the_code_has_them() -> None:
    sys.path.insert(0, str(TOP / "scripts"))
    try:
        from rule_docs import differing
    finally:
        sys.path.pop(0)
    assert list(differing()) == [], "run make docs"
