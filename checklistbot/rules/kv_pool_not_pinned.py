"""kv-pool-not-pinned: the pool is whatever is left of the memory at start-up, so every change of anything moves it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from checklistbot.model import Deployment, Finding
from checklistbot.rules.base import Context, Language, Rule, because, found, location

ID: Final = "kv-pool-not-pinned"
#: Flags that state the pool's size, by engine (facts: sglang.md 3, vllm.md 3).
_PINS: Final = {
    "sglang": ("max-total-tokens",),
    "vllm": ("kv-cache-memory-bytes", "num-gpu-blocks-override"),
}
_TITLE: Final[dict[Language, str]] = {
    "en": "The KV pool is not pinned",
    "ko": "KV 풀 크기가 고정되어 있지 않습니다",
}
_MESSAGE: Final[dict[Language, dict[str, str]]] = {
    "en": {
        "vllm": "Its size depends on GPU, release, model and memory fraction. --kv-cache-memory-bytes fixes it and makes this check exact.",
        "sglang": "Its size depends on GPU, release, model and memory fraction. --max-total-tokens is a ceiling: it keeps the pool from growing past "
        "what was tested, and shows a pool that is too small; it does not prove that one is large enough.",
    },
    "ko": {
        "vllm": "풀 크기가 GPU, 릴리스, 모델, 메모리 비율에 따라 달라집니다. --kv-cache-memory-bytes로 고정하면 이 검사가 정확해집니다.",
        "sglang": "풀 크기가 GPU, 릴리스, 모델, 메모리 비율에 따라 달라집니다. --max-total-tokens는 상한입니다. 테스트한 크기보다 커지지 않게 하고 "
        "너무 작은 풀을 드러내지만, 충분히 "
        "크다는 증거는 되지 않습니다.",
    },
}


def evaluate(context: Context) -> Iterator[Finding]:
    for deployment in context.facts.deployments:
        engine = str(deployment.engine.value)
        pinned = any(deployment.flag(name) is not None for name in _PINS.get(engine, ()))
        # Where the pool is not known at all, kv-pool-unknown says how to learn it, pinning included.
        if engine in _PINS and not pinned and deployment.kv_pool_tokens.kind in ("observed", "predicted"):
            yield _note(deployment, engine, context.language)


def _note(deployment: Deployment, engine: str, language: Language) -> Finding:
    text = (_TITLE[language], _MESSAGE[language][engine])
    why = because(deployment, "memory_fraction", "gpu")
    return found(ID, "note", deployment.id, text, where=location(deployment, "memory_fraction"), why=why)


RULE = Rule(
    ID,
    {
        "en": "Nothing in the repository fixes the size of the KV pool.",
        "ko": "저장소 어디에도 KV 풀 크기가 고정되어 있지 않습니다.",
    },
    evaluate,
    fires="note",
    page={
        "en": (
            "A note, never more, for a pool that was observed or predicted: where it is not known at all, kv-pool-unknown speaks. On vLLM "
            "--kv-cache-memory-bytes (0.10.2 and later) gives every replica the same pool, whatever else changes. On "
            "SGLang the pool is the smaller of --max-total-tokens and what fits.",
        ),
        "ko": (
            "관측했거나 예측한 풀에 대한 참고입니다. 아예 모르는 경우는 kv-pool-unknown이 다룹니다. vLLM에서는 --kv-cache-memory-bytes(0.10.2 "
            "이상)를 주면 다른 것이 바뀌어도 모든 레플리카의 풀이 같습니다. SGLang의 풀은 --max-total-tokens와 "
            "메모리에 들어가는 크기 중 작은 쪽입니다.",
        ),
    },
)
