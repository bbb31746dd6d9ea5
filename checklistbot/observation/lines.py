"""One physical line of a log → records: envelopes, colours and prefixes off, stream, rank and time kept.

Knows how lines reach a file (docker compose, kubectl, CRI, journalctl, Ray, JSON, GitHub Actions, a terminal, a
forum post) and how the engines begin their own lines; nothing of what a message means.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

from checklistbot.engines._log import Record
from checklistbot.lazy import pattern
from checklistbot.record import mutable_record

_ANSI = pattern(
    r"\x1b(?:\[[0-?]{0,32}[ -/]{0,8}[@-~]|\][^\x07\x1b]{0,512}(?:\x07|\x1b\\)?|[@-Z\\-_])"
    r"|[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f]"
)
#: ANSI sequences whose escape character was lost on the way to a forum.
_ANSI_BARE = pattern(r"(?:(?<=^)|(?<=[\s)\]]))\[(?:\d{1,3};){0,4}\d{0,3}m")

_RANKS = r"(?: ?(?:DP|PP|ATTN_CP|MOE_DP|TP|EP)\d{1,5})"
_CLOCK = r"(?:\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d(?:[.,]\d{1,9})?"
_SGLANG = pattern(rf"\[({_CLOCK})?({_RANKS}{{0,6}})\] ?")
_VLLM = pattern(
    r"(DEBUG|INFO|WARNING|ERROR|CRITICAL) "
    r"(?:(?:\d{4}-)?(\d\d-\d\d \d\d:\d\d:\d\d)(?:[.,]\d{1,6})? |\.\.\. )?\[?[\w./-]{1,200}\.py:\d{1,6}\] ?"
)
_PROCESS = pattern(
    r"\(([A-Za-z_][\w:.<>/-]{0,120}(?:\([^()]{0,80}(?:\([^()]{0,80}\))?[^()]{0,10}\))?)"
    r"((?: rank=\d{1,6})?) pid=(\d{1,9})(?:, ip=[\d.a-fA-F:]{3,45})?(?:, actor_id=\w{1,64})?\) ?"
)
_COMPOSE = pattern(r"([A-Za-z0-9][\w.-]{0,127}?)[ \t]{0,64}\|(?: |$)")
_KUBECTL = pattern(r"\[pod/([^\]\s/]{1,253})/([^\]\s]{1,253})\] ?")
_STERN = pattern(
    r"([a-z0-9][-a-z0-9.]{0,252}-(?:\d{1,4}|[a-z0-9]{5,10})) "
    r"([a-z0-9][-a-z0-9]{0,62})(?: \||:)? (?=\[|\(|INFO|WARN|ERROR|\d{4}-)"
)
_CRI = pattern(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d) std(?:out|err) [FP] ")
_ISO = pattern(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?: ?(?:Z|UTC|[+-]\d\d:?\d\d))?[ \t|,]{1,4}")
_SYSLOG = pattern(
    r"(?:(?:[A-Z][a-z]{2}|\d{1,2}[月월]) [ \d]?\d \d\d:\d\d:\d\d(?:\.\d{1,6})?|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[\d.:+Z-]{0,20}) "
    r"(?![A-Z] |INFO |WARN|ERROR |DEBUG )([\w.-]{1,128}) ([\w@.:/\\-]{1,128}?)(?:\[(\d{1,9})\])?: "
)
#: llama.cpp's own clock: minutes, seconds, milliseconds and microseconds since the start, and the level.
_LLAMA = pattern(r"\d{1,5}\.\d\d\.\d{3}\.\d{3} [IWEDT] ")
_GPU = pattern(r"\[gpu(?:_id)?=(\d{1,5})\] ?")
_TORCH_RANK = pattern(r"\[(?:rank|default)(\d{1,5})\]:? ?")
_TASK = pattern(r"(\d{1,6})(?::|\t| {1,3}\||) {0,4}(?=\[\d{4}|\[TP|\(|INFO|WARNING|ERROR)")
_QUOTE = pattern(r"(?:[>▎▏│┃⏎]|//|\|(?= )|#(?=\s|$))[ \t]{0,8}")
_BULLET = pattern(r"(?:[-*•] |\d{1,3}[.)] )(?=\S)")
_ROLE = pattern(
    r"(prefill|decode)(?:[ _-](?:node|leg|server|worker|side))?(?: {0,3}\([^()]{1,40}\))?[:\s]{1,20}(?=\[)",
    re.IGNORECASE,
)
_APP = pattern(r"[\w.-]{1,80}\.(?:js|ts|go|rs|mjs):\d{1,6} \[[\w.-]{1,60}\] ")
_LEVEL = pattern(r"(?:INFO|WARNING|WARN|ERROR|DEBUG)\b:? {1,4}")
_NO_SERVICE = frozenset(("INFO", "WARNING", "WARN", "ERROR", "DEBUG", "CRITICAL", "TRACE", "NOTICE"))
#: How engines begin a line whose head is part of the message: it stays, and the line is one of its own.
_MARK = pattern(
    r"\[(?:TensorRT-LLM|TRT-LLM|TM|Gloo)[^\]\n]{0,40}\]|\[\d\d/\d\d/\d{4}-\d\d:\d\d:\d\d\]|[IWEF]\d{4} \d\d:\d\d:\d\d\.\d"
    r"|time=\S{10,40} level=|(?:llama|ggml|print|load|srv|slot|common|main|set|build)[\w: ]{0,40}: |[A-Z]\w{2,30}(?:Error|Exception): "
)
#: Where a message of its own is glued to what stands before it (a progress bar, prose).
_GLUED = pattern(
    rf"(?=\[\d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{{1,6}})?{_RANKS}{{0,6}}\] )"
    r"|(?=\([A-Za-z_]\w{0,60}(?: rank=\d{1,6})? pid=\d{1,9}\) (?:INFO|WARNING|ERROR|CRITICAL) )"
    r"|(?<=\S)(?=(?:INFO|WARNING|ERROR|CRITICAL) \d\d-\d\d \d\d:\d\d:\d\d \[)"
)
#: What log systems export: dates and names, the message last.
_CSV = pattern(
    r"(?:\"[^\"]{0,200}\"|[^\",\s{}\[\]]{0,200}),(?:(?:\"[^\"]{0,200}\"|[^\",\s]{0,200}),){0,6}\"((?:[^\"]|\"\"){1,60000})\"\Z"
)
_ENTITY = pattern(r"&(?:quot|gt|lt|amp|#39|#34|#x27);")
#: Keys of JSON envelopes that hold the message, and those that name its origin.
_MESSAGE_KEYS: Final = ("log", "message", "msg", "MESSAGE", "textPayload", "body", "line", "text")
_ORIGIN_KEYS: Final = ("pod_name", "pod", "container_name", "container", "service", "CONTAINER_NAME", "_SYSTEMD_UNIT")


@mutable_record
class _Prefix:
    """What the prefixes of one line said."""

    stream: str = ""
    rank: str = ""
    seconds: float | None = None
    fresh: bool = False
    comment: bool = False
    own: bool = False


def seconds_of(clock: str) -> float | None:
    """Seconds of a log's own clock (year and date where it prints them); only differences mean something."""
    clock = clock.replace(",", ".").replace("T", " ")
    for form in ("%Y-%m-%d %H:%M:%S", "%m-%d %H:%M:%S", "%H:%M:%S"):
        try:
            text = f"2000-{clock}" if form.startswith("%m") else clock
            form = f"%Y-{form}" if form.startswith("%m") else form
            return datetime.strptime(text.partition(".")[0], form).replace(tzinfo=UTC).timestamp()
        except ValueError:
            continue
    return None


def _process(match: re.Match[str], prefix: _Prefix) -> None:
    """A process or Ray actor: engine processes are ranks of one server, named replicas are streams."""
    name = match[1]
    if name.startswith("ServeReplica:"):
        prefix.stream = prefix.stream or ":".join(name.split(":")[1:]) or name
        return
    prefix.rank = f"{prefix.rank} {name}{match[2]} pid={match[3]}".strip()


def _take(text: str, prefix: _Prefix) -> int:
    """The length of one prefix at the head of ``text``, noted in ``prefix``; 0 if there is none."""
    first = text[:1]
    if first == "[":
        if match := _GPU.match(text):
            prefix.rank = f"TP{match[1]}"
        elif match := _KUBECTL.match(text):
            prefix.stream = f"{match[1]}/{match[2]}"
        elif (match := _SGLANG.match(text)) and (match[1] or match[2]):
            prefix.seconds = seconds_of(match[1]) if match[1] else prefix.seconds
            prefix.rank = match[2].strip() or prefix.rank
        elif match := _TORCH_RANK.match(text):
            prefix.rank = f"rank{match[1]}"
        return _fresh(match, prefix)
    if first == "(":
        if match := _PROCESS.match(text):
            _process(match, prefix)
        return _fresh(match, prefix)
    if first.isdigit():
        if match := _CRI.match(text) or _LLAMA.match(text):
            pass
        elif match := _SYSLOG.match(text):
            prefix.stream = prefix.stream or match[2]
        elif match := _ISO.match(text):
            prefix.seconds = (
                prefix.seconds if prefix.seconds is not None else seconds_of(match[0].rstrip(" |\tZ,")[:19])
            )
        elif match := _TASK.match(text):
            prefix.rank = match[1]
        elif match := _COMPOSE.match(text):
            prefix.stream = prefix.stream or match[1]
        elif match := _STERN.match(text):
            prefix.stream = prefix.stream or f"{match[1]}/{match[2]}"
        else:
            match = _BULLET.match(text)
            return match.end() if match else 0
        return _fresh(match, prefix)
    if first.isalpha():
        return _take_word(text, prefix)
    match = _QUOTE.match(text) or _BULLET.match(text)
    prefix.comment = prefix.comment or first == "#"
    return match.end() if match else 0


def _take_word(text: str, prefix: _Prefix) -> int:
    """A prefix that begins with a letter."""
    if match := _VLLM.match(text):
        prefix.seconds = seconds_of(match[2]) if match[2] else prefix.seconds
        prefix.own = True
    elif match := _SYSLOG.match(text):
        prefix.stream = prefix.stream or match[2]
    elif (match := _COMPOSE.match(text)) and match[1] not in _NO_SERVICE:
        prefix.stream = prefix.stream or match[1]
    elif match := _STERN.match(text):
        prefix.stream = prefix.stream or f"{match[1]}/{match[2]}"
    elif match := _ROLE.match(text):
        prefix.stream = prefix.stream or match[1].lower()
        return text.index("[", match.start(0)) if "(" not in match[0] else 0
    elif match := _APP.match(text) or _LEVEL.match(text):
        pass
    else:
        return 0
    return _fresh(match, prefix)


def _fresh(match: re.Match[str] | None, prefix: _Prefix) -> int:
    if match is None:
        return 0
    prefix.fresh = True
    return match.end()


def _envelope(text: str) -> tuple[str, str] | None:
    """(message, origin) of a JSON line, None if it is no envelope of a message."""
    if not text.startswith("{") or not text.endswith("}"):
        return None
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(data, dict):
        return None
    message = next((data[key] for key in _MESSAGE_KEYS if isinstance(data.get(key), str)), None)
    if message is None:
        return None
    inner = data.get("kubernetes")
    places = [place for place in (inner, data) if isinstance(place, dict)]
    origin = [str(place[key]) for place in places for key in _ORIGIN_KEYS if isinstance(place.get(key), str)]
    return message, "/".join(dict.fromkeys(origin))


def strip(text: str, prefix: _Prefix) -> str:
    """The message without its prefixes; at most eight of them, so that a line of prefixes costs nothing."""
    for _ in range(8):
        text = text.lstrip(" \t\ufeff")
        length = _take(text, prefix)
        if not length:
            break
        text = text[length:]
    return text


def is_fresh(text: str) -> bool:
    """True if a line begins a message of its own: it has a prefix, or a head that engines begin with."""
    prefix = _Prefix()
    rest = strip(text[:512], prefix)
    return prefix.fresh or _MARK.match(rest) is not None


def records(number: int, line: bytes) -> Iterator[Record]:
    """The records of one physical line (without its line feed)."""
    if not line or line.isspace():
        yield Record(number, "")
        return
    text = line.decode("utf-8", "replace").rstrip("\r\n")
    yield from _records(number, text, "", len(text))


def _records(number: int, text: str, origin: str, length: int, depth: int = 0) -> Iterator[Record]:
    envelope = _envelope(text.strip()) if depth < 3 and text.lstrip()[:1] == "{" else None
    if envelope:
        for part in envelope[0].split("\n"):
            yield from _records(number, part, envelope[1] or origin, len(part), depth + 1)
        return
    if text.endswith('"') and ',"' in text and (row := _CSV.match(text.strip())):
        text = row[1].replace('""', '"')
    if "&" in text and _ENTITY.search(text):
        from html import unescape  # its table of names costs more than a whole start may

        text = unescape(text)
    if "\x1b" in text or not text.isprintable():
        text = _ANSI.sub("", text.replace("\t", " "))
    if "[" in text and "m" in text:
        text = _ANSI_BARE.sub("", text)
    for piece in text.split("\r"):
        yield from _pieces(number, piece, origin, length)


def _pieces(number: int, text: str, origin: str, length: int) -> Iterator[Record]:
    """Messages that are glued together on one line, each with the prefixes in force."""
    prefix = _Prefix(stream=origin)
    text = strip(text, prefix)
    parts = _GLUED.split(text) if ("[20" in text or " pid=" in text or "INFO " in text) else [text]
    for index, part in enumerate(parts):
        if not part and len(parts) > 1:
            continue
        if index:
            prefix = _Prefix(prefix.stream, prefix.rank, prefix.seconds, prefix.fresh)
            part = strip(part, prefix)
        prefix.fresh = prefix.fresh or _MARK.match(part) is not None
        yield Record(
            number,
            part.rstrip(),
            prefix.stream,
            prefix.rank,
            prefix.seconds,
            prefix.fresh,
            prefix.comment,
            length,
            prefix.own,
        )
