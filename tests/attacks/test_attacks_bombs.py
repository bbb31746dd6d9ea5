"""Small files that grow, nest or loop without end: each costs little, and none of them looks like an empty repository."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path

import pytest

from checklistbot.cli import main

_COMMAND = "python3 -m sglang.launch_server --model-path acme/glm --context-length 4096"


def _aliases() -> str:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    return (
        "\n".join(
            [
                *lines,
                "apiVersion: v1",
                "kind: Pod",
                f"spec: {{containers: [{{name: a, command: [*a11, {', '.join(_COMMAND.split())}]}}]}}",
            ]
        )
        + "\n"
    )


_BOMBS = {
    "pod.yaml": _aliases(),
    "many.yaml": "---\n" * 6000 + f"apiVersion: v1\nkind: Pod\nspec: {{containers: [{{name: a, command: {json.dumps(_COMMAND.split())}}}]}}\n",
    "double.sh": "A=xxxxxxxxxx\n" + "A=$A$A\n" * 60 + f"{_COMMAND} --served-model-name $A\n",
    "wide.sh": "A=" + "x" * 60_000 + "\nB=" + "$A" * 2_000 + f"\n{_COMMAND} --served-model-name $B\n",
    "stars.sh": "A=" + "a" * 60 + "b\nB=${A//*a*a*a*a*a*a*a*a*a*a*c/x}\n" + f"{_COMMAND} --served-model-name $B\n",
    "filter.sh": "A=" + "a" * 60 + "b\nB=$(echo $A | sed -E 's/(a|aa)*c/x/')\n"
    f"if [[ $A =~ (a|aa)+$ ]]; then C=1; fi\n{_COMMAND} --served-model-name $B\n",
    "brace.sh": f"for i in {{1..100000000000}}; do X=$X$i; done\n{_COMMAND} --served-model-name $X\n",
    "Dockerfile": "FROM lmsysorg/sglang:v0.5.22\nENV B=x\n" + "ENV B=$B$B\n" * 60 + f"CMD {json.dumps([*_COMMAND.split(), '$B'])}\n",
    "Makefile": "B=$(C)$(C)\nC=$(B)$(B)\nrun:\n\t" + _COMMAND + " --served-model-name $(B)\n",
    "replace.py": 'import subprocess\nv = "a" * 50000\nfor i in range(40): v = v.replace("a", v)\n'
    f"subprocess.run({_COMMAND.split()!r} + [v])\n",
    "deep.tf": "x = " + "(" * 3000 + ")" * 3000 + "\n# sglang.launch_server\n",
}  # fmt: skip


@pytest.mark.parametrize("name", _BOMBS)
def test_a_bomb_is_unknown_and_never_green(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / name).write_text(_BOMBS[name], encoding="utf-8")
    tracemalloc.start()
    try:
        code = main(["check", str(tmp_path), "--format", "json"])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert code == 0
    assert json.loads(capsys.readouterr().out)["verdict"] == "unknown"
    assert peak < 200 * 1024 * 1024


def test_a_large_manifest_of_an_engine_is_unknown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "pod.yaml").write_text("# vllm serve acme/glm\n" + "# pad pad pad\n" * 400_000, encoding="utf-8")
    main(["check", str(tmp_path), "--format", "json"])
    assert json.loads(capsys.readouterr().out)["verdict"] == "unknown"


def test_a_bomb_does_not_hide_its_neighbour(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "double.sh").write_text(_BOMBS["double.sh"], encoding="utf-8")
    (tmp_path / "serve.sh").write_text(
        "python3 -m sglang.launch_server --model-path acme/other --context-length 9000 --max-total-tokens 800\n",
        encoding="utf-8",
    )
    assert main(["check", str(tmp_path), "--format", "json"]) == 1
    assert "kv-pool-below-context" in capsys.readouterr().out
