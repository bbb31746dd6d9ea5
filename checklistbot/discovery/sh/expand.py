"""Expansion of one word: quotes, variables, parameters with defaults and suffixes, arithmetic, command substitution."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, Protocol

from checklistbot.discovery.limits import MAX_VALUE, TooMuch, costly
from checklistbot.discovery.sh.conditions import glob_regex
from checklistbot.discovery.sh.text import EMPTY, HERE, Text, fields, join, of, unknown, unset
from checklistbot.engines.base import OPEN
from checklistbot.lazy import pattern as lazy_pattern

Value = Text | list[Text] | dict[str, Text]
_PLAIN = lazy_pattern(r"[^\\'\"$`]+")
_NAME = lazy_pattern(r"[A-Za-z_]\w*|[0-9@*#?$!-]")


class Scope(Protocol):
    """What an expansion asks of the script's state."""

    def lookup(self, name: str) -> Value | None: ...

    def runtime(self, name: str) -> bool: ...

    def assign(self, name: str, value: Value) -> None: ...

    def substitute(self, script: Text) -> Text: ...

    def arithmetic(self, text: str) -> int | None: ...


class Expander:
    def __init__(self, scope: Scope) -> None:
        self._scope = scope

    def words(self, raw: Text) -> list[Text]:
        """The fields that one raw word of a command becomes."""
        return _Run(self._scope, raw, split=True).fields()

    def text(self, raw: Text) -> Text:
        """The value of an assignment or a test's operand: expanded, not split."""
        return join(_Run(self._scope, raw, split=False).fields())

    def heredoc(self, raw: Text) -> Text:
        """The body of an unquoted heredoc: quotes stay, the rest is expanded."""
        return join(_Run(self._scope, raw, split=False, heredoc=True).fields(), "")


def balanced(text: str, at: int, opening: str, closing: str) -> int:
    """The index behind the bracket that closes the one before ``at``; quotes and nested brackets are passed over."""
    depth, end = 1, len(text)
    while at < end:
        c = text[at]
        if c == "\\":
            at += 2
            continue
        if c == "'" and opening == "(":
            at = text.find("'", at + 1)
            if at < 0:
                return end
        elif c == '"':
            at = _quoted_end(text, at + 1) - 1
        elif text.startswith(("${", "$("), at) and text[at + 1] != opening:
            at = balanced(text, at + 2, text[at + 1], "}" if text[at + 1] == "{" else ")") - 1
        elif c == opening:
            depth += 1
        elif c == closing:
            depth -= 1
            if depth == 0:
                return at + 1
        at += 1
    return end


def _quoted_end(text: str, at: int) -> int:
    """The index behind the closing double quote."""
    while at < len(text):
        if text[at] == "\\":
            at += 2
            continue
        if text[at] == '"':
            return at + 1
        if text.startswith(("${", "$("), at):
            at = balanced(text, at + 2, text[at + 1], "}" if text[at + 1] == "{" else ")")
            continue
        at += 1
    return len(text)


class _Run:
    """One pass over a raw word."""

    def __init__(self, scope: Scope, raw: Text, *, split: bool, heredoc: bool = False) -> None:
        self._scope, self._raw, self._plain = scope, raw, raw.plain
        self._split, self._heredoc = split, heredoc
        self._done: list[Text] = []
        self._current, self._exists = EMPTY, False
        self._longest = MAX_VALUE + len(raw.plain)

    def fields(self) -> list[Text]:
        at, quoted, length = 0, False, len(self._plain)
        while at < length:
            c = self._plain[at]
            if c == "\\":
                at = self._escape(at, quoted)
            elif c == "'" and not quoted and not self._heredoc:
                end = self._plain.find("'", at + 1)
                end = length if end < 0 else end
                self._add(self._raw.slice(at + 1, end))
                at = end + 1
            elif c == '"' and not self._heredoc:
                quoted, self._exists = not quoted, True
                at += 1
            elif c == "$":
                at = self._dollar(at, quoted or self._heredoc)
            elif c == "`":
                end = self._plain.find("`", at + 1)
                end = length if end < 0 else end
                self._insert(self._scope.substitute(self._raw.slice(at + 1, end)), quoted or self._heredoc)
                at = end + 1
            else:
                match = _PLAIN.match(self._plain, at)
                end = match.end() if match is not None else at + 1
                self._add(self._raw.slice(at, end))
                at = end
        if self._exists or self._current:
            self._done.append(self._current)
        return self._done

    def _add(self, text: Text) -> None:
        self._longest -= len(text.plain)
        if self._longest < 0:
            raise TooMuch
        self._current, self._exists = self._current + text, True

    def _escape(self, at: int, quoted: bool) -> int:
        following = self._plain[at + 1 : at + 2]
        if following == "\n":
            return at + 2
        keep = (quoted or self._heredoc) and following not in ("$", "`", "\\", '"' if quoted else "$")
        self._add(self._raw.slice(at if keep else at + 1, at + 2))
        return at + 2

    def _insert(self, value: Text | list[Text], quoted: bool) -> None:
        """A value in place of an expansion: split into fields where it is not quoted."""
        if isinstance(value, list):
            parts = value if quoted or not self._split else [f for entry in value for f in fields(entry)]
            if not self._split:
                self._add(join(parts))
                return
            for number, part in enumerate(parts):
                if number:
                    self._done.append(self._current)
                    self._current = EMPTY
                self._add(part)
            return
        if quoted or not self._split:
            self._add(value)
            return
        plain = value.plain
        parts = list(fields(value))
        if plain[:1].isspace() and (self._current or self._exists):
            self._break()
        for number, part in enumerate(parts):
            if number:
                self._break()
            self._add(part)
        if parts and plain[-1:].isspace():
            self._break()

    def _break(self) -> None:
        if self._exists or self._current:
            self._done.append(self._current)
        self._current, self._exists = EMPTY, False

    def _dollar(self, at: int, quoted: bool) -> int:
        plain = self._plain
        if plain.startswith("$((", at):
            end = balanced(plain, at + 2, "(", ")")
            inner = self._raw.slice(at + 3, max(at + 3, end - 2))
            self._insert(self._arithmetic(inner), quoted)
            return end
        if plain.startswith("$(", at):
            end = balanced(plain, at + 2, "(", ")")
            self._insert(self._scope.substitute(self._raw.slice(at + 2, end - 1)), quoted)
            return end
        if plain.startswith("${", at):
            end = balanced(plain, at + 2, "{", "}")
            self._insert(self._parameter(self._raw.slice(at + 2, end - 1)), quoted)
            return end
        if plain.startswith("$'", at) and not quoted:
            match = re.compile(r"\$'((?:[^'\\]|\\.)*)'", re.DOTALL).match(plain, at)
            if match is not None:
                body = self._raw.slice(match.start(1), match.end(1))
                self._add(body.replaced(body.plain.replace("\\n", "\n").replace("\\t", "\t").replace("\\'", "'")))
                return match.end()
        if plain.startswith('$"', at):
            return at + 1
        match = _NAME.match(plain, at + 1)
        if match is None:
            self._add(self._raw.slice(at, at + 1))
            return at + 1
        self._insert(self._variable(match[0], *self._raw.slice(at, match.end()).place), quoted)
        return match.end()

    def _arithmetic(self, inner: Text) -> Text:
        path, line = inner.place
        value = self._scope.arithmetic(Expander(self._scope).text(inner).assumed if "$" in inner.plain else inner.plain)
        return of(str(value), path, line) if value is not None else unknown(f"$(({inner.plain[:60]}))", path, line)

    def _variable(self, name: str, path: str, line: int) -> Text | list[Text]:
        value = self._scope.lookup(name)
        if value is None:
            return unknown(f"${name}", path, line) if self._scope.runtime(name) else unset(name, path, line)
        if name in ("@", "*") and isinstance(value, list):
            return value
        return scalar(value)

    # --- ${…} --------------------------------------------------------------------------------------------------------

    def _parameter(self, body: Text) -> Text | list[Text]:
        plain, (path, line) = body.plain, body.place
        if re.fullmatch(r"#.+", plain) and not re.match(r"#[-+=?:#%/]", plain):
            return self._length(plain[1:], path, line)
        if re.fullmatch(r"![A-Za-z_]\w*\[[@*]\]", plain):
            value = self._scope.lookup(plain[1:-3])
            keys = (
                list(value)
                if isinstance(value, dict)
                else [str(i) for i in range(len(value))]
                if isinstance(value, list)
                else ["0"]
            )
            return [of(str(key), path, line) for key in keys]
        if plain.startswith("!"):
            target = self._scope.lookup(plain[1:])
            name = scalar(target).plain if target is not None else ""
            return (
                self._variable(name, path, line) if _NAME.fullmatch(name) else unknown(f"${{{plain[:60]}}}", path, line)
            )
        match = re.match(r"([A-Za-z_]\w*|\d+|[@*#?$!-])(\[(?:[^\[\]]|\[[^\]]*\])*\])?", plain)
        if match is None:
            return unknown(f"${{{plain[:60]}}}", path, line)
        value = self._element(match[1], match[2])
        return self._operation(match[1], value, body.slice(match.end(), len(plain)), path, line)

    def _length(self, name: str, path: str, line: int) -> Text:
        base = re.sub(r"\[[@*]\]$", "", name)
        value = self._scope.lookup(base)
        if base != name:
            return of(str(len(value) if isinstance(value, (list, dict)) else int(value is not None)), path, line)
        if value is None:
            return of("0", path, line) if base != name else unset(name, path, line)
        found = scalar(value)
        return of(str(len(found.plain)), path, line) if found.known else unknown(f"${{#{name}}}", path, line)

    def _element(self, name: str, subscript: str | None) -> Text | list[Text] | None:
        value = self._scope.lookup(name)
        if subscript is None:
            return value if value is None or (name in ("@", "*") and isinstance(value, list)) else scalar(value)
        key = subscript[1:-1]
        if key in ("@", "*"):
            if value is None:
                return []
            return list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else [value]
        if isinstance(value, dict):
            return value.get(Expander(self._scope).text(of(key, "", 1)).plain)
        if value is None:
            return None
        index = self._scope.arithmetic(Expander(self._scope).text(of(key, "", 1)).plain)
        members = value if isinstance(value, list) else [value]
        if index is None:
            return unknown(f"${{{name}[{key[:40]}]}}", *(members[0].place if members else ("", 1)), why="ambiguous")
        return members[index] if -len(members) <= index < len(members) else None

    def _operation(
        self, name: str, value: Text | list[Text] | None, rest: Text, path: str, line: int
    ) -> Text | list[Text]:
        operator = rest.plain
        if value is None and self._scope.runtime(name):
            value = unknown(f"${name}", path, line)
        if not operator:
            return unset(name, path, line) if value is None else value
        default = re.match(r":?([-=+?])", operator)
        if default is not None:
            return self._default(name, value, rest, default, path, line)
        if value is None:
            return unset(name, path, line)
        if operator[0] == ":":
            return self._substring(value, operator[1:], f"${{{name}{operator[:40]}}}")
        change = self._change(rest)
        if change is None:
            return value
        if isinstance(value, list):
            return [change(entry) for entry in value]
        return change(value)

    def _default(
        self, name: str, value: Text | list[Text] | None, rest: Text, match: re.Match[str], path: str, line: int
    ) -> Text | list[Text]:
        colon, kind = match[0].startswith(":"), match[1]
        alternative = rest.slice(match.end(), len(rest.plain))
        given = value is not None and not _nothing_sets(value) and not (colon and not _filled(value))
        if kind == "+":
            return self._words(alternative) if given else EMPTY
        if given and value is not None:
            return value
        if kind == "?":
            return unset(name, path, line)
        found = self._words(alternative)
        if kind == "=" and re.fullmatch(r"[A-Za-z_]\w*", name):
            self._scope.assign(name, found if isinstance(found, Text) else join(found))
        return found

    def _words(self, raw: Text) -> Text | list[Text]:
        """The word behind ``:-``: quotes in it hold fields together, as in ``${X:+--tp "$X"}``."""
        if "@" in raw.plain or '"' in raw.plain:
            found = _Run(self._scope, raw, split=True).fields() if re.search(r"\[@\]|\$@", raw.plain) else None
            if found is not None:
                return found
        return Expander(self._scope).text(raw)

    def _substring(self, value: Text | list[Text], spec: str, name: str) -> Text | list[Text]:
        first, _, second = spec.partition(":")
        start = self._scope.arithmetic(Expander(self._scope).text(of(first, "", 1)).plain)
        length = self._scope.arithmetic(Expander(self._scope).text(of(second, "", 1)).plain) if second else None
        if start is None or (second and length is None):
            return unknown(name, *(value.place if isinstance(value, Text) else ("", 1)))
        if isinstance(value, list):
            # "${@:2}" counts from 1: $0 is the element before the first.
            begin = max(0, start - 1) if name.startswith(("${@", "${*")) else start
            return value[begin:] if length is None else value[begin : begin + length]
        size = len(value.plain)
        begin = max(0, size + start) if start < 0 else min(start, size)
        end = size if length is None else size + length if length < 0 else begin + length
        return value.slice(begin, end) if value.known else value

    def _change(self, rest: Text) -> Callable[[Text], Text] | None:
        """``#``, ``##``, ``%``, ``%%``, ``/``, ``//``, ``^^``, ``,,`` as a function of the value."""
        operator = rest.plain
        expand = Expander(self._scope).text
        for sign in ("##", "%%", "#", "%"):
            if operator.startswith(sign):
                pattern = expand(rest.slice(len(sign), len(operator))).plain
                return lambda value: _trimmed(value, sign, pattern)
        if operator[0] == "/":
            whole = operator.startswith("//")
            body = operator[2 if whole else 1 :]
            pattern, _, replacement = body.partition("/") if not body.startswith("/") else body[1:].partition("/")
            found, new = expand(of(pattern, "", 1)).plain, expand(of(replacement, "", 1)).plain
            return lambda value: _replaced(value, found, new, whole)
        if operator in ("^^", "^", ",,", ","):
            upper = operator[0] == "^"
            return lambda value: (
                value.replaced(_cased(value.plain, upper, len(operator) == 2)) if value.known else value
            )
        return None


def scalar(value: Value) -> Text:
    """A variable without a subscript: an array gives its first element."""
    if isinstance(value, Text):
        return value
    members = list(value.values()) if isinstance(value, dict) else value
    return members[0] if members else EMPTY


def _filled(value: Text | list[Text]) -> bool:
    return bool(value.assumed) if isinstance(value, Text) else any(entry.assumed for entry in value)


def _nothing_sets(value: Text | list[Text]) -> bool:
    """True for a value that is nothing but variables that nothing sets."""
    return isinstance(value, Text) and bool(value.plain) and not value.assumed


def _trimmed(value: Text, sign: str, pattern: str) -> Text:
    if OPEN in value.plain or OPEN in pattern:
        return value
    if costly(pattern, value.plain):
        raise TooMuch
    regex, plain = glob_regex(pattern), value.plain[:20_000]
    here = len(HERE) if plain.startswith(HERE) else 0
    spans = range(here, len(plain) + 1)
    order = spans if sign in ("#", "%%") else reversed(spans)
    for at in order:
        if sign[0] == "#" and regex.fullmatch(plain, here, at):
            return value.slice(at, len(plain))
        if sign[0] == "%" and regex.fullmatch(plain, at):
            return value.slice(0, at)
    return value


def _replaced(value: Text, pattern: str, new: str, whole: bool) -> Text:
    if OPEN in value.plain or OPEN in pattern:
        return value
    if costly(pattern, value.plain) or len(value.plain) * len(new) > MAX_VALUE * 64:
        raise TooMuch
    prefix = "" if not pattern.startswith(("#", "%")) else pattern[0]
    regex = glob_regex(pattern[1:] if prefix else pattern).pattern.replace(".*", ".*?")
    regex = {"": regex, "#": f"^(?:{regex})", "%": f"(?:{regex})$"}[prefix]
    if not pattern:
        return value
    changed = re.sub(regex, lambda _: new, value.plain[:20_000], count=0 if whole else 1)
    return value.replaced(changed)


def _cased(text: str, upper: bool, whole: bool) -> str:
    change = str.upper if upper else str.lower
    return change(text) if whole else change(text[:1]) + text[1:]


_MAX_BRACES: Final = 256


def braces(text: Text) -> list[Text]:
    """``{0..7}`` and ``{a,b}`` of a whole word, as the lists of loops use them."""
    match = re.fullmatch(r"(.*?)\{([^{}]*)\}(.*)", text.plain, re.DOTALL)
    if match is None or OPEN in text.plain:
        return [text]
    span = re.fullmatch(r"(-?\d+)\.\.(-?\d+)(?:\.\.(\d+))?", match[2])
    if span is not None:
        low, high, step = int(span[1]), int(span[2]), int(span[3] or 1) or 1
        numbers = range(low, high + 1, step) if low <= high else range(low, high - 1, -step)
        return [text.replaced(f"{match[1]}{n}{match[3]}") for n in numbers[:_MAX_BRACES]]
    if "," not in match[2]:
        return [text]
    return [text.replaced(f"{match[1]}{part}{match[3]}") for part in match[2].split(",")[:_MAX_BRACES]]
