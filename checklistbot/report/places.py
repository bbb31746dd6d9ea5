"""Where a finding is shown by outputs that need a file of the repository: annotations, code scanning."""

from __future__ import annotations

from checklistbot.config import FILE_NAME
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


def full(path: str, root: str) -> str:
    """A path relative to PATH as one relative to the repository, ``root`` being PATH there. The config lies at the top, whatever PATH is."""
    folder = root.strip("/")
    return f"{folder}/{path}" if folder.strip(".") and path != FILE_NAME else path


def inside(path: str) -> bool:
    """True if the path stays in the repository: relative, no "..", no address, no drive."""
    parts = path.split("/")
    return all(parts) and not {"..", "."} & set(parts) and "://" not in path and "\\" not in path and path != "-"
