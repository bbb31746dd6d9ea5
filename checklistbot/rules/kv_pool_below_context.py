"""kv-pool-below-context: the KV pool cannot hold one request of the promised length (facts: sglang.md 4.6, vllm.md)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from checklistbot import engines
from checklistbot.model import Deployment, Edit, Finding, Fix, Status, Verdict
from checklistbot.rules.base import Context, Language, Rule, because, by_verdict, found, location, number, safe_context

ID: Final = "kv-pool-below-context"

_TITLE: Final[dict[Language, dict[str, str]]] = {
    "en": {
        "below": "{role} KV pool is smaller than the context length",
        "tight": "{role} KV pool leaves no room beside a full-length prompt",
        "fits": "{role} KV pool holds the full context length",
    },
    "ko": {
        "below": "{role} KV 풀이 컨텍스트 길이보다 작습니다",
        "tight": "{role} KV 풀에 최대 길이 프롬프트 외의 여유가 없습니다",
        "fits": "{role} KV 풀이 컨텍스트 길이 전체를 담습니다",
    },
}
_MESSAGE: Final[dict[Language, dict[str, str]]] = {
    "en": {
        "below": "The pool holds {pool} tokens ({how}), a request is promised {context}: {missing} tokens are missing. {what}",
        "tight": "The pool holds {pool} tokens ({how}); a request of {context} tokens needs {needs} with page and reserve. "
        "{missing} tokens are missing: such a request can wait for ever.",
        "fits": "The pool holds {pool} tokens ({how}), a request is promised {context}.",
        "leak": "Prompts of {rejected} tokens and more are refused by this worker; on an engine that hands refused requests on, "
        "they are answered from other requests' pages.",
        "refused": "Prompts of {rejected} tokens and more are answered with an error.",
        "no-start": "The engine refuses to start with such a configuration.",
        "plain": "Requests that need more than the pool cannot be served.",
        "derived": "Nobody promised this context length, the engine derives it from the model: pin it to what the pool holds.",
        "stale": "The observation is out of date ({stale} changed), so this is no proof.",
    },
    "ko": {
        "below": "KV 풀은 {pool} 토큰({how})인데 요청 하나에 약속된 길이는 {context} 토큰이라 {missing} 토큰이 모자랍니다. {what}",
        "tight": "KV 풀은 {pool} 토큰({how})이고, {context} 토큰짜리 요청은 페이지와 예약분까지 {needs} 토큰이 필요합니다. "
        "{missing} 토큰이 모자라 이런 요청은 끝없이 대기할 수 있습니다.",
        "fits": "KV 풀은 {pool} 토큰({how}), 요청 하나에 약속된 길이는 {context} 토큰입니다.",
        "leak": "이 워커는 {rejected} 토큰 이상인 프롬프트를 거절합니다. 거절된 요청을 그대로 넘기는 엔진이라면 다른 요청이 남긴 페이지로 답하게 됩니다.",
        "refused": "{rejected} 토큰 이상인 프롬프트에는 오류로 응답합니다.",
        "no-start": "이 설정으로는 엔진이 기동하지 않습니다.",
        "plain": "KV 풀보다 큰 요청은 처리할 수 없습니다.",
        "derived": "컨텍스트 길이를 선언한 곳이 없어 엔진이 모델에서 가져온 값입니다. KV 풀이 담을 수 있는 길이로 고정하세요.",
        "stale": "관측값을 얻은 뒤 설정({stale})이 바뀌어 증거로 쓸 수 없습니다.",
    },
}
_HOW: Final[dict[Language, dict[str, str]]] = {
    "en": {"declared": "declared", "observed": "observed", "predicted": "predicted", "default": "default",
           "cap": "declared cap, the real pool can only be smaller"},
    "ko": {"declared": "선언", "observed": "관측", "predicted": "예측", "default": "기본값",
           "cap": "선언된 상한, 실제 풀은 더 작을 수만 있음"},
}  # fmt: skip
_FIX: Final[dict[Language, str]] = {
    "en": "Set the context length to {safe} on every role of {group} (smallest pool − page − reserve), or give the pool room for {context}.",
    "ko": "{group}의 모든 역할에서 컨텍스트 길이를 {safe}(가장 작은 KV 풀 − 페이지 − 예약분)로 낮추거나, KV 풀이 {context} 토큰을 담도록 늘리세요.",
}


def evaluate(context: Context) -> Iterator[Finding]:
    for _, members in context.groups():
        for deployment in members:
            finding = _judge(deployment, members, context.language)
            if finding is not None:
                yield finding


def _judge(deployment: Deployment, members: tuple[Deployment, ...], language: Language) -> Finding | None:
    pool, length = deployment.kv_pool_tokens.number(), deployment.context_length.number()
    if pool is None or length is None:
        return None
    if pool < length:
        return _below(deployment, members, pool, length, language)
    engine = engines.get(deployment.engine.text())
    needs = engine.full_request_needs(deployment) if engine else None
    if not deployment.kv_pool_tokens.proven:
        return None  # kv-pool-unknown says what is missing; nothing passes on an upper bound or a stale value
    kind = "tight" if needs is not None and pool < needs else "fits"
    verdict: Verdict = "warn" if kind == "tight" else "pass"
    return _finding(deployment, verdict, kind, pool, length, language, needs=needs)


def _below(
    deployment: Deployment, members: tuple[Deployment, ...], pool: int, length: int, language: Language
) -> Finding:
    """Blocks where both numbers are proven (a declared cap is proof of "too small"); warns on predictions and derived contexts."""
    fact = deployment.kv_pool_tokens
    promised = deployment.context_length.kind == "declared"
    certain = (fact.proven or fact.bound == "upper") and not fact.stale
    finding = _finding(deployment, "block" if certain and promised else "warn", "below", pool, length, language)
    return finding.replace(fix=_fix(members, length, language))


def _consequence(deployment: Deployment, language: Language) -> str:
    texts, rejected = _MESSAGE[language], deployment.first_rejected_length
    engine = deployment.engine.value
    if engine == "vllm":
        what = texts["no-start"]
    elif engine == "sglang" and rejected is not None:
        what = texts["leak" if deployment.disaggregated else "refused"].format(rejected=number(rejected))
    else:
        what = texts["plain"]
    if deployment.kv_pool_tokens.observation and deployment.kv_pool_tokens.stale:
        return texts["stale"].format(stale=", ".join(deployment.kv_pool_tokens.observation.stale))
    return what if deployment.context_length.kind == "declared" else f"{what} {texts['derived']}"


def _finding(
    deployment: Deployment,
    verdict: Verdict,
    kind: str,
    pool: int,
    length: int,
    language: Language,
    needs: int | None = None,
) -> Finding:
    fact = deployment.kv_pool_tokens
    missing = (needs if kind == "tight" and needs is not None else length) - pool
    how = _HOW[language]["cap" if fact.bound else fact.kind or "predicted"]
    role = str(deployment.role.value)
    values = {
        "pool": number(pool),
        "context": number(length),
        "missing": number(missing),
        "needs": number(needs or length),
        "how": how,
        "what": _consequence(deployment, language) if kind == "below" else "",
    }
    title = _TITLE[language][kind].format(role=role).strip()
    return found(
        ID,
        verdict,
        deployment.id,
        (title[0].upper() + title[1:], _MESSAGE[language][kind].format(**values).strip()),
        where=location(deployment, "context_length"),
        why=because(deployment, "context_length", "kv_pool_tokens", "page_size"),
        parameters={
            "role": role,
            "pool": pool,
            "context": length,
            "missing": max(missing, 0),
            "needs": needs,
            "page": deployment.page_size.number(),
            "first_rejected": deployment.first_rejected_length,
        },
    )


def _fix(members: tuple[Deployment, ...], length: int, language: Language) -> Fix | None:
    safe = safe_context(members)
    if safe is None or any(member.kv_pool_tokens.stale for member in members):
        return None
    edits = []
    for member in members:
        source, value = member.context_length.source, member.context_length.value
        if (
            source
            and source.kind == "declared"
            and source.path
            and source.line
            and (member.context_length.number() or 0) > safe
        ):
            edits.append(Edit(source.path, source.line, str(value), str(safe)))
    text = _FIX[language].format(safe=number(safe), group=members[0].group, context=number(length))
    return Fix(text, tuple(edits))


def _compare(base: Finding, head: Finding) -> Status:
    """Missing more tokens than before is worse, even at the same verdict."""
    status = by_verdict(base, head)
    if status != "same":
        return status
    before, after = int(base.parameters.get("missing", 0)), int(head.parameters.get("missing", 0))
    return "worse" if after > before else "better" if after < before else "same"


RULE = Rule(
    ID,
    {
        "en": "The KV pool of a worker is smaller than what one request is promised.",
        "ko": "워커의 KV 풀이 요청 하나에 약속된 길이보다 작습니다.",
    },
    evaluate,
    compare=_compare,
    subsumes=("sglang-pool-below-context",),
)
