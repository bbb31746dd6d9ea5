"""Every kind of hostile or odd tree ends in valid JSON and exit 0 or 1."""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from checklistbot.cli import main

_NAMES = st.text("abc-._ $`'\"|<>\u202e\u200b한", min_size=1, max_size=12).filter(lambda n: n.strip(". ") != "")
_BODIES = st.one_of(
    st.binary(max_size=300),
    st.text(max_size=300).map(lambda t: t.encode("utf-8", "surrogatepass")),
    st.sampled_from(
        [
            b"command: [python3, -m, sglang.launch_server, --model-path, x",
            b"apiVersion: apps/v1\nkind: Deployment\nspec: &a {template: *a}\n# sglang\n",
            b"vllm serve $MODEL --max-model-len ${N:-4096} \\\n",
            b"\xff\xfev\x00l\x00l\x00m\x00",
            b"<<<<<<< HEAD\nvllm serve a\n=======\nvllm serve b\n>>>>>>> x\n",
        ]
    ),
)


@given(st.dictionaries(_NAMES, _BODIES, max_size=4), st.sampled_from([".yaml", ".sh", ".py", "", ".md", ".tf"]))
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_tree_gives_valid_json(
    tmp_path_factory: pytest.TempPathFactory, files: dict[str, bytes], suffix: str
) -> None:
    folder = tmp_path_factory.mktemp("tree")
    for name, body in files.items():
        with contextlib.suppress(OSError, ValueError):
            (folder / f"{name}{suffix}").write_bytes(body)
    for command in ("facts", "check"):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main([command, str(folder), "--format", "json"])
        assert code in (0, 1), err.getvalue()
        assert json.loads(out.getvalue())["schema"] == f"{command}/1"


def test_a_file_as_path(tmp_path: Path) -> None:
    script = tmp_path / "serve.sh"
    script.write_text("exec vllm serve org/model --max-model-len 8192\n")
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert main(["facts", str(script), "--format", "json"]) == 0
    (deployment,) = json.loads(out.getvalue())["deployments"]
    assert (deployment["file"], deployment["line"]) == ("serve.sh", 1)
