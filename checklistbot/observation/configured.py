"""The endpoints that a config names: asked like ``--endpoint``, under stricter rules (operations-and-attacks 24).

An address in a file was written by whoever wrote the file. So the Authorization header goes only to servers that the command
line or the base's config names, this machine itself is asked only if the command line names it, and one that does not
answer loses nothing else.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Final

from checklistbot.config import Config
from checklistbot.model import ChecklistbotError, Deployment, Skipped
from checklistbot.record import mutable_record, record

if TYPE_CHECKING:
    from checklistbot.observation.endpoints import EndpointReading
    from checklistbot.retry import Deadline

#: Addresses of one config that are asked at most, so that a file cannot make a run scan a network.
MAX_ENDPOINTS: Final = 64

Reader = Callable[..., "EndpointReading"]


@record
class Asked:
    """What one address told. ``unread`` is the line that says why it told nothing."""

    servers: tuple[Deployment, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    unread: str | None = None


def origin_of(url: str) -> str:
    """Scheme, host and port of an address in one form, "" if it has none: another port of a host is another server."""
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:
        return ""
    return f"{parts.scheme}://{(parts.hostname or '').rstrip('.').lower()}:{port}" if parts.hostname else ""


def addresses(config: Config) -> frozenset[str]:
    """All endpoints that a config names."""
    return frozenset(str(located.value) for entry in config.deployments for located in entry.endpoints)


@mutable_record
class Endpoints:
    """Asks the addresses of a config, each once a run, all of them within 60 s.

    ``argv`` are the addresses of the command line. ``vouched`` are further ones whose servers may get CHECKLISTBOT_ENDPOINT_AUTH.
    ``allowed`` are the addresses that may be asked, None: any; ``why`` says why others may not.
    """

    argv: frozenset[str] = frozenset()
    vouched: frozenset[str] = frozenset()
    allowed: frozenset[str] | None = None
    why: str = ""
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    read: Reader | None = None
    deadline: Deadline | None = None
    _asked: dict[str, Asked] = field(default_factory=dict)

    def ask(self, url: str, where: str) -> Asked:
        """What the server at ``url`` told; ``where`` is the config's file:line, for the line that says why it did not."""
        if url not in self._asked:
            self._asked[url] = self._ask(url, where)
        return self._asked[url]

    def _ask(self, url: str, where: str) -> Asked:
        if self.allowed is not None and url not in self.allowed:
            return Asked(skipped=(Skipped(url, f"not asked: {self.why}"),))
        if len(self._asked) >= MAX_ENDPOINTS:
            return Asked(unread=f"{where}: more than {MAX_ENDPOINTS} endpoints; the others are not asked")
        from checklistbot.observation.endpoints import AUTH, SECONDS, read_endpoint
        from checklistbot.retry import Deadline

        self.deadline = self.deadline or Deadline(SECONDS)
        trusted = origin_of(url) in {origin_of(known) for known in self.argv | self.vouched} - {""}
        auth = self.environ.get(AUTH, "").strip() or None
        try:
            found = (self.read or read_endpoint)(
                url, auth=auth if trusted else None, from_argv=url in self.argv, deadline=self.deadline
            )
        except ChecklistbotError as error:
            hint = (
                f"; {AUTH} goes only to servers that --endpoint or the base's config names"
                if auth and not trusted
                else ""
            )
            line = f"{where}: {str(error).removeprefix('--')}{hint}"
            return Asked(skipped=(Skipped(url, "not read: see the error line"),), unread=line)
        return Asked(found.servers, found.skipped)
