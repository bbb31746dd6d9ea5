"""disaggregation-safeguards: switches that catch a wrong transfer, and are off (operations-and-attacks 37)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from checklistbot.engines.base import below, version_of
from checklistbot.model import Deployment, Finding
from checklistbot.rules._match import connectors, disaggregated, flag_value, transfer_config
from checklistbot.rules.base import Context, Language, Rule, found, location

ID: Final = "disaggregation-safeguards"
_TITLE: Final[dict[Language, str]] = {
    "en": "Safeguards against a wrong KV transfer are off",
    "ko": "잘못된 KV 전송을 막는 장치가 꺼져 있습니다",
}
_TEXT: Final[dict[Language, dict[str, str]]] = {
    "en": {
        "checksum": "--disaggregation-enable-kv-checksum (SGLang 0.5.21 and later, both roles) aborts a request whose pages did not arrive as they were sent.",
        "canary": "--kv-canary log (SGLang 0.5.13 and later) reports pages that are read before they are written.",
        "policy": "kv_load_failure_policy is not fail: after a failed load the engine goes on.",
        "lease": "kv_lease_duration is left at 30 s: a request that waits longer at decode is answered from freed blocks. Set it above the longest queue wait and "
        "raise an alarm on 'Potentially invalid KV blocks'.",
        "timeout": "VLLM_NIXL_ABORT_REQUEST_TIMEOUT is left at its default: a request that waits longer at decode is answered from freed blocks.",
    },
    "ko": {
        "checksum": "--disaggregation-enable-kv-checksum(SGLang 0.5.21 이상, 두 역할 모두)을 켜면 페이지가 보낸 그대로 도착하지 않은 요청을 중단합니다.",
        "canary": "--kv-canary log(SGLang 0.5.13 이상)를 켜면 쓰이기 전에 읽힌 페이지를 알려 줍니다.",
        "policy": "kv_load_failure_policy가 fail이 아닙니다. 로드에 실패해도 엔진이 계속합니다.",
        "lease": "kv_lease_duration이 기본값 30초입니다. decode에서 이보다 오래 기다린 요청은 이미 반납된 블록으로 답합니다. 가장 긴 대기 시간보다 "
        "크게 두고 'Potentially invalid KV "
        "blocks' 로그에 알람을 거세요.",
        "timeout": "VLLM_NIXL_ABORT_REQUEST_TIMEOUT이 기본값입니다. decode에서 이보다 오래 기다린 요청은 이미 반납된 블록으로 답합니다.",
    },
}


def evaluate(context: Context) -> Iterator[Finding]:
    for key, members in context.groups():
        split = [m for m in members if disaggregated(m)]
        missing = list(dict.fromkeys(name for member in split for name in _missing(member)))
        if missing:
            text = (_TITLE[context.language], " ".join(_TEXT[context.language][name] for name in missing))
            yield found(
                ID, "note", key, text, where=location(split[0]), parameters={"missing_safeguards": ",".join(missing)}
            )


def _missing(deployment: Deployment) -> Iterator[str]:
    if deployment.engine.value == "sglang":
        yield from _sglang(deployment)
    elif deployment.engine.value == "vllm":
        yield from _vllm(deployment)


def _sglang(deployment: Deployment) -> Iterator[str]:
    release = version_of(deployment)
    if release is None or below(release, "0.5.13"):
        return
    if not below(release, "0.5.21") and flag_value(deployment, "disaggregation-enable-kv-checksum") is not True:
        yield "checksum"
    if str(flag_value(deployment, "kv-canary") or "none") == "none":
        yield "canary"


def _vllm(deployment: Deployment) -> Iterator[str]:
    release, config = version_of(deployment), transfer_config(deployment)
    if release is None or config is None or below(release, "0.10.2"):
        return
    by_default = "fail" if not below(release, "0.17") else "recompute"
    if not below(release, "0.13") and config.get("kv_load_failure_policy", by_default) != "fail":
        yield "policy"
    if not any(name.startswith("Nixl") for name in connectors(deployment) or ()):
        return
    extra = config.get("kv_connector_extra_config")
    if below(release, "0.22"):
        if deployment.env_var("VLLM_NIXL_ABORT_REQUEST_TIMEOUT") is None:
            yield "timeout"
    elif not (isinstance(extra, dict) and "kv_lease_duration" in extra):
        yield "lease"


RULE = Rule(
    ID,
    {
        "en": "Switches that catch a wrong KV transfer between prefill and decode are not set.",
        "ko": "prefill과 decode 사이의 잘못된 KV 전송을 잡아내는 설정이 빠져 있습니다.",
    },
    evaluate,
    fires="note",
    subsumes=("sglang-pd-no-length-check-at-commit", "vllm-nixl-expired-blocks-read"),
    page={
        "en": (
            "Notes only: the switches do not replace a fixed release. They turn a silent wrong answer into an error or a line in the log.",
            "Recognised are --disaggregation-enable-kv-checksum, --kv-canary, kv_load_failure_policy: fail, and a lease (kv_lease_duration, before 0.22 "
            "VLLM_NIXL_ABORT_REQUEST_TIMEOUT) that somebody set.",
        ),
        "ko": (
            "참고만 합니다. 이 설정들이 수정된 릴리스를 대신하지는 않지만, 조용히 틀린 답을 오류나 로그로 바꿔 줍니다.",
            "--disaggregation-enable-kv-checksum, --kv-canary, kv_load_failure_policy: fail, 그리고 직접 정한 리스 시간(kv_lease_duration, 0.22 이전은 "
            "VLLM_NIXL_ABORT_REQUEST_TIMEOUT)을 인식합니다.",
        ),
    },
)
