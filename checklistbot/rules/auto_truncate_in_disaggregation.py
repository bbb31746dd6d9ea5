"""auto-truncate-in-disaggregation: each role cuts a long prompt at its own limit (facts: sglang.md 4.5; from reading the code)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from checklistbot.model import Deployment, Edit, Finding, Fix, Location
from checklistbot.rules import _limits as limits
from checklistbot.rules._match import flag_value
from checklistbot.rules.base import Context, Language, Rule, found, location

ID: Final = "auto-truncate-in-disaggregation"
_FLAG: Final = "allow-auto-truncate"
_TITLE: Final[dict[Language, str]] = {
    "en": "Prefill and decode may cut long prompts at different lengths",
    "ko": "prefill과 decode가 긴 프롬프트를 서로 다른 길이에서 자를 수 있습니다",
}
_MESSAGE: Final[dict[Language, str]] = {
    "en": "With --allow-auto-truncate each role cuts a prompt to its own limit. Where the prefill limit is smaller, decode reserves more pages than it "
    "receives and reads what they held before. This follows from reading the code and has not been reproduced; no release mends it. It is "
    "harmless only if both limits are known to be equal, and they are not.",
    "ko": "--allow-auto-truncate를 켜면 두 역할이 각자의 한도에서 프롬프트를 자릅니다. prefill 한도가 더 작으면 decode는 받는 것보다 많은 페이지를 잡고, 그 페이지에 남아 있던 "
    "내용을 읽습니다. 코드를 읽어 확인한 것으로 재현하지는 않았으며, 고친 릴리스는 없습니다. 두 한도가 같다고 확인될 때만 무해한데, 확인되지 않았습니다.",
}
_FIX: Final[dict[Language, str]] = {
    "en": "Leave out --allow-auto-truncate on both roles and let clients handle the 400.",
    "ko": "두 역할에서 --allow-auto-truncate를 빼고, 400은 클라이언트가 처리하게 하세요.",
}


def evaluate(context: Context) -> Iterator[Finding]:
    for key, members in context.groups():
        split = [m for m in members if m.disaggregated and m.engine.value == "sglang"]
        cutting = [m for m in split if flag_value(m, _FLAG) is True]
        if cutting and not _equal(split):
            yield _finding(key, cutting, context.language)


def _equal(members: list[Deployment]) -> bool:
    """Both roles are there, their limits are proven, and they are the same."""
    roles = {m.role.value for m in members}
    proven = all(m.context_length.proven and limits.certain(m, "large") for m in members)
    return roles == {"prefill", "decode"} and proven and len({m.first_rejected_length for m in members}) == 1


def _finding(key: str, cutting: list[Deployment], language: Language) -> Finding:
    given = [flag for member in cutting if (flag := member.flag(_FLAG)) is not None]
    where = Location(given[0].path, given[0].line) if given else location(cutting[0])
    finding = found(ID, "block", key, (_TITLE[language], _MESSAGE[language]), where=where)
    edits = tuple(Edit(flag.path, flag.line, flag.raw, "") for flag in given)
    return finding.replace(fix=Fix(_FIX[language], edits))


RULE = Rule(
    ID,
    {
        "en": "Long prompts are cut in disaggregated mode, and the two roles' limits are not known to be equal.",
        "ko": "분리 구성에서 긴 프롬프트를 자르도록 되어 있는데 두 역할의 한도가 같은지 확인되지 않았습니다.",
    },
    evaluate,
    fires="block",
    leak=True,
    subsumes=("sglang-pd-auto-truncate-mismatch",),
    page={
        "en": (
            "It blocks unless context length and KV pool of both roles are declared or observed and give the same first rejected length. A single "
            "server that truncates is silent-truncation's.",
        ),
        "ko": (
            "두 역할의 컨텍스트 길이와 KV 풀이 모두 선언되거나 관측되고, 처음 거부되는 길이가 같을 때만 차단하지 않습니다. 단일 서버에서 자르는 "
            "경우는 silent-truncation이 다룹니다.",
        ),
    },
)
