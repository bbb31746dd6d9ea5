"""`make docs`: fills the output blocks of README.md with what the commands really print. `--check` only compares.

A block stands between ``<!-- output: NAME -->`` and ``<!-- end -->``. Long outputs are cut after their first paragraphs,
and say so.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
README = TOP / "README.md"
EXAMPLE = TOP / "examples" / "glm-5.3-disaggregated"
COMMAND = Path(sys.executable).parent / "checklistbot"
#: The commands run as a stranger's first call would: no settings, no keys, a fixed day.
ENVIRONMENT = {
    "PATH": os.environ["PATH"],
    "HOME": os.devnull,
    "LC_ALL": "C.UTF-8",
    "CHECKLISTBOT_NOW": "2026-11-30T12:00:00Z",
}
_BLOCK = re.compile(r"(<!-- output: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def output(command: list[str], folder: Path) -> str:
    """What a command prints that ends with a block (exit code 1, or 0 for `make review`, which expects it)."""
    done = subprocess.run(command, cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1) or not done.stdout:
        raise SystemExit(f"scripts/docs.py: {' '.join(command)}: exit {done.returncode}\n{done.stderr}")
    return done.stdout


def beginning(text: str) -> str:
    """The paragraphs before the first detail (the second line that begins with a verdict's sign)."""
    lines = text.rstrip("\n").split("\n")
    detail = [number for number, line in enumerate(lines) if re.match(r"[⛔◌⚠✅]", line)]
    return "\n".join(lines[: detail[1]]).rstrip() + "\n…" if len(detail) > 1 else "\n".join(lines)


def outputs() -> dict[str, str]:
    """Block name → its text."""
    with tempfile.TemporaryDirectory() as scratch:
        example = Path(scratch) / "glm-5.3-disaggregated"
        subprocess.run(["bash", str(EXAMPLE / "make-repository.sh"), str(example)], check=True, env=ENVIRONMENT)
        review = output(["bash", str(TOP / "scripts" / "review.sh"), str(COMMAND)], TOP)
        check = output([str(COMMAND), "check", "."], example)
    last = review.rstrip("\n").rpartition("\n")[2]
    return {"review": f"{beginning(review)}\n\n{last}", "check": f"$ checklistbot check .\n{beginning(check)}"}


def filled(text: str, texts: dict[str, str]) -> str:
    """The page with every block filled; raises KeyError for a block that nobody writes."""
    return _BLOCK.sub(lambda block: f"{block[1]}```\n{texts[block[2]]}\n```\n{block[3]}", text)


def main(arguments: list[str]) -> int:
    """Fills README.md; with ``--check`` exits 1 if that would change it."""
    page = README.read_text("utf-8")
    new = filled(page, outputs())
    if arguments == ["--check"]:
        if new != page:
            print("README.md does not show what the commands print; run `make docs`", file=sys.stderr)
        return int(new != page)
    README.write_text(new, "utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
