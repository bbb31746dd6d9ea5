"""A result for a terminal, in English and Korean. Phrases stand in templates/probe.LANGUAGE.toml."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from functools import cache
from typing import Any, Final

from checklistbot import resources
from checklistbot.encode import terminal
from checklistbot.probe.case import Case, Limits, Opinion
from checklistbot.probe.evidence import hits
from checklistbot.probe.ladder import PREFILL_SPEED
from checklistbot.probe.run import Result

_CODES: Final = {"pass": "32;1", "fail": "31;1", "inconclusive": "33;1", "dim": "2", "bold": "1"}
_SHOWN: Final = 4


@cache
def _table(language: str) -> dict[str, dict[str, str]]:
    return tomllib.loads(resources.text("templates", f"probe.{language}.toml"))


class Texts:
    """Phrases of one language; with ``color`` also ANSI styles."""

    def __init__(self, language: str, *, color: bool = False) -> None:
        self._phrases = _table(language)
        self._color = color

    def say(self, key: str, *filling: Any, **named: str) -> str:
        """The phrase ``section.name`` with its places filled; numbers get separators."""
        section, _, name = key.partition(".")
        return self._phrases[section][name].strip().format(*map(_shown, filling), **named)

    def style(self, text: str, name: str) -> str:
        return f"\x1b[{_CODES[name]}m{text}\x1b[0m" if self._color else text


def _shown(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def render(result: Result, texts: Texts, *, url: str, bound: bool = False) -> str:
    """The whole report: verdict, limits, counts, each finding with what it means, what to do."""
    return (
        "\n".join(
            [
                *_head(result, texts, url),
                "",
                *_table_of(result, texts, bound),
                *_findings(result, texts),
                *_todo(result, texts),
            ]
        )
        + "\n"
    )


def _head(result: Result, texts: Texts, url: str) -> Iterator[str]:
    summary, limits = result.summary, result.run.limits
    engine = " ".join(part for part in (limits.engine, limits.version) if part)
    word = texts.style(texts.say(f"verdict.{summary.verdict}"), summary.verdict)
    yield f"{word}  {terminal(url)}" + (f"  {terminal(engine)}" if engine else "")
    yield texts.say(f"headline.{_headline(result)}")
    if summary.verdict == "inconclusive":
        skipped = ", ".join(result.ladder.skipped) if result.ladder else ""
        yield from (f"  · {texts.say(f'why.{why}', terminal(skipped))}" for why in summary.why)


def _headline(result: Result) -> str:
    if "dry-run" in result.notes:
        return "dry-run"
    if result.summary.verdict != "fail":
        return result.summary.verdict
    return "leak" if any(name in result.summary.counts for name in ("FAIL_LEAK", "FAIL_SWAP")) else "other"


def _table_of(result: Result, texts: Texts, bound: bool) -> Iterator[str]:
    summary, baseline = result.summary, result.run.baseline
    rows = [("limits", _limits(result.run.limits, texts))]
    if "dry-run" in result.notes:
        if result.ladder is not None:
            from checklistbot.probe.progress import took_in_words

            tokens = result.ladder.tokens()
            took = took_in_words(tokens / PREFILL_SPEED, texts)
            rows.append(("sent", texts.say("line.would", result.ladder.requests(), tokens, took)))
    else:
        rows.append(("sent", texts.say("line.counted", result.requests, result.tokens, result.over_requests)))
        rows.append(("replies", ", ".join(f"{name} {count}" for name, count in summary.counts.items()) or "-"))
        rows.append(("healthy", texts.say("line.baseline", baseline.asked - baseline.missed, baseline.asked)))
    if summary.upper_bound is not None and summary.verdict == "pass":
        rows.append(("bound", texts.say("line.upper", summary.judged, f"{summary.upper_bound:.1%}")))
    if not bound and "dry-run" not in result.notes:
        rows.append(("bound", texts.say("line.unbound")))
    width = max(_cells(texts.say(f"line.{name}")) for name, _ in rows)
    for name, text in rows:
        label = texts.say(f"line.{name}")
        yield f"  {texts.style(label, 'dim')}{' ' * (width - _cells(label))}  {text}"


def _cells(text: str) -> int:
    """Columns on a terminal: Hangul takes two."""
    return sum(2 if "\u1100" <= character <= "\uffdc" else 1 for character in text)


def _limits(limits: Limits, texts: Texts) -> str:
    parts = []
    if limits.context:
        parts.append(texts.say("line.context", limits.context))
    parts += [texts.say("line.pool", role, tokens) for role, tokens in limits.pools.items()]
    if limits.first_rejected:
        parts.append(texts.say("line.first-rejected", limits.first_rejected))
    if limits.page:
        parts.append(texts.say("line.page", limits.page))
    return " · ".join(parts) or texts.say("line.unknown-limits")


def _findings(result: Result, texts: Texts) -> Iterator[str]:
    cases = hits(result)
    cases.sort(key=lambda case: (not case.verdict.startswith("FAIL"), -len(case.opinions)))
    for case in cases[:_SHOWN]:
        yield ""
        style = "fail" if case.verdict.startswith("FAIL") else "inconclusive"
        yield f"  {texts.style(case.verdict, style)}  {texts.say('line.tokens', case.length)}  {texts.style(case.prompt.id, 'dim')}"
        yield from (f"    · {line}" for line in explain(case, texts))
    if len(cases) > _SHOWN:
        yield f"  +{len(cases) - _SHOWN}"


def explain(case: Case, texts: Texts) -> Iterator[str]:
    """Each opinion in words, the strongest first, and what the lost codes mean."""
    for opinion in sorted(case.opinions, key=lambda o: (o.strength != "fail", not o.canaries)):
        yield phrase(opinion, texts)
        if opinion.oracle == "own-needles":
            yield texts.say(f"pattern.{opinion.seen[2]}")


def phrase(opinion: Opinion, texts: Texts) -> str:
    if opinion.oracle in ("usage-law", "degenerate"):
        return texts.say(
            f"{'usage' if opinion.oracle == 'usage-law' else 'degenerate'}.{opinion.seen[0]}", *opinion.seen
        )
    return texts.say(f"oracle.{opinion.oracle}", *opinion.seen, owner=", ".join(opinion.canaries) or "?")


def _todo(result: Result, texts: Texts) -> Iterator[str]:
    limit = result.run.limits.first_rejected
    if result.summary.verdict != "fail" or limit is None:
        return
    yield ""
    yield texts.style(texts.say("do.title"), "bold")
    kind = "leak" if _headline(result) == "leak" else "other"
    for number, line in enumerate(texts.say(f"do.{kind}", limit, limit - 1).splitlines(), 1):
        yield f"  {number}. {line}"
