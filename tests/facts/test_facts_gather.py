"""Discovery, config and observations joined: which value wins, what is stale, what a pull request may say about itself."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from checklistbot.changes import changes, pair, renamed
from checklistbot.config import Config, load
from checklistbot.discovery.git import Repository
from checklistbot.discovery.tree import open_tree
from checklistbot.facts import Inputs, LogSource, gather
from checklistbot.history import changed_inputs
from checklistbot.model import Deployment, Fact, Facts, Source, declared

EXAMPLE = Path(__file__).parents[2] / "examples" / "glm-5.3-disaggregated"
CONFIG = (EXAMPLE / "base" / ".checklistbot.yml").read_text()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    subprocess.run(["bash", EXAMPLE / "make-repository.sh", tmp_path / "repo"], check=True)
    return tmp_path / "repo"


def _by_role(facts: Facts) -> dict[str, Deployment]:
    return {str(d.role.value): d for d in facts.deployments}


def _commit(repository: Path, message: str = "change") -> None:
    subprocess.run(["git", "-C", repository, "add", "-A"], check=True)
    subprocess.run(["git", "-C", repository, "commit", "-qm", message], check=True)


def test_the_log_of_the_base_gives_the_pool_and_the_manifest_the_context(repository: Path) -> None:
    facts = _by_role(gather(open_tree(repository, "head"), load(CONFIG, "c.yml")))
    prefill = facts["prefill"]
    assert prefill.kv_pool_tokens.value == 681_280
    assert prefill.kv_pool_tokens.kind == "observed"
    assert (prefill.kv_pool_tokens.source or Source("default")).path == "ops/logs/prefill.log"
    assert not prefill.kv_pool_tokens.stale
    assert prefill.context_length.value == 1_048_576
    assert [other.value for other in prefill.context_length.others] == [131_072]
    assert prefill.served_context.value is None  # the log says what was served under the old context
    assert prefill.first_rejected_length == 681_274
    assert prefill.fits_full_context is False
    assert facts["decode"].first_rejected_length == 1_048_570
    assert facts["decode"].fits_full_context is True


def test_an_observation_under_another_memory_fraction_is_stale_and_proves_nothing(repository: Path) -> None:
    facts = _by_role(gather(open_tree(repository, "head-memory-fraction"), load(CONFIG, "c.yml")))
    pool = facts["prefill"].kv_pool_tokens
    assert pool.stale
    assert pool.observation is not None
    assert pool.observation.stale == ("memory_fraction",)
    assert not pool.proven
    assert pool.kind == "predicted"
    assert facts["prefill"].fits_full_context is None
    assert not facts["decode"].kv_pool_tokens.stale


def test_an_input_that_the_log_does_not_state_is_stale_if_git_saw_it_change(repository: Path) -> None:
    manifest = repository / "serve" / "prefill.yaml"
    manifest.write_text(manifest.read_text().replace("sglang:v0.5.19", "sglang:v0.5.22"))
    _commit(repository)
    git, config = Repository(repository), load(CONFIG, "c.yml")
    changed = changed_inputs(git, git.resolve("HEAD"), repository, config)
    tree = open_tree(repository, "HEAD")
    with_history = _by_role(gather(tree, config, changed=changed))["prefill"].kv_pool_tokens
    assert with_history.observation is not None
    assert set(with_history.observation.stale) == {"engine_version", "image"}
    assert not with_history.observation.unchanged_in_git
    # Without Git's memory nothing in the log's text contradicts the new image: it is only not compared.
    plain = _by_role(gather(tree, config))["prefill"].kv_pool_tokens
    assert not plain.stale
    assert plain.observation is not None
    assert "engine_version" in plain.observation.not_compared


def test_git_vouches_for_what_the_log_does_not_state(repository: Path) -> None:
    git, config = Repository(repository), load(CONFIG, "c.yml")
    changed = changed_inputs(git, git.resolve("base"), repository, config)
    pool = _by_role(gather(open_tree(repository, "head"), config, changed=changed))["prefill"].kv_pool_tokens
    assert pool.observation is not None
    assert pool.observation.unchanged_in_git
    assert "engine_version" in pool.observation.not_compared


def test_a_log_that_a_pull_request_changes_counts_only_to_the_worse(repository: Path) -> None:
    log = repository / "ops" / "logs" / "prefill.log"
    config = load(CONFIG, "c.yml")
    for pool, expected in ((2_000_000, 681_280), (500_032, 500_032)):
        log.write_text((EXAMPLE / "base/ops/logs/prefill.log").read_text().replace("681280", str(pool)))
        head = open_tree(repository)
        facts = gather(head, config, logs=LogSource(open_tree(repository, "base"), head))
        assert _by_role(facts)["prefill"].kv_pool_tokens.value == expected
        assert any("worse, not better" in entry.reason for entry in facts.skipped)


def test_a_log_that_is_new_in_the_pull_request_cannot_prove_that_it_fits(repository: Path) -> None:
    config = load(CONFIG, "c.yml")
    for pool, expected in ((2_000_000, None), (500_032, 500_032)):
        log = repository / "ops" / "logs" / "prefill.log"
        log.write_text((EXAMPLE / "base/ops/logs/prefill.log").read_text().replace("681280", str(pool)))
        head = open_tree(repository)
        facts = gather(head, config, logs=LogSource(None, head))
        assert _by_role(facts)["prefill"].kv_pool_tokens.value == expected


def test_a_log_that_is_named_and_missing_is_told(repository: Path) -> None:
    (repository / "ops/logs/prefill.log").unlink()
    facts = gather(open_tree(repository), load(CONFIG, "c.yml"))
    assert ("ops/logs/prefill.log", "no such file, named in c.yml:5") in [(s.path, s.reason) for s in facts.skipped]
    assert _by_role(facts)["prefill"].kv_pool_tokens.value is None


def test_a_log_of_another_model_is_not_taken(repository: Path) -> None:
    log = repository / "ops/logs/prefill.log"
    log.write_text(log.read_text().replace("GLM-5.3-FP8", "Other-7B").replace("glm-5.3", "other"))
    facts = gather(open_tree(repository), load(CONFIG, "c.yml"))
    assert _by_role(facts)["prefill"].kv_pool_tokens.value is None
    assert any("no server in it can be default/glm-5.3/prefill" in entry.reason for entry in facts.skipped)


def test_config_paths_are_relative_to_the_repository_even_below_it(repository: Path) -> None:
    facts = _by_role(gather(open_tree(repository / "serve"), load(CONFIG, "c.yml")))
    assert facts["prefill"].kv_pool_tokens.value == 681_280
    assert facts["prefill"].file == "prefill.yaml"


def test_logs_of_the_command_line_find_their_role(repository: Path) -> None:
    logs = Inputs(logs=(str(repository / "ops/logs/decode.log"), str(repository / "ops/logs/prefill.log")))
    shutil.rmtree(repository / ".git")
    facts = _by_role(gather(open_tree(repository), Config(), logs))
    assert facts["prefill"].kv_pool_tokens.value == 681_280
    assert facts["decode"].kv_pool_tokens.value == 1_050_624


def test_a_named_log_that_cannot_be_read_loses_nothing_else(repository: Path, tmp_path: Path) -> None:
    good, gone = str(repository / "ops/logs/prefill.log"), str(tmp_path / "gone.log")
    facts = gather(open_tree(repository), Config(), Inputs(logs=(gone, good)))
    assert len(facts.unread) == 1
    assert "gone.log" in facts.unread[0]
    assert _by_role(facts)["prefill"].kv_pool_tokens.value == 681_280


def test_what_the_config_says_about_an_image_fills_the_version(repository: Path) -> None:
    for path in (repository / "serve").glob("*.yaml"):
        path.write_text(path.read_text().replace("lmsysorg/sglang:v0.5.19", "registry.lan/sglang:golden"))
    entry = "images: [{match: 'registry.lan/sglang:*', engine: sglang, version: '0.5.21'}]\n"
    version = _by_role(gather(open_tree(repository), load(CONFIG + entry, "c.yml")))["prefill"].engine_version
    assert (version.value, str(version.source)) == ("0.5.21", "c.yml:12")
    assert _by_role(gather(open_tree(repository), load(CONFIG, "c.yml")))["prefill"].engine_version.value is None


def test_facts_of_the_config_fill_gaps_and_never_overrule_a_manifest(repository: Path) -> None:
    text = CONFIG.replace("data: sensitive", "data: sensitive\n    facts: {data_parallel: 2, tensor_parallel: 4}")
    prefill = _by_role(gather(open_tree(repository), load(text, "c.yml")))["prefill"]
    assert (prefill.data_parallel.value, prefill.tensor_parallel.value) == (2, 8)


HYBRID = (
    "INFO 09-01 03:00:00 [core.py:1] Initializing a V1 LLM engine ({version}) with config: model='acme/Otter', max_seq_len=131072\n"
    "INFO 09-01 03:00:01 [config.py:1] Setting attention block size to 528 tokens to ensure that attention page size is >= mamba page size.\n"
    "INFO 09-01 03:00:02 [kv_cache_utils.py:1] GPU KV cache size: 90,112 tokens\n"
)


@pytest.mark.parametrize(("version", "fits"), [("v0.11.0", None), ("v0.21.0", False)])
def test_the_tokens_of_an_old_hybrid_prove_nothing_without_the_factor(
    version: str, fits: bool | None, tmp_path: Path
) -> None:
    log = tmp_path / "hybrid.log"
    log.write_text(HYBRID.format(version=version))
    (server,) = gather(None, Config(), Inputs(logs=(str(log),))).deployments
    assert (server.kv_pool_tokens.value, server.context_length.value) == (90_112, 131_072)
    assert server.fits_full_context is fits
    log.write_text(
        HYBRID.format(version=version)
        + "INFO 09-01 03:00:02 [kv_cache_utils.py:1] Maximum concurrency for 131,072 tokens per request: 2.50x\n"
    )
    (server,) = gather(None, Config(), Inputs(logs=(str(log),))).deployments
    assert server.fits_full_context is True


@pytest.mark.parametrize(("printed", "tokens"), [("0.98", 128_450), ("1.00", 131_072), ("1.01", 132_382)])
def test_the_factor_alone_gives_the_tokens(printed: str, tokens: int, tmp_path: Path) -> None:
    log = tmp_path / "short.log"
    log.write_text(
        "INFO 09-01 03:00:00 [model.py:1] Using max model len 131072\n"
        f"INFO 09-01 03:00:02 [kv_cache_utils.py:1] Maximum concurrency for 131,072 tokens per request: {printed}x\n"
    )
    (server,) = gather(None, Config(), Inputs(logs=(str(log),))).deployments
    assert (server.kv_pool_tokens.value, server.full_requests) == (tokens, float(printed))
    assert server.fits_full_context is (printed != "0.98")


# --- base and head -----------------------------------------------------------------------------------------------------


def _named(id_: str, *, file: str = "a.yaml", name: str = "a", model: str = "m", context: int = 10) -> Deployment:
    environment, group, role = id_.split("/")
    return Deployment(
        id_, name, environment, group, file, 1,
        role=Fact(role, Source("declared")), model=declared(model, file, 2), context_length=declared(context, file, 3),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("base", "head", "paired"),
    [
        (_named("e/g/unified"), _named("e/g/unified", file="moved.yaml"), True),
        (_named("e/old/unified"), _named("e/new/unified"), True),
        (_named("e/old/unified", file="x.yaml"), _named("e/new/unified", file="y.yaml", name="b"), True),
        (_named("e/old/unified", file="x.yaml", model="m1"), _named("e/new/unified", file="y.yaml", name="b"), False),
        (_named("e/g/prefill"), _named("e/g/decode"), False),
    ],
    ids=["id", "file-and-name", "model", "nothing", "role"],
)
def test_base_and_head_are_paired_by_id_then_name_then_model(base: Deployment, head: Deployment, paired: bool) -> None:
    assert bool(pair([base], [head])) is paired


def test_changes_name_the_fact_and_the_line_and_leave_observations_out() -> None:
    before, after = _named("e/g/unified"), _named("e/g/unified", context=20)
    after = after.replace(kv_pool_tokens=Fact(5, Source("observed", "x.log", 1)))
    (change,) = changes(Facts((before,)), Facts((after,)))
    assert (change.fact, change.before, change.after, str(change.source)) == ("context_length", 10, 20, "a.yaml:3")


def test_added_and_removed_deployments_are_changes() -> None:
    found = changes(Facts((_named("e/a/unified", model="x"),)), Facts((_named("e/b/unified", file="n", name="z"),)))
    assert {(c.what, c.deployment) for c in found} == {("added", "e/b/unified"), ("removed", "e/a/unified")}


def test_a_renamed_deployment_keeps_its_history() -> None:
    base, head = Facts((_named("e/old/unified"),)), Facts((_named("e/new/unified"),))
    assert renamed(base, head) == {"e/old/unified": "e/new/unified", "e/old": "e/new"}


_ANONYMOUS = "[2026-03-02 07:01:12 TP0] max_total_num_tokens=900000, chunked_prefill_size=8192, context_len=131072\n"


@pytest.mark.parametrize(("tied", "pool"), [(False, None), (True, 900_000)])
def test_a_log_that_names_no_model_proves_nothing_until_the_config_ties_it(
    tmp_path: Path, tied: bool, pool: int | None
) -> None:
    (tmp_path / "compose.yaml").write_text(
        "services:\n  a:\n    image: lmsysorg/sglang:v0.5.22\n    command: sglang serve --model-path acme/Otter --context-length 131072\n"
    )
    (tmp_path / "boot.log").write_text(_ANONYMOUS)
    config = load("version: 1\ndeployments:\n  - match: {}\n    logs: [boot.log]\n", "c.yml") if tied else Config()
    facts = gather(open_tree(tmp_path), config, Inputs() if tied else Inputs(logs=(str(tmp_path / "boot.log"),)))
    assert facts.deployments[0].kv_pool_tokens.value == pool
    assert ["names no model" in entry.reason for entry in facts.skipped] == ([] if tied else [True])
