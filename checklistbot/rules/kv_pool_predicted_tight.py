"""kv-pool-predicted-tight: a predicted or out-of-date pool may not hold a full-length request. It warns; it neither blocks nor passes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from checklistbot import engines
from checklistbot.model import Deployment, Finding
from checklistbot.rules.base import Context, Language, Rule, because, found, location, number, role_of, titled

ID: Final = "kv-pool-predicted-tight"
_TITLE: Final[dict[Language, str]] = {
    "en": "{role}KV pool may not hold the full context length",
    "ko": "{role}KV 풀이 컨텍스트 길이 전체를 담지 못할 수 있습니다",
}
_MESSAGE: Final[dict[Language, dict[str, str]]] = {
    "en": {
        "predicted": "Predicted are {pool} tokens ({low}–{high}); a request of {context} tokens needs {needs}. A prediction is no proof: measure "
        "the pool with a start-up log, or lower the context length.",
        "stale": "The pool was {pool} tokens ({source}) before {stale} changed; a request of {context} tokens needs {needs}. Take a new log "
        "before the deploy.",
    },
    "ko": {
        "predicted": "예측한 KV 풀은 {pool} 토큰({low}–{high})이고, {context} 토큰짜리 요청에는 {needs} 토큰이 필요합니다. 예측은 증거가 아닙니다. 기동 로그로 풀을 "
        "측정하거나 컨텍스트 길이를 낮추세요.",
        "stale": "{stale} 값이 바뀌기 전의 KV 풀은 {pool} 토큰({source})이었고, {context} 토큰짜리 요청에는 {needs} 토큰이 필요합니다. 배포 전에 로그를 새로 받으세요.",
    },
}


def evaluate(context: Context) -> Iterator[Finding]:
    for deployment in context.facts.deployments:
        fact, length = deployment.kv_pool_tokens, deployment.context_length.number()
        guessed = fact.known and (fact.stale or fact.kind == "predicted")
        if not guessed or length is None:
            continue
        engine = engines.get(deployment.engine.text())
        needs = max(length, (engine.full_request_needs(deployment) if engine else None) or length)
        low = int(fact.low) if fact.low is not None else fact.number() or 0
        if low < needs:
            yield _finding(deployment, length, needs, context.language)


def _finding(deployment: Deployment, length: int, needs: int, language: Language) -> Finding:
    fact, role = deployment.kv_pool_tokens, str(deployment.role.value)
    kind = "stale" if fact.stale else "predicted"
    stale = ", ".join(fact.observation.stale) if fact.observation else ""
    message = _MESSAGE[language][kind].format(
        pool=number(fact.number() or 0), low=number(int(fact.low or 0)), high=number(int(fact.high or 0)),
        context=number(length), needs=number(needs), source=fact.source or "", stale=stale,
    )  # fmt: skip
    return found(
        ID,
        "warn",
        deployment.id,
        (titled(_TITLE[language].format(role=role_of(deployment))), message),
        where=location(deployment, "context_length"),
        why=because(deployment, "context_length", "kv_pool_tokens"),
        parameters={"role": role, "pool": fact.number(), "context": length, "needs": needs},
    )


RULE = Rule(
    ID,
    {
        "en": "A predicted or out-of-date KV pool may be smaller than what one request is promised.",
        "ko": "예측했거나 낡은 KV 풀 값으로 보면 요청 하나에 약속된 길이보다 작을 수 있습니다.",
    },
    evaluate,
    page={
        "en": (
            "A prediction has an interval, and the lower end counts: if it lies below what one full-length request needs, this rule warns. The same "
            "holds for a pool that was observed before an input of the deployment changed.",
            "It only warns: what blocks is a declared or validly observed pool (kv-pool-below-context).",
        ),
        "ko": (
            "예측값에는 구간이 있고, 아래쪽 끝을 봅니다. 그 값이 최대 길이 요청 하나에 필요한 크기보다 작으면 경고합니다. 배포 설정이 바뀌기 전에 관측한 풀도 마찬가지입니다.",
            "이 규칙은 경고만 합니다. 차단은 선언되었거나 유효하게 관측된 풀로만 합니다(kv-pool-below-context).",
        ),
    },
)
