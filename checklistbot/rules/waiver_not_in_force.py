"""waiver-not-in-force: what the config wanted to silence and does not (operations-and-attacks 5, 16)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from checklistbot.model import VERDICT_ORDER, Finding, Location, Scalar
from checklistbot.rules.base import Context, Language, Rule, found

ID: Final = "waiver-not-in-force"
_MAX_PLACES: Final = 5
_TITLE: Final[dict[Language, dict[str, str]]] = {
    "en": {"expired": "A waiver of {rule} has expired", "fixed": "{rule} cannot be waived", "setting": "{rule} cannot be switched off or lowered",
           "pending": "This change silences findings; that is not in force before it is merged"},
    "ko": {"expired": "{rule} 예외의 기한이 지났습니다", "fixed": "{rule}은(는) 예외 처리할 수 없습니다", "setting": "{rule}은(는) 끄거나 낮출 수 없습니다",
           "pending": "이 변경은 지적을 무시하게 합니다. 병합되기 전에는 효력이 없습니다"},
}  # fmt: skip
_MESSAGE: Final[dict[Language, dict[str, str]]] = {
    "en": {
        "expired": "It was in force until {day}. Renew it with a reason, or take it out.",
        "fixed": "The waiver has no effect. A back-port is declared under images: fixes:, a gateway limit as upstream_limit.",
        "setting": "The setting has no effect.",
        "pending": "It adds ignores at {places}.",
    },
    "ko": {
        "expired": "{day}까지 유효했습니다. 사유를 적어 연장하거나 지우세요.",
        "fixed": "이 예외는 효력이 없습니다. 백포트는 images: fixes: 에, 게이트웨이 한도는 upstream_limit에 적으세요.",
        "setting": "이 설정은 효력이 없습니다.",
        "pending": "{places}에 무시 주석을 추가합니다.",
    },
}


def evaluate(context: Context) -> Iterator[Finding]:
    from checklistbot.rules import registry

    rules, config = registry(), context.config
    for waiver in config.waivers:
        if not rules[waiver.rule].waivable:
            yield _finding("fixed", waiver.rule, waiver.line, context)
        elif context.today is not None and not waiver.in_force(context.today):
            yield _finding("expired", waiver.rule, waiver.line, context, day=str(waiver.expires))
    for name, setting in config.rules.items():
        rule = rules[name]
        lowered = setting.severity == "off" or VERDICT_ORDER.index(setting.severity) > VERDICT_ORDER.index(rule.fires)
        if not rule.waivable and lowered:
            yield _finding("setting", name, setting.line, context)


def pending(places: list[Location], language: Language) -> list[Finding]:
    """One finding for all ignores that a pull request brings itself."""
    if not places:
        return []
    unique = list(dict.fromkeys(places))
    named = ", ".join(map(str, unique[:_MAX_PLACES])) + (", …" if len(unique) > _MAX_PLACES else "")
    text = (_TITLE[language]["pending"], _MESSAGE[language]["pending"].format(places=named))
    parameters: dict[str, Scalar | None] = {"kind": "pending", "aspect": "pending", "count": len(unique)}
    return [found(ID, "note", unique[0].path, text, where=unique[0], parameters=parameters)]


def _finding(kind: str, rule: str, line: int, context: Context, day: str = "") -> Finding:
    language, path = context.language, context.config.path
    text = (_TITLE[language][kind].format(rule=rule), _MESSAGE[language][kind].format(day=day))
    parameters = {"kind": kind, "aspect": f"{rule}:{kind}"}
    return found(ID, "note", path or "", text, where=Location(path, line) if path else None, parameters=parameters)


RULE = Rule(
    ID,
    {
        "en": "A waiver or a severity in the config has no effect.",
        "ko": "설정에 적힌 예외나 심각도가 효력이 없습니다.",
    },
    evaluate,
    fires="note",
    waivable=False,
    page={
        "en": (
            "A waiver holds up to and on the day it expires. Rules that cannot be waived can be neither switched off nor lowered; they can be made graver.",
            "A comment '# checklistbot: ignore[rule] reason' at the end of a line, or alone on the line above, silences a finding at that line. It needs a "
            "reason, and on a pull request it counts only if it is merged together with the line it stands for.",
        ),
        "ko": (
            "예외는 만료일 당일까지 유효합니다. 예외 처리할 수 없는 규칙은 끄거나 낮출 수 없고, 더 엄격하게 하는 것만 됩니다.",
            "줄 끝이나 바로 윗줄에 '# checklistbot: ignore[rule] 사유' 주석을 적으면 그 줄의 지적을 무시합니다. 사유가 있어야 하고, 풀 "
            "리퀘스트에서는 해당 줄과 함께 이미 병합된 "
            "주석만 인정합니다.",
        ),
    },
)
