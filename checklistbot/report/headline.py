"""The first five lines: verdict, what this pull request changes, what to do, what is not proven, what was counted.

They are built from the report alone and are the same in the comment, the terminal and the step summary
(operations-and-attacks, "The first five lines of the comment").
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from checklistbot.model import Deployment, Edit, Finding, Override, Report, Verdict
from checklistbot.record import record
from checklistbot.report import describe
from checklistbot.report.view import ENGINE_NAMES, Group, Standing, View, is_debt, view, weight
from checklistbot.report.words import Filling, Language, Line, Words, code, foreign, join, own, plain

_MAX_CHANGES: Final = 3
_MAX_GAPS: Final = 4
_MAX_PROVEN: Final = 2
_MAX_MENDS: Final = 4
_MAX_TITLES: Final = 3
_COUNTED: Final[tuple[Verdict, ...]] = ("block", "unknown", "warn")


@record
class Headline:
    """``title`` is the verdict line; ``lines`` the two to four that follow it."""

    standing: Standing
    title: Line
    lines: tuple[Line, ...]


def headline(seen: View, words: Words) -> Headline:
    """The first lines of a report."""
    if not seen.groups and seen.worst is None:
        return _nothing(seen, words)
    group = _subject(seen)
    lines = [
        *([_changes(seen, group, words), _do(group, words)] if group and seen.standing != "pass" else []),
        _open_points(seen, words),
        _counts(seen, words),
    ]
    return Headline(seen.standing, _title(seen, group, words), tuple(line for line in lines if line))


def one_line(report: Report, language: Language) -> str:
    """The verdict line as plain text, for a check run's title or a log; the sink's encoder comes after."""
    return plain(headline(view(report), Words(language)).title)


# --- the verdict line -------------------------------------------------------------------------------------------------


def _subject(seen: View) -> Group | None:
    """The group of the worst finding; where all is well the first."""
    if seen.worst is not None:
        return seen.group_of(seen.worst)
    return seen.groups[0] if seen.groups else None


def _title(seen: View, group: Group | None, words: Words) -> Line:
    worst = seen.worst
    broken = seen.report.check.policy.override
    if broken is not None and broken.in_force:
        return _overridden(broken, group, words)
    if worst is None:
        text = _proven(seen, words)
    else:
        text = foreign(_lower(worst.title))
        if worst.verdict == "block" and is_debt(worst):
            text = words.line("headline.debt", title=text)
    filled: dict[str, Filling] = {"mark": words.line(f"mark.{seen.standing}"), "title": text}
    filled["verdict"] = words.line(f"verdict.{seen.standing}")
    if group is None or (worst is None and len(seen.groups) > 1):
        return words.line("headline.title_bare", **filled)
    return words.line("headline.title", **filled, subject=subject(group, words))


def _overridden(broken: Override, group: Group | None, words: Words) -> Line:
    """Who let it pass and why: the check is green by their word, not by ours."""
    by = join([foreign(f"@{login}") for login in broken.by], ", ")
    text = words.line("headline.overridden", by=by, reason=foreign(broken.reason))
    filled: dict[str, Filling] = {
        "mark": words.line("mark.override"),
        "verdict": words.line("verdict.override"),
        "title": text,
    }
    if group is None:
        return words.line("headline.title_bare", **filled)
    return words.line("headline.title", **filled, subject=subject(group, words))


def subject(group: Group, words: Words) -> Line:
    """glm-5.3 · prod (prefill+decode); the environment is left out where the repository has none."""
    name = foreign(group.name)
    if group.environment != "default":
        name = words.line("headline.subject", group=name, environment=group.environment)
    if not group.roles:
        return name
    return name + words.line("headline.roles", roles="+".join(group.roles))


def _lower(title: str) -> str:
    """A title after a colon: its first letter small, unless the word is a name (KV, SGLang)."""
    first = title.split(" ", 1)[0]
    return title[:1].lower() + title[1:] if first[1:].islower() or len(first) == 1 else title


# --- green -----------------------------------------------------------------------------------------------------------


def _proven(seen: View, words: Words) -> Line:
    """What a green report rests on, and from what source."""
    proofs = [proof for member in seen.deployments if (proof := _pool_proof(member, seen, words))]
    if 0 < len(seen.deployments) <= _MAX_PROVEN:
        named = [*proofs, *_version_proofs(seen, words)]
        return join(named, " · ") if named else words.line("headline.pass_only")
    if not seen.deployments:
        return words.line("headline.removed")
    return words.line("headline.pass_count", n=len(seen.deployments), proven=len(proofs))


def _pool_proof(member: Deployment, seen: View, words: Words) -> Line:
    pool, context = member.kv_pool_tokens.number(), member.context_length.number()
    if pool is None or context is None or pool < context or not member.kv_pool_tokens.proven:
        return ()
    filled: dict[str, Filling] = {"pool": pool, "context": context}
    seen_under = member.kv_pool_tokens.observation
    filled["how"] = describe.how(
        member.kv_pool_tokens, words, with_settings=bool(seen_under and seen_under.not_compared)
    )
    who = describe.who(member, seen)
    return (
        words.line("headline.pass_pool", who=who, **filled) if who else words.line("headline.pass_pool_bare", **filled)
    )


def _version_proofs(seen: View, words: Words) -> Iterator[Line]:
    """Fixed versions that were compared and reached, one line each."""
    passed = [f for f in seen.report.check.counted if f.verdict == "pass" and "fixed" in f.parameters]
    for finding in passed[:1]:
        source = next((b.source for b in finding.because if b.fact == "engine_version" and b.source), None)
        version = finding.parameters.get("version")
        if source is not None and version is not None:
            place = (
                words.line(f"how.{source.kind}", place=source) if source.path else words.line(f"how.{source.kind}_bare")
            )
            yield words.line("headline.pass_version", engine=_engine(finding), version=str(version),
                             fixed=str(finding.parameters["fixed"]), how=place)  # fmt: skip


def _nothing(seen: View, words: Words) -> Headline:
    """No deployment at all: said with how many files were looked at, and never green where some could not be read."""
    report = seen.report
    unread = bool(report.check.skipped)
    files = report.head_facts.files_read
    text = words.line("headline.nothing", n=files) if files else words.line("headline.nothing_plain")
    if unread:
        text = words.line("headline.nothing_unread")
    standing: Standing = "unknown" if unread else "pass"
    filled: dict[str, Filling] = {"mark": words.line(f"mark.{standing}"), "verdict": words.line(f"verdict.{standing}")}
    title = words.line("headline.title_bare", **filled, title=text)
    rest = (_open_points(seen, words), _counts(seen, words))
    return Headline(standing, title, tuple(line for line in rest if line))


# --- what this pull request changes ----------------------------------------------------------------------------------


def _changes(seen: View, group: Group, words: Words) -> Line:
    now = join([_this_pr(seen, group, words), *_pools(group, words)], "; ")
    return join([_version(group, words), now + own(".") if now else (), _window(group, words)], " ")


def _engine(finding: Finding) -> str:
    engine = str(finding.parameters.get("engine", ""))
    return ENGINE_NAMES.get(engine, engine)


def _version(group: Group, words: Words) -> Line:
    """SGLang 0.5.19 < 0.5.22, disaggregated."""
    for finding in group.grave:
        parameters = finding.parameters
        if finding.verdict in ("block", "warn") and parameters.get("version") and parameters.get("fixed"):
            below = words.line("headline.version_below", engine=_engine(finding), version=str(parameters["version"]),
                               fixed=str(parameters["fixed"]))  # fmt: skip
            mode = [words.line("headline.disaggregated")] if any(m.disaggregated for m in group.members) else []
            return join([below, *mode], ", ") + own(".")
    return ()


def _this_pr(seen: View, group: Group, words: Words) -> Line:
    if seen.plain:
        return ()
    if seen.report.base_facts is None:
        return words.line("headline.base_missing")
    lines = list(describe.changed(group.changes, words))
    if not lines:
        return words.line("headline.unchanged")
    shown = lines[:_MAX_CHANGES]
    if len(lines) > _MAX_CHANGES:
        shown.append(words.line("headline.and_more", n=len(lines) - _MAX_CHANGES))
    return words.line("headline.this_pr", changes=join(shown, ", "))


def _pools(group: Group, words: Words) -> Iterator[Line]:
    """The pools that fall short of the context; where none does, the smallest one."""
    known = [member for member in group.members if member.kv_pool_tokens.number() is not None]
    short = [member for member in known if _short(member)]
    smallest = sorted(known, key=lambda member: member.kv_pool_tokens.number() or 0)[:1]
    for member in (short or smallest)[:2]:
        fact = member.kv_pool_tokens
        filled: dict[str, Filling] = {"pool": fact.number() or 0, "how": describe.how(fact, words, with_settings=True)}
        if group.roles:
            yield words.line("headline.pool", who=str(member.role.value), **filled)
        else:
            yield words.line("headline.pool_bare", **filled)


def _short(member: Deployment) -> bool:
    pool, context = member.kv_pool_tokens.number(), member.context_length.number()
    return pool is not None and context is not None and pool < context


def _number(finding: Finding, name: str) -> int | None:
    found = finding.parameters.get(name)
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def _window(group: Group, words: Words) -> Line:
    """The lengths that one role refuses and the other takes; else the length from which prompts are refused.

    Said only where the pools are proven: a prediction is no statement about what happens.
    """
    if not all(member.kv_pool_tokens.proven for member in group.members):
        return ()
    for finding in group.grave:
        low, high = _number(finding, "window_low"), _number(finding, "window_high")
        if low is not None and high is not None:
            leaks = finding.verdict == "block"
            return words.line("headline.window_open" if leaks else "headline.window_pair", low=low, high=high)
    for finding in group.grave:
        first = _number(finding, "first_rejected")
        if finding.rule == "kv-pool-below-context" and first is not None:
            return words.line("headline.rejected_from", n=first)
    return ()


# --- what to do ------------------------------------------------------------------------------------------------------


def _do(group: Group, words: Words) -> Line:
    """The mends of the gravest findings, each once, with the lines they touch; and what to do if it runs already."""
    grave = [finding for finding in group.grave if weight(finding) == group.standing]
    files = [member.file for member in group.members]
    mends = list(_mends([finding for finding in grave if finding.fix], files, words))
    if group.standing == "unknown" and not mends:
        mends = list(_supplies(group, words))
    leak = next((f for f in grave if f.verdict == "block" and _number(f, "window_low") is not None), None)
    if leak is not None:
        mends.append(words.line("headline.running_now", n=_number(leak, "window_low") or 0))
    return words.line("headline.do", what=join(mends, " ")) if mends else ()


def _mends(findings: list[Finding], files: list[str | None], words: Words) -> Iterator[Line]:
    """A mend whose edits stand in another one is not said twice; the newest version first, then the numbers."""
    done: set[tuple[str, int]] = set()
    ordered = sorted(findings, key=lambda f: f.rule != "engine-below-fixed-version")
    for finding in ordered[:_MAX_MENDS]:
        fix = finding.fix
        touched = {(edit.path, edit.line) for edit in fix.edits} if fix else set()
        if fix is None or (touched and touched <= done):
            continue
        done |= touched
        by_member = sorted(fix.edits, key=lambda e: files.index(e.path) if e.path in files else len(files))
        yield _mend(fix.text, by_member)
        left = _number(finding, "leaves_open")
        if left:
            yield words.line("headline.leaves_open", n=left)


def _mend(text: str, edits: list[Edit]) -> Line:
    places = [describe.place_of(edit) for edit in edits]
    if not places:
        return foreign(text)
    stop = text[-1:] if text[-1:] in ".。" else ""
    return foreign(text.removesuffix(stop)) + own(" (") + join(places, ", ") + own(")" + stop)


def _supplies(group: Group, words: Words) -> Iterator[Line]:
    """How to learn the deciding facts that are missing."""
    gaps = [gap for member in group.members for name in describe.DECIDING if (gap := member.fact(name).unknown)]
    ways = {way for gap in gaps for way in gap.supply}
    named = [words.line(f"supply.{way}") for way in ("log", "endpoint", "config", "pin") if way in ways]
    if named:
        yield words.line("headline.supply", ways=join(named, ", "))


# --- what is not proven, what was there, what was counted ------------------------------------------------------------


def _open_points(seen: View, words: Words) -> Line:
    parts = []
    gaps = list(dict.fromkeys(describe.gaps(seen, words)))
    if gaps:
        shown = gaps[:_MAX_GAPS]
        if len(gaps) > _MAX_GAPS:
            shown.append(words.line("headline.and_more", n=len(gaps) - _MAX_GAPS))
        parts.append(words.line("headline.not_proven", what=join(shown, " · ")))
    debt = _debt(seen, words)
    if debt:
        parts.append(words.line("headline.already", what=debt))
    return join(parts, " ")


def _debt(seen: View, words: Words) -> Line:
    """How much was there before; what blocks is named, because it is never folded away."""
    old = seen.debt()
    entries = []
    for verdict in _COUNTED:
        found = [finding for finding in old if finding.verdict == verdict]
        if found:
            count = words.line(f"count.{verdict}", n=len(found))
            named = dict.fromkeys(_lower(finding.title) for finding in found) if verdict == "block" else ()
            titles = join([foreign(title) for title in list(named)[:_MAX_TITLES]], "; ")
            entries.append(count + (own(" (") + titles + own(")") if titles else ()))
    return join(entries, ", ")


def _counts(seen: View, words: Words) -> Line:
    check = seen.report.check
    waived = sum(finding.waived is not None for finding in check.findings)
    parts = [
        _new(seen, words),
        words.line("count.waived", n=waived) if waived else (),
        _extent(seen, words),
        () if seen.plain else describe.compared(seen.report, words),
        words.line("headline.advisories", date=check.knowledge_date) if check.knowledge_date else (),
        *_policy(seen, words),
    ]
    return join(parts, " · ")


def _policy(seen: View, words: Words) -> Iterator[Line]:
    """What the policy makes of it: observe mode, an override that holds no longer, how to override."""
    state = seen.report.check.policy
    pending = [f for f in seen.findings if f.rule == "waiver-not-in-force" and f.parameters.get("kind") == "pending"]
    if pending:
        yield words.line("headline.silences", n=sum(_number(finding, "count") or 0 for finding in pending))
    if state.observe_until is not None:
        key = "headline.observing_block" if seen.standing == "block" else "headline.observing"
        yield words.line(key, date=state.observe_until)
    if not state.baseline:
        yield words.line("headline.no_baseline")
    broken = state.override
    if broken is not None and not broken.in_force:
        by = join([foreign(f"@{login}") for login in broken.by], ", ")
        yield words.line("headline.override_void", by=by, why=words.line(f"override.{broken.missing}"))
    elif broken is not None:
        yield words.line("headline.override_until", time=broken.until)
    if seen.standing == "block" and (broken is None or not broken.in_force):
        label = state.override_label
        if label:
            yield words.line("headline.override_label", label=code(label))
        else:
            yield _waiver(seen, words)


def _waiver(seen: View, words: Words) -> Line:
    """How to override where no label is listened to, and which rules cannot be waived."""
    from checklistbot import rules

    known = rules.registry()
    blocking = dict.fromkeys(finding.rule for finding in seen.findings if weight(finding) == "block")
    firm = [rule for rule in blocking if rule in known and not known[rule].waivable]
    if not firm:
        return words.line("headline.override")
    if len(firm) == len(blocking):
        return words.line("headline.override_none")
    return words.line("headline.override_but", rules=join([code(rule) for rule in firm], ", "))


def _new(seen: View, words: Words) -> Line:
    counted = seen.new()
    found = [verdict for verdict in _COUNTED if counted[verdict]]
    if seen.plain:
        return join([words.line(f"count.{verdict}", n=counted[verdict]) for verdict in found], ", ")
    parts = [
        words.line(
            "headline.new_count", n=counted[verdict], what=words.line(f"count.what_{verdict}", n=counted[verdict])
        )
        for verdict in found
    ]
    return join(parts, ", ") if parts else words.line("headline.nothing_new")


def _extent(seen: View, words: Words) -> Line:
    """2 deployments in 2 environments."""
    deployments = words.line("count.deployments", n=len(seen.deployments))
    if seen.environments > 1:
        return words.line("count.environments", n=seen.environments, where=deployments)
    return deployments if seen.deployments else ()
