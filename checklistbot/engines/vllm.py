"""vLLM and its variants: flags → facts, limits by version (vllm.md sections 0, 3, 4.1)."""

from __future__ import annotations

import json
import re
from typing import Any

from checklistbot.engines import _build as build
from checklistbot.engines import _config
from checklistbot.engines._flags import Parsed, fact, human_integer, integer, number, parse, table, word_text
from checklistbot.engines.base import Engine, Launch, Word, below, version_of
from checklistbot.model import Deployment, Fact, Source, Unknown

_MODULES = (
    "-m vllm.entrypoints.openai.api_server",
    "-m vllm.entrypoints.api_server",
    "-m vllm.entrypoints.cli.main",
    "-m vllm",
    "vllm",
)
_SERVERS = (
    "-m vllm.entrypoints.openai.api_server",
    "-m vllm.entrypoints.api_server",
    "-m dynamo.vllm",
    "-m dynamo.vllm.main",
)
_FACTS = {
    "model": build.Given(("model", "model-id", "model_id"), word_text),
    "served_model_name": build.Given(("served-model-name", "model-name"), word_text),
    "context_length": build.Given(("max-model-len",), human_integer),
    "page_size": build.Given(("block-size",), integer),
    "kv_cache_dtype": build.Given(("kv-cache-dtype",), word_text),
    "memory_fraction": build.Given(("gpu-memory-utilization",), number),
    "tensor_parallel": build.Given(("tensor-parallel-size",), integer),
    "pipeline_parallel": build.Given(("pipeline-parallel-size",), integer),
    "data_parallel": build.Given(("data-parallel-size",), integer),
}
#: Variables that hold further command-line arguments (KServe's LLMInferenceService, wrappers).
_ARGUMENT_VARIABLES = (
    "VLLM_ADDITIONAL_ARGS",
    "VLLM_ARGS",
    "VLLM_EXTRA_ARGS",
    "EXTRA_VLLM_ARGS",
    "VLLM_SERVE_ARGS",
    "VLLM_OPTS",
)


#: What can only be a model where the entrypoint is ``vllm serve``: ``org/name``, or an unknown value.
_MODEL_FIRST = r"(?!\S+\.(?:sh|py)$)(?:[\w.-]+/[\w.-]+$|\?$)"


def _arguments(launch: Launch) -> tuple[tuple[Word, ...], bool] | None:
    """(the server's arguments, whether the model may stand first); None where the launch does not start vLLM's server."""
    name, first = build.program(launch.argv)
    rest = launch.argv[first:]
    if name in _SERVERS:
        return rest, True
    if name in ("vllm", "vllm-omni", "-m vllm", "-m vllm.entrypoints.cli.main"):
        return (rest[1:], True) if rest and rest[0].text == "serve" else None
    if name in ("api_server.py", "-m huggingfaceserver", "huggingfaceserver"):
        return (
            (rest, False) if "vllm" in (launch.argv[0].raw + str(launch.argv[1:2])) or "huggingface" in name else None
        )
    if name == "worker.py" and any(w.shown.startswith("--model") for w in rest) and _in_vllm_image(launch):
        return rest, False
    if launch.engine == "vllm" or build.arguments_only(launch, "vllm"):
        return launch.argv, True
    if build.arguments_only(launch, "vllm", first=r"serve$"):
        return launch.argv[1:], True
    if build.arguments_only(launch, "vllm", first=_MODEL_FIRST) and any(
        w.shown.startswith("--") for w in launch.argv[1:]
    ):
        return launch.argv, True
    if not launch.argv and _wrapped(launch):
        return (), True
    return None


def _in_vllm_image(launch: Launch) -> bool:
    rule = build.image_engine(launch)
    return rule is not None and rule.engine == "vllm"


def _wrapped(launch: Launch) -> list[Word]:
    """Arguments that a wrapper image takes from a variable of its environment."""
    for name in _ARGUMENT_VARIABLES:
        word = launch.env.get(name)
        if word is not None and word.text and word.text.strip().startswith("-"):
            return split(word)
    return []


def split(word: Word) -> list[Word]:
    """The words of a variable that a shell will split, each with its own line."""
    from checklistbot.engines._shell_words import split_words

    return split_words(word)


def deployment(launch: Launch) -> Deployment | None:
    """The deployment that a launch starts, None where it starts no vLLM server."""
    recognised = _arguments(launch)
    if recognised is None:
        return None
    arguments, positional = recognised
    version = build.version(launch, "vllm")
    release = build.as_version(version)
    words = [*_config.merged(launch, arguments, "vllm"), *_wrapped(launch)]
    parsed = parse(words, table("vllm"), release)
    made: dict[str, Fact | None] = {"role": _role(launch, parsed)}
    if positional and parsed.last("model") is None and parsed.positional:
        made["model"] = fact(parsed.positional[0], word_text)
    found = build.deployment(
        launch, "vllm", parsed, _FACTS, engine_version=version, variant=_variant(launch), made=made
    )
    return _cpu(_context(found, release), launch)


def _cpu(found: Deployment, launch: Launch) -> Deployment:
    """An image for CPUs needs no GPU, and its name says so."""
    image = launch.image
    if image is None or not re.search(r"(?:^|[-_/:])cpu(?:[-_/:.]|$)", image.text or "") or found.gpu_count.known:
        return found
    return found.replace(gpu_count=Fact(0, Source("declared", image.path, image.line)))


def _variant(launch: Launch) -> str | None:
    rule = build.image_engine(launch)
    if rule is not None and rule.variant is not None:
        return rule.variant
    words = {word.text for word in launch.argv}
    return "vllm-omni" if "--omni" in words or "vllm-omni" in words else None


def _context(found: Deployment, release: Any) -> Deployment:
    """``auto`` and -1 promise no length; sizes such as 128k are read from 0.8.5 on."""
    flag = found.flag("max-model-len")
    if flag is None or flag.value is None:
        return found
    text = str(flag.value)
    if text == "auto" or found.context_length.number() == -1:
        return found.replace(context_length=_unknown("no-default", "auto"))
    if release is not None and below(release, "0.8.5") and integer(text) is None:
        return found.replace(context_length=_unknown("not-readable"))
    return found


def _unknown(why: Any, name: str | None = None) -> Fact:
    return Fact(unknown=Unknown(why, name, build.SUPPLY["context_length"]))


_KV_ROLES = {"kv_producer": "prefill", "kv_consumer": "decode"}


def _role(launch: Launch, parsed: Parsed) -> Fact | None:
    """The role from Dynamo's flags, kv_role, and, where KV is transferred but both do both, from the names."""
    for flag, role in (("is-prefill-worker", "prefill"), ("is-decode-worker", "decode")):
        given = parsed.last(flag)
        if given is not None:
            return Fact(role, Source("declared", given.spelled.path, given.spelled.line))
    mode = parsed.last("disaggregation-mode")
    if mode is not None and mode.value is not None and mode.value.text in ("prefill", "decode"):
        return Fact(mode.value.text, Source("declared", mode.value.path, mode.value.line))
    kv_role = _kv_role(parsed)
    if kv_role is not None and kv_role.text in _KV_ROLES:
        return Fact(_KV_ROLES[kv_role.text], Source("declared", kv_role.path, kv_role.line))
    if kv_role is not None or parsed.last("kv-transfer-config") is not None:
        return build.role_by_name(launch)
    return None


def _kv_role(parsed: Parsed) -> Word | None:
    """kv_role of ``--kv-transfer-config``, as JSON or as a dotted key; of its first role-bearing connector under MultiConnector."""
    dotted = parsed.last("kv-transfer-config.kv_role")
    if dotted is not None:
        return dotted.value
    whole = parsed.last("kv-transfer-config")
    word = whole.value if whole is not None else None
    if word is None or word.text is None:
        return None
    for role in _roles_in(word.text):
        return Word(role, word.path, word.line)
    return None


def _roles_in(text: str) -> list[str]:
    """The roles in a connector's JSON, outermost first, kv_both last; also where the JSON is broken."""
    try:
        outer = json.loads(text)
    except ValueError:
        outer = None
    if isinstance(outer, dict) and outer.get("kv_role") in _KV_ROLES:
        return [str(outer["kv_role"])]
    found = re.findall(r"\bkv_(?:producer|consumer|both)\b", text)
    return sorted(set(found), key=lambda role: role == "kv_both")


# --- limits ------------------------------------------------------------------------------------------------------------


def first_rejected_length(found: Deployment) -> int | None:
    """The shortest prompt that is refused with a 400: max_model_len (a prompt may not fill it: one token must follow).

    The pool refuses nothing on vLLM: a prompt between it and the context hangs the engine (vllm.md 4.1), see
    ``full_request_needs``. None without a context.
    """
    return found.context_length.number()


def full_request_needs(found: Deployment) -> int | None:
    """Pool tokens that one request of full context needs: whole blocks, plus the null block that releases before 0.29 do not count."""
    context = found.context_length.number()
    if context is None:
        return None
    block = found.page_size.number() or 16
    release = version_of(found)
    blocks = -(-context // block)
    return (blocks + (1 if release is None or below(release, "0.29") else 0)) * block


ENGINE = Engine(
    name="vllm",
    words=(b"vllm", b"VLLM", b"vLLM", b"huggingfaceserver"),
    serves=lambda launch: _arguments(launch) is not None,
    deployment=deployment,
    first_rejected_length=first_rejected_length,
    full_request_needs=full_request_needs,
)
