"""``--observed FILE`` takes any file: it is read, or refused in one line; what is read breaks nothing behind it."""

from __future__ import annotations

import copy
import json
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from deployment_factory import pair
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from checklistbot import rules
from checklistbot.config import Config
from checklistbot.discovery.tree import open_tree
from checklistbot.facts import Inputs, gather
from checklistbot.model import InputError, UsageError, observed
from checklistbot.observation.facts_file import read_facts_file
from checklistbot.report import facts_text, terminal

SOURCE: dict[str, Any] = pair(pool=681_280, page_size=observed(64, "ops/x.log", 3)).to_json()
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
ANY = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
)


def places(node: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    entries = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    return [at, *(place for key, value in entries for place in places(value, (*at, key)))]


PLACES = [place for place in places(SOURCE) if place]


def with_value(place: tuple[Any, ...], value: Any) -> Any:
    """The valid file with one value replaced."""
    whole = copy.deepcopy(SOURCE)
    node = whole
    for key in place[:-1]:
        node = node[key]
    node[place[-1]] = value
    return whole


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("observed")
    (made / "run.sh").write_text("python -m sglang.launch_server --model-path zai-org/GLM-5.3 --context-length 8192\n")
    return made


def taken(folder: Path, data: Any) -> None:
    path = folder / "observed.json"
    path.write_text(json.dumps(data), "utf-8")
    try:
        read_facts_file(str(path))
    except (InputError, UsageError) as error:
        assert "observed.json" in str(error)
        assert "\n" not in str(error)
        return
    for tree in (None, open_tree(folder)):
        found = gather(tree, Config(), Inputs(observed=(str(path),)))
        check = rules.evaluate(found, Config(), today=date(2026, 11, 30))
        terminal.render_check(check, found, language="en")
        facts_text.render_facts(found, language="en")
        json.dumps(found.to_json(), allow_nan=False)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=ANY)
def test_any_json_is_read_or_refused(folder: Path, data: Any) -> None:
    taken(folder, data)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(place=st.sampled_from(PLACES), value=ANY)
def test_a_file_with_one_wrong_value_is_read_or_refused(folder: Path, place: tuple[Any, ...], value: Any) -> None:
    taken(folder, with_value(place, value))
