from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from checklistbot.discovery.git import Repository
from checklistbot.discovery.tree import (
    LINK,
    MISSING,
    OUTSIDE,
    TOO_LARGE,
    Also,
    Disk,
    Revision,
    StdinManifests,
    Unreadable,
    WorkTree,
    decode,
    merge_base,
    open_tree,
    resolve,
)
from checklistbot.model import InputError, UsageError

WORDS = (b"sglang", b"vllm")


def git(top: Path, *arguments: str) -> str:
    command = [
        "git",
        "-c",
        "user.name=t",
        "-c",
        "user.email=t@t.invalid",
        "-c",
        "protocol.file.allow=always",
        *arguments,
    ]
    return subprocess.run(command, cwd=top, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    top = tmp_path / "repo"
    (top / "serve").mkdir(parents=True)
    git(top, "init", "-q", "-b", "main")
    (top / "serve" / "a.yaml").write_text("image: lmsysorg/sglang:v0.5.19\n")
    (top / "README").write_text("nothing\n")
    commit(top)
    return top


def commit(top: Path, message: str = "one") -> str:
    git(top, "add", "-A", "-f")
    git(top, "commit", "-q", "-m", message)
    return git(top, "rev-parse", "HEAD")


def both(top: Path, path: str = "") -> list[WorkTree | Revision]:
    trees = [open_tree(top / path), open_tree(top / path, "HEAD")]
    assert isinstance(trees[0], WorkTree)
    assert isinstance(trees[1], Revision)
    return trees  # type: ignore[return-value]


def test_work_tree_and_revision_find_and_read_the_same(repo: Path) -> None:
    for tree in both(repo):
        assert list(tree.paths()) == ["README", "serve/a.yaml"]
        assert list(tree.candidates(WORDS)) == ["serve/a.yaml"]
        assert tree.read("serve/a.yaml") == "image: lmsysorg/sglang:v0.5.19\n"
        assert tree.files_seen == 2


def test_paths_are_relative_to_a_subfolder_and_may_look_up(repo: Path) -> None:
    for tree in both(repo, "serve"):
        assert list(tree.paths()) == ["a.yaml"]
        assert list(tree.candidates(WORDS)) == ["a.yaml"]
        assert tree.read("../README") == "nothing\n"
        assert tree.exists("../README")
        with pytest.raises(Unreadable, match=OUTSIDE):
            tree.read("../../etc/passwd")


def test_one_file_is_a_path(repo: Path) -> None:
    for tree in both(repo, "serve/a.yaml"):
        assert list(tree.paths()) == ["a.yaml"]
        assert list(tree.candidates(WORDS)) == ["a.yaml"]
        assert tree.read("a.yaml").startswith("image")
        assert tree.read("../README") == "nothing\n"


def test_untracked_counts_unless_ignored_and_ignoring_cannot_hide_a_tracked_file(repo: Path) -> None:
    (repo / ".gitignore").write_text("serve/\n*.log\n")
    (repo / "new.sh").write_text("vllm serve m\n")
    (repo / "x.log").write_text("vllm\n")
    tree = open_tree(repo)
    assert list(tree.candidates(WORDS)) == ["new.sh", "serve/a.yaml"]
    assert not tree.exists("x.log")
    with pytest.raises(Unreadable, match=MISSING):
        tree.read("x.log")


def test_a_repository_embedded_in_the_tree_runs_nothing(repo: Path) -> None:
    """A folder that looks like a bare repository, whose config names a command, as PATH."""
    evil = repo / "serve"
    (evil / "objects" / "x").mkdir(parents=True)
    (evil / "refs" / "heads").mkdir(parents=True)
    for keep in (evil / "objects" / "x" / ".k", evil / "refs" / "heads" / ".k"):
        keep.write_text("")
    (evil / "HEAD").write_text("ref: refs/heads/main\n")
    (evil / "config").write_text(f'[core]\n\tbare = false\n\tworktree = .\n\tfsmonitor = "touch {repo}/pwned; false"\n')
    commit(repo)
    for tree in both(repo, "serve"):
        assert "a.yaml" in list(tree.candidates(WORDS))
        tree.read("a.yaml")
    resolve(evil, "HEAD")
    assert not (repo / "pwned").exists()


def test_fsmonitor_and_pager_of_the_repository_itself_do_not_run(repo: Path) -> None:
    git(repo, "config", "core.fsmonitor", f"touch {repo}/pwned; false")
    git(repo, "config", "core.pager", f"touch {repo}/pwned")
    git(repo, "config", "diff.x.textconv", f"touch {repo}/pwned; cat")
    git(repo, "config", "filter.x.smudge", f"touch {repo}/pwned; cat")
    git(repo, "config", "filter.x.clean", f"touch {repo}/pwned; cat")
    (repo / ".gitattributes").write_text("*.yaml diff=x filter=x\n")
    for tree in both(repo):
        assert list(tree.candidates(WORDS)) == ["serve/a.yaml"]
        tree.read("serve/a.yaml")
        tree.changed_after("serve/a.yaml", "README")
    assert not (repo / "pwned").exists()


@pytest.mark.parametrize(
    "revision",
    [
        "--open-files-in-pager=touch pwned",
        "--output=pwned",
        "-",
        "--",
        "",
        "HEAD\0x",
        "no-such",
        "HEAD..HEAD",
        "--all",
        "HEAD:README",
    ],
)
def test_a_revision_is_never_an_option(repo: Path, revision: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(repo)
    with pytest.raises(UsageError, match="revision"):
        open_tree(repo, revision)
    assert not (repo / "pwned").exists()


def test_a_branch_that_begins_with_a_dash_resolves(repo: Path) -> None:
    git(repo, "update-ref", "refs/heads/-x", "HEAD")
    assert resolve(repo, "-x") == git(repo, "rev-parse", "HEAD")


def test_newline_magic_and_odd_names_are_plain_names(repo: Path) -> None:
    names = [":(exclude)serve", "a\nHEAD", "-e", "ä\x7f", "*"]
    for name in names:
        (repo / name).write_text("vllm serve m\n")
    commit(repo)
    for tree in both(repo):
        assert set(tree.candidates(WORDS)) == {*names, "serve/a.yaml"}
        for name in names:
            assert tree.read(name) == "vllm serve m\n"
    for tree in both(repo, "*"):
        assert list(tree.paths()) == ["*"]
    for tree in both(repo, ":(exclude)serve"):
        assert list(tree.candidates(WORDS)) == [":(exclude)serve"]


def test_attributes_nul_and_utf16_hide_nothing(repo: Path) -> None:
    (repo / ".gitattributes").write_text("* -diff binary\n")
    (repo / "nul.sh").write_bytes(b"# \0\nvllm serve m\n")
    (repo / "utf16.sh").write_bytes("vllm serve m\n".encode("utf-16"))
    (repo / "bom.sh").write_bytes(b"\xef\xbb\xbfvllm serve m\r\n")
    (repo / "cp949.sh").write_bytes("# 모델\n".encode("cp949") + b"vllm serve m\n")
    commit(repo)
    for tree in both(repo):
        assert {"nul.sh", "utf16.sh", "bom.sh", "cp949.sh"} <= set(tree.candidates(WORDS))
        for name in ("nul.sh", "utf16.sh", "bom.sh", "cp949.sh"):
            assert "vllm serve m\n" in tree.read(name)
            assert "\r" not in tree.read(name)


def test_some_words_count_in_some_files_only(repo: Path) -> None:
    also = Also(frozenset((b"\\x",)), (".yaml",))
    large = b"y" * (6 * 1024 * 1024)
    (repo / "escaped.yaml").write_bytes(rb'image: "\x6cmsysorg"')
    (repo / "escaped.py").write_bytes(rb'WORD = "\x6c"')
    (repo / "escaped-vllm.py").write_bytes(rb'WORD = "\x6c"')
    (repo / "both.py").write_bytes(rb'WORD = "\x6c", "vllm"')
    (repo / "large-escaped.js").write_bytes(large + rb'"\x6c"')
    (repo / "large-word.js").write_bytes(large + rb'"\x6c vllm"')
    (repo / "marks-inside.bin").write_bytes(b"\x7fELF\xff\xfe\x00\xfe\xff")
    (repo / "untracked.yaml").write_bytes(b"a")
    commit(repo)
    (repo / "untracked.yaml").write_bytes(rb'image: "\x6c"')
    wanted = {"both.py", "escaped-vllm.py", "escaped.yaml", "large-word.js", "serve/a.yaml"}
    work, head = both(repo)
    assert set(work.candidates(WORDS, also)) == set(work.searching(WORDS, also)()) == wanted | {"untracked.yaml"}
    assert set(head.candidates(WORDS, also)) == wanted
    assert "escaped.yaml" not in set(work.candidates(WORDS))
    # The plain folder reads no file larger than 5 MiB.
    assert set(Disk(repo).candidates(WORDS, also)) == (wanted - {"large-word.js"}) | {"untracked.yaml"}


def test_many_words_find_what_few_find(repo: Path) -> None:
    (repo / "b.sh").write_text("a+b(c)[d]{e}|$f^g*h?.\\i\n")
    (repo / "utf16.sh").write_bytes("x\n".encode("utf-16"))
    commit(repo)
    many = [b"lmsysorg/sglang:v0", b"a+b(c)[d]{e}|$f^g*h?.\\i", *(b"no-%d-such" % n for n in range(100))]
    for tree in both(repo):
        assert list(tree.candidates(many)) == list(tree.candidates(many[:2])) == ["b.sh", "serve/a.yaml", "utf16.sh"]


def test_links_submodules_and_pointers_are_listed_not_read(repo: Path) -> None:
    (repo / "secret").symlink_to("/etc/passwd")
    (repo / "folder").symlink_to("serve")
    (repo / "big.yaml").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n# vllm\n")
    (repo / "huge.yaml").write_text("# vllm\n" + "x" * (5 * 1024 * 1024))
    inner = repo / "sub"
    inner.mkdir()
    git(inner, "init", "-q")
    (inner / "f").write_text("vllm\n")
    commit(inner)
    commit(repo)
    for tree in both(repo):
        assert "folder/a.yaml" not in list(tree.candidates(WORDS))
        reasons = {entry.path: entry.reason for entry in tree.skipped}
        assert reasons == {"secret": LINK, "folder": LINK, "sub": "submodule"}
        for path, reason in {
            "big.yaml": "LFS",
            "huge.yaml": TOO_LARGE,
            "folder/a.yaml": "not in|link",
            "secret": LINK,
        }.items():
            with pytest.raises(Unreadable, match=reason):
                tree.read(path)


def test_a_folder_replaced_by_a_link_after_listing_is_not_followed(repo: Path, tmp_path: Path) -> None:
    tree = open_tree(repo)
    list(tree.paths())
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "a.yaml").write_text("secret")
    (repo / "serve" / "a.yaml").unlink()
    (repo / "serve").rmdir()
    (repo / "serve").symlink_to(outside)
    with pytest.raises(Unreadable, match=LINK):
        tree.read("serve/a.yaml")


def test_a_fifo_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "a.sh").write_text("vllm\n")
    assert list(Disk(tmp_path).candidates(WORDS)) == ["a.sh"]
    with pytest.raises(Unreadable, match="regular"):
        Disk(tmp_path).read("pipe")


def test_a_folder_that_no_repository_tracks_is_read_from_disk(repo: Path, tmp_path: Path) -> None:
    (repo / ".gitignore").write_text("scratch/\n")
    (repo / "scratch").mkdir()
    (repo / "scratch" / "x.sh").write_text("vllm serve m\n")
    (repo / "scratch" / "link").symlink_to("x.sh")
    plain = tmp_path / "plain"
    plain.mkdir()
    (plain / "x.sh").write_text("vllm serve m\n")
    for tree in (open_tree(repo / "scratch"), open_tree(plain)):
        assert isinstance(tree, Disk)
        assert list(tree.candidates(WORDS)) == ["x.sh"]
        assert tree.read("x.sh") == "vllm serve m\n"
        with pytest.raises(Unreadable, match=OUTSIDE):
            tree.read("../repo/README")
        assert tree.changed_after("x.sh", "x.sh") is None
    with pytest.raises(UsageError, match="not inside a Git repository"):
        open_tree(plain, "HEAD")


def test_a_path_that_is_not_there_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such file"):
        open_tree(tmp_path / "none")


def test_a_path_gone_from_the_work_tree_is_read_from_the_revision(repo: Path) -> None:
    git(repo, "rm", "-q", "-r", "serve")
    git(repo, "commit", "-q", "-m", "gone")
    assert list(open_tree(repo / "serve", "HEAD~1").paths()) == ["a.yaml"]
    assert list(open_tree(repo / "serve" / "a.yaml", "HEAD~1").paths()) == ["a.yaml"]
    assert list(open_tree(repo / "serve", "HEAD").paths()) == []


def test_changed_after_compares_commits_then_the_work_tree(repo: Path) -> None:
    (repo / "prefill.log").write_text("log\n")
    commit(repo, "log")
    for tree in both(repo):
        assert tree.changed_after("serve/a.yaml", "prefill.log") is False
        assert tree.changed_after("prefill.log", "serve/a.yaml") is True
        assert tree.changed_after("nothing", "prefill.log") in (None, True)
    (repo / "serve" / "a.yaml").write_text("image: lmsysorg/sglang:v0.5.18\n")
    assert open_tree(repo).changed_after("serve/a.yaml", "prefill.log") is True
    assert open_tree(repo).changed_after("prefill.log", "serve/a.yaml") is False
    assert open_tree(repo, "HEAD").changed_after("serve/a.yaml", "prefill.log") is False


def test_merge_base(repo: Path) -> None:
    base = git(repo, "rev-parse", "HEAD")
    git(repo, "checkout", "-q", "-b", "side")
    (repo / "x").write_text("x")
    commit(repo)
    assert merge_base(repo, "main", "side") == base
    git(repo, "checkout", "-q", "--orphan", "alone")
    commit(repo)
    assert merge_base(repo, "main", "alone") is None


def test_an_empty_repository_and_a_linked_work_tree(repo: Path, tmp_path: Path) -> None:
    linked = tmp_path / "linked"
    git(repo, "worktree", "add", "-q", str(linked), "HEAD")
    assert list(open_tree(linked).candidates(WORDS)) == ["serve/a.yaml"]
    empty = tmp_path / "empty"
    empty.mkdir()
    git(empty, "init", "-q")
    assert list(open_tree(empty).candidates(WORDS)) == []
    with pytest.raises(UsageError, match="revision"):
        open_tree(empty, "HEAD")


def test_blobs_larger_than_the_limit_do_not_break_the_next_read(repo: Path) -> None:
    (repo / "large").write_bytes(b"x" * 3000)
    commit(repo)
    repository = Repository(repo)
    large, small = git(repo, "rev-parse", "HEAD:large"), git(repo, "rev-parse", "HEAD:README")
    assert repository.blob(large, 100) is None
    assert repository.blob(small, 100) == b"nothing\n"
    assert repository.blob("0" * 40, 100) is None
    with pytest.raises(ValueError, match="object id"):
        repository.blob("HEAD", 100)
    repository.close()


def test_standard_input_is_one_file() -> None:
    tree = StdinManifests(b"kind: Deployment\r\n")
    assert list(tree.candidates(WORDS)) == ["-"]
    assert tree.read("-") == "kind: Deployment\n"
    assert not tree.exists("x")
    with pytest.raises(InputError, match="standard input"):
        StdinManifests(b"\x7fELF")


@pytest.mark.parametrize("data", [b"\x7fELF\0\0", b"\x89PNG\r\n", bytes(range(32)) * 9])
def test_binary_is_not_text(data: bytes) -> None:
    with pytest.raises(Unreadable, match="binary"):
        decode(data)
