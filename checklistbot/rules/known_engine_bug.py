"""known-engine-bug: what the advisories say about the deployed release and configuration (operations-and-attacks 14).

One cause, one finding: all bugs that an upgrade mends are one finding a group, each bug without a fixed release is one, and everything
that only may apply is one line with the facts that would decide.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from checklistbot.engines.base import version_of
from checklistbot.model import VERDICT_ORDER, Deployment, Finding, Fix, Status, Verdict
from checklistbot.rules import engine_below_fixed_version
from checklistbot.rules._advisories import NAMES, Hit, by_flag, hits, verdict_of
from checklistbot.rules.base import Context, Language, Rule, because, by_verdict, found, location, titled

ID: Final = "known-engine-bug"
_MAX_NAMED: Final = 4

_TITLE: Final[dict[Language, dict[str, str]]] = {
    "en": {
        "upgrade": "{bugs} of {engine} {version} here, mended in {fixed}",
        "open": "known {engine} bug without a fixed release ({component})",
        "possible": "{bugs} may apply; a missing fact decides",
    },
    "ko": {
        "upgrade": "{engine} {version}에는 이 구성에 해당하는 알려진 버그가 {n}건 있고 {fixed}에서 고쳐졌습니다",
        "open": "고친 릴리스가 아직 없는 {engine}의 알려진 버그({component})",
        "possible": "해당할 수 있는 알려진 버그가 {n}건 있습니다. 사실 하나씩만 확인되면 가려집니다",
    },
}
_FIX: Final[dict[Language, str]] = {
    "en": "Run {engine} {fixed} or later on every role of {group}.",
    "ko": "{group}의 모든 역할을 {engine} {fixed} 이상으로 올리세요.",
}
_MISSING: Final[dict[Language, dict[str, str]]] = {
    "en": {
        "version": "which release runs", "model": "the model", "model_family": "the model's attention type", "multimodal": "whether the model takes images",
        "kv_heads_below": "the model's KV heads and both roles' tensor parallel size", "capacity": "the KV pool and the context length",
        "pair": "the other role's settings", "flags": "how an option is set", "env": "how a variable is set", "hardware": "the GPU",
        "replicas": "the number of replicas", "role": "the role", "kv_connector": "the KV connector", "kv_transfer": "the KV transfer settings",
        "kv_transfer_extra": "the KV transfer settings", "transfer_backend": "the transfer backend", "kv_cache_dtype": "the KV dtype",
        "speculative": "the speculative method", "parallel": "the pipeline parallel size", "engine_versions": "which release runs", "policy": "whether tenants share the engine",
    },
    "ko": {
        "version": "실행 중인 릴리스", "model": "모델", "model_family": "모델의 어텐션 종류", "multimodal": "모델이 이미지를 받는지",
        "kv_heads_below": "모델의 KV 헤드 수와 두 역할의 텐서 병렬 크기", "capacity": "KV 풀과 컨텍스트 길이",
        "pair": "다른 역할의 설정", "flags": "옵션 값", "env": "환경 변수 값", "hardware": "GPU", "replicas": "레플리카 수",
        "role": "역할", "kv_connector": "KV 커넥터", "kv_transfer": "KV 전송 설정", "kv_transfer_extra": "KV 전송 설정",
        "transfer_backend": "전송 백엔드", "kv_cache_dtype": "KV 자료형", "speculative": "추측 디코딩 방식",
        "parallel": "파이프라인 병렬 크기", "engine_versions": "실행 중인 릴리스", "policy": "여러 테넌트가 엔진을 함께 쓰는지",
    },
}  # fmt: skip
_ASKED: Final = frozenset(
    {"exposure", "change", "lmcache", "mooncake", "kv_cache_config", "cache_transceiver", "storage", "policy"}
)


def evaluate(context: Context) -> Iterator[Finding]:
    for key, members, found_hits in hits(context):
        told = _told_elsewhere(key, members, context)
        definite = [hit for hit in found_hits if hit.definite and hit.advisory.id not in told]
        fixed = [hit for hit in definite if hit.advisory.fixed_in is not None]
        if fixed:
            yield _upgrade(key, members, fixed, context.language)
        for hit in definite:
            if hit.advisory.fixed_in is None and not by_flag(hit.advisory):
                yield _open(key, hit, context.language)
        floor = engine_below_fixed_version.demanded(members, context) or (_newest(fixed) if fixed else None)
        possible = [
            hit for hit in found_hits if not hit.definite and not _only_version(hit) and not _mended(hit, floor)
        ]
        if possible:
            yield _possible(key, members, possible, context.language)


def _told_elsewhere(key: str, members: tuple[Deployment, ...], context: Context) -> set[str]:
    """Bugs that the upgrade which engine-below-fixed-version asks for mends as well."""
    floor = engine_below_fixed_version.demanded(members, context)
    return {advisory.id for advisory in engine_below_fixed_version.mended_too(key, floor, context)} if floor else set()


def _only_version(hit: Hit) -> bool:
    """engine-version-unknown speaks for what only the release would decide."""
    return all("version" in result.undecided and version_of(member) is None for member, result in hit.possible)


def _mended(hit: Hit, floor: str | None) -> bool:
    """True if the upgrade that is asked for anyway mends it."""
    from packaging.version import Version

    fixed = hit.advisory.fixed_in
    return floor is not None and fixed is not None and Version(fixed) <= Version(floor)


def _newest(hits_: list[Hit]) -> str:
    from packaging.version import Version

    return max((str(hit.advisory.fixed_in) for hit in hits_), key=Version)


def _upgrade(key: str, members: tuple[Deployment, ...], fixed: list[Hit], language: Language) -> Finding:
    fixed = sorted(fixed, key=lambda hit: VERDICT_ORDER.index(verdict_of(hit.advisory)))
    verdict: Verdict = verdict_of(fixed[0].advisory)
    member = fixed[0].definite[0]
    values = {
        "engine": NAMES.get(fixed[0].advisory.engine, fixed[0].advisory.engine),
        "version": member.engine_version.text() or "?",
        "fixed": _newest(fixed),
        "group": members[0].group,
    }
    title = _TITLE[language]["upgrade"].format(**values, n=len(fixed), bugs=bugs(len(fixed)))
    named = " ".join(f"{hit.advisory.summary[language]} ({hit.advisory.id})" for hit in fixed[:_MAX_NAMED])
    rest = "" if len(fixed) <= _MAX_NAMED else " + " + ", ".join(hit.advisory.id for hit in fixed[_MAX_NAMED:])
    finding = found(
        ID,
        verdict,
        key,
        (titled(title), named + rest),
        where=location(member, "engine_version", "image"),
        why=because(member, "engine_version", "role", "model"),
        parameters={
            "engine": values["engine"],
            "version": values["version"],
            "fixed": values["fixed"],
            "advisories": ",".join(sorted(hit.advisory.id for hit in fixed)),
            "aspect": "upgrade",
        },
    )
    return finding.replace(fix=Fix(_FIX[language].format(**values)))


def _open(key: str, hit: Hit, language: Language) -> Finding:
    advisory, member = hit.advisory, hit.definite[0]
    finding = found(
        ID,
        verdict_of(advisory),
        key,
        (
            titled(
                _TITLE[language]["open"].format(
                    engine=NAMES.get(advisory.engine, advisory.engine), component=advisory.component
                )
            ),
            advisory.summary[language],
        ),
        where=location(member, "engine_version", "image"),
        why=because(member, "engine_version", "role", "model"),
        advisory=advisory.id,
    )
    return finding.replace(fix=Fix(advisory.mitigation[language]))


def _possible(key: str, members: tuple[Deployment, ...], possible: list[Hit], language: Language) -> Finding:
    """One folded line. It is not proven where a leak or a blocking bug is among them, else a note."""
    grave = any(hit.advisory.may_block or (hit.advisory.leak and hit.advisory.severity == "block") for hit in possible)
    questions = [f"{hit.advisory.id}: {question(hit, language)}" for hit in possible]
    return found(
        ID,
        "unknown" if grave else "note",
        key,
        (titled(_TITLE[language]["possible"].format(n=len(possible), bugs=bugs(len(possible)))), "; ".join(questions)),
        where=location(members[0]),
        parameters={
            "aspect": "possible",
            "folded": True,
            "advisories": ",".join(sorted(hit.advisory.id for hit in possible)),
        },
    )


def bugs(n: int) -> str:
    """1 known bug, 2 known bugs."""
    return f"{n} known bug{'s' if n > 1 else ''}"


def question(hit: Hit, language: Language) -> str:
    """The question that would decide a possible match."""
    undecided = dict.fromkeys(name for _, result in hit.possible for name in result.undecided)
    asked = [name for name in undecided if name in _ASKED or name not in _MISSING[language]]
    if hit.advisory.ask and asked:
        return hit.advisory.ask[language]
    missing = _MISSING[language]
    return ", ".join(missing.get(name, name) for name in undecided) + "?"


def _compare(base: Finding, head: Finding) -> Status:
    """More bugs than before are worse at the same verdict."""
    status = by_verdict(base, head)
    if status != "same":
        return status
    before, after = (set(str(f.parameters.get("advisories", "")).split(",")) for f in (base, head))
    return "worse" if after - before else "better" if before - after else "same"


RULE = Rule(
    ID,
    {
        "en": "The deployed engine release has known bugs that apply to this configuration.",
        "ko": "배포된 엔진 릴리스에 이 구성에 해당하는 알려진 버그가 있습니다.",
    },
    evaluate,
    compare=_compare,
    fires="block",
    leak=True,
    page={
        "en": (
            "Each advisory names the affected releases and the conditions under which a bug shows: mode, role, connector, flags, model family, "
            "sizes. It applies definitely where facts of the repository settle all of them. Then it blocks if one request's data can "
            "reach another, the code was read, and the bounds are not estimated; else it warns, or is a note where the bug is small.",
            "Bugs that an upgrade mends are one finding. Bugs without a fixed release are one finding each, with what can be done instead.",
            "Where a fact is missing the advisory is possible: it stands in one folded line with the question that decides. That line counts "
            "as not proven only where a leak is among them.",
            "A vendor's image may carry a back-port: name the advisory under images: fixes: in .checklistbot.yml.",
        ),
        "ko": (
            "권고마다 영향받는 릴리스와 버그가 나타나는 조건(구성, 역할, 커넥터, 옵션, 모델 계열, 크기)이 적혀 있습니다. 저장소에서 확인된 "
            "사실만으로 모든 조건이 가려지면 확실히 "
            "해당합니다. 이때 한 요청의 데이터가 다른 요청에 닿을 수 있고, 코드를 직접 확인했고, 버전 범위가 추정이 아니면 차단합니다. 그 밖에는 "
            "경고하고, 작은 버그는 참고로만 "
            "남깁니다.",
            "버전을 올리면 고쳐지는 버그는 한 건으로 묶습니다. 고친 릴리스가 없는 버그는 각각 한 건이며 대신 할 수 있는 일을 함께 적습니다.",
            "확인되지 않은 사실이 있으면 '해당할 수 있음'이고, 접힌 한 줄에 판단에 필요한 질문과 함께 적습니다. 그 가운데 유출이 있을 때만 '증명되지 않음'으로 셉니다.",
            "벤더 이미지가 수정을 백포트했다면 .checklistbot.yml의 images: fixes: 에 권고 이름을 적으세요.",
        ),
    },
)
