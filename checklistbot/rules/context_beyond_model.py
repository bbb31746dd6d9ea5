"""context-beyond-model: a context length above what the model was made for (facts: sglang.md 3.1, vllm.md 1.4)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from checklistbot.knowledge.families import family_of
from checklistbot.model import Deployment, Finding, Location
from checklistbot.rules.base import Context, Language, Rule, because, found, growing, location, number

ID: Final = "context-beyond-model"
#: Variables that let an engine start all the same, and flags that change what the model's configuration says.
_OVERRIDES: Final = {"vllm": "VLLM_ALLOW_LONG_MAX_MODEL_LEN", "sglang": "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN"}
_SCALING: Final = ("json-model-override-args", "hf-overrides", "rope-scaling", "rope-theta", "hf-config-path")
_TITLE: Final[dict[Language, dict[str, str]]] = {
    "en": {
        "allowed": "The context length may exceed what the model was made for",
        "refused": "The context length exceeds the model's",
    },
    "ko": {
        "allowed": "컨텍스트 길이가 모델이 지원하는 범위를 넘을 수 있습니다",
        "refused": "컨텍스트 길이가 모델의 한도를 넘습니다",
    },
}
_MESSAGE: Final[dict[Language, dict[str, str]]] = {
    "en": {
        "allowed": "{variable} lets the server start with a context length above the model's{limit}. Positions beyond it give wrong text or NaN. Extend the "
        "model with a RoPE setting (--hf-overrides, --json-model-override-args) instead and leave the variable out.",
        "refused": "Declared are {context} tokens, the published configuration of the model has {model}. The engine refuses to start, unless the deployed "
        "copy's configuration was changed.",
    },
    "ko": {
        "allowed": "{variable} 때문에 모델 한도{limit}를 넘는 컨텍스트 길이로도 서버가 기동합니다. 그 너머의 위치에서는 틀린 텍스트나 NaN이 나옵니다. 대신 RoPE 설정"
        "(--hf-overrides, --json-model-override-args)으로 모델을 확장하고 이 변수는 빼세요.",
        "refused": "선언은 {context} 토큰인데 공개된 모델 설정은 {model} 토큰입니다. 배포한 모델의 설정을 고치지 않았다면 엔진이 기동하지 않습니다.",
    },
}


def evaluate(context: Context) -> Iterator[Finding]:
    for deployment in context.facts.deployments:
        kind = _kind(deployment)
        if kind is not None:
            yield _finding(deployment, kind, context.language)


def _kind(deployment: Deployment) -> str | None:
    variable = _OVERRIDES.get(str(deployment.engine.value))
    if variable is None:
        return None
    limit, length = _model_limit(deployment), deployment.context_length.number()
    if any(deployment.flag(name) or _dotted(deployment, name) for name in _SCALING):
        return None
    entry = deployment.env_var(variable)
    if entry is not None and str(entry.value).lower() in ("1", "true", "yes"):
        return None if limit is not None and length is not None and length <= limit else "allowed"
    declared = deployment.context_length.kind == "declared" and length is not None and limit is not None
    return "refused" if declared and (length or 0) > (limit or 0) else None


def _dotted(deployment: Deployment, name: str) -> bool:
    return any(flag.name.startswith(f"{name}.") for flag in deployment.flags)


def _model_limit(deployment: Deployment) -> int | None:
    """The context length of the model's published configuration; None for a local path, whose copy may have been changed."""
    model = deployment.model.text()
    entry = family_of(model) if model and not model.startswith(("/", ".", "$")) else None
    return entry.context if entry else None


def _finding(deployment: Deployment, kind: str, language: Language) -> Finding:
    limit, length = _model_limit(deployment), deployment.context_length.number()
    variable = _OVERRIDES[str(deployment.engine.value)]
    entry = deployment.env_var(variable) if kind == "allowed" else None
    message = _MESSAGE[language][kind].format(
        variable=variable,
        limit=f" ({number(limit)})" if limit else "",
        context=number(length or 0),
        model=number(limit or 0),
    )
    return found(
        ID,
        "warn",
        deployment.id,
        (_TITLE[language][kind], message),
        where=Location(entry.path, entry.line) if entry else location(deployment, "context_length"),
        why=because(deployment, "context_length", "model"),
        parameters={"context": length, "limit": limit, "kind": kind},
    )


RULE = Rule(
    ID,
    {
        "en": "The context length is above what the model's configuration allows.",
        "ko": "컨텍스트 길이가 모델 설정이 허용하는 값보다 큽니다.",
    },
    evaluate,
    compare=growing("context"),
    subsumes=("vllm-context-beyond-model",),
    page={
        "en": (
            "The limit is the published configuration's. A RoPE setting on the command line is trusted and keeps this rule silent; so does a model "
            "from a local path, whose configuration may differ.",
            "VLLM_ALLOW_LONG_MAX_MODEL_LEN and SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN switch the engine's own check off.",
        ),
        "ko": (
            "한도는 공개된 모델 설정의 값입니다. 명령줄에 RoPE 설정이 있거나 모델이 로컬 경로면(설정이 다를 수 있으므로) 조용히 넘어갑니다.",
            "VLLM_ALLOW_LONG_MAX_MODEL_LEN과 SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN은 엔진 자체의 검사를 끕니다.",
        ),
    },
)
