"""One encoder per sink: the only way by which text that is not our own reaches Markdown, a terminal, a workflow
command, GITHUB_OUTPUT, XML or HTML (DESIGN, "What never happens"; operations-and-attacks 18).

Every encoder takes any string, bounds its length, and drops what a reader cannot see: control characters, ANSI
sequences, bidirectional and zero-width characters. ``clean`` is that common first step.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from functools import cache
from typing import Any, Final

from checklistbot.lazy import pattern

SECRET: Final = "***"  # noqa: S105  (the mask, not a secret)
MAX_INLINE: Final = 300
MAX_BLOCK: Final = 20_000


class Untrusted(str):
    """A string from a repository, a log, an endpoint or an LLM; parsers make it, encoders take it."""

    __slots__ = ()


# --- secrets --------------------------------------------------------------------------------------------------------

_SECRET_NAME = pattern(
    r"(?i)(?:^|[-_.])(?:api[-_]?keys?|(?:admin|access|secret|private|auth|license|encryption|signing)[-_]?keys?"
    r"|pass(?:word|wd|phrase)|secrets?|credentials?|(?:hf|hugging_?face(?:_?hub)?|auth|access|bearer|github|gitlab|api|id|refresh)[-_]?token"
    r"|token|authorization|cookie|dsn|webhook(?:[-_]?url)?|keyfile[-_]?password)$"
)
_NOT_SECRET_NAME = pattern(r"(?i)(?:eos|bos|pad|unk|image|mask|special|stop|think)[-_]token$")
_SECRET_VALUE = pattern(
    r"(?:(?<![A-Za-z0-9])sk-[A-Za-z0-9_-]{8,}|sk-(?:[a-z0-9]{1,8}-)?(?=[A-Za-z]{0,64}\d)[A-Za-z0-9]{12,}|gh[pousr]_[A-Za-z0-9]{16,}|github_pat_[A-Za-z0-9_]{16,}|glpat-[A-Za-z0-9_-]{12,}"
    r"|hf_[A-Za-z0-9]{16,}|(?:AKIA|ASIA)[A-Z0-9]{12,}|xox[abeprs]-[A-Za-z0-9-]{8,}"
    r"|(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+|AIza[A-Za-z0-9_-]{30,}"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"
    r"|(?<=://)[^/\s:@'\"]*:[^/\s@'\"]+(?=@))"
)


def secret_name(name: str) -> bool:
    """True if a flag or variable of that name holds a secret: api-key, HF_TOKEN, ssl_keyfile_password."""
    return bool(_SECRET_NAME.search(name)) and not _NOT_SECRET_NAME.search(name)


def redact(text: str) -> str:
    """The text with ``***`` for every part that looks like a key, a token, a private key or a URL's credentials."""
    return type(text)(_SECRET_VALUE.sub(SECRET, text)) if _SECRET_VALUE.search(text) else text


def redact_value(name: str, value: str) -> str:
    """The value of a flag or variable as it may be kept: ``***`` if its name or its look says that it is a secret."""
    return SECRET if value and secret_name(name) else redact(value)


# --- the common first step ------------------------------------------------------------------------------------------

_ANSI = pattern(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]{0,4096}(?:\x07|\x1b\\)?|[@-Z\\-_])")
_INVISIBLE_EXTRA = frozenset("\u115f\u1160\u2800\u3164\uffa0\u034f\u17b4\u17b5")


_MAX_MARKS: Final = 4


def _unstacked(text: str) -> str:
    """The text with at most four combining marks on one letter: a tower of them covers the lines above it."""
    kept: list[str] = []
    marks = 0
    for character in text:
        marks = marks + 1 if unicodedata.combining(character) else 0
        if marks <= _MAX_MARKS:
            kept.append(character)
    return "".join(kept)


def _visible(character: str, keep: str) -> bool:
    if character in keep:
        return True
    if character in _INVISIBLE_EXTRA or "\ufe00" <= character <= "\ufe0e" or "\U000e0000" <= character <= "\U000e0fff":
        return False
    return unicodedata.category(character) not in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")


def clean(text: str, *, limit: int = MAX_INLINE, keep: str = "") -> str:
    """NFC, without secrets, ANSI sequences, control, format, bidirectional, zero-width and unassigned characters.

    Characters in ``keep`` (``"\\n"`` for blocks) stay. Line breaks and tabs that are not kept become a space. What is
    longer than ``limit`` characters is cut and ends in "…".
    """
    text = redact(str(text)[: limit * 8 + 64])
    if text.isascii() and text.isprintable():
        return text if len(text) <= limit else text[: limit - 1] + "…"
    text = unicodedata.normalize("NFC", _ANSI.sub("", text))
    for character in "\n\r\t\v\f\u0085\u2028\u2029":
        if character not in keep:
            text = text.replace(character, " ")
    # By distinct character: a long text has few.
    letters = set(text)
    hidden = {ord(letter): None for letter in letters if not _visible(letter, keep)}
    text = text.translate(hidden) if hidden else text
    text = _unstacked(text) if any(map(unicodedata.combining, letters)) else text
    # Twice, because what was hidden may have split a secret.
    text = redact(text)
    return text if len(text) <= limit else text[: limit - 1] + "…"


# --- Markdown -------------------------------------------------------------------------------------------------------

_MARKDOWN_SPECIAL = pattern(r"([\\`*_\[\]<>|~$&{}!])")
_MARKDOWN_START = pattern(r"^(\s*)([-+#=:]|\d+[.)](?=\s|$))")
#: What GitHub brings to life by itself, and a backslash does not stop: addresses, mentions, references, commit ids,
#: emoji names, formulas. A code span stops all of it. Flags and file names become code spans for the reader's sake.
_LIVE = pattern(
    r"(?:https?|ftp|mailto|xmpp|data|javascript):\S+|www\.\S+|[\w.+-]+@[\w-]+\.[\w.-]+|[\w./-]*@[\w/-]+"
    r"|[\w./-]*\#\d+|\bGH-\d+|\b(?!\d+\b)[0-9a-f]{7,64}\b|:[\w+-]+(?::|$)|\S*\$\S*"
    r"|(?<![\w-])--[a-z][a-z0-9-]*(?:[ =]\d[\d.]*)?"
    r"|(?<![\w/.-])\w[\w./-]*\.(?:ya?ml|log|sh|py|toml|json|tf)(?::\d+)?(?![\w-])",
    re.IGNORECASE | re.ASCII,
)


def _code_span(text: str) -> str:
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    bar = "`" * (longest + 1)
    pad = " " if longest else ""
    return f"{bar}{pad}{text}{pad}{bar}"


def _for_cell(span: str) -> str:
    """A code span for a table cell: GitHub splits rows at "|" before it reads code spans.

    A backslash of the text before a "|" gets a space, else it would escape our escape.
    """
    return re.sub(r"\\(?=\|)", r"\\ ", span).replace("|", "\\|")


def code(text: str, *, limit: int = MAX_INLINE, cell: bool = True) -> str:
    """A Markdown code span that nothing in the text can leave. Empty text gives a visible blank.

    ``cell=False`` shows a "|" as it is and must not stand in a table.
    """
    span = _code_span(" ".join(clean(text, limit=limit).split()) or " ")
    return _for_cell(span) if cell else span


def own_markdown(text: str) -> str:
    """Words of our own catalogue for Markdown: only the markup is escaped."""
    return _MARKDOWN_SPECIAL.sub(r"\\\1", text)


_ASCII_WORD = pattern(r"\w*", re.ASCII)


def _live_parts(text: str) -> list[tuple[int, int]]:
    """Where the text is live, in whole words: what is left of a word would be read anew, without its neighbours.

    Touching parts are one, because two code spans that touch would open each other.
    """
    parts: list[tuple[int, int]] = []
    for match in _LIVE.finditer(text):
        start, end = match.span()
        while start and text[start - 1].isascii() and (text[start - 1].isalnum() or text[start - 1] == "_"):
            start -= 1
        rest = _ASCII_WORD.match(text, end)
        end = rest.end() if rest else end
        if parts and parts[-1][1] >= start:
            parts[-1] = (parts[-1][0], max(end, parts[-1][1]))
        else:
            parts.append((start, end))
    return parts


def markdown(text: str, *, limit: int = MAX_INLINE, cell: bool = True) -> str:
    """One line of Markdown that shows the text and does nothing: no markup, HTML, link, image, mention or emoji.

    ``cell=False`` as in ``code``.
    """
    text = " ".join(clean(text, limit=limit).split())
    parts: list[str] = []
    at = 0
    for start, end in _live_parts(text):
        parts += [own_markdown(text[at:start]), code(text[start:end], limit=limit + 1, cell=cell)]
        at = end
    parts.append(own_markdown(text[at:]))
    # Whatever "@" is left stands alone, before punctuation; GitHub needs a letter behind it, so it is inert.
    return _MARKDOWN_START.sub(lambda m: f"{m[1]}{m[2][:-1]}\\{m[2][-1]}", "".join(parts))


def fence(text: str, language: str = "", *, limit: int = MAX_BLOCK) -> str:
    """A fenced Markdown code block that the text cannot leave."""
    text = clean(text, limit=limit, keep="\n\t").rstrip("\n")
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    bar = "`" * max(3, longest + 1)
    return f"{bar}{language}\n{text}\n{bar}"


def link_target(path: str) -> str:
    """A repository path percent-encoded for a URL or a SARIF uri, without secrets."""
    from urllib.parse import quote

    return quote(redact(str(path)), safe="/._-~*")


# --- the other sinks ------------------------------------------------------------------------------------------------


#: What a workflow runner obeys at the start of a line; a terminal that wraps can put any word there.
_RUNNER_COMMAND = pattern(r"::(?=[A-Za-z_-]+[^\n]*::)|##(?=\[)")


def terminal(text: str, *, limit: int = 2_000, keep: str = "") -> str:
    """Text for a terminal: nothing that moves the cursor, colours, links or reorders, and nothing that a workflow runner, which
    reads the same output, would take for a command."""
    text = clean(text, limit=limit, keep=keep)
    return _RUNNER_COMMAND.sub(lambda match: f"{match[0][0]} {match[0][1]}", text)


def workflow_data(text: str, *, limit: int = 4_000) -> str:
    """The message of a GitHub workflow command (``::error::…``). Line breaks of ours survive as %0A."""
    text = clean(text, limit=limit, keep="\n")
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def workflow_property(text: str, *, limit: int = MAX_INLINE) -> str:
    """A property of a workflow command (``file=``, ``title=``)."""
    return workflow_data(clean(text, limit=limit)).replace(":", "%3A").replace(",", "%2C")


def github_output(name: str, value: str) -> str:
    """A block for the GITHUB_OUTPUT file with a delimiter that the value cannot know."""
    import secrets

    delimiter = f"ghadelimiter_{secrets.token_hex(16)}"
    return f"{name}<<{delimiter}\n{clean(value, limit=60_000, keep=chr(10))}\n{delimiter}\n"


def xml(text: str, *, limit: int = 8_000) -> str:
    """Text of an XML element or attribute; characters that XML 1.0 forbids are dropped."""
    return _escaped(clean(text, limit=limit, keep="\n\t"))


def html_text(text: str, *, limit: int = 8_000) -> str:
    """Text of an HTML element or a quoted attribute."""
    return _escaped(clean(text, limit=limit, keep="\n"))


def sarif_text(text: str, *, limit: int = 4_000) -> str:
    """Text of a SARIF message: no embedded link, no placeholder (SARIF 2.1.0, 3.11.5 and 3.11.6)."""
    text = clean(text, limit=limit, keep="\n").replace("\\", "\\\\")
    return text.replace("[", "\\[").replace("]", "\\]").replace("{", "{{").replace("}", "}}")


def _escaped(text: str) -> str:
    import html  # here, for its table of entities is large

    return html.escape(text, quote=True)


def json_text(text: str, *, limit: int = 100_000) -> str:
    """A string for a JSON report: secrets out, invisible characters kept out of the reader's way."""
    return clean(text, limit=limit, keep="\n\t")


def json_safe(value: Any) -> Any:
    """A JSON value with every string, keys included, passed through ``json_text``."""
    # A report says most of its strings (keys, paths, sources) hundreds of times.
    return _json_safe(value, cache(json_text))


def _json_safe(value: Any, text: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return text(value)
    if isinstance(value, dict):
        return {text(str(key)): _json_safe(entry, text) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_json_safe(entry, text) for entry in value]
    return value


#: Encoders by sink, for the finalize step of a Jinja environment.
SINKS: Final[dict[str, Callable[[str], str]]] = {
    "markdown": markdown,
    "terminal": terminal,
    "html": html_text,
    "xml": xml,
}


def finalizer(sink: str) -> Callable[[Any], Any]:
    """The ``finalize`` of a Jinja environment: numbers and our own ``Markup`` pass, all else is encoded for the sink.

    Encoding is the default, so a value that lost its ``Untrusted`` type on the way is encoded all the same.
    """
    from markupsafe import Markup

    encoder = SINKS[sink]

    def finalize(value: Any) -> Any:
        if isinstance(value, Markup) or (isinstance(value, (int, float)) and not isinstance(value, bool)):
            return value
        if value is None:
            return ""
        return encoder(str(value))

    return finalize
