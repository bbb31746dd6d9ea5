"""An engine whose name is spelt with escapes is found all the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from checklistbot.cli import main

_POD = """apiVersion: v1
kind: Pod
metadata: {name: glm}
spec:
  containers:
  - name: s
    image: "lmsysorg/sgENGINE:v0.5.22"
    command: [python3, -m, "sgENGINE.launch_server", --model-path, acme/glm, --context-length, "9000", --max-total-tokens, "800"]
"""


@pytest.mark.parametrize("escape", [r"\u006c", r"\x6c", r"\U0000006c", r"\u006C"])
def test_an_escaped_name_does_not_hide_a_deployment(escape: str, tmp_path: Path) -> None:
    (tmp_path / "pod.yaml").write_text(_POD.replace("ENGINE", escape + "ang"), encoding="utf-8")
    assert main(["check", str(tmp_path)]) == 1
