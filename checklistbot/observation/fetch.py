"""The one way in which a live server is asked: where it may be, and how much of its answer is read
(operations-and-attacks 24).

http and https only, resolved once and pinned, no redirects, no proxy, five seconds and 8 MiB an answer, never
echoed. Link-local, multicast, unspecified and cloud metadata addresses are refused always, loopback unless the
address was given on the command line.
"""

from __future__ import annotations

import http.client
import ipaddress
import json
import socket
import ssl
import time
from collections.abc import Callable
from dataclasses import field
from typing import Any, Final
from urllib.parse import SplitResult, urlsplit

from checklistbot.encode import terminal
from checklistbot.model import InputError, UsageError
from checklistbot.record import mutable_record, record

TIMEOUT: Final = 5.0
MAX_BODY: Final = 8 << 20
_CHUNK: Final = 1 << 16
_METADATA_NAMES: Final = frozenset(
    ("metadata", "metadata.google.internal", "metadata.goog", "instance-data", "instance-data.ec2.internal")
)
#: Addresses of cloud metadata services outside the link-local range: Alibaba, Oracle, Azure's wire server, AWS over
#: IPv6.
_METADATA: Final = frozenset(
    ipaddress.ip_address(text) for text in ("100.100.100.200", "192.0.0.192", "168.63.129.16", "fd00:ec2::254")
)
_THIS_NETWORK: Final = ipaddress.ip_network("0.0.0.0/8")

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
#: (host, port) → addresses as text; raises OSError.
Resolver = Callable[[str, int], list[str]]


def resolve(host: str, port: int) -> list[str]:
    """All addresses of a host, in the order of the system's resolver."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def refusal(address: Address, *, loopback: bool) -> str | None:
    """Why an address is not asked, None if it may be. IPv4 inside IPv6 is judged as the IPv4 address that it
    reaches."""
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour or (address.teredo[1] if address.teredo else None)
        if inner is None and address in ipaddress.ip_network("64:ff9b::/96"):
            inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is not None:
            return refusal(inner, loopback=loopback)
    if address in _METADATA:
        return "a cloud metadata address"
    if address.is_link_local:
        return "a link-local address"
    if address.is_multicast:
        return "a multicast address"
    if address.is_unspecified or (isinstance(address, ipaddress.IPv4Address) and address in _THIS_NETWORK):
        return "an unspecified address"
    if address.is_loopback:
        return None if loopback else "a loopback address, which only the command line may name"
    if address.is_reserved:
        return "a reserved address"
    return None


@record
class Answer:
    """Status and body of one request; ``whole`` is False if the body was longer than 8 MiB or did not come in
    time."""

    status: int
    body: bytes
    whole: bool = True

    @property
    def ok(self) -> bool:
        return self.status == 200 and self.whole

    def json(self) -> Any:
        """The body as JSON, None if it is none."""
        try:
            return json.loads(self.body) if self.ok else None
        except (ValueError, RecursionError):
            return None

    def text(self) -> str:
        return self.body.decode("utf-8", "replace") if self.ok else ""


@mutable_record
class Server:
    """One address that was checked and pinned. ``ask`` gives the answer of a path, each path once.

    ``auth`` is the value of the Authorization header; it goes to this host only, as nothing is followed.
    """

    parts: SplitResult
    host: str
    port: int
    address: str
    auth: str | None = None
    left: Callable[[], float] = lambda: TIMEOUT
    asked: dict[str, Answer | None] = field(default_factory=dict)

    @property
    def url(self) -> str:
        """The address without credentials, query and fragment."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.parts.scheme}://{host}:{self.port}{self.parts.path.rstrip('/')}"

    def ask(self, path: str) -> Answer | None:
        """The answer of ``path`` below the address, None if the server does not answer at all."""
        if path not in self.asked:
            self.asked[path] = self._get(path)
        return self.asked[path]

    def _get(self, path: str) -> Answer | None:
        seconds = min(TIMEOUT, self.left())
        if seconds <= 0:
            return None
        until = time.monotonic() + seconds
        connection = self._connection(seconds)
        try:
            connection.sock = self._socket(seconds)
            headers = {"Accept": "application/json, text/plain", "User-Agent": "checklistbot", "Connection": "close"}
            if self.auth:
                headers["Authorization"] = self.auth
            connection.request("GET", self.parts.path.rstrip("/") + path, headers=headers)
            return self._read(connection, until)
        except (OSError, http.client.HTTPException, ValueError):
            return None
        finally:
            connection.close()

    def _connection(self, seconds: float) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(self.host, self.port, timeout=seconds)

    def _socket(self, seconds: float) -> socket.socket:
        raw = socket.create_connection((self.address, self.port), timeout=seconds)
        if self.parts.scheme != "https":
            return raw
        try:
            return ssl.create_default_context().wrap_socket(raw, server_hostname=self.host)
        except OSError:
            raw.close()
            raise

    @staticmethod
    def _read(connection: http.client.HTTPConnection, until: float) -> Answer:
        response = connection.getresponse()
        pieces: list[bytes] = []
        size = 0
        while size <= MAX_BODY:
            left = until - time.monotonic()
            if left <= 0:
                return Answer(response.status, b"".join(pieces), whole=False)
            if connection.sock is not None:
                connection.sock.settimeout(left)
            piece = response.read1(_CHUNK)
            if not piece:
                return Answer(response.status, b"".join(pieces))
            pieces.append(piece)
            size += len(piece)
        return Answer(response.status, b"", whole=False)


def server(
    url: str,
    *,
    auth: str | None = None,
    from_argv: bool,
    left: Callable[[], float] = lambda: TIMEOUT,
    resolver: Resolver = resolve,
) -> Server:
    """The server at ``url``, its address checked and pinned.

    Raises UsageError where the address is not one that may be asked, InputError where its name cannot be resolved.
    """
    shown = terminal(url.rsplit("@", 1)[-1], limit=200)
    try:
        parts = urlsplit(url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError as error:
        raise UsageError(f"--endpoint {shown}: not an address; write http://host:port") from error
    host = (parts.hostname or "").rstrip(".").lower()
    if parts.scheme not in ("http", "https") or not host or any(c in host for c in " \r\n\t"):
        raise UsageError(f"--endpoint {shown}: only http and https addresses are asked; write http://host:port")
    if parts.username is not None or parts.password is not None:
        raise UsageError(
            f"--endpoint {shown}: credentials do not belong in an address; put them into CHECKLISTBOT_ENDPOINT_AUTH"
        )
    if host in _METADATA_NAMES:
        raise UsageError(f"--endpoint {shown}: refused, a cloud metadata service")
    if any(ord(c) < 33 or ord(c) > 126 for c in parts.path):
        raise UsageError(f"--endpoint {shown}: the path holds characters that must be percent-encoded")
    return Server(parts, host, port, _pinned(host, port, shown, from_argv, resolver), auth, left)


def _pinned(host: str, port: int, shown: str, from_argv: bool, resolver: Resolver) -> str:
    """The first address of a host, if none of its addresses is refused."""
    try:
        found = resolver(host, port)
    except (OSError, UnicodeError) as error:
        raise InputError(f"--endpoint {shown}: the host cannot be resolved") from error
    if not found:
        raise InputError(f"--endpoint {shown}: the host cannot be resolved")
    for text in found:
        why = refusal(ipaddress.ip_address(text.partition("%")[0]), loopback=from_argv)
        if why:
            raise UsageError(f"--endpoint {shown}: refused, {why}")
    return found[0]
