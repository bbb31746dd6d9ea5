"""Tests of a script: True, False, or None where only a run could tell."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

from checklistbot.discovery.limits import costly
from checklistbot.discovery.sh.text import HERE, Text
from checklistbot.engines.base import OPEN
from checklistbot.record import record


@record
class Truth:
    """``value`` None: not known. ``assumed``: it rests on a variable that nothing sets being empty."""

    value: bool | None
    assumed: bool = False

    def negated(self) -> Truth:
        return Truth(None if self.value is None else not self.value, self.assumed)


UNKNOWN: Final = Truth(None)


def glob_regex(pattern: str) -> re.Pattern[str]:
    """A shell pattern as a regular expression; ``@(a|b)`` and the like are taken as alternatives."""
    out, at = "", 0
    while at < len(pattern):
        c = pattern[at]
        at += 1
        if c == "\\" and at < len(pattern):
            out += re.escape(pattern[at])
            at += 1
        elif c == "*":
            out += ".*"
        elif c == "?" and pattern[at : at + 1] != "(":
            out += "."
        elif c == "[" and (end := pattern.find("]", at + 1)) > 0:
            out += "[" + re.sub(r"^!", "^", pattern[at:end]).replace("\\", "\\\\") + "]"
            at = end + 1
        elif c in "@+*?!" and pattern[at : at + 1] == "(" and (end := pattern.find(")", at)) > 0:
            out += "(?:" + "|".join(map(re.escape, pattern[at + 1 : end].split("|"))) + ")"
            at = end + 1
        else:
            out += re.escape(c)
    try:
        return re.compile(out, re.DOTALL)
    except re.error:
        return re.compile(re.escape(pattern))


def matches(subject: Text, pattern: str) -> Truth:
    """``[[ subject == pattern ]]`` and the arms of ``case``."""
    assumed = subject.assumed
    if OPEN in assumed or OPEN in pattern or HERE in assumed or costly(pattern, assumed):
        return UNKNOWN
    return Truth(glob_regex(pattern).fullmatch(assumed[:10_000]) is not None, assumed != subject.plain)


Exists = Callable[[str], bool | None]


def evaluate(words: Sequence[Text], exists: Exists, *, patterns: bool = False) -> Truth:
    """The words between ``[`` and ``]``; ``patterns`` for ``[[``, whose right sides are patterns."""
    try:
        return _Reader(list(words), exists, patterns).whole()
    except (IndexError, RecursionError, re.error):
        return UNKNOWN


class _Reader:
    def __init__(self, words: list[Text], exists: Exists, patterns: bool) -> None:
        self._words, self._exists, self._patterns, self._at = words, exists, patterns, 0

    def _peek(self, ahead: int = 0) -> str | None:
        at = self._at + ahead
        return self._words[at].plain if at < len(self._words) else None

    def whole(self) -> Truth:
        value = self._or()
        return value if self._at >= len(self._words) else UNKNOWN

    def _or(self) -> Truth:
        left = self._and()
        while self._peek() in ("||", "-o"):
            self._at += 1
            left = either(left, self._and())
        return left

    def _and(self) -> Truth:
        left = self._not()
        while self._peek() in ("&&", "-a"):
            self._at += 1
            left = both(left, self._not())
        return left

    def _not(self) -> Truth:
        if self._peek() == "!" and self._peek(1) is not None:
            self._at += 1
            return self._not().negated()
        if self._peek() == "(" and len(self._words) > 2:
            self._at += 1
            value = self._or()
            self._at += self._peek() == ")"
            return value
        return self._primary()

    def _primary(self) -> Truth:
        operator = self._peek(1)
        if operator in _BINARY and self._peek(2) is not None:
            left, right = self._words[self._at], self._words[self._at + 2]
            self._at += 3
            return self._binary(left, operator or "", right)
        first = self._words[self._at]
        if re.fullmatch(r"-[a-zA-Z]", first.plain) and self._peek(1) is not None:
            operand = self._words[self._at + 1]
            self._at += 2
            return self._unary(first.plain, operand)
        self._at += 1
        return _known(first, lambda text: bool(text))

    def _unary(self, operator: str, operand: Text) -> Truth:
        if operator in ("-z", "-n"):
            found = _known(operand, lambda text: bool(text) == (operator == "-n"))
            # A value that is only partly known is not empty.
            if found.value is None and re.sub(f"{OPEN}[^\ue0c3]*\ue0c3", "", operand.plain):
                return Truth(operator == "-n")
            return found
        if operator in ("-f", "-e", "-s", "-r", "-d", "-x", "-h", "-L"):
            if OPEN in operand.plain:
                return Truth(None, operand.assumed != operand.plain)
            return Truth(self._exists(operand.plain))
        return UNKNOWN

    def _binary(self, left: Text, operator: str, right: Text) -> Truth:
        assumed = left.assumed != left.plain or right.assumed != right.plain
        a, b = left.assumed, right.assumed
        if OPEN in a or OPEN in b or HERE in a or HERE in b:
            return UNKNOWN
        if operator in _NUMERIC:
            try:
                x, y = int(a or 0), int(b or 0)
            except ValueError:
                return UNKNOWN
            return Truth(_NUMERIC[operator](x, y), assumed)
        if operator == "=~":
            return (
                Truth(re.search(b[:200], a[:2_000]) is not None, assumed)
                if not re.search(r"[*+]\)?[*+]|\)[*+{]", b) and not costly(b, a, "*+?{")
                else UNKNOWN
            )
        if operator in ("<", ">"):
            return Truth(a < b if operator == "<" else a > b, assumed)
        if self._patterns:
            equal = matches(left, b)
            return Truth(equal.value, assumed) if operator != "!=" else Truth(equal.value, assumed).negated()
        return Truth((a == b) == (operator != "!="), assumed)


_NUMERIC: Final[dict[str, Callable[[int, int], bool]]] = {
    "-eq": lambda a, b: a == b,
    "-ne": lambda a, b: a != b,
    "-lt": lambda a, b: a < b,
    "-le": lambda a, b: a <= b,
    "-gt": lambda a, b: a > b,
    "-ge": lambda a, b: a >= b,
}
_BINARY: Final = frozenset({"=", "==", "!=", "=~", "<", ">", *_NUMERIC})


def _known(text: Text, test: Callable[[str], bool]) -> Truth:
    assumed = text.assumed
    return UNKNOWN if OPEN in assumed else Truth(test(assumed), assumed != text.plain)


def both(left: Truth, right: Truth) -> Truth:
    if left.value is False or right.value is False:
        decisive = [t for t in (left, right) if t.value is False]
        return Truth(False, all(t.assumed for t in decisive))
    return UNKNOWN if left.value is None or right.value is None else Truth(True, left.assumed or right.assumed)


def either(left: Truth, right: Truth) -> Truth:
    return both(left.negated(), right.negated()).negated()
