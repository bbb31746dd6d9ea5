"""Reports made by hand: the incident's pull request and its neighbours, and one in which every string is hostile."""

from __future__ import annotations

import dataclasses
from typing import Any

from checklistbot.model import (
    Because,
    Change,
    Check,
    Checklist,
    Deployment,
    Edit,
    Fact,
    Facts,
    Finding,
    Fix,
    Item,
    LlmUse,
    Location,
    NotRun,
    Observation,
    Report,
    Revision,
    Script,
    Skipped,
    Source,
    Unknown,
    Waived,
    declared,
    observed,
)

HEAD, BASE = "abc1234" + "0" * 33, "def5678" + "0" * 33
PREFILL, DECODE = "serve/prefill.yaml", "serve/decode.yaml"
GROUP = "prod/glm-5.3"


def deployment(role: str, *, context: int = 1_048_576, pool: int | None = None, **changes: Any) -> Deployment:
    path = DECODE if role == "decode" else PREFILL
    pool = pool if pool is not None else (1_050_624 if role == "decode" else 681_280)
    taken = Observation({"context_length": 131_072, "tensor_parallel": 8, "page_size": 64})
    made = Deployment(
        id=f"{GROUP}/{role}",
        name=f"glm-5-3-{role}",
        environment="prod",
        group="glm-5.3",
        file=path,
        line=24,
        role=declared(role, path, 30),
        engine=declared("sglang", path, 24),
        engine_version=declared("0.5.19", path, 22),
        model=declared("zai-org/GLM-5.3-FP8", path, 26),
        served_model_name=declared("glm-5.3", path, 28),
        context_length=declared(context, path, 41 if role == "prefill" else 39),
        kv_pool_tokens=Fact(pool, Source("observed", f"ops/logs/{role}.log", 212), observation=taken),
        page_size=declared(64, path, 45),
        kv_cache_dtype=declared("fp8_e4m3", path, 47),
        memory_fraction=declared(0.79, path, 49),
        tensor_parallel=declared(8, path, 43),
        replicas=declared(2, path, 9),
        gpu=declared("H200", path, 20),
        gpu_count=declared(8, path, 60),
        image=declared("lmsysorg/sglang:v0.5.19", path, 22),
        fits_full_context=pool >= context,
        first_rejected_length=min(pool, context) - 6,
    )
    return made.replace(**changes)


def facts(*members: Deployment, **changes: Any) -> Facts:
    digest = {"behaviour": "a" * 64, "capacity": "b" * 64, "config": "3fa91c20d7be" + "c" * 52}
    keys = {f"{member.environment}/{member.group}": digest for member in members}
    return dataclasses.replace(Facts(members, keys, files_read=7), **changes)


def because(member: Deployment, *names: str) -> tuple[Because, ...]:
    return tuple(Because(name, member.fact(name).value, member.fact(name).source) for name in names)


_TITLES = {
    "en": {
        "pair": "Long prompts can be answered with other customers' text",
        "version": "Rejected requests can be answered with other customers' text (SGLang 0.5.19 < 0.5.22)",
        "pool": "Prefill KV pool is smaller than the context length",
        "isolation": "Sensitive data on shared serving processes",
        "unknown": "Prefill KV pool is not known, so the context length is not proven to fit",
        "upgrade": "Run SGLang 0.5.22 or later on every role of glm-5.3.",
        "lower": "Set the context length to 680,704 on every role of glm-5.3 (smallest pool − page − reserve), or give the "
        "pool room for 1,048,576.",
        "same": "Give both roles the same context length of at most 680,704 tokens (smallest pool − page − reserve).",
        "text": "Prefill rejects prompts of 681,274 tokens and more, decode only from 1,048,570 on.",
    },
    "ko": {
        "pair": "긴 프롬프트에 다른 고객의 텍스트가 응답으로 나갈 수 있습니다",
        "version": "거절된 요청에 다른 고객의 텍스트가 응답으로 나갈 수 있습니다(SGLang 0.5.19 < 0.5.22)",
        "pool": "prefill KV 풀이 컨텍스트 길이보다 작습니다",
        "isolation": "민감 데이터를 공유 서빙 프로세스에서 처리합니다",
        "unknown": "prefill KV 풀 크기를 알 수 없어 컨텍스트 길이가 들어간다고 증명하지 못했습니다",
        "upgrade": "glm-5.3의 모든 역할을 SGLang 0.5.22 이상으로 올리세요.",
        "lower": "glm-5.3의 모든 역할에서 컨텍스트 길이를 680,704(가장 작은 KV 풀 − 페이지 − 예약분)로 낮추거나, KV 풀이 1,048,576 "
        "토큰을 담도록 늘리세요.",
        "same": "두 역할의 컨텍스트 길이를 똑같이 680,704 토큰 이하(가장 작은 KV 풀 − 페이지 − 예약분)로 두세요.",
        "text": "prefill은 681,274 토큰부터, decode는 1,048,570 토큰부터 거절합니다.",
    },
}


def _context_edits(*members: Deployment) -> tuple[Edit, ...]:
    places = [(m.context_length.source, m.context_length.value) for m in members]
    return tuple(Edit(s.path, s.line, str(v), "680704") for s, v in places if s and s.path and s.line)


def findings(prefill: Deployment, decode: Deployment, language: str = "en") -> tuple[Finding, ...]:
    """What the first five rules say about the incident."""
    say = _TITLES[language]
    both = (prefill, decode)
    version = {"engine": "SGLang", "version": "0.5.19", "fixed": "0.5.22", "context": 1_048_576, "exposed": 367_296}
    return (
        Finding("disaggregated-pair-mismatch", "block", GROUP, say["pair"], say["text"], Location(PREFILL, 41),
                because=because(prefill, "context_length", "kv_pool_tokens"), fix=Fix(say["same"], _context_edits(*both)),
                parameters={"window_low": 681_274, "window_high": 1_048_569, "safe_context": 680_704}),
        Finding("kv-pool-below-context", "block", prefill.id, say["pool"], say["text"], Location(PREFILL, 41),
                because=because(prefill, "context_length", "kv_pool_tokens"), fix=Fix(say["lower"], _context_edits(*both)),
                parameters={"role": "prefill", "pool": 681_280, "context": 1_048_576, "first_rejected": 681_274}),
        Finding("engine-below-fixed-version", "block", GROUP, say["version"], say["text"], Location(PREFILL, 22),
                advisory="sglang-pd-rejected-prefill-handoff", status="worse", because=because(prefill, "engine_version"),
                fix=Fix(say["upgrade"], tuple(Edit(p, 22, "lmsysorg/sglang:v0.5.19", "lmsysorg/sglang:v0.5.22")
                                              for p in (PREFILL, DECODE))), parameters=version),
        Finding("isolation", "block", GROUP, say["isolation"], say["text"], Location(".checklistbot.yml", 6),
                status="same", because=(Because("tenancy", "shared", Source("declared", ".checklistbot.yml", 6)),)),
        Finding("kv-pool-below-context", "pass", decode.id, say["pool"], say["text"], Location(DECODE, 39)),
    )  # fmt: skip


def item(topic: str = "pool-against-context", role: str = "prefill", **changes: Any) -> Item:
    made = Item(
        id=f"{topic}/{GROUP}/{role}",
        topic=topic,  # type: ignore[arg-type]
        severity="required",
        title=f"glm-5.3 {role}: the KV pool holds a full-length request",
        why="In the incident the mismatch was known before launch and counted as harmless.",
        steps=("Read the pool from the start-up log.", "Compare it with the context length of 1,048,576 tokens."),
        commands=("grep -o 'max_total_num_tokens=[0-9]*' prefill.log | tail -n 1",),
        pass_when="The pool is at least 1,048,640 tokens.",
        owner="release engineer",
        when="before-deploy",
        automation={
            "kind": "assert-fact",
            "fact": "kv_pool_tokens",
            "op": ">=",
            "to": 1_048_640,
            "from": "log",
            "role": role,
        },
        facts_used={"context_length": 1_048_576},
    )
    return dataclasses.replace(made, **changes)


def checklist(*items: Item, language: str = "en", **changes: Any) -> Checklist:
    made = Checklist(language, "builtin", None, items or (item(), item(role="decode"), item("canary-leak")))  # type: ignore[arg-type]
    return dataclasses.replace(made, **changes)


def change(
    role: str, name: str = "context_length", before: Any = 131_072, after: Any = 1_048_576, line: int = 41
) -> Change:
    path = DECODE if role == "decode" else PREFILL
    return Change("changed", f"{GROUP}/{role}", name, before, after, Source("declared", path, line))


SCRIPT = Script("bash", "checklistbot.sh", "#!/usr/bin/env bash\nset -euo pipefail\necho done\n")


def incident(language: str = "en", **changes: Any) -> Report:
    """The incident's pull request: the context is raised, nothing else."""
    prefill, decode = deployment("prefill"), deployment("decode")
    base = facts(deployment("prefill", context=131_072), deployment("decode", context=131_072))
    made = Report(
        base=Revision("main", BASE),
        head=Revision("HEAD", HEAD),
        base_facts=base,
        head_facts=facts(prefill, decode),
        changes=(change("prefill"), change("decode", line=39)),
        check=Check(findings(prefill, decode, language), knowledge_date="2026-11-30"),
        checklist=checklist(language=language),
        scripts=(SCRIPT,),
        llm=LlmUse(),
        tool="checklistbot 0.1.0",
    )
    return dataclasses.replace(made, **changes)


def stale(language: str = "en") -> Report:
    """The second head: the memory fraction is lowered as well, so the old pool neither blocks nor passes."""
    say = _TITLES[language]
    taken = Observation({"memory_fraction": 0.79}, stale=("memory_fraction",))
    old = Fact(681_280, Source("observed", "ops/logs/prefill.log", 212), observation=taken)
    prefill = deployment("prefill", kv_pool_tokens=old, memory_fraction=declared(0.75, PREFILL, 49))
    decode = deployment("decode")
    found = [f for f in findings(prefill, decode, language) if f.rule in ("engine-below-fixed-version", "isolation")]
    found += [
        Finding("kv-pool-unknown", "unknown", prefill.id, say["unknown"], say["text"], Location(PREFILL, 41)),
        Finding("kv-pool-below-context", "warn", prefill.id, say["pool"], say["text"], Location(PREFILL, 41),
                parameters={"pool": 681_280, "context": 1_048_576, "first_rejected": 681_274}),
    ]  # fmt: skip
    changes = (*incident().changes, change("prefill", "memory_fraction", 0.79, 0.75, 49))
    return incident(
        language,
        head_facts=facts(prefill, decode),
        changes=changes,
        check=Check(tuple(found), knowledge_date="2026-11-30"),
    )


def green(language: str = "en") -> Report:
    """Context lowered to what both pools hold, on the fixed release."""
    new = {"engine_version": declared("0.5.22", PREFILL, 22)}
    prefill, decode = (deployment(role, context=680_704, **new) for role in ("prefill", "decode"))
    passed = Finding("engine-below-fixed-version", "pass", GROUP, "SGLang 0.5.22 has the fix", "ok", Location(PREFILL, 22),
                     because=because(prefill, "engine_version"), status="better",
                     parameters={"engine": "SGLang", "version": "0.5.22", "fixed": "0.5.22"})  # fmt: skip
    fixed = dataclasses.replace(findings(prefill, decode, language)[0], status="fixed")
    return incident(
        language,
        base_facts=facts(deployment("prefill"), deployment("decode")),
        head_facts=facts(prefill, decode),
        changes=(
            change("prefill", before=1_048_576, after=680_704),
            change("decode", before=1_048_576, after=680_704, line=39),
        ),
        check=Check((passed, fixed), knowledge_date="2026-11-30"),
    )


def unknown(language: str = "en") -> Report:
    """One unified server of which nobody knows the pool; no debt, nothing else wrong; the LLM failed."""
    say = _TITLES[language]
    gap = Fact(unknown=Unknown("not-said", supply=("log", "endpoint", "config", "pin")))
    digest = declared("registry.lan/sglang@sha256:" + "d" * 64, PREFILL, 22)
    one = deployment("unified", kv_pool_tokens=gap, engine_version=Fact(unknown=Unknown("not-static", "$TAG", ("config",))),
                     image=digest, fits_full_context=None, first_rejected_length=None)  # fmt: skip
    one = one.replace(environment="default", id="default/glm-5.3/unified")
    found = Finding("kv-pool-unknown", "unknown", one.id, say["unknown"], say["text"], Location(PREFILL, 41))
    return incident(
        language,
        base_facts=None,
        base=None,
        head_facts=facts(one),
        changes=(),
        check=Check(
            (found,), (NotRun("isolation", "switched off"),), (Skipped("charts/eu", "remote chart"),), "2026-11-30"
        ),
        llm=LlmUse("failed", "openai", "gpt-5", 1_200, 0, "the provider did not answer in time"),
        notices=("no-base",),
    )


def nothing(language: str = "en", *, skipped: tuple[Skipped, ...] = ()) -> Report:
    empty = facts()
    return incident(
        language,
        base_facts=empty,
        head_facts=empty,
        changes=(),
        check=Check((), skipped=skipped, knowledge_date="2026-11-30"),
        checklist=Checklist("en", "builtin", None, ()),
        scripts=(),
    )


def hostile(text: str) -> Report:
    """A report in which every string that is not one of our own words is ``text``."""
    source = Source("observed", text, 3)
    value = Fact(text, source, others=(), observation=Observation({text: text}, (text,), (text,)))
    number = Fact(681_280, source)
    bad = deployment("prefill").replace(
        id=f"{text}/{text}/{text}", name=text, environment=text, group=text, file=text, role=value, engine=value,
        engine_version=value, model=value, served_model_name=value, context_length=number, kv_pool_tokens=value,
        kv_cache_dtype=value, gpu=value, gpu_count=value, image=value,
        page_size=Fact(unknown=Unknown("not-static", text, (text,))),
    )  # fmt: skip
    odd = Location(text, 7)
    found = tuple(
        Finding(text, verdict, bad.id, text, text, odd, advisory=text, because=(Because(text, text, source),),
                fix=Fix(text, (Edit(text, 7, text, text),)), url=text,
                waived=Waived(text, text) if verdict == "note" else None,
                parameters={"engine": text, "version": text, "fixed": text, "window_low": 5, "window_high": 9})
        for verdict in ("block", "unknown", "warn", "note", "pass")
    )  # fmt: skip
    entry = item(id=f"other/{text}", title=text, why=text, steps=(text,), commands=(text,), pass_when=text, owner=text,
                 facts_used={text: text}, added=True, not_verified=(text,), automation={"kind": "manual"})  # fmt: skip
    return Report(
        base=Revision(text, None),
        head=Revision(text, text),
        base_facts=Facts(),
        head_facts=Facts(
            (bad,),
            {f"{text}/{text}": dict.fromkeys(("behaviour", "capacity", "config"), text)},
            (Skipped(text, text),),
            1,
        ),
        changes=(Change("changed", bad.id, text, text, text, source), Change("added", bad.id), Change("removed", text)),
        check=Check(found, (NotRun(text, text),), (Skipped(text, text),), text),
        checklist=Checklist("en", "openai", text, (entry,)),
        scripts=(Script("bash", text, text),),
        llm=LlmUse("ok", text, text, 1, 2, text),
        tool=text,
        notices=(text,),
    )


__all__ = ["change", "checklist", "deployment", "facts", "findings", "green", "hostile", "incident", "item", "nothing",
           "observed", "stale", "unknown"]  # fmt: skip
