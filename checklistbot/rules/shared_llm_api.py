"""shared-llm-api: sensitive data, and calls to an LLM API that many customers share (lesson 4 of the incident)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from checklistbot.knowledge.hosts import SharedApi, shared_apis
from checklistbot.model import Finding, Location
from checklistbot.rules._files import lines_with, not_prose
from checklistbot.rules.base import Context, Language, Rule, found

ID: Final = "shared-llm-api"
_TITLE: Final[dict[Language, str]] = {
    "en": "Sensitive data, and calls to a shared LLM API ({provider})",
    "ko": "민감 데이터를 다루면서 공유 LLM API({provider})를 호출합니다",
}
_MESSAGE: Final[dict[Language, str]] = {
    "en": "The config declares sensitive data, and {host} serves many customers from the same engines. Ask for isolation: {dedicated}. If no sensitive data "
    "goes there, say so in a waiver.",
    "ko": "설정에 민감 데이터가 선언되어 있는데, {host}는 같은 엔진으로 여러 고객을 서빙합니다. 격리 수준을 확인하세요: {dedicated}. 민감 데이터가 "
    "가지 않는다면 예외에 사유를 적으세요.",
}


def evaluate(context: Context) -> Iterator[Finding]:
    sensitive = any(entry.data is not None and entry.data.value == "sensitive" for entry in context.config.deployments)
    if not sensitive or context.tree is None:
        return
    seen: set[str] = set()
    for path, line, text in lines_with(context.tree, [api.host for api in shared_apis()], wanted=not_prose):
        for api in shared_apis():
            if api.host in text.lower() and api.host not in seen:
                seen.add(api.host)
                yield _finding(api, Location(path, line), context.language)


def _finding(api: SharedApi, where: Location, language: Language) -> Finding:
    text = (
        _TITLE[language].format(provider=api.provider),
        _MESSAGE[language].format(host=api.host, dedicated=api.dedicated),
    )
    return found(ID, "warn", where.path, text, where=where, parameters={"host": api.host, "aspect": api.host})


RULE = Rule(
    ID,
    {
        "en": "Sensitive data is declared, and the repository calls LLM APIs that many customers share.",
        "ko": "민감 데이터가 선언된 저장소가 여러 고객이 함께 쓰는 LLM API를 호출합니다.",
    },
    evaluate,
    page={
        "en": (
            "Looked for are the hosts in knowledge/hosts/shared-llm-apis.yml, in files that are not documentation, and only if a deployment's data is "
            "declared sensitive. One finding a host, at the first line that names it.",
        ),
        "ko": (
            "data: sensitive로 선언된 배포가 있을 때만, 문서가 아닌 파일에서 knowledge/hosts/shared-llm-apis.yml의 호스트를 찾습니다. 호스트마다 "
            "처음 나오는 줄에 한 건씩 알립니다.",
        ),
    },
)
