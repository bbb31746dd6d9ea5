"""silent-truncation: a prompt that is too long is cut and answered, without an error (facts: sglang.md 3, other-engines.md)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from checklistbot.engines.base import below, version_of
from checklistbot.model import Deployment, Finding, Location, Verdict
from checklistbot.rules._match import flag_value
from checklistbot.rules.base import Context, Language, Rule, found, location

ID: Final = "silent-truncation"
_TITLE: Final[dict[Language, str]] = {
    "en": "Prompts that are too long are cut without an error",
    "ko": "너무 긴 프롬프트를 오류 없이 잘라냅니다",
}
_MESSAGE: Final[dict[Language, dict[str, str]]] = {
    "en": {
        "auto-truncate": "--allow-auto-truncate makes SGLang cut a prompt to its limit and answer with status 200: the end of the prompt is missing. "
        "Leave the flag out and let clients handle the 400.",
        "old-sglang": "SGLang before 0.4.3.post2 always cuts prompts that are too long. Upgrade.",
        "context-shift": "--context-shift drops the older half of the context during generation. Leave it out: requests then end with finish_reason "
        "length or a 400.",
        "ollama": "Ollama drops the oldest messages of a prompt that does not fit, by default. Send truncate: false where a cut prompt is worse than an "
        "error, and set num_ctx to what is promised.",
    },
    "ko": {
        "auto-truncate": "--allow-auto-truncate를 켜면 SGLang이 프롬프트를 한도에 맞춰 자르고 상태 코드 200으로 답합니다. 프롬프트의 끝이 사라집니다. 이 옵션을 빼고 400은 "
        "클라이언트가 처리하게 하세요.",
        "old-sglang": "0.4.3.post2 이전의 SGLang은 너무 긴 프롬프트를 항상 자릅니다. 버전을 올리세요.",
        "context-shift": "--context-shift를 켜면 생성 도중 컨텍스트의 오래된 절반을 버립니다. 빼면 finish_reason이 length로 끝나거나 400이 됩니다.",
        "ollama": "Ollama는 들어가지 않는 프롬프트에서 오래된 메시지부터 버리는 것이 기본입니다. 잘린 프롬프트가 오류보다 나쁜 곳이라면 truncate: "
        "false를 보내고, num_ctx를 약속한 "
        "길이로 두세요.",
    },
}


def evaluate(context: Context) -> Iterator[Finding]:
    for deployment in context.facts.deployments:
        decided = _kind(deployment)
        if decided is not None:
            verdict, kind, flag = decided
            entry = deployment.flag(flag) if flag else None
            where = Location(entry.path, entry.line) if entry else location(deployment)
            text = (_TITLE[context.language], _MESSAGE[context.language][kind])
            yield found(ID, verdict, deployment.id, text, where=where, parameters={"kind": kind})


def _kind(deployment: Deployment) -> tuple[Verdict, str, str | None] | None:
    """(verdict, text, the flag that does it), None where nothing is cut."""
    engine = deployment.engine.value
    if engine == "sglang" and not deployment.disaggregated:
        release = version_of(deployment)
        if release is not None and below(release, "0.4.3.post2"):
            return "warn", "old-sglang", None
        return (
            ("warn", "auto-truncate", "allow-auto-truncate")
            if flag_value(deployment, "allow-auto-truncate") is True
            else None
        )
    if engine == "llama.cpp" and flag_value(deployment, "context-shift") is True:
        return "warn", "context-shift", "context-shift"
    return ("note", "ollama", None) if engine == "ollama" else None


RULE = Rule(
    ID,
    {
        "en": "A prompt that is too long is cut and answered with status 200.",
        "ko": "너무 긴 프롬프트를 잘라 놓고 상태 코드 200으로 답합니다.",
    },
    evaluate,
    subsumes=(
        "sglang-auto-truncate-enabled",
        "sglang-old-silent-truncation",
        "llamacpp-context-shift-silent",
        "vllm-max-tokens-clamped",
    ),
    page={
        "en": (
            "Status codes do not show it: only a test of the content does, with a fact at the end of a limit-length prompt.",
            "vLLM from 0.18 does not cut prompts but lowers max_tokens to what is left of the context (finish_reason length). That is the same on every "
            "deployment and is not reported: leave room for the output in the context length.",
        ),
        "ko": (
            "상태 코드로는 드러나지 않습니다. 한도 길이 프롬프트의 끝에 사실을 넣고 응답 내용을 보는 테스트로만 확인할 수 있습니다.",
            "vLLM은 0.18부터 프롬프트를 자르지는 않지만 max_tokens를 컨텍스트에 남은 만큼으로 낮춥니다(finish_reason은 length). 모든 배포가 같으므로 알리지 않습니다. 컨텍스트 "
            "길이에 출력 몫을 남기세요.",
        ),
    },
)
