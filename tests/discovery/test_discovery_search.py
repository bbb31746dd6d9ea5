"""The search of the whole tree: what it finds, and that it is not repeated for each file."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from checklistbot.discovery import discover
from checklistbot.discovery.git import Repository
from checklistbot.discovery.tree import MAX_BYTES, TOO_LARGE, open_tree


def commit(top: Path, files: dict[str, bytes]) -> Path:
    for name, data in files.items():
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_bytes(data)
    for arguments in (
        ["init", "-q"],
        ["add", "-A"],
        ["-c", "user.name=t", "-c", "user.email=t@t.invalid", "commit", "-qm", "one"],
    ):
        subprocess.run(["git", "-C", str(top), *arguments], check=True)
    return top


def test_only_files_that_hold_a_word_are_found_by_git_on_disk_and_in_a_revision(tmp_path: Path) -> None:
    commit(
        tmp_path,
        {
            "a.yaml": b"image: sglang\n",
            "b.txt": b"glang is the end of the word, mafile too\n",
            "c/llamafile.sh": b"exit\n",
            "d.bin": b"text \xff\xfe in the middle\n",
            "e.yaml": "image: vllm\n".encode("utf-16"),
        },
    )
    (tmp_path / "new.txt").write_text("a llamafile\n")
    words = [b"sglang", b"llamafile", b"vllm"]
    committed = ["a.yaml", "c/llamafile.sh", "e.yaml"]
    assert list(open_tree(tmp_path, "HEAD").candidates(words)) == committed
    assert list(open_tree(tmp_path).candidates(words)) == [*committed, "new.txt"]
    assert list(open_tree(tmp_path / "c").candidates([b"llamafile"])) == ["llamafile.sh"]


def test_a_word_behind_what_is_read_of_a_large_file_is_not_passed_over(tmp_path: Path) -> None:
    filler = b"# nothing\n" * (MAX_BYTES // 10 + 10)
    commit(tmp_path, {"hidden.yaml": filler + b"image: vllm/vllm-openai\n", "data.js": filler + b'"\\x3c"\n'})
    for tree in (open_tree(tmp_path), open_tree(tmp_path, "HEAD")):
        assert [(entry.path, entry.reason) for entry in discover(tree).skipped] == [("hidden.yaml", TOO_LARGE)]


def test_git_searches_no_oftener_however_many_files_speak_of_an_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each Python file that named an engine and started none had a search of the whole tree of its own."""
    files = {f"clients/m{n}.py": b"def serve():\n    return ['vllm', 'chat']\n" for n in range(30)}
    files["deploy/prod.env"] = b"VLLM_ATTENTION_BACKEND=FLASHINFER\nMAIN=serve\n"
    files["deploy/run.sh"] = b"#!/bin/sh\n. ./prod.env\nexec $MAIN\n"
    files["main.tf"] = b'module "m" {\n  source = "./mod"\n}\n'
    commit(tmp_path, files)
    searches = []
    start = Repository.start

    def counted(self: Repository, *arguments: str | bytes, fed: bool = False) -> subprocess.Popen[bytes]:
        searches.extend(["grep"] if arguments[0] == "grep" else [])
        return start(self, *arguments, fed=fed)

    monkeypatch.setattr(Repository, "start", counted)
    discover(open_tree(tmp_path))
    assert len(searches) <= 3


@pytest.mark.parametrize(
    "statement", ["from lib.{} import command", "from lib import other, {}", "import lib.{} as built"]
)
def test_a_launcher_is_found_through_the_module_that_holds_its_command(tmp_path: Path, statement: str) -> None:
    builder = b"def command(model):\n    return ['vllm', 'serve', model, '--max-model-len', '8192']\n"
    use = (
        "command"
        if "import command" in statement
        else "built.command"
        if "as built" in statement
        else "commands.command"
    )
    main = f"import subprocess\n{statement.format('commands')}\nsubprocess.run({use}('acme/Otter'))\n"
    commit(
        tmp_path,
        {"lib/commands.py": builder, "lib/other.py": b"x = 1\n", "lib/__init__.py": b"", "main.py": main.encode()},
    )
    found = discover(open_tree(tmp_path)).deployments
    assert [(d.model.value, d.context_length.value) for d in found] == [("acme/Otter", 8192)]
