"""What there is to say about a rule or an advisory, as paragraphs: for ``explain`` and for the pages under docs/."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from checklistbot.knowledge.advisory import Advisory, advisories
from checklistbot.rules._advisories import NAMES, verdict_of
from checklistbot.rules.base import Language, Rule

_WORDS: Final[dict[Language, dict[str, str]]] = {
    "en": {
        "fires": "Verdict when it fires", "waivable": "Can be waived", "yes": "yes", "no": "no, nor ignored, switched off or lowered",
        "override": "Override on a pull request", "two": "two people with maintain or admin, each with a reason",
        "leak": "About one customer's text reaching another: the baseline covers it for 30 days at most.", "subsumes": "Also speaks for",
        "affected": "Affected", "fixed": "Fixed in", "floor": "policy asks for {floor}", "unfixed": "no release", "every": "every release",
        "basis": "Evidence", "source": "bounds read in releases", "report": "bounds from a report", "estimate": "bounds estimated",
        "source-read": "read in the source", "thread": "a public thread", "secondary": "second hand", "when": "Applies where",
        "always": "every deployment of these releases", "ask": "Question that decides", "do": "What to do", "sources": "Sources", "below": "below {bound}",
        "client": "What the client sees", "verdict": "Verdict", "rule": "rule", "advisory": "advisory", "code": "the released code",
        "block": "block", "warn": "warn", "note": "note", "unknown": "unknown", "pass": "pass", "reported": "Reported by",
    },
    "ko": {
        "fires": "해당할 때의 판정", "waivable": "예외 처리", "yes": "가능", "no": "불가(무시, 끄기, 낮추기도 안 됨)",
        "override": "풀 리퀘스트에서의 긴급 통과", "two": "maintain 또는 admin 권한을 가진 두 사람이 각자 사유를 적어야 함",
        "leak": "한 고객의 텍스트가 다른 고객에게 닿는 문제입니다. 베이스라인으로는 최대 30일까지만 유예됩니다.", "subsumes": "함께 다루는 권고",
        "affected": "영향받는 버전", "fixed": "수정 버전", "floor": "정책은 {floor} 이상을 요구", "unfixed": "없음", "every": "모든 버전",
        "basis": "근거", "source": "릴리스에서 확인한 범위", "report": "보고된 범위", "estimate": "추정한 범위",
        "source-read": "소스를 직접 읽음", "thread": "공개 스레드", "secondary": "간접 자료", "when": "해당 조건",
        "always": "이 버전의 모든 배포", "ask": "판단에 필요한 질문", "do": "할 일", "sources": "출처", "below": "{bound} 미만",
        "client": "클라이언트가 보는 것", "verdict": "판정", "rule": "규칙", "advisory": "권고", "code": "배포된 코드",
        "block": "차단", "warn": "경고", "note": "참고", "unknown": "알 수 없음", "pass": "통과", "reported": "알리는 규칙",
    },
}  # fmt: skip


def address(rule: str, advisory: str | None, language: Language) -> str | None:
    """Where the page about a finding is published: the advisory's where it names one; None where no repository is known."""
    from checklistbot import resources

    repository = resources.repository()
    if not repository:
        return None
    folder = f"{repository}/blob/main/docs/{'ko/' if language == 'ko' else ''}"
    return f"{folder}advisories.md#{advisory}" if advisory else f"{folder}rules/{rule}.md"


def word(language: Language, key: str) -> str:
    """One of the words above."""
    return _WORDS[language][key]


def rule_facts(rule: Rule, language: Language) -> Iterator[tuple[str, str]]:
    """(name, value) lines of a rule."""
    words = _WORDS[language]
    yield words["fires"], words[rule.fires]
    yield words["waivable"], words["yes" if rule.waivable else "no"]
    if rule.two_people:
        yield words["override"], words["two"]
    if rule.subsumes:
        yield words["subsumes"], ", ".join(rule.subsumes)


def rule_paragraphs(rule: Rule, language: Language) -> Iterator[str]:
    """Summary, page, and what holds for leaks."""
    yield rule.summary[language]
    yield from rule.page.get(language, ())
    if rule.leak:
        yield _WORDS[language]["leak"]


def advisory_facts(advisory: Advisory, language: Language) -> Iterator[tuple[str, str]]:
    """(name, value) lines of an advisory."""
    words = _WORDS[language]
    affected = words["every"] if advisory.affected == ">=0" else advisory.affected
    yield words["affected"], f"{NAMES[advisory.engine]} {affected} ({words[advisory.affected_basis]})"
    fixed = advisory.fixed_in or words["unfixed"]
    yield words["fixed"], f"{fixed} ({words['floor'].format(floor=advisory.floor)})" if advisory.floor else fixed
    yield words["when"], conditions(advisory) or words["always"]
    yield words["verdict"], words[verdict_of(advisory)]
    yield words["reported"], reported_by(advisory)
    yield words["basis"], words[advisory.evidence]
    if advisory.ask:
        yield words["ask"], advisory.ask[language]
    yield words["sources"], ", ".join(advisory.sources) or words["code"]


def advisory_paragraphs(advisory: Advisory, language: Language) -> Iterator[str]:
    """Summary, tiers, what the client sees (in English, as it was reported), what to do."""
    words = _WORDS[language]
    yield advisory.summary[language]
    for tier in advisory.tiers:
        yield f"{words['below'].format(bound=tier.below)}: {tier.state[language]}"
    if language == "en":
        yield f"{words['client']}: {advisory.client_sees}"
    yield f"{words['do']}: {advisory.mitigation[language]}"


def reported_by(advisory: Advisory) -> str:
    """The rule that reports a match."""
    from checklistbot.rules import registry
    from checklistbot.rules._advisories import by_flag

    own = next((rule.id for rule in registry().values() if advisory.id in rule.subsumes), None)
    return own or ("unsafe-flag-combination" if by_flag(advisory) else "known-engine-bug")


def conditions(advisory: Advisory) -> str:
    """``when`` on one line, in the words of the file."""
    return "; ".join(f"{key}: {_value(one)}" for key, one in advisory.when.items())


def _value(one: Any) -> str:
    if isinstance(one, dict):
        return ", ".join(f"{key} {_value(inner)}" for key, inner in one.items())
    if isinstance(one, list):
        return " | ".join(map(str, one))
    return str(one).lower() if isinstance(one, bool) else str(one)


def ordered() -> list[Advisory]:
    """All advisories by engine, then id."""
    return sorted(advisories().values(), key=lambda one: (one.engine, one.id))
