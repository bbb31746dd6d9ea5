"""``check`` as a command: paths that are relative to the repository, quiet when green, policy in the output."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from rich.cells import cell_len

from checklistbot import cli

POD = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: NAME}
spec:
  template:
    spec:
      containers:
        - name: server
          image: lmsysorg/sglang:v0.5.23
          command: [python3, -m, sglang.launch_server, --model-path, Qwen/Qwen3-8B, --context-length, "16384", --page-size, "64"]
"""
POLICY = """\
version: 1
deployments:
  - match: {group: "Qwen3-8B"}
    tenancy: TENANCY
    data: sensitive
    facts: {kv_pool_tokens: POOL}
"""


def repository(folder: Path, *, pool: int = 99_968, tenancy: str = "dedicated", more: str = "") -> Path:
    (folder / "serve").mkdir()
    (folder / "serve" / "qwen.yaml").write_text(POD.replace("NAME", "qwen"), encoding="utf-8")
    policy = POLICY.replace("TENANCY", tenancy).replace("POOL", str(pool))
    (folder / ".checklistbot.yml").write_text(policy + more, encoding="utf-8")
    subprocess.run(["git", "init", "-q", folder], check=True)
    subprocess.run(["git", "-C", folder, "add", "-A"], check=True)
    return folder


def run(*arguments: str) -> int:
    return cli.main(["check", *arguments])


def test_green_is_one_line_and_the_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(str(repository(tmp_path))) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line]
    assert len(lines) == 2
    assert lines[0] == "✅ PASS · Qwen3-8B: pool 99,968 ≥ context 16,384 (declared, .checklistbot.yml:6)"
    assert "advisories of 2026-11-30" in lines[1]


def test_v_shows_what_passed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(str(repository(tmp_path)), "-v") == 0
    assert "kv-pool-below-context" in capsys.readouterr().out


def test_paths_are_the_repositorys_whatever_path_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    top = repository(tmp_path, pool=9_984, tenancy="shared")
    found = []
    for path in (top, top / "serve"):
        assert run(str(path), "--format", "sarif") == 1
        (data,) = json.loads(capsys.readouterr().out)["runs"]
        places = [r["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for r in data["results"]]
        found.append((places, [r["partialFingerprints"] for r in data["results"]]))
    assert found[0] == found[1]
    assert set(found[0][0]) == {"serve/qwen.yaml", ".checklistbot.yml"}
    run(str(top / "serve"), "--format", "github")
    assert "::error file=serve/qwen.yaml,line=10," in capsys.readouterr().out


def test_observe_mode_is_said_and_fails_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(str(repository(tmp_path, pool=9_984, more="observe_until: 2999-12-31\n"))) == 0
    out = capsys.readouterr().out
    assert out.startswith("⛔ BLOCK")
    assert "observing until 2999-12-31: this would fail the run" in " ".join(out.split())


def test_what_goes_beyond_three_is_folded_but_no_block(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    top = repository(tmp_path, pool=9_984)
    flags = ', --allow-auto-truncate, --enable-unified-memory, --max-toatl-tokens, "9"]'
    text = POD.replace("NAME", "qwen").replace('"64"]', '"64"' + flags)
    (top / "serve" / "qwen.yaml").write_text(text.replace("16384", "65536"), encoding="utf-8")
    (top / ".checklistbot.yml").unlink()
    run(str(top))
    quiet = capsys.readouterr().out
    run(str(top), "-v")
    assert len(capsys.readouterr().out) > len(quiet)
    assert max(cell_len(line) for line in quiet.splitlines()) <= 100
    assert "folded (-v shows" in quiet
