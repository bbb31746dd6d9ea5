"""evidence-stale: there is a probe result, but of another configuration or too old."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from checklistbot.model import Finding
from checklistbot.rules._evidence import standing
from checklistbot.rules.base import Context, Language, Rule, found, location

ID: Final = "evidence-stale"
_TITLE: Final[dict[Language, str]] = {
    "en": "The canary test was run on another state",
    "ko": "카나리 테스트 증거가 지금 상태의 것이 아닙니다",
}
_MESSAGE: Final[dict[Language, str]] = {
    "en": "{why} Run the probe again before the deploy.",
    "ko": "{why} 배포 전에 프로브를 다시 돌리세요.",
}
_WHY: Final[dict[Language, dict[str, str]]] = {
    "en": {
        "behaviour": "Engine, model, roles or transfer settings have changed since.",
        "capacity": "Sizes (context, page, memory, GPU, parallelism) have changed since.",
        "age": "It is older than the {days} days that the policy allows.",
    },
    "ko": {
        "behaviour": "그 뒤로 엔진, 모델, 역할, 전송 설정이 바뀌었습니다.",
        "capacity": "그 뒤로 크기(컨텍스트, 페이지, 메모리, GPU, 병렬)가 바뀌었습니다.",
        "age": "정책이 허용하는 {days}일보다 오래되었습니다.",
    },
}


def evaluate(context: Context) -> Iterator[Finding]:
    policy = context.config.require_evidence
    if policy is None:
        return
    for key, members in context.groups():
        result = standing(key, context, policy)
        if result.kind == "stale":
            message = _MESSAGE[context.language].format(
                why=_WHY[context.language][result.reason].format(days=policy.max_age_days)
            )
            yield found(
                ID,
                "warn",
                key,
                (_TITLE[context.language], message),
                where=location(members[0]),
                parameters={"reason": result.reason},
            )


RULE = Rule(
    ID,
    {
        "en": "The probe result was taken on another configuration, or it is too old.",
        "ko": "프로브 결과가 다른 설정에서 나왔거나 너무 오래되었습니다.",
    },
    evaluate,
    page={
        "en": (
            "A result is bound to digests of the configuration it was taken on: behaviour (engine, release or image, model, roles, connector, "
            "transfer and cache options) and capacity (sizes). The policy says which of them must match.",
        ),
        "ko": (
            "결과는 테스트한 설정의 다이제스트에 묶여 있습니다. behaviour는 엔진·릴리스(또는 이미지)·모델·역할·커넥터·전송과 캐시 옵션, capacity는 "
            "크기들입니다. 어느 것이 일치해야 하는지는 정책이 정합니다.",
        ),
    },
)
