"""A log that shows another context than the state it was taken on declares is a finding, wherever the observation comes from."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from memory_tree import MemoryTree

from checklistbot import rules
from checklistbot.config import Config
from checklistbot.facts import Inputs, gather
from checklistbot.model import Candidate, Deployment, Fact, Facts, Finding, Source

SAID = Source("observed", "ops/prefill.log", 12)


def deployment(
    declared: int, observed: int | None, *, engine: str = "sglang", id_: str = "prod/otter/unified"
) -> Deployment:
    others = (Candidate(observed, SAID),) if observed is not None else ()
    return Deployment(
        id=id_,
        name="otter",
        environment="prod",
        group="otter",
        file="a.yaml",
        line=1,
        engine=Fact(engine, Source("declared", "a.yaml", 1)),
        context_length=Fact(declared, Source("declared", "a.yaml", 7), others=others),
    )


def findings(head: Deployment, base: Deployment | None = None, **options: Any) -> list[Finding]:
    before = Facts((base,)) if base is not None else None
    check = rules.evaluate(Facts((head,)), Config(), base=before, today=date(2026, 12, 1), **options)
    return [found for found in check.findings if found.rule == "observation-contradicts"]


def test_without_a_base_it_is_a_note() -> None:
    (found,) = findings(deployment(262144, 131072))
    assert found.verdict == "note"
    assert "131,072" in found.title
    assert "ops/prefill.log:12" in found.title
    assert found.location is not None
    assert (found.location.path, found.location.line) == ("a.yaml", 7)


def test_a_changed_context_is_no_contradiction() -> None:
    assert findings(deployment(262144, 131072), deployment(131072, None)) == []


@pytest.mark.parametrize("language", ["en", "ko"])
def test_a_log_that_never_fitted_the_base_warns(language: Any) -> None:
    (found,) = findings(deployment(262144, 131072), deployment(262144, 131072), language=language)
    assert found.verdict == "warn"
    assert found.status == "same"


def test_an_observation_that_was_named_for_the_head_alone_is_held_against_the_base_too() -> None:
    (found,) = findings(deployment(262144, 131072), deployment(262144, None))
    assert (found.verdict, found.status) == ("warn", "new")
    assert findings(deployment(262144, 131072), deployment(131072, None)) == []


def test_the_facts_of_another_run_are_an_observation_like_any(tmp_path: Path) -> None:
    server = deployment(131072, None).replace(
        context_length=Fact(131072, SAID), engine=Fact("sglang", SAID), model=Fact("m", SAID)
    )
    (tmp_path / "seen.json").write_text(json.dumps(Facts((server,)).to_json()))
    tree: Any = MemoryTree(
        {"compose.yaml": "services:\n  a:\n    image: lmsysorg/sglang:v0.5.22\n    command: sglang serve --model-path m "
         "--served-model-name otter --context-length 262144\n"}
    )  # fmt: skip
    facts = gather(tree, Config(), Inputs(observed=(str(tmp_path / "seen.json"),)))
    check = rules.evaluate(facts, Config(), today=date(2026, 12, 1))
    assert [found.verdict for found in check.findings if found.rule == "observation-contradicts"] == ["note"]


def test_base_and_head_are_paired_by_name() -> None:
    base = deployment(131072, None, id_="prod/heron/unified")
    assert findings(deployment(262144, 131072), base, pairs={"prod/heron/unified": "prod/otter/unified"}) == []


@pytest.mark.parametrize(
    ("declared", "observed", "engine"),
    [(65536, 65536, "sglang"), (65536, None, "vllm"), (2000, 2048, "llama.cpp"), (2000, 2048, "ollama")],
)
def test_what_agrees_is_silent(declared: int, observed: int | None, engine: str) -> None:
    assert findings(deployment(declared, observed, engine=engine)) == []


def test_a_cut_slot_of_llama_cpp_is_not_rounding() -> None:
    assert findings(deployment(8192, 2048, engine="llama.cpp"))
