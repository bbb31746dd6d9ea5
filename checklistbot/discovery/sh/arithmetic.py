"""Shell arithmetic: ``$(( … ))`` and ``(( … ))`` over whole numbers; None where a part is not known."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from checklistbot.lazy import pattern

_TOKEN = pattern(
    r"\s*(0[xX][0-9a-fA-F]+|\d+#\w+|\d+|[A-Za-z_]\w*|<<=|>>=|\*\*|<<|>>|<=|>=|==|!=|&&|\|\||\+\+|--|[-+*/%&|^]=|[-+*/%<>=!~&|^?:(),\[\]])"
)
_LEVELS: Final = {
    "||": 1, "&&": 2, "|": 3, "^": 4, "&": 5, "==": 6, "!=": 6, "<": 7, ">": 7, "<=": 7, ">=": 7,
    "<<": 8, ">>": 8, "+": 9, "-": 9, "*": 10, "/": 10, "%": 10, "**": 11,
}  # fmt: skip
_LIMIT: Final = 1 << 128


class _Bad(Exception):
    pass


def evaluate(text: str, get: Callable[[str], str | None], set_: Callable[[str, int | None], None]) -> int | None:
    """The value of an expression; ``get`` gives a variable's text (None: not known), ``set_`` takes assignments."""
    try:
        return _Reader(text, get, set_).whole()
    except (_Bad, ZeroDivisionError, OverflowError, ValueError, RecursionError):
        return None


class _Reader:
    def __init__(self, text: str, get: Callable[[str], str | None], set_: Callable[[str, int | None], None]) -> None:
        self._tokens: list[str] = []
        at = 0
        text = text.replace("$", " ").rstrip()[:4_000]
        while at < len(text):
            match = _TOKEN.match(text, at)
            if match is None:
                raise _Bad
            self._tokens.append(match[1])
            at = match.end()
        self._at, self._get, self._set, self._depth = 0, get, set_, 0

    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _next(self) -> str:
        token = self._peek()
        self._at += 1
        return token

    def whole(self) -> int | None:
        value = self._comma()
        if self._peek():
            raise _Bad
        return value

    def _comma(self) -> int | None:
        value = self._assignment()
        while self._peek() == ",":
            self._next()
            value = self._assignment()
        return value

    def _assignment(self) -> int | None:
        token = self._peek()
        following = self._tokens[self._at + 1] if self._at + 1 < len(self._tokens) else ""
        if re.fullmatch(r"[A-Za-z_]\w*", token) and re.fullmatch(r"(?:<<|>>|[-+*/%&|^])?=", following):
            self._at += 2
            right = self._assignment()
            value = right if following == "=" else _apply(following[:-1], self._variable(token), right)
            self._set(token, value)
            return value
        return self._ternary()

    def _ternary(self) -> int | None:
        condition = self._binary(1)
        if self._peek() != "?":
            return condition
        self._next()
        yes = self._assignment()
        if self._next() != ":":
            raise _Bad
        no = self._assignment()
        if condition is None:
            return yes if yes == no else None
        return yes if condition else no

    def _binary(self, level: int) -> int | None:
        left = self._unary()
        while _LEVELS.get(self._peek(), 0) >= level:
            operator = self._next()
            right = self._binary(_LEVELS[operator] + (operator != "**"))
            left = _apply(operator, left, right)
        return left

    def _unary(self) -> int | None:
        self._depth += 1
        if self._depth > 200:
            raise _Bad
        token = self._next()
        if token in ("-", "+", "!", "~"):
            value = self._unary()
            if value is None:
                return None
            return {"-": -value, "+": value, "!": int(not value), "~": ~value}[token]
        if token in ("++", "--"):
            name = self._next()
            value = _apply(token[0], self._variable(name), 1)
            self._set(name, value)
            return value
        if token == "(":  # noqa: S105
            value = self._comma()
            if self._next() != ")":
                raise _Bad
            return value
        if re.fullmatch(r"[A-Za-z_]\w*", token):
            value = self._variable(token)
            if self._peek() in ("++", "--"):
                self._set(token, _apply(self._next()[0], value, 1))
            return value
        return _number(token)

    def _variable(self, name: str) -> int | None:
        text = self._get(name)
        if text is None:
            return None
        text = text.strip()
        return (
            _number(text)
            if re.fullmatch(r"[-+]?\w+", text) and not re.match(r"[A-Za-z_]", text)
            else 0
            if not text
            else None
        )


def _number(token: str) -> int:
    if "#" in token:
        base, _, digits = token.partition("#")
        return int(digits, int(base))
    if re.fullmatch(r"0[0-7]+", token):
        return int(token, 8)
    return int(token, 0) if token[:2].lower() == "0x" else int(token)


def _apply(operator: str, left: int | None, right: int | None) -> int | None:
    if left is None or right is None:
        return None
    if operator == "**":
        if right < 0 or right > 64:
            raise _Bad
        return int(left**right)
    if operator in ("<<", ">>") and not 0 <= right <= 64:
        raise _Bad
    operations: dict[str, Callable[[int, int], int]] = {
        "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b,
        "/": lambda a, b: int(a / b) if abs(a) < 1 << 52 else a // b, "%": lambda a, b: a - b * int(a / b),
        "<<": lambda a, b: a << b, ">>": lambda a, b: a >> b, "<": lambda a, b: int(a < b), ">": lambda a, b: int(a > b),
        "<=": lambda a, b: int(a <= b), ">=": lambda a, b: int(a >= b), "==": lambda a, b: int(a == b), "!=": lambda a, b: int(a != b),
        "&": lambda a, b: a & b, "|": lambda a, b: a | b, "^": lambda a, b: a ^ b,
        "&&": lambda a, b: int(bool(a) and bool(b)), "||": lambda a, b: int(bool(a) or bool(b)),
    }  # fmt: skip
    value = operations[operator](left, right)
    if abs(value) > _LIMIT:
        raise _Bad
    return value
