"""The words of the product as frozen dataclasses: Fact, Source, Deployment, Finding, Checklist, Report.

Nothing here reads a file or decides anything. ``to_json`` of each class gives the form that ``schemas/*.json`` describes;
``from_json`` takes it back (for ``--observed``, ``script``, ``probe --facts``). Token counts are tokens of one engine replica
(one DP rank); memory fractions are shares of one GPU's memory.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any, Final, Literal, get_args

from checklistbot import json_types
from checklistbot.record import record

Scalar = str | int | float | bool
SourceKind = Literal["declared", "observed", "predicted", "default"]
Role = Literal["unified", "prefill", "decode"]
Verdict = Literal["pass", "note", "warn", "unknown", "block"]
Status = Literal["new", "worse", "same", "better", "fixed"]

#: Worst first; a ``note`` never counts towards the whole (CONTRACTS, "Finding, check, checklist, report").
VERDICT_ORDER: Final[tuple[Verdict, ...]] = ("block", "unknown", "warn", "note", "pass")

WhyUnknown = Literal["not-said", "no-default", "not-static", "ambiguous", "not-readable", "not-rendered"]


#: Whoever pipes nothing in has a command in front that failed: that must not look like a state that deploys nothing.
NOTHING_ON_STDIN: Final = "nothing on standard input; did the renderer fail? (set -o pipefail)"


class ChecklistbotError(Exception):
    """An error that reaches the user as one line: what is wrong, where, how to mend it."""

    exit_code: int = 2


class UsageError(ChecklistbotError):
    """The call, the configuration or an input is wrong (exit 2)."""


class InputError(ChecklistbotError):
    """Something that should have been readable was not: a named log, the network, GitHub (exit 3)."""

    exit_code = 3


@record
class Source:
    """Where a value comes from. ``line`` counts from 1; ``path`` is relative to PATH."""

    kind: SourceKind
    path: str | None = None
    line: int | None = None

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.kind, "path": self.path, "line": self.line}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Source:
        kind = json_types.one_of(data, "kind", get_args(SourceKind))
        return cls(kind, json_types.text_or_none(data, "path"), json_types.whole(data, "line"))

    def __str__(self) -> str:
        place = self.path or self.kind
        return f"{place}:{self.line}" if self.line else place


@record
class Unknown:
    """Why a value is not known, and what would supply it."""

    why: WhyUnknown
    name: str | None = None
    supply: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        data: dict[str, Any] = {"why": self.why}
        if self.name is not None:
            data["name"] = self.name
        if self.supply:
            data["supply"] = list(self.supply)
        return data

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Unknown:
        why = json_types.one_of(data, "why", get_args(WhyUnknown))
        return cls(why, json_types.text_or_none(data, "name"), json_types.texts(data, "supply"))


@record
class Observation:
    """The inputs an observed value was taken under (fact name → value), and how they compare with the deployment's.

    ``unchanged_in_git``: none of the deployment's inputs differs from what the repository said when the log was committed.
    """

    taken_under: Mapping[str, Scalar] = field(default_factory=dict)
    not_compared: tuple[str, ...] = ()
    stale: tuple[str, ...] = ()
    unchanged_in_git: bool = False

    def to_json(self) -> dict[str, Any]:
        data: dict[str, Any] = {
            "taken_under": dict(self.taken_under),
            "not_compared": list(self.not_compared),
            "stale": list(self.stale),
        }
        if self.unchanged_in_git:
            data["unchanged_in_git"] = True
        return data

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Observation:
        return cls(
            json_types.scalars(data, "taken_under"),
            json_types.texts(data, "not_compared"),
            json_types.texts(data, "stale"),
            json_types.switch(data, "unchanged_in_git", False) is True,
        )


@record
class Candidate:
    """A value that lost against another source."""

    value: Scalar
    source: Source

    def to_json(self) -> dict[str, Any]:
        return {"value": self.value, "source": self.source.to_json()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Candidate:
        value = json_types.scalar(data["value"])
        if value is None:
            raise ValueError("value: missing")
        return cls(value, Source.from_json(data["source"]))


@record
class Fact:
    """A value with its source; without a value it says why (``unknown``).

    ``low``/``high`` only where predicted; ``bound`` "upper" for SGLang's declared cap; ``per_rank`` where ranks differ
    (``value`` is then the smallest).
    """

    value: Scalar | None = None
    source: Source | None = None
    low: int | float | None = None
    high: int | float | None = None
    bound: Literal["upper"] | None = None
    per_rank: tuple[int | float, ...] = ()
    others: tuple[Candidate, ...] = ()
    unknown: Unknown | None = None
    observation: Observation | None = None

    @property
    def known(self) -> bool:
        return self.value is not None

    @property
    def kind(self) -> SourceKind | None:
        return self.source.kind if self.source else None

    @property
    def stale(self) -> bool:
        """True if the observation was taken under inputs that the deployment no longer has."""
        return bool(self.observation and self.observation.stale)

    @property
    def proven(self) -> bool:
        """Declared, or observed and not stale, and no mere upper bound: what may block or pass."""
        return self.known and self.kind in ("declared", "observed") and not self.stale and self.bound is None

    def number(self) -> int | None:
        """The value as a whole number, None where it is unknown or no number."""
        if isinstance(self.value, bool) or not isinstance(self.value, (int, float)):
            return None
        return int(self.value)

    def text(self) -> str | None:
        return None if self.value is None else str(self.value)

    def replace(self, **changes: Any) -> Fact:
        return dataclasses.replace(self, **changes)

    def to_json(self) -> dict[str, Any]:
        data: dict[str, Any] = {"value": self.value, "source": self.source.to_json() if self.source else None}
        for key in ("low", "high", "bound"):
            if getattr(self, key) is not None:
                data[key] = getattr(self, key)
        if self.per_rank:
            data["per_rank"] = list(self.per_rank)
        if self.others:
            data["others"] = [other.to_json() for other in self.others]
        if self.unknown is not None:
            data["unknown"] = self.unknown.to_json()
        if self.observation is not None:
            data["observation"] = self.observation.to_json()
        return data

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Fact:
        unknown, observation, source = data.get("unknown"), data.get("observation"), data.get("source")
        bound: Literal["upper"] | None = "upper" if data.get("bound") == "upper" else None
        return cls(
            value=json_types.scalar(data.get("value")),
            source=Source.from_json(source) if source else None,
            low=json_types.number(data.get("low")),
            high=json_types.number(data.get("high")),
            bound=bound,
            per_rank=tuple(filter(None, map(_whole, data.get("per_rank", ())))),
            others=tuple(map(Candidate.from_json, data.get("others", ()))),
            unknown=Unknown.from_json(unknown) if unknown else None,
            observation=Observation.from_json(observation) if observation else None,
        )


def _whole(value: object) -> int | None:
    return json_types.whole({"rank": value}, "rank")


def not_said(*supply: str) -> Fact:
    """A fact that nothing states; ``supply`` names what would tell it (log, endpoint, config, pin)."""
    return Fact(unknown=Unknown("not-said", supply=supply))


def declared(value: Scalar, path: str | None, line: int | None) -> Fact:
    return Fact(value, Source("declared", path, line))


def observed(value: Scalar, path: str | None, line: int | None) -> Fact:
    return Fact(value, Source("observed", path, line))


@record
class Flag:
    """One flag of the server's command: canonical long name without dashes, ``***`` where it is a secret.

    ``value`` is None for a bare switch; ``raw`` is what the file spells.
    """

    name: str
    value: Scalar | None
    raw: str
    path: str
    line: int
    reaches_server: bool = True

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Flag:
        return cls(
            json_types.text(data, "name"),
            json_types.scalar(data.get("value")),
            json_types.text_or_none(data, "raw") or "",
            json_types.text_or_none(data, "path") or "",
            json_types.whole(data, "line") or 0,
            json_types.switch(data, "reaches_server", True) is not False,
        )


#: The facts of a deployment, in the order in which they are printed.
FACT_NAMES: Final[tuple[str, ...]] = (
    "role",
    "engine",
    "engine_version",
    "model",
    "served_model_name",
    "context_length",
    "served_context",
    "kv_pool_tokens",
    "page_size",
    "kv_cache_dtype",
    "memory_fraction",
    "tensor_parallel",
    "pipeline_parallel",
    "data_parallel",
    "replicas",
    "gpu",
    "gpu_count",
    "world_size",
    "image",
)
_POOL_SUPPLY: Final = ("log", "endpoint", "config", "pin")


@record
class Deployment:
    """One served model in one role as one environment renders it (DESIGN, "The words").

    ``file``/``line`` is the launch token. ``fits_full_context`` is None where it cannot be told.
    ``first_rejected_length`` is the shortest prompt in tokens that a worker refuses.
    """

    id: str
    name: str
    environment: str
    group: str
    file: str | None
    line: int | None
    role: Fact = field(default_factory=lambda: Fact("unified", Source("default")))
    engine: Fact = field(default_factory=not_said)
    engine_version: Fact = field(default_factory=lambda: not_said("config", "endpoint"))
    variant: str | None = None
    model: Fact = field(default_factory=not_said)
    served_model_name: Fact = field(default_factory=not_said)
    context_length: Fact = field(default_factory=lambda: not_said("log", "endpoint", "config", "pin"))
    served_context: Fact = field(default_factory=lambda: not_said("log", "endpoint"))
    kv_pool_tokens: Fact = field(default_factory=lambda: not_said(*_POOL_SUPPLY))
    page_size: Fact = field(default_factory=lambda: not_said("log", "endpoint", "pin"))
    kv_cache_dtype: Fact = field(default_factory=not_said)
    memory_fraction: Fact = field(default_factory=not_said)
    tensor_parallel: Fact = field(default_factory=not_said)
    pipeline_parallel: Fact = field(default_factory=not_said)
    data_parallel: Fact = field(default_factory=not_said)
    replicas: Fact = field(default_factory=not_said)
    gpu: Fact = field(default_factory=not_said)
    gpu_count: Fact = field(default_factory=not_said)
    world_size: Fact = field(default_factory=not_said)
    image: Fact = field(default_factory=not_said)
    fits_full_context: bool | None = None
    #: How many requests of full length fit at once, as vLLM printed it ("Maximum concurrency … 1.00x"); the smallest engine's.
    full_requests: float | None = None
    first_rejected_length: int | None = None
    flags: tuple[Flag, ...] = ()
    env: tuple[Flag, ...] = ()
    #: False where the GPU's name is in no file of knowledge/accelerators/.
    gpu_known: bool = True

    def fact(self, name: str) -> Fact:
        """The fact of that name; raises AttributeError for a name not in FACT_NAMES."""
        value = getattr(self, name)
        if not isinstance(value, Fact):
            raise AttributeError(name)
        return value

    def facts(self) -> Iterator[tuple[str, Fact]]:
        for name in FACT_NAMES:
            yield name, self.fact(name)

    def flag(self, name: str) -> Flag | None:
        """The last flag of that canonical name that reaches the server (the engine takes the last), None if none does."""
        # A loop, not a generator: every rule and advisory asks, tens of thousands of times in a large repository.
        for flag in reversed(self.flags):
            if flag.name == name and flag.reaches_server:
                return flag
        return None

    def env_var(self, name: str) -> Flag | None:
        return next((entry for entry in reversed(self.env) if entry.name == name), None)

    @property
    def disaggregated(self) -> bool:
        return self.role.value in ("prefill", "decode")

    def replace(self, **changes: Any) -> Deployment:
        return dataclasses.replace(self, **changes)

    def to_json(self) -> dict[str, Any]:
        data: dict[str, Any] = {
            "id": self.id,
            "name": self.name,
            "environment": self.environment,
            "group": self.group,
            "file": self.file,
            "line": self.line,
            "variant": self.variant,
        }
        data.update({name: fact.to_json() for name, fact in self.facts()})
        data["fits_full_context"] = self.fits_full_context
        data["first_rejected_length"] = self.first_rejected_length
        if self.full_requests is not None:
            data["full_requests"] = self.full_requests
        if not self.gpu_known:
            data["gpu_known"] = False
        data["flags"] = [flag.to_json() for flag in self.flags]
        data["env"] = [entry.to_json() for entry in self.env]
        return data

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Deployment:
        facts = {name: Fact.from_json(data[name]) for name in FACT_NAMES if name in data}
        return cls(
            id=json_types.text(data, "id"),
            name=json_types.text(data, "name"),
            environment=json_types.text(data, "environment"),
            group=json_types.text(data, "group"),
            file=json_types.text_or_none(data, "file"),
            line=json_types.whole(data, "line"),
            variant=json_types.text_or_none(data, "variant"),
            fits_full_context=json_types.switch(data, "fits_full_context", None),
            full_requests=json_types.number(data.get("full_requests")),
            first_rejected_length=json_types.whole(data, "first_rejected_length"),
            flags=tuple(Flag.from_json(flag) for flag in data.get("flags", ())),
            env=tuple(Flag.from_json(flag) for flag in data.get("env", ())),
            gpu_known=json_types.switch(data, "gpu_known", True) is not False,
            **facts,
        )


@record
class Skipped:
    """Something that was not read: a path, or an input's name, and why."""

    path: str
    reason: str

    def to_json(self) -> dict[str, str]:
        return {"path": self.path, "reason": self.reason}


@record
class Facts:
    """``facts/1``: everything learnt about one state of a repository. ``digests`` per "environment/group".

    ``unread`` are inputs that somebody named and that could not be read, one line each: the run ends with 3 (CONTRACTS).
    ``not_started``: logs of the command line whose last start was refused, and why (a code: "no-memory", "context-does-not-fit").
    """

    deployments: tuple[Deployment, ...] = ()
    digests: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    skipped: tuple[Skipped, ...] = ()
    files_read: int = 0
    taken: str | None = None
    unread: tuple[str, ...] = ()
    not_started: tuple[tuple[str, str], ...] = ()

    def groups(self) -> dict[tuple[str, str], tuple[Deployment, ...]]:
        """Deployments by (environment, group), in order of appearance."""
        found: dict[tuple[str, str], list[Deployment]] = {}
        for deployment in self.deployments:
            found.setdefault((deployment.environment, deployment.group), []).append(deployment)
        return {key: tuple(members) for key, members in found.items()}

    def to_json(self) -> dict[str, Any]:
        data: dict[str, Any] = {
            "schema": "facts/1",
            "deployments": [deployment.to_json() for deployment in self.deployments],
            "digests": {key: dict(value) for key, value in sorted(self.digests.items())},
            "skipped": [entry.to_json() for entry in self.skipped],
        }
        if self.taken is not None:
            data["taken"] = self.taken
        return data

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Facts:
        return cls(
            deployments=tuple(Deployment.from_json(entry) for entry in data.get("deployments", ())),
            digests={group: json_types.scalars(data["digests"], group) for group in data.get("digests", {})},
            skipped=tuple(
                Skipped(json_types.text(entry, "path"), json_types.text(entry, "reason"))
                for entry in data.get("skipped", ())
            ),
            taken=json_types.text_or_none(data, "taken"),
        )


@record
class Location:
    """A file, and a line of it where one is meant."""

    path: str
    line: int | None = None

    def to_json(self) -> dict[str, Any]:
        return {"path": self.path, "line": self.line}

    def __str__(self) -> str:
        return f"{self.path}:{self.line}" if self.line else self.path


@record
class Because:
    """One fact a finding rests on."""

    fact: str
    value: Scalar | None
    source: Source | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "fact": self.fact,
            "value": self.value,
            "source": self.source.to_json() if self.source else None,
        }


@record
class Edit:
    """A change of one value in one line that would mend a finding."""

    path: str
    line: int
    before: str
    after: str

    def to_json(self) -> dict[str, Any]:
        return {"path": self.path, "line": self.line, "from": self.before, "to": self.after}


@record
class Fix:
    """How to mend a finding: in words, and as edits where they are certain."""

    text: str
    edits: tuple[Edit, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {"text": self.text, "edits": [edit.to_json() for edit in self.edits]}


@record
class Waived:
    """Who accepts a finding and why; ``expires`` is a day (ISO) or None."""

    reason: str
    expires: str | None

    def to_json(self) -> dict[str, Any]:
        return {"reason": self.reason, "expires": self.expires}


@record
class Finding:
    """A rule's or advisory's verdict on a deployment. ``deployment`` is an id; ``parameters`` are the numbers behind the
    text, for output that words it itself."""

    rule: str
    verdict: Verdict
    deployment: str
    title: str
    message: str
    location: Location | None = None
    advisory: str | None = None
    status: Status = "new"
    because: tuple[Because, ...] = ()
    fix: Fix | None = None
    url: str | None = None
    waived: Waived | None = None
    parameters: Mapping[str, Scalar] = field(default_factory=dict)

    @property
    def key(self) -> tuple[str, str | None, str, str]:
        """What pairs a finding of the base with one of the head; "aspect" tells two findings of one rule apart."""
        return (self.rule, self.advisory, self.deployment, str(self.parameters.get("aspect", "")))

    def replace(self, **changes: Any) -> Finding:
        return dataclasses.replace(self, **changes)

    def to_json(self) -> dict[str, Any]:
        return {
            "rule": self.rule,
            "advisory": self.advisory,
            "verdict": self.verdict,
            "deployment": self.deployment,
            "location": self.location.to_json() if self.location else None,
            "status": self.status,
            "title": self.title,
            "message": self.message,
            "because": [entry.to_json() for entry in self.because],
            "fix": self.fix.to_json() if self.fix else None,
            "url": self.url,
            "waived": self.waived.to_json() if self.waived else None,
        }


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """The whole of several verdicts: block > unknown > warn > pass; a note never counts."""
    found = set(verdicts)
    return next((verdict for verdict in VERDICT_ORDER if verdict in found and verdict != "note"), "pass")


@record
class NotRun:
    """A rule that did not run, and why."""

    rule: str
    why: str

    def to_json(self) -> dict[str, str]:
        return {"rule": self.rule, "why": self.why}


@record
class Override:
    """A break-glass for one head commit: who called for it and why, until when (ISO, UTC), and what is missing for it to hold.

    ``missing`` is "" while it holds, else "permission", "reason", "head" (it was for another commit), "expired" or "second"
    (a finding needs two people). It is kept in every later report.
    """

    by: tuple[str, ...]
    reason: str
    head: str
    until: str
    missing: str = ""

    @property
    def in_force(self) -> bool:
        return not self.missing

    def to_json(self) -> dict[str, Any]:
        return {
            "by": list(self.by),
            "reason": self.reason,
            "head": self.head,
            "until": self.until,
            "missing": self.missing,
        }


@record
class PolicyState:
    """What the policy makes of the findings. ``observe_until``: the last day (ISO) on which nothing fails, None once it is over.
    ``override_label``: the label that breaks the glass, None where nobody listens to it."""

    observe_until: str | None = None
    baseline: bool = True
    override_label: str | None = None
    override: Override | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "observe_until": self.observe_until,
            "baseline": self.baseline,
            "override": self.override.to_json() if self.override else None,
        }


@record
class Check:
    """``check/1``: the findings, worst first. Waived findings stay in the list and do not count."""

    findings: tuple[Finding, ...] = ()
    not_run: tuple[NotRun, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    knowledge_date: str = ""
    policy: PolicyState = PolicyState()

    @property
    def counted(self) -> tuple[Finding, ...]:
        return tuple(f for f in self.findings if f.waived is None and f.status != "fixed")

    @property
    def verdict(self) -> Verdict:
        return worst(f.verdict for f in self.counted)

    @property
    def counts(self) -> dict[str, int]:
        return {verdict: sum(f.verdict == verdict for f in self.counted) for verdict in VERDICT_ORDER}

    def to_json(self) -> dict[str, Any]:
        return {
            "schema": "check/1",
            "verdict": self.verdict,
            "counts": self.counts,
            "findings": [finding.to_json() for finding in self.findings],
            "not_run": [entry.to_json() for entry in self.not_run],
            "skipped": [entry.to_json() for entry in self.skipped],
            "knowledge_date": self.knowledge_date,
            "policy": self.policy.to_json(),
        }


Topic = Literal["pool-against-context", "limit-length-content", "canary-leak", "engine-version", "isolation", "other"]
Severity = Literal["required", "recommended"]
When = Literal["before-merge", "before-deploy", "after-deploy"]
Origin = Literal["builtin", "openai", "anthropic", "response"]
TOPICS: Final[tuple[Topic, ...]] = (
    "pool-against-context",
    "limit-length-content",
    "canary-leak",
    "engine-version",
    "isolation",
    "other",
)


@record
class Item:
    """One checklist item. ``id`` is "topic/deployment id"; ``automation`` is one of CONTRACTS "Automation, plan"."""

    id: str
    topic: Topic
    severity: Severity
    title: str
    why: str
    steps: tuple[str, ...]
    commands: tuple[str, ...]
    pass_when: str
    owner: str
    when: When
    automation: Mapping[str, Any] | None
    facts_used: Mapping[str, Scalar] = field(default_factory=dict)
    added: bool = False
    not_verified: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "topic": self.topic,
            "severity": self.severity,
            "title": self.title,
            "why": self.why,
            "steps": list(self.steps),
            "commands": list(self.commands),
            "pass_when": self.pass_when,
            "owner": self.owner,
            "when": self.when,
            "automation": dict(self.automation) if self.automation is not None else None,
            "facts_used": dict(self.facts_used),
            "added": self.added,
            "not_verified": list(self.not_verified),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Item:
        return cls(
            **{
                **data,
                "steps": tuple(data["steps"]),
                "commands": tuple(data["commands"]),
                "not_verified": tuple(data.get("not_verified", ())),
            }
        )


@record
class Checklist:
    """``checklist/1``."""

    language: Literal["en", "ko"]
    origin: Origin
    model: str | None
    items: tuple[Item, ...]

    def to_json(self) -> dict[str, Any]:
        return {
            "schema": "checklist/1",
            "language": self.language,
            "origin": self.origin,
            "model": self.model,
            "items": [item.to_json() for item in self.items],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Checklist:
        """Takes data that was validated against ``schemas/checklist.json``."""
        return cls(data["language"], data["origin"], data["model"], tuple(map(Item.from_json, data["items"])))


@record
class Script:
    """A rendered CI script: ``path`` relative to the output folder."""

    target: str
    path: str
    text: str

    def to_json(self) -> dict[str, str]:
        return {"target": self.target, "path": self.path, "text": self.text}


LlmStatus = Literal["not-asked", "ok", "repaired", "failed"]


@record
class LlmUse:
    """What the LLM cost and how it ended. ``reason`` is one of our own sentences, never the provider's text."""

    status: LlmStatus = "not-asked"
    provider: str = "builtin"
    model: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    reason: str | None = None
    #: "0.0123 USD", only where the config says what tokens cost.
    cost: str | None = None

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


@record
class Change:
    """One fact of one deployment that differs between base and head; ``deployment`` is the head's id (the base's if removed).

    ``what`` is "changed", "added" or "removed"; for the last two ``fact`` is None.
    """

    what: Literal["changed", "added", "removed"]
    deployment: str
    fact: str | None = None
    before: Scalar | None = None
    after: Scalar | None = None
    source: Source | None = None

    def to_json(self) -> dict[str, Any]:
        return {**dataclasses.asdict(self), "source": self.source.to_json() if self.source else None}


@record
class Revision:
    """What was compared: a commit id, or a folder's name where there is no Git."""

    ref: str | None
    commit: str | None

    def to_json(self) -> dict[str, Any]:
        return {"ref": self.ref, "commit": self.commit}


@record
class Report:
    """``report/1``: the whole review. ``base_facts`` is None where the base is not available (it is then said)."""

    base: Revision | None
    head: Revision
    base_facts: Facts | None
    head_facts: Facts
    changes: tuple[Change, ...]
    check: Check
    checklist: Checklist
    scripts: tuple[Script, ...]
    llm: LlmUse
    tool: str
    notices: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "schema": "report/1",
            "base": self.base.to_json() if self.base else None,
            "head": self.head.to_json(),
            "facts": {
                "base": self.base_facts.to_json() if self.base_facts else None,
                "head": self.head_facts.to_json(),
            },
            "changes": [change.to_json() for change in self.changes],
            "check": self.check.to_json(),
            "checklist": self.checklist.to_json(),
            "scripts": [script.to_json() for script in self.scripts],
            "llm": self.llm.to_json(),
            "notices": list(self.notices),
            "knowledge_date": self.check.knowledge_date,
            "tool": self.tool,
        }


def merge(candidates: Sequence[Fact], fallback: Fact) -> Fact:
    """The first known fact wins and keeps the others it beat; ``fallback`` where none is known."""
    known = [fact for fact in candidates if fact.known]
    if not known:
        return next((fact for fact in candidates if fact.unknown), fallback)
    winner, losers = known[0], known[1:]
    others = tuple(Candidate(fact.value, fact.source) for fact in losers if fact.value is not None and fact.source)
    return winner.replace(others=winner.others + others)
