"""engine-below-fixed-version: an engine release with a known leak, in the mode in which it leaks (facts: sglang.md 0, 4.3)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from checklistbot.engines.base import version_of
from checklistbot.knowledge.advisory import Advisory, Tier
from checklistbot.model import VERDICT_ORDER, Deployment, Edit, Finding, Fix, Status, Verdict
from checklistbot.rules import _advisories
from checklistbot.rules._match import back_ported
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
        "below": "거부된 요청에 다른 고객의 텍스트가 응답으로 나갈 수 있습니다({engine} {version} < {floor})",
        "unknown": "{engine} 버전을 알 수 없어 {floor}에서 고친 유출을 배제하지 못했습니다",
        "pass": "{engine} {version}에는 {floor}의 수정이 들어 있습니다",
        "back-ported": "이미지에 {floor}의 수정이 들어 있습니다(설정에 적힌 내용)",
    },
}
_UNKNOWN: Final[dict[Language, str]] = {
    "en": "{why} Name it in .checklistbot.yml under images: (match, engine, version), "
    "or give the address of a running worker (--endpoint URL). Releases below {floor}: {summary}",
    "ko": "{why} .checklistbot.yml의 images: 에 적거나(match, engine, version) "
    "실행 중인 워커의 주소를 주세요(--endpoint URL). {floor} 미만이면: {summary}",
}
_WHY: Final[dict[Language, dict[str, str]]] = {
    "en": {
        "image": "The image does not say which {engine} release it holds.",
        "none": "Neither an image nor a pinned package says which {engine} release runs.",
    },
    "ko": {
        "image": "이미지에 어느 {engine} 릴리스가 들어 있는지 적혀 있지 않습니다.",
        "none": "어느 {engine} 릴리스가 실행되는지 이미지에도 고정된 패키지에도 적혀 있지 않습니다.",
    },
}
_ALSO: Final[dict[Language, str]] = {
    "en": "The same upgrade mends {n} more known bugs that apply here: {names}.",
    "ko": "같은 업그레이드로 이 구성에 해당하는 알려진 버그 {n}건이 더 고쳐집니다: {names}.",
}
_FIX: Final[dict[Language, str]] = {
    "en": "Run {engine} {floor} or later on every role of {group}.",
    "ko": "{group}의 모든 역할을 {engine} {floor} 이상으로 올리세요.",
}


def evaluate(context: Context) -> Iterator[Finding]:
    for key, members in context.groups():
        for advisory in _advisories.with_floor():
            affected = [member for member in members if _applies(advisory, member)]
            if affected:
                yield _judge(advisory, key, affected, context)


def _applies(advisory: Advisory, deployment: Deployment) -> bool:
    if advisory.engine != deployment.engine.value:
        return False
    return advisory.disaggregated is None or advisory.disaggregated == deployment.disaggregated


def _judge(advisory: Advisory, key: str, members: list[Deployment], context: Context) -> Finding:
    """The worst member decides for the group: one cause, one finding."""
    tiers: list[tuple[Deployment, Tier]] = []
    unknown: list[Deployment] = []
    ported = [member for member in members if back_ported(advisory, member, context.config)]
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
        finding = _below(advisory, key, member, tier, members, context.language)
        return _with_others(finding, mended_too(key, str(advisory.floor), context), context.language)
    if unknown:
        return _other("unknown", "unknown", advisory, key, unknown[0], context.language)
    return _other("pass", "back-ported" if ported else "pass", advisory, key, members[0], context.language)


def demanded(members: tuple[Deployment, ...], context: Context) -> str | None:
    """The release that this rule asks a group to upgrade to, None where it asks for none: other bugs that the same upgrade mends are told
    here and nowhere else."""
    floors = (_floor(advisory, member, context) for advisory in _advisories.with_floor() for member in members)
    return next((floor for floor in floors if floor is not None), None)


def _floor(advisory: Advisory, member: Deployment, context: Context) -> str | None:
    """The release that the advisory asks of this member; None where it asks for none or the release is not known."""
    version = version_of(member)
    if advisory.floor is None or version is None or not _applies(advisory, member):
        return None
    if back_ported(advisory, member, context.config) or advisory.tier(version) is None:
        return None
    return advisory.floor


def mended_too(key: str, floor: str, context: Context) -> list[Advisory]:
    """Further bugs that definitely apply to the group and that the release mends as well, the gravest first."""
    from packaging.version import Version

    fixed = [
        hit.advisory for hit in _advisories.hits_of(key, context) if hit.definite and hit.advisory.fixed_in is not None
    ]
    mended = [advisory for advisory in fixed if Version(str(advisory.fixed_in)) <= Version(floor)]
    return sorted(mended, key=lambda one: (VERDICT_ORDER.index(_advisories.verdict_of(one)), one.id))


def _with_others(finding: Finding, others: list[Advisory], language: Language) -> Finding:
    if not others:
        return finding
    names = ", ".join(advisory.id for advisory in others)
    text = _ALSO[language].format(n=len(others), names=names)
    return finding.replace(message=f"{finding.message} {text}", parameters={**finding.parameters, "also": names})


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
    why = _WHY[language]["image" if member.image.known else "none"].format(**values)
    told = _UNKNOWN[language].format(**values, why=why, summary=advisory.summary[language])
    message = told if verdict == "unknown" else title
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
    fires="block",
    waivable=False,
    two_people=True,
    leak=True,
    subsumes=("sglang-pd-rejected-prefill-handoff", "sglang-pd-rejected-request-reported-success"),
    page={
        "en": (
            "With disaggregated prefill and decode, SGLang up to 0.5.19 hands a rejected request to decode, which answers it from pages of other "
            "requests. From reading the code, 0.5.20 retires the aborted result before the hand-off and 0.5.21 refuses it at both queues; "
            "publicly reported as fixed is 0.5.22, and that is what policy asks for.",
            "A post-release counts with its release; development and release-candidate builds of the fixed release are below it. Where the "
            "release is not known the verdict is unknown, never pass. A back-port is declared under images: fixes: in .checklistbot.yml.",
            "No configuration closes the hole: even with large pools the last 6 lengths below the context length are rejected in the scheduler, "
            "and about twenty other rejections take the same path. The finding cannot be waived.",
            "An unchanged finding becomes worse when the context length rises or when the lengths that one role refuses and the other accepts "
            "grow in number.",
        ),
        "ko": (
            "prefill/decode 분리 구성에서 SGLang 0.5.19까지는 거부된 요청이 decode로 넘어가 다른 요청의 페이지로 답합니다. 코드를 읽은 바로는 "
            "0.5.20이 넘기기 전에 중단된 결과를 "
            "폐기하고, 0.5.21은 두 대기열에서 받지 않습니다. 공개적으로 알려진 수정 버전은 0.5.22이며 정책은 이를 요구합니다.",
            "post 릴리스는 그 릴리스로 칩니다. 수정 릴리스의 개발 빌드와 rc 빌드는 그 아래로 봅니다. 릴리스를 알 수 없으면 통과가 아니라 알 수 없음입니다. 백포트는 "
            ".checklistbot.yml의 images: fixes: 에 적습니다.",
            "설정만으로는 막을 수 없습니다. 풀이 커도 컨텍스트 길이 바로 아래 6개 길이는 스케줄러가 거부하고, 다른 거부 사유 약 20가지도 같은 경로를 지납니다. 이 판정은 예외로 "
            "처리할 수 없습니다.",
            "컨텍스트 길이가 늘거나, 한 역할은 거부하고 다른 역할은 받는 길이가 늘면 달라지지 않은 판정도 '더 나빠짐'이 됩니다.",
        ),
    },
)
