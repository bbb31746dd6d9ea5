"""The built-in checklist: for exactly these deployments, in both languages, valid, and stable."""

from __future__ import annotations

import json
import re
import string
from pathlib import Path
from typing import Any

import cmarkgfm
import jsonschema
import pytest

from checklistbot import checklist, cli, resources
from checklistbot.checklist import incidents
from checklistbot.checklist.words import words
from checklistbot.model import TOPICS, Check, Checklist, Facts, not_said

SCHEMA = json.loads(resources.text("schemas", "checklist.json"))
LANGUAGES = ("en", "ko")
PREFILL, DECODE, LLAMA = "prod/glm-5.3/prefill", "prod/glm-5.3/decode", "staging/llama/unified"


def by_id(drafted: Checklist) -> dict[str, Any]:
    return {item.id: item for item in drafted.items}


@pytest.mark.parametrize("language", LANGUAGES)
def test_it_is_valid_and_survives_json(facts: Facts, check: Check, language: Any) -> None:
    drafted = checklist.builtin.draft(facts, check, language)
    data = json.loads(json.dumps(drafted.to_json()))
    jsonschema.Draft202012Validator(SCHEMA).validate(data)
    assert Checklist.from_json(data) == drafted
    assert checklist.builtin.draft(facts, check, language) == drafted, "same input, same bytes"
    assert len(by_id(drafted)) == len(drafted.items)


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_group_gets_the_five_topics_and_every_role_its_own_pool_and_version(
    facts: Facts, check: Check, language: Any
) -> None:
    found = by_id(checklist.builtin.draft(facts, check, language))
    for deployment in (PREFILL, DECODE, LLAMA):
        assert {f"pool-against-context/{deployment}", f"engine-version/{deployment}"} <= set(found)
    for anchor in (PREFILL, LLAMA):
        assert {f"{topic}/{anchor}" for topic in ("limit-length-content", "canary-leak", "isolation")} <= set(found)
    assert f"canary-leak/{DECODE}" not in found, "one request test a group"
    assert all(item.title and item.steps and item.pass_when and item.owner for item in found.values())
    assert all(item.why for item in found.values() if item.topic != "other")


def test_the_commands_of_our_own_are_taken_by_the_cli(facts: Facts, check: Check) -> None:
    # Exit 3 is a server that is not there; 2 would be an option that the reader of the checklist cannot use.
    commands = {
        command.replace('"$ROUTER_URL"', "http://127.0.0.1:9").replace('"$SERVER_URL"', "http://127.0.0.1:9")
        for item in checklist.builtin.draft(facts, check).items
        for command in item.commands
        if command.startswith("checklistbot ")
    }
    assert commands
    for command in commands:
        assert cli.main(command.split()[1:]) == 3, command


def test_both_languages_have_the_same_items(facts: Facts, check: Check) -> None:
    english, korean = (checklist.builtin.draft(facts, check, language) for language in LANGUAGES)
    for one, other in zip(english.items, korean.items, strict=True):
        same = ("id", "topic", "severity", "commands", "when", "automation", "facts_used")
        assert [getattr(one, name) for name in same] == [getattr(other, name) for name in same]
        assert len(one.steps) == len(other.steps)
        assert re.search("[가-힣]", other.title + other.pass_when)
        assert not re.search("[가-힣]", one.title + one.pass_when + "".join(one.steps))


def test_the_numbers_are_the_deployments_own(facts: Facts, check: Check) -> None:
    found = by_id(checklist.builtin.draft(facts, check))
    pool = found[f"pool-against-context/{PREFILL}"]
    text = " ".join((*pool.steps, pool.pass_when))
    for number in ("681,280", "1,048,576", "1,048,640", "367,360", "680,704"):
        assert number in text
    assert pool.automation == {
        "kind": "assert-fact",
        "fact": "kv_pool_tokens",
        "op": ">=",
        "to": 1_048_640,
        "from": "server-info",
        "role": "prefill",
    }
    assert pool.facts_used["kv_pool_tokens"] == 681_280
    limit = found[f"limit-length-content/{PREFILL}"]
    assert "681,273 · 681,274 · 681,275" in " ".join(limit.steps)
    assert "1,048,570" in " ".join(limit.steps), "the window between the two roles is named"
    assert limit.automation == {"kind": "boundary-request", "at": "first-rejected", "offsets": [-1, 0, 1]}
    version = found[f"engine-version/{PREFILL}"]
    assert version.automation == {"kind": "assert-version", "engine": "sglang", "min": "0.5.22"}
    assert (version.when, found[f"engine-version/{LLAMA}"].when) == ("before-merge", "before-deploy")


def test_an_unknown_pool_is_a_thing_to_find_out(facts: Facts, check: Check) -> None:
    pool = by_id(checklist.builtin.draft(facts, check))[f"pool-against-context/{LLAMA}"]
    assert "Not known today" in pool.steps[0]
    assert "kv_pool_tokens" not in pool.facts_used
    assert pool.automation is not None
    assert pool.automation["from"] == "metrics"


def test_nothing_known_still_gives_a_whole_checklist(facts: Facts, check: Check) -> None:
    bare = facts.deployments[2].replace(
        context_length=not_said(), engine=not_said(), engine_version=not_said(), model=not_said()
    )
    drafted = checklist.builtin.draft(Facts((bare,)), check)
    jsonschema.Draft202012Validator(SCHEMA).validate(drafted.to_json())
    assert {item.topic for item in drafted.items} == set(TOPICS)
    found = by_id(drafted)
    assert found[f"pool-against-context/{LLAMA}"].automation["to"] == "context_length"
    assert found[f"engine-version/{LLAMA}"].automation == {"kind": "manual"}


def test_isolation_is_asked_unless_the_data_is_declared_harmless(facts: Facts, judge: Any, sensitive: str) -> None:
    found = by_id(checklist.builtin.draft(facts, judge(facts, sensitive)))
    item = found[f"isolation/{PREFILL}"]
    assert item.facts_used == {"data": "sensitive", "tenancy": "shared"}
    assert f"isolation/{LLAMA}" not in found
    assert f"isolation/{LLAMA}" in by_id(checklist.builtin.draft(facts, judge(facts)))


def test_old_engines_get_the_endpoints_they_have(facts: Facts, check: Check) -> None:
    old = facts.deployments[0].replace(engine_version=facts.deployments[0].engine_version.replace(value="0.5.1"))
    pool = by_id(checklist.builtin.draft(Facts((old,)), check))[f"pool-against-context/{PREFILL}"]
    assert "get_server_info" in pool.commands[0]
    assert not any("/v1/loads" in command for command in pool.commands)


def test_hostile_names_reach_no_command_and_no_second_line(facts: Facts, check: Check) -> None:
    name = "x\n- [x] `rm -rf /` ${{ secrets.A }} \u202e<img src=x> $(id)"
    evil = facts.deployments[0].replace(group=name, id=f"prod/{name}/prefill", name=name)
    drafted = checklist.builtin.draft(Facts((evil,)), check)
    for item in drafted.items:
        assert "\n" not in item.title + item.pass_when + "".join(item.steps)
        assert not any("rm -rf" in c or "$(id)" in c or "secrets" in c for c in item.commands)
    html = cmarkgfm.github_flavored_markdown_to_html(checklist.render.markdown(drafted))
    assert html.count('type="checkbox"') == len(drafted.items)
    assert "checked" not in html
    assert not re.search(r"<(?!/?(?:h1|h2|p|ul|ol|li|strong|code|pre|input)\b)", html)
    assert "\u202e" not in html


# --- the words ---------------------------------------------------------------------------------------------------------


def _leaves(node: Any, path: str = "") -> dict[str, str]:
    if isinstance(node, dict):
        return {key: text for name, value in node.items() for key, text in _leaves(value, f"{path}.{name}").items()}
    return {path: str(node)}


def test_both_catalogues_have_the_same_keys_and_names() -> None:
    english, korean = (_leaves(words(language)._texts) for language in LANGUAGES)  # type: ignore[arg-type]
    assert set(english) == set(korean)

    def names(text: str) -> set[str]:
        return {name for _, name, _, _ in string.Formatter().parse(text) if name}

    for key in english:
        assert names(english[key]) == names(korean[key]), key


@pytest.mark.parametrize("incident", incidents.registry().values(), ids=lambda incident: incident.id)
def test_every_incident_is_whole_in_both_languages(incident: Any) -> None:
    assert Path(f"{incident.id}.yml").stem == incident.id
    texts = [incident.title, incident.story, *incident.preconditions, *incident.would_have_caught]
    texts += [lesson for _, lesson in incident.lessons]
    for text in texts:
        assert set(text) == {"en", "ko"}
        assert re.search("[가-힣]", text["ko"])
        assert not re.search("[가-힣]", text["en"])
    assert {topic for topic, _ in incident.lessons} <= set(TOPICS)
    assert set(incident.required_topics) <= {topic for topic, _ in incident.lessons}
    assert incident.sources


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_task_list_has_one_box_an_item(facts: Facts, check: Check, language: Any) -> None:
    drafted = checklist.builtin.draft(facts, check, language)
    text = checklist.render.markdown(drafted)
    assert len(re.findall(r"^- \[ \] \*\*", text, re.MULTILINE)) == len(drafted.items)
    assert text.endswith("\n")
    assert not text.endswith("\n\n")
    assert "{" not in text.replace("{max_total_num_tokens", "")


def test_an_empty_checklist_says_so() -> None:
    text = checklist.render.markdown(checklist.builtin.draft(Facts(), Check(), "en"))
    assert "No deployment was found" in text
    assert "- [ ]" not in text
