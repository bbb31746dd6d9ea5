"""The stateful GitHub server for the tests of this room."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fake_github import FakeGitHub, ManualClock, serving
from openapi_contract import Contract, contract_of


@pytest.fixture(scope="session")
def contract(request: pytest.FixtureRequest) -> Contract:
    """GitHub's description; tests that ask for the server carry ``needs("npm:@octokit/openapi")``."""
    return contract_of(request.config.rootpath / "tests" / "tools" / "node_modules" / "@octokit" / "openapi")


@pytest.fixture(scope="module")
def server(contract: Contract) -> Iterator[FakeGitHub]:
    with serving(contract) as running:
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
