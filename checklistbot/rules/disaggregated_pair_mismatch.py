"""disaggregated-pair-mismatch: prefill and decode of one group disagree on what they accept, or on their layout (facts: sglang.md 4.1, 4.6).

First rejected lengths are compared, not pools: pools of two roles always differ, and with both large enough the limits are equal.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from checklistbot.engines.base import below, version_of
from checklistbot.model import Because, Deployment, Edit, Finding, Fix, Status, Verdict
from checklistbot.rules.base import Context, Language, Rule, because, by_verdict, found, location, number, safe_context

ID: Final = "disaggregated-pair-mismatch"
#: The release that stops handing rejected requests on; before it the open window leaks, after it requests hang.
_HANDOFF_STOPPED: Final = "0.5.20"
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
        "hang": "긴 프롬프트가 멈춥니다. 프리필이 거절한 요청을 디코드가 계속 기다립니다",
        "error": "프리필이 받은 프롬프트를 디코드가 거절합니다",
        "differs": "프리필과 디코드의 설정이 다릅니다: {what}",
        "pass": "프리필과 디코드가 거절하는 길이가 같습니다",
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
    },
    "ko": {
        "leak": "프리필은 {prefill} 토큰부터, 디코드는 {decode} 토큰부터 거절합니다. {stopped} 미만의 {engine}에서는 {low}–{high} 토큰 프롬프트가 그대로 "
        "넘어가 다른 요청의 페이지로 답하게 되고, 상태 코드는 200입니다.",
        "hang": "프리필은 {prefill} 토큰부터, 디코드는 {decode} 토큰부터 거절합니다. {low}–{high} 토큰 프롬프트는 오지 않을 KV를 전송 시간 초과(기본 300초)까지 기다립니다.",
        "unsure": "프리필은 {prefill} 토큰부터, 디코드는 {decode} 토큰부터 거절합니다. {low}–{high} 토큰 프롬프트가 어떻게 되는지는 버전에 달려 있습니다. "
        "{stopped} 미만이면 다른 요청의 페이지로 답합니다.",
        "error": "프리필은 {prefill_last} 토큰까지 받지만 디코드는 {decode} 토큰부터 거절합니다. 프리필이 끝난 뒤에 오류가 납니다.",
        "differs": "프리필은 {a}, 디코드는 {b}입니다. 페이지는 두 역할 사이에서 그대로 복사됩니다.",
        "pass": "두 역할 모두 {prefill} 토큰부터 거절합니다.",
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
        prefill = [m for m in members if m.role.value == "prefill"]
        decode = [m for m in members if m.role.value == "decode"]
        if not prefill or not decode:
            continue
        finding = _limits(key, prefill, decode, context.language)
        if finding is not None:
            yield finding
        differing = _differs(key, prefill[0], decode[0], context.language)
        if differing is not None:
            yield differing


def _limits(key: str, prefill: list[Deployment], decode: list[Deployment], language: Language) -> Finding | None:
    """The widest window over all pairs: the smallest prefill limit against the largest decode limit."""
    if any(m.first_rejected_length is None for m in (*prefill, *decode)) or prefill[0].engine.value != "sglang":
        return None
    p = min(prefill, key=lambda m: m.first_rejected_length or 0)
    d = max(decode, key=lambda m: m.first_rejected_length or 0)
    low, high = p.first_rejected_length or 0, (d.first_rejected_length or 0) - 1
    verdict, kind, text = _verdict(p, d, low, high + 1)
    version = str(p.engine_version.value or "?")
    message = _MESSAGE[language][text].format(
        prefill=number(low), decode=number(high + 1), prefill_last=number(low - 1), low=number(low), high=number(high),
        engine="SGLang", stopped=_HANDOFF_STOPPED,
    )  # fmt: skip
    title = _TITLE[language][kind]
    finding = found(
        ID,
        verdict,
        key,
        (title[0].upper() + title[1:], message),
        where=location(p, "context_length"),
        why=(*_limit_facts(p), *_limit_facts(d)),
        parameters={
            "engine": "SGLang",
            "version": version,
            "window_low": low if high >= low else None,
            "window_high": high if high >= low else None,
            "context": d.context_length.number(),
            "pool": p.kv_pool_tokens.number(),
            "safe_context": safe_context([*prefill, *decode]),
            "kind": kind,
        },
    )
    return finding.replace(fix=_fix([*prefill, *decode], language)) if verdict in ("block", "warn") else finding


def _limit_facts(deployment: Deployment) -> tuple[Because, ...]:
    role = str(deployment.role.value)
    limit = Because(f"{role} first_rejected_length", deployment.first_rejected_length, deployment.kv_pool_tokens.source)
    return (
        *(
            Because(f"{role} {b.fact}", b.value, b.source)
            for b in because(deployment, "context_length", "kv_pool_tokens")
        ),
        limit,
    )


def _verdict(p: Deployment, d: Deployment, low: int, end: int) -> tuple[Verdict, str, str]:
    """(verdict, title's key, message's key). Blocks only where the leak and both limits are proven (operations-and-attacks, Blocking f)."""
    if end == low:
        return ("pass" if _proven(p) and _proven(d) else "note"), "pass", "pass"
    if end < low:
        return "warn", "error", "error"
    versions = [version_of(p), version_of(d)]
    if any(v is not None and below(v, _HANDOFF_STOPPED) for v in versions):
        return ("block" if _proven(p) and _proven(d) else "warn"), "leak", "leak"
    return ("warn", "hang", "unsure") if None in versions else ("warn", "hang", "hang")


def _proven(deployment: Deployment) -> bool:
    """Both inputs of the limit are declared or validly observed; a declared cap that binds is enough (the pool can only be smaller)."""
    return deployment.kv_pool_tokens.proven and deployment.context_length.proven


def _fix(members: list[Deployment], language: Language) -> Fix | None:
    safe = safe_context(members)
    if safe is None or not all(_proven(m) for m in members):
        return None
    edits = [
        Edit(source.path, source.line, str(m.context_length.value), str(safe))
        for m in members
        if (source := m.context_length.source) and source.kind == "declared" and source.path and source.line
    ]
    return Fix(_FIX[language].format(safe=number(safe)), tuple(edits))


def _differs(key: str, p: Deployment, d: Deployment, language: Language) -> Finding | None:
    names = [
        name for name in _SAME if p.fact(name).known and d.fact(name).known and p.fact(name).value != d.fact(name).value
    ]
    if not names:
        return None
    what = ", ".join(_NAMES[language][name] for name in names)
    a, b = (", ".join(str(m.fact(name).value) for name in names) for m in (p, d))
    title = _TITLE[language]["differs"].format(what=what)
    return found(
        ID,
        "warn",
        key,
        (title[0].upper() + title[1:], _MESSAGE[language]["differs"].format(a=a, b=b)),
        where=location(d, *names),
        why=(*because(p, *names), *because(d, *names)),
        parameters={"kind": "differs", "aspect": "layout"},
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
        "ko": "한 그룹의 프리필과 디코드가 거절하는 프롬프트 길이가 다르거나 모델, 버전, 페이지 크기, KV 자료형이 다릅니다.",
    },
    evaluate,
    compare=_compare,
    subsumes=("sglang-pd-unequal-limits",),
)
