"""risky-change: a change that moves the KV pool or the memory layout although no number of the promise changes (facts: kv-capacity.md)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from checklistbot.changes import pair
from checklistbot.engines.base import version_of
from checklistbot.knowledge.families import families
from checklistbot.model import Deployment, Finding
from checklistbot.rules import _limits as limits
from checklistbot.rules._match import speculative
from checklistbot.rules.base import Context, Language, Rule, because, found, location

ID: Final = "risky-change"
_TITLE: Final[dict[Language, dict[str, str]]] = {
    "en": {"down": "This change can shrink the KV pool: {what}", "moves": "This change moves the KV pool: {what}"},
    "ko": {"down": "이 변경으로 KV 풀이 줄어들 수 있습니다: {what}", "moves": "이 변경으로 KV 풀이 달라집니다: {what}"},
}
_WHAT: Final[dict[Language, dict[str, str]]] = {
    "en": {"gpu": "GPU", "gpu_count": "GPU count", "memory_fraction": "memory fraction", "kv_cache_dtype": "KV dtype",
           "tensor_parallel": "tensor parallel size", "pipeline_parallel": "pipeline parallel size",
           "data_parallel": "data parallel size", "speculative": "speculative decoding", "engine_version": "engine release of a hybrid model"},
    "ko": {"gpu": "GPU", "gpu_count": "GPU 수", "memory_fraction": "메모리 비율", "kv_cache_dtype": "KV 자료형",
           "tensor_parallel": "텐서 병렬 크기", "pipeline_parallel": "파이프라인 병렬 크기", "data_parallel": "데이터 병렬 크기",
           "speculative": "추측 디코딩", "engine_version": "하이브리드 모델의 엔진 릴리스"},
}  # fmt: skip
_WHY: Final[dict[Language, dict[str, str]]] = {
    "en": {
        "gpu": "The pool is what the GPU's memory leaves beside the weights.",
        "gpu_count": "More or fewer GPUs share the weights.",
        "memory_fraction": "The pool gets the fraction minus the weights, so it shrinks faster than the fraction.",
        "kv_cache_dtype": "A wider dtype holds fewer tokens in the same memory.",
        "tensor_parallel": "Fewer ranks hold more weights each and more KV heads each.",
        "pipeline_parallel": "The stage with the most layers decides.",
        "data_parallel": "Each DP rank has a pool of its own and must hold a whole request.",
        "speculative": "Draft weights and draft KV come out of the same memory.",
        "engine_version": "Releases lay out hybrid pools differently.",
    },
    "ko": {
        "gpu": "KV 풀은 GPU 메모리에서 가중치를 뺀 나머지입니다.",
        "gpu_count": "가중치를 나눠 갖는 GPU 수가 달라집니다.",
        "memory_fraction": "비율에서 가중치를 뺀 만큼이 풀이 되므로 비율보다 더 빠르게 줄어듭니다.",
        "kv_cache_dtype": "자료형이 넓어지면 같은 메모리에 담기는 토큰이 줄어듭니다.",
        "tensor_parallel": "랭크가 적어지면 랭크마다 가중치와 KV 헤드를 더 많이 갖습니다.",
        "pipeline_parallel": "레이어가 가장 많은 단계가 풀 크기를 정합니다.",
        "data_parallel": "DP 랭크마다 풀이 따로 있고, 요청 하나를 통째로 담아야 합니다.",
        "speculative": "드래프트 가중치와 드래프트 KV도 같은 메모리를 씁니다.",
        "engine_version": "하이브리드 풀의 배치는 릴리스마다 다릅니다.",
    },
}
_THEN: Final[dict[Language, str]] = {
    "en": "Take a new start-up log before the deploy.",
    "ko": "배포 전에 기동 로그를 새로 받으세요.",
}
_WIDTHS: Final = {
    "fp4": 4,
    "nvfp4": 4,
    "int4": 4,
    "fp8": 8,
    "fp8_e4m3": 8,
    "fp8_e5m2": 8,
    "int8": 8,
    "bfloat16": 16,
    "bf16": 16,
    "float16": 16,
    "fp16": 16,
    "auto": 16,
}


def evaluate(context: Context) -> Iterator[Finding]:
    if context.base is None:
        return
    for old, new in pair(context.base.deployments, context.facts.deployments):
        changed = {name: down for name, judge in _JUDGES.items() if (down := judge(old, new)) is not None}
        if changed:
            yield _finding(new, changed, context.language)


def _both(old: Deployment, new: Deployment, name: str) -> tuple[object, object] | None:
    """The two values where both are declared and differ."""
    a, b = old.fact(name), new.fact(name)
    differ = a.value != b.value and "observed" not in (a.kind, b.kind)
    return (a.value, b.value) if differ and a.known and b.known else None


def _number(name: str, *, larger_is_less: bool = False) -> Callable[[Deployment, Deployment], bool | None]:
    """True where the number moves so that the pool shrinks, False where it grows, None where it does not change."""

    def judge(old: Deployment, new: Deployment) -> bool | None:
        values = _both(old, new, name)
        before, after = values or (None, None)
        if not isinstance(before, (int, float)) or not isinstance(after, (int, float)):
            return None
        return after > before if larger_is_less else after < before

    return judge


def _gpu(old: Deployment, new: Deployment) -> bool | None:
    return None if _both(old, new, "gpu") is None else True


def _dtype(old: Deployment, new: Deployment) -> bool | None:
    before, after = (str(d.kv_cache_dtype.value or "auto").lower() for d in (old, new))
    if before == after:
        return None
    return _WIDTHS.get(after, 16) > _WIDTHS.get(before, 16)


def _speculative(old: Deployment, new: Deployment) -> bool | None:
    before, after = speculative(old), speculative(new)
    return None if before == after else bool(after) or after is None


def _hybrid_release(old: Deployment, new: Deployment) -> bool | None:
    before, after = version_of(old), version_of(new)
    hybrid = bool(limits.HYBRIDS & families(new.model.text()))
    if not hybrid or before is None or after is None or before.release[:2] == after.release[:2]:
        return None
    return True


_JUDGES: Final[dict[str, Callable[[Deployment, Deployment], bool | None]]] = {
    "gpu": _gpu,
    "gpu_count": _number("gpu_count"),
    "memory_fraction": _number("memory_fraction"),
    "kv_cache_dtype": _dtype,
    "tensor_parallel": _number("tensor_parallel"),
    "pipeline_parallel": _number("pipeline_parallel"),
    "data_parallel": _number("data_parallel", larger_is_less=True),
    "speculative": _speculative,
    "engine_version": _hybrid_release,
}


def _finding(new: Deployment, changed: dict[str, bool], language: Language) -> Finding:
    """One finding a deployment: what shrinks the pool comes first; a change that only enlarges it is a note."""
    names = sorted(changed, key=lambda name: not changed[name])
    down = any(changed.values())
    what = ", ".join(_WHAT[language][name] for name in names)
    message = " ".join([*(_WHY[language][name] for name in names), _THEN[language]])
    facts = [name for name in names if name != "speculative"]
    return found(
        ID,
        "warn" if down else "note",
        new.id,
        (_TITLE[language]["down" if down else "moves"].format(what=what), message),
        where=location(new, *facts),
        why=because(new, *facts),
        parameters={"changed": ",".join(names)},
    )


RULE = Rule(
    ID,
    {
        "en": "GPU, memory fraction, KV dtype, parallelism or speculative decoding changed: an earlier measurement of the pool no longer counts.",
        "ko": "GPU, 메모리 비율, KV 자료형, 병렬 크기, 추측 디코딩이 바뀌어 이전에 측정한 KV 풀 값을 더는 쓸 수 없습니다.",
    },
    evaluate,
    page={
        "en": (
            "Only changes between base and head are reported. A change that can only enlarge the pool is a note; one that lowers risk never blocks.",
            "An engine's minor release counts on hybrid models (sliding window, Mamba, linear attention), whose pool layout changes between releases.",
        ),
        "ko": (
            "베이스와 변경 사이의 차이만 알립니다. 풀을 늘리기만 하는 변경은 참고로 알리고, 위험을 낮추는 변경은 차단하지 않습니다.",
            "엔진의 마이너 릴리스는 하이브리드 모델(슬라이딩 윈도, Mamba, 선형 어텐션)에서만 봅니다. 풀 배치가 릴리스마다 다르기 때문입니다.",
        ),
    },
)
