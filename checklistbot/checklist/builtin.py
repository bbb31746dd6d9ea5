"""The checklist without an LLM: made from facts and findings for exactly these deployments, no key, no network.

Pool and version are asked of every role; limit, canary, isolation and alarms of the group, whose items hang on its first role to
refuse a prompt. Nothing in the text is a file's: names of groups apart, only numbers, versions and our own words.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from checklistbot import encode, engines
from checklistbot.checklist import commands, incidents
from checklistbot.checklist.words import Language, Words, words
from checklistbot.engines.base import below, version_of
from checklistbot.model import Check, Checklist, Deployment, Facts, Finding, Item, Scalar, Severity, Topic, When
from checklistbot.record import record

#: The widest label that a title takes from a repository.
_MAX_LABEL = 60
_FILLERS, _PROBES = 8, 3


@record
class _Group:
    """The roles that serve one model together, and what is said about them."""

    members: tuple[Deployment, ...]
    check: Check
    say: Words

    @property
    def anchor(self) -> Deployment:
        """The role that refuses first: it stands for the group (prefill where nothing tells them apart)."""
        known = [d for d in self.members if d.first_rejected_length is not None]
        if known:
            return min(known, key=lambda d: (d.first_rejected_length or 0, d.role.value != "prefill"))
        return next((d for d in self.members if d.role.value == "prefill"), self.members[0])

    @property
    def name(self) -> str:
        return encode.clean(self.members[0].group, limit=_MAX_LABEL)

    def who(self, deployment: Deployment) -> str:
        role = self.say.entry("roles").get(str(deployment.role.value), "")
        return self.say("who", group=self.name, role=role).strip()

    def findings(self, rule: str) -> Iterator[Finding]:
        ids = {d.id for d in self.members} | {f"{d.environment}/{d.group}" for d in self.members}
        return (f for f in self.check.findings if f.rule == rule and f.deployment in ids and f.status != "fixed")


def draft(facts: Facts, check: Check, language: Language = "en") -> Checklist:
    """The built-in checklist: five topics at least for every group of deployments, in the order of the facts."""
    items: list[Item] = []
    for members in facts.groups().values():
        group = _Group(members, check, words(language))
        for deployment in members:
            items += [_pool(group, deployment), _version(group, deployment)]
        items += [_limit(group), _canary(group), *_isolation(group), _alarms(group)]
    return Checklist(language, "builtin", None, tuple(items))


def _item(
    group: _Group,
    deployment: Deployment,
    topic: Topic,
    title: str,
    steps: list[str],
    pass_when: str,
    *,
    facts_used: Mapping[str, Scalar | None],
    automation: Mapping[str, Any],
    run: tuple[str, ...] = (),
    severity: Severity = "required",
    owner: str = "release",
    when: When = "before-deploy",
) -> Item:
    incident = incidents.teaching(topic)
    lesson = incident.lesson(topic, group.say.language) if incident else None
    why = group.say("because", incident=incident.id, lesson=lesson) if incident and lesson else ""
    return Item(
        id=f"{topic}/{deployment.id}",
        topic=topic,
        severity=severity,
        title=title,
        why=why,
        steps=tuple(steps),
        commands=run,
        pass_when=pass_when,
        owner=group.say.entry("owner")[owner],
        when=when,
        automation=automation,
        facts_used={name: value for name, value in facts_used.items() if value is not None},
    )


def _used(*pairs: tuple[Deployment, str], prefix: bool = False) -> dict[str, Scalar | None]:
    """Facts by name; with ``prefix`` by "role.name", for items about several roles."""
    return {f"{d.role.value}.{name}" if prefix else name: d.fact(name).value for d, name in pairs}


# --- pool against context ----------------------------------------------------------------------------------------------


def needs(deployment: Deployment) -> int | None:
    """Tokens of pool that one full-length request needs, None where the context is unknown."""
    engine = engines.get(deployment.engine.text())
    found = engine.full_request_needs(deployment) if engine else None
    return found if found is not None else deployment.context_length.number()


def _how(deployment: Deployment, say: Words) -> str:
    fact = deployment.kv_pool_tokens
    kind = "cap" if fact.bound else "stale" if fact.stale else fact.kind or "predicted"
    return str(say.entry("how")[kind])


def _pool(group: _Group, deployment: Deployment) -> Item:
    say, topic = group.say, "pool-against-context"
    who, required = group.who(deployment), needs(deployment)
    steps = [_pool_now(deployment, required, say)]
    if deployment.kv_pool_tokens.bound:
        steps.append(say(f"{topic}.read-cap"))
    if _pool_missing(deployment, required):
        steps.append(_mend(group, required))
    steps += [say(f"{topic}.{name}") for name in ("read", "compare", "repeat")]
    passes = say(f"{topic}.pass", who=who, needs=required) if required else say(f"{topic}.pass-open", who=who)
    automation: dict[str, Any] = {
        "kind": "assert-fact",
        "fact": "kv_pool_tokens",
        "op": ">=",
        "to": required if required else "context_length",
        "from": commands.reads(deployment),
        "role": str(deployment.role.value),
    }
    return _item(
        group,
        deployment,
        "pool-against-context",
        say(f"{topic}.title", who=who),
        steps,
        passes,
        facts_used=_used(
            *((deployment, name) for name in ("context_length", "kv_pool_tokens", "page_size", "engine_version"))
        ),
        automation=automation,
        run=commands.for_purpose(deployment, "pool"),
    )


def _pool_missing(deployment: Deployment, required: int | None) -> int:
    pool = deployment.kv_pool_tokens.number()
    return max(0, required - pool) if required is not None and pool is not None else 0


def _pool_now(deployment: Deployment, required: int | None, say: Words) -> str:
    topic = "pool-against-context"
    pool, context = deployment.kv_pool_tokens.number(), deployment.context_length.number()
    if context is None:
        missing = ["context_length"] + (["kv_pool_tokens"] if pool is None else [])
        return say(f"{topic}.now-nothing", what=", ".join(missing))
    if pool is None:
        return say(f"{topic}.now-open", context=context, needs=required)
    missing_tokens = _pool_missing(deployment, required)
    kind = "now-below" if missing_tokens else "now-fits"
    return say(
        f"{topic}.{kind}", pool=pool, how=_how(deployment, say), context=context, needs=required, missing=missing_tokens
    )


def _mend(group: _Group, required: int | None) -> str:
    from checklistbot.rules.base import safe_context

    safe = safe_context(group.members)
    if safe is None or required is None:
        return group.say("pool-against-context.mend-pool")
    return group.say("pool-against-context.mend", safe=safe, needs=required)


# --- limit, canary -----------------------------------------------------------------------------------------------------


def limit_lengths(deployment: Deployment) -> tuple[str, int] | None:
    """Where the limit is: "first-rejected", "context" or "pool", and its length in tokens; None if no number is known."""
    if deployment.first_rejected_length is not None:
        return "first-rejected", deployment.first_rejected_length
    if (context := deployment.context_length.number()) is not None:
        return "context", context
    if (pool := deployment.kv_pool_tokens.number()) is not None:
        return "pool", pool
    return None


def _limit(group: _Group) -> Item:
    say, topic, anchor = group.say, "limit-length-content", group.anchor
    limit = limit_lengths(anchor)
    lengths = [limit[1] + offset for offset in (-1, 0, 1)] if limit else []
    shown = " · ".join(f"{n:,}" for n in lengths)
    steps = [say(f"{topic}.where"), say(f"{topic}.lengths", lengths=shown) if lengths else say(f"{topic}.lengths-open")]
    steps += _window(group)
    steps += [say(f"{topic}.{name}") for name in ("needles", "accepted", "rejected", "hang")]
    rejected = anchor.first_rejected_length
    return _item(
        group,
        anchor,
        "limit-length-content",
        say(f"{topic}.title", group=group.name),
        steps,
        say(f"{topic}.pass", rejected=rejected) if rejected else say(f"{topic}.pass-open"),
        facts_used=_group_facts(group, "context_length", "kv_pool_tokens", "engine_version"),
        automation={"kind": "boundary-request", "at": limit[0] if limit else "first-rejected", "offsets": [-1, 0, 1]},
        run=(*commands.for_purpose(anchor, "limit"), _probe_command(anchor)),
    )


def _window(group: _Group) -> list[str]:
    """The lengths that prefill refuses and decode takes: where refused requests are answered with foreign text."""
    first = {d.role.value: d.first_rejected_length for d in group.members}
    prefill, decode = first.get("prefill"), first.get("decode")
    if prefill is None or decode is None or prefill >= decode:
        return []
    return [group.say("limit-length-content.window", prefill=prefill, decode=decode)]


def _probe_command(anchor: Deployment) -> str:
    """The probe that does these steps; the URL is the router's where roles are apart."""
    url = '"$ROUTER_URL"' if anchor.disaggregated else '"$SERVER_URL"'
    parts = ["checklistbot probe", url, "--i-own-this-endpoint"]
    for option, fact in (("--context", anchor.context_length), ("--kv-pool", anchor.kv_pool_tokens)):
        if fact.number() is not None:
            parts.append(f"{option} {fact.number()}")
    return " ".join(parts)


def _group_facts(group: _Group, *names: str) -> dict[str, Scalar | None]:
    several = len(group.members) > 1
    return _used(*((d, name) for d in group.members for name in names), prefix=several)


def _canary(group: _Group) -> Item:
    say, topic, anchor = group.say, "canary-leak", group.anchor
    page = max((d.page_size.number() or 1 for d in group.members), default=1)
    known = all(d.page_size.known for d in group.members)
    pools = [pool for d in group.members if (pool := d.kv_pool_tokens.number()) is not None]
    steps = [say(f"{topic}.fill", page=page) if known and page > 1 else say(f"{topic}.fill-open")]
    if pools:
        steps.append(say(f"{topic}.fill-size", fill=2 * max(pools)))
    steps += [say(f"{topic}.{name}") for name in ("free", "probe", "search", "control")]
    return _item(
        group,
        anchor,
        "canary-leak",
        say(f"{topic}.title", group=group.name),
        steps,
        say(f"{topic}.pass"),
        facts_used=_group_facts(group, "context_length", "kv_pool_tokens", "page_size", "engine_version"),
        automation={"kind": "canary-leak", "fillers": _FILLERS, "probes": _PROBES},
        run=(_probe_command(anchor),),
    )


# --- version, isolation, alarms ----------------------------------------------------------------------------------------


def least_version(deployment: Deployment, findings: Iterable[Finding]) -> str | None:
    """The release to ask for: what a finding about the version names, else the one that mends the newest incident this deployment
    could repeat, else the version it declares; None if nothing tells."""
    engine = deployment.engine.text() or ""
    named = [
        f.parameters["fixed"]
        for f in findings
        if str(f.parameters.get("engine", "")).lower() == engine and "fixed" in f.parameters
    ]
    if named:
        from packaging.version import Version

        return str(max(map(str, named), key=Version))
    if deployment.disaggregated:
        for incident in incidents.registry().values():
            if engine in incident.fixed_in:
                return incident.fixed_in[engine]
    version = version_of(deployment)
    return version.public if version else None


def _version(group: _Group, deployment: Deployment) -> Item:
    say, topic, who = group.say, "engine-version", group.who(deployment)
    least = least_version(deployment, group.findings("engine-below-fixed-version"))
    version = version_of(deployment)
    engine = commands.engine_name(deployment)
    if version is None:
        steps = [say(f"{topic}.now-open", engine=engine)]
    elif least and below(version, least):
        steps = [
            say(f"{topic}.now-below", engine=engine, version=version, min=least),
            say(f"{topic}.raise", engine=engine, min=least),
        ]
    else:
        steps = [say(f"{topic}.now-fine", engine=engine, version=version)]
    steps += [say(f"{topic}.ask"), say(f"{topic}.pin")]
    known = deployment.engine.text() in engines.registry()
    return _item(
        group,
        deployment,
        "engine-version",
        say(f"{topic}.title", who=who, min=least) if least else say(f"{topic}.title-open", who=who),
        steps,
        say(f"{topic}.pass", who=who, engine=engine, min=least) if least else say(f"{topic}.pass-open", who=who),
        facts_used=_used(*((deployment, name) for name in ("engine", "engine_version", "role"))),
        automation={"kind": "assert-version", "engine": deployment.engine.value, "min": least}
        if least and known
        else {"kind": "manual"},
        run=commands.for_purpose(deployment, "version"),
        when="before-merge" if version and least and below(version, least) else "before-deploy",
    )


def said(group_findings: Iterator[Finding], name: str) -> str | None:
    """What the configuration says about tenancy or data, as a finding of the isolation rule cites it."""
    for finding in group_findings:
        value = finding.parameters.get(name) or next((b.value for b in finding.because if b.fact == name), None)
        if isinstance(value, str) and value in ("shared", "dedicated", "public", "internal", "sensitive"):
            return value
    return None


def _isolation(group: _Group) -> list[Item]:
    """An item unless the data is declared and not sensitive: unknown counts as sensitive."""
    data, tenancy = said(group.findings("isolation"), "data"), said(group.findings("isolation"), "tenancy")
    if data in ("public", "internal"):
        return []
    say, topic = group.say, "isolation"
    open_ = [name for name, value in (("data", data), ("tenancy", tenancy)) if value is None]
    now = (
        say(f"{topic}.now-open", what=", ".join(open_))
        if open_
        else say(f"{topic}.now-shared", data=data, tenancy=tenancy)
    )
    return [
        _item(
            group,
            group.anchor,
            "isolation",
            say(f"{topic}.title" if data else f"{topic}.title-open", group=group.name),
            [now, *(say(f"{topic}.{name}") for name in ("list", "separate", "not-enough"))],
            say(f"{topic}.pass"),
            facts_used={"data": data, "tenancy": tenancy},
            automation={"kind": "manual"},
            owner="security",
            when="before-merge",
        )
    ]


def _alarms(group: _Group) -> Item:
    say, anchor = group.say, group.anchor
    watched = commands.metrics(anchor)
    run = tuple(dict.fromkeys(c for d in group.members for c in commands.for_purpose(d, "watch")))
    return _item(
        group,
        anchor,
        "other",
        say("other.title", group=group.name),
        [
            say("other.watch"),
            *([say("other.metrics", names=", ".join(watched))] if watched else []),
            say("other.rollback"),
        ],
        say("other.pass"),
        facts_used=_group_facts(group, "engine_version"),
        automation={"kind": "health-and-metrics", "metrics": list(watched)} if watched else {"kind": "manual"},
        run=run,
        severity="recommended",
        owner="sre",
        when="after-deploy",
    )
