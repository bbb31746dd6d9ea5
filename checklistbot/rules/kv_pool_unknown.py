"""kv-pool-unknown: the number that decides could not be learnt, so nothing is proven."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from checklistbot.engines.base import below, version_of
from checklistbot.model import Deployment, Finding
from checklistbot.rules import _limits as limits
from checklistbot.rules.base import Context, Language, Rule, because, found, growing, location, number, role_of, titled

ID: Final = "kv-pool-unknown"
#: Engines whose pool is its own number: llama.cpp and Ollama declare theirs as the context size.
_ENGINES: Final = ("sglang", "vllm", "tensorrt-llm", "lmdeploy", "tgi")

_TITLE: Final[dict[Language, str]] = {
    "en": "{role}KV pool is not known, so the context length is not proven to fit",
    "ko": "{role}KV 풀 크기를 몰라 이 컨텍스트 길이를 수용하는지 확인할 수 없습니다",
}
_MESSAGE: Final[dict[Language, dict[str, str]]] = {
    "en": {
        "not-said": "No manifest says how many tokens the pool holds.",
        "bytes": "The pool is pinned in bytes (--kv-cache-memory-bytes {bytes} a GPU); how many tokens that is depends on the model.",
        "upper": "The declared cap of {pool} tokens is only a ceiling: the engine takes the smaller of it and what fits in memory.",
        "stale": "The pool of {pool} tokens ({source}) was taken under other settings: {stale} changed since.",
        "predicted": "The pool of {pool} tokens is predicted, not measured.",
        "mend": "Supply it: name the worker's start-up log under deployments: logs: in .checklistbot.yml (or --log FILE), "
        "or an address of a running worker (--endpoint URL).",
        "mend-vllm": "Or pin it with --kv-cache-memory-bytes.",
    },
    "ko": {
        "not-said": "KV 풀이 몇 토큰인지 적어 둔 매니페스트가 없습니다.",
        "bytes": "풀이 바이트로 고정되어 있습니다(GPU당 --kv-cache-memory-bytes {bytes}). 몇 토큰인지는 모델에 달려 있습니다.",
        "upper": "선언된 상한 {pool} 토큰은 상한일 뿐입니다. 엔진은 이 값과 메모리에 들어가는 크기 중 작은 쪽을 씁니다.",
        "stale": "{pool} 토큰({source})은 다른 설정에서 얻은 값입니다. 그 뒤 {stale} 값이 바뀌었습니다.",
        "predicted": "{pool} 토큰은 예측값이며 측정한 값이 아닙니다.",
        "mend": ".checklistbot.yml의 deployments: logs: 에 워커의 기동 로그를 적거나(--log FILE), 실행 중인 워커의 주소를 주세요(--endpoint URL).",
        "mend-vllm": "또는 --kv-cache-memory-bytes로 풀을 고정하세요.",
    },
}


def evaluate(context: Context) -> Iterator[Finding]:
    for _, members in context.groups():
        for deployment in members:
            if (
                deployment.engine.value in _ENGINES
                and not limits.keeps_no_kv(deployment)
                and not limits.certain(deployment, "large")
                and not _decided(deployment)
            ):
                yield _finding(deployment, context.language)


def _decided(deployment: Deployment) -> bool:
    """True where even an upper bound is too small: kv-pool-below-context says so. Also where the engine's own log says that a
    full-length request fits (vLLM's printed factor) or does not, and where a number of blocks is fixed."""
    length = deployment.context_length.number()
    pool = deployment.kv_pool_tokens
    if deployment.fits_full_context is not None and not pool.stale:
        return True
    fixed = limits.pinned(deployment)
    if fixed is not None and fixed[1] and length is not None:
        return True
    small = pool.bound == "upper" and limits.certain(deployment, "small")
    return small and length is not None and (pool.number() or 0) < length


def _in_bytes(deployment: Deployment) -> str | None:
    """What --kv-cache-memory-bytes says, "?" where it is not static; None where it is not given."""
    flag = deployment.flag("kv-cache-memory-bytes")
    return None if flag is None or deployment.engine.value != "vllm" else str(flag.value or "?")


def _pins(deployment: Deployment) -> bool:
    """True where --kv-cache-memory-bytes can still be set: vLLM from 0.10.2."""
    release = version_of(deployment)
    return (
        _in_bytes(deployment) is None
        and deployment.engine.value == "vllm"
        and (release is None or not below(release, "0.10.2"))
    )


def _finding(deployment: Deployment, language: Language) -> Finding:
    fact, texts = deployment.kv_pool_tokens, _MESSAGE[language]
    stale = ", ".join(fact.observation.stale) if fact.observation else ""
    in_bytes = _in_bytes(deployment)
    unsaid = "bytes" if in_bytes else "not-said"
    kind = "stale" if fact.stale else "upper" if fact.bound else "predicted" if fact.known else unsaid
    message = texts[kind].format(
        pool=number(fact.number() or 0), source=fact.source or "", stale=stale, bytes=in_bytes or ""
    )
    mend = texts["mend"] + (" " + texts["mend-vllm"] if _pins(deployment) else "")
    role = str(deployment.role.value)
    title = _TITLE[language].format(role=role_of(deployment))
    return found(
        ID,
        "unknown",
        deployment.id,
        (titled(title), f"{message} {mend}"),
        where=location(deployment, "context_length"),
        why=because(deployment, "kv_pool_tokens", "context_length"),
        parameters={
            "role": role,
            "pool": fact.number(),
            "context": deployment.context_length.number(),
            "reason": kind,
            "stale": stale,
        },
    )


RULE = Rule(
    ID,
    {
        "en": "The size of a worker's KV pool is not known, so nothing proves that the context length fits.",
        "ko": "워커의 KV 풀 크기를 알 수 없어 컨텍스트 길이가 들어간다는 증거가 없습니다.",
    },
    evaluate,
    # A longer promise on a pool that nobody knows is this change's doing.
    compare=growing("context"),
    fires="unknown",
    page={
        "en": (
            "Hardly any repository says how large the KV pool is: the engine works it out at start-up. Without it nothing proves that a "
            "full-length request fits, so the report is not green.",
            "It is learnt from the worker's start-up log (logs: in .checklistbot.yml, or --log), from a running worker (endpoints:, --endpoint, or a "
            "snapshot with --observed), or pinned: --kv-cache-memory-bytes on vLLM. SGLang's --max-total-tokens is only a ceiling.",
            "An observation is out of date where an input that it states, or one that changed in Git after the log did, differs from the "
            "deployment. It then counts as a prediction.",
        ),
        "ko": (
            "KV 풀 크기가 적힌 저장소는 거의 없습니다. 엔진이 기동할 때 계산하기 때문입니다. 이 값을 모르면 최대 길이 요청이 들어간다고 증명할 수 "
            "없으므로 보고서는 녹색이 아닙니다.",
            "워커의 기동 로그(.checklistbot.yml의 logs: 또는 --log), 실행 중인 워커(endpoints:, --endpoint, 스냅샷을 --observed로)에서 알아내거나 고정할 수 있습니다(vLLM은 "
            "--kv-cache-memory-bytes). SGLang의 --max-total-tokens는 상한일 뿐입니다.",
            "관측값이 밝힌 입력이나, 로그 이후 Git에서 바뀐 입력이 배포 설정과 다르면 그 관측은 낡은 것이며 예측으로 칩니다.",
        ),
    },
)
