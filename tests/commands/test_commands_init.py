"""``init``: what it writes is valid, filled with what can be found out, and never over what is there."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest
import yaml

from checklistbot import cli
from checklistbot.config import load
from checklistbot.discovery.tree import open_tree
from checklistbot.facts import gather

POD = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: glm}
spec:
  replicas: 1
  template:
    spec:
      containers:
        - name: server
          image: IMAGE
          command: [python3, -m, sglang.launch_server]
          args: ["--model-path", "zai-org/GLM-5.3-FP8", "--served-model-name", "glm-5.3", "--context-length", "131072"]
"""
LOG = (
    "[2026-11-20 10:00:00] max_total_num_tokens=681280, chunked_prefill_size=8192, max_prefill_tokens=16384, "
    "max_running_requests=64, context_len=131072, available_gpu_mem=10.00 GB\n"
)
NAMED = "[2026-11-20 09:59:00] server_args=ServerArgs(model_path='zai-org/GLM-5.3-FP8', page_size=64)\n"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    (tmp_path / "serve").mkdir()
    (tmp_path / "serve" / "glm.yaml").write_text(POD.replace("IMAGE", "registry.lan/serving:42"), encoding="utf-8")
    return tmp_path


def run(*arguments: str) -> int:
    return cli.main(["init", *arguments])


def test_it_writes_a_config_that_is_read_without_complaint(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(str(repository)) == 0
    text = (repository / ".checklistbot.yml").read_text(encoding="utf-8")
    config = load(text, ".checklistbot.yml")
    assert (config.fail_on, config.baseline, config.observe_until) == ("block", True, date(2026, 12, 14))
    (deployment,) = gather(open_tree(repository), config).deployments
    assert config.entry_for(deployment) is not None
    assert "serve/glm.yaml:" in text
    assert "written: .checklistbot.yml" in capsys.readouterr().out


def test_it_names_images_that_do_not_say_their_release(repository: Path) -> None:
    run(str(repository))
    text = (repository / ".checklistbot.yml").read_text(encoding="utf-8")
    assert '{match: "registry.lan/serving:42", engine: "sglang", version: "…"}' in text


def test_it_finds_the_start_up_log(repository: Path) -> None:
    (repository / "ops").mkdir()
    (repository / "ops" / "glm.log").write_text(NAMED + LOG, encoding="utf-8")
    run(str(repository))
    config = load((repository / ".checklistbot.yml").read_text(encoding="utf-8"), ".checklistbot.yml")
    assert [log.value for log in config.deployments[0].logs] == ["ops/glm.log"]
    (deployment,) = gather(open_tree(repository), config).deployments
    assert deployment.kv_pool_tokens.number() == 681_280


def test_a_log_that_could_be_two_deployments_is_left_out(repository: Path) -> None:
    other = (
        POD.replace("IMAGE", "registry.lan/serving:42")
        .replace("glm-5.3", "another")
        .replace("{name: glm}", "{name: other}")
    )
    (repository / "serve" / "other.yaml").write_text(other, encoding="utf-8")
    (repository / "glm.log").write_text(LOG, encoding="utf-8")
    run(str(repository))
    config = load((repository / ".checklistbot.yml").read_text(encoding="utf-8"), ".checklistbot.yml")
    assert len(config.deployments) == 2
    assert all(entry.logs == () for entry in config.deployments)


def test_a_dry_run_prints_and_writes_nothing(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(str(repository), "--dry-run") == 0
    printed = capsys.readouterr().out
    assert "observe_until" in printed
    assert "pull-requests: write" in printed
    assert not (repository / ".checklistbot.yml").exists()


def test_what_is_there_stays(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (repository / ".checklistbot.yml").write_text("version: 1\n", encoding="utf-8")
    assert run(str(repository)) == 0
    assert (repository / ".checklistbot.yml").read_text(encoding="utf-8") == "version: 1\n"
    assert "kept: .checklistbot.yml" in capsys.readouterr().err
    assert (repository / ".github/workflows/checklistbot.yml").exists()


def test_the_workflow_holds_no_secret_and_the_least_permissions(repository: Path) -> None:
    run(str(repository))
    workflow = yaml.safe_load((repository / ".github/workflows/checklistbot.yml").read_text(encoding="utf-8"))
    job = workflow["jobs"]["review"]
    assert workflow["permissions"] == {}
    assert job["permissions"] == {"contents": "read", "pull-requests": "write"}
    assert "secrets." not in str(workflow)
    assert "pull_request_target" not in str(workflow)
    assert "SOURCE" not in str(job)


def test_names_of_the_repository_cannot_write_config(repository: Path) -> None:
    hostile = POD.replace("IMAGE", "registry.lan/serving:42").replace("glm-5.3", 'x\\nfail_on: never\\n#[a]"')
    (repository / "serve" / "glm.yaml").write_text(hostile, encoding="utf-8")
    assert run(str(repository)) == 0
    config = load((repository / ".checklistbot.yml").read_text(encoding="utf-8"), ".checklistbot.yml")
    assert config.fail_on == "block"
    (deployment,) = gather(open_tree(repository), config).deployments
    assert config.entry_for(deployment) is not None


def test_an_empty_repository_gets_an_example(tmp_path: Path) -> None:
    assert run(str(tmp_path)) == 0
    assert "# No deployment was found" in (tmp_path / ".checklistbot.yml").read_text(encoding="utf-8")


def test_a_folder_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("/nowhere/at/all") == 2
    assert "no such folder" in capsys.readouterr().err


def test_a_log_that_names_no_model_is_only_proposed(repository: Path) -> None:
    (repository / "boot.log").write_text(LOG)
    assert run(str(repository)) == 0
    text = (repository / ".checklistbot.yml").read_text(encoding="utf-8")
    assert '# only log found; it names no model: confirm\n    # logs: ["boot.log"]' in text
    assert yaml.safe_load(text)["deployments"][0].keys() == {"match"}


def test_it_says_what_comes_next(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(str(repository)) == 0
    shown = capsys.readouterr()
    assert "written: .github/workflows/checklistbot.yml" in shown.out
    for word in ("in no Git repository", "COMMIT", "tenancy", "findings do not fail the run until 2026-12-14"):
        assert word in shown.err
