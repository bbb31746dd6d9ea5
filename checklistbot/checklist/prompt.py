"""The prompt: an incident's lessons and typed facts, in Korean or English, ready to paste into a chat.

No text of the repository goes in: deployments are d1 … dn, and a value goes in only if it matches the grammar of its kind. What
does not is left out and named by kind (DESIGN, "What never happens").
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from checklistbot import resources
from checklistbot.checklist import builtin, incidents
from checklistbot.checklist.assemble import numbered
from checklistbot.checklist.words import Language
from checklistbot.lazy import pattern
from checklistbot.model import Check, Deployment, Fact, Facts, Scalar, UsageError
from checklistbot.record import record

if TYPE_CHECKING:
    import jinja2

    from checklistbot.checklist.incidents import Incident
    from checklistbot.checklist.own import Own, Template

#: More deployments than these get the built-in items only.
MAX_DEPLOYMENTS: Final = 20
#: UTF-8 bytes. What is less important is left out before a prompt gets longer than this.
MAX_BYTES: Final[dict[Language, int]] = {"en": 12_000, "ko": 16_000}
#: Facts that help a person more than they help the checklist: the first to go.
_SECONDARY: Final = (
    "kv_cache_dtype",
    "memory_fraction",
    "tp",
    "pp",
    "dp",
    "replicas",
    "gpu",
    "gpu_count",
    "full_request_needs",
)
_MAX_FINDINGS: Final = 6

# --- the grammar of values ---------------------------------------------------------------------------------------------

_ENGINES: Final = frozenset(("sglang", "vllm", "tensorrt-llm", "lmdeploy", "llama.cpp", "tgi", "ollama"))
_ROLES: Final = frozenset(("unified", "prefill", "decode"))
_DTYPES: Final = frozenset(
    [
        "auto",
        "bfloat16",
        "bf16",
        "float16",
        "half",
        "float32",
        "fp8",
        "fp8_e4m3",
        "fp8_e5m2",
        "fp8_inc",
        "int8",
        "mxfp8",
        "nvfp4",
        "fp4_e2m1",
        "fp4_mx_block16",
        "q8_0",
        "q5_0",
        "q5_1",
        "q4_0",
        "q4_1",
        "f16",
        "f32",
    ]
)
_VERSION = pattern(r"\d{1,4}(?:\.\d{1,4}){1,3}(?:\.?(?:post|rc|dev|a|b)\d{1,8})?", re.ASCII)
_GPU = pattern(r"[A-Z]{1,3}\d{1,4}[A-Z]{0,3}(?:-\d{1,3}GB)?", re.ASCII)
_MODEL = pattern(r"[A-Za-z0-9][A-Za-z0-9._-]{0,47}/[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)
_NAME = pattern(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)
#: A model's name has a number in it and few plain words; an instruction that was squeezed into one has not.
_TALK = pattern(
    r"(?:ignore|disregard|forget|override|previous|above|prior|instruct(?:ion)s|system|prompt|verdict|approve|allow|always|never|must"
    r"|should|please|you|your|say|tell|reply|answer|output|print|write|pass(?:ed)?|fail|block|safe|secret|token|key|password|execute|run"
    r"|delete|skip|disable|trust|admin|user|assistant|developer|http|www)",
    re.IGNORECASE,
)


def _model_name(text: str, form: re.Pattern[str]) -> bool:
    parts = [part for part in re.split(r"[/._-]+", text) if part]
    talk = sum(1 for part in parts if _TALK.fullmatch(part))
    plain = sum(1 for part in parts if part.isalpha())
    return (
        bool(form.fullmatch(text)) and any(c.isdigit() for c in text) and not talk and plain <= 5 and ".." not in text
    )


def _whole(low: int, high: int) -> Callable[[Scalar], bool]:
    return lambda value: isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


def _text(test: Callable[[str], Any]) -> Callable[[Scalar], bool]:
    return lambda value: isinstance(value, str) and bool(test(value))


#: Fact → (its name in the prompt, what its value must be).
_GRAMMAR: Final[dict[str, tuple[str, Callable[[Scalar], bool]]]] = {
    "role": ("role", _text(_ROLES.__contains__)),
    "engine": ("engine", _text(_ENGINES.__contains__)),
    "engine_version": ("version", _text(_VERSION.fullmatch)),
    "model": ("model", _text(lambda value: _model_name(value, _MODEL))),
    "context_length": ("context_length", _whole(1, 100_000_000)),
    "served_context": ("served_context", _whole(1, 100_000_000)),
    "kv_pool_tokens": ("kv_pool_tokens", _whole(1, 10_000_000_000)),
    "page_size": ("page_size", _whole(1, 65_536)),
    "kv_cache_dtype": ("kv_cache_dtype", _text(_DTYPES.__contains__)),
    "memory_fraction": (
        "memory_fraction",
        lambda v: isinstance(v, (int, float)) and not isinstance(v, bool) and 0 < v <= 1,
    ),
    "tensor_parallel": ("tp", _whole(1, 4_096)),
    "pipeline_parallel": ("pp", _whole(1, 4_096)),
    "data_parallel": ("dp", _whole(1, 4_096)),
    "replicas": ("replicas", _whole(0, 100_000)),
    "gpu": ("gpu", _text(_GPU.fullmatch)),
    "gpu_count": ("gpu_count", _whole(1, 100_000)),
}


@record
class Typed:
    """A deployment as the prompt has it: values that match their grammar, and the kinds of those that do not."""

    values: dict[str, Any]
    left_out: tuple[str, ...]


def typed(deployment: Deployment) -> Typed:
    """The facts of one deployment that may leave the repository."""
    values: dict[str, Any] = {}
    left_out: list[str] = []
    for name, (shown, fits) in _GRAMMAR.items():
        fact = deployment.fact(name)
        if fact.value is None:
            continue
        if fits(fact.value):
            values[shown] = fact.value if isinstance(fact.value, (int, float)) else str(fact.value)
        else:
            left_out.append(shown)
    if "model" not in values and (served := _served_name(deployment)) is not None:
        values["model"] = served
        left_out = [kind for kind in left_out if kind != "model"]
    if "kv_pool_tokens" in values:
        values["kv_pool_source"] = _pool_source(deployment.kv_pool_tokens)
    for shown, number in (
        ("first_rejected_length", deployment.first_rejected_length),
        ("full_request_needs", builtin.needs(deployment)),
    ):
        if number is not None and 0 < number <= 10_000_000_000:
            values[shown] = number
    return Typed(values, tuple(left_out))


def _served_name(deployment: Deployment) -> str | None:
    name = deployment.served_model_name.value
    return str(name) if isinstance(name, str) and _model_name(name, _NAME) else None


def _pool_source(fact: Fact) -> str:
    return "upper-bound" if fact.bound else "stale" if fact.stale else fact.kind or "unknown"


# --- findings ----------------------------------------------------------------------------------------------------------

_ID = pattern(r"[a-z0-9][a-z0-9.-]{1,63}", re.ASCII)


def _findings(deployment: Deployment, check: Check) -> list[str]:
    """Rule ids (and advisories) with their verdict: words of our own catalogue, checked all the same."""
    ids = (deployment.id, f"{deployment.environment}/{deployment.group}")
    found = [
        f"{finding.advisory or finding.rule}={finding.verdict}"
        for finding in check.counted
        if finding.deployment in ids and finding.verdict in ("block", "unknown", "warn")
        if _ID.fullmatch(finding.rule) and _ID.fullmatch(finding.advisory or "none")
    ]
    return list(dict.fromkeys(found))[:_MAX_FINDINGS]


def _lines(facts: Facts, check: Check, detail: int) -> Iterator[tuple[str, Typed]]:
    """One JSON object a deployment; group and environment are numbers, so that pairs stay together without names.

    ``detail`` 2 and more holds everything, 1 leaves out secondary facts, 0 findings as well.
    """
    groups: dict[tuple[str, str], str] = {}
    environments: dict[str, str] = {}
    for name, deployment in list(numbered(facts).items())[:MAX_DEPLOYMENTS]:
        entry = typed(deployment)
        values = {
            "id": name,
            "environment": environments.setdefault(deployment.environment, f"e{len(environments) + 1}"),
            "group": groups.setdefault((deployment.environment, deployment.group), f"g{len(groups) + 1}"),
            **{kind: value for kind, value in entry.values.items() if detail >= 2 or kind not in _SECONDARY},
        }
        if detail > 0 and (found := _findings(deployment, check)):
            values["findings"] = found
        yield json.dumps(values, separators=(",", ":")), Typed(values, entry.left_out)


# --- the text ----------------------------------------------------------------------------------------------------------


@cache
def _environment() -> jinja2.Environment:
    from jinja2 import StrictUndefined
    from jinja2.sandbox import SandboxedEnvironment

    return SandboxedEnvironment(
        undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True, autoescape=False
    )


def render(
    facts: Facts,
    check: Check,
    *,
    language: Language,
    own: Own | None = None,
) -> str:
    """The filled prompt, at most MAX_BYTES for ten deployments.

    ``own`` holds a user's own template and incidents. The prompt tells one incident, the user's first or the newest of ours, and a
    lesson of each other one. Raises UsageError with path:line where a template is wrong.
    """
    told, *others = (*(own.incidents if own else ()), *incidents.registry().values())
    text = ""
    for detail in (3, 2, 1, 0):
        values = _values(facts, check, language, told, detail) | {"further_lessons": _further(others, language, detail)}
        text = _fill(own.template if own else None, language, values)
        if len(text.encode("utf-8", "replace")) <= MAX_BYTES[language]:
            break
    return text


def _further(others: Iterable[Incident], language: Language, detail: int) -> list[dict[str, str]]:
    """What the incidents that are not told teach first; the first thing to go where space is short."""
    return [
        {"title": incident.title[language], "topic": topic, "text": texts[language]}
        for incident in others
        for topic, texts in incident.lessons[:1]
        if detail == 3
    ]


def _values(facts: Facts, check: Check, language: Language, incident: Incident, detail: int) -> dict[str, Any]:
    """What a template may use, without ``further_lessons``."""
    lines = list(_lines(facts, check, detail))
    left_out = [f"{line.values['id']}: {', '.join(line.left_out)}" for _, line in lines if line.left_out]
    return {
        "title": incident.title[language],
        "story": " ".join(incident.story[language].split()),
        "preconditions": [texts[language] for texts in incident.preconditions],
        "lessons": [{"topic": topic, "text": texts[language]} for topic, texts in incident.lessons],
        "would_have_caught": [texts[language] for texts in incident.would_have_caught],
        "required_topics": list(incident.required_topics),
        "deployments": [text for text, _ in lines],
        "left_out": left_out,
        "further": max(0, len(facts.deployments) - MAX_DEPLOYMENTS),
        "pools": _pools(line for _, line in lines),
    }


def _pools(lines: Iterable[Typed]) -> list[dict[str, Any]]:
    """Model, context and pool of each deployment for the sentence that states them; None where unknown."""
    names = ("id", "role", "engine", "version", "model", "context_length", "kv_pool_tokens", "first_rejected_length")
    return [{name: line.values.get(name) for name in names} for line in lines]


_MEND: Final = "mend it or leave llm.prompt out"
#: Characters of a filled template of a user's own; ours is far below.
_MAX_FILLED: Final = 200_000


def _fill(template: Template | None, language: Language, values: dict[str, Any]) -> str:
    import jinja2

    path = template.path if template else f"checklist.{language}.md.j2"
    text = template.text if template else resources.text("prompts", path)
    try:
        return _bounded(_environment().from_string(text).generate(values), path)
    except jinja2.TemplateSyntaxError as error:
        raise UsageError(f"{path}:{error.lineno}: the prompt template is wrong there; {_MEND}") from None
    except jinja2.TemplateError as error:
        line = _template_line(error)
        raise UsageError(
            f"{path}:{line}: the prompt template uses a name that is not there or not allowed; {_MEND}"
        ) from None
    except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError, RecursionError, MemoryError) as error:
        raise UsageError(f"{path}:{_template_line(error)}: the prompt template could not be filled; {_MEND}") from None


def _bounded(parts: Iterable[str], path: str) -> str:
    found, size = [], 0
    for part in parts:
        found.append(part)
        size += len(part)
        if size > _MAX_FILLED:
            raise UsageError(f"{path}:1: the prompt template makes more than {_MAX_FILLED:,} characters; {_MEND}")
    return "".join(found)


def _template_line(error: Exception) -> int:
    """The template's line that an error comes from: Jinja rewrites the traceback's line numbers to the template's."""
    line, trace = 1, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename in ("<template>", "<unknown>"):
            line = trace.tb_lineno
        trace = trace.tb_next
    return line


def estimate_tokens(text: str) -> int:
    """Tokens as a guess that needs no tokenizer: four ASCII characters a token, one and a third token a Hangul or other
    wide character pair. Within about a fifth of what current tokenizers count for such prompts; no more than an estimate."""
    ascii_ = sum(1 for character in text if character < "\x80")
    return round(ascii_ / 4 + (len(text) - ascii_) * 0.7)
