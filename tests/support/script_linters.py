"""The linters that generated files must pass: tool, its options, and which files it takes."""

from __future__ import annotations

from collections.abc import Callable

#: SC2016 says that "$" in single quotes is not expanded: for a hostile name that is what the quotes are for.
LINTERS: list[tuple[str, tuple[str, ...], Callable[[str], bool]]] = [
    ("ruff", ("check", "--isolated", "--no-cache", "--line-length", "140"), lambda path: path.endswith(".py")),
    ("shellcheck", ("--exclude", "SC2016"), lambda path: path.endswith(".sh")),
    ("shfmt", ("-d",), lambda path: path.endswith(".sh")),
    ("zizmor", ("--offline", "--quiet", "--pedantic"), lambda path: ".github/" in path),
    ("check-jsonschema", ("--builtin-schema", "vendor.github-workflows"), lambda path: ".github/" in path),
    ("check-jsonschema", ("--builtin-schema", "vendor.gitlab-ci"), lambda path: path.endswith(".gitlab-ci.yml")),
]
