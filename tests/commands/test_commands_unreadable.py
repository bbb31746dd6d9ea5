"""What cannot be read is never green: broken files, empty pipes, closed folders."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from checklistbot import cli
from checklistbot.discovery import syntax

BROKEN = "kind: Deployment\nspec: [unclosed\n  image: vllm/vllm-openai:v0.11.0\n"
COMPOSE = (
    'services:\n  llm:\n    image: vllm/vllm-openai:v0.11.0\n    command: [--model, a/b, --max-model-len, "8192"]\n'
)
Caught = pytest.CaptureFixture[str]


def check(*arguments: str | Path) -> int:
    return cli.main(["check", *map(str, arguments)])


def pipe(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))


@pytest.mark.parametrize(
    ("name", "text", "place"),
    [
        ("q.yaml", BROKEN, "q.yaml:3"),
        ("d.yml", 'kind: Deployment\nspec:\n  args: ["--model", a/b\n  image: vllm/vllm-openai:v0.11.0\n', "d.yml:4"),
        ("d.yml", "# {{ no template }}\n" + BROKEN, "d.yml:4"),
        ("t.json", '{"kind": "Pod",\n "image": "vllm/vllm-openai:v0.11.0", "x": [', "t.json:2"),
        ("prose.yaml", "we run vllm serve here\n", "prose.yaml:1"),
    ],
)
def test_a_file_that_does_not_parse_is_not_green(
    tmp_path: Path, capsys: Caught, name: str, text: str, place: str
) -> None:
    (tmp_path / name).write_text(text)
    assert check(tmp_path / name) == 3
    out, err = capsys.readouterr()
    assert out.startswith("◌ NOT PROVEN")
    assert place in out
    assert place in err
    assert check(tmp_path, "--format", "json") == 0  # one of several files: unknown, not an unreadable input
    data = json.loads(capsys.readouterr().out)
    assert [f["rule"] for f in data["findings"]] == ["input-unreadable"]


@pytest.mark.parametrize(
    "text", [b'services:\n  llm:\n    command: [--max-model-len, "999999"\n', b"\xff\xfeservices: {}\n"]
)
def test_a_broken_override_counts_though_it_names_no_engine(tmp_path: Path, capsys: Caught, text: bytes) -> None:
    (tmp_path / "docker-compose.yml").write_text(COMPOSE)
    (tmp_path / "docker-compose.override.yml").write_bytes(text)
    check(tmp_path, "--format", "json")
    found = json.loads(capsys.readouterr().out)["findings"]
    assert "docker-compose.override.yml" in [f["location"]["path"] for f in found if f["rule"] == "input-unreadable"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.yaml", "{{- if .Values.on }}\nimage: {{ .Values.image }}\n{{- end }}\n"),
        ("a.yaml", "a:\n\tb: 1\n"),
        ("a.yaml", "# only a comment\n---\n"),
        ("a.yaml", "%YAML 1.2\n---\na: !Ref b\n"),
        ("a.json", '{"a": "//x", // why\n "b": [1,], /* so */ }'),
        ("a.json", '{"a": 1}\n{"a": 2}\n'),
        ("README.md", "a: [b"),
        ("run.sh", "vllm serve [a"),
        ("empty.yml", " \n"),
    ],
)
def test_what_is_no_plain_yaml_by_right_is_no_noise(name: str, text: str) -> None:
    assert syntax.broken(name, text) is None


LOG = "[2026-11-30 10:00:01 TP0] max_total_num_tokens=681280, chunked_prefill_size=8192, context_len=131072, available_gpu_mem=9.1 GB\n"


def test_a_log_in_the_place_of_a_manifest_is_not_green(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Caught
) -> None:
    (tmp_path / "boot.log").write_text(LOG, "utf-8")
    assert check(tmp_path / "boot.log") == 2
    assert "give it as --log boot.log" in capsys.readouterr().err
    pipe(monkeypatch, LOG)
    assert check("-") == 2
    assert "give it as --log -" in capsys.readouterr().err
    # In a folder it is one of many files.
    assert check(tmp_path) == 0


@pytest.mark.parametrize("command", [("check", "-"), ("facts", "-"), ("facts", "--log", "-"), ("triage", "--log", "-")])
def test_an_empty_pipe_is_a_wrong_call(
    monkeypatch: pytest.MonkeyPatch, capsys: Caught, command: tuple[str, ...]
) -> None:
    pipe(monkeypatch, "")
    assert cli.main(command) == 2
    out, err = capsys.readouterr()
    assert "set -o pipefail" in err
    assert not out


@pytest.mark.parametrize("text", [BROKEN, "Error from server\n"])
def test_a_pipe_that_holds_no_manifests_is_unread(monkeypatch: pytest.MonkeyPatch, capsys: Caught, text: str) -> None:
    pipe(monkeypatch, text)
    assert check("-") == 3
    out, err = capsys.readouterr()
    assert "✅" not in out
    assert err.count("standard input:") == 1


# --- closed folders and files; tests may run as root, to whom nothing is closed ------------------------------------------


def test_a_closed_folder_is_one_line_and_not_green(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Caught
) -> None:
    def closed(self: Path, *, follow_symlinks: bool = True) -> os.stat_result:
        if "closed" in self.parts[:-1]:
            raise PermissionError(13, "Permission denied")
        return os.stat(self, follow_symlinks=follow_symlinks)  # noqa: PTH116  (Path.stat is what is replaced)

    def no_listing(path: object) -> object:
        raise PermissionError(13, "Permission denied")

    (tmp_path / "closed").mkdir()
    monkeypatch.setattr(Path, "stat", closed)
    monkeypatch.setattr("checklistbot.discovery.tree.os.scandir", no_listing)
    assert check(tmp_path / "closed") == 3
    out, err = capsys.readouterr()
    assert "internal error" not in err
    assert "PATH: no permission to read it" in err
    assert out.startswith("◌ NOT PROVEN")


def test_a_closed_manifest_is_not_green(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Caught) -> None:
    (tmp_path / "serve.yaml").write_text(COMPOSE)
    opened = os.open

    def no_opening(path: Path, *rest: int) -> int:
        if str(path).endswith("serve.yaml"):
            raise PermissionError(13, "Permission denied")
        return opened(path, *rest)

    monkeypatch.setattr("checklistbot.discovery.tree.os.open", no_opening)
    assert check(tmp_path / "serve.yaml") == 3
    assert check(tmp_path) == 0
    out = capsys.readouterr().out
    assert "✅" not in out
    assert out.count("serve.yaml: no permission to read it") == 2


def test_git_passes_over_closed_files_and_we_say_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from checklistbot.discovery.git import Repository
    from checklistbot.discovery.tree import open_tree

    (tmp_path / "serve.yaml").write_text(COMPOSE)
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    subprocess.run(["git", "-C", tmp_path, "add", "-A"], check=True)
    finish = Repository.finish

    def complaining(self: Repository, process: object, *, accept: tuple[int, ...] = (0,), said: object = None) -> bytes:
        if isinstance(said, list):
            said.append(
                b"error: 'serve.yaml': Permission denied\nwarning: could not open directory 'ops/': Permission denied\n"
            )
        return finish(self, process, accept=accept)  # type: ignore[arg-type]

    monkeypatch.setattr(Repository, "finish", complaining)
    monkeypatch.setattr("checklistbot.discovery.tree.os.access", lambda path, mode: False)
    tree = open_tree(tmp_path)
    list(tree.candidates([b"nothing"]))
    assert {(e.path, e.reason) for e in tree.skipped} == {
        (p, "no permission to read it") for p in ("serve.yaml", "ops")
    }


def test_a_repository_without_commits_says_so(tmp_path: Path, capsys: Caught) -> None:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    assert cli.main(["review", str(tmp_path), "--base", "main", "--head", "HEAD"]) == 2
    assert "no commits yet" in capsys.readouterr().err
