"""What can go wrong with a call to GitHub, by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from fake_github import FakeGitHub, Fault

#: name → fault; operation, ``times`` and ``when`` are filled in by who uses it.
FAULTS: dict[str, Fault] = {
    "401": Fault("", status=401, message="Bad credentials"),
    "403 permission": Fault("", status=403, message="Resource not accessible by integration"),
    "403 locked": Fault("", status=403, message="Unable to create comment because issue is locked."),
    "403 secondary": Fault(
        "", status=403, headers={"Retry-After": "4"}, message="You have exceeded a secondary rate limit"
    ),
    "403 for an hour": Fault(
        "",
        status=403,
        headers={"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1796043600"},
        message="API rate limit",
    ),
    "404": Fault("", status=404, message="Not Found"),
    "408": Fault("", status=408),
    "409": Fault("", status=409),
    "410": Fault("", status=410, message="Gone"),
    "422": Fault("", status=422, message="Validation Failed"),
    "429": Fault("", status=429, headers={"Retry-After": "3"}),
    "429 for an hour": Fault("", status=429, headers={"Retry-After": "3600"}),
    "500": Fault("", status=500),
    "502": Fault("", status=502),
    "503": Fault("", status=503, headers={"Retry-After": "2"}),
    "hang up": Fault("", how="close"),
    "cut short": Fault("", how="cut"),
    "broken JSON": Fault("", how="garbage"),
    "other JSON": Fault("", how="wrong"),
    "a proxy's page": Fault("", how="html"),
}


# --- the matrix as people read it --------------------------------------------------------------------------------------


class _Named(Protocol):
    @property
    def name(self) -> str: ...


F = TypeVar("F", bound=_Named)


def table(flows: Sequence[F], outcome: Callable[[F, str, str, int], str]) -> str:
    """Fault × flow as a Markdown table. A cell holds the outcomes of once/always, before/after the effect.

    ``outcome`` takes the flow, the fault, when it strikes and how often.
    """
    rows = [["fault", *(flow.name for flow in flows)], ["---"] * (len(flows) + 1)]
    for fault in FAULTS:
        cells = []
        for flow in flows:
            found = [outcome(flow, fault, when, times) for times in (1, 999) for when in ("before", "after")]
            cells.append(found[0] if len(set(found)) == 1 else " / ".join(found))
        rows.append([fault, *cells])
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def show(matrix: Callable[[FakeGitHub], str]) -> None:
    """Print a matrix that was played against a server of its own."""
    from pathlib import Path

    from fake_github import serving
    from openapi_contract import Contract

    tools = Path(__file__).resolve().parent.parent / "tools"
    with serving(Contract(tools / "node_modules" / "@octokit" / "openapi")) as running:
        print(matrix(running))
