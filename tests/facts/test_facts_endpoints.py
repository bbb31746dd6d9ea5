"""Endpoints that a config names: who is asked, who gets the token, and what becomes of one that does not answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from memory_tree import MemoryTree

from checklistbot import cli
from checklistbot.commands._live import from_fork, of_base, of_work_tree, on_pull_request
from checklistbot.config import Config, load
from checklistbot.facts import Inputs, LiveSource, gather
from checklistbot.history import changed_between
from checklistbot.model import Deployment, Facts, InputError, UsageError, observed
from checklistbot.observation.configured import MAX_ENDPOINTS, Endpoints, addresses
from checklistbot.observation.endpoints import AUTH, EndpointReading

URL = "http://w0.gpu.lan:30000"
MANIFEST = """\
services:
  {name}:
    image: lmsysorg/sglang:v0.5.22
    command: python3 -m sglang.launch_server --model-path acme/Otter-70B --context-length {context} --mem-fraction-static {share}
    deploy: {{replicas: 3}}
"""


def config(*urls: str) -> Config:
    listed = ", ".join(f'"{url}"' for url in urls)
    return load(f"version: 1\ndeployments:\n  - match: {{environment: default}}\n    endpoints: [{listed}]\n", "c.yml")


def tree(context: int = 65536, share: float = 0.9) -> Any:
    return MemoryTree({"compose.yaml": MANIFEST.format(name="otter", context=context, share=share)})


def worker(pool: int, *, share: float = 0.9, role: str = "unified", context: int = 65536) -> Deployment:
    from checklistbot.engines._log import Notes, Said
    from checklistbot.observation.build import build

    notes = Notes(0)
    for key, value in (
        ("kv_pool_tokens", pool),
        ("context_length", context),
        ("model", "acme/Otter-70B"),
        ("memory_fraction", share),
    ):
        notes.add(Said(key, value), 0, "")
    if role != "unified":
        notes.add(Said("role", role), 0, "")
    return build(notes, engine="sglang", name=URL, fits=pool >= context)


class Network:
    """Servers by address; what is asked and with which token is kept."""

    def __init__(self, **servers: Any) -> None:
        self.servers = servers or {"w0": (worker(70_000),)}
        self.asked: list[tuple[str, str | None, bool]] = []

    def __call__(self, url: str, *, auth: str | None, from_argv: bool, deadline: object) -> EndpointReading:
        self.asked.append((url, auth, from_argv))
        found = next((value for name, value in self.servers.items() if f"//{name}" in url), None)
        if found is None:
            raise InputError(f"--endpoint {url}: no answer within 60 s")
        if isinstance(found, Exception):
            raise found
        return EndpointReading(found)


def facts(network: Network, *urls: str, **options: Any) -> Facts:
    endpoints = Endpoints(read=network, environ={AUTH: "Bearer t"}, **options)
    return gather(tree(), config(*urls), live=LiveSource(endpoints))


def test_a_worker_that_the_config_names_tells_the_pool() -> None:
    found = facts(Network(), URL)
    (only,) = found.deployments
    assert only.kv_pool_tokens.value == 70_000
    assert only.kv_pool_tokens.proven
    assert only.kv_pool_tokens.observation is not None
    assert only.kv_pool_tokens.observation.taken_under["memory_fraction"] == 0.9
    assert only.fits_full_context is True
    assert found.unread == ()
    assert [entry.reason for entry in found.skipped] == ["1 of 3 replicas observed"]


def test_without_someone_to_ask_nothing_is_asked() -> None:
    (only,) = gather(tree(), config(URL)).deployments
    assert not only.kv_pool_tokens.known


def test_of_several_replicas_the_smallest_pool_counts_in_any_order() -> None:
    small, large = worker(50_000), worker(70_000)
    for servers in ((small, large), (large, small)):
        (only,) = facts(Network(router=servers), "http://router:80").deployments
        assert only.kv_pool_tokens.value == 50_000
        assert only.fits_full_context is False


def test_one_that_does_not_answer_is_told_and_loses_nothing_else() -> None:
    found = facts(Network(), "http://gone:1", URL)
    assert found.deployments[0].kv_pool_tokens.value == 70_000
    assert found.unread == (
        "c.yml:4: endpoint http://gone:1: no answer within 60 s; "
        "CHECKLISTBOT_ENDPOINT_AUTH goes only to servers that --endpoint or the base's config names",
    )
    assert ("http://gone:1", "not read: see the error line") in {(s.path, s.reason) for s in found.skipped}


def test_an_address_that_may_not_be_asked_is_no_error_of_the_call() -> None:
    found = facts(
        Network(inside=UsageError("--endpoint http://inside:1: refused, a link-local address")), "http://inside:1"
    )
    assert found.unread[0].startswith("c.yml:4: endpoint http://inside:1: refused, a link-local address")


@pytest.mark.parametrize(
    ("options", "token"),
    [
        ({}, None),
        ({"vouched": frozenset({URL})}, "Bearer t"),
        ({"vouched": frozenset({URL + "/other/path"})}, "Bearer t"),
        ({"vouched": frozenset({"http://w0.gpu.lan:9"})}, None),  # another port is another server
        ({"vouched": frozenset({URL.replace("http:", "https:")})}, None),
        ({"argv": frozenset({URL})}, "Bearer t"),
        ({"argv": frozenset({"http://w0.gpu.lan"})}, None),
    ],
)
def test_the_token_goes_to_servers_that_somebody_vouches_for(options: dict[str, Any], token: str | None) -> None:
    network = Network()
    facts(network, URL, **options)
    assert network.asked == [(URL, token, URL in options.get("argv", ()))]


def test_an_address_is_asked_once_for_base_and_head() -> None:
    network = Network()
    live = LiveSource(Endpoints(read=network, environ={}))
    gather(tree(), config(URL), live=live)
    gather(tree(), config(URL, URL), live=live)
    assert len(network.asked) == 1


def test_a_config_cannot_scan_a_network() -> None:
    network = Network()
    found = facts(network, *(f"http://10.0.0.{n}:1" for n in range(MAX_ENDPOINTS + 6)))
    assert len(network.asked) == MAX_ENDPOINTS
    assert any("more than 64 endpoints" in line for line in found.unread)


def test_the_settings_of_a_change_make_what_runs_stale() -> None:
    endpoints = Endpoints(read=Network(), environ={})
    base = gather(tree(), config(URL), live=LiveSource(endpoints))
    head_tree = MemoryTree(
        {
            "compose.yaml": MANIFEST.format(name="otter", context=65536, share=0.9).replace(
                "--context", "--page-size 64 --context"
            )
        }
    )
    live = LiveSource(endpoints, changed_between(base.deployments))
    (only,) = gather(head_tree, config(URL), live=live).deployments  # type: ignore[arg-type]
    assert only.kv_pool_tokens.stale
    assert only.kv_pool_tokens.observation is not None
    assert only.kv_pool_tokens.observation.stale == ("page_size",)
    assert base.deployments[0].kv_pool_tokens.proven


def test_a_worker_of_another_model_or_role_is_not_taken() -> None:
    found = facts(
        Network(other=(worker(70_000, role="decode").replace(model=observed("acme/Heron", URL, 1)),)), "http://other:1"
    )
    assert not found.deployments[0].kv_pool_tokens.known
    assert any("no server there can be" in entry.reason for entry in found.skipped)


# --- whose config may name what -------------------------------------------------------------------------------------


def event(tmp_path: Path, *, head: int) -> dict[str, str]:
    side = {"sha": "a" * 40, "repo": {"id": 7}}
    payload = {"action": "opened", "pull_request": {"number": 3, "base": side, "head": {**side, "repo": {"id": head}}}}
    (tmp_path / "event.json").write_text(json.dumps(payload))
    return {
        "GITHUB_EVENT_NAME": "pull_request", "GITHUB_REPOSITORY": "acme/serve", "GITHUB_EVENT_PATH": str(tmp_path / "event.json"),
    }  # fmt: skip


def test_outside_a_pull_request_the_work_tree_is_asked_without_the_token() -> None:
    endpoints = of_work_tree(config(URL), Inputs(), {})
    assert endpoints.allowed is None
    assert endpoints.vouched == frozenset()


def test_on_a_pull_request_only_what_the_base_names_is_asked(tmp_path: Path) -> None:
    environ = event(tmp_path, head=7)
    assert of_work_tree(config(URL), Inputs(), environ).allowed == frozenset()
    known = of_work_tree(config(URL, "http://new:1"), Inputs(endpoints=("http://argv:1",)), environ, base=config(URL))
    assert known.allowed == {URL, "http://argv:1"}
    network = Network()
    known.read = network
    found = gather(tree(), config(URL, "http://new:1"), live=LiveSource(known))
    assert [url for url, *_ in network.asked] == [URL]
    assert any("not asked: this pull request's own config names it" in entry.reason for entry in found.skipped)
    assert found.unread == ()


def test_a_review_asks_what_the_base_names_but_for_a_fork_nothing(tmp_path: Path) -> None:
    own = of_base(config(URL), (), event(tmp_path, head=7))
    assert (own.allowed, own.vouched) == (None, {URL})
    fork = of_base(config(URL), (), event(tmp_path, head=8))
    assert fork.allowed == frozenset()


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"pull_request": 3}', "\0"])
def test_an_event_that_cannot_be_read_counts_as_a_forks(tmp_path: Path, content: str) -> None:
    environ = event(tmp_path, head=7)
    (tmp_path / "event.json").write_text(content)
    assert from_fork(environ)
    assert from_fork({**environ, "GITHUB_EVENT_PATH": str(tmp_path)})


def test_runs_that_act_for_others() -> None:
    assert from_fork({"GITHUB_EVENT_NAME": "workflow_run"})
    assert not from_fork({"GITHUB_EVENT_NAME": "push"})
    assert not from_fork({})
    assert on_pull_request({"CI_MERGE_REQUEST_IID": "12"})
    assert not on_pull_request({"TRAVIS_PULL_REQUEST": "false", "GITHUB_EVENT_NAME": "push"})


def test_addresses_of_a_config() -> None:
    assert addresses(config(URL, "http://b:1")) == {URL, "http://b:1"}


# --- the commands ---------------------------------------------------------------------------------------------------


@pytest.fixture
def network(monkeypatch: pytest.MonkeyPatch) -> Network:
    asked = Network()
    monkeypatch.setattr("checklistbot.observation.endpoints.read_endpoint", asked)
    monkeypatch.setenv(AUTH, "Bearer t")
    return asked


def folder(path: Path, *urls: str) -> Path:
    path.mkdir()
    (path / "compose.yaml").write_text(MANIFEST.format(name="otter", context=65536, share=0.9))
    listed = "".join(f"      - {url}\n" for url in urls)
    (path / ".checklistbot.yml").write_text(f"version: 1\ndeployments:\n  - endpoints:\n{listed}")
    return path


def test_facts_and_check_ask_the_work_trees_config(
    tmp_path: Path, network: Network, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(folder(tmp_path / "repo", URL, "http://gone:1"))
    assert cli.main(["facts", path, "--format", "json"]) == 3
    told = capsys.readouterr()
    assert json.loads(told.out)["deployments"][0]["kv_pool_tokens"]["value"] == 70_000
    assert "gone:1: no answer" in told.err
    assert cli.main(["check", path, "--format", "json"]) in (1, 3)
    assert network.asked[:2] == [(URL, None, False), ("http://gone:1", None, False)]


def test_review_asks_the_bases_config_with_the_token_and_never_the_heads(
    tmp_path: Path, network: Network, capsys: pytest.CaptureFixture[str]
) -> None:
    base, head = folder(tmp_path / "base", URL), folder(tmp_path / "head", "http://head:1")
    arguments = ["review", "--base-manifests", str(base), "--head-manifests", str(head), "--provider", "builtin"]
    cli.main(arguments)
    assert network.asked == [(URL, "Bearer t", False)]
    (base / ".checklistbot.yml").unlink()
    network.asked.clear()
    cli.main(arguments)
    assert network.asked == []
    capsys.readouterr()
