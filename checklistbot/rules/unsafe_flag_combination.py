"""unsafe-flag-combination: options that, together with the release and the model, run into a bug that no release mends yet."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from checklistbot.model import Deployment, Finding, Fix, Location
from checklistbot.rules._advisories import Hit, by_flag, hits, verdict_of
from checklistbot.rules.base import Context, Language, Rule, because, found, location, titled

ID: Final = "unsafe-flag-combination"
_TITLE: Final[dict[Language, str]] = {
    "en": "{options} run into a known bug here ({id})",
    "ko": "{options} 설정이 알려진 버그를 일으킵니다({id})",
}


def evaluate(context: Context) -> Iterator[Finding]:
    for key, _, found_hits in hits(context):
        for hit in found_hits:
            if hit.definite and by_flag(hit.advisory):
                yield _finding(key, hit, context.language)


def _options(hit: Hit) -> list[str]:
    when = hit.advisory.when
    names = [f"--{name}" for name, one in when.get("flags", {}).items() if not (isinstance(one, dict) and "not" in one)]
    return [*names, *when.get("env", {}), *when.get("kv_transfer_extra", {})]


def _where(hit: Hit, member: Deployment) -> Location | None:
    """The line of the first of the options that the deployment gives."""
    names = [
        *hit.advisory.when.get("flags", {}),
        *(["kv-transfer-config"] if "kv_transfer_extra" in hit.advisory.when else []),
    ]
    for entry in (*map(member.flag, names), *map(member.env_var, hit.advisory.when.get("env", {}))):
        if entry is not None and entry.path:
            return Location(entry.path, entry.line)
    return location(member)


def _finding(key: str, hit: Hit, language: Language) -> Finding:
    advisory, member = hit.advisory, hit.definite[0]
    title = _TITLE[language].format(options=", ".join(_options(hit)), id=advisory.id)
    finding = found(
        ID,
        verdict_of(advisory),
        key,
        (titled(title), advisory.summary[language]),
        where=_where(hit, member),
        why=because(member, "engine_version", "model"),
        advisory=advisory.id,
        parameters={"options": ", ".join(_options(hit))},
    )
    return finding.replace(fix=Fix(advisory.mitigation[language]))


RULE = Rule(
    ID,
    {
        "en": "Options are set that run into a known bug without a fixed release.",
        "ko": "고친 릴리스가 아직 없는 알려진 버그를 일으키는 옵션이 켜져 있습니다.",
    },
    evaluate,
    fires="block",
    leak=True,
    page={
        "en": (
            "The advisories that this rule reports depend on an option which somebody set, and no release mends them: the way out is to leave "
            "the option out, or to give another value. Bugs that an upgrade mends are reported by known-engine-bug.",
        ),
        "ko": (
            "이 규칙이 다루는 권고는 누군가 켠 옵션에 달려 있고, 고친 릴리스가 없습니다. 옵션을 빼거나 값을 바꾸는 것이 해결책입니다. 버전을 올리면 고쳐지는 버그는 "
            "known-engine-bug가 알립니다.",
        ),
    },
)
