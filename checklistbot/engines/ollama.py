"""Ollama: variables → facts (other-engines.md, "Ollama"). One server loads many models; the context holds for each slot."""

from __future__ import annotations

from checklistbot.engines import _build as build
from checklistbot.engines._flags import Parsed, fact, integer, word_text
from checklistbot.engines.base import Engine, Launch, Word
from checklistbot.model import Deployment, Fact


def _arguments(launch: Launch) -> tuple[Word, ...] | None:
    """``ollama serve``, or the image alone; ``ollama run`` and ``pull`` are clients."""
    name, first = build.program(launch.argv)
    rest = launch.argv[first:]
    if name == "ollama":
        return rest[1:] if rest and rest[0].text in ("serve", "start") else None
    rule = build.image_engine(launch)
    if rule is not None and rule.engine == "ollama":
        if not launch.argv:
            return ()
        return launch.argv[1:] if launch.argv[0].text in ("serve", "start") else None
    return launch.argv if launch.engine == "ollama" else None


def deployment(launch: Launch) -> Deployment | None:
    """The deployment that a launch starts, None where it starts no Ollama server."""
    if _arguments(launch) is None:
        return None
    context = fact(launch.env.get("OLLAMA_CONTEXT_LENGTH"), integer, supply=build.SUPPLY["context_length"])
    made: dict[str, Fact | None] = {
        "context_length": context,
        "kv_cache_dtype": fact(launch.env.get("OLLAMA_KV_CACHE_TYPE"), word_text),
    }
    return build.deployment(launch, "ollama", Parsed(), {}, engine_version=build.version(launch, "ollama"), made=made)


def first_rejected_length(found: Deployment) -> int | None:
    """None: by default Ollama cuts a long prompt in silence instead of refusing it."""
    return None


def full_request_needs(found: Deployment) -> int | None:
    """One slot's context."""
    return found.context_length.number()


ENGINE = Engine(
    name="ollama",
    words=(b"ollama", b"OLLAMA_"),
    serves=lambda launch: _arguments(launch) is not None,
    deployment=deployment,
    first_rejected_length=first_rejected_length,
    full_request_needs=full_request_needs,
)
