"""content-test-missing: nothing in the repository's CI judges long requests by the text that comes back (lesson 3 of the incident)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from checklistbot.lazy import pattern
from checklistbot.model import Deployment, Finding
from checklistbot.rules._files import lines_with, not_prose
from checklistbot.rules._match import disaggregated
from checklistbot.rules.base import Context, Language, Rule, found, location

if TYPE_CHECKING:
    from checklistbot.discovery.tree import Tree

ID: Final = "content-test-missing"
#: From this many tokens on a context is long enough for a limit-length test to matter on a single server.
_LONG: Final = 32_768
_RUNS: Final = pattern(r"checklistbot(?:\.sh|\.py|\s+probe\b|.*\bprobe\b)")
_TITLE: Final[dict[Language, str]] = {
    "en": "No test judges limit-length requests by their text",
    "ko": "한도 길이 요청을 응답 내용으로 판정하는 테스트가 없습니다",
}
_MESSAGE: Final[dict[Language, str]] = {
    "en": "Status codes and latency do not show foreign text. Run the canary test against staging before the deploy: checklistbot script, or checklistbot probe URL.",
    "ko": "상태 코드와 지연 시간으로는 다른 요청의 텍스트를 알아챌 수 없습니다. 배포 전에 스테이징에서 카나리 테스트를 돌리세요: checklistbot script "
    "또는 checklistbot probe URL.",
}


def evaluate(context: Context) -> Iterator[Finding]:
    if context.tree is None or context.config.require_evidence is not None:
        return
    concerned = [(key, members[0]) for key, members in context.groups() if any(_matters(m) for m in members)]
    if concerned and not _tested(context.tree):
        for key, member in concerned:
            text = (_TITLE[context.language], _MESSAGE[context.language])
            yield found(ID, "note", key, text, where=location(member, "context_length"))


def _matters(deployment: Deployment) -> bool:
    return disaggregated(deployment) or (deployment.context_length.number() or 0) >= _LONG


def _tested(tree: Tree) -> bool:
    lines = lines_with(tree, ["checklistbot"], wanted=not_prose)
    return any(_RUNS.search(text) for _, _, text in lines)


RULE = Rule(
    ID,
    {
        "en": "No job of the repository tests limit-length requests by the content of the response.",
        "ko": "저장소의 어떤 작업도 한도 길이 요청을 응답 내용으로 테스트하지 않습니다.",
    },
    evaluate,
    fires="note",
    page={
        "en": (
            "The incident's pre-launch test sent long prompts and looked at status codes and latency: both were fine. A note for disaggregated groups and for "
            "context lengths from 32,768 tokens, as long as no file of the repository runs checklistbot probe or a script of checklistbot's.",
            "With require_evidence in the config the evidence rules take over.",
        ),
        "ko": (
            "사고 전의 출시 테스트는 긴 프롬프트를 보내고 상태 코드와 지연 시간만 봤고, 둘 다 정상이었습니다. 분리 구성이거나 컨텍스트 길이가 32,768 "
            "토큰 이상인데, 저장소의 어떤 "
            "파일도 checklistbot probe나 checklistbot이 만든 스크립트를 실행하지 않으면 참고로 알립니다.",
            "설정에 require_evidence가 있으면 증거 규칙이 대신합니다.",
        ),
    },
)
