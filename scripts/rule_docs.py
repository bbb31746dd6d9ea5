"""Write the pages about rules and advisories from the code: docs/rules/, docs/advisories.md, and the same below docs/ko/ (``make docs``)."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal

from checklistbot import rules
from checklistbot.rules import _pages as pages
from checklistbot.rules.base import Rule

Language = Literal["en", "ko"]
DOCS = Path(__file__).resolve().parent.parent / "docs"
_TITLES = {
    "en": {"rules": "Rules", "advisories": "Known engine bugs", "id": "Rule", "fires": "Verdict", "what": "What it says",
           "made": "Written from the code by `make docs`; knowledge of {date}.", "count": "{n} advisories, {decidable} of which a repository's facts can decide."},
    "ko": {"rules": "규칙", "advisories": "알려진 엔진 버그", "id": "규칙", "fires": "판정", "what": "내용",
           "made": "`make docs`가 코드에서 만든 문서입니다. 지식 기준일 {date}.", "count": "권고 {n}건, 그 가운데 {decidable}건은 저장소의 사실만으로 판정할 수 있습니다."},
}  # fmt: skip


def all_pages() -> dict[str, str]:
    """Every page: path below docs/ → text."""
    found: dict[str, str] = {}
    for language, folder in (("en", ""), ("ko", "ko/")):
        found[f"{folder}rules/README.md"] = _index(language)  # type: ignore[arg-type]
        found[f"{folder}advisories.md"] = _advisories(language)  # type: ignore[arg-type]
        for rule in rules.registry().values():
            found[f"{folder}rules/{rule.id}.md"] = _rule(rule, language)  # type: ignore[arg-type]
    return found


def _made(language: Language) -> str:
    return f"*{_TITLES[language]['made'].format(date=rules.knowledge_date())}*\n"


def _index(language: Language) -> str:
    words = _TITLES[language]
    rows = [
        f"| [{rule.id}]({rule.id}.md) | {pages.word(language, rule.fires)} | {_cell(rule.summary[language])} |"
        for rule in rules.registry().values()
    ]
    head = [f"| {words['id']} | {words['fires']} | {words['what']} |", "| --- | --- | --- |"]
    return "\n\n".join([f"# {words['rules']}", "\n".join([*head, *rows]), _made(language)])


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _rule(rule: Rule, language: Language) -> str:
    body = [
        f"# {rule.id}",
        *map(_plain, pages.rule_paragraphs(rule, language)),
        _table(pages.rule_facts(rule, language)),
    ]
    return "\n\n".join([*body, _made(language)])


def _advisories(language: Language) -> str:
    words, every = _TITLES[language], pages.ordered()
    count = words["count"].format(n=len(every), decidable=sum(one.decidable for one in every))
    parts = [f"# {words['advisories']}", count]
    for advisory in every:
        parts += [f"## {advisory.id}", *map(_plain, pages.advisory_paragraphs(advisory, language))]
        parts.append(_table(pages.advisory_facts(advisory, language)))
    return "\n\n".join([*parts, _made(language)])


def _table(rows: Iterable[tuple[str, str]]) -> str:
    return "\n".join(f"- **{label}:** {_plain(value)}" for label, value in rows)


def _plain(text: str) -> str:
    """Text whose stars, underscores and angle brackets are letters."""
    return "".join(f"\\{letter}" if letter in "*_<>[]`" else letter for letter in text)


def differing() -> Iterator[str]:
    """Pages that are not as the code has them, and pages that nothing makes any more."""
    made = all_pages()
    for name, text in made.items():
        path = DOCS / name
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            yield name
    for folder in ("rules", "ko/rules"):
        yield from (f"{folder}/{p.name}" for p in (DOCS / folder).glob("*.md") if f"{folder}/{p.name}" not in made)


def main() -> None:
    made = all_pages()
    for name in differing():
        path = DOCS / name
        if name in made:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(made[name], encoding="utf-8")
        else:
            path.unlink()
        print(f"docs/{name}", file=sys.stderr)


if __name__ == "__main__":
    main()
