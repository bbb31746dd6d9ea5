"""deployment-disappeared: a deployment of the base is not found in the head (operations-and-attacks 6)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from checklistbot.changes import pair
from checklistbot.model import Deployment, Finding, Location
from checklistbot.rules.base import Context, Language, Rule, found

ID: Final = "deployment-disappeared"
_TITLE: Final[dict[Language, str]] = {
    "en": "A deployment of the base is no longer found",
    "ko": "베이스에 있던 배포가 더 이상 보이지 않습니다",
}
_MESSAGE: Final[dict[Language, str]] = {
    "en": "{name} ({file}) was read in the base and is not in this state. If it was removed, this is what you want; if it was moved or written in another "
    "way, nothing here checks it any more.",
    "ko": "{name}({file})은(는) 베이스에서 읽혔지만 지금 상태에는 없습니다. 지운 것이라면 의도한 결과입니다. 옮겼거나 다른 방식으로 썼다면 이제 "
    "아무것도 이 배포를 검사하지 않습니다.",
}


def evaluate(context: Context) -> Iterator[Finding]:
    if context.base is None:
        return
    kept = {id(old) for old, _ in pair(context.base.deployments, context.facts.deployments)}
    unread = {entry.path for entry in context.facts.skipped}
    for old in context.base.deployments:
        if id(old) not in kept and old.file not in unread:
            yield _finding(old, context.language)


def _finding(old: Deployment, language: Language) -> Finding:
    text = (_TITLE[language], _MESSAGE[language].format(name=old.id, file=old.file or "-"))
    return found(ID, "warn", old.id, text, where=Location(old.file, old.line) if old.file else None)


RULE = Rule(
    ID,
    {
        "en": "A deployment that the base has is missing in the change.",
        "ko": "베이스에 있던 배포가 변경 뒤에는 없습니다.",
    },
    evaluate,
    page={
        "en": (
            "Base and head are paired by id, then by file, name and role, then by model. What is left in the base is reported, always.",
        ),
        "ko": (
            "베이스와 변경은 id로, 다음에는 파일·이름·역할로, 그다음에는 모델로 짝을 짓습니다. 베이스에 남는 것은 항상 알립니다.",
        ),
    },
)
