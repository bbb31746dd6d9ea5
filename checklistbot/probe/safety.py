"""Whom the probe may talk to (operations-and-attacks 22, 24): the owner said so, the address is not public, nobody else is on it."""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Callable, Collection
from typing import Final

from checklistbot.model import InputError, UsageError
from checklistbot.probe.wire import Call, Transport, parse_url

#: Public model APIs: probing them is never anyone's own endpoint.
_PUBLIC_APIS: Final = re.compile(
    r"(?:^|\.)(?:openai\.com|anthropic\.com|googleapis\.com|mistral\.ai|cohere\.(?:ai|com)|deepseek\.com|groq\.com|together\.(?:ai|xyz)"
    r"|fireworks\.ai|openrouter\.ai|perplexity\.ai|x\.ai|z\.ai|bigmodel\.cn|moonshot\.(?:ai|cn)|dashscope\.aliyuncs\.com|huggingface\.co"
    r"|replicate\.com|deepinfra\.com|cerebras\.ai|sambanova\.ai|azure\.com|amazonaws\.com|cloudflare\.com)$"
)
_METADATA: Final = frozenset(("metadata", "metadata.google.internal", "instance-data"))
Resolve = Callable[[str, int], list[str]]


def resolve(host: str, port: int) -> list[str]:
    """The addresses of a host; raises InputError where it has none."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise InputError("URL: its host name cannot be resolved; check the address") from None
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def allowed_address(url: str, *, owned: bool, allow_hosts: Collection[str] = (), resolver: Resolve = resolve) -> str:
    """The one address that all connections go to. Raises UsageError where the endpoint must not be probed."""
    _, host, port = parse_url(url)
    if not owned:
        raise UsageError(
            "the probe sends limit-length prompts that can stall an engine; give --i-own-this-endpoint if the endpoint is yours to test"
        )
    name = host.rstrip(".").casefold()
    if _PUBLIC_APIS.search(name) or name in _METADATA:
        raise UsageError("URL: is a public model API or a cloud's own service, which the probe never tests")
    found = resolver(host, port)
    addresses = [ipaddress.ip_address(address.partition("%")[0]) for address in found]
    for address in addresses:
        plain = getattr(address, "ipv4_mapped", None) or address
        if (
            plain.is_link_local
            or plain.is_multicast
            or plain.is_unspecified
            or (plain.is_reserved and not plain.is_loopback)
        ):
            raise UsageError(
                "URL: resolves to a link-local, multicast or reserved address, which the probe never tests"
            )
        if plain.is_global and name not in {allowed.casefold() for allowed in allow_hosts}:
            raise UsageError(
                "URL: resolves to a public address; name its host in probe.allow_hosts of the config or with --allow-host if it is yours"
            )
    return found[0]


_GAUGES: Final = re.compile(
    rb"^(?:sglang:num_(?:running|queue)_reqs|vllm:num_requests_(?:running|waiting)|llamacpp:requests_(?:processing|deferred)"
    rb"|lmdeploy:num_requests_(?:running|waiting)|tgi_queue_size|tgi_batch_current_size)(?:\{[^}\n]*\})? +([0-9.e+]+)",
    re.M,
)


def requests_in_flight(transport: Transport) -> float | None:
    """Running and waiting requests by the endpoint's own metrics, None where it tells none."""
    answer = transport.send([Call("GET", "/metrics", deadline=10)])[0]
    found = _GAUGES.findall(answer.body) if answer.status == 200 else []
    return sum(map(float, found)) if found else None


def watch(transport: Transport, seconds: float) -> bool | None:
    """Whether anyone else's requests were seen within ``seconds``; None where the endpoint does not tell."""
    waited = 0.0
    while True:
        running = requests_in_flight(transport)
        if running is None:
            return None
        if running > 0:
            return True
        if waited >= seconds:
            return False
        step = min(0.5, seconds - waited)
        transport.sleep(step)
        waited += step
