"""engine-version-unknown: which known bugs apply cannot be told without the engine's release (operations-and-attacks 4)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from checklistbot.engines.base import version_of
from checklistbot.model import Deployment, Finding
from checklistbot.rules import _advisories
from checklistbot.rules.base import Context, Language, Rule, because, found, location, titled
from checklistbot.rules.known_engine_bug import bugs

ID: Final = "engine-version-unknown"
_TITLE: Final[dict[Language, str]] = {
    "en": "{engine} version is not known, so {bugs} cannot be ruled out",
    "ko": "{engine} 버전을 알 수 없어 알려진 버그 {n}건을 배제하지 못했습니다",
}
_MESSAGE: Final[dict[Language, dict[str, str]]] = {
    "en": {
        "no-image": "Neither an image nor a pinned package says which release runs.",
        "image": "{image} does not say which release it holds.",
        "text": "{version} is no release number that can be compared.",
        "mend": "Use a tag that names the release, or name it in .checklistbot.yml under images: (match, engine, version), or give the "
        "address of a running worker (--endpoint URL).",
    },
    "ko": {
        "no-image": "어느 릴리스가 실행되는지 이미지에도 고정된 패키지에도 적혀 있지 않습니다.",
        "image": "{image}만으로는 어느 릴리스인지 알 수 없습니다.",
        "text": "{version}은(는) 비교할 수 있는 릴리스 번호가 아닙니다.",
        "mend": "릴리스가 드러나는 태그를 쓰거나, .checklistbot.yml의 images: 에 적거나(match, engine, version), 실행 중인 워커의 주소를 주세요(--endpoint URL).",
    },
}


def evaluate(context: Context) -> Iterator[Finding]:
    for key, members, hits in _advisories.hits(context):
        unknown = [m for m in members if version_of(m) is None and m.engine.value in _advisories.NAMES]
        if not unknown or _spoken_for(unknown, context):
            continue
        waiting = {
            hit.advisory.id
            for hit in hits
            for member, result in hit.possible
            if member in unknown and "version" in result.undecided
        }
        if waiting:
            yield _finding(key, unknown[0], len(waiting), context.language)


def _spoken_for(unknown: list[Deployment], context: Context) -> bool:
    """engine-below-fixed-version asks for the release of these itself: SGLang in disaggregated mode."""
    return all(m.engine.value == "sglang" and m.disaggregated for m in unknown)


def _finding(key: str, member: Deployment, n: int, language: Language) -> Finding:
    texts = _MESSAGE[language]
    if member.engine_version.known:
        why = texts["text"].format(version=member.engine_version.value)
    elif member.image.known:
        why = texts["image"].format(image=member.image.value)
    else:
        why = texts["no-image"]
    engine = _advisories.NAMES.get(str(member.engine.value), str(member.engine.value))
    return found(
        ID,
        "unknown",
        key,
        (titled(_TITLE[language].format(engine=engine, n=n, bugs=bugs(n))), f"{why} {texts['mend']}"),
        where=location(member, "engine_version", "image"),
        why=because(member, "engine_version", "image"),
        parameters={"engine": engine, "count": n},
    )


RULE = Rule(
    ID,
    {
        "en": "The engine's release is not known, so known bugs cannot be ruled out.",
        "ko": "엔진 릴리스를 알 수 없어 알려진 버그를 배제할 수 없습니다.",
    },
    evaluate,
    fires="unknown",
    page={
        "en": (
            "A version comes from a tag only where the image's repository is known to tag by the engine's release. Other images, mirrors and "
            "digests say nothing, and 'latest' is no release. It is not known rather than passed.",
        ),
        "ko": (
            "이미지 저장소가 엔진 릴리스로 태그를 단다고 알려진 경우에만 태그에서 버전을 읽습니다. 그 밖의 이미지, 미러, 다이제스트는 버전을 알려 "
            "주지 않고 latest는 릴리스가 아닙니다. "
            "이때는 통과가 아니라 알 수 없음으로 처리합니다.",
        ),
    },
)
