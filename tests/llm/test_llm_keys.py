"""Where a key may go (operations-and-attacks 26), who is asked, and what is imported for it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checklistbot import checklist, llm
from checklistbot.config import LlmSettings
from checklistbot.llm import base
from checklistbot.llm.base import Failed, connect
from checklistbot.model import UsageError

OPENAI, ANTHROPIC = llm.registry()["openai"], llm.registry()["anthropic"]
BOTH = {"OPENAI_API_KEY": "home-openai", "ANTHROPIC_API_KEY": "home-anthropic"}


def test_the_registry_is_the_folder() -> None:
    assert list(llm.registry()) == ["anthropic", "openai"]


def test_without_a_base_url_the_providers_own_key_goes_to_its_own_host() -> None:
    connection = connect(OPENAI, LlmSettings(), None, BOTH)
    assert (connection.base_url, connection.key, connection.own) == ("https://api.openai.com/v1", "home-openai", True)
    connection = connect(ANTHROPIC, LlmSettings(), None, BOTH)
    assert (connection.base_url, connection.key, connection.own) == (
        "https://api.anthropic.com",
        "home-anthropic",
        True,
    )


@pytest.mark.parametrize("provider", [OPENAI, ANTHROPIC])
@pytest.mark.parametrize(
    "url",
    [
        "https://evil.example/v1",
        "https://api.openai.com.evil.example/v1",
        "https://api-openai.com/v1",
        "https://evil-api.openai.com.example",
        "https://xapi.openai.com.evil",
        "http://127.0.0.1:8000/v1",
        "http://[::1]:8000/v1",
        "http://localhost/v1",
    ],
)
def test_a_configured_foreign_url_never_gets_the_providers_key(provider: Any, url: str) -> None:
    connection = connect(provider, LlmSettings(base_url=url), None, BOTH)
    assert "home" not in connection.key
    assert not connection.own
    own = connect(provider, LlmSettings(base_url=url), None, {**BOTH, "CHECKLISTBOT_LLM_KEY": "theirs"})
    assert own.key == "theirs"


def test_url_and_key_that_stand_in_the_environment_together_go_together() -> None:
    environ = {"OPENAI_BASE_URL": "https://gateway.example/v1", "OPENAI_API_KEY": "gateway-key"}
    assert connect(OPENAI, LlmSettings(), None, environ).key == "gateway-key"
    assert connect(OPENAI, LlmSettings(), None, {**environ, "CHECKLISTBOT_LLM_KEY": "x"}).key == "x"
    # The configuration's URL is another one than the environment's: the key stays.
    other = connect(OPENAI, LlmSettings(base_url="https://evil.example/v1"), None, environ)
    assert other.key == base.NO_KEY
    # Anthropic's URL is not read from the environment at all.
    assert connect(ANTHROPIC, LlmSettings(), None, {"ANTHROPIC_BASE_URL": "https://evil.example", **BOTH}).own


@pytest.mark.parametrize(
    "url",
    [
        "http://gateway.example/v1",
        "http://10.0.0.7/v1",
        "http://127.0.0.1.evil.example/v1",
        "http://localhost.evil.example",
        "http://localhost@evil.example",
        "https://api.openai.com\\@evil.example",
        "https://user:pass@gateway.example",
        "https://gateway.example/?q=1",
        "https://gateway.example/#f",
        "https://gateway.example:99999",
        "ftp://gateway.example",
        "file:///etc/passwd",
        "//evil.example",
        "https://",
        "https://gate way.example",
        "https://gateway.example/\nx",
        "https://xn--\u0430pi.openai.com",
        "not a url",
    ],
)
def test_a_url_that_two_parsers_could_read_differently_is_refused(url: str) -> None:
    with pytest.raises(Failed) as failed:
        connect(OPENAI, LlmSettings(base_url=url), None, {**BOTH, "CHECKLISTBOT_LLM_KEY": "x"})
    assert failed.value.reason == "bad-url"


@given(st.text(min_size=1, max_size=60))
def test_no_text_makes_a_foreign_url_the_providers_own(text: str) -> None:
    for url in (text, f"https://{text}", f"https://{text}/v1", f"https://api.openai.com{text}"):
        if not base.foreign(url, OPENAI):
            host = url.removeprefix("https://").split("/")[0].split(":")[0].lower()
            assert host == "api.openai.com" or host.endswith(".api.openai.com")


@pytest.mark.parametrize("model", ["gpt 6", "x\ny", "", "-x", "a" * 201, "${{ x }}", "<b>"])
def test_a_model_name_is_a_name(model: str) -> None:
    if model:
        with pytest.raises(Failed) as failed:
            connect(OPENAI, LlmSettings(model=model), None, BOTH)
        assert failed.value.reason == "bad-model"


def test_auto_takes_the_key_that_is_set() -> None:
    settings = LlmSettings()
    assert llm.choose("auto", settings, {}) is None
    assert llm.choose("auto", settings, {"ANTHROPIC_API_KEY": "x"}) is ANTHROPIC
    assert llm.choose("auto", settings, BOTH) is OPENAI
    assert llm.choose("auto", LlmSettings(base_url="http://127.0.0.1:1/v1"), {}) is OPENAI
    assert llm.choose("auto", settings, {"CHECKLISTBOT_LLM_KEY": "x"}) is None
    assert llm.choose("builtin", settings, BOTH) is None


def test_no_key_is_the_built_in_checklist_and_is_only_said_where_one_was_asked_for(
    facts: Any, check: Any, time_: Any
) -> None:
    arguments: dict[str, Any] = {
        "language": "en",
        "settings": LlmSettings(),
        "environ": {},
        "deadline": time_.deadline(),
    }
    drafted, use = checklist.draft(facts, check, **arguments)
    assert (drafted.origin, use.status, use.reason) == ("builtin", "not-asked", None)
    drafted, use = checklist.draft(facts, check, provider="openai", **arguments)
    assert (drafted.origin, use.status, use.reason) == ("builtin", "failed", base.sentence("no-key", "en"))
    with pytest.raises(UsageError):
        checklist.draft(facts, check, provider="bard", **arguments)


def test_no_deployment_asks_nobody(time_: Any, check: Any) -> None:
    from checklistbot.model import Facts

    drafted, use = checklist.draft(
        Facts(),
        check,
        language="en",
        settings=LlmSettings(),
        provider="openai",
        environ=BOTH,
        deadline=time_.deadline(),
    )
    assert (drafted.items, use.status) == ((), "not-asked")


def test_every_reason_has_a_sentence_in_both_languages() -> None:
    assert set(base.SENTENCES) == set(get_args(base.Reason))
    for english, korean in base.SENTENCES.values():
        assert english.isascii()
        assert any("가" <= c <= "힣" for c in korean)


def test_the_default_models_are_in_the_locked_sdks() -> None:
    from anthropic.types.model import Model
    from openai.types.shared.chat_model import ChatModel

    data = llm.models()["providers"]
    lock = (Path(__file__).parents[2] / "requirements" / "run.txt").read_text("utf-8")
    for name, alias in (("openai", ChatModel), ("anthropic", Model)):
        known = json.dumps(str(alias))
        assert f"{name}=={data[name]['sdk']}" in lock, "run scripts/renew_llm_models.py"
        assert data[name]["default"] in data[name]["models"]
        assert all(model in known for model in data[name]["models"])


PROGRAM = """
import sys, json
from checklistbot import checklist, llm
from checklistbot.model import Facts, Check
from checklistbot.config import LlmSettings
from checklistbot.retry import Deadline
facts = Facts.from_json(json.load(open(sys.argv[1])))
llm.registry()
checklist.draft(facts, Check(), language="ko", settings=LlmSettings(), environ={}, deadline=Deadline(1))
print([name for name in ("openai", "anthropic", "pydantic", "jinja2", "httpx2", "markdown_it") if name in sys.modules])
"""


def test_the_built_in_drafter_imports_no_sdk() -> None:
    data = Path(__file__).parent.parent / "data" / "checklist-facts.json"
    done = subprocess.run([sys.executable, "-c", PROGRAM, data], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
