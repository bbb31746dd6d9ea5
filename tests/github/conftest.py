"""The stateful GitHub server for the tests of this room."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from fake_github import FakeGitHub, ManualClock, serving
from graphql_contract import graphql_violations
from openapi_contract import Contract, contract_of


@pytest.fixture(scope="session")
def contract(request: pytest.FixtureRequest) -> Contract:
    """GitHub's description; tests that ask for the server carry ``needs("npm:@octokit/openapi")``."""
    return contract_of(request.config.rootpath / "tests" / "tools" / "node_modules" / "@octokit" / "openapi")


@pytest.fixture(scope="session")
def graphql_exchanges(request: pytest.FixtureRequest) -> Iterator[dict[str, dict[str, Any]]]:
    """One GraphQL exchange of each shape, of the whole session; held against GitHub's schema at its end."""
    seen: dict[str, dict[str, Any]] = {}
    yield seen
    tools = request.config.rootpath / "tests" / "tools"
    if seen and (tools / "node_modules" / "@octokit" / "graphql-schema").is_dir():
        assert graphql_violations(list(seen.values()), tools) == []


@pytest.fixture(scope="module")
def server(contract: Contract, graphql_exchanges: dict[str, dict[str, Any]]) -> Iterator[FakeGitHub]:
    with serving(contract) as running:
        running.graphql_seen = graphql_exchanges
        yield running


@pytest.fixture
def github(server: FakeGitHub) -> Iterator[FakeGitHub]:
    """The server with an empty repository; no exchange may contradict GitHub's description."""
    server.reset()
    yield server
    assert server.violations == []


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()
