"""unknown-engine-flag: flags that the deployed release does not know, not yet, or no longer (tables: knowledge/flags/)."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from checklistbot.engines._flags import Table, table
from checklistbot.engines.base import below, version_of
from checklistbot.model import Deployment, Finding, Flag, Location
from checklistbot.rules.base import Context, Language, Rule, found

if TYPE_CHECKING:
    from packaging.version import Version

ID: Final = "unknown-engine-flag"
_ENGINES: Final = {"sglang": "SGLang", "vllm": "vLLM"}
#: How like a known flag a name must be to be taken for a slip of the pen.
_CLOSE: Final = 0.86
#: Letters by which a slip of the pen may be longer or shorter; more is a wrapper's prefix (--dyn-tool-call-parser).
_SLIP: Final = 2
#: Flags that were removed, and what took their place in the same release (read in the flags of the examined releases).
RENAMED: Final = {
    "sglang": {
        "--disable-regex-jump-forward": "--disable-jump-forward",
        "--enable-deepep-waterfill": "--enable-waterfill",
        "--file-storage-pth": "--file-storage-path",
        "--kt-amx-method": "--kt-method",
        "--kt-amx-weight-path": "--kt-weight-path",
        "--max-micro-batch-size": "--pp-max-micro-batch-size",
        "--nsa-decode": "--nsa-decode-backend",
        "--nsa-decode-backend": "--dsa-decode-backend",
        "--nsa-prefill": "--nsa-prefill-backend",
        "--nsa-prefill-backend": "--dsa-prefill-backend",
        "--oltp-traces-endpoint": "--otlp-traces-endpoint",
        "--optimistic-prefill-retries": "--optimistic-prefill-attempts",
    },
    "vllm": {
        "--guided-decoding-backend": "--structured-outputs-config",
        "--max-context-len-to-capture": "--max-seq-len-to-capture",
        "--num-speculative-tokens": "--speculative-config",
        "--override-pooler-config": "--pooler-config",
        "--rope-scaling": "--hf-overrides",
        "--rope-theta": "--hf-overrides",
        "--speculative-model": "--speculative-config",
        "--task": "--runner",
    },
}
_TITLE: Final[dict[Language, str]] = {
    "en": "{engine}{version} does not know {names}",
    "ko": "{engine}{version}이(가) 모르는 옵션입니다: {names}",
}
_TEXT: Final[dict[Language, dict[str, str]]] = {
    "en": {
        "unknown": "{name} is no flag of it; did you mean {close}?",
        "early": "{name} exists from {first} on.",
        "removed": "{name} was removed in {removed}.",
        "renamed": "{name} was removed in {removed}; its place took {now}.",
        "end": "A server that gets an unknown flag does not start.",
    },
    "ko": {
        "unknown": "{name}은(는) 없는 옵션입니다. {close}을(를) 쓰려던 것인가요?",
        "early": "{name}은(는) {first}부터 있습니다.",
        "removed": "{name}은(는) {removed}에서 없어졌습니다.",
        "renamed": "{name}은(는) {removed}에서 없어졌고 {now}(으)로 바뀌었습니다.",
        "end": "모르는 옵션을 받은 서버는 기동하지 않습니다.",
    },
}


def evaluate(context: Context) -> Iterator[Finding]:
    for deployment in context.facts.deployments:
        engine = str(deployment.engine.value)
        if engine not in _ENGINES or deployment.variant:
            continue
        wrong = [
            (flag, text)
            for flag in deployment.flags
            if (text := _wrong(flag, deployment, context.language)) is not None
        ]
        if wrong:
            yield _finding(deployment, wrong, context.language)


def _wrong(flag: Flag, deployment: Deployment, language: Language) -> str | None:
    """Why the release does not take the flag, None where it does or where that is not known."""
    name = f"--{flag.name.partition('.')[0]}"
    known, release, texts = table(str(deployment.engine.value)), version_of(deployment), _TEXT[language]
    spec = known.spellings.get(name)
    if spec is None:
        close = _close(name, known)
        return texts["unknown"].format(name=name, close=close) if close else None
    if release is None:
        return None
    if spec.removed_in is not None and not below(release, spec.removed_in):
        now = RENAMED.get(str(deployment.engine.value), {}).get(f"--{spec.name}")
        return texts["renamed" if now else "removed"].format(name=name, removed=spec.removed_in, now=now)
    return texts["early"].format(name=name, first=spec.first) if _early(spec.first, release) else None


def _early(first: str | None, release: Version) -> bool:
    """True if the release is older than the first examined one with the flag and not between two examined ones: a minor release apart."""
    if first is None or not below(release, first):
        return False
    from packaging.version import Version

    return Version(first).release[:2] > release.release[:2]


def _close(name: str, known: Table) -> str | None:
    if not name.startswith("--") or len(name) < 8:
        return None
    names = [
        spelling
        for spelling, spec in known.spellings.items()
        if spelling.startswith("--") and spec.removed_in is None and abs(len(spelling) - len(name)) <= _SLIP
    ]
    return next(iter(difflib.get_close_matches(name, names, 1, _CLOSE)), None)


def _finding(deployment: Deployment, wrong: list[tuple[Flag, str]], language: Language) -> Finding:
    names = ", ".join(f"--{flag.name}" for flag, _ in wrong[:3]) + (", …" if len(wrong) > 3 else "")
    version = f" {deployment.engine_version.value}" if deployment.engine_version.known else ""
    title = _TITLE[language].format(engine=_ENGINES[str(deployment.engine.value)], version=version, names=names)
    message = " ".join([*(text for _, text in wrong), _TEXT[language]["end"]])
    where = Location(wrong[0][0].path, wrong[0][0].line)
    parameters = {"flags": ",".join(flag.name for flag, _ in wrong)}
    return found(ID, "warn", deployment.id, (title, message), where=where, parameters=parameters)


RULE = Rule(
    ID,
    {
        "en": "A flag is misspelt, or the deployed release does not have it.",
        "ko": "옵션 이름이 틀렸거나 배포된 릴리스에 없는 옵션입니다.",
    },
    evaluate,
    page={
        "en": (
            "The flags of the examined releases of SGLang and vLLM are known. A name that is none of them is reported only where it is close to one: "
            "wrappers take flags of their own. Where the release is not known, only misspelt names are reported.",
        ),
        "ko": (
            "확인한 SGLang과 vLLM 릴리스의 옵션 목록과 비교합니다. 목록에 없는 이름은 비슷한 옵션이 있을 때만 알립니다. 래퍼가 자기 옵션을 받을 수 "
            "있기 때문입니다. 릴리스를 모르면 "
            "철자가 틀린 이름만 알립니다.",
        ),
    },
)
