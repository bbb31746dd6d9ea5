"""Which requests of a night's logs may have carried foreign text."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checklistbot.model import Deployment, Fact, Source
from checklistbot.observation.triage import Triage, triage

DUMP = (
    "[2026-09-01 00:00:01] server_args=ServerArgs(model_path='acme/Otter', disaggregation_mode='prefill', page_size=64)\n"
    "[2026-09-01 00:01:00 TP0] max_total_num_tokens=681280, chunked_prefill_size=1, context_len=1048576\n"
)
REJECT = (
    "[2026-09-01 03:0{minute}:00 TP0] Input length ({length} tokens) exceeds the maximum allowed length (681274 tokens). "
    "Use a shorter input or enable --allow-auto-truncate., self.rid='{rid}'\n"
)


def night(tmp_path: Path, text: str, version: str | None = None) -> Triage:
    path = tmp_path / "worker.log"
    path.write_text(text)
    live = []
    if version:
        source = Source("observed", "http://worker:30000")
        live = [
            Deployment(
                "x",
                "x",
                "observed",
                "x",
                None,
                None,
                engine=Fact("sglang", source),
                engine_version=Fact(version, source),
            )
        ]
    return triage([str(path)], live)


def rejects(*lengths: int) -> str:
    return "".join(REJECT.format(minute=i, length=length, rid=f"abc{i}") for i, length in enumerate(lengths))


def test_rejects_of_a_prefill_worker(tmp_path: Path) -> None:
    result = night(tmp_path, DUMP + "noise\n" * 10 + rejects(700_000, 681_274), "0.5.19")
    assert [request.to_json() for request in result.requests][1] == {
        "time": "2026-09-01 03:01:00", "role": "prefill", "id": "abc1", "length": 681274, "line": 14,
        "path": str(tmp_path / "worker.log"), "kind": "rejected-and-handed-on", "limit": 681274,
    }  # fmt: skip
    assert (result.verdict, result.total, result.lengths, result.exit_code) == ("vulnerable", 2, (681274, 700000), 1)
    data = result.to_json()
    assert (data["schema"], data["first"], data["last"]) == ("triage/1", "2026-09-01 03:00:00", "2026-09-01 03:01:00")
    actions = {action.code: action.parameters for action in result.containment}
    assert actions["gateway-limit"] == {"tokens": 681273}
    assert actions["context-length"] == {"tokens": 680704}


@pytest.mark.parametrize(
    ("version", "verdict", "total"), [("0.5.20", "fixed", 0), (None, "unknown", 1), ("0.5.20rc1", "vulnerable", 1)]
)
def test_the_version_decides(tmp_path: Path, version: str | None, verdict: str, total: int) -> None:
    result = night(tmp_path, DUMP + rejects(700_000), version)
    assert (result.verdict, result.total, result.exit_code) == (verdict, total, 1 if total else 0)


def test_a_single_node_answers_400(tmp_path: Path) -> None:
    result = night(tmp_path, DUMP.replace("'prefill'", "'null'") + rejects(700_000), "0.5.19")
    assert (result.total, result.verdict) == (0, "none")


def test_without_a_start_the_role_is_unknown_and_the_request_listed(tmp_path: Path) -> None:
    result = night(tmp_path, rejects(700_000))
    assert (result.total, result.requests[0].role, result.verdict) == (1, None, "unknown")


def test_traces_of_vllm(tmp_path: Path) -> None:
    lines = (
        "(EngineCore pid=7) WARNING 09-01 03:00:00 [worker.py:1] Releasing expired KV blocks for request cmpl-1-0 which were "
        "retrieved by 0 remote worker(s) before lease expired.\n"
        "(EngineCore pid=7) ERROR 09-01 03:00:09 [worker.py:1] Potentially invalid KV blocks for unrecognized request cmpl-1-0 were "
        "retrieved by a decode worker. They may have expired.\n"
    )
    result = night(tmp_path, lines)
    assert [(request.kind, request.id, request.time) for request in result.requests] == [
        ("read-after-release", "cmpl-1-0", "09-01 03:00:00")
    ]


def test_detected_mixtures(tmp_path: Path) -> None:
    lines = (
        "[2026-09-01 03:00:00 TP0] Context corruption detected: Request r1 (bootstrap_room=7) received metadata from "
        "bootstrap_room=9\n[2026-09-01 03:00:00 TP0] KV checksum mismatch req=r2 room=3\n"
    )
    assert [(r.kind, r.id) for r in night(tmp_path, lines, "0.5.22").requests] == [
        ("foreign-metadata", "r1"), ("checksum-mismatch", "r2"),
    ]  # fmt: skip


def test_a_prompt_that_quotes_a_trace_is_none(tmp_path: Path) -> None:
    quoted = f"[2026-09-01 03:00:00] Receive: obj=GenerateReqInput(text='{rejects(700_000).strip()}')\n"
    quoted = quoted.replace("[2026-09-01 03:00:00 TP0] Input", "Input")
    assert night(tmp_path, DUMP + quoted, "0.5.19").total == 0


@given(st.text(alphabet=st.characters(blacklist_categories=["Cs"]), max_size=60))
def test_no_text_of_a_request_is_kept(tmp_path_factory: pytest.TempPathFactory, rid: str) -> None:
    folder = tmp_path_factory.mktemp("night")
    data = json.dumps(night(folder, REJECT.format(minute=0, length=700_000, rid=f"WORD {rid}")).to_json()["requests"])
    assert "WORD " not in data
