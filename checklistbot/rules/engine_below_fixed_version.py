"""engine-below-fixed-version: an engine release with a known leak, in the mode in which it leaks (facts: sglang.md 0, 4.3)."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Final

from checklistbot.engines.base import version_of
from checklistbot.knowledge import Advisory, Tier, advisories
from checklistbot.model import Deployment, Edit, Finding, Fix, Status, Verdict
from checklistbot.rules.base import Context, Language, Rule, because, by_verdict, found, location

ID: Final = "engine-below-fixed-version"
_NAMES: Final = {"sglang": "SGLang", "vllm": "vLLM"}

_TITLE: Final[dict[Language, dict[str, str]]] = {
    "en": {
        "below": "rejected requests can be answered with other customers' text ({engine} {version} < {floor})",
        "unknown": "{engine} version is not known, so a leak fixed in {floor} is not ruled out",
        "pass": "{engine} {version} has the fix of {floor}",
        "back-ported": "the image carries the fix of {floor} (said in the config)",
    },
    "ko": {
        "below": "거절된 요청에 다른 고객의 텍스트가 응답으로 나갈 수 있습니다({engine} {version} < {floor})",
        "unknown": "{engine} 버전을 알 수 없어 {floor}에서 고친 유출을 배제하지 못했습니다",
        "pass": "{engine} {version}에는 {floor}의 수정이 들어 있습니다",
        "back-ported": "이미지에 {floor}의 수정이 들어 있습니다(설정에 적힌 내용)",
    },
}
_UNKNOWN: Final[dict[Language, str]] = {
    "en": "The image does not say which {engine} release it holds. Name it in .checklistbot.yml under images: (match, engine, version), "
    "or give the address of a running worker (--endpoint URL). Releases below {floor}: {summary}",
    "ko": "이미지에 어느 {engine} 릴리스가 들어 있는지 적혀 있지 않습니다. .checklistbot.yml의 images: 에 적거나(match, engine, version) "
    "실행 중인 워커의 주소를 주세요(--endpoint URL). {floor} 미만이면: {summary}",
}
_FIX: Final[dict[Language, str]] = {
    "en": "Run {engine} {floor} or later on every role of {group}.",
    "ko": "{group}의 모든 역할을 {engine} {floor} 이상으로 올리세요.",
}


def evaluate(context: Context) -> Iterator[Finding]:
    for key, members in context.groups():
        for advisory in advisories().values():
            if advisory.floor is not None:
                affected = [member for member in members if _applies(advisory, member)]
                if affected:
                    yield _judge(advisory, key, affected, context)


def _applies(advisory: Advisory, deployment: Deployment) -> bool:
    if advisory.engine != deployment.engine.value:
        return False
    return advisory.disaggregated is None or advisory.disaggregated == deployment.disaggregated


def _back_ported(advisory: Advisory, deployment: Deployment, context: Context) -> bool:
    image = str(deployment.image.value or "")
    return any(advisory.id in entry.fixes and fnmatchcase(image, entry.match) for entry in context.config.images)


def _judge(advisory: Advisory, key: str, members: list[Deployment], context: Context) -> Finding:
    """The worst member decides for the group: one cause, one finding."""
    tiers: list[tuple[Deployment, Tier]] = []
    unknown: list[Deployment] = []
    ported = [member for member in members if _back_ported(advisory, member, context)]
    for member in members:
        version = version_of(member)
        if member in ported:
            continue
        if version is None:
            unknown.append(member)
        elif (tier := advisory.tier(version)) is not None:
            tiers.append((member, tier))
    if tiers:
        member, tier = min(tiers, key=lambda pair: advisory.tiers.index(pair[1]))
        return _below(advisory, key, member, tier, members, context.language)
    if unknown:
        return _other("unknown", "unknown", advisory, key, unknown[0], context.language)
    return _other("pass", "back-ported" if ported else "pass", advisory, key, members[0], context.language)


def _values(advisory: Advisory, member: Deployment) -> dict[str, str]:
    engine = _NAMES.get(advisory.engine, advisory.engine)
    return {"engine": engine, "version": str(member.engine_version.value or "?"), "floor": str(advisory.floor)}


def _below(
    advisory: Advisory, key: str, member: Deployment, tier: Tier, members: list[Deployment], language: Language
) -> Finding:
    values = _values(advisory, member)
    title = _TITLE[language]["below"].format(**values)
    verdict: Verdict = "block" if tier.verdict == "block" and advisory.evidence == "source-read" else "warn"
    finding = found(
        ID,
        verdict,
        key,
        (title[0].upper() + title[1:], tier.state[language]),
        where=location(member, "engine_version", "image"),
        why=because(member, "engine_version", "role"),
        advisory=advisory.id,
        parameters={
            "engine": values["engine"],
            "version": values["version"],
            "fixed": values["floor"],
            "fixed_in_code": advisory.fixed_in,
            "context": max((m.context_length.number() or 0 for m in members), default=0),
            "exposed": _exposed(members),
        },
    )
    fix = Fix(_FIX[language].format(**values, group=members[0].group), tuple(_image_edits(advisory, members)))
    return finding.replace(fix=fix)


def _image_edits(advisory: Advisory, members: list[Deployment]) -> Iterator[Edit]:
    """The image lines whose tag spells the old version."""
    for member in members:
        image, version, source = member.image.text(), member.engine_version.text(), member.image.source
        below = version_of(member)
        if image and version and source and source.path and source.line and below and advisory.tier(below):
            repository, _, tag = image.rpartition(":")
            if "@" not in image and tag in (version, f"v{version}"):
                yield Edit(source.path, source.line, image, f"{repository}:{tag.replace(version, str(advisory.floor))}")


def _exposed(members: list[Deployment]) -> int:
    """How many prompt lengths one role refuses and the other accepts; 0 where the limits are equal or not known."""
    limits = {str(m.role.value): m.first_rejected_length for m in members if m.first_rejected_length is not None}
    return max(0, limits.get("decode", 0) - limits["prefill"]) if "prefill" in limits else 0


def _other(
    verdict: Verdict, kind: str, advisory: Advisory, key: str, member: Deployment, language: Language
) -> Finding:
    values = _values(advisory, member)
    title = _TITLE[language][kind].format(**values)
    message = _UNKNOWN[language].format(**values, summary=advisory.summary[language]) if verdict == "unknown" else title
    return found(
        ID,
        verdict,
        key,
        (title[0].upper() + title[1:], message),
        where=location(member, "engine_version", "image"),
        why=because(member, "engine_version", "image"),
        advisory=advisory.id,
        parameters={"engine": values["engine"], "version": member.engine_version.value, "fixed": values["floor"]},
    )


def _compare(base: Finding, head: Finding) -> Status:
    """Worse also when the context rises or the exposed lengths grow (CONTRACTS)."""
    status = by_verdict(base, head)
    if status != "same" or head.verdict != "block":
        return status
    deltas = [int(head.parameters.get(name, 0)) - int(base.parameters.get(name, 0)) for name in ("context", "exposed")]
    return "worse" if max(deltas) > 0 else "better" if min(deltas) < 0 else "same"


RULE = Rule(
    ID,
    {
        "en": "The engine release has a known cross-request leak in the mode in which it is deployed.",
        "ko": "배포된 구성에서 요청 간 유출이 알려진 엔진 릴리스입니다.",
    },
    evaluate,
    compare=_compare,
    subsumes=("sglang-pd-rejected-prefill-handoff", "sglang-pd-rejected-request-reported-success"),
)
