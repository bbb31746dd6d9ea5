"""comment-cuts-command: flags that stand in the file but never reach the server, behind a comment or a missing line continuation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from checklistbot.model import Deployment, Finding, Location
from checklistbot.rules.base import Context, Language, Rule, found

ID: Final = "comment-cuts-command"
_MAX_NAMED: Final = 5
_TITLE: Final[dict[Language, str]] = {
    "en": "Flags in the command never reach the server",
    "ko": "명령에 적힌 옵션이 서버에 전달되지 않습니다",
}
_MESSAGE: Final[dict[Language, str]] = {
    "en": "A comment or a missing line continuation ends the command before {names}. The server runs without them. Put comments on lines of their own before "
    "the command.",
    "ko": "주석이나 빠진 줄 이음표 때문에 {names} 앞에서 명령이 끝납니다. 서버는 이 옵션 없이 실행됩니다. 주석은 명령 앞의 별도 줄에 두세요.",
}


def evaluate(context: Context) -> Iterator[Finding]:
    for deployment in context.facts.deployments:
        lost = [flag for flag in deployment.flags if not flag.reaches_server]
        if lost:
            yield _finding(
                deployment, [f"--{flag.name}" for flag in lost], Location(lost[0].path, lost[0].line), context.language
            )


def _finding(deployment: Deployment, names: list[str], where: Location, language: Language) -> Finding:
    shown = ", ".join(names[:_MAX_NAMED]) + (", …" if len(names) > _MAX_NAMED else "")
    text = (_TITLE[language], _MESSAGE[language].format(names=shown))
    return found(ID, "warn", deployment.id, text, where=where, parameters={"flags": ",".join(names)})


RULE = Rule(
    ID,
    {
        "en": "A comment in the middle of a command keeps flags from the server.",
        "ko": "명령 중간의 주석 때문에 옵션이 서버에 전달되지 않습니다.",
    },
    evaluate,
    page={
        "en": (
            "In a shell, a backslash continues a line only as its last character, and a comment runs to the end of the continued line.",
        ),
        "ko": ("셸에서 백슬래시는 줄의 마지막 글자일 때만 다음 줄로 이어지고, 주석은 이어진 줄의 끝까지 미칩니다.",),
    },
)
