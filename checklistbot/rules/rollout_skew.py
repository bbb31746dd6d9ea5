"""rollout-skew: while a new release rolls out, old and new roles meet (operations-and-attacks 33)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from checklistbot.changes import pair
from checklistbot.engines.base import below, version_of
from checklistbot.model import Deployment, Finding
from checklistbot.rules import _limits as limits
from checklistbot.rules._match import disaggregated
from checklistbot.rules.base import Context, Language, Rule, because, found, location

ID: Final = "rollout-skew"
_TITLE: Final[dict[Language, str]] = {
    "en": "During the rollout {before} and {after} serve as one pair",
    "ko": "롤아웃 동안 {before}와 {after}가 한 쌍으로 동작합니다",
}
_MESSAGE: Final[dict[Language, dict[str, str]]] = {
    "en": {
        "handoff": "Below SGLang 0.5.20 prefill hands rejected requests on, and SGLang does not compare the releases of a pair. Roll out prefill first, then "
        "decode; or bring up complete new pairs and drain the old ones.",
        "sglang": "SGLang does not compare the releases of a pair, and the transfer format is not promised between them. Bring up complete new pairs and drain "
        "the old ones; where that is not possible, roll out prefill first.",
        "vllm": "vLLM's handshake refuses a peer of another release: mixed pairs fail until both roles are through. Bring up complete new pairs and drain the "
        "old ones.",
    },
    "ko": {
        "handoff": "SGLang 0.5.20 미만에서는 prefill이 거부된 요청을 그대로 넘기고, SGLang은 짝의 릴리스를 비교하지 않습니다. prefill을 먼저, decode를 "
        "나중에 올리세요. 또는 새 쌍을 "
        "통째로 띄우고 옛 쌍을 비우세요.",
        "sglang": "SGLang은 짝의 릴리스를 비교하지 않고, 릴리스 사이의 전송 형식도 보장되지 않습니다. 새 쌍을 통째로 띄우고 옛 쌍을 비우세요. 어렵다면 prefill부터 올리세요.",
        "vllm": "vLLM의 핸드셰이크는 릴리스가 다른 상대를 거부하므로, 두 역할이 모두 바뀔 때까지 섞인 쌍은 실패합니다. 새 쌍을 통째로 띄우고 옛 쌍을 비우세요.",
    },
}


def evaluate(context: Context) -> Iterator[Finding]:
    if context.base is None:
        return
    before = {new.id: old for old, new in pair(context.base.deployments, context.facts.deployments)}
    for key, members in context.groups():
        changed = [
            (before[m.id], m)
            for m in members
            if m.id in before
            and m.engine.value in ("sglang", "vllm")
            and disaggregated(m)
            and _differs(before[m.id], m)
        ]
        if changed:
            yield _finding(key, *changed[0], context.language)


def _differs(old: Deployment, new: Deployment) -> bool:
    left, right = version_of(old), version_of(new)
    if left is not None and right is not None:
        return left.public != right.public
    return old.image.known and new.image.known and old.image.value != new.image.value


def _finding(key: str, old: Deployment, new: Deployment, language: Language) -> Finding:
    before, after = (str(m.engine_version.value or m.image.value or "?") for m in (old, new))
    kind = str(new.engine.value)
    version = version_of(old)
    if kind == "sglang" and version is not None and below(version, limits.HANDOFF_STOPPED):
        kind = "handoff"
    return found(
        ID,
        "note",
        key,
        (_TITLE[language].format(before=before, after=after), _MESSAGE[language][kind]),
        where=location(new, "engine_version", "image"),
        why=because(new, "engine_version", "image"),
        parameters={"before": before, "after": after, "kind": kind},
    )


RULE = Rule(
    ID,
    {
        "en": "A change of the release lets old and new prefill and decode workers meet during the rollout.",
        "ko": "릴리스를 바꾸면 롤아웃 동안 옛 워커와 새 워커가 prefill과 decode로 짝을 이룹니다.",
    },
    evaluate,
    fires="note",
    page={
        "en": (
            "The fix of the incident's bug sits in prefill: an old prefill worker behind a new decode worker still leaks, a new one in front of an old one "
            "does not.",
        ),
        "ko": (
            "사고를 일으킨 버그의 수정은 prefill 쪽에 있습니다. 새 decode 앞에 옛 prefill이 남아 있으면 여전히 유출되고, 반대는 그렇지 않습니다.",
        ),
    },
)
