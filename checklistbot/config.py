"""``.checklistbot.yml``: its schema as dataclasses, loading with file:line errors, waivers (CONTRACTS, "Config")."""

from __future__ import annotations

import re
from dataclasses import field
from datetime import date
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final, Literal

from checklistbot.model import Deployment, Scalar, UsageError
from checklistbot.record import record

if TYPE_CHECKING:
    from checklistbot.strict_yaml import Table, Value

FILE_NAME: Final = ".checklistbot.yml"
FAIL_ON: Final = ("block", "unknown", "warn", "never")
OVERRIDE_LABEL: Final = "checklistbot-override"
#: Facts that a config may declare for a deployment, with the type each takes.
DECLARABLE: Final[dict[str, type]] = {
    "engine": str,
    "engine_version": str,
    "model": str,
    "served_model_name": str,
    "context_length": int,
    "kv_pool_tokens": int,
    "page_size": int,
    "kv_cache_dtype": str,
    "memory_fraction": float,
    "tensor_parallel": int,
    "pipeline_parallel": int,
    "data_parallel": int,
    "replicas": int,
    "gpu": str,
    "gpu_count": int,
}
#: Whose ticks count: a role in the repository and those above it, or the members of a team.
TICKS_BY: Final = r"write|maintain|admin|team:[A-Za-z0-9][A-Za-z0-9-]{0,99}/[a-z0-9][a-z0-9_-]{0,99}"
_MATCH_KEYS: Final = ("environment", "file", "group", "name", "role")
_RULE_ID: Final = r"[a-z][a-z0-9-]{1,60}"
_SEVERITIES: Final = ("block", "warn", "note", "off")


@record
class Located:
    """A config value with the line that states it."""

    value: Scalar
    line: int


@record
class DeploymentEntry:
    """One entry of ``deployments:``. ``match`` maps a key to a glob; all must hold."""

    match: dict[str, str]
    line: int
    logs: tuple[Located, ...] = ()
    endpoints: tuple[Located, ...] = ()
    tenancy: Located | None = None
    data: Located | None = None
    upstream_limit: Located | None = None
    #: "gateway": the gateway in front sets a cache_salt for each tenant and strips the clients' own. It is a field of the request,
    #: so no flag can tell (operations-and-attacks 9).
    cache_salt: Located | None = None
    facts: dict[str, Located] = field(default_factory=dict)

    def matches(self, deployment: Deployment) -> bool:
        values = {
            "environment": deployment.environment,
            "file": deployment.file or "",
            "group": deployment.group,
            "name": deployment.name,
            "role": str(deployment.role.value or ""),
        }
        return all(_glob(values[key], glob) for key, glob in self.match.items())


def _glob(text: str, pattern: str) -> bool:
    return fnmatchcase(text, pattern) or ("/**" in pattern and fnmatchcase(text, pattern.replace("/**", "/*")))


@record
class ImageEntry:
    """What an image is, where its tag does not say it. ``fixes`` names advisories that it carries back-ports for."""

    match: str
    engine: str | None
    version: str | None
    fixes: tuple[str, ...]
    line: int


@record
class RuleSetting:
    """One entry of ``rules:``."""

    severity: str
    line: int


@record
class Waiver:
    """One entry of ``waivers:``; in force up to and including ``expires``."""

    rule: str
    deployment: str
    reason: str
    expires: date | None
    line: int

    def covers(self, rule: str, deployment: str) -> bool:
        return self.rule == rule and fnmatchcase(deployment, self.deployment)

    def in_force(self, today: date) -> bool:
        return self.expires is None or today <= self.expires


@record
class Price:
    """What a million tokens cost, read and written; ``currency`` is three letters."""

    input: float
    output: float
    currency: str = "USD"

    def of(self, read: int, written: int) -> float:
        """The price of these tokens, in ``currency``."""
        return (self.input * read + self.output * written) / 1_000_000


@record
class LlmSettings:
    """``timeout_s`` in seconds for one call; ``prompt`` is a template's path in the repository; ``budget_tokens`` is for both questions of
    a run together, read and written."""

    provider: str = "auto"
    model: str | None = None
    base_url: str | None = None
    prompt: str | None = None
    max_output_tokens: int = 6000
    timeout_s: int = 120
    effort: str | None = None
    budget_tokens: int | None = None
    price: Price | None = None
    #: The line that names ``prompt``, for errors about that file.
    prompt_line: int = field(default=1, compare=False)


@record
class CommentSettings:
    """The ``comment:`` section."""

    id: str = "default"
    mode: Literal["update", "recreate", "hide-and-recreate", "off"] = "update"
    on: str = "changed"
    require_ticks: tuple[str, ...] = ()
    ticks_by: str = "write"


@record
class EvidencePolicy:
    """The ``require_evidence:`` section."""

    environment: str
    match: tuple[str, ...]
    max_age_days: int
    profile: str


@record
class Config:
    """The whole file; the defaults are those of a repository without one. ``path`` is None there."""

    path: str | None = None
    lang: Literal["en", "ko"] = "en"
    exclude: tuple[str, ...] = ()
    deployments: tuple[DeploymentEntry, ...] = ()
    images: tuple[ImageEntry, ...] = ()
    rules: dict[str, RuleSetting] = field(default_factory=dict)
    waivers: tuple[Waiver, ...] = ()
    fail_on: str = "block"
    baseline: bool = True
    observe_until: date | None = None
    require_evidence: EvidencePolicy | None = None
    llm: LlmSettings = LlmSettings()
    incidents: tuple[str, ...] = ()
    incident_lines: tuple[int, ...] = field(default=(), compare=False)
    comment: CommentSettings = CommentSettings()
    probe_allow_hosts: tuple[str, ...] = ()
    override_label: str = OVERRIDE_LABEL

    def entry_for(self, deployment: Deployment) -> DeploymentEntry | None:
        """The first entry of ``deployments:`` that matches."""
        return next((entry for entry in self.deployments if entry.matches(deployment)), None)


def only_worse(config: Config) -> Config:
    """What a pull request's own config may say where the base has none: enough to show more and to make a verdict worse, nothing that
    could make one better before it is merged (operations-and-attacks 5)."""
    entries = tuple(
        DeploymentEntry(
            match=entry.match,
            line=entry.line,
            logs=entry.logs,
            tenancy=entry.tenancy if entry.tenancy and entry.tenancy.value == "shared" else None,
            data=entry.data if entry.data and entry.data.value == "sensitive" else None,
        )
        for entry in config.deployments
    )
    return Config(path=config.path, lang=config.lang, deployments=entries)


def load(text: str, path: str) -> Config:
    """The config of that text. Raises UsageError with path:line for anything that is not as CONTRACTS has it."""
    from checklistbot.strict_yaml import Table, parse

    table = Table(parse(text, path))
    version = table.take("version")
    if version is None:
        raise UsageError(f"{path}:1: version is missing; write 'version: 1' in the first line")
    if version.data != 1 or isinstance(version.data, bool):
        raise version.wrong("1, the only version there is")
    incidents = tuple(table.entries("incidents", _is_text, "a list of texts"))
    config = Config(
        path=path,
        lang=table.choice("lang", "en", ("en", "ko")),  # type: ignore[arg-type]
        exclude=table.texts("exclude"),
        deployments=tuple(_deployment(entry) for entry in table.tables("deployments")),
        images=tuple(_image(entry) for entry in table.tables("images")),
        rules=_rules(table.table("rules")),
        waivers=tuple(_waiver(entry) for entry in table.tables("waivers")),
        fail_on=table.choice("fail_on", "block", FAIL_ON),
        baseline=table.switch("baseline", True),
        observe_until=table.day("observe_until"),
        require_evidence=_evidence(table.table("require_evidence")),
        llm=_llm(table.table("llm")),
        incidents=tuple(_repository_path(value) for value in incidents),
        incident_lines=tuple(value.line for value in incidents),
        comment=_comment(table.table("comment")),
        probe_allow_hosts=_allow_hosts(table.table("probe")),
        override_label=_override(table.table("override")),
    )
    table.finish()
    return config


def _is_text(value: Value) -> bool:
    return isinstance(value.data, str)


def _repository_path(value: Value) -> str:
    """A path that stays in the repository (operations-and-attacks 25); globs are allowed."""
    text = value.data
    if not isinstance(text, str) or not text or text.startswith(("/", "~")) or "\0" in text or "\\" in text:
        raise value.wrong("a path relative to the repository")
    if ".." in text.split("/") or re.match(r"[A-Za-z]:", text):
        raise value.wrong("a path that stays inside the repository")
    return text.removeprefix("./")


def _choice(table: Table, key: str, choices: tuple[str, ...]) -> Located | None:
    value = table.left.get(key)
    chosen = table.choice(key, None, choices)
    return None if chosen is None or value is None else Located(chosen, value.line)


def _deployment(table: Table) -> DeploymentEntry:
    match: dict[str, str] = {}
    matching = table.table("match")
    if matching is not None:
        for key in _MATCH_KEYS:
            glob = matching.text(key, None)
            if glob is not None:
                match[key] = glob
        matching.finish()
    limit = table.left.get("upstream_limit")
    limit_value = table.whole("upstream_limit", None, low=1)
    entry = DeploymentEntry(
        match=match,
        line=table.value.line,
        logs=tuple(Located(_repository_path(v), v.line) for v in table.entries("logs", _is_text, "a list of texts")),
        endpoints=tuple(Located(_url(v), v.line) for v in table.entries("endpoints", _is_text, "a list of texts")),
        tenancy=_choice(table, "tenancy", ("shared", "dedicated")),
        data=_choice(table, "data", ("public", "internal", "sensitive")),
        upstream_limit=Located(limit_value, limit.line) if limit_value is not None and limit else None,
        cache_salt=_choice(table, "cache_salt", ("gateway",)),
        facts=_facts(table.table("facts")),
    )
    table.finish()
    return entry


def _url(value: Value) -> str:
    if not isinstance(value.data, str) or not re.fullmatch(r"https?://[^\s@]{1,400}", value.data):
        raise value.wrong("an http(s) address without user or password")
    return value.data


def _facts(table: Table | None) -> dict[str, Located]:
    facts: dict[str, Located] = {}
    if table is None:
        return facts
    for key, kind in DECLARABLE.items():
        value = table.take(key)
        if value is None:
            continue
        number = isinstance(value.data, (int, float)) and not isinstance(value.data, bool)
        if kind is str and not isinstance(value.data, str):
            raise value.wrong("text (put a version in quotes)")
        if kind is int and not (number and isinstance(value.data, int) and value.data > 0):
            raise value.wrong("a whole number above 0")
        if kind is float and not (number and 0 < value.data <= 1):
            raise value.wrong("a number above 0 and up to 1")
        facts[key] = Located(value.data, value.line)
    table.finish()
    return facts


def _image(table: Table) -> ImageEntry:
    line = table.value.line
    match = table.text("match", None)
    if match is None:
        raise UsageError(
            f"{table.value.path}:{line}: {table.value.name} needs 'match', an image name, pattern or digest"
        )
    entry = ImageEntry(match, table.text("engine", None), table.text("version", None, expected="text (put it in quotes)"),
                       table.texts("fixes"), line)  # fmt: skip
    table.finish()
    return entry


def _rules(table: Table | None) -> dict[str, RuleSetting]:
    settings: dict[str, RuleSetting] = {}
    if table is None:
        return settings
    for key in list(table.left):
        value = table.take(key)
        if value is None or not re.fullmatch(_RULE_ID, key):
            raise table.value.wrong("rule ids with 'off' or {severity: …}")
        if value.data is False or value.data == "off":  # YAML 1.1 reads a bare off as false
            settings[key] = RuleSetting("off", value.line)
            continue
        from checklistbot.strict_yaml import Table

        inner = Table(value)
        severity = inner.choice("severity", None, _SEVERITIES)
        inner.finish()
        if severity is None:
            raise value.wrong("off or {severity: block|warn|note|off}")
        settings[key] = RuleSetting(severity, value.line)
    return settings


def _waiver(table: Table) -> Waiver:
    line, path = table.value.line, table.value.path
    rule = table.text("rule", None, pattern=_RULE_ID, expected="a rule's id")
    deployment = table.text("deployment", "*")
    reason = table.text("reason", None)
    waiver_expires = table.day("expires")
    table.finish()
    if rule is None:
        raise UsageError(f"{path}:{line}: {table.value.name} needs 'rule'")
    if reason is None or not reason.strip():
        raise UsageError(f"{path}:{line}: {table.value.name} needs 'reason': who accepts this, and why")
    return Waiver(rule, deployment, reason, waiver_expires, line)


def _evidence(table: Table | None) -> EvidencePolicy | None:
    if table is None:
        return None
    environment = table.text("environment", "*")
    match = table.texts("match") or ("behaviour",)
    days = table.whole("max_age_days", 30, low=1, high=3650)
    profile = table.choice("profile", "standard", ("smoke", "standard", "deep"))
    table.finish()
    if not set(match) <= {"behaviour", "capacity"}:
        raise table.value.wrong("a mapping whose match is [behaviour] or [behaviour, capacity]")
    return EvidencePolicy(environment, match, days, profile)


def _llm(table: Table | None) -> LlmSettings:
    if table is None:
        return LlmSettings()
    base_url = table.take("base_url")
    prompt = table.take("prompt")
    settings = LlmSettings(
        provider=table.choice("provider", "auto", ("auto", "openai", "anthropic", "builtin")),
        model=table.text("model", None, pattern=r"[\w./:@-]{1,200}", expected="a model id"),
        base_url=_url(base_url) if base_url else None,
        prompt=_repository_path(prompt) if prompt else None,
        max_output_tokens=table.whole("max_output_tokens", 6000, low=500, high=64_000),
        timeout_s=table.whole("timeout_s", 120, low=1, high=900),
        effort=table.choice("effort", None, ("low", "medium", "high")),
        budget_tokens=table.whole("budget_tokens", None, low=1),
        price=_price(table.table("price")),
        prompt_line=prompt.line if prompt else 1,
    )
    table.finish()
    return settings


def _price(table: Table | None) -> Price | None:
    if table is None:
        return None
    input_, output = (_amount(table, name) for name in ("input", "output"))
    currency = table.text("currency", "USD", pattern=r"[A-Z]{3}", expected="three capital letters, such as USD")
    table.finish()
    return Price(input_, output, currency)


def _amount(table: Table, key: str) -> float:
    value = table.take(key)
    if value is None:
        raise table.value.wrong("input and output: what a million tokens cost")
    if isinstance(value.data, bool) or not isinstance(value.data, (int, float)) or not 0 <= value.data <= 1_000_000:
        raise value.wrong("what a million tokens cost, a number from 0")
    return float(value.data)


def _comment(table: Table | None) -> CommentSettings:
    if table is None:
        return CommentSettings()
    settings = CommentSettings(
        id=table.text(
            "id", "default", pattern=r"[a-z0-9][a-z0-9._-]{0,40}", expected="lower-case letters, digits, dashes"
        ),
        mode=table.choice("mode", "update", ("update", "recreate", "hide-and-recreate", "off")),  # type: ignore[arg-type]
        on=table.choice("on", "changed", ("always", "changed", "failure")),
        require_ticks=table.texts("require_ticks"),
        ticks_by=table.text(
            "ticks_by", "write", pattern=TICKS_BY, expected="write, maintain, admin or team:ORGANISATION/TEAM"
        ),
    )
    table.finish()
    return settings


def _allow_hosts(table: Table | None) -> tuple[str, ...]:
    if table is None:
        return ()
    hosts = table.texts("allow_hosts")
    table.finish()
    return hosts


def _override(table: Table | None) -> str:
    if table is None:
        return OVERRIDE_LABEL
    label = table.text("label", OVERRIDE_LABEL)
    table.finish()
    return label
