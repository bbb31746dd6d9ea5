"""The github target: a workflow to start by hand or to call, the bash script it runs, and the installer of the probe."""

from __future__ import annotations

from typing import Final

from checklistbot.model import Checklist, Facts, Script
from checklistbot.scripts import Target, _job

PATH: Final = ".github/workflows/checklistbot-pre-deploy.yml"


def render(checklist: Checklist, facts: Facts) -> tuple[Script, ...]:
    """Files relative to the root of the repository. The job ends with the bash script's exit code."""
    return _job.render(checklist, facts, "github", "github.yml.j2", PATH)


TARGET: Final = Target("github", render)
