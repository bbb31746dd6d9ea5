"""advertised-context-differs: a gateway, a model card or a page of the same repository promises more than is served (lesson 2 of the incident)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from checklistbot.lazy import pattern
from checklistbot.model import Deployment, Finding, Location, Verdict
from checklistbot.record import record
from checklistbot.rules import _limits as limits
from checklistbot.rules._files import lines_with, prose
from checklistbot.rules._policy import read_lines
from checklistbot.rules.base import Context, Language, Rule, because, found, number

if TYPE_CHECKING:
    from checklistbot.discovery.tree import Tree

ID: Final = "advertised-context-differs"
#: Keys under which gateways and model cards state how long a prompt may be, in tokens.
_KEYS: Final = (
    "max_input_tokens",
    "max_context_length",
    "context_window",
    "context_length",
    "max_prompt_tokens",
    "contextWindow",
    "maxInputTokens",
)
_KEY_LINE: Final = pattern(
    rf"""["']?(?:{"|".join(_KEYS)})["']?\s*[:=]\s*["']?(\d[\d_,]{{2,11}}|\d+(?:\.\d+)?[kKmM])\b"""
)
#: Files in which gateways and model cards are configured, and the line that names the entry: its indent counts to the key.
_CONFIGS: Final = (".yaml", ".yml", ".json", ".toml")
_NAME_LINE: Final = re.compile(
    r"""(\s*(?:-\s+)?(?:\{\s*)?)["']?(?:model_name|modelName|model|id|name|alias|slug|served_model_name)["']?\s*[:=]\s*["']?([^"',\s]+)["']?\s*,?\s*"""
)
#: A sentence that promises a context: "128K context", "context window of 1,048,576 tokens", "1M 토큰 컨텍스트".
_PROSE: Final = pattern(
    r"(?i)(?:context(?: window| length| size)?(?: is| of|:|=)? *|컨텍스트[가-힣 ]{0,6} ?)(?:up to |max\.? |최대 )?(\d[\d,]{2,11}|\d+(?:\.\d+)?[km])\b"
    r"|\b(\d[\d,]{2,11}|\d+(?:\.\d+)?[km])[- ]?(?:tokens? (?:of )?context|context|토큰 컨텍스트)"
)
#: How many lines around a key may name the model.
_NEAR: Final = 12
#: 128K is said of 131,072 and of 128,000 alike.
_TOLERANCE: Final = 1.06
_TITLE: Final[dict[Language, str]] = {
    "en": "{advertised} tokens are promised, {served} are served",
    "ko": "{advertised} 토큰을 약속하지만 {served} 토큰만 서빙합니다",
}
_MESSAGE: Final[dict[Language, dict[str, str]]] = {
    "en": {
        "context": "{where} promises {advertised} tokens for {name}; the deployment's context length is {served}. Longer prompts end with an error, or worse.",
        "pool": "{where} promises {advertised} tokens for {name}; the KV pool holds {served}. Longer prompts end with an error, or worse.",
    },
    "ko": {
        "context": "{where}에서 {name}에 {advertised} 토큰을 약속하지만 배포의 컨텍스트 길이는 {served} 토큰입니다. 더 긴 프롬프트는 오류로 끝나거나 더 나쁜 결과가 됩니다.",
        "pool": "{where}에서 {name}에 {advertised} 토큰을 약속하지만 KV 풀은 {served} 토큰입니다. 더 긴 프롬프트는 오류로 끝나거나 더 나쁜 결과가 됩니다.",
    },
}


@record
class Promise:
    """A length in tokens that a line promises; ``exact`` for a key of a config, not for prose."""

    tokens: int
    where: Location
    exact: bool


def evaluate(context: Context) -> Iterator[Finding]:
    if context.tree is None:
        return
    groups = [(key, members, {name for m in members for name in _names(m)}) for key, members in context.groups()]
    names = {name for _, _, own in groups for name in own}
    promises = _promises(context.tree, names) if names else {}
    for key, members, own in groups:
        serving = [m for m in members if m.context_length.number() or limits.usable_pool(m)]
        promised = [promise for name in sorted(own) for promise in promises.get(name, ())]
        if serving and promised:
            best = max(promised, key=lambda one: (one.exact, one.tokens))
            yield from _judge(key, serving, best, context.language)


def _names(deployment: Deployment) -> Iterator[str]:
    """What a promise calls the model: the served name. A model's own name alone also stands in texts about the model as such."""
    name = deployment.served_model_name.text()
    if name and len(name) >= 4 and not any(letter.isspace() for letter in name):
        yield name


def _promises(tree: Tree, names: set[str]) -> dict[str, list[Promise]]:
    """Served name → what files of the tree promise for it; one search for all names."""
    found: dict[str, list[Promise]] = {}
    texts: dict[str, list[str]] = {}
    for path, line, text in lines_with(tree, sorted(names), wanted=lambda p: prose(p) or p.endswith(_CONFIGS)):
        lowered = text.lower()
        for name in names:
            if name.lower() not in lowered:
                continue
            if prose(path):
                made = [Promise(n, Location(path, line), False) for n in _in_prose(text, name)]
            else:
                lines = texts.setdefault(path, read_lines(tree, path))
                made = list(_in_config(path, lines, line, name))
            found.setdefault(name, []).extend(made)
    return found


def _in_prose(text: str, name: str) -> Iterator[int]:
    """Lengths in a sentence that names the model as a word of its own; a plain word such as "chat" is no name."""
    named = re.search(rf"(?<![A-Za-z0-9_./-]){re.escape(name)}(?![A-Za-z0-9_/-])", text[:500])
    if named is None or not re.search(r"[\d-]", name):
        return
    for match in _PROSE.finditer(text[:500]):
        tokens = _tokens(match[1] or match[2])
        if tokens is not None and tokens >= 1_000:
            yield tokens


def _in_config(path: str, lines: list[str], line: int, name: str) -> Iterator[Promise]:
    """Keys of the entry whose name is exactly the model's, and of what is nested in it: until the entry ends."""
    first = lines[line - 1] if line <= len(lines) else ""
    named = _NAME_LINE.fullmatch(first)
    if named is None or named[2] != name:
        return
    indent = len(named[1])
    for at in range(line, min(line + _NEAR, len(lines))):
        text = lines[at]
        if text.strip() and len(text) - len(text.lstrip()) < indent:
            return
        match = _KEY_LINE.search(text)
        tokens = _tokens(match[1]) if match else None
        if tokens is not None and tokens >= 1_000:
            yield Promise(tokens, Location(path, at + 1), True)


def _tokens(text: str) -> int | None:
    number_, unit = re.fullmatch(r"([\d.,_]+)([kKmM]?)", text).groups()  # type: ignore[union-attr]
    value = float(number_.replace(",", "").replace("_", ""))
    return int(value * {"": 1, "k": 1_000, "m": 1_000_000}[unit.lower()])


def _judge(key: str, serving: list[Deployment], promise: Promise, language: Language) -> Iterator[Finding]:
    """Against the smallest context, and, where the config of a gateway promises it, against a pool that is proven to be smaller."""
    for member in serving:
        context, pool = member.context_length.number(), limits.usable_pool(member)
        own = any(f.path == promise.where.path for f in member.flags) or member.file == promise.where.path
        if own:
            continue
        if context is not None and promise.tokens > context * (1 if promise.exact else _TOLERANCE):
            yield _finding(key, member, promise, "context", context, "warn" if promise.exact else "note", language)
            return
        small = pool is not None and limits.certain(member, "small") and promise.tokens > pool
        if small and promise.exact and member.context_length.kind != "declared":
            yield _finding(key, member, promise, "pool", pool or 0, "block", language)
            return


def _finding(
    key: str, member: Deployment, promise: Promise, kind: str, served: int, verdict: Verdict, language: Language
) -> Finding:
    values = {
        "advertised": number(promise.tokens),
        "served": number(served),
        "where": str(promise.where),
        "name": member.served_model_name.text() or member.group,
    }
    text = (_TITLE[language].format(**values), _MESSAGE[language][kind].format(**values))
    return found(
        ID,
        verdict,
        key,
        text,
        where=promise.where,
        why=because(member, "context_length", "kv_pool_tokens"),
        parameters={"advertised": promise.tokens, "served": served, "kind": kind},
    )


RULE = Rule(
    ID,
    {
        "en": "A gateway, a model card or a page of the repository promises a longer context than is served.",
        "ko": "저장소의 게이트웨이, 모델 카드, 문서가 실제로 서빙하는 것보다 긴 컨텍스트를 약속합니다.",
    },
    evaluate,
    fires="block",
    page={
        "en": (
            "Looked at are lines that name the served model: keys such as max_input_tokens or context_window below its name in a gateway's config, and sentences "
            "of documentation that give a context length in the same line.",
            "A key warns, a sentence is a note. It blocks where a key promises more than an observed or capped pool holds and no context length is declared: "
            "that is the promise then.",
        ),
        "ko": (
            "서빙 이름이 나오는 줄을 봅니다. 게이트웨이 설정에서는 그 이름 아래의 max_input_tokens, context_window 같은 키를, 문서에서는 같은 줄에 컨텍스트 길이를 적은 문장을 "
            "찾습니다.",
            "키는 경고, 문장은 참고입니다. 컨텍스트 길이가 선언되지 않았는데 키가 관측되거나 상한이 있는 풀보다 긴 길이를 약속하면 그것이 약속이므로 차단합니다.",
        ),
    },
)
