"""The pictures of comments in docs/comments/: blocked, green, from a fork, Korean, too long; light, dark, phone width.

`python scripts/pictures.py [FOLDER]` makes the comments with the command itself from variants of the example, and draws
them with scripts/picture.py (chromium). Look at them: what a picture shows, no test sees.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
EXAMPLE = TOP / "examples" / "glm-5.3-disaggregated"
COMMAND = Path(sys.executable).parent / "checklistbot"
ENVIRONMENT = {
    "PATH": os.environ["PATH"],
    "HOME": os.devnull,
    "LC_ALL": "C.UTF-8",
    "CHECKLISTBOT_NOW": "2026-11-30T12:00:00Z",
    **{f"GIT_{who}_{what}": "octo" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
    **{f"GIT_{who}_DATE": "2026-11-30T11:00:00Z" for who in ("AUTHOR", "COMMITTER")},
}
WAIVER = """waivers:
  - {rule: known-engine-bug, deployment: "*", reason: alert on transport errors is in place, expires: 2027-01-31}
"""
_MANY = 60


@dataclass(frozen=True)
class Picture:
    """A file of docs/comments: the comment it shows, and how it is looked at. ``height`` cuts it, in pixels."""

    name: str
    comment: str
    width: int = 760
    height: int = 900
    dark: bool = False


PICTURES = (
    Picture("blocked", "blocked"),
    Picture("blocked-dark", "blocked", dark=True),
    Picture("blocked-phone", "blocked", width=390, height=1000),
    Picture("green", "green"),
    Picture("green-dark", "green", dark=True),
    Picture("fork", "fork", height=700),
    Picture("korean", "korean"),
    Picture("korean-phone-dark", "korean", width=390, height=1000, dark=True),
    Picture("too-long", "too-long", height=700),
)


def git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", "-C", folder, *arguments], check=True, env=ENVIRONMENT, capture_output=True)


def change(folder: Path, path: str, *changes: tuple[str, str]) -> None:
    """Replaces words in a file; each must be there."""
    text = (folder / path).read_text("utf-8")
    for before, after in changes:
        if before not in text:
            raise SystemExit(f"scripts/pictures.py: {path} of the example no longer holds {before!r}")
        text = text.replace(before, after)
    (folder / path).write_text(text, "utf-8")


def review(folder: Path, out: Path, *arguments: str) -> str:
    """The comment of base and head, as a reader sees it."""
    call = [str(COMMAND), "review", str(folder), "--base", "base", "--head", "head", "--output", str(out), "--quiet"]
    done = subprocess.run([*call, *arguments], env=ENVIRONMENT, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        raise SystemExit(f"scripts/pictures.py: {done.stderr}")
    return (out / "comment.md").read_text("utf-8")


def example(folder: Path) -> Path:
    subprocess.run(["bash", EXAMPLE / "make-repository.sh", folder], check=True, env=ENVIRONMENT, capture_output=True)
    return folder


def anew(folder: Path) -> Path:
    """The base's files in a repository without a history, on a branch `base`."""
    git(example(folder), "checkout", "--quiet", "base")
    shutil.rmtree(folder / ".git")
    git(folder, "init", "--quiet", "--initial-branch", "base")
    return folder


def commit(folder: Path, branch: str) -> None:
    if branch != "base":
        git(folder, "checkout", "--quiet", "-b", branch)
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", branch)


ROLES = ("serve/prefill.yaml", "serve/decode.yaml")


def green(folder: Path) -> Path:
    """A fixed release, an engine of its own for each tenant, and a context that the observed pools hold."""
    anew(folder)
    change(folder, ".checklistbot.yml", ("tenancy: shared", "tenancy: dedicated"))
    with (folder / ".checklistbot.yml").open("a", encoding="utf-8") as file:
        file.write(WAIVER)
    for path in ROLES:
        change(folder, path, ("v0.5.19", "v0.5.23"))
    commit(folder, "base")
    for path in ROLES:
        change(folder, path, ('"131072"', '"262144"'))
    commit(folder, "head")
    return folder


def fork(folder: Path) -> Path:
    """A fork's change that brings its own start-up log, with a pool that would hold the context."""
    anew(folder)
    commit(folder, "base")
    for path in ROLES:
        change(folder, path, ('"131072"', '"1048576"'))
    change(folder, "ops/logs/prefill.log", ("681280", "2000000"))
    commit(folder, "head")
    return folder


def too_long(folder: Path) -> Path:
    """Sixty models in one repository."""
    anew(folder)
    commit(folder, "base")
    for path in ROLES:
        text = (folder / path).read_text("utf-8").replace('"131072"', '"1048576"')
        for n in range(_MANY):
            target = folder / f"fleet/model-{n:02}/{Path(path).name}"
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text.replace("glm-5.3", f"glm-5.3-v{n:02}"), "utf-8")
    commit(folder, "head")
    return folder


def comments(folder: Path) -> dict[str, str]:
    """Name → comment."""
    links = ("--repo", "octo/serving")
    blocked = example(folder / "blocked")
    return {
        "blocked": review(blocked, folder / "1", *links),
        "korean": review(blocked, folder / "2", "--lang", "ko", *links),
        "green": review(green(folder / "green"), folder / "3", *links),
        "fork": review(fork(folder / "fork"), folder / "4", "--provider", "builtin", *links),
        "too-long": review(too_long(folder / "long"), folder / "5", *links),
    }


def main(arguments: list[str]) -> None:
    target = Path(arguments[0]) if arguments else TOP / "docs" / "comments"
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        texts = comments(Path(scratch))
    for picture in PICTURES:
        options = [
            "--width",
            str(picture.width),
            "--height",
            str(picture.height),
            *(["--dark"] if picture.dark else []),
        ]
        command = [sys.executable, str(TOP / "scripts" / "picture.py"), str(target / f"{picture.name}.png"), *options]
        subprocess.run(command, input=texts[picture.comment], text=True, encoding="utf-8", check=True)


if __name__ == "__main__":
    main(sys.argv[1:])
