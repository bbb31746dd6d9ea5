"""evidence-missing: the policy asks for a probe result, and there is none."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from checklistbot.model import Finding
from checklistbot.rules._evidence import standing
from checklistbot.rules.base import Context, Language, Rule, found, location

ID: Final = "evidence-missing"
_TITLE: Final[dict[Language, str]] = {
    "en": "The canary test has not been run",
    "ko": "카나리 테스트를 돌린 증거가 없습니다",
}
_MESSAGE: Final[dict[Language, str]] = {
    "en": "The policy asks for a passed probe (profile {profile}) of environment {environment}, from a run of this repository or signed. It is "
    "needed before the deploy: checklistbot probe URL --facts FILE.",
    "ko": "정책은 {environment} 환경에서 통과한 프로브(프로필 {profile})를 요구하며, 이 저장소의 실행에서 나왔거나 서명된 것이어야 합니다. 배포 전에 "
    "필요합니다: checklistbot probe URL --facts FILE.",
}


def evaluate(context: Context) -> Iterator[Finding]:
    policy = context.config.require_evidence
    if policy is None:
        return
    for key, members in context.groups():
        result = standing(key, context, policy)
        if result.kind == "missing":
            message = _MESSAGE[context.language].format(profile=policy.profile, environment=policy.environment)
            yield found(ID, "warn", key, (_TITLE[context.language], message), where=location(members[0]))


RULE = Rule(
    ID,
    {
        "en": "The policy requires a probe result for this deployment, and none is there.",
        "ko": "정책이 요구하는 프로브 결과가 없습니다.",
    },
    evaluate,
    page={
        "en": (
            "require_evidence in the config names the environment that counts, the digests that must match, the age and the profile. Accepted are "
            "results of a workflow run of this repository and signed ones; a file alone can be written by anybody. It warns: the result is needed "
            "before the deploy, not before the merge.",
        ),
        "ko": (
            "설정의 require_evidence에 기준 환경, 일치해야 하는 다이제스트, 기한, 프로필을 적습니다. 이 저장소의 워크플로 실행 결과와 서명된 결과만 "
            "인정합니다. 파일은 누구나 만들 수 있기 때문입니다. 병합 전이 아니라 배포 전에 필요한 것이므로 경고합니다.",
        ),
    },
)
