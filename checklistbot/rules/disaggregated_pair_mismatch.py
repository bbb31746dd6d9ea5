"""disaggregated-pair-mismatch: prefill and decode of one group disagree on what they accept, or on their layout (facts: sglang.md 4.1, 4.6).

First rejected lengths are compared, not pools: pools of two roles always differ, and with both large enough the limits are equal.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from typing import Final, Literal, TypeAlias

from checklistbot import engines
from checklistbot.engines.base import version_of
from checklistbot.model import VERDICT_ORDER, Because, Deployment, Edit, Finding, Fix, Status, Verdict
from checklistbot.rules import _limits as limits
from checklistbot.rules._advisories import NAMES as ENGINE_NAMES
from checklistbot.rules.base import (
    Context,
    Language,
    Rule,
    because,
    by_verdict,
    found,
    location,
    number,
    safe_context,
    titled,
)

ID: Final = "disaggregated-pair-mismatch"
Pair: TypeAlias = tuple[Deployment, Deployment]
_SAME: Final = ("model", "engine_version", "page_size", "kv_cache_dtype")

_TITLE: Final[dict[Language, dict[str, str]]] = {
    "en": {
        "leak": "long prompts can be answered with other customers' text",
        "hang": "long prompts hang: decode waits for what prefill refuses",
        "error": "decode refuses prompts that prefill accepts",
        "differs": "prefill and decode differ in {what}",
        "pass": "prefill and decode reject the same lengths",
    },
    "ko": {
        "leak": "긴 프롬프트에 다른 고객의 텍스트가 응답으로 나갈 수 있습니다",
        "hang": "긴 프롬프트가 멈춥니다. prefill이 거부한 요청을 decode가 계속 기다립니다",
        "error": "prefill이 받은 프롬프트를 decode가 거부합니다",
        "differs": "prefill과 decode의 설정이 다릅니다: {what}",
        "pass": "prefill과 decode가 거부하는 길이가 같습니다",
    },
}
_MESSAGE: Final[dict[Language, dict[str, str]]] = {
    "en": {
        "leak": "Prefill rejects prompts of {prefill} tokens and more, decode only from {decode} on. On {engine} below {stopped} prompts of "
        "{low}–{high} tokens are handed on and answered from pages of other requests, with status 200.",
        "hang": "Prefill rejects prompts of {prefill} tokens and more, decode only from {decode} on. Prompts of {low}–{high} tokens wait for "
        "KV that never comes, until the transfer times out (300 s by default).",
        "unsure": "Prefill rejects prompts of {prefill} tokens and more, decode only from {decode} on. What happens to prompts of {low}–{high} "
        "tokens depends on the release: below {stopped} they are answered from other requests' pages.",
        "error": "Prefill accepts prompts of up to {prefill_last} tokens, decode rejects them from {decode} on: they end with an error after "
        "prefill has done its work.",
        "differs": "Prefill has {a}, decode has {b}. Pages are copied between the two as they are.",
        "pass": "Both roles reject prompts of {prefill} tokens and more.",
        "limited": "The gateway in front rejects prompts above {limit} tokens (said in the config), so such prompts do not arrive.",
    },
    "ko": {
        "leak": "prefill은 {prefill} 토큰부터, decode는 {decode} 토큰부터 거부합니다. {stopped} 미만의 {engine}에서는 {low}–{high} 토큰 프롬프트가 그대로 "
        "넘어가 다른 요청의 페이지로 답하게 되고, 상태 코드는 200입니다.",
        "hang": "prefill은 {prefill} 토큰부터, decode는 {decode} 토큰부터 거부합니다. {low}–{high} 토큰 프롬프트는 오지 않을 KV를 전송 시간 초과(기본 300초)까지 기다립니다.",
        "unsure": "prefill은 {prefill} 토큰부터, decode는 {decode} 토큰부터 거부합니다. {low}–{high} 토큰 프롬프트가 어떻게 되는지는 버전에 달려 있습니다. "
        "{stopped} 미만이면 다른 요청의 페이지로 답합니다.",
        "error": "prefill은 {prefill_last} 토큰까지 받지만 decode는 {decode} 토큰부터 거부합니다. prefill이 끝난 뒤에 오류가 납니다.",
        "differs": "prefill은 {a}, decode는 {b}입니다. 페이지는 두 역할 사이에서 그대로 복사됩니다.",
        "pass": "두 역할 모두 {prefill} 토큰부터 거부합니다.",
        "limited": "앞단 게이트웨이가 {limit} 토큰이 넘는 프롬프트를 거부하므로(설정에 적힌 내용) 그런 프롬프트는 도착하지 않습니다.",
    },
}
_NAMES: Final[dict[Language, dict[str, str]]] = {
    "en": {
        "model": "the model",
        "engine_version": "the engine version",
        "page_size": "the page size",
        "kv_cache_dtype": "the KV dtype",
    },
    "ko": {"model": "모델", "engine_version": "엔진 버전", "page_size": "페이지 크기", "kv_cache_dtype": "KV 자료형"},
}
_FIX: Final[dict[Language, str]] = {
    "en": "Give both roles the same context length of at most {safe} tokens (smallest pool − page − reserve).",
    "ko": "두 역할의 컨텍스트 길이를 똑같이 {safe} 토큰 이하(가장 작은 KV 풀 − 페이지 − 예약분)로 두세요.",
}


def evaluate(context: Context) -> Iterator[Finding]:
    for key, members in context.groups():
        together = list(_pairs(members))
        finding = _limits(key, together, context)
        if finding is not None:
            yield finding
        differing = _differs(key, together, context.language)
        if differing is not None:
            yield differing


def _pairs(members: tuple[Deployment, ...]) -> Iterator[Pair]:
    """Prefill and decode workers that serve together: those of one file, else of one folder, else of the group. A repository may hold
    several recipes of one model side by side."""
    decode = [m for m in members if m.role.value == "decode"]
    for p in (m for m in members if m.role.value == "prefill"):
        folder = posixpath.dirname(p.file or "")
        same_file = [d for d in decode if d.file == p.file]
        same_folder = [d for d in decode if posixpath.dirname(d.file or "") == folder]
        yield from ((p, d) for d in same_file or same_folder or decode)


def _limit(deployment: Deployment, side: str) -> int | None:
    """The first rejected length of the role: of its smallest rank for prefill, of its largest for decode."""
    ranks = deployment.kv_pool_tokens.per_rank
    if side == "decode" and ranks and deployment.engine.value == "sglang":
        largest = deployment.kv_pool_tokens.replace(value=int(max(ranks)))
        engine = engines.get(deployment.engine.text())
        return engine.first_rejected_length(deployment.replace(kv_pool_tokens=largest)) if engine else None
    return deployment.first_rejected_length


def _limits(key: str, together: list[Pair], context: Context) -> Finding | None:
    """The gravest and widest window over all pairs; None while a limit is not known."""
    found: list[tuple[tuple[int, int], Pair, tuple[int, int], tuple[Verdict, str, str]]] = []
    for p, d in together:
        low, end = _limit(p, "prefill"), _limit(d, "decode")
        if low is None or end is None or p.engine.value not in ("sglang", "vllm"):
            return None
        decided = _verdict(p, d, low, end)
        if decided is not None:
            found.append(((VERDICT_ORDER.index(decided[0]), low - end), (p, d), (low, end), decided))
    if not found:
        return None
    _, pair, ends, decided = min(found, key=lambda one: one[0])
    members = list({id(m): m for both in together for m in both}.values())
    return _window(key, members, pair, ends, decided, context)


def _window(
    key: str,
    members: list[Deployment],
    pair: Pair,
    ends: tuple[int, int],
    decided: tuple[Verdict, str, str],
    context: Context,
) -> Finding:
    (p, d), (low, end), (verdict, kind, text), language = pair, ends, decided, context.language
    upstream = [context.upstream_limit(p), context.upstream_limit(d)]
    limit = max((u for u in upstream if u is not None), default=None) if None not in upstream else None
    limited = kind == "leak" and limit is not None and limit < low
    message = _MESSAGE[language][text].format(
        prefill=number(low), decode=number(end), prefill_last=number(low - 1), decode_last=number(end - 1),
        low=number(low), high=number(end - 1), engine="SGLang", stopped=limits.HANDOFF_STOPPED,
    )  # fmt: skip
    if limited:
        message = f"{message} {_MESSAGE[language]['limited'].format(limit=number(limit or 0))}"
        verdict = "warn"
    finding = found(
        ID,
        verdict,
        key,
        (titled(_TITLE[language][kind]), message),
        where=location(p, "context_length"),
        why=(*_limit_facts(p), *_limit_facts(d)),
        parameters={
            "engine": ENGINE_NAMES.get(str(p.engine.value), str(p.engine.value)),
            "version": str(p.engine_version.value or "?"),
            "window_low": low if end > low else None,
            "window_high": end - 1 if end > low else None,
            "context": d.context_length.number(),
            "pool": p.kv_pool_tokens.number(),
            "safe_context": safe_context(members),
            "leaves_open": limits.EDGE_LENGTHS if kind == "leak" else None,
            "kind": kind,
        },
    )
    return finding.replace(fix=_fix(members, language)) if verdict in ("block", "warn") else finding


def _limit_facts(deployment: Deployment) -> tuple[Because, ...]:
    role = str(deployment.role.value)
    limit = Because(f"{role} first_rejected_length", deployment.first_rejected_length, deployment.kv_pool_tokens.source)
    facts = because(deployment, "context_length", "kv_pool_tokens")
    return (*(Because(f"{role} {b.fact}", b.value, b.source) for b in facts), limit)


def _verdict(p: Deployment, d: Deployment, low: int, end: int) -> tuple[Verdict, str, str] | None:
    """(verdict, title's key, message's key), None where nothing is to be said.

    Blocks only where the leak and both limits are proven (operations-and-attacks, Blocking f). What decides between leak and hang is the
    release of the prefill side, which hands the rejected request on.
    """
    if end == low:
        return ("pass", "pass", "pass") if _proven(p, "small") and _proven(d, "small") and _proven(p, "large") else None
    if end < low:
        return "warn", "error", "error"
    if p.engine.value == "vllm":
        return None  # vLLM's prefill answers 400 itself, before anything is transferred
    hands_on = limits.hands_rejected_on(p)
    if hands_on:
        proven = _proven(p, "small") and _proven(d, "large")
        return ("block" if proven else "warn"), "leak", "leak"
    return "warn", "hang", "unsure" if hands_on is None else "hang"


def _proven(deployment: Deployment, way: Literal["small", "large"]) -> bool:
    """The context is known for sure, and so is the pool in the direction that counts: a cap proves that a limit is at most so large."""
    return deployment.context_length.proven and limits.certain(deployment, way)


def _fix(members: list[Deployment], language: Language) -> Fix | None:
    safe = safe_context(members)
    if safe is None or not all(m.context_length.proven and m.kv_pool_tokens.proven for m in members):
        return None
    edits = [
        Edit(source.path, source.line, str(m.context_length.value), str(safe))
        for m in members
        if (source := m.context_length.source) and source.kind == "declared" and source.path and source.line
    ]
    return Fix(_FIX[language].format(safe=number(safe)), tuple(edits))


def _differs(key: str, together: list[Pair], language: Language) -> Finding | None:
    """The first pair whose known facts differ."""
    for p, d in together:
        names = [n for n in _SAME if p.fact(n).known and d.fact(n).known and _comparable(p, n) != _comparable(d, n)]
        if names:
            return _differing(key, p, d, names, language)
    return None


def _comparable(deployment: Deployment, name: str) -> object:
    """A fact as two roles are compared by it: a model by its name, however it is mounted; a version without its local part."""
    value = deployment.fact(name).value
    if name == "model":
        return str(value).rstrip("/").rpartition("/")[2].lower()
    if name == "engine_version":
        version = version_of(deployment)
        return version.public if version else value
    return value


def _differing(key: str, p: Deployment, d: Deployment, names: list[str], language: Language) -> Finding:
    what = ", ".join(_NAMES[language][name] for name in names)
    a, b = (", ".join(str(m.fact(name).value) for name in names) for m in (p, d))
    return found(
        ID,
        "warn",
        key,
        (titled(_TITLE[language]["differs"].format(what=what)), _MESSAGE[language]["differs"].format(a=a, b=b)),
        where=location(d, *names),
        why=(*because(p, *names), *because(d, *names)),
        parameters={"kind": "differs", "aspect": "layout", "differs": ",".join(names)},
    )


def _compare(base: Finding, head: Finding) -> Status:
    """A wider window is worse, even at the same verdict."""
    status = by_verdict(base, head)
    if status != "same":
        return status
    before, after = (
        int(f.parameters.get("window_high", 0)) - int(f.parameters.get("window_low", 0)) for f in (base, head)
    )
    return "worse" if after > before else "better" if after < before else "same"


RULE = Rule(
    ID,
    {
        "en": "Prefill and decode of one group reject different prompt lengths, or differ in model, version, page size or KV dtype.",
        "ko": "한 그룹의 prefill과 decode가 거부하는 프롬프트 길이가 다르거나 모델, 버전, 페이지 크기, KV 자료형이 다릅니다.",
    },
    evaluate,
    compare=_compare,
    fires="block",
    leak=True,
    subsumes=(
        "sglang-pd-unequal-limits",
        "vllm-pd-block-size-differs",
        "vllm-decode-reject-pins-prefill",
    ),
    page={
        "en": (
            "Each role refuses prompts from min(context length, KV pool) − 6 tokens on (SGLang). What counts is that length, not the pools: two "
            "pools always differ, and with both large enough the limits are equal.",
            "Where decode accepts more than prefill, prompts between the two lengths are refused by prefill and accepted by decode. Below SGLang "
            "0.5.20 prefill hands them on all the same and decode answers from other requests' pages: it blocks if both limits are declared or "
            "observed, else it warns. From 0.5.20 on they hang until the transfer times out: it warns.",
            "Where decode accepts less, requests fail after prefill has done its work: it warns. It also warns where model, release, page size "
            "or KV dtype of the two roles differ, because pages are copied as they are.",
            "With upstream_limit in .checklistbot.yml below the window the leak warns instead of blocking.",
        ),
        "ko": (
            "각 역할은 min(컨텍스트 길이, KV 풀) − 6 토큰부터 프롬프트를 거부합니다(SGLang). 비교할 것은 풀이 아니라 이 길이입니다. 두 역할의 풀은 "
            "늘 다르지만, 둘 다 충분히 크면 "
            "한도는 같습니다.",
            "decode가 prefill보다 더 긴 프롬프트를 받으면, 두 길이 사이의 프롬프트는 prefill이 거부하고 decode는 받아들입니다. SGLang 0.5.20 미만에서는 prefill이 거부한 요청을 "
            "그대로 넘기고 decode가 다른 요청의 페이지로 답합니다. 두 한도가 모두 선언되거나 관측되었으면 차단하고, 아니면 경고합니다. 0.5.20부터는 전송 시간 초과까지 멈춰 "
            "있으므로 경고합니다.",
            "decode가 더 짧게 받으면 prefill이 끝난 뒤에 요청이 실패하므로 경고합니다. 모델, 릴리스, 페이지 크기, KV 자료형이 두 역할에서 다를 때도 경고합니다. 페이지가 그대로 "
            "복사되기 때문입니다.",
            ".checklistbot.yml의 upstream_limit이 이 구간보다 작으면 유출 판정은 차단 대신 경고가 됩니다.",
        ),
    },
)
