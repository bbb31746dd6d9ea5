"""Whether a known bug applies to a deployment: definitely, possibly (a fact is missing), or not.

All conditions of an advisory must hold. A condition that no fact settles makes the match possible and is named, so that the one who knows
can say it. What a condition means is described in ``schemas/advisory.json``.
"""

from __future__ import annotations

import ast
import json
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from fnmatch import fnmatchcase
from typing import Any, Final, Literal

from checklistbot.config import Config
from checklistbot.engines.base import below, version_of
from checklistbot.knowledge.advisory import LIBRARIES, Advisory, within
from checklistbot.knowledge.families import family_of
from checklistbot.lazy import pattern
from checklistbot.model import Deployment, Flag
from checklistbot.record import record
from checklistbot.rules import _limits as limits
from checklistbot.rules.base import page_of, reserve_of

#: True, False, or None where no fact tells.
Tri = bool | None
State = Literal["definite", "possible", "no"]


@record
class Scene:
    """A deployment among the members of its group; ``before`` is the same deployment in the base, ``tenancy`` what the config declares."""

    deployment: Deployment
    members: tuple[Deployment, ...]
    before: Deployment | None = None
    tenancy: str | None = None
    config: Config = field(default_factory=Config)
    #: True where the config says that the gateway salts the prefix cache for each tenant.
    salted: bool = False


@record
class Match:
    """``undecided`` names the conditions that no fact settles ("version", or a key of ``when``)."""

    state: State
    undecided: tuple[str, ...] = ()


_NO: Final = Match("no")


def match(advisory: Advisory, scene: Scene) -> Match:
    """How the advisory applies to the scene's deployment."""
    if not _engine(advisory, scene.deployment):
        return _NO
    results: dict[str, Tri] = {"version": _version(advisory, scene.deployment)}
    if results["version"] is False or back_ported(advisory, scene.deployment, scene.config):
        return _NO
    for key, wanted in advisory.when.items():
        results[key] = _CONDITIONS[key](wanted, scene)
        if results[key] is False:
            return _NO
    undecided = tuple(key for key, result in results.items() if result is None)
    return Match("possible", undecided) if undecided else Match("definite")


def back_ported(advisory: Advisory, deployment: Deployment, config: Config) -> bool:
    """True if the config says that the deployment's image carries the advisory's fix."""
    image = str(deployment.image.value or "")
    return any(advisory.id in entry.fixes and fnmatchcase(image, entry.match) for entry in config.images)


#: Library → how the names of its connectors begin, in lower case.
_CONNECTOR_STARTS: Final = (("lmcache", "lmcache"), ("mooncake", "mooncakestore"))


def _engine(advisory: Advisory, deployment: Deployment) -> bool:
    if advisory.engine in LIBRARIES:
        return advisory.engine in libraries(deployment)
    return advisory.engine == deployment.engine.value


def libraries(deployment: Deployment) -> frozenset[str]:
    """Which of LIBRARIES the deployment keeps KV pages with, as far as its flags say."""
    names = {name.lower() for name in connectors(deployment) or ()}
    backend = str(flag_value(deployment, "hicache-storage-backend") or "").lower()
    used = {library for library, start in _CONNECTOR_STARTS if any(name.startswith(start) for name in names)}
    return frozenset(used | ({backend} & {"mooncake"}))


def _version(advisory: Advisory, deployment: Deployment) -> Tri:
    return advisory.covers(None if advisory.engine in LIBRARIES else version_of(deployment))


# --- flags and variables -----------------------------------------------------------------------------------------------

_FALSE: Final = ("false", "0", "off", "no", "none", "null")


def _unread(entry: Flag) -> bool:
    """True if a value was given that cannot be known statically."""
    return entry.value is None and ("=" in entry.raw or " " in entry.raw.strip())


def flag_value(deployment: Deployment, name: str) -> Any:
    """The value of a flag: True for a bare switch, False for its ``no-`` form, None if it is not given or not static."""
    entry, negated = deployment.flag(name), deployment.flag(f"no-{name}")
    if negated is not None and (entry is None or deployment.flags.index(negated) > deployment.flags.index(entry)):
        return False
    if entry is None or _unread(entry):
        return None
    return True if entry.value is None else entry.value


def _given(deployment: Deployment, name: str) -> bool:
    return deployment.flag(name) is not None or deployment.flag(f"no-{name}") is not None


def _same(given: Any, wanted: Any) -> bool:
    if isinstance(wanted, bool):
        truth = given if isinstance(given, bool) else str(given).lower() not in _FALSE
        return truth is wanted
    left, right = _number(given), _number(wanted)
    if left is not None and right is not None:
        return left == right
    return str(given).lower() == str(wanted).lower()


def _number(value: Any) -> float | None:
    try:
        return None if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        return None


def _operator(given: bool, value: Any, wanted: Any, default: Any) -> Tri:
    """One operator of the schema. ``value`` is None where it is not given or not static."""
    unread = given and value is None
    if isinstance(wanted, list):
        return None if unread else given and any(_same(value, one) for one in wanted)
    if not isinstance(wanted, dict):
        return None if unread else given and _same(value, wanted)
    kind, operand = next((str(key), one) for key, one in wanted.items())
    if kind in ("present", "absent"):
        return given == (kind == "present")
    if unread:
        return None
    if kind == "not":
        return not given or not _same(value, operand)
    if kind == "min":
        number = _number(value)
        return given and number is not None and number >= float(operand)
    if kind == "effective":
        effective = value if given else default
        return None if effective is None else _same(effective, operand)
    raise ValueError(kind)


def _flags(wanted: Mapping[str, Any], scene: Scene) -> Tri:
    deployment = scene.deployment
    return _all(
        _operator(_given(deployment, name), flag_value(deployment, name), one, effective_default(deployment, name))
        for name, one in wanted.items()
    )


def _env(wanted: Mapping[str, Any], scene: Scene) -> Tri:
    entries = {name: scene.deployment.env_var(name) for name in wanted}
    return _all(
        _operator(entry is not None, entry.value if entry else None, wanted[name], None)
        for name, entry in entries.items()
    )


def effective_default(deployment: Deployment, name: str) -> Any:
    """What a vLLM release does when the flag is not given; None where that is not known or depends on the run.

    Source: defaults of the examined releases (prefix caching on from the V1 engine, 0.8.5; chunked prefill likewise; asynchronous
    scheduling off up to 0.13, decided at start-up from 0.14).
    """
    release = version_of(deployment)
    if deployment.engine.value != "vllm" or release is None:
        return None
    if name in ("enable-prefix-caching", "enable-chunked-prefill"):
        return not below(release, "0.8.0")
    if name == "async-scheduling":
        return False if below(release, "0.14") else None
    return None


def _all(results: Iterable[Tri]) -> Tri:
    found = list(results)
    return False if False in found else None if None in found else True


# --- connectors --------------------------------------------------------------------------------------------------------


def transfer_config(deployment: Deployment) -> dict[str, Any] | None:
    """``--kv-transfer-config`` as JSON, dotted keys folded in; {} where it is not given, None where it cannot be read."""
    config: dict[str, Any] = {}
    entry = deployment.flag("kv-transfer-config")
    if entry is not None:
        try:
            config = json.loads(str(entry.value))
        except ValueError:
            return None
        if not isinstance(config, dict):
            return None
    for flag in deployment.flags:
        head, dot, rest = flag.name.partition(".")
        if head == "kv-transfer-config" and dot:
            _put(config, rest.split("."), flag.value)
    return config


def _put(config: dict[str, Any], keys: list[str], value: Any) -> None:
    for key in keys[:-1]:
        config = config.setdefault(key.replace("-", "_"), {})
        if not isinstance(config, dict):
            return
    text = str(value)
    config[keys[-1].replace("-", "_")] = json.loads(text) if re.fullmatch(r"true|false|-?\d+", text) else value


def connectors(deployment: Deployment) -> frozenset[str] | None:
    """The KV connectors of a vLLM server, those inside MultiConnector and the one behind --kv-offloading-size included; None where the
    transfer config cannot be read."""
    config = transfer_config(deployment)
    if config is None:
        return None
    found = {str(config["kv_connector"])} if config.get("kv_connector") else set()
    extra = config.get("kv_connector_extra_config")
    inner = extra.get("connectors") if isinstance(extra, dict) else None
    if isinstance(inner, list):
        found |= {str(one["kv_connector"]) for one in inner if isinstance(one, dict) and one.get("kv_connector")}
    if _given(deployment, "kv-offloading-size") and _offload_backend(deployment) == "native":
        found.add("OffloadingConnector")
    return frozenset(found)


def _offload_backend(deployment: Deployment) -> str | None:
    if not _given(deployment, "kv-offloading-size"):
        return None
    return str(flag_value(deployment, "kv-offloading-backend") or "native")


def _kv_connector(wanted: list[str], scene: Scene) -> Tri:
    found = connectors(scene.deployment)
    return None if found is None else bool(found & set(wanted))


def _kv_offload(wanted: list[str], scene: Scene) -> Tri:
    found = connectors(scene.deployment)
    backend = _offload_backend(scene.deployment)
    native = found is not None and "OffloadingConnector" in found
    return backend in wanted or ("native" in wanted and native)


def _kv_transfer(wanted: Mapping[str, Any], scene: Scene) -> Tri:
    config = transfer_config(scene.deployment)
    return None if config is None else all(key in config and _same(config[key], one) for key, one in wanted.items())


def _kv_transfer_extra(wanted: Mapping[str, Any], scene: Scene) -> Tri:
    config = transfer_config(scene.deployment)
    if config is None:
        return None
    extra = config.get("kv_connector_extra_config")
    return isinstance(extra, dict) and all(key in extra and _same(extra[key], one) for key, one in wanted.items())


def _transfer_backend(wanted: list[str], scene: Scene) -> Tri:
    name = "disaggregation-transfer-backend"
    return _operator(
        True,
        flag_value(scene.deployment, name) or (None if _given(scene.deployment, name) else "mooncake"),
        wanted,
        None,
    )


#: Connectors that only serve disaggregated prefill and decode; LMCache and offloading connectors also serve a single node.
_PAIR_CONNECTORS: Final = pattern(r"Nixl|MooncakeConnector|PyNccl|P2pNccl|MoRIIO")


def disaggregated(deployment: Deployment) -> bool:
    """True for a prefill or decode role, and for a vLLM server that is both ("kv_both") behind a point-to-point connector."""
    pairing = any(_PAIR_CONNECTORS.match(name) for name in connectors(deployment) or ())
    return deployment.disaggregated or (deployment.engine.value == "vllm" and pairing)


def _role(wanted: list[str], scene: Scene) -> Tri:
    if scene.deployment.disaggregated:
        return scene.deployment.role.value in wanted
    return None if disaggregated(scene.deployment) else False


# --- the model and the machine -----------------------------------------------------------------------------------------


def _model(wanted: list[str], scene: Scene) -> Tri:
    model = scene.deployment.model.text()
    if model is None:
        return None
    name = model.rstrip("/").lower()
    return any(fnmatchcase(part, one.lower()) for one in wanted for part in (name, name.rpartition("/")[2]))


def _model_family(wanted: list[str], scene: Scene) -> Tri:
    entry = family_of(scene.deployment.model.text())
    return None if entry is None or not entry.families else bool(entry.families & set(wanted))


def _multimodal(wanted: bool, scene: Scene) -> Tri:
    if any(_given(scene.deployment, name) for name in ("language-model-only", "language-only")):
        return not wanted
    entry = family_of(scene.deployment.model.text())
    return None if entry is None or entry.multimodal is None else entry.multimodal == wanted


def _kv_heads_below(wanted: str, scene: Scene) -> Tri:
    """Fewer KV heads than attention TP ranks, on any role or on decode."""
    entry = family_of(scene.deployment.model.text())
    roles = [m for m in scene.members if wanted == "attention_tp" or m.role.value == "decode"]
    sizes = [attention_tp(member) for member in roles]
    if entry is None or entry.kv_heads is None or not sizes or None in sizes:
        return None
    return any(size is not None and entry.kv_heads < size for size in sizes)


def attention_tp(deployment: Deployment) -> int | None:
    """Ranks over which attention is split: tensor parallel, divided by the DP-attention size; None where it is not known."""
    fact = deployment.tensor_parallel
    if fact.unknown is not None and fact.unknown.why not in ("not-said", "no-default"):
        return None
    size = fact.number() or 1
    data = deployment.data_parallel.number() or 1
    return max(1, size // data) if _given(deployment, "enable-dp-attention") else size


def _lora(wanted: bool, scene: Scene) -> Tri:
    given = any(_given(scene.deployment, name) for name in ("enable-lora", "lora-modules", "lora-paths", "lora"))
    return given == wanted


def _kv_cache_dtype(wanted: list[str], scene: Scene) -> Tri:
    fact = scene.deployment.kv_cache_dtype
    if fact.unknown is not None and fact.unknown.why not in ("not-said", "no-default"):
        return None
    return str(fact.value or "auto").lower() in wanted


def speculative(deployment: Deployment) -> str | None:
    """The speculative method in lower case, "" for none, None where it cannot be read."""
    for name in ("speculative-algorithm", "speculative-config.method"):
        if _given(deployment, name):
            value = flag_value(deployment, name)
            return None if value is None else _method(str(value))
    entry = deployment.flag("speculative-config")
    if entry is None:
        return ""
    try:
        config = json.loads(str(entry.value))
    except ValueError:
        return None
    return _method(str(config.get("method", ""))) if isinstance(config, dict) else None


def _method(name: str) -> str:
    """vLLM names the same head by model: deepseek_mtp, qwen3_next_mtp, … are mtp."""
    return "mtp" if name.lower().endswith("mtp") else name.lower()


def _speculative(wanted: list[str], scene: Scene) -> Tri:
    found = speculative(scene.deployment)
    return None if found is None else found in [one.lower() for one in wanted]


def _hardware(wanted: list[str], scene: Scene) -> Tri:
    gpu = scene.deployment.gpu.text()
    return None if gpu is None else any(one.lower() in gpu.lower() for one in wanted)


def _replicas(wanted: Mapping[str, int], scene: Scene) -> Tri:
    number = scene.deployment.replicas.number()
    return None if number is None else number >= wanted["min"]


def _parallel(wanted: Mapping[str, int], scene: Scene) -> Tri:
    stages = [m.pipeline_parallel for m in scene.members if m.role.value == "prefill"]
    unknown = any(f.unknown is not None and f.unknown.why not in ("not-said", "no-default") for f in stages)
    largest = max((f.number() or 1 for f in stages), default=None)
    if largest is not None and largest >= wanted["pp_prefill_min"]:
        return True
    return None if unknown or largest is None else False


# --- pairs and capacity ------------------------------------------------------------------------------------------------


def _pair(wanted: list[str], scene: Scene) -> Tri:
    prefill = [m for m in scene.members if m.role.value == "prefill"]
    decode = [m for m in scene.members if m.role.value == "decode"]
    if not prefill or not decode:
        return None  # the other role is deployed from elsewhere
    return _all(_DIFFERENCES[name](prefill, decode) for name in wanted)


def _differ(
    value: Callable[[Deployment], Any], unset: Any = None
) -> Callable[[list[Deployment], list[Deployment]], Tri]:
    """A condition on the values of both roles; where a value is None and ``unset`` is given, the engine's default stands for it."""

    def differ(prefill: list[Deployment], decode: list[Deployment]) -> Tri:
        left, right = ([unset if (v := value(m)) is None else v for m in side] for side in (prefill, decode))
        if None in left or None in right:
            return None
        return set(left) != set(right)

    return differ


_DIFFERENCES: Final[dict[str, Callable[[list[Deployment], list[Deployment]], Tri]]] = {
    "limit_differs": _differ(lambda m: m.first_rejected_length),
    "pool_differs": _differ(lambda m: m.kv_pool_tokens.number()),
    "context_differs": _differ(lambda m: m.context_length.number()),
    "attention_tp_differs": _differ(attention_tp),
    "block_size_differs": _differ(lambda m: m.page_size.number(), unset=0),
    "speculative_differs": _differ(speculative),
}

_OPERATORS: Final[dict[type[ast.AST], Callable[[int, int], int]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
}


def _capacity(wanted: Mapping[str, str], scene: Scene) -> Tri:
    """A comparison over tokens, as the schema has it; None where a number is not proven."""
    left, right = wanted["expr"].split("<")
    small, large = (_arithmetic(ast.parse(side.strip(), mode="eval").body, scene.deployment) for side in (left, right))
    return None if small is None or large is None else small < large


def _arithmetic(node: ast.expr, deployment: Deployment) -> int | None:
    if isinstance(node, ast.Name):
        return _NUMBERS[node.id](deployment)
    if isinstance(node, ast.BinOp):
        left, right = _arithmetic(node.left, deployment), _arithmetic(node.right, deployment)
        return None if left is None or right is None else _OPERATORS[type(node.op)](left, right)
    raise ValueError(ast.dump(node))


def _proven_pool(deployment: Deployment) -> int | None:
    return limits.usable_pool(deployment) if deployment.kv_pool_tokens.proven else None


def _usable(deployment: Deployment) -> int | None:
    pool = _proven_pool(deployment)
    return None if pool is None else pool - page_of(deployment)


_NUMBERS: Final[dict[str, Callable[[Deployment], int | None]]] = {
    "pool": _proven_pool,
    "usable_pool": _usable,
    "context": lambda d: d.context_length.number(),
    "page_size": page_of,
    "block_size": page_of,
    "reserved_decode_tokens": reserve_of,
    "num_gpu_blocks_override": lambda d: (
        int(n) if (n := _number(flag_value(d, "num-gpu-blocks-override"))) is not None else None
    ),
}


# --- what only people know ---------------------------------------------------------------------------------------------


def _lmcache(wanted: Mapping[str, Any], scene: Scene) -> Tri:
    """LMCache's own variables settle its local tiers; its config file is not read."""
    for key, one in wanted.items():
        entry = scene.deployment.env_var(f"LMCACHE_{key.upper()}")
        if entry is not None and entry.value is not None and not _same(entry.value, one):
            return False
    return None


def _kv_cache_config(wanted: Mapping[str, Any], scene: Scene) -> Tri:
    """TensorRT-LLM's YAML, where a file of the repository gives it; its defaults are not ours to say."""
    deployment = scene.deployment
    results: list[Tri] = []
    for key, one in wanted.items():
        name = key.replace("_", "-")
        given = _given(deployment, name)
        results.append(_operator(given, flag_value(deployment, name), one, None) if given else None)
    return _all(results)


def _cache_transceiver(wanted: list[str], scene: Scene) -> Tri:
    value = flag_value(scene.deployment, "cache-transceiver-backend")
    if value is None or str(value).upper() == "DEFAULT":
        return None
    return str(value).upper() in wanted


def _storage(wanted: list[str] | Mapping[str, Any], scene: Scene) -> Tri:
    return str(wanted[0]) in libraries(scene.deployment) if isinstance(wanted, list) else None


def _change(wanted: list[str], scene: Scene) -> Tri:
    """Possible where one of these facts changes against the base: whether the store is kept is a question. Else no."""
    before = scene.before
    changed = before is not None and any(before.fact(n).value != scene.deployment.fact(n).value for n in wanted)
    return None if changed else False


def _policy(wanted: str, scene: Scene) -> Tri:
    """Whether tenants share a prefix cache: not where one has the engine, nor where each has a salt of its own."""
    if scene.salted:
        return False
    return None if scene.tenancy is None else scene.tenancy == "shared"


def _engine_versions(wanted: Mapping[str, str], scene: Scene) -> Tri:
    results: list[Tri] = []
    for engine, spec in wanted.items():
        version = version_of(scene.deployment)
        same = scene.deployment.engine.value == engine
        results.append(False if not same else None if version is None else within(version, spec))
    return _all(results)


def _asked(wanted: Any, scene: Scene) -> Tri:
    return None


_CONDITIONS: Final[dict[str, Callable[[Any, Scene], Tri]]] = {
    "disaggregated": lambda wanted, scene: disaggregated(scene.deployment) == wanted,
    "role": _role,
    "transfer_backend": _transfer_backend,
    "kv_connector": _kv_connector,
    "kv_transfer": _kv_transfer,
    "kv_transfer_extra": _kv_transfer_extra,
    "kv_offload": _kv_offload,
    "flags": _flags,
    "env": _env,
    "model": _model,
    "model_family": _model_family,
    "kv_heads_below": _kv_heads_below,
    "kv_cache_dtype": _kv_cache_dtype,
    "speculative": _speculative,
    "lora": _lora,
    "multimodal": _multimodal,
    "parallel": _parallel,
    "hardware": _hardware,
    "pair": _pair,
    "capacity": _capacity,
    "lmcache": _lmcache,
    "mooncake": _asked,
    "storage": _storage,
    "kv_cache_config": _kv_cache_config,
    "cache_transceiver": _cache_transceiver,
    "replicas": _replicas,
    "engine_versions": _engine_versions,
    "exposure": _asked,
    "change": _change,
    "policy": _policy,
    "runtime": lambda wanted, scene: True,
}
#: The keys of ``when`` that are understood; the schema and a test hold the files to it.
CONDITION_KEYS: Final = frozenset(_CONDITIONS)
