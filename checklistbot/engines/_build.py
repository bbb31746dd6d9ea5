"""From a launch and its parsed flags to a deployment: what every engine does in the same way."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from checklistbot.encode import Untrusted, redact
from checklistbot.engines import _images
from checklistbot.engines._flags import Parsed, Table, as_env, as_flag, fact, integer, parse, word_text
from checklistbot.engines.base import Launch, Word
from checklistbot.lazy import pattern
from checklistbot.model import Deployment, Fact, Flag, Source, Unknown
from checklistbot.record import record

if TYPE_CHECKING:
    from packaging.version import Version

#: Variables that decide what an engine does; the rest of the environment is nobody's business.
_ENV_KEPT: Final = pattern(
    r"(?:S?VLLM|SGLANG|SGL|LLAMA_ARG|OLLAMA|TRTLLM|TLLM|LMDEPLOY|TM|DYN|MOONCAKE|NIXL|LMCACHE|UCX|NCCL|TGI)_\w+"
    r"|MAX_(?:TOTAL|INPUT|BATCH)_\w+|MODEL_ID|HF_MODEL_ID|NUM_SHARD|SM_NUM_GPUS|KV_CACHE_DTYPE|CUDA_VISIBLE_DEVICES"
)
#: Where a value that nobody states can come from.
SUPPLY: Final[Mapping[str, tuple[str, ...]]] = {
    "engine_version": ("config", "endpoint"),
    "model": ("config", "endpoint"),
    "context_length": ("log", "endpoint", "config", "pin"),
    "served_context": ("log", "endpoint"),
    "kv_pool_tokens": ("log", "endpoint", "config", "pin"),
    "page_size": ("log", "endpoint", "pin"),
}


@record
class Given:
    """How an engine's flags give one fact."""

    flags: tuple[str, ...]
    convert: Callable[[str], Any]


def program(argv: Sequence[Word]) -> tuple[str, int]:
    """(what is started, index of the first argument): ``-m sglang.launch_server``, ``api_server.py``, ``vllm``; "" for nothing.

    Options of the interpreter before ``-m`` or the script are passed over.
    """
    if not argv:
        return "", 0
    name = re.split(r"[/\\]", argv[0].shown.strip())[-1].removesuffix(".exe")
    if not re.fullmatch(r"(?:python|pypy)[\d.]*w?|py", name):
        return name, 1
    at = 1
    while at < len(argv):
        text = argv[at].text or ""
        if text == "-m":
            return f"-m {argv[at + 1].text or ''}" if at + 1 < len(argv) else "", at + 2
        if text.startswith("-m") and len(text) > 2:
            return f"-m {text[2:]}", at + 1
        if text in ("-X", "-W", "-Q"):
            at += 2
        elif text.startswith("-") and text not in ("-c", "-"):
            at += 1
        else:
            return re.split(r"[/\\]", text)[-1], at + 1
    return "", at


def image_engine(launch: Launch) -> _images.Image | None:
    """The rule of the launch's image, None where there is none or it is not known."""
    return _images.rule_of(launch.image.text) if launch.image and launch.image.text else None


def arguments_only(launch: Launch, engine: str, first: str = r"-{1,2}[A-Za-z]") -> bool:
    """True if the words can only be arguments of the image's entrypoint, and that is this engine's server."""
    rule = image_engine(launch)
    if rule is None or rule.engine != engine or not rule.entrypoint:
        return False
    if not launch.argv:
        return False
    return bool(re.match(first, launch.argv[0].shown))


def version(launch: Launch, engine: str) -> Fact:
    """The engine's version: a pinned package, else the tag of an image that is tagged by it."""
    if launch.version is not None:
        return fact(launch.version, _pep440, supply=SUPPLY["engine_version"])
    image = launch.image
    if image is not None and image.text is not None:
        found = _images.version_of(image.text, engine)
        if found is not None:
            return Fact(Untrusted(found), Source("declared", image.path, image.line))
    return Fact(unknown=Unknown("not-said", supply=SUPPLY["engine_version"]))


def _pep440(text: str) -> str | None:
    match = re.search(r"\d+(?:\.\d+)+(?:\.?(?:post|dev|rc|a|b)\d+)*", text)
    return match[0] if match else None


def as_version(found: Fact) -> Version | None:
    from packaging.version import InvalidVersion, Version

    try:
        return Version(found.text() or "")
    except InvalidVersion:
        return None


def deployment(
    launch: Launch,
    engine: str,
    parsed: Parsed,
    facts: Mapping[str, Given],
    *,
    engine_version: Fact,
    variant: str | None = None,
    made: Mapping[str, Fact | None] | None = None,
) -> Deployment:
    """The deployment of a launch; ``made`` are facts that the engine made itself."""
    found: dict[str, Any] = {}
    for name, given in facts.items():
        last = parsed.last(*given.flags)
        word = last.value if last is not None else None
        if last is not None and len(last.values) > 1 and all(value.text is not None for value in last.values):
            word = Word(",".join(value.text or "" for value in last.values), last.values[0].path, last.values[0].line)
        found[name] = fact(word, given.convert, supply=SUPPLY.get(name, ()))
    found.update({name: value for name, value in (made or {}).items() if value is not None})
    for name, hint in (("model", launch.model), ("served_model_name", launch.served_model_name)):
        if hint is not None and not _said(found.get(name)):
            found[name] = fact(hint, word_text, supply=SUPPLY.get(name, ()))
    found.setdefault("role", role_by_hint(launch))
    found["replicas"] = fact(launch.replicas, integer)
    found["gpu"] = fact(launch.gpu, word_text)
    found["gpu_count"] = fact(launch.gpu_count, integer)
    found["image"] = fact(launch.image, word_text)
    found["world_size"] = world_size(found)
    if not _said(found["gpu_count"]):
        found["gpu_count"] = _of_one_node(found["world_size"], parsed) or found["gpu_count"]
    return Deployment(
        id="",
        name=launch.name,
        environment=launch.environment,
        group="",
        file=launch.path,
        line=launch.line,
        engine=Fact(engine, Source("declared", launch.path, launch.line)),
        engine_version=engine_version,
        variant=variant,
        flags=(*(as_flag(entry) for entry in parsed.given), *_lost(launch)),
        env=tuple(as_env(name, word) for name, word in launch.env.items() if _ENV_KEPT.fullmatch(name)),
        **found,
    )


def _lost(launch: Launch) -> Iterator[Flag]:
    """Flags that the file shows and the server never sees; they are no facts."""
    for entry in parse(launch.lost, Table({})).given:
        yield dataclasses.replace(as_flag(entry), reaches_server=False)


def _said(value: Any) -> bool:
    return isinstance(value, Fact) and (value.known or (value.unknown is not None and value.unknown.why != "not-said"))


def _of_one_node(world: Fact, parsed: Parsed) -> Fact | None:
    """GPUs of one node where ``--nnodes`` says how many share one replica; None where it does not, or where they do not divide."""
    nodes = parsed.last("nnodes")
    count = integer(nodes.value.text) if nodes is not None and nodes.value is not None and nodes.value.text else None
    total = world.number()
    if count is None or count < 1 or total is None or total % count:
        return None
    return Fact(total // count, world.source)


def world_size(found: Mapping[str, Any]) -> Fact:
    """GPUs of one engine replica: tensor × pipeline parallel, where the first is said."""
    tensor, pipeline = found.get("tensor_parallel"), found.get("pipeline_parallel")
    if not isinstance(tensor, Fact) or not isinstance(tensor.value, int):
        return Fact(unknown=Unknown("not-said"))
    stages = pipeline.value if isinstance(pipeline, Fact) and isinstance(pipeline.value, int) else 1
    if isinstance(pipeline, Fact) and pipeline.unknown is not None and pipeline.unknown.why != "not-said":
        return Fact(unknown=pipeline.unknown)
    return Fact(tensor.value * stages, tensor.source)


_ROLE_WORD: Final = pattern(r"(?:^|[^a-z])(prefill|decode)(?:er|r)?(?=$|[^a-z])")


def role_word(text: str | None) -> str | None:
    """``prefill`` or ``decode`` where exactly one of the two words stands in a name."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", text or "").lower()
    found = set(_ROLE_WORD.findall(spaced))
    return found.pop() if len(found) == 1 else None


def role_by_hint(launch: Launch) -> Fact:
    """The role that the manifest states (a CRD's field, a label), else unified by default."""
    if launch.role is not None:
        role = role_word(launch.role.text)
        if role is not None:
            return Fact(role, Source("declared", launch.role.path, launch.role.line))
    return Fact("unified", Source("default"))


def role_by_name(launch: Launch) -> Fact:
    """The role by manifest, else by the names of workload, object and file: for a launch that is disaggregated by its flags."""
    stated = role_by_hint(launch)
    if stated.kind == "declared":
        return stated
    for name in (launch.qualifier, launch.name, launch.path.rpartition("/")[2], launch.path):
        role = role_word(name)
        if role is not None:
            return Fact(role, Source("declared", launch.path, launch.line))
    return stated


def text_of(word: Word | None) -> str:
    return redact(word.text) if word is not None and word.text is not None else ""


def capped(found: Deployment) -> Deployment:
    """The deployment whose declared pool is only a cap: the engine takes the smaller of it and what fits (operations-and-attacks 10)."""
    pool = found.kv_pool_tokens
    return found.replace(kv_pool_tokens=pool.replace(bound="upper")) if pool.known else found
