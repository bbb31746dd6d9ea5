"""isolation: sensitive data on processes that serve several customers (operations-and-attacks 9).

Prefix caching and cache salts play no part here: neither touches pages that are read before they are written.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from checklistbot.config import Located
from checklistbot.model import Because, Deployment, Finding, Location, Source, Verdict
from checklistbot.rules.base import Context, Language, Rule, found, location

ID: Final = "isolation"

_TEXT: Final[dict[Language, dict[str, tuple[str, str]]]] = {
    "en": {
        "block": (
            "Sensitive data on shared serving processes",
            "One engine process answers several customers, and their data is declared sensitive: a stale page or a crossed request then shows "
            "one customer's text to another. Give each tenant engine processes and a KV pool of its own, or waive this with a reason.",
        ),
        "tenancy": (
            "Sensitive data, and nobody says who shares the engine",
            "The data is declared sensitive, the tenancy is not declared. Write tenancy: shared or tenancy: dedicated into .checklistbot.yml.",
        ),
        "data": (
            "Shared serving processes, and nobody says whose data they see",
            "The tenancy is shared, the data class is not declared. Write data: public, internal or sensitive into .checklistbot.yml.",
        ),
        "both": (
            "Isolation level is not declared",
            "Neither tenancy nor data class is declared. Write tenancy: (shared, dedicated) and data: (public, internal, sensitive) into .checklistbot.yml.",
        ),
        "pass": ("Isolation level is declared and fits the data", "Tenancy {tenancy}, data {data}."),
    },
    "ko": {
        "block": (
            "민감 데이터를 공유 서빙 프로세스에서 처리합니다",
            "엔진 프로세스 하나가 여러 고객의 요청에 답하고, 그 데이터는 민감한 것으로 선언되어 있습니다. 남은 페이지나 뒤바뀐 요청 하나로 한 고객의 텍스트가 다른 고객에게 "
            "보일 수 있습니다. 테넌트마다 엔진 프로세스와 KV 풀을 따로 두거나, 사유를 적어 예외로 처리하세요.",
        ),
        "tenancy": (
            "민감 데이터인데 엔진을 누가 함께 쓰는지 선언되어 있지 않습니다",
            "데이터는 민감으로 선언되어 있지만 테넌시 선언이 없습니다. .checklistbot.yml에 tenancy: shared 또는 tenancy: dedicated를 적으세요.",
        ),
        "data": (
            "공유 서빙 프로세스인데 데이터 등급이 선언되어 있지 않습니다",
            "테넌시는 shared인데 데이터 등급 선언이 없습니다. .checklistbot.yml에 data: public, internal, sensitive 중 하나를 적으세요.",
        ),
        "both": (
            "격리 수준이 선언되어 있지 않습니다",
            "테넌시도 데이터 등급도 선언되어 있지 않습니다. .checklistbot.yml에 tenancy:(shared, dedicated)와 data:(public, internal, sensitive)를 적으세요.",
        ),
        "pass": ("선언된 격리 수준이 데이터에 맞습니다", "테넌시 {tenancy}, 데이터 {data}."),
    },
}


def evaluate(context: Context) -> Iterator[Finding]:
    for key, members in context.groups():
        yield _judge(key, members, context)


def _worst(members: tuple[Deployment, ...], context: Context) -> tuple[Deployment, Located | None, Located | None]:
    """The member whose declaration is gravest: one finding a group."""
    entries = [(member, context.entry(member)) for member in members]
    rows = [(m, e.tenancy if e else None, e.data if e else None) for m, e in entries]
    return max(rows, key=lambda row: ("pass", "unknown", "block").index(_verdict(row[1], row[2])[0]))


def _verdict(tenancy: Located | None, data: Located | None) -> tuple[Verdict, str]:
    if (tenancy and tenancy.value == "dedicated") or (data and data.value == "public"):
        return "pass", "pass"
    if tenancy and data:
        return ("block", "block") if data.value == "sensitive" else ("pass", "pass")
    if tenancy is None and data is None:
        return "unknown", "both"
    if tenancy is None:
        return "unknown", "tenancy"
    return "unknown", "data"


def _judge(key: str, members: tuple[Deployment, ...], context: Context) -> Finding:
    member, tenancy, data = _worst(members, context)
    verdict, kind = _verdict(tenancy, data)
    title, message = _TEXT[context.language][kind]
    values = {"tenancy": str(tenancy.value) if tenancy else "–", "data": str(data.value) if data else "–"}
    path = context.config.path
    stated = tenancy or data
    where = Location(path, stated.line) if path and stated else location(member)
    why = [
        Because(name, entry.value, Source("declared", path, entry.line))
        for name, entry in (("tenancy", tenancy), ("data", data))
        if entry
    ]
    return found(ID, verdict, key, (title, message.format(**values)), where=where, why=tuple(why),
                 parameters={"tenancy": values["tenancy"], "data": values["data"]})  # fmt: skip


RULE = Rule(
    ID,
    {
        "en": "Sensitive data is served by processes that several customers share, or the isolation level is not declared.",
        "ko": "민감 데이터를 여러 고객이 함께 쓰는 프로세스로 처리하거나, 격리 수준이 선언되어 있지 않습니다.",
    },
    evaluate,
    fires="block",
    page={
        "en": (
            "Two declarations per deployment in .checklistbot.yml decide: tenancy (shared: one engine process answers several customers; "
            "dedicated: one tenant each) and data (public, internal, sensitive). Sensitive data on shared processes blocks, unless a waiver "
            "says why. What is not declared is unknown.",
            "Prefix caching off and cache salts change nothing here: they are about the timing of shared prefixes, not about pages that are "
            "read before they are written. A salt is a field of the request, so it counts only where the gateway sets it.",
        ),
        "ko": (
            ".checklistbot.yml에 배포마다 적는 두 가지로 판정합니다. tenancy(shared: 엔진 프로세스 하나가 여러 고객에게 답함, dedicated: 테넌트마다 따로)와 data(public, "
            "internal, sensitive)입니다. 민감 데이터를 공유 프로세스에서 처리하면 사유를 적은 예외가 없는 한 차단합니다. 선언하지 않은 것은 알 수 없음입니다.",
            "프리픽스 캐시를 끄거나 캐시 솔트를 써도 여기서는 달라지지 않습니다. 그것들은 공유 프리픽스의 응답 시간에 관한 것이고, 쓰이기 전에 "
            "읽히는 페이지와는 무관합니다. 솔트는 "
            "요청의 항목이므로 게이트웨이가 넣을 때만 의미가 있습니다.",
        ),
    },
)
