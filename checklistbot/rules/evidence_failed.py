"""evidence-failed: a probe of this deployment found foreign or wrong text. Whoever brings it, it counts to the worse."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from checklistbot.model import Finding
from checklistbot.rules._evidence import results_for
from checklistbot.rules.base import Context, Language, Rule, found, location

ID: Final = "evidence-failed"
_TITLE: Final[dict[Language, str]] = {
    "en": "The canary test failed",
    "ko": "카나리 테스트가 실패했습니다",
}
_MESSAGE: Final[dict[Language, str]] = {
    "en": "A probe of {environment} (finished {finished}) counted {counts}. Do not deploy this state before the cause is known.",
    "ko": "{environment} 프로브({finished} 종료) 결과: {counts}. 원인을 알기 전에는 이 상태를 배포하지 마세요.",
}


def evaluate(context: Context) -> Iterator[Finding]:
    policy = context.config.require_evidence
    for key, members in context.groups():
        environments = {None, policy.environment if policy else None}
        results = [r for one in environments for r in results_for(key, context, one) if r.get("verdict") == "fail"]
        if results:
            last = max(results, key=lambda result: str(result.get("finished")))
            counts = last.get("counts")
            fails = {k: v for k, v in counts.items() if str(k).startswith("FAIL")} if isinstance(counts, dict) else {}
            message = _MESSAGE[context.language].format(
                environment=last.get("environment"),
                finished=str(last.get("finished"))[:10],
                counts=", ".join(f"{kind} {n}" for kind, n in sorted(fails.items())) or "FAIL",
            )
            text = (_TITLE[context.language], message)
            yield found(ID, "block" if policy else "warn", key, text, where=location(members[0]))


RULE = Rule(
    ID,
    {
        "en": "A probe of this deployment found foreign text, wrong text or a hang.",
        "ko": "이 배포를 프로브한 결과 다른 요청의 텍스트, 틀린 텍스트, 멈춤이 나왔습니다.",
    },
    evaluate,
    fires="block",
    waivable=False,
    two_people=True,
    leak=True,
    page={
        "en": (
            "Any result that is bound to the group counts here, also one that the pull request brings itself: it can only make things worse. It blocks where the "
            "config has require_evidence, else it warns.",
        ),
        "ko": (
            "그룹에 묶인 결과라면 풀 리퀘스트가 직접 가져온 것이라도 셉니다. 상황을 나쁘게만 할 수 있기 때문입니다. 설정에 require_evidence가 있으면 "
            "차단하고, 없으면 경고합니다.",
        ),
    },
)
