"""context-shrinks-silently: the engine serves less than what is declared, without an error (facts: other-engines.md)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from checklistbot.model import Deployment, Finding
from checklistbot.rules._match import flag_value
from checklistbot.rules.base import Context, Language, Rule, because, found, location, number

ID: Final = "context-shrinks-silently"
_SHRINKING: Final = {"tensorrt-llm": "TensorRT-LLM", "lmdeploy": "LMDeploy"}
_TITLE: Final[dict[Language, dict[str, str]]] = {
    "en": {
        "served": "The engine serves a shorter context than is declared",
        "may": "The engine may serve a shorter context than is declared",
    },
    "ko": {
        "served": "선언한 것보다 짧은 컨텍스트로 서빙합니다",
        "may": "선언한 것보다 짧은 컨텍스트로 서빙할 수 있습니다",
    },
}
_MESSAGE: Final[dict[Language, dict[str, str]]] = {
    "en": {
        "served": "Declared are {context} tokens, served are {served}: {missing} fewer.",
        "may": "{engine} lowers its limit to the KV pool at start-up and only logs it. Compare the length in the start-up log with the declared one{fail}.",
        "fail": ", or set --fail_fast_on_attention_window_too_large so that it stops instead",
    },
    "ko": {
        "served": "선언은 {context} 토큰, 실제 서빙은 {served} 토큰으로 {missing} 토큰 짧습니다.",
        "may": "{engine}은(는) 기동할 때 한도를 KV 풀에 맞춰 낮추고 로그만 남깁니다. 기동 로그의 길이를 선언한 길이와 비교하세요{fail}.",
        "fail": ". 또는 --fail_fast_on_attention_window_too_large를 켜서 기동을 멈추게 하세요",
    },
}


def evaluate(context: Context) -> Iterator[Finding]:
    for deployment in context.facts.deployments:
        declared, served = deployment.context_length.number(), deployment.served_context.number()
        if declared is None:
            continue
        if served is not None and served < declared and not deployment.served_context.stale:
            yield _finding(deployment, "served", context.language)
        elif served is None and _may(deployment):
            yield _finding(deployment, "may", context.language)


def _may(deployment: Deployment) -> bool:
    """A shrinking engine whose pool nobody knows; with a known pool kv-pool-below-context decides. LMDeploy's turbomind does not."""
    stops = flag_value(deployment, "fail-fast-on-attention-window-too-large") is True
    stops = stops or str(flag_value(deployment, "backend")).lower() == "turbomind"
    return deployment.engine.value in _SHRINKING and not deployment.kv_pool_tokens.known and not stops


def _finding(deployment: Deployment, kind: str, language: Language) -> Finding:
    declared, served = deployment.context_length.number() or 0, deployment.served_context.number() or 0
    engine = str(deployment.engine.value)
    message = _MESSAGE[language][kind].format(
        context=number(declared), served=number(served), missing=number(declared - served), engine=_SHRINKING.get(engine, engine),
        fail=_MESSAGE[language]["fail"] if engine == "tensorrt-llm" else "",
    )  # fmt: skip
    return found(
        ID,
        "warn" if kind == "served" else "note",
        deployment.id,
        (_TITLE[language][kind], message),
        where=location(deployment, "context_length"),
        why=because(deployment, "context_length", "served_context"),
        parameters={"kind": kind, "context": declared},
    )


RULE = Rule(
    ID,
    {
        "en": "The engine lowers the context length to what fits, without an error.",
        "ko": "엔진이 오류 없이 컨텍스트 길이를 들어가는 만큼으로 낮춥니다.",
    },
    evaluate,
    page={
        "en": (
            "It warns where a log or a server says that less is served than is declared, whatever the engine. TensorRT-LLM and LMDeploy (PyTorch) "
            "shrink by design: with an unknown pool that is a note.",
        ),
        "ko": (
            "엔진이 무엇이든, 선언보다 짧게 서빙한다고 로그나 서버가 말하면 경고합니다. TensorRT-LLM과 LMDeploy(PyTorch)는 원래 그렇게 동작하므로 KV "
            "풀을 모르면 참고로 알립니다.",
        ),
    },
)
