"""The program as a process: help, errors in one line, exit codes, output that survives any terminal."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from checklistbot import cli

TOP = Path(__file__).parents[2]
EXAMPLE = TOP / "examples" / "glm-5.3-disaggregated"


def run(
    *arguments: str | Path, cwd: Path | None = None, stdin: bytes = b"", **environment: str
) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "checklistbot", *map(str, arguments)],
        cwd=cwd or Path("/"),
        input=stdin,
        capture_output=True,
        env={**os.environ, **environment},
        check=False,
        timeout=60,
    )
    assert b"Traceback" not in done.stderr
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    subprocess.run(["bash", EXAMPLE / "make-repository.sh", tmp_path / "repo"], check=True)
    return tmp_path / "repo"


def test_the_table_of_commands_is_the_folder() -> None:
    folder = {p.stem for p in (TOP / "checklistbot" / "commands").glob("[!_]*.py")}
    assert folder == {*cli.COMMANDS, *cli.HIDDEN}
    for name, line in cli.COMMANDS.items():
        command = importlib.import_module(f"checklistbot.commands.{name}").command
        assert command.short_help == line
        assert command.name == name


@pytest.mark.parametrize("name", [*cli.COMMANDS])
def test_every_command_has_help_with_an_example(name: str) -> None:
    done = run(name, "--help")
    assert done.returncode == 0
    assert f"checklistbot {name}" in done.stdout.split("Example:")[1]
    for option in ("--config", "--lang", "--color", "--quiet", "--verbose"):
        assert option in done.stdout


def test_version_and_help() -> None:
    assert run("--version").stdout.startswith("checklistbot ")
    assert "review" in run("--help").stdout
    assert run().returncode == 2 or "Usage" in run().stdout


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["chekc"], 2, "did you mean 'check'?"),
        (["check", "/no/such/place"], 2, "no such file or folder"),
        (["check", "--fail-on", "maybe"], 2, "--fail-on"),
        (["explain", "kv-pool-unknwn"], 2, "did you mean kv-pool-unknown?"),
        (["schema", "nothing"], 2, "there are:"),
        (["review", "."], 2, "--base"),
        (["review", ".", "--base", "main", "--publish"], 2, "--repo"),
        (["check", ".", "--base", "main"], 2, "not inside a Git repository"),
        (["check", ".", "--config", "/no/config.yml"], 2, "/no/config.yml: cannot be read"),
    ],
)
def test_a_wrong_call_is_one_line_on_stderr(arguments: list[str], code: int, says: str, tmp_path: Path) -> None:
    done = run(*arguments, cwd=tmp_path)
    assert done.returncode == code
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert says in done.stderr


def test_a_named_input_that_cannot_be_read_ends_with_3_and_keeps_what_was_found(repository: Path) -> None:
    done = run("facts", repository, "--log", "/no/such.log", "--format", "json")
    assert done.returncode == 3
    assert len(json.loads(done.stdout)["deployments"]) == 2
    assert "checklistbot: /no/such.log" in done.stderr


def test_an_error_line_cannot_carry_a_terminal_sequence(tmp_path: Path) -> None:
    done = run("check", tmp_path / "\x1b[31mred\u202e")
    assert done.returncode == 2
    assert "\x1b" not in done.stderr
    assert "\u202e" not in done.stderr


def test_exit_codes_of_check(repository: Path) -> None:
    assert run("check", repository, "--rev", "base").returncode == 1  # the debt is there, and without a base all is new
    # Debt of a leak does not fail a change that leaves it alone, for 30 days.
    for day, code in (("2026-10-01", 0), ("2026-11-30", 1)):
        again = run("check", repository, "--rev", "base", "--base", "base", CHECKLISTBOT_NOW=day)
        assert again.returncode == code
    assert run("check", repository, "--rev", "head", "--base", "base").returncode == 1
    assert run("check", repository, "--rev", "head", "--base", "base", "--fail-on", "never").returncode == 0


def test_nothing_deployed_is_a_pass_and_one_line(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hello")
    done = run("check", tmp_path)
    assert done.returncode == 0
    assert "1 file" in done.stdout


def test_manifests_on_standard_input(repository: Path) -> None:
    manifests = b"---\n".join((EXAMPLE / f"head/serve/{role}.yaml").read_bytes() for role in ("prefill", "decode"))
    done = run("facts", "-", "--format", "json", stdin=manifests)
    assert done.returncode == 0
    facts = json.loads(done.stdout)
    assert {d["id"] for d in facts["deployments"]} == {"default/glm-5.3/prefill", "default/glm-5.3/decode"}


def test_same_input_same_bytes(repository: Path) -> None:
    one = run("facts", repository, "--format", "json", PYTHONHASHSEED="1")
    two = run("facts", repository, "--format", "json", PYTHONHASHSEED="2", CHECKLISTBOT_NOW="2030-01-01")
    assert one.stdout == two.stdout


def test_output_is_utf8_whatever_the_locale(repository: Path) -> None:
    done = run("check", repository, "--lang", "ko", LC_ALL="C", PYTHONUTF8="0", PYTHONIOENCODING="ascii")
    assert "prefill" in done.stdout or "KV 풀" in done.stdout


def test_a_reader_that_leaves_is_no_error(repository: Path) -> None:
    done = subprocess.run(
        [
            "bash",
            "-c",
            f"'{sys.executable}' -m checklistbot facts '{repository}' --format json | head -1; exit ${{PIPESTATUS[0]}}",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_output_is_not_written_through_a_link(tmp_path: Path, repository: Path) -> None:
    (tmp_path / "secret").write_text("keep")
    (tmp_path / "out.json").symlink_to(tmp_path / "secret")
    done = run("facts", repository, "--format", "json", "--output", tmp_path / "out.json")
    assert done.returncode == 2
    assert (tmp_path / "secret").read_text() == "keep"


@pytest.mark.parametrize("command", [["facts"], ["check"], ["prompt"], ["draft", "--provider", "builtin"]])
def test_no_sdk_is_imported_by_a_command_that_does_not_call_it(command: list[str], repository: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "checklistbot", *command, repository],
        capture_output=True,
        text=True,
        check=False,
    )
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert not imported & {"openai", "anthropic", "github", "httpx2"}
    if command[0] in ("facts", "check"):
        assert "pydantic" not in imported


def test_the_clock_is_an_input(repository: Path) -> None:
    config = (repository / ".checklistbot.yml").read_text()
    waiver = "waivers: [{rule: isolation, reason: one tenant until the split, expires: 2026-12-31}]\n"
    (repository / ".checklistbot.yml").write_text(config + waiver)
    before = json.loads(run("check", repository, "--format", "json", CHECKLISTBOT_NOW="2026-12-31").stdout)
    after = json.loads(run("check", repository, "--format", "json", CHECKLISTBOT_NOW="2027-01-01").stdout)
    waived = [[f["waived"] is not None for f in c["findings"] if f["rule"] == "isolation"] for c in (before, after)]
    assert waived == [[True], [False]]


@pytest.mark.parametrize("name", ["facts", "check", "report", "checklist"])
def test_schemas_are_printed(name: str) -> None:
    assert json.loads(run("schema", name).stdout)["$schema"].endswith("2020-12/schema")


def test_explain_works_offline_in_both_languages() -> None:
    assert "KV pool" in run("explain", "kv-pool-below-context").stdout
    assert "KV 풀" in run("explain", "kv-pool-below-context", "--lang", "ko").stdout
    assert "0.5.22" in run("explain", "sglang-pd-rejected-prefill-handoff").stdout


def test_a_broken_config_stops_with_its_line(repository: Path) -> None:
    (repository / ".checklistbot.yml").write_text("version: 1\nfail_no: block\n")
    done = run("check", repository)
    assert done.returncode == 2
    assert done.stderr == "checklistbot: .checklistbot.yml:2: unknown key 'fail_no'; did you mean 'fail_on'?\n"
