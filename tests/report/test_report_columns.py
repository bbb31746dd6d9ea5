"""One width for all commands: the terminal's, at most 100 elsewhere, Korean letters two cells wide."""

from __future__ import annotations

from pathlib import Path

import pytest

from checklistbot import cli
from checklistbot.report.columns import cells, columns

BOOT = (
    "[2026-11-20 10:00:00] server_args=ServerArgs(model_path='zai-org/GLM-5.3-FP8', page_size=64)\n"
    "[2026-11-20 10:00:00 TP0] max_total_num_tokens=681280, chunked_prefill_size=8192, context_len=131072\n"
)


@pytest.mark.parametrize(("said", "wide"), [("80", 80), ("300", 100), ("", 100), ("x", 100), ("3", 40)])
def test_columns_decide_and_100_is_the_most_without_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], said: str, wide: int
) -> None:
    monkeypatch.setenv("COLUMNS", said)
    assert columns() == wide


@pytest.mark.parametrize("language", ["en", "ko"])
@pytest.mark.parametrize(
    "command", [["explain"], ["explain", "isolation"], ["facts", "--log"], ["check", "--log"], ["triage", "--log"]]
)
def test_no_line_is_wider_than_the_terminal(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    command: list[str],
    language: str,
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(tmp_path)
    Path("boot.log").write_text(BOOT)
    cli.main([*command, *(["boot.log"] if command[-1] == "--log" else []), "--lang", language])
    assert max(map(cells, capsys.readouterr().out.splitlines())) <= 80


def test_help_keeps_to_the_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert max(map(len, cli.top_help().splitlines())) <= 80


def test_a_refused_start_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "boot.log"
    log.write_text(
        BOOT
        + "[2026-11-20 10:00:05 TP0] RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.\n"
    )
    cli.main(["facts", "--log", str(log)])
    assert "the server did not start" in " ".join(capsys.readouterr().out.split())


def test_an_unread_log_is_not_no_deployment_in_no_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["facts", "--log", "nosuch.log"]) == 3
    assert "not everything could be read" in capsys.readouterr().out


def test_a_day_that_does_not_exist_is_named_with_its_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "version: 1\nwaivers:\n  - {rule: isolation, reason: x,\n     expires: 2027-13-01}\n"
    (tmp_path / ".checklistbot.yml").write_text(text)
    assert cli.main(["check", str(tmp_path)]) == 2
    err = capsys.readouterr().err
    assert ".checklistbot.yml:4:" in err
    assert "expires" in err
