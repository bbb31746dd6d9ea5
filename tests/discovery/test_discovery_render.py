"""``--render``: the real programs are not here, so these are stubs of them; what they are given and what stops them is what is tested."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from memory_tree import MemoryTree

from checklistbot import cli
from checklistbot.config import Config
from checklistbot.discovery import render
from checklistbot.facts import gather
from checklistbot.model import Facts, UsageError

POD = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: otter}
spec:
  template:
    spec:
      containers:
        - name: vllm
          image: vllm/vllm-openai:v0.21.0
          args: ["--model", "acme/otter", "--max-model-len", "%s"]
"""
KUSTOMIZE = {
    "base/kustomization.yaml": "resources: [pod.yaml]\n",
    "base/pod.yaml": POD % "1000",
    "overlays/prod/kustomization.yaml": "resources: [../../base]\n",
    "overlays/staging/kustomization.yaml": "resources: [../../base]\n",
}
CHART = {
    "chart/Chart.yaml": "apiVersion: v2\nname: otter\nversion: 1.0.0\n",
    "chart/values.yaml": "length: 1000\n",
    "chart/values-prod.yaml": "length: 2000\n",
    "chart/values.schema.json": '{"$ref": "file:///etc/passwd"}\n',
    "chart/templates/pod.yaml": POD % "{{ .Values.length }}",
}
SAYS_9000 = f"case $1 in version) echo v9.8.7;; *) cat <<'END'\n{POD % '9000'}END\n;; esac\n"


def stub(folder: Path, name: str, script: str) -> dict[str, str]:
    """An environment in whose PATH that program is."""
    folder.mkdir(exist_ok=True)
    program = folder / name
    program.write_text(f"#!/bin/sh\n{script}")
    program.chmod(0o755)
    return {"PATH": f"{folder}{os.pathsep}{os.defpath}"}


def rendered(files: Mapping[str, str], kind: render.Kind, environ: dict[str, str], **options: Any) -> Facts:
    tree: Any = MemoryTree(files)
    with render.renderer(kind, environ, **options) as made:
        return gather(tree, Config(), renderer=made)


def contexts(facts: Facts) -> dict[str, object]:
    return {d.environment: d.context_length.value for d in facts.deployments}


def test_kustomize_renders_each_overlay_and_says_so(tmp_path: Path) -> None:
    facts = rendered(KUSTOMIZE, "kustomize", stub(tmp_path / "bin", "kustomize", SAYS_9000))
    assert contexts(facts) == {"prod": 9000, "staging": 9000}
    assert facts.unread == ()
    assert {(entry.path, entry.reason) for entry in facts.skipped} == {
        (
            f"overlays/{name}/rendered-by-kustomize.yaml",
            "rendered by kustomize v9.8.7: its lines are those of the output",
        )
        for name in ("prod", "staging")
    }
    source = facts.deployments[0].context_length.source
    assert source is not None
    assert source.path == "overlays/prod/rendered-by-kustomize.yaml"


def test_helm_renders_each_values_file(tmp_path: Path) -> None:
    script = f"""case $1 in version) echo v3.2.1+g1;; *)
    test ! -e chart/values.schema.json || exit 3
    length=$(sed -n 's/length: //p' "${{5:-chart/values.yaml}}")
    cat <<END
{POD % "$length"}END
    ;; esac
    """
    facts = rendered(CHART, "helm", stub(tmp_path / "bin", "helm", script))
    assert contexts(facts) == {"prod": 2000}
    assert [entry.reason.split(":")[0] for entry in facts.skipped] == ["rendered by helm v3.2.1+g1"]


def test_without_the_option_nothing_runs(tmp_path: Path) -> None:
    tree: Any = MemoryTree(KUSTOMIZE)
    with render.renderer(None, stub(tmp_path / "bin", "kustomize", "exit 1")) as made:
        assert made is None
    assert contexts(gather(tree, Config())) == {"prod": 1000, "staging": 1000}


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("echo 'Error: no such \033[31mfield' >&2; exit 7", "exit 7: Error: no such field"),
        ("while :; do :; done", "ended after"),
        ("sleep 30 & wait", "ended after"),
        ("yes xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", "16 MiB of output"),
    ],
)
def test_what_fails_is_told_and_our_own_reading_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, why: str
) -> None:
    monkeypatch.setattr(render, "SECONDS", 0.4)
    files = {name: text for name, text in KUSTOMIZE.items() if "staging" not in name}
    guarded = f"case $1 in version) echo v9.8.7; exit 0;; esac\n{script}\n"
    facts = rendered(files, "kustomize", stub(tmp_path / "bin", "kustomize", guarded))
    assert contexts(facts) == {"prod": 1000}
    (line,) = facts.unread
    assert line.startswith("--render kustomize: overlays/prod: ")
    assert why in line
    assert "own substitution" in line
    assert "\033" not in line


def test_the_program_gets_an_empty_environment_and_a_copy(tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    script = f"case $1 in version) echo v1.2.3; exit 0;; esac\nenv > {seen}; pwd >> {seen}; find . -type f >> {seen}; exit 1\n"
    environ = stub(tmp_path / "bin", "kustomize", script) | {"MY_NAME": "kestrel-7731", "SSH_AUTH_SOCK": "/tmp/agent"}
    rendered(KUSTOMIZE, "kustomize", environ)
    text = seen.read_text()
    assert "kestrel-7731" not in text
    assert "SSH_AUTH_SOCK" not in text
    assert str(Path.home()) not in text
    assert "HTTPS_PROXY=http://127.0.0.1:9" in text
    assert "GIT_ALLOW_PROTOCOL=none" in text
    assert "./base/pod.yaml" in text
    folder = next(line for line in text.splitlines() if "checklistbot-render-" in line and line.startswith("/"))
    assert not Path(folder).exists()


@pytest.mark.parametrize(
    "resource",
    [
        "https://example.org/base.yaml",
        "github.com/acme/base?ref=v1",
        "git@example.org:acme/base",
        "../../base?ref=main",
        "ssh://h/r",
    ],
)
def test_a_remote_base_is_not_fetched(tmp_path: Path, resource: str) -> None:
    files = KUSTOMIZE | {"base/kustomization.yaml": f"resources:\n- pod.yaml\n- {resource}\n"}
    facts = rendered(files, "kustomize", stub(tmp_path / "bin", "kustomize", SAYS_9000))
    assert 9000 not in contexts(facts).values()
    assert all("base/kustomization.yaml names something outside of the tree" in line for line in facts.unread)
    assert facts.unread


def test_a_remote_base_of_another_kustomization_does_not_matter(tmp_path: Path) -> None:
    files = KUSTOMIZE | {"other/kustomization.yaml": "resources: [https://example.org/x.yaml]\n"}
    assert contexts(rendered(files, "kustomize", stub(tmp_path / "bin", "kustomize", SAYS_9000)))["prod"] == 9000


def test_a_fleet_of_overlays_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(render, "MAX_RENDERINGS", 1)
    facts = rendered(KUSTOMIZE, "kustomize", stub(tmp_path / "bin", "kustomize", SAYS_9000))
    assert sorted(contexts(facts).values()) == [1000, 9000]  # type: ignore[type-var]
    assert "more than 1 renderings" in facts.unread[0]


def test_a_tree_that_is_too_large_is_not_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(render, "MAX_FILES", 2)
    facts = rendered(KUSTOMIZE, "kustomize", stub(tmp_path / "bin", "kustomize", SAYS_9000))
    assert set(contexts(facts).values()) == {1000}


# --- when it is refused ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("environ", "refused"),
    [
        ({"OPENAI_API_KEY": "sk-x"}, "OPENAI_API_KEY"),
        ({"GITHUB_TOKEN": "x"}, "GITHUB_TOKEN"),
        ({"CI": "true", "NPM_TOKEN": "x"}, "NPM_TOKEN"),
        ({"GITHUB_ACTIONS": "true", "DB_PASSWORD": "x"}, "DB_PASSWORD"),
        ({"NPM_TOKEN": "x"}, None),
        ({"OPENAI_API_KEY": " "}, None),
        ({"CI": "true", "TOKENIZERS_PARALLELISM": "false"}, None),
    ],
)
def test_never_in_a_run_with_secrets(tmp_path: Path, environ: dict[str, str], refused: str | None) -> None:
    environ = stub(tmp_path / "bin", "helm", "echo v3.0.0") | environ
    if refused is None:
        with render.renderer("helm", environ) as made:
            assert made is not None
        return
    with pytest.raises(UsageError, match=f"holds a secret .{refused}."), render.renderer("helm", environ):
        pass


def test_never_for_a_fork_and_never_without_the_program(tmp_path: Path) -> None:
    environ = stub(tmp_path / "bin", "helm", "echo v3.0.0")
    with pytest.raises(UsageError, match="fork"), render.renderer("helm", environ, fork=True):
        pass
    with (
        pytest.raises(UsageError, match="not installed; pipe its output"),
        render.renderer("helm", {"PATH": str(tmp_path)}),
    ):
        pass


def test_the_commands_take_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, text in KUSTOMIZE.items():
        (tmp_path / "repo" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "repo" / name).write_text(text)
    monkeypatch.setenv("PATH", stub(tmp_path / "bin", "kustomize", SAYS_9000)["PATH"])
    monkeypatch.delenv("CI", raising=False)
    assert cli.main(["facts", str(tmp_path / "repo"), "--render", "kustomize"]) == 0
    assert "9,000" in capsys.readouterr().out
    assert cli.main(["check", str(tmp_path / "repo"), "--render", "kustomize", "--format", "json"]) in (0, 1)
    monkeypatch.setenv("GITHUB_EVENT_NAME", "workflow_run")
    assert cli.main(["facts", str(tmp_path / "repo"), "--render", "kustomize"]) == 2
