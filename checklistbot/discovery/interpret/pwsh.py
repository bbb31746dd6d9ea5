"""A small reader of PowerShell: enough to know what a launcher's variables hold when it calls a program.

Own reader: there is no PowerShell parser for Python that is kept up; what launchers use is assignments, arrays, splatting, string
interpolation and calls. Control flow is read as written; a condition on a parameter is decided by its default, any other is
taken as not met where it only adds arguments.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import field
from typing import Final

from checklistbot.discovery.interpret.marks import Place, mark, settled, without_marks, word
from checklistbot.discovery.limits import gave_up
from checklistbot.discovery.tree import Tree
from checklistbot.engines.base import Launch, Word
from checklistbot.lazy import pattern
from checklistbot.record import mutable_record

MAX_TOKENS: Final = 40_000
MAX_DEPTH: Final = 40
MAX_ITEMS: Final = 5_000
MAX_TEXT: Final = 100_000
_BLOCKS: Final = {"<#": pattern("#>"), '@"': pattern(r'\n[ \t]*"@'), "@'": pattern(r"\n[ \t]*'@")}
_TOKEN = pattern(
    r"""(?P<comment>\#[^\n]*)|(?P<continue>`\r?\n)|(?P<newline>\r?\n|;)|(?P<space>[ \t]+)"""
    r"""|(?P<string>"(?:[^"`]|`.|"")*")|(?P<literal>'(?:[^']|'')*')"""
    r"""|(?P<type>\[[\w.\[\],]{1,120}(?:\([^)\n]{0,200}\))?\](?=\s*[$\[]))|(?P<splat>@\w+)|(?P<open>@\(|@\{|\$\(|[({\[])|(?P<close>[)}\]])"""
    r"""|(?P<variable>\$\{[^}]+\}|\$(?:env:|script:|global:|local:)?\w+(?:\.\w+)*)|(?P<op>\+=|-eq|-ne|=|\||,|&(?!&))"""
    r"""|(?P<word>[^\s;"'(){}\[\],|]+)""",
    re.DOTALL | re.VERBOSE | re.IGNORECASE,
)


#: Commands whose result a script keeps while what they start is what counts.
_STARTERS: Final = frozenset({"start-process", "saps", "invoke-expression", "iex"})
_JOINED: Final = frozenset({"join-path", "resolve-path"})


@mutable_record
class Token:
    kind: str
    text: str
    line: int


@mutable_record
class Text:
    text: str
    line: int


@mutable_record
class Array:
    items: list[Text] = field(default_factory=list)


@mutable_record
class Table:
    items: dict[str, Text | Array] = field(default_factory=dict)


Held = Text | Array | Table


def find(tree: Tree, path: str, text: str) -> list[Launch]:
    """The launches of a script; on text that is no PowerShell whatever could be read."""
    return list(_Script(tree, path, without_marks(text)).run())


def _tokens(text: str) -> Iterator[Token]:
    at, line, count = 0, 1, 0
    blocks = _Blocks(text)
    while at < len(text):
        if count >= MAX_TOKENS:
            gave_up()
            return
        end = blocks.end(at)
        if end is not None:
            kind, stop = ("comment" if text[at] == "<" else "here"), end
        else:
            match = _TOKEN.match(text, at)
            if match is None or match.end() == at:
                line += text[at] == "\n"
                at += 1
                continue
            kind, stop = match.lastgroup or "word", match.end()
        body = text[at:stop]
        if kind not in ("comment", "continue"):
            yield Token(kind, body, line)
            count += 1
        line += body.count("\n")
        at = stop


class _Blocks:
    """Block comments and here-strings; an end that is not there is looked for once."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._open_ended: set[str] = set()

    def end(self, at: int) -> int | None:
        """Where the block that begins here ends, None where none begins."""
        start = self._text[at : at + 2]
        closing = _BLOCKS.get(start)
        if closing is None or start in self._open_ended:
            return None
        if start != "<#" and not self._text.startswith(("\n", "\r\n"), at + 2):
            return None
        match = closing.search(self._text, at + 2)
        if match is None:
            self._open_ended.add(start)
            return None
        return match.end()


class _Script:
    def __init__(self, tree: Tree, path: str, text: str) -> None:
        self.tree, self.path = tree, path
        self.tokens = list(_tokens(text))
        self.at = 0
        self.variables: dict[str, Held] = {}
        self.env: dict[str, Word] = {}
        self.found: list[Launch] = []
        self.depth = 0
        #: Where a block ends whose condition held: the ``else`` behind it is not taken.
        self.taken: set[int] = set()

    def run(self) -> list[Launch]:
        while self.at < len(self.tokens):
            before = self.at
            self._statement()
            if self.at == before:
                self.at += 1
        return self.found

    # --- tokens -----------------------------------------------------------------------------------------------------------

    def peek(self, skip: bool = True) -> Token | None:
        while skip and self.at < len(self.tokens) and self.tokens[self.at].kind == "space":
            self.at += 1
        return self.tokens[self.at] if self.at < len(self.tokens) else None

    def skip_lines(self) -> None:
        while (token := self.peek()) is not None and token.kind == "newline":
            self.at += 1

    # --- statements -------------------------------------------------------------------------------------------------------

    def _statement(self) -> None:
        self.skip_lines()
        token = self.peek()
        if token is None:
            return
        lowered = token.text.lower()
        if lowered == "param":
            self.at += 1
            self._parameters()
        elif token.kind == "variable" or token.kind == "type":
            self._assignment()
        elif lowered in ("else", "elseif") and self._after_taken():
            self._skip_block(collect=True)
            self.taken.add(self.at)
        elif lowered in ("if", "elseif", "while", "foreach", "for", "switch"):
            self._conditional(lowered)
        elif lowered in ("function", "filter"):
            self._until_block()
        elif (
            token.kind == "close"
            or token.text in ("{", "(")
            or lowered in ("else", "try", "finally", "begin", "process", "end", "do")
        ):
            self.at += 1
        elif lowered == "catch":
            self._skip_block()
        else:
            self._call()

    def _until_block(self) -> None:
        """A function is read as if it were called with its defaults."""
        while (token := self.peek()) is not None and token.text not in ("{", "("):
            self.at += 1
        if token is not None and token.text == "(":
            self.at += 1
            self.at -= 1
            self._parameters()

    def _conditional(self, keyword: str) -> None:
        self.at += 1
        token = self.peek()
        truth: bool | None = None
        if token is not None and token.text == "(":
            truth = self._condition()
        if keyword in ("if", "elseif") and truth is not True:
            self.skip_lines()
            self._skip_block(collect=truth is None)
        elif keyword in ("if", "elseif"):
            start = self.at
            self._skip_block(collect=True)
            self.taken.add(self.at)
            self.at = start

    def _after_taken(self) -> bool:
        """True if the block before this ``else`` was read."""
        before = self.at
        while before > 0 and self.tokens[before - 1].kind in ("space", "newline"):
            before -= 1
        return before in self.taken

    def _condition(self) -> bool | None:
        """Only ``($Var)``, ``(-not $Var)`` and comparisons of a variable with a literal are decided."""
        start = self.at
        self._skip_brackets()
        inside = [t for t in self.tokens[start + 1 : self.at - 1] if t.kind != "space"]
        negated = bool(inside) and inside[0].text.lower() in ("-not", "!")
        inside = inside[1:] if negated else inside
        if "test-path" in {t.text.lower() for t in inside[:2]}:
            # A launcher looks whether its program and model are there; it is read as where they are.
            return not negated
        if not inside or inside[0].kind != "variable" or inside[0].text.lower().startswith("$env:"):
            return (
                False
                if inside and inside[0].text.lower().startswith("$env:") and len(inside) == 1 and not negated
                else None
            )
        held = self._lookup(inside[0].text)
        if held is None:
            return None
        text = held.text if isinstance(held, Text) else "1"
        if len(inside) == 1:
            truth = text.lower() not in ("", "false", "0", "null")
            return truth != negated
        if len(inside) == 3 and inside[1].text.lower() in ("-eq", "-ne"):
            same = text.lower() == inside[2].text.strip("\"'").lower()
            return (same == (inside[1].text.lower() == "-eq")) != negated
        return None

    def _skip_brackets(self) -> None:
        depth = 0
        while self.at < len(self.tokens):
            token = self.tokens[self.at]
            self.at += 1
            depth += token.kind == "open"
            depth -= token.kind == "close"
            if depth <= 0:
                return

    def _skip_block(self, collect: bool = False) -> None:
        while (token := self.peek()) is not None and token.text != "{":
            if token.kind == "newline" and not collect:
                return
            self.at += 1
        if token is not None:
            self._skip_brackets()

    def _parameters(self) -> None:
        """``param([int]$Ctx = 8192, [switch]$Fast)``: what has no default is unknown, a switch is off."""
        token = self.peek()
        if token is None or token.text != "(":
            return
        self.at += 1
        kind = ""
        while (token := self.peek()) is not None and token.kind != "close":
            self.at += 1
            if token.kind == "type" or (token.kind == "open" and token.text == "["):
                if token.kind == "open":
                    self.at -= 1
                    self._skip_brackets()
                else:
                    kind = token.text.lower()
            elif token.kind == "variable":
                name = token.text[1:].lower()
                following = self.peek()
                if following is not None and following.text == "=":
                    self.at += 1
                    self.variables[name] = self._value(comma=False)
                elif "switch" in kind or "bool" in kind:
                    self.variables[name] = Text("", token.line)
                else:
                    self.variables[name] = Text(mark(token.text), token.line)
                kind = ""
        self.at += 1

    def _assignment(self) -> None:
        while (token := self.peek()) is not None and token.kind == "type":
            self.at += 1
        if token is None or token.kind != "variable":
            return None
        name, line = token.text[1:], token.line
        self.at += 1
        following = self.peek()
        if following is None or following.text not in ("=", "+="):
            return self._rest_of_line()
        self.at += 1
        append = following.text == "+="
        after = self.peek()
        if after is not None and (after.text == "&" or after.text.lower() in _STARTERS):
            return None
        value = self._value()
        if name.lower().startswith("env:"):
            if isinstance(value, Text):
                self.env[name[4:]] = settled(value.text, (self.path, line))
            return None
        self._store(name, value, append)
        return None

    def _store(self, name: str, value: Held, append: bool) -> None:
        key = name.strip("{}").lower().removeprefix("script:").removeprefix("global:").removeprefix("local:")
        before = self.variables.get(key)
        if append and isinstance(before, Array):
            more = value.items if isinstance(value, Array) else [value] if isinstance(value, Text) else []
            self.variables[key] = Array([*before.items, *more][:MAX_ITEMS])
        elif append and isinstance(before, Text) and isinstance(value, Text):
            self.variables[key] = Text((before.text + value.text)[:MAX_TEXT], before.line)
        else:
            self.variables[key] = value

    def _rest_of_line(self) -> None:
        while (token := self.peek()) is not None and token.kind != "newline":
            self.at += 1

    # --- values -----------------------------------------------------------------------------------------------------------

    def _value(self, *, comma: bool = True) -> Held:
        """An expression: one operand, or several with commas between (an array)."""
        items: list[Text] = []
        several = False
        held: Held = Text("", 0)
        while True:
            held = self._operand()
            held = self._operators(held)
            items += held.items if isinstance(held, Array) else [held] if isinstance(held, Text) else []
            token = self.peek()
            if not comma or token is None or token.text != ",":
                break
            self.at += 1
            self.skip_lines()
            several = True
        return Array(items[:MAX_ITEMS]) if several else held

    def _operators(self, held: Held) -> Held:
        token = self.peek()
        while token is not None and token.text in ("+", "*", "-", "/"):
            self.at += 1
            right = self._operand()
            held = _arithmetic(token.text, held, right)
            token = self.peek()
        if token is not None and token.text.lower() in ("-join", "-f", "-split", "-replace", "-as"):
            self.at += 1
            right = self._value()
            if token.text.lower() == "-join" and isinstance(held, Array) and isinstance(right, Text):
                line = held.items[0].line if held.items else right.line
                return Text(right.text.join(i.text for i in held.items), line)
            if token.text.lower() == "-f" and isinstance(held, Text):
                values = right.items if isinstance(right, Array) else [right] if isinstance(right, Text) else []
                return Text(
                    re.sub(
                        r"\{(\d+)[^}]*\}",
                        lambda m: values[int(m[1])].text if int(m[1]) < len(values) else m[0],
                        held.text,
                    ),
                    held.line,
                )
        return held

    def _operand(self) -> Held:
        token = self.peek()
        if token is None or token.kind == "newline" or self.depth > MAX_DEPTH:
            return Text("", token.line if token else 0)
        self.at += 1
        if token.kind == "type":
            return self._operand()
        if token.kind in ("string", "literal", "here"):
            return Text(self._string(token), token.line + (token.kind == "here"))
        if token.kind == "variable":
            held = self._lookup(token.text)
            return held if held is not None else Text(self._unknown(token.text), token.line)
        if token.kind == "open":
            return self._brackets(token)
        if token.text.lower() in _JOINED:
            return self._joined_path(token)
        number = re.fullmatch(r"(\d+)(kb|mb|gb)?", token.text, re.IGNORECASE)
        if number is not None and number[2]:
            return Text(str(int(number[1][:15]) * 1024 ** ("kmg".index(number[2][0].lower()) + 1)), token.line)
        return Text(token.text, token.line)

    def _joined_path(self, token: Token) -> Held:
        """``Join-Path A B`` (with or without ``-Path``, ``-ChildPath``) and ``Resolve-Path A``."""
        parts: list[str] = []
        while (
            (part := self.peek()) is not None and part.kind not in ("newline", "close") and part.text not in ("|", ",")
        ):
            if part.text.lower() in ("-path", "-childpath", "-literalpath", "-additionalchildpath"):
                self.at += 1
                continue
            held = self._operand()
            if isinstance(held, Text) and len(parts) < 20:
                parts.append(held.text.strip("\\/") if parts else held.text.rstrip("\\/"))
        return Text("\\".join(parts)[:MAX_TEXT], token.line)

    def _brackets(self, token: Token) -> Held:
        self.depth += 1
        try:
            if token.text == "@{":
                return self._table()
            if token.text == "@(":
                return self._array()
            if token.text == "(":
                self.skip_lines()
                first = self.peek()
                if (
                    first is not None
                    and first.kind == "word"
                    and first.text.lower() not in _JOINED
                    and not re.fullmatch(r"[\d.]+|-\w.*", first.text)
                ):
                    self.at -= 1
                    while self.tokens[self.at].text != "(":
                        self.at -= 1
                    self._skip_brackets()
                    return Text(mark(first.text), token.line)
                held = self._value()
                while (close := self.peek()) is not None and close.kind != "close":
                    self.at += 1
                self.at += 1
                return held
            self.at -= 1
            self._skip_brackets()
            return Text(mark("expression"), token.line)
        finally:
            self.depth -= 1

    def _array(self) -> Array:
        found = Array()
        while True:
            self.skip_lines()
            token = self.peek()
            if token is None or token.kind == "close":
                self.at += 1
                return found
            if token.text == ",":
                self.at += 1
                continue
            before = self.at
            held = self._operators(self._operand())
            found.items += held.items if isinstance(held, Array) else [held] if isinstance(held, Text) else []
            if self.at == before or len(found.items) > 5_000:
                self.at += 1

    def _table(self) -> Table:
        found = Table()
        while True:
            self.skip_lines()
            token = self.peek()
            if token is None or token.kind == "close":
                self.at += 1
                return found
            self.at += 1
            equals = self.peek()
            if equals is not None and equals.text == "=":
                self.at += 1
                value = self._value()
                if isinstance(value, (Text, Array)):
                    found.items[token.text.strip("\"'").lower()] = value

    def _lookup(self, name: str) -> Held | None:
        key = name.lstrip("$").strip("{}").lower()
        if key.startswith("env:"):
            known = self.env.get(name.lstrip("$").strip("{}")[4:])
            return Text(known.text, known.line) if known is not None and known.text is not None else None
        key = key.removeprefix("script:").removeprefix("global:").removeprefix("local:")
        if key in ("true", "false", "null"):
            return Text("" if key == "null" else key, 0)
        if key in self.variables:
            return self.variables[key]
        base, _, rest = key.partition(".")
        held = self.variables.get(base)
        if isinstance(held, Table) and rest in held.items:
            return held.items[rest]
        return None

    def _unknown(self, name: str) -> str:
        return mark(name.strip("${}"))

    def _string(self, token: Token) -> str:
        if token.kind == "literal":
            return token.text[1:-1].replace("''", "'")
        if token.kind == "here":
            body = token.text[2:-2].strip("\r\n")
            return self._interpolated(body) if token.text.startswith('@"') else body
        return self._interpolated(token.text[1:-1].replace('""', '"'))

    def _interpolated(self, text: str) -> str:
        def one(match: re.Match[str]) -> str:
            if match[0].startswith("`"):
                return {"n": "\n", "t": "\t", "`": "`"}.get(match[0][1:], match[0][1:])
            if match[0].startswith("$("):
                inner = match[0][2:-1].strip()
                held = self._lookup(inner) if re.fullmatch(r"\$[\w.:]+", inner) else None
                return held.text if isinstance(held, Text) else mark(inner.lstrip("$"))
            held = self._lookup(match[0])
            if isinstance(held, Array):
                return " ".join(i.text for i in held.items)
            return held.text if isinstance(held, Text) else self._unknown(match[0])

        return re.sub(r"`.|\$\([^()]*\)|\$\{[^}]+\}|\$(?:env:)?\w+", one, text, flags=re.DOTALL)

    # --- calls ------------------------------------------------------------------------------------------------------------

    def _call(self) -> None:
        token = self.peek()
        if token is None:
            return
        if token.text in ("&", "."):
            self.at += 1
        line = token.line
        words: list[Text] = []
        tables: list[Table] = []
        while (token := self.peek()) is not None and token.kind not in ("newline", "close") and token.text != "|":
            if token.kind == "splat":
                self.at += 1
                held = self.variables.get(token.text[1:].lower())
                words += held.items if isinstance(held, Array) else []
                tables += [held] if isinstance(held, Table) else []
            elif token.text in (",", "{"):
                self.at += 1
            else:
                words += self._argument()
            if len(words) > 5_000:
                break
        if words and (words[0].text.lower() in ("start-process", "saps", "start")):
            words = _start_process(words, tables)
        self._emit(words, line)

    def _argument(self) -> list[Text]:
        """One argument: adjoining pieces (``--port=$Port``) belong together."""
        first = self.tokens[self.at]
        held = self._operand()
        if not isinstance(held, Text):
            return held.items if isinstance(held, Array) else []
        text = self._interpolated(held.text) if first.kind == "word" and "$" in held.text else held.text
        while self.at < len(self.tokens) and self.tokens[self.at].kind in (
            "variable",
            "string",
            "literal",
            "word",
            "open",
        ):
            if self.tokens[self.at].text in ("{", "@{"):
                break
            more = self._operand()
            text += more.text if isinstance(more, Text) else ""
        return [Text(text, held.line or first.line)]

    def _emit(self, words: list[Text], line: int) -> None:
        from checklistbot.discovery.launches import expand, run_shell

        words = [w for w in words if w.text != ""]
        if not words or len(self.found) > 200:
            return
        stem = re.split(r"[/\\]", self.path)[-1].rpartition(".")[0]
        template = Launch((), self.path, line, stem, env=dict(self.env), format="powershell")
        place: Place = (self.path, line)
        first = words[0].text.lower()
        if first in ("invoke-expression", "iex") and len(words) > 1:
            self.found += run_shell(template, word(words[1].text, place), self.tree)
            return
        if first in ("cmd", "cmd.exe") and len(words) > 2:
            words = words[2:]
        argv = [word(w.text, (self.path, w.line or line)) for w in words]
        self.found += [_at(launch, line) for launch in expand(template, argv, self.tree)]


def _at(launch: Launch, line: int) -> Launch:
    import dataclasses

    return dataclasses.replace(launch, line=line)


def _start_process(words: list[Text], tables: list[Table]) -> list[Text]:
    """``Start-Process -FilePath X -ArgumentList …``: program and arguments."""
    program: list[Text] = []
    arguments: list[Text] = []
    valued = {
        "-workingdirectory",
        "-windowstyle",
        "-redirectstandardoutput",
        "-redirectstandarderror",
        "-redirectstandardinput",
        "-verb",
    }
    at, target = 1, program
    for table in tables:
        for key, held in table.items.items():
            items = held.items if isinstance(held, Array) else [held]
            if key == "filepath":
                program += items
            elif key == "argumentlist":
                arguments += items
    while at < len(words):
        lowered = words[at].text.lower()
        if lowered == "-filepath":
            target = program
        elif lowered in ("-argumentlist", "-args"):
            target = arguments
        elif lowered in valued:
            at += 1
        elif lowered in ("-nonewwindow", "-wait", "-passthru"):
            pass
        else:
            target.append(words[at])
            if target is program:
                target = arguments
        at += 1
    if len(arguments) == 1 and " " in arguments[0].text:
        from checklistbot.discovery.interpret.pylibrary import shell_words
        from checklistbot.discovery.interpret.pyvalues import Const

        split = shell_words(None, Const(("", arguments[0].line), arguments[0].text.replace("\\", "\\\\")))  # type: ignore[arg-type]
        arguments = [Text(str(v.value), v.at[1]) for v in split.data if isinstance(v, Const)]
    return [*program, *arguments]


def _arithmetic(op: str, left: Held, right: Held) -> Held:
    if op == "+" and (isinstance(left, Array) or isinstance(right, Array)):
        items: list[Text] = []
        for side in (left, right):
            items += side.items if isinstance(side, Array) else [side] if isinstance(side, Text) else []
        return Array(items[:MAX_ITEMS])
    if not isinstance(left, Text) or not isinstance(right, Text):
        return left
    if re.fullmatch(r"\d{1,12}", left.text) and re.fullmatch(r"\d{1,12}", right.text):
        a, b = int(left.text), int(right.text)
        value = {"+": a + b, "-": a - b, "*": a * b, "/": a // b if b else 0}[op]
        return Text(str(value), left.line)
    return Text((left.text + right.text)[:MAX_TEXT], left.line) if op == "+" else Text(mark("expression"), left.line)
