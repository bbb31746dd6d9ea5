"""context-shared-by-slots: llama.cpp's --ctx-size is the whole pool, divided among the slots (facts: other-engines.md)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from checklistbot.engines._flags import human_integer
from checklistbot.model import Deployment, Finding, Location
from checklistbot.rules._match import flag_value
from checklistbot.rules.base import Context, Language, Rule, found, location, number

ID: Final = "context-shared-by-slots"
_TITLE: Final[dict[Language, str]] = {
    "en": "One request gets {slot} tokens, not {whole}",
    "ko": "요청 하나가 쓸 수 있는 길이는 {whole}이 아니라 {slot} 토큰입니다",
}
_MESSAGE: Final[dict[Language, str]] = {
    "en": "--ctx-size {whole} is the KV pool of the whole server; {slots} slots share it. For {whole} tokens a request set --ctx-size to {need}.",
    "ko": "--ctx-size {whole}은 서버 전체의 KV 풀이고 슬롯 {slots}개가 나눠 씁니다. 요청마다 {whole} 토큰이 필요하면 --ctx-size를 {need}로 두세요.",
}


def evaluate(context: Context) -> Iterator[Finding]:
    for deployment in context.facts.deployments:
        sizes = _sizes(deployment)
        if sizes is not None:
            yield _finding(deployment, *sizes, context.language)


def _sizes(deployment: Deployment) -> tuple[int, int] | None:
    """(context size, slots) where several slots divide it; a unified cache is shared, not divided."""
    if deployment.engine.value != "llama.cpp" or flag_value(deployment, "kv-unified") is True:
        return None
    whole, slots = (human_integer(str(flag_value(deployment, name))) for name in ("ctx-size", "parallel"))
    return (whole, slots) if whole and slots and slots > 1 else None


def _finding(deployment: Deployment, whole: int, slots: int, language: Language) -> Finding:
    values = {"whole": number(whole), "slots": slots, "slot": number(whole // slots), "need": number(whole * slots)}
    entry = deployment.flag("ctx-size")
    return found(
        ID,
        "note",
        deployment.id,
        (_TITLE[language].format(**values), _MESSAGE[language].format(**values)),
        where=Location(entry.path, entry.line) if entry else location(deployment),
        parameters={"context": whole // slots, "pool": whole},
    )


RULE = Rule(
    ID,
    {
        "en": "A llama.cpp server divides its context size among its slots.",
        "ko": "llama.cpp 서버는 컨텍스트 크기를 슬롯끼리 나눕니다.",
    },
    evaluate,
    fires="note",
    subsumes=("llamacpp-context-shared-by-slots",),
    page={
        "en": ("With --kv-unified all slots share the pool instead: each may use all of it, but not all at once.",),
        "ko": (
            "--kv-unified를 켜면 나누지 않고 함께 씁니다. 슬롯 하나가 전부를 쓸 수 있지만 동시에 그럴 수는 없습니다.",
        ),
    },
)
