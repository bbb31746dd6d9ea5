"""input-unreadable: a file that deploys something could not be read (operations-and-attacks 6)."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Final

from checklistbot.discovery import syntax
from checklistbot.discovery.limits import TOO_MUCH, UNREAD
from checklistbot.discovery.tree import BINARY, FORBIDDEN, TOO_LARGE
from checklistbot.lazy import pattern
from checklistbot.model import Finding, Location, Skipped
from checklistbot.rules.base import Context, Language, Rule, found

ID: Final = "input-unreadable"
_DEPLOYS = pattern(
    r"(?:\.(?:ya?ml|sh|bash|tf|nix|service|j2|tpl)|(?:^|/)(?:Dockerfile|Containerfile|Makefile|justfile)[^/]*)$"
)
_TITLE: Final[dict[Language, dict[str, str]]] = {
    "en": {"base": "A file that deployed something in the base cannot be read", "config": "A file that the config names cannot be read",
           "rendered": "A deployment is not rendered", "word": "A file that names an engine cannot be read whole",
           "closed": "A file or folder that may deploy something cannot be opened"},
    "ko": {"base": "베이스에서 배포를 담고 있던 파일을 읽을 수 없습니다", "config": "설정에 적힌 파일을 읽을 수 없습니다",
           "rendered": "렌더링되지 않은 배포가 있습니다", "word": "엔진 이름이 있는 파일을 끝까지 읽을 수 없습니다",
           "closed": "배포를 담고 있을 수 있는 파일이나 폴더를 열 수 없습니다"},
}  # fmt: skip
_MESSAGE: Final[dict[Language, str]] = {
    "en": "{path}: {reason}. What it deploys is not checked.",
    "ko": "{path}: {reason}. 이 파일이 배포하는 것은 검사되지 않았습니다.",
}


def evaluate(context: Context) -> Iterator[Finding]:
    before = {d.file for d in context.base.deployments} if context.base else set()
    globs = [entry.match["file"] for entry in context.config.deployments if "file" in entry.match]
    for entry in dict.fromkeys(context.facts.skipped):
        kind = _kind(entry, before, globs)
        if kind is not None:
            yield _finding(entry, kind, context.language)


def _kind(entry: Skipped, before: set[str | None], globs: list[str]) -> str | None:
    """Why the file matters; None for one that nothing says is a deployment."""
    if entry.path in before:
        return "base"
    if any(fnmatchcase(entry.path, glob) for glob in globs):
        return "config"
    if entry.reason.startswith(("not rendered", "chart ", "remote base ")):
        return "rendered"
    # Only files that hold an engine word, or have a name of a deployment's, are opened at all; large ones are often data.
    unread = entry.reason == TOO_MUCH or entry.reason.startswith((UNREAD, syntax.BROKEN))
    if unread or (entry.reason in (TOO_LARGE, BINARY) and _DEPLOYS.search(entry.path)):
        return "word"
    # What may not be opened cannot be searched for a word: its name decides, and of a folder not even the names are known.
    suspect = entry.path == "." or "." not in entry.path.rpartition("/")[2] or _DEPLOYS.search(entry.path)
    return "closed" if entry.reason == FORBIDDEN and suspect else None


def _finding(entry: Skipped, kind: str, language: Language) -> Finding:
    text = (_TITLE[language][kind], _MESSAGE[language].format(path=entry.path, reason=entry.reason))
    parameters = {"kind": kind, "aspect": entry.path}
    return found(
        ID, "unknown", entry.path, text, where=Location(entry.path, syntax.line_of(entry.reason)), parameters=parameters
    )


RULE = Rule(
    ID,
    {
        "en": "A file that deploys something could not be read, so nothing is proven about it.",
        "ko": "배포를 담은 파일을 읽을 수 없어 아무것도 증명하지 못했습니다.",
    },
    evaluate,
    fires="unknown",
    waivable=False,
    page={
        "en": (
            "It is unknown for a file that held a deployment in the base, one that deployments: file: in the config matches, and a chart or overlay that "
            "is not rendered (pipe helm template or kustomize build into checklistbot check -), a YAML or JSON file that names an engine and does not "
            "parse, and a manifest or folder that may not be opened. Other unread files are listed and do not count.",
        ),
        "ko": (
            "베이스에서 배포를 담고 있던 파일, 설정의 deployments: file: 에 해당하는 파일, 렌더링되지 않은 차트나 오버레이(helm template이나 kustomize build의 출력을 "
            "checklistbot check - 로 넘기세요), 엔진 이름이 있는데 문법이 깨진 YAML·JSON 파일, "
            "열 권한이 없는 매니페스트나 폴더가 여기에 해당합니다. 읽지 못한 그 밖의 파일은 목록에만 남습니다.",
        ),
    },
)
