"""What the job targets share: the bash script that the job runs, and the script that installs checklistbot for its requests.

checklistbot is installed from one commit of its own repository, never by its bare name, which is nobody's on an index
(operations-and-attacks 35). The commit is stored in the wheel by the build hook (``hatch_build.py``).
"""

from __future__ import annotations

import re
from typing import Final

from checklistbot import __version__, resources
from checklistbot.model import Checklist, Facts, Script
from checklistbot.scripts import bash
from checklistbot.scripts._filters import config_lines, template
from checklistbot.scripts._steps import requests, steps

SCRIPT: Final = "ci/checklistbot.sh"
INSTALL: Final = "ci/install-checklistbot.sh"
_COMMIT: Final = re.compile(r"[0-9a-f]{40}")
_DEFAULT: Final = re.compile(r"^default ([A-Za-z_][A-Za-z0-9_]*) ", re.MULTILINE)


def commit() -> str:
    """The commit that this installation was built from; empty where it is not known (an editable install)."""
    try:
        text = resources.text("knowledge", "COMMIT").strip()
    except OSError:
        return ""
    return text if _COMMIT.fullmatch(text) else ""


def render(checklist: Checklist, facts: Facts, target: str, job: str, path: str) -> tuple[Script, ...]:
    """The job's file, the bash script it runs, and the installer where there are requests to send."""
    (script,) = bash.render(checklist, facts)
    probing = bool(requests(steps(checklist, facts)))
    text = template(job).render(
        digests=config_lines(facts),
        variables=_DEFAULT.findall(script.text),
        probing=probing,
        install=INSTALL,
        script=SCRIPT,
    )
    files = [Script(target, path, text), Script(target, SCRIPT, script.text)]
    if probing:
        installer = template("install.sh.j2").render(
            repository=resources.repository(), version=__version__, ref=commit()
        )
        files.append(Script(target, INSTALL, installer))
    return tuple(files)
