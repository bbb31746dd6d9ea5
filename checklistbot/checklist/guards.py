"""What an LLM's text says is held against what is real: flags of the engine's version, metrics, numbers, commands, keys.

What is not real stays in prose and is marked; a command that does more than read is left out.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any, Final

from checklistbot import encode, resources
from checklistbot.checklist import commands
from checklistbot.checklist.words import Language, load_yaml, words
from checklistbot.encode import Untrusted
from checklistbot.engines.base import below, version_of
from checklistbot.lazy import pattern
from checklistbot.model import Deployment
from checklistbot.record import record

MAX_TITLE, MAX_TEXT, MAX_COMMAND, MAX_OWNER = 200, 1_000, 400, 60
MAX_MARKS: Final = 8

_BOX = pattern(r"^\s*(?:[-*+]\s+)?\[[ xX]\]\s*")


def line(text: str, limit: int) -> Untrusted:
    """One visible line without keys, check boxes in front or hidden characters; still not ours, so every sink encodes it."""
    text = " ".join(encode.clean(encode.redact(text), limit=limit * 2, keep="").split())
    while (shorter := _BOX.sub("", text)) != text:
        text = shorter
    return Untrusted(text if len(text) <= limit else text[: limit - 1] + "…")


# --- flags -------------------------------------------------------------------------------------------------------------

_FLAG = pattern(r"(?<![\w-])--([a-zA-Z][a-zA-Z0-9_-]{1,80})")
#: Options that every program has.
_COMMON = frozenset(("help", "version"))


@cache
def _flags(engine: str) -> Mapping[str, Any] | None:
    try:
        data = json.loads(resources.text("knowledge", "flags", f"{engine}.json"))
    except FileNotFoundError:
        return None
    flags: dict[str, Any] = {}
    for name, entry in data["flags"].items():
        for spelling in (name, *entry.get("aliases", ())):
            flags[spelling.lstrip("-")] = entry
    for name in data.get("spellings", {}):
        flags.setdefault(name.lstrip("-"), {})
    for name in data.get("abbreviations", {}):
        flags.setdefault(name.lstrip("-"), {})
    return {
        name.replace("_", "-") if data.get("underscore_equals_dash") else name: entry for name, entry in flags.items()
    }


def known_flag(name: str, deployment: Deployment) -> bool | None:
    """Whether the engine of that deployment takes ``--name``; None where its flags are not known to us."""
    engine = deployment.engine.text() or ""
    flags = _flags(engine) if re.fullmatch(r"[a-z][a-z0-9.-]*", engine) else None
    if flags is None:
        return None
    entry = flags.get(name.lstrip("-"))
    if entry is None and name.startswith("no-"):
        entry = flags.get(name.removeprefix("no-"))
    if entry is None:
        return False
    version = version_of(deployment)
    if version is None:
        return True
    if entry.get("first") and below(version, entry["first"]):
        return False
    return not (entry.get("removed_in") and not below(version, entry["removed_in"]))


# --- metrics, numbers --------------------------------------------------------------------------------------------------

_METRIC = pattern(r"(?<![\w:/.-])((?:sglang|vllm):[a-z][a-z0-9_]{2,80})")
_NUMBER = pattern(r"(?<![\w.,:/-])(\d{1,3}(?:,\d{3})+|\d{4,12})(?![\w:/-]|[.,]\d)")
#: A number this close to a known limit is a test length around it.
_NEAR = 4_096


@cache
def known_metrics() -> frozenset[str]:
    """All metric names of ``knowledge/metrics``."""
    paths = (path for path in resources.files("knowledge", ".yml") if path.parent.name == "metrics")
    return frozenset(name for path in paths for name in load_yaml(path.read_text(encoding="utf-8"))["names"])


def _real_numbers(deployments: Iterable[Deployment]) -> set[int]:
    numbers: set[int] = set()
    for deployment in deployments:
        numbers |= {n for _, fact in deployment.facts() if (n := fact.number()) is not None}
        if deployment.first_rejected_length is not None:
            numbers.add(deployment.first_rejected_length)
    big = {n for n in numbers if n >= 1_000}
    # Sums and multiples that a test plan is made of: twice and one and a half times the pool, the gap between two limits.
    numbers |= {2 * n for n in big} | {n * 3 // 2 for n in big} | {n // 2 for n in big}
    return numbers | {abs(a - b) for a in big for b in big}


# --- commands ----------------------------------------------------------------------------------------------------------

_READERS: Final = frozenset(
    (
        "curl",
        "jq",
        "grep",
        "sort",
        "uniq",
        "head",
        "tail",
        "wc",
        "cut",
        "tr",
        "cat",
        "echo",
        "nvidia-smi",
        "checklistbot",
    )
)
_SUBCOMMANDS: Final = {
    "kubectl": ("get", "describe", "logs", "top"),
    "docker": ("inspect", "logs", "ps", "images"),
    "helm": ("get", "list", "status"),
    "checklistbot": ("probe", "check", "facts", "snapshot", "triage", "explain", "capacity"),
}
#: curl options that write, upload, read a configuration, or go another way than the URL says.
_CURL_REFUSED = pattern(
    r"-[a-zA-Z]*[oOTKxDcnFE].*|--(?:output|upload|config|proxy|preproxy|netrc|remote|dump|cookie|form|unix|connect-to|resolve|doh|socks|cert).*"
)
_HOST = pattern(r"https?://([^/\s\"'?#]*)", re.IGNORECASE)
_HERE_TEXT: Final = r"(?:\$\{?[A-Za-z_][A-Za-z0-9_]*\}?|localhost|127\.0\.0\.1|\[::1\]|<[a-z -]{1,30}>)(?::(?:\d{1,5}|\$\{?[A-Za-z_]\w*\}?))?"
_HERE = pattern(_HERE_TEXT)
_SECRET_VARIABLE = pattern(r"\$\{?\w*(?:KEY|TOKEN|SECRET|PASSW|CREDENTIAL)", re.IGNORECASE)


#: An address on this machine or in a variable of the reader's, and its path.
_ADDRESS = pattern(rf"(?:https?://)?{_HERE_TEXT}((?:/[^?#]*)?)(?:[?#].*)?", re.IGNORECASE)
#: What engines answer without changing anything; a GET of /flush_cache or /sleep does change something (facts: sglang.md, vllm.md).
_READ_PATHS: Final = frozenset(
    [
        "/",
        "/health",
        "/health_generate",
        "/healthz",
        "/livez",
        "/readyz",
        "/ready",
        "/live",
        "/ping",
        "/load",
        "/metrics",
        "/version",
        "/v1/models",
        "/models",
        "/server_info",
        "/get_server_info",
        "/model_info",
        "/get_model_info",
        "/v1/loads",
        "/get_load",
        "/props",
        "/slots",
        "/info",
        "/api/ps",
        "/api/version",
        "/api/tags",
        "/v1/chat/completions",
        "/v1/completions",
        "/generate",
        "/tokenize",
        "/v1/tokenize",
        "/is_sleeping",
    ]
)


def reads_only(command: str) -> bool:
    """True if the command is a pipe of programs that only read, and only from this machine or from a variable of the reader's."""
    if _SECRET_VARIABLE.search(command) or any(not _HERE.fullmatch(host) for host in _HOST.findall(command)):
        return False
    if len(_HOST.findall(command)) != command.count("://"):
        return False
    try:
        quoted = shlex.shlex(command, posix=True, punctuation_chars="|&;<>()")
        quoted.whitespace_split = True
        quoted.commenters = ""
        tokens = list(quoted)
    except ValueError:
        return False
    if "`" in command or "$(" in command or "${{" in command or "\n" in command:
        return False
    return all(_reads(segment) for segment in _segments(tokens))


def _segments(tokens: list[str]) -> Iterator[list[str]]:
    """The programs of a pipe. Any other operator makes a segment that no program is."""
    segment: list[str] = []
    for part in tokens:
        if part == "|":
            yield segment
            segment = []
        elif part and all(c in "|&;<>()" for c in part):
            yield []
        else:
            segment.append(part)
    yield segment


def _reads(words_of_program: list[str]) -> bool:
    if not words_of_program:
        return False
    program, *arguments = words_of_program
    if program in _SUBCOMMANDS:
        secret = (
            any("secret" in a.lower() or ("=" in a and a.startswith("-")) for a in arguments) and program == "kubectl"
        )
        return bool(arguments) and arguments[0] in _SUBCOMMANDS[program] and not secret
    if program == "curl":
        return _curl_reads(arguments)
    if program == "sort":
        return not any(a.startswith(("-o", "--output", "--compress")) for a in arguments)
    return program in _READERS


def _curl_reads(arguments: list[str]) -> bool:
    for before, argument in zip(["", *arguments], arguments, strict=False):
        if _CURL_REFUSED.fullmatch(argument):
            return False
        if before in ("-X", "--request") and argument not in ("GET", "HEAD", "POST"):
            return False
        # -d @FILE would send a file; "name@host" would be another host.
        if "@" in argument and " " not in argument:
            return False
        host = argument.split("/")[0]
        bare = (
            "." in host
            and not re.search(r"[\s{]|^[\d.]+$", host)
            and not _HERE.fullmatch(host)
            and "://" not in argument
        )
        if bare and not argument.startswith("-"):
            return False
        if before not in _WITH_TEXT and not _address_reads(argument):
            return False
    return True


#: curl options whose value is no address.
_WITH_TEXT: Final = frozenset(
    [
        "-H",
        "--header",
        "-d",
        "--data",
        "--data-raw",
        "--json",
        "-X",
        "--request",
        "-m",
        "--max-time",
        "-w",
        "--write-out",
        "-A",
        "--user-agent",
    ]
)


def _address_reads(argument: str) -> bool:
    """True for what is no address, and for an address whose path only reads."""
    argument = argument.removeprefix("--url=")
    found = _ADDRESS.fullmatch(argument)
    if found is None:
        return not (
            argument.startswith(("$", "<", "[", "/")) or "://" in argument or argument.lower().startswith("localhost")
        )
    return (found[1].rstrip("/") or "/") in _READ_PATHS


# --- all of it ---------------------------------------------------------------------------------------------------------


@record
class Guard:
    """The facts that one item's text is held against: the deployments it is about, and all numbers of the whole."""

    deployments: tuple[Deployment, ...]
    everything: tuple[Deployment, ...]
    language: Language

    def marks(self, texts: Iterable[str]) -> list[str]:
        """One sentence of ours for each flag, metric and number in the texts that is not real; at most MAX_MARKS."""
        found: dict[str, None] = {}
        joined = "\n".join(texts)
        for mark in (*self._flag_marks(joined), *self._metric_marks(joined), *self._number_marks(joined)):
            found.setdefault(mark)
        return list(found)[:MAX_MARKS]

    def _flag_marks(self, text: str) -> Iterator[str]:
        say = words(self.language)
        for name in dict.fromkeys(_FLAG.findall(text)):
            if name in _COMMON:
                continue
            answers = [(known_flag(name, d), d) for d in self.deployments]
            wrong = [d for known, d in answers if known is False]
            if not wrong or any(known for known, _ in answers):
                continue
            engine = commands.engine_name(wrong[0])
            version = version_of(wrong[0])
            key = "guards.flag-version" if version else "guards.flag"
            yield say(key, name=f"--{name}", engine=engine, version=version)

    def _metric_marks(self, text: str) -> Iterator[str]:
        for name in dict.fromkeys(_METRIC.findall(text)):
            if name not in known_metrics():
                yield words(self.language)("guards.metric", name=name)

    def _number_marks(self, text: str) -> Iterator[str]:
        real = _real_numbers(self.everything)
        if not real:
            return
        limits = [n for n in real if n >= 1_000]
        for spelled in dict.fromkeys(_NUMBER.findall(text)):
            value = int(spelled.replace(",", ""))
            if value < 10_000 or value in real or any(abs(value - limit) <= _NEAR for limit in limits):
                continue
            yield words(self.language)("guards.number", name=f"{value:,}")


def split_commands(listed: Iterable[str], language: Language) -> tuple[tuple[Untrusted, ...], list[str]]:
    """The commands that only read, and our note if one was left out."""
    kept: list[Untrusted] = []
    dropped = False
    for command in listed:
        shown = line(command, MAX_COMMAND)
        if shown and len(command) <= MAX_COMMAND and reads_only(command.strip()):
            kept.append(shown)
        else:
            dropped = dropped or bool(shown)
    return tuple(dict.fromkeys(kept)), [words(language)("guards.command")] if dropped else []
