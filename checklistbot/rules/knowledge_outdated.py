"""knowledge-outdated: the advisories are more than 45 days old (operations-and-attacks 32)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from typing import Final

from checklistbot.model import Finding
from checklistbot.rules.base import Context, Language, Rule, found

ID: Final = "knowledge-outdated"
MAX_DAYS: Final = 45
_TEXT: Final[dict[Language, tuple[str, str]]] = {
    "en": (
        "The known bugs are {days} days old",
        "They are those of {date}. Update checklistbot: newer bugs are not among them.",
    ),
    "ko": (
        "알려진 버그 목록이 {days}일 지났습니다",
        "{date} 기준 목록입니다. checklistbot을 업데이트하세요. 그 뒤에 알려진 버그는 들어 있지 않습니다.",
    ),
}


def evaluate(context: Context) -> Iterator[Finding]:
    from checklistbot.rules import knowledge_date

    taken = knowledge_date()
    days = (context.today - date.fromisoformat(taken)).days if context.today else 0
    if days > MAX_DAYS and context.facts.deployments:
        title, message = _TEXT[context.language]
        yield found(
            ID, "note", "knowledge", (title.format(days=days), message.format(date=taken)), parameters={"days": days}
        )


RULE = Rule(
    ID,
    {
        "en": "The advisories that came with this release are more than 45 days old.",
        "ko": "이 릴리스에 들어 있는 권고가 45일보다 오래되었습니다.",
    },
    evaluate,
    fires="note",
    page={
        "en": (
            "Every report states the day of its advisories. A check that runs nightly on the main branch finds what became known after the merge.",
        ),
        "ko": (
            "모든 보고서에 권고 기준일이 적힙니다. 메인 브랜치에서 매일 검사를 돌리면 병합 뒤에 알려진 문제도 찾을 수 있습니다.",
        ),
    },
)
