"""``checklistbot demo``: goes as told, in both languages, without a key."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("language", "passes", "fails", "whose"),
    [("en", "PASS", "FAIL", "'s canary came back"), ("ko", "통과", "실패", "카나리")],
)
def test_the_incident_is_replayed(language: str, passes: str, fails: str, whose: str) -> None:
    command = [sys.executable, "-m", "checklistbot", "demo", "--scale", "64", "--lang", language]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    acts = done.stdout.split("─" * 78)
    assert len(acts) == 4
    assert "1:64" in acts[0]
    assert passes in acts[1]
    assert fails in acts[2]
    assert whose in acts[2]
    assert "FAIL_LEAK" in acts[2]
    assert passes in acts[3]
    assert fails not in acts[3]
    assert "\x1b" not in done.stdout


def test_the_sizes_are_the_incidents() -> None:
    from checklistbot.commands.demo import sizes

    broken, fixed = sizes(1)
    assert (broken.context, broken.prefill_pool, broken.prefill_limit) == (1_048_576, 681_280, 681_274)
    assert (broken.faults, fixed.faults) == (("stub-handoff",), ())
