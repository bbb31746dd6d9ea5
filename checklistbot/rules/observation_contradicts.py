"""observation-contradicts: a log or a live server shows another context length than the state it belongs to declares."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from checklistbot.model import Candidate, Deployment, Finding, Status
from checklistbot.rules.base import Context, Language, Rule, because, found, location, number

ID: Final = "observation-contradicts"
#: llama.cpp rounds a slot's context up to this many tokens.
_PADDING: Final = 256
_TITLE: Final[dict[Language, str]] = {
    "en": "{source} says context {said}, {declared_at} says {declared}",
    "ko": "{source}의 컨텍스트는 {said}, {declared_at}의 컨텍스트는 {declared}입니다",
}
_MESSAGE: Final[dict[Language, dict[str, str]]] = {
    "en": {
        "warn": "This change did not cause it. Either the observation is of another deployment, or the option does not reach the server. "
        "Find out which before anything rests on the pool that it shows.",
        "note": "Either the context length was changed after it was taken, or it is of another deployment, or the option does not reach the "
        "server.",
    },
    "ko": {
        "warn": "이 변경이 원인은 아닙니다. 관측이 다른 배포의 것이거나 옵션이 서버에 전달되지 않는 것입니다. 여기서 본 KV 풀을 근거로 삼기 전에 "
        "어느 쪽인지 확인하세요.",
        "note": "관측 뒤에 컨텍스트 길이가 바뀌었거나, 다른 배포의 관측이거나, 옵션이 서버에 전달되지 않는 것입니다.",
    },
}


def evaluate(context: Context) -> Iterator[Finding]:
    for deployment in context.facts.deployments:
        said = _contradiction(deployment)
        if said is None:
            continue
        before = _declared_before(context, deployment)
        if before == said.value:
            continue  # the base agrees with it: the change itself changes the context
        yield _finding(deployment, said, "note" if before is None else "warn", context.language)


def compare(base: Finding, head: Finding) -> Status:
    """The same two lengths are the same finding; without a base of its own, the base's is only a note."""
    return "same" if base.parameters == head.parameters else "worse"


def _contradiction(deployment: Deployment) -> Candidate | None:
    """What was observed and differs from the declared context; what it is rounded up to does not."""
    fact = deployment.context_length
    declared = fact.number()
    if fact.kind != "declared" or declared is None:
        return None
    for other in fact.others:
        seen = other.value
        if other.source.kind != "observed" or isinstance(seen, (bool, str)):
            continue
        padded = deployment.engine.value in ("llama.cpp", "ollama") and 0 <= seen - declared < _PADDING
        if seen != declared and not padded:
            return other
    return None


def _declared_before(context: Context, deployment: Deployment) -> int | None:
    """The context length that the base declares for it."""
    ids = {deployment.id, *(old for old, new in context.pairs.items() if new == deployment.id)}
    bases = context.base.deployments if context.base else ()
    return next((old.context_length.number() for old in bases if old.id in ids), None)


def _finding(deployment: Deployment, said: Candidate, kind: str, language: Language) -> Finding:
    fact = deployment.context_length
    values = {
        "source": str(said.source),
        "said": number(int(said.value)),
        "declared_at": str(fact.source or ""),
        "declared": number(fact.number() or 0),
    }
    return found(
        ID,
        "warn" if kind == "warn" else "note",
        deployment.id,
        (_TITLE[language].format(**values), _MESSAGE[language][kind]),
        where=location(deployment, "context_length"),
        why=because(deployment, "context_length", "kv_pool_tokens"),
        parameters={"observed": said.value, "declared": fact.number()},
    )


RULE = Rule(
    ID,
    {
        "en": "A start-up log or a live server shows another context length than the manifest it belongs to.",
        "ko": "기동 로그나 실행 중인 서버의 컨텍스트 길이가 매니페스트와 다릅니다.",
    },
    evaluate,
    compare,
    page={
        "en": (
            "A changed context length is why most reviews run, so a log that shows the base's is no contradiction. It is one where the base "
            "itself declares something else: the log is of another deployment, or a comment, a second option or an entry point keeps the "
            "option from the server. That warns.",
            "Without a base it cannot be told whether the manifest changed after the log was taken: it is a note.",
        ),
        "ko": (
            "리뷰는 대개 컨텍스트 길이가 바뀔 때 하므로 로그가 기준 브랜치의 값을 보이는 것은 모순이 아닙니다. 기준 브랜치가 이미 다른 값을 선언했다면 "
            "모순입니다. 다른 배포의 로그이거나, 주석·중복 옵션·엔트리포인트 때문에 옵션이 서버에 닿지 않는 것입니다. 이때 경고합니다.",
            "기준이 없으면 로그를 받은 뒤에 매니페스트가 바뀌었는지 알 수 없으므로 참고로만 표시합니다.",
        ),
    },
)
