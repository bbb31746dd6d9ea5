"""Facts, changes and gaps as lines: what every output says in the same words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from checklistbot.lazy import pattern
from checklistbot.model import Change, Deployment, Edit, Fact, Finding, Fix, Location, Report, Scalar, Waived
from checklistbot.report.view import ENGINE_NAMES, View
from checklistbot.report.words import Filling, Line, Words, code, foreign, join, number, own, place

_DIGEST: Final = pattern(r"(@sha256:[0-9a-f]{8})[0-9a-f]{56}")
_HEX: Final = pattern(r"[0-9a-f]{7,64}")
#: The facts without which nothing is proven.
DECIDING: Final = ("engine_version", "context_length", "kv_pool_tokens")


def value(name: str, content: Scalar) -> Line:
    """A fact's value: numbers with separators, engines by their own spelling, the rest as it is written."""
    if name == "engine" and content in ENGINE_NAMES:
        return own(ENGINE_NAMES[str(content)])
    if isinstance(content, bool):
        return own(str(content).lower())
    if isinstance(content, (int, float)):
        return own(number(content))
    if name == "image":
        return code(_DIGEST.sub(r"\1…", content))
    return code(content) if name == "model" else foreign(content)


def how(fact: Fact, words: Words, *, with_settings: bool = False) -> Line:
    """How a fact was learnt: kind, place, and for an observation whether it was taken under this configuration."""
    if fact.source is None:
        return ()
    kind = fact.source.kind
    named = words.line(f"how.{kind}", place=fact.source) if fact.source.path else words.line(f"how.{kind}_bare")
    return join([named, *_reservations(fact, words, with_settings)], ", ")


def _reservations(fact: Fact, words: Words, with_settings: bool) -> Iterator[Line]:
    if fact.bound == "upper":
        yield words.line("how.cap")
    if fact.low is not None and fact.high is not None:
        yield words.line("how.range", low=fact.low, high=fact.high)
    if len(fact.per_rank) > 1:
        yield words.line("how.ranks", n=len(fact.per_rank))
    seen = fact.observation
    if seen is None:
        return
    if seen.stale:
        yield words.line("how.stale", what=labels(seen.stale, words))
    elif with_settings and seen.unchanged_in_git:
        yield words.line("how.same_settings")
    elif with_settings and seen.not_compared:
        yield words.line("how.not_compared", what=labels(seen.not_compared, words))
    elif with_settings and seen.taken_under:
        yield words.line("how.same_settings")


def labels(names: tuple[str, ...], words: Words) -> Line:
    """Fact names in the reader's words: at most three, then how many more."""
    shown = [words.name("fact", name) for name in names[:3]]
    if len(names) > 3:
        shown.append(words.line("headline.and_more", n=len(names) - 3))
    return join(shown, ", ")


def why_unknown(fact: Fact, words: Words) -> Line:
    """Why there is no value."""
    gap = fact.unknown
    if gap is None:
        return words.line("unknown.not-said")
    if gap.why == "not-static" and gap.name:
        return words.line("unknown.not-static_name", name=code(gap.name))
    return words.line(f"unknown.{gap.why}")


def doubt(name: str, member: Deployment, words: Words) -> Line:
    """Why a deciding fact proves nothing; empty where it does."""
    fact = member.fact(name)
    if not fact.known:
        digest_only = name == "engine_version" and "@sha256:" in str(member.image.value or "")
        return words.line("unknown.digest") if digest_only else why_unknown(fact, words)
    if name != "kv_pool_tokens" or fact.proven:
        return ()
    if fact.observation and fact.stale:
        return words.line("unknown.stale", what=labels(fact.observation.stale, words))
    return words.line("unknown.only_capped" if fact.bound else "unknown.predicted_only")


def gaps(view: View, words: Words) -> Iterator[Line]:
    """Everything that is not proven, the gravest group first: facts, unread inputs, rules that did not run."""
    for group in view.groups:
        for member in group.members:
            for name in DECIDING:
                why = doubt(name, member, words)
                if why:
                    what = join([who(member, view), words.name("fact", name)], " ")
                    yield words.line("unknown.entry", what=what, why=why)
    for entry in view.report.check.skipped:
        yield words.line("unknown.skipped", path=code(entry.path), why=entry.reason)
    for missed in view.report.check.not_run:
        yield words.line("unknown.not_run", rule=code(missed.rule), why=missed.why)


def who(member: Deployment, view: View) -> Line:
    """What tells a deployment from the others of a report: its role, and group and environment if there are several."""
    role = str(member.role.value)
    several = len(view.groups) > 1
    alone = role == "unified" or not member.role.known
    parts: list[Line] = []
    if several:
        parts.append(foreign(f"{member.environment}/{member.group}" if view.environments > 1 else member.group))
    if not alone:
        parts.append(own(role) if role in ("prefill", "decode") else foreign(role))
    return join(parts, " ")


def changed(changes: tuple[Change, ...], words: Words) -> Iterator[Line]:
    """Changes of one group as lines; the same change in several roles is one line with several places."""
    same: dict[tuple[str, str | None, Scalar | None, Scalar | None], list[Change]] = {}
    for change in changes:
        key = (change.what, change.fact if change.what == "changed" else change.deployment, change.before, change.after)
        same.setdefault(key, []).append(change)
    for alike in same.values():
        yield _change(alike, words)


def _change(alike: list[Change], words: Words) -> Line:
    first = alike[0]
    if first.what != "changed":
        return words.line(f"change.{first.what}", deployment=code(first.deployment))
    name = first.fact or ""
    before = words.line("change.none") if first.before is None else value(name, first.before)
    after = words.line("change.gone") if first.after is None else value(name, first.after)
    places = dict.fromkeys(place(c.source) for c in alike if c.source and c.source.path)
    filled: dict[str, Filling] = {"fact": words.name("fact", name), "before": before, "after": after}
    if not places:
        return words.line("change.changed_bare", **filled)
    return words.line("change.changed", **filled, places=join(places, ", "))


def place_of(edit: Edit) -> Line:
    """Where an edit is made."""
    return place(Location(edit.path, edit.line))


def compared(report: Report, words: Words) -> Line:
    """Which revisions were compared."""
    head = _revision(report.head.commit, report.head.ref)
    if head is None:
        return words.line("headline.checked_plain")
    base = _revision(report.base.commit, report.base.ref) if report.base else None
    if base is None or report.base_facts is None:
        return words.line("headline.checked_head", head=code(head))
    return words.line("headline.checked", head=code(head), base=code(base))


def _revision(commit: str | None, ref: str | None) -> str | None:
    return commit[:7] if commit and _HEX.fullmatch(commit) else ref


def fact_name(name: str, words: Words) -> Line:
    """A fact's name in the reader's words; "prefill context_length" keeps its role."""
    role, _, rest = name.rpartition(" ")
    return (
        join([own(role), words.name("fact", rest)], " ") if role in ("prefill", "decode") else words.name("fact", name)
    )


def digests(report: Report, words: Words) -> Iterator[Line]:
    """The configuration digests of the first groups, twelve digits each."""
    every = {key: value.get("config", "").removeprefix("sha256:") for key, value in report.head_facts.digests.items()}
    found = {key: digest for key, digest in every.items() if _HEX.fullmatch(digest)}
    for key, digest in list(found.items())[:3]:
        shown = code(digest[:12])
        if len(found) == 1:
            yield words.line("footer.digest", digest=shown)
        else:
            yield words.line("footer.digest_of", group=key, digest=shown)


def drafted(report: Report, words: Words) -> Line:
    """Who wrote the checklist, and what it cost."""
    llm, origin = report.llm, report.checklist.origin
    if not report.checklist.items:
        return ()
    if origin == "response":
        return words.line("footer.response")
    if origin == "builtin":
        return words.line("footer.builtin_because", reason=llm.reason) if llm.reason else words.line("footer.builtin")
    filled: dict[str, Filling] = {"provider": llm.provider, "model": code(llm.model or report.checklist.model or "")}
    if llm.input_tokens is None or llm.output_tokens is None:
        return words.line("footer.llm", **filled)
    filled |= {"input": llm.input_tokens, "output": llm.output_tokens}
    if llm.cost:
        return words.line("footer.llm_cost", **filled, cost=llm.cost)
    return words.line("footer.llm_tokens", **filled)


def notice(text: str, words: Words) -> Line:
    """What the review has to say about itself: a code of ours ("policy-changed"), else the words as they come."""
    return words.line(f"notice.{text}") if words.has(f"notice.{text}") else foreign(text)


def notices(report: Report) -> tuple[str, ...]:
    """The notices that the headline does not say already; ten at most."""
    return tuple(n for n in report.notices if not (n == "no-base" and report.base_facts is None))[:10]


def mark(finding: Finding) -> str:
    """The verdict whose sign a finding bears: what is mended is green, what is waived is a note."""
    return "pass" if finding.status == "fixed" else "note" if finding.waived else finding.verdict


def waived(waiver: Waived, words: Words) -> Line:
    """Why a finding does not count, and how long."""
    if waiver.expires:
        return words.line("finding.waived_until", reason=waiver.reason, date=waiver.expires)
    return words.line("finding.waived", reason=waiver.reason)


def fix(mend: Fix, words: Words) -> Line:
    """How to mend a finding, with the lines to change."""
    edits = [
        words.line("finding.edit", place=place_of(edit), before=code(edit.before), after=code(edit.after))
        for edit in mend.edits[:8]
    ]
    return words.line("finding.do", what=join([foreign(mend.text), join(edits, ", ")], " "))


def rule(finding: Finding) -> str:
    """What ``checklistbot explain`` takes: the advisory's id where there is one, else the rule's."""
    return finding.advisory or finding.rule
