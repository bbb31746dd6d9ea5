"""kv-pool-below-context: the KV pool cannot hold one request of the promised length (facts: sglang.md 4.6, vllm.md 0 and 4.1)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from checklistbot import engines
from checklistbot.engines.base import below, version_of
from checklistbot.knowledge.families import families
from checklistbot.model import Deployment, Edit, Finding, Fix, Verdict
from checklistbot.rules import _limits as limits
from checklistbot.rules.base import (
    Context,
    Language,
    Rule,
    because,
    found,
    growing,
    location,
    number,
    role_of,
    safe_context,
    titled,
)

ID: Final = "kv-pool-below-context"
#: Would let a vLLM server start whose pool is too small; it then hangs (facts: vllm.md 4.1).
_INSUFFICIENT: Final = "VLLM_ALLOW_INSUFFICIENT_KV_CACHE"

#: The factor below which a hybrid's pool is taken for too tight, and that as a percentage of tokens.
_HYBRID_ROOM: Final = 1.05

_TITLE: Final[dict[Language, dict[str, str]]] = {
    "en": {
        "below": "{role}KV pool is smaller than the context length",
        "tight": "{role}KV pool leaves no room beside a full-length prompt",
        "cramped": "{role}KV pool leaves no room beside a full-length prompt",
        "window": "{role}sliding-window pool is smaller than the model's window needs",
        "fits": "{role}KV pool holds the full context length",
        "override": "{role}server is told to start with a KV pool that is too small",
    },
    "ko": {
        "below": "{role}KV 풀이 컨텍스트 길이보다 작습니다",
        "tight": "{role}KV 풀에 최대 길이 프롬프트 외의 여유가 없습니다",
        "cramped": "{role}KV 풀에 최대 길이 프롬프트 외의 여유가 없습니다",
        "window": "{role}슬라이딩 윈도 풀이 모델의 윈도에 필요한 크기보다 작습니다",
        "fits": "{role}KV 풀이 컨텍스트 길이 전체를 담습니다",
        "override": "{role}서버가 KV 풀이 모자라도 기동하도록 설정되어 있습니다",
    },
}
_MESSAGE: Final[dict[Language, dict[str, str]]] = {
    "en": {
        "below": "The pool holds {pool} tokens ({how}), a request is promised {context}: {missing} tokens are missing. {what}",
        "factor": "The engine itself says that a request of {context} tokens does not fit its pool. {what}",
        "tight": "The pool holds {pool} tokens ({how}); a request of {context} tokens needs {needs} with page and reserve. "
        "{missing} tokens are missing: {what}",
        "cramped": "The engine printed that {factor}x a request of {context} tokens fits. On hybrid models before 0.29 one block more is never "
        "free, and blocks are large: below 1.05x {what}",
        "window": "The sliding-window layers get {pool} tokens of the KV pool, the model's window needs {needs} with page and reserve. "
        "From 0.5.20 SGLang does not start with that; before, a long request is accepted and never admitted.",
        "fits-by-factor": "The engine itself says that a request of {context} tokens fits its pool; the {pool} tokens that it prints are of another unit.",
        "fits": "The pool holds {pool} tokens ({how}), a request is promised {context}.",
        "override": "VLLM_ALLOW_INSUFFICIENT_KV_CACHE turns the start-up error for a pool below the context length into a warning. A request "
        "that does not fit then hangs the whole engine, while /health stays green.",
        "leak": "This prefill worker refuses prompts of {rejected} tokens and more but hands them on: decode answers them from other "
        "requests' pages, with status 200.",
        "maybe-leak": "Prompts of {rejected} tokens and more are refused by this worker; on a release that hands refused requests on "
        "(SGLang below 0.5.20) they are answered from other requests' pages.",
        "refused": "Prompts of {rejected} tokens and more are answered with an error.",
        "pair-refused": "Prompts of {rejected} tokens and more are answered with an error, or wait for the other role until the transfer "
        "times out (300 s by default).",
        "no-start": "The engine refuses to start with such a configuration.",
        "override-hang": "Before 0.21 vLLM does not count --num-gpu-blocks-override: it starts, and the first request that does not fit "
        "freezes the engine while /health stays green. From 0.21 on it refuses to start.",
        "plain": "Requests that need more than the pool cannot be served.",
        "shrinks": "The engine starts and lowers its own limit to the pool without an error.",
        "derived": "Nobody promised this context length, the engine derives it from the model: pin it to what the pool holds.",
        "limited": "The gateway in front rejects prompts above {limit} tokens (said in the config), so such prompts do not arrive.",
        "unsure": "The number is blocks × block size; hybrid models and some attention backends count otherwise, so this is no proof.",
        "sharded": "KV sharding multiplies the limit by a factor that is not known here, so this is no proof.",
        "wait": "such a request is accepted and can wait for ever, and others behind it.",
        "hang": "such a request hangs the engine for ever, without an error.",
    },
    "ko": {
        "below": "KV 풀은 {pool} 토큰({how})인데 요청 하나에 약속된 길이는 {context} 토큰이라 {missing} 토큰이 모자랍니다. {what}",
        "factor": "{context} 토큰짜리 요청이 KV 풀에 들어가지 않는다고 엔진이 직접 밝혔습니다. {what}",
        "tight": "KV 풀은 {pool} 토큰({how})이고, {context} 토큰짜리 요청은 페이지와 예약분까지 {needs} 토큰이 필요합니다. "
        "{missing} 토큰이 모자랍니다. {what}",
        "cramped": "엔진이 밝힌 동시 처리량은 {context} 토큰 요청 {factor}개입니다. 0.29 이전의 하이브리드 모델에서는 블록 하나가 늘 비지 않고 블록도 커서, "
        "1.05 미만이면 {what}",
        "window": "KV 풀 가운데 슬라이딩 윈도 레이어의 몫은 {pool} 토큰인데, 모델의 윈도에는 페이지와 예약분까지 {needs} 토큰이 필요합니다. "
        "0.5.20부터 SGLang은 이 설정으로 기동하지 않고, 그 전에는 긴 요청을 받아들이고도 처리하지 않습니다.",
        "fits-by-factor": "{context} 토큰짜리 요청이 KV 풀에 들어간다고 엔진이 직접 밝혔습니다. 함께 찍힌 {pool} 토큰은 단위가 다른 값입니다.",
        "fits": "KV 풀은 {pool} 토큰({how}), 요청 하나에 약속된 길이는 {context} 토큰입니다.",
        "override": "VLLM_ALLOW_INSUFFICIENT_KV_CACHE를 켜면 KV 풀이 컨텍스트 길이보다 작아도 기동 오류 대신 경고만 냅니다. 그 뒤 들어가지 않는 요청이 오면 "
        "/health는 정상인 채로 엔진 전체가 멈춥니다.",
        "leak": "이 prefill 워커는 {rejected} 토큰 이상인 프롬프트를 거부하면서도 그대로 넘기고, decode는 다른 요청이 남긴 페이지로 상태 코드 200과 함께 답합니다.",
        "maybe-leak": "이 워커는 {rejected} 토큰 이상인 프롬프트를 거부합니다. 거부한 요청을 넘기는 버전(SGLang 0.5.20 미만)이라면 다른 요청이 남긴 페이지로 답하게 됩니다.",
        "refused": "{rejected} 토큰 이상인 프롬프트에는 오류로 응답합니다.",
        "pair-refused": "{rejected} 토큰 이상인 프롬프트에는 오류로 응답하거나, 전송 시간 초과(기본 300초)까지 다른 역할을 기다립니다.",
        "no-start": "이 설정으로는 엔진이 기동하지 않습니다.",
        "override-hang": "0.21 이전의 vLLM은 --num-gpu-blocks-override를 확인하지 않고 기동하며, 들어가지 않는 첫 요청이 오면 /health는 정상인 채로 엔진이 "
        "멈춥니다. 0.21부터는 기동하지 않습니다.",
        "plain": "KV 풀보다 큰 요청은 처리할 수 없습니다.",
        "shrinks": "엔진은 오류 없이 기동하고 자체 한도를 KV 풀에 맞춰 낮춥니다.",
        "derived": "컨텍스트 길이를 선언한 곳이 없어 엔진이 모델에서 가져온 값입니다. KV 풀이 담을 수 있는 길이로 고정하세요.",
        "limited": "앞단 게이트웨이가 {limit} 토큰이 넘는 프롬프트를 거부하므로(설정에 적힌 내용) 그런 프롬프트는 도착하지 않습니다.",
        "unsure": "이 값은 블록 수 × 블록 크기입니다. 하이브리드 모델과 일부 어텐션 백엔드는 다르게 세므로 증거는 아닙니다.",
        "sharded": "KV 샤딩 때문에 한도에 곱해지는 배수를 알 수 없어 증거로 쓸 수 없습니다.",
        "wait": "이런 요청은 받아들여진 뒤 끝없이 대기할 수 있고, 뒤따르는 요청도 함께 막힙니다.",
        "hang": "이런 요청이 오면 오류 없이 엔진이 멈춥니다.",
    },
}
_HOW: Final[dict[Language, dict[str, str]]] = {
    "en": {"declared": "declared", "observed": "observed", "predicted": "predicted", "default": "default",
           "cap": "declared cap, the real pool can only be smaller"},
    "ko": {"declared": "선언", "observed": "관측", "predicted": "예측", "default": "기본값",
           "cap": "선언된 상한, 실제 풀은 더 작을 수만 있음"},
}  # fmt: skip
_FIX_CAP: Final[dict[Language, str]] = {
    "en": "Raise the cap to hold {context}, or set the context length below {safe} on every role of {group}; a start-up log tells the real pool.",
    "ko": "상한을 {context} 토큰 이상으로 올리거나 {group}의 모든 역할에서 컨텍스트 길이를 {safe} 미만으로 낮추세요. 실제 풀은 기동 로그에서 알 수 있습니다.",
}
_FIX: Final[dict[Language, str]] = {
    "en": "Set the context length to {safe} on every role of {group} (smallest pool − page − reserve), or give the pool room for {context}.",
    "ko": "{group}의 모든 역할에서 컨텍스트 길이를 {safe}(가장 작은 KV 풀 − 페이지 − 예약분)로 낮추거나, KV 풀이 {context} 토큰을 담도록 늘리세요.",
}


def evaluate(context: Context) -> Iterator[Finding]:
    for _, members in context.groups():
        for deployment in members:
            if deployment.engine.value == "vllm" and _switched_on(deployment):
                yield _override(deployment, context.language)
            fixed = limits.pinned(deployment)
            finding = _judge(fixed[0] if fixed else deployment, members, context)
            if finding is None or (fixed and not fixed[1] and finding.verdict == "pass"):
                continue
            if fixed and not fixed[1]:
                unsure = _MESSAGE[context.language]["unsure"]
                finding = finding.replace(verdict="warn", message=f"{finding.message} {unsure}")
            yield finding


def _switched_on(deployment: Deployment) -> bool:
    entry = deployment.env_var(_INSUFFICIENT)
    return entry is not None and str(entry.value).lower() not in ("", "0", "false", "none")


def _override(deployment: Deployment, language: Language) -> Finding:
    role = str(deployment.role.value)
    text = (titled(_TITLE[language]["override"].format(role=role_of(deployment))), _MESSAGE[language]["override"])
    entry = deployment.env_var(_INSUFFICIENT)
    where = location(deployment)
    if entry is not None and entry.path:
        from checklistbot.model import Location

        where = Location(entry.path, entry.line)
    return found(ID, "block", deployment.id, text, where=where, parameters={"role": role, "aspect": "override"})


def _judge(deployment: Deployment, members: tuple[Deployment, ...], context: Context) -> Finding | None:
    fact, length = deployment.kv_pool_tokens, deployment.context_length.number()
    short = limits.short_of_context(deployment)
    if short is None or length is None:
        return None
    if short:
        # A predicted or stale pool is kv-pool-predicted-tight's; nothing here rests on it.
        return (
            _below(deployment, members, length, context)
            if limits.certain(deployment, "small") or not fact.known
            else None
        )
    if not limits.certain(deployment, "large"):
        return None  # kv-pool-unknown says what is missing; nothing passes on an upper bound or a stale value
    needs = _needs(deployment, length)
    pool = limits.usable_pool(deployment)
    tight = needs is not None and pool is not None and pool < needs
    if not tight and _cramped(deployment):
        return _finding(deployment, "warn", "cramped", length, context)
    second = limits.sliding_window(deployment)
    if not tight and second is not None and second[0] < second[1]:
        return _window(deployment, second, context.language)
    return _finding(deployment, "warn" if tight else "pass", "tight" if tight else "fits", length, context, needs=needs)


def _cramped(deployment: Deployment) -> bool:
    """True for a hybrid on vLLM before 0.29 whose printed factor is below 1.05: its blocks are larger than any file says, and one of them
    is never free (facts: vllm.md 0). Of other models the tokens tell it exactly."""
    factor, release = deployment.full_requests, version_of(deployment)
    old = release is None or below(release, "0.29")
    return _groups_layers(deployment) and old and factor is not None and factor < _HYBRID_ROOM


def _groups_layers(deployment: Deployment) -> bool:
    """True for a hybrid on vLLM: known by its name, or because its tokens lie below the context although the engine says that a request
    fits. Those tokens are of another unit then (facts: vllm.md 0)."""
    if deployment.engine.value != "vllm":
        return False
    pool, length = deployment.kv_pool_tokens.number(), deployment.context_length.number()
    another_unit = deployment.fits_full_context is True and pool is not None and length is not None and pool < length
    return another_unit or bool(limits.HYBRIDS & families(deployment.model.text()))


def _window(deployment: Deployment, second: tuple[int, int], language: Language) -> Finding:
    """SGLang's second limit on models with sliding-window layers: (pool, need) in tokens."""
    role = str(deployment.role.value)
    return found(
        ID,
        "warn",
        deployment.id,
        (
            titled(_TITLE[language]["window"].format(role=role_of(deployment))),
            _MESSAGE[language]["window"].format(pool=number(second[0]), needs=number(second[1])),
        ),
        where=location(deployment, "context_length"),
        why=because(deployment, "kv_pool_tokens", "page_size"),
        parameters={"role": role, "pool": second[0], "needs": second[1], "missing": second[1] - second[0]},
    )


def _needs(deployment: Deployment, length: int) -> int | None:
    """Tokens that one full-length request needs on this engine and release; None where that cannot be computed.

    vLLM before 0.29: from the number of blocks on models of one attention type; on hybrids the block is larger than any file says, and
    a printed factor below 1.05 is taken for tight (operations-and-attacks 12).
    """
    engine = engines.get(deployment.engine.text())
    if engine is None:
        return None
    if _groups_layers(deployment):
        release = version_of(deployment)
        old = release is None or below(release, "0.29")
        comparable = (
            release is not None and not below(release, "0.21") and (deployment.kv_pool_tokens.number() or 0) >= length
        )
        return int(length * _HYBRID_ROOM) if old and comparable else None
    return engine.full_request_needs(deployment)


def _below(deployment: Deployment, members: tuple[Deployment, ...], length: int, context: Context) -> Finding:
    """Blocks where both numbers are proven (a declared cap is proof of "too small"); warns where nobody promised the context, unless
    the engine does not start at all."""
    promised = deployment.context_length.kind == "declared" or deployment.engine.value == "vllm"
    proven = not limits.shares_kv_across_ranks(deployment)
    upstream = context.upstream_limit(deployment)
    rejected = deployment.first_rejected_length
    limited = (
        upstream is not None and rejected is not None and upstream < rejected and deployment.engine.value != "vllm"
    )
    verdict: Verdict = "block" if promised and proven and not limited else "warn"
    finding = _finding(deployment, verdict, "below", length, context, limited=limited)
    return finding.replace(fix=_fix(members, length, context.language))


def _consequence(deployment: Deployment, context: Context, limited: bool) -> str:
    texts = _MESSAGE[context.language]
    parts = [texts[_what(deployment)].format(rejected=number(deployment.first_rejected_length or 0))]
    if deployment.context_length.kind != "declared":
        parts.append(texts["derived"])
    if limited:
        parts.append(texts["limited"].format(limit=number(context.upstream_limit(deployment) or 0)))
    if limits.shares_kv_across_ranks(deployment):
        parts.append(texts["sharded"])
    return " ".join(parts)


def _what(deployment: Deployment) -> str:
    """Which text says what happens: leak, 400, hang, no start, a silent shrink."""
    engine = deployment.engine.value
    if engine == "vllm" and deployment.flag("num-gpu-blocks-override") is not None:
        release = version_of(deployment)
        return "override-hang" if release is None or below(release, "0.21") else "no-start"
    if engine in ("vllm", "tgi"):
        return "no-start"
    if engine in ("tensorrt-llm", "lmdeploy"):
        return "shrinks"
    if engine != "sglang" or deployment.first_rejected_length is None:
        return "plain"
    if not deployment.disaggregated:
        return "refused"
    hands_on = limits.hands_rejected_on(deployment)
    if hands_on is None:
        return "maybe-leak"
    return "leak" if hands_on and deployment.role.value == "prefill" else "pair-refused"


def _finding(
    deployment: Deployment,
    verdict: Verdict,
    kind: str,
    length: int,
    context: Context,
    *,
    needs: int | None = None,
    limited: bool = False,
) -> Finding:
    fact, language = deployment.kv_pool_tokens, context.language
    pool = limits.usable_pool(deployment)
    wanted = needs if kind == "tight" and needs is not None else length
    missing = max(0, wanted - pool) if pool is not None and kind != "cramped" else 0
    role = str(deployment.role.value)
    what = _consequence(deployment, context, limited) if kind == "below" else _MESSAGE[language][_waits(deployment)]
    told = "factor" if kind == "below" and not missing else kind
    if kind == "fits" and pool is not None and pool < length:
        told = "fits-by-factor"
    message = _MESSAGE[language][told].format(
        pool=number(pool or 0), context=number(length), missing=number(missing), needs=number(wanted),
        how=_HOW[language]["cap" if fact.bound else fact.kind or "predicted"], what=what,
        factor=f"{deployment.full_requests:.2f}" if deployment.full_requests is not None else "",
    )  # fmt: skip
    return found(
        ID,
        verdict,
        deployment.id,
        (titled(_TITLE[language][kind].format(role=role_of(deployment))), message.strip()),
        where=location(deployment, "context_length"),
        why=because(deployment, "context_length", "kv_pool_tokens", "page_size"),
        parameters={
            "role": role,
            "pool": pool,
            "context": length,
            "missing": missing,
            "needs": needs,
            "page": deployment.page_size.number(),
            "first_rejected": deployment.first_rejected_length,
            "leaves_open": limits.EDGE_LENGTHS if kind == "below" and _what(deployment) == "leak" else None,
        },
    )


def _waits(deployment: Deployment) -> str:
    return "hang" if deployment.engine.value == "vllm" else "wait"


def _fix(members: tuple[Deployment, ...], length: int, language: Language) -> Fix | None:
    safe = safe_context(members)
    if safe is None or any(member.kv_pool_tokens.stale for member in members):
        return None
    if any(member.kv_pool_tokens.bound == "upper" for member in members):
        return Fix(_FIX_CAP[language].format(safe=number(safe), group=members[0].group, context=number(length)))
    edits = []
    for member in members:
        source, value = member.context_length.source, member.context_length.value
        declared = source is not None and source.kind == "declared" and source.path and source.line
        if source and declared and (member.context_length.number() or 0) > safe:
            edits.append(Edit(source.path or "", source.line or 1, str(value), str(safe)))
    text = _FIX[language].format(safe=number(safe), group=members[0].group, context=number(length))
    return Fix(text, tuple(edits))


RULE = Rule(
    ID,
    {
        "en": "The KV pool of a worker is smaller than what one request is promised.",
        "ko": "워커의 KV 풀이 요청 하나에 약속된 길이보다 작습니다.",
    },
    evaluate,
    compare=growing("missing"),
    fires="block",
    leak=True,
    subsumes=(
        "sglang-pool-below-context-accepted",
        "sglang-unschedulable-window",
        "sglang-decode-prealloc-head-of-line",
        "vllm-blocks-override-not-counted",
        "vllm-null-block-off-by-one",
        "vllm-never-fitting-request-freezes-engine",
        "vllm-output-grows-past-pool",
        "trtllm-silent-max-seq-len-shrink",
    ),
    page={
        "en": (
            "One request may be as long as the context length says. It needs that many tokens of KV pool on one engine replica (one DP "
            "rank), on each role. The pool is compared as the engine reports it: from the start-up log, a metric or the server's own "
            "answer, else from a declared cap, which can only prove that the pool is too small.",
            "It blocks where the pool is observed (and the observation still fits the configuration) or capped, and the context length is "
            "declared. A context length that the engine derives from the model warns: nobody promised it. On vLLM it blocks in both cases, "
            "because the engine refuses to start. --num-gpu-blocks-override × block size is a pool that is fixed; on hybrids and on models "
            "that are not known the number is not sure, and warns.",
            "It warns where a full-length request fits but leaves no room: SGLang needs one page more (from 0.5.11), on decode also "
            "--num-reserved-decode-tokens (512); vLLM before 0.29 forgets one block that is never free. On models with sliding-window "
            "layers SGLang has a second pool, which must hold the window, a page and on decode the reserve.",
            "With upstream_limit in .checklistbot.yml below the first rejected length the finding warns instead of blocking.",
        ),
        "ko": (
            "요청 하나는 컨텍스트 길이만큼 길 수 있고, 그만큼의 KV 풀이 엔진 레플리카 하나(DP 랭크 하나)에, 역할마다 필요합니다. 풀 크기는 엔진이 알려 주는 값(기동 로그, 메트릭, "
            "서버 응답)으로 비교하고, 없으면 선언된 상한을 씁니다. 상한은 풀이 너무 작다는 것만 증명할 수 있습니다.",
            "풀이 관측되었거나(관측이 지금 설정과 맞을 때) 상한이 있고 컨텍스트 길이가 선언되어 있으면 차단합니다. 엔진이 모델에서 가져온 컨텍스트 길이는 아무도 약속하지 않은 "
            "값이므로 경고합니다. vLLM은 기동 자체를 거부하므로 두 경우 모두 차단합니다. --num-gpu-blocks-override × 블록 크기는 고정된 풀입니다. 하이브리드 모델이나 "
            "모르는 모델에서는 이 값이 확실하지 않아 경고만 합니다.",
            "최대 길이 요청이 들어가지만 여유가 없으면 경고합니다. SGLang은 한 페이지가 더 필요하고(0.5.11부터), decode는 --num-reserved-decode-tokens(512)도 "
            "필요합니다. 0.29 이전의 vLLM은 절대 비지 않는 블록 하나를 계산에서 빠뜨립니다. 슬라이딩 윈도 레이어가 있는 모델에서는 SGLang에 풀이 하나 더 있고, "
            "윈도와 페이지, decode에서는 예약분까지 담아야 합니다.",
            ".checklistbot.yml의 upstream_limit이 처음 거부되는 길이보다 작으면 차단 대신 경고합니다.",
        ),
    },
)
