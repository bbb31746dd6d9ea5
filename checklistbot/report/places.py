"""Where a finding is shown by outputs that need a file of the repository: annotations, code scanning."""

from __future__ import annotations

from checklistbot.model import Facts, Finding, Location


def of(finding: Finding, facts: Facts) -> Location | None:
    """The finding's place, else its deployment's launch line; None for what is no file of the repository."""
    if finding.location is not None:
        return finding.location if inside(finding.location.path) else None
    for deployment in facts.deployments:
        named = finding.deployment in (deployment.id, f"{deployment.environment}/{deployment.group}")
        if named and deployment.file and inside(deployment.file):
            return Location(deployment.file, deployment.line)
    return None


def inside(path: str) -> bool:
    """True if the path stays in the repository: relative, no "..", no address, no drive."""
    parts = path.split("/")
    return all(parts) and not {"..", "."} & set(parts) and "://" not in path and "\\" not in path and path != "-"
