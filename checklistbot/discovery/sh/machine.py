"""Walks a script statement by statement: assignments, loops, functions and tests happen, commands are only looked at.

Where a test cannot be decided both branches are walked and what they leave different becomes ambiguous. A variable that nothing
sets counts as empty in tests, as in bash, but a script is never thought to end because of it (``[ -z "$MODEL" ] && exit 1``).
"""

from __future__ import annotations

import contextlib
import dataclasses
import posixpath
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from checklistbot.discovery import inline
from checklistbot.discovery import launches as commands
from checklistbot.discovery.limits import TooMuch, bounded, gave_up
from checklistbot.discovery.sh import arithmetic, conditions, filters, waiting
from checklistbot.discovery.sh.conditions import UNKNOWN, Truth
from checklistbot.discovery.sh.expand import Expander, Value, braces, scalar
from checklistbot.discovery.sh.text import EMPTY, HERE, Text, from_word, join, of, unknown, unset
from checklistbot.discovery.tree import Tree, Unreadable
from checklistbot.engines.base import CLOSE, OPEN, Launch, Word, mark, settled
from checklistbot.lazy import pattern as lazy_pattern

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

_MAX_STEPS: Final = 20_000
_MAX_TURNS: Final = 128
_MAX_LAUNCHES: Final = 64
_MAX_DEPTH: Final = 8


_RUNTIME: Final = frozenset(
    (
        "$",
        "!",
        "-",
        "RANDOM",
        "SECONDS",
        "HOSTNAME",
        "UID",
        "EUID",
        "PPID",
        "HOME",
        "USER",
        "PWD",
        "OLDPWD",
        "LOGNAME",
        "TMPDIR",
    )
)


class _Leave(Exception):
    """exit, return, break or continue."""

    def __init__(self, kind: str) -> None:
        self.kind = kind


class _Budget(Exception):
    """The script is longer than we walk."""


_parser: Parser | None = None


def parse(source: bytes) -> Node:
    """The syntax tree of a script; broken parts become ERROR nodes, whose children are walked all the same."""
    global _parser
    if _parser is None:
        import tree_sitter
        import tree_sitter_bash

        _parser = tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))
    return _parser.parse(source).root_node


class Script:
    """Source text with a way from the parser's bytes back to lines of files."""

    def __init__(self, text: Text) -> None:
        self.text = text
        self._ascii = text.plain.isascii()
        self._bytes: list[int] = []
        self._chars: list[int] = []
        source = text.plain.encode("utf-8", "replace")
        if not self._ascii:
            at = chars = 0
            for line in text.plain.splitlines(keepends=True):
                self._bytes.append(at)
                self._chars.append(chars)
                at += len(line.encode("utf-8", "replace"))
                chars += len(line)
        self.source = source
        self.root = parse(source)

    def _char(self, offset: int) -> int:
        if self._ascii or not self._bytes:
            return offset
        row = bisect_right(self._bytes, offset) - 1
        start = self._bytes[row]
        return self._chars[row] + len(self.source[start:offset].decode("utf-8", "replace"))

    def cut(self, node: Node) -> Text:
        return self.text.slice(self._char(node.start_byte), self._char(node.end_byte))

    def between(self, start: int, end: int) -> Text:
        return self.text.slice(self._char(start), self._char(end))


class Machine:
    """The state of one shell process."""

    def __init__(self, template: Launch, tree: Tree | None, *, explore: bool = False, depth: int = 0) -> None:
        self.template, self.tree, self.explore, self.depth = template, tree, explore, depth
        self.variables: dict[str, Value] = {}
        self.exported: set[str] = set()
        self.functions: dict[str, tuple[Node, Script]] = {}
        self.called: set[str] = set()
        self.files: dict[str, Text] = {}
        self.positional: list[Text] | None = None
        self.found: list[Launch] = []
        self.output: list[Text] | None = None
        self.stdin: Text | None = None
        self.pins: dict[str, Word] = {}
        self.steps = [0]
        self.function: str | None = None
        self.loop: list[str] = []
        self.scopes: list[dict[str, Value | None]] = []
        self._expander = Expander(self)

    # --- what expansions ask for ---------------------------------------------------------------------------------

    def lookup(self, name: str) -> Value | None:
        if name in ("@", "*"):
            return list(self.positional or [])
        if name == "#":
            return (
                unset("#", self.template.path, 1)
                if self.positional is None
                else of(str(len(self.positional)), self.template.path, 1)
            )
        if name.isdigit() and name != "0":
            members = self.positional or []
            return members[int(name) - 1] if int(name) <= len(members) else None
        if name in self.variables:
            return self.variables[name]
        if name in self.template.env:
            word = self.template.env[name]
            return from_word(word) if word.text is not None else unknown(f"${name}", word.path, word.line)
        if name in ("0", "BASH_SOURCE"):
            return of(HERE + self.template.path, self.template.path, 1)
        if name == "?":
            return of("0", self.template.path, 1)
        return None

    def runtime(self, name: str) -> bool:
        """True for a variable that every shell has, with a value that only a run knows."""
        return name in _RUNTIME

    def assign(self, name: str, value: Value) -> None:
        self.variables[name] = value

    def arithmetic(self, text: str) -> int | None:
        def get(name: str) -> str | None:
            value = self.lookup(name)
            if value is None:
                return None
            found = scalar(value).plain
            return None if OPEN in found or HERE in found else found

        def put(name: str, value: int | None) -> None:
            place = self.template.path, self.template.line
            self.variables[name] = of(str(value), *place) if value is not None else unknown(f"${name}", *place)

        return arithmetic.evaluate(text, get, put)

    def substitute(self, script: Text) -> Text:
        """The output of ``$(…)`` without its last line breaks; a mark where it cannot be known."""
        path, line = script.place
        plain = script.plain.strip()
        if plain.startswith("<"):
            found = self._read_file(self._expander.text(script.slice(script.plain.index("<") + 1, len(script.plain))))
            return _chomped(found) if found is not None else unknown(f"$({plain[:60]})", path, line)
        child = self._subshell()
        child.output = []
        with contextlib.suppress(_Leave):
            child.run(script)
        self.found += child.found
        return _chomped(join(child.output, "")) if child.output else EMPTY

    def _subshell(self) -> Machine:
        child = Machine(self.template, self.tree, explore=self.explore, depth=self.depth + 1)
        child.variables = dict(self.variables)
        child.exported, child.functions, child.called = set(self.exported), dict(self.functions), self.called
        child.files, child.positional, child.steps = self.files, self.positional, self.steps
        child.pins = self.pins
        child.function, child.loop, child.stdin = self.function, list(self.loop), self.stdin
        child.output = self.output
        return child

    # --- statements ----------------------------------------------------------------------------------------------

    def run(self, text: Text) -> None:
        if not text.plain.strip():
            return
        if self.depth > _MAX_DEPTH:
            gave_up()
            return
        script = Script(text)
        self.block(script.root, script)

    def block(self, node: Node, script: Script) -> Truth:
        """Walks the named children of a node; the truth of the last one."""
        result = Truth(True)
        for child in node.named_children:
            result = self.statement(child, script)
        return result

    def statement(self, node: Node, script: Script) -> Truth:
        self.steps[0] += 1
        if self.steps[0] > _MAX_STEPS:
            raise _Budget
        handler = _STATEMENTS.get(node.type)
        if handler is not None:
            return handler(self, node, script)
        if node.type in ("comment", "heredoc_body", "word", "variable_name", "heredoc_start", "heredoc_end"):
            return Truth(True)
        return self.block(node, script)

    def _list(self, node: Node, script: Script) -> Truth:
        """``a && b || c``."""
        children = [child for child in node.children if child.is_named or child.type in ("&&", "||")]
        result = self.statement(children[0], script)
        for at in range(1, len(children) - 1, 2):
            run_if = children[at].type == "&&"
            right = children[at + 1]
            if self._decided(result) is None:
                inner = self._maybe([lambda r=right: self.statement(r, script), lambda: Truth(True)])  # type: ignore[misc]
                result = inner if result.value is None else UNKNOWN
            elif result.value == run_if:
                result = self._assumed(result, lambda r=right: self.statement(r, script), [])  # type: ignore[misc]
        return result

    def _decided(self, truth: Truth) -> bool | None:
        return None if self.explore and truth.assumed else truth.value

    def _if(self, node: Node, script: Script) -> Truth:
        arms = list(_arms(node))
        return self._choose(arms, 0, script)

    def _choose(self, arms: list[tuple[list[Node], list[Node]]], at: int, script: Script) -> Truth:
        if at >= len(arms):
            return Truth(True)
        test, body = arms[at]
        truth = self._conditions(test, script) if test else Truth(True)
        decided = self._decided(truth)

        def taken() -> Truth:
            result = Truth(True)
            for child in body:
                result = self.statement(child, script)
            return result

        def rest() -> Truth:
            return self._choose(arms, at + 1, script)

        if decided is None:
            return self._maybe([taken, rest])
        chosen, other = (taken, rest) if decided else (rest, taken)
        return self._assumed(truth, chosen, [other])

    def _conditions(self, nodes: Sequence[Node], script: Script) -> Truth:
        result = Truth(True)
        for child in nodes:
            result = self.statement(child, script)
        return result

    def _assumed(self, truth: Truth, chosen: Callable[[], Truth], others: list[Callable[[], Truth]]) -> Truth:
        """Walks the chosen way; one that ends the script on a mere assumption is taken back for the others."""
        if not truth.assumed:
            return chosen()
        saved = self._save()
        try:
            return chosen()
        except _Leave as leave:
            if leave.kind not in ("exit", "return"):
                raise
            self._restore(saved)
            return self._maybe(others) if others else Truth(True)

    def _maybe(self, ways: Sequence[Callable[[], Truth]]) -> Truth:
        """Walks each way from the same state and joins what they leave."""
        start = self._save()
        ends: list[dict[str, Value]] = []
        results: list[Truth] = []
        for way in ways:
            self._restore(start)
            try:
                results.append(way())
            except _Leave as leave:
                if leave.kind in ("break", "continue"):
                    ends.append(dict(self.variables))
                continue
            ends.append(dict(self.variables))
        self._restore(start)
        if ends:
            self.variables = _joined(ends)
        return results[0] if len({r.value for r in results}) == 1 else UNKNOWN

    def _save(self) -> tuple[dict[str, Value], list[Text] | None]:
        copied = {
            n: list(v) if isinstance(v, list) else dict(v) if isinstance(v, dict) else v
            for n, v in self.variables.items()
        }
        return copied, list(self.positional) if self.positional is not None else None

    def _restore(self, saved: tuple[dict[str, Value], list[Text] | None]) -> None:
        self.variables = {
            n: list(v) if isinstance(v, list) else dict(v) if isinstance(v, dict) else v for n, v in saved[0].items()
        }
        self.positional = list(saved[1]) if saved[1] is not None else None

    def _case(self, node: Node, script: Script) -> Truth:
        value = node.child_by_field_name("value")
        subject = self._expander.text(script.cut(value)) if value is not None else EMPTY
        items = [child for child in node.named_children if child.type == "case_item"]
        chosen: list[Node] = []
        rest: list[Node] = []
        undecided = False
        for item in items:
            truth = self._arm_matches(subject, item, script)
            if self._decided(truth) is None:
                undecided = True
                rest.append(item)
            elif truth.value and not chosen:
                chosen.append(item)
            else:
                rest.append(item)

        def walk(item: Node) -> Callable[[], Truth]:
            return lambda: self._arm(item, script)

        if undecided or (self.explore and subject.assumed != subject.plain):
            ways = [walk(item) for item in [*chosen, *rest]]
            return self._maybe(ways if chosen else [*ways, lambda: Truth(True)])
        if not chosen:
            return Truth(True)
        return self._assumed(
            Truth(True, subject.assumed != subject.plain), walk(chosen[0]), [walk(item) for item in rest]
        )

    def _arm_matches(self, subject: Text, item: Node, script: Script) -> Truth:
        result = Truth(False)
        for pattern in item.children_by_field_name("value"):
            raw = script.cut(pattern)
            quoted = raw.plain[:1] in "'\""
            expanded = self._expander.text(raw).plain
            truth = conditions.matches(subject, re.sub(r"([*?\[\]])", r"\\\1", expanded) if quoted else expanded)
            result = conditions.either(result, truth)
        return result

    def _arm(self, item: Node, script: Script) -> Truth:
        values = {child.id for child in item.children_by_field_name("value")}
        result = Truth(True)
        for child in item.named_children:
            if child.id not in values:
                result = self.statement(child, script)
        return result

    def _for(self, node: Node, script: Script) -> Truth:
        variable = node.child_by_field_name("variable")
        body = node.child_by_field_name("body")
        if variable is None or body is None:
            return Truth(True)
        name = script.cut(variable).plain
        raws = node.children_by_field_name("value")
        given = any(child.type == "in" for child in node.children)
        members = (
            [w for raw in raws for part in braces(script.cut(raw)) for w in self._expander.words(part)]
            if given
            else list(self.positional or [])
        )
        if node.children and node.children[0].type == "select":
            members = members[:1]
        waits = self._waits(body)
        for turn, member in enumerate(members[:_MAX_TURNS]):
            self.variables[name] = member
            if turn and waits:
                continue
            if not self._turn(body, script, member.plain if member.known else ""):
                break
        return Truth(True)

    def _waits(self, body: Node) -> bool:
        """True if one turn of the loop stands for all of them."""
        return self.output is None and waiting.idle(body)

    def _turn(self, body: Node, script: Script, key: str) -> bool:
        """One turn of a loop; False where it was left by break."""
        self.loop.append(key)
        try:
            self.block(body, script)
        except _Leave as leave:
            if leave.kind == "break":
                return False
            if leave.kind != "continue":
                raise
        finally:
            self.loop.pop()
        return True

    def _c_for(self, node: Node, script: Script) -> Truth:
        body = node.child_by_field_name("body")
        if body is None:
            return Truth(True)
        header = script.between(node.start_byte, body.start_byte).plain
        match = re.match(r"for\s*\(\(([^;]*);([^;]*);(.*)\)\)", header.strip().rstrip(";").strip(), re.DOTALL)
        if match is None:
            self._turn(body, script, "")
            return Truth(True)
        self._number(match[1])
        waits = self._waits(body)
        for turn in range(_MAX_TURNS):
            value = self._number(match[2]) if match[2].strip() else 1
            if value == 0 or (value is None and turn):
                break
            if not (turn and waits) and not self._turn(body, script, str(turn)):
                break
            self._number(match[3])
        return Truth(True)

    def _number(self, expression: str) -> int | None:
        if not expression.strip():
            return None
        return self.arithmetic(self._expander.text(of(expression, self.template.path, self.template.line)).assumed)

    def _while(self, node: Node, script: Script) -> Truth:
        body = node.child_by_field_name("body")
        tests = [child for child in node.children_by_field_name("condition") if child.is_named]
        until = node.children[0].type == "until"
        if body is None:
            return Truth(True)
        for turn in range(_MAX_TURNS):
            truth = self._conditions(tests, script)
            if until:
                truth = truth.negated()
            if truth.value is False:
                break
            if truth.value is None or _endless(tests, script):
                if turn == 0:
                    self._maybe([lambda: Truth(self._turn(body, script, "")), lambda: Truth(True)])
                break
            if not self._turn(body, script, str(turn)):
                break
        return Truth(True)

    def _function(self, node: Node, script: Script) -> Truth:
        name = node.child_by_field_name("name")
        body = node.child_by_field_name("body")
        if name is not None and body is not None:
            self.functions[script.cut(name).plain] = (body, script)
        return Truth(True)

    def _subshell_node(self, node: Node, script: Script) -> Truth:
        child = self._subshell()
        try:
            result = child.block(node, script)
        except _Leave:
            result = UNKNOWN
        self.found += child.found
        return result

    def _compound(self, node: Node, script: Script) -> Truth:
        if node.children and node.children[0].type == "((":
            return self._arithmetic_truth(script.cut(node))
        return self.block(node, script)

    def _arithmetic_truth(self, raw: Text) -> Truth:
        inner = raw.plain.strip().removeprefix("((").removesuffix("))")
        expanded = self._expander.text(of(inner, *raw.place))
        assumed = expanded.assumed
        value = None if OPEN in assumed else self.arithmetic(assumed if assumed.strip() else "0")
        return Truth(None if value is None else value != 0, assumed != expanded.plain)

    def _negated(self, node: Node, script: Script) -> Truth:
        return self.block(node, script).negated()

    def _test(self, node: Node, script: Script) -> Truth:
        raw = script.cut(node)
        plain = raw.plain.strip()
        if plain.startswith("(("):
            return self._arithmetic_truth(raw)
        double = plain.startswith("[[")
        start = raw.plain.find("[") + (2 if double else 1)
        closing = raw.plain.rfind("]")
        if closing < start:  # never closed: the parser made up the end
            return UNKNOWN
        return self._evaluate(raw.slice(start, closing - (1 if double else 0)), double)

    def _evaluate(self, inner: Text, double: bool) -> Truth:
        words: list[Text] = []
        for piece in _test_words(inner):
            if double and piece.plain[:1] == "(" and len(piece.plain) == 1:
                words.append(piece)
                continue
            found = (
                self._expander.text(piece)
                if double or '"' in piece.plain or "'" in piece.plain
                else join(self._expander.words(piece))
            )
            words.append(found)
        return conditions.evaluate(words, self._file_exists, patterns=double)

    def _file_exists(self, path: str) -> bool | None:
        if path.replace(HERE, "") in self.files or path in self.files:
            return True
        if self.tree is not None and any(self.tree.exists(candidate) for candidate in self._candidates(path)):
            return True
        return None

    def _candidates(self, path: str) -> list[str]:
        """Where in the tree a path of the script may lie: from its root, or from beside the script."""
        here = HERE in path
        plain = posixpath.normpath(path.replace(HERE, ""))
        if plain.startswith("/"):
            return []
        beside = posixpath.normpath(posixpath.join(posixpath.dirname(self.template.path), plain))
        return [plain, beside] if here else [beside, plain]

    # --- assignments ---------------------------------------------------------------------------------------------

    def _assignment(self, node: Node, script: Script) -> Truth:
        self.assign_text(script.cut(node))
        return Truth(True)

    def assign_text(self, raw: Text, *, local: bool = False) -> str | None:
        """``NAME=value``, ``NAME+=value``, ``NAME[key]=value``, ``NAME=( … )``; the name, None where it is none."""
        match = re.match(r"([A-Za-z_]\w*)(\[[^\]]*\])?(\+?=)", raw.plain)
        if match is None:
            return None
        name, subscript, operator = match.groups()
        value = raw.slice(match.end(), len(raw.plain))
        if local and self.scopes:
            self.scopes[-1].setdefault(name, self.variables.get(name))
        if value.plain.startswith("(") and subscript is None:
            self._assign_array(name, value, append=operator == "+=")
            return name
        found = self._expander.text(value) if value else of("", *raw.place)
        bounded(found.plain)
        if subscript is not None:
            self._assign_element(name, subscript[1:-1], found)
        elif operator == "+=":
            old = self.variables.get(name)
            if isinstance(old, list) and old:
                old[0] = old[0] + found
            else:
                longer = (scalar(old) if old is not None else EMPTY) + found
                bounded(longer.plain)
                self.variables[name] = longer
        else:
            self.variables[name] = found if found else Text((("", *raw.place),))
        return name

    def _assign_element(self, name: str, key: str, value: Text) -> None:
        old = self.variables.get(name)
        if isinstance(old, dict):
            old[self._expander.text(of(key, *value.place)).plain] = value
            return
        members = list(old) if isinstance(old, list) else []
        index = self._number(key)
        if index is not None and 0 <= index <= len(members) + 64:
            members += [EMPTY] * (index + 1 - len(members))
            members[index] = value
        self.variables[name] = members

    def _assign_array(self, name: str, raw: Text, *, append: bool) -> None:
        members = [w for piece in _array_words(raw) for part in braces(piece) for w in self._array_member(part)]
        old = self.variables.get(name)
        if isinstance(old, dict) or any(re.match(r"\[[^\]\d][^\]]*\]=", m.plain) for m in members):
            table = dict(old) if isinstance(old, dict) and append else {}
            for member in members:
                match = re.match(r"\[([^\]]*)\]=", member.plain)
                if match is not None:
                    table[match[1].strip("'\"")] = member.slice(match.end(), len(member.plain))
            self.variables[name] = table
            return
        plain = [
            m.slice(match.end(), len(m.plain)) if (match := re.match(r"\[\d+\]=", m.plain)) else m for m in members
        ]
        before = old if isinstance(old, list) else [] if old is None else [scalar(old)]
        self.variables[name] = [*before, *plain] if append else plain

    def _array_member(self, raw: Text) -> list[Text]:
        match = re.match(r"\[[^\]]*\]=", raw.plain)
        if match is None:
            return self._expander.words(raw)
        key = self._expander.text(raw.slice(0, match.end()))
        return [key + self._expander.text(raw.slice(match.end(), len(raw.plain)))]

    def _declaration(self, node: Node, script: Script) -> Truth:
        """export, declare, local, readonly, typeset."""
        keyword = node.children[0].type if node.children else ""
        options = ""
        for child in node.named_children:
            raw = script.cut(child)
            if raw.plain.startswith(("-", "+")):
                options += raw.plain
                continue
            name = self.assign_text(raw, local=keyword in ("local", "declare", "typeset"))
            if name is None:
                expanded = self._expander.text(raw)
                name = expanded.plain
                if "=" in name:
                    name = self.assign_text(expanded)
                elif "A" in options:
                    self.variables.setdefault(name, {})
                elif keyword == "local" and self.scopes:
                    self.scopes[-1].setdefault(name, self.variables.get(name))
                    self.variables[name] = EMPTY
            if name and "A" in options and not isinstance(self.variables.get(name), dict):
                self.variables[name] = {}
            if name and (keyword == "export" or "x" in options):
                self.exported.add(name)
        return Truth(True)

    def _unset_node(self, node: Node, script: Script) -> Truth:
        for child in node.named_children:
            self.variables.pop(script.cut(child).plain, None)
        return Truth(True)

    # --- commands ------------------------------------------------------------------------------------------------

    def _redirected(self, node: Node, script: Script) -> Truth:
        """A statement with redirections: heredocs become its input, ``>`` makes a file of its output."""
        body = node.child_by_field_name("body")
        redirects = node.children_by_field_name("redirect")
        saved_in, saved_out = self.stdin, self.output
        target, append, pipeline = self._redirects(redirects, script)
        if target is not None or pipeline is not None:
            self.output = []
        result = Truth(True)
        try:
            if body is not None:
                result = self.statement(body, script)
            elif target is not None and self.stdin is not None:
                self.output = [self.stdin]
        finally:
            written, self.output, self.stdin = self.output, saved_out, saved_in
        if target is not None and written is not None:
            text = join(written, "")
            self.files[target] = self.files.get(target, EMPTY) + text if append else text
        if pipeline is not None:
            self._piped(pipeline, script, join(written or [], ""))
        return result

    def _redirects(self, redirects: Sequence[Node], script: Script) -> tuple[str | None, bool, Node | None]:
        """Sets the input; gives (file that is written, whether it is appended to, pipeline behind a heredoc)."""
        target, append, pipeline = None, False, None
        for redirect in redirects:
            if redirect.type == "heredoc_redirect":
                self.stdin = self._heredoc(redirect, script)
                inner = [child for child in redirect.named_children if child.type in ("file_redirect",)]
                inner_target, inner_append, _ = self._redirects(inner, script)
                target, append = (inner_target, inner_append) if inner_target is not None else (target, append)
                pipeline = next((child for child in redirect.named_children if child.type == "pipeline"), pipeline)
            elif redirect.type == "herestring_redirect":
                raw = redirect.named_children[-1]
                self.stdin = self._expander.text(script.cut(raw)) + of("\n", *script.cut(raw).place)
            elif redirect.type == "file_redirect":
                found = self._file_redirect(redirect, script)
                if found is not None:
                    target, append = found
        return target, append, pipeline

    def _file_redirect(self, redirect: Node, script: Script) -> tuple[str, bool] | None:
        destination = redirect.child_by_field_name("destination")
        operator = next((child.type for child in redirect.children if not child.is_named), "")
        descriptor = redirect.child_by_field_name("descriptor")
        if destination is None or (descriptor is not None and script.cut(descriptor).plain not in ("0", "1")):
            return None
        if operator == "<":
            raw = script.cut(destination)
            if destination.type == "process_substitution":
                self.stdin = self.substitute(raw.slice(2, len(raw.plain) - 1)) + of("\n", *raw.place)
            else:
                self.stdin = self._read_file(self._expander.text(raw))
            return None
        if operator in (">", ">>", ">|", "&>", "&>>"):
            path = self._expander.text(script.cut(destination)).plain
            return (path, operator.endswith(">>")) if path not in ("/dev/null", "/dev/stderr", "/dev/stdout") else None
        return None

    def _heredoc(self, node: Node, script: Script) -> Text:
        body = next((child for child in node.named_children if child.type == "heredoc_body"), None)
        start = next((child for child in node.named_children if child.type == "heredoc_start"), None)
        if body is None or start is None:
            return EMPTY
        raw = script.cut(body)
        if script.source[node.start_byte : node.start_byte + 3] == b"<<-":
            raw = join(
                [
                    Text(tuple((p.lstrip("\t"), path, line) for p, path, line in part.pieces)) + of("\n", *part.place)
                    for part in raw.lines()
                ],
                "",
            )
        quoted = any(mark_ in script.cut(start).plain for mark_ in "'\"\\")
        return raw if quoted else self._expander.heredoc(raw)

    def _read_file(self, name: Text) -> Text | None:
        """A file that the script wrote, or one of the tree."""
        plain = name.plain
        if plain in self.files:
            return self.files[plain]
        mounted = self.template.mounted.get(plain)
        if mounted is not None:
            return of(*mounted)
        if self.tree is None or OPEN in plain:
            return None
        for candidate in self._candidates(plain):
            if self.tree.exists(candidate):
                try:
                    return of(self.tree.read(candidate), candidate, 1)
                except Unreadable:
                    return None
        return None

    def _pipeline(self, node: Node, script: Script) -> Truth:
        stages = [child for child in node.named_children if child.type != "comment"]
        return self._stages(stages, script, self.stdin)

    def _piped(self, node: Node, script: Script, stdin: Text) -> Truth:
        return self._stages([child for child in node.named_children if child.type != "comment"], script, stdin)

    def _stages(self, stages: Sequence[Node], script: Script, stdin: Text | None) -> Truth:
        saved_in, saved_out = self.stdin, self.output
        result = Truth(True)
        try:
            for number, stage in enumerate(stages):
                self.stdin = stdin
                last = number == len(stages) - 1
                self.output = saved_out if last else []
                result = self.statement(stage, script)
                if not last:
                    stdin = join(self.output or [], "")
        finally:
            self.stdin, self.output = saved_in, saved_out
        return result if len(stages) == 1 else UNKNOWN

    def _command(self, node: Node, script: Script) -> Truth:
        prefix: list[Text] = []
        words: list[Text] = []
        redirects: list[Node] = []
        for child in node.named_children:
            if child.type == "variable_assignment" and not words:
                prefix.append(script.cut(child))
            elif child.type in ("file_redirect", "heredoc_redirect", "herestring_redirect"):
                redirects.append(child)
            elif child.type != "comment":
                words += [w for part in braces(script.cut(child)) for w in self._expander.words(part)]
        saved = self.stdin
        if redirects:
            self._redirects(redirects, script)
        try:
            return self._execute(prefix, words)
        finally:
            self.stdin = saved

    def _execute(self, prefix: Sequence[Text], words: list[Text]) -> Truth:
        if not words:
            for raw in prefix:
                self.assign_text(raw)
            return Truth(True)
        name = words[0].plain
        if name in self.functions:
            return self._call(name, words[1:])
        builtin = _BUILTINS.get(name)
        if builtin is not None:
            return self._with_prefix(prefix, lambda: builtin(self, words))
        if re.match(r"--?[A-Za-z]", name):
            self._loses(words)
            return UNKNOWN
        if self._writes_file(words):
            return Truth(True)
        if self.output is not None and self._answers(words):
            return Truth(True)
        found = self.external(self._environment(prefix), words)
        if self.output is not None and not found:
            path, line = words[0].place
            self.output.append(
                unknown(f"$({' '.join(w.plain for w in words)[:60]})".replace(OPEN, "").replace(CLOSE, ""), path, line)
            )
        return UNKNOWN

    def _loses(self, words: Sequence[Text]) -> None:
        """A line that begins with a flag: what a comment cut off from the command before it."""
        if (
            self.found
            and self.found[-1].path == words[0].place[0]
            and 0 < words[0].place[1] - self.found[-1].line < 100
        ):
            lost = (*self.found[-1].lost, *(word.word() for word in words))
            self.found[-1] = dataclasses.replace(self.found[-1], lost=lost)

    def _with_prefix(self, prefix: Sequence[Text], step: Callable[[], Truth]) -> Truth:
        """``IFS== read a b``: the assignment holds for this one command."""
        names = [match[0] for raw in prefix if (match := re.match(r"[A-Za-z_]\w*", raw.plain))]
        saved = {name: self.variables.get(name) for name in names}
        for raw in prefix:
            self.assign_text(raw)
        try:
            return step()
        finally:
            for name, value in saved.items():
                if value is None:
                    self.variables.pop(name, None)
                else:
                    self.variables[name] = value

    def _environment(self, prefix: Sequence[Text]) -> dict[str, Word]:
        """What the command finds in its environment: exported variables and its own prefix assignments."""
        env: dict[str, Word] = {}
        for name in self.exported:
            value = self.variables.get(name)
            if isinstance(value, Text):
                env[name] = value.word()
        for raw in prefix:
            match = re.match(r"([A-Za-z_]\w*)=", raw.plain)
            if match is not None:
                env[match[1]] = self._expander.text(raw.slice(match.end(), len(raw.plain))).word()
        return env

    def _call(self, name: str, arguments: list[Text]) -> Truth:
        """A function of the script; recursion stops where the depth does."""
        self.called.add(name)
        if self.depth > _MAX_DEPTH:
            return UNKNOWN
        body, script = self.functions[name]
        saved = self.positional, self.function
        self.positional, self.function = arguments, name
        self.scopes.append({})
        self.depth += 1
        try:
            return self.statement(body, script)
        except _Leave as leave:
            if leave.kind != "return":
                raise
            return UNKNOWN
        finally:
            self.depth -= 1
            for local, old in self.scopes.pop().items():
                if old is None:
                    self.variables.pop(local, None)
                else:
                    self.variables[local] = old
            self.positional, self.function = saved

    def _writes_file(self, words: Sequence[Text]) -> bool:
        """``tee FILE`` with a heredoc."""
        if posixpath.basename(words[0].plain) not in ("tee",) and not (
            words[0].plain == "sudo" and len(words) > 1 and words[1].plain == "tee"
        ):
            return False
        if self.stdin is not None:
            for word in words[1:]:
                if not word.plain.startswith("-") and word.plain != "tee":
                    self.files[word.plain] = self.stdin
        return self.stdin is not None

    def _answers(self, words: Sequence[Text]) -> bool:
        """Adds the output of a command that can be computed."""
        name = posixpath.basename(words[0].plain)
        stdin = self.stdin
        if name in ("cat", "grep", "sed", "head", "tail", "cut", "wc", "sort", "awk", "egrep") and len(words) > 1:
            last = words[-1]
            found = self._read_file(last) if not last.plain.startswith("-") else None
            if found is not None:
                stdin, words = found, words[:-1]
        output = filters.run(words, stdin)
        if output is None or self.output is None:
            return False
        self.output.append(output)
        return True

    def external(self, env: dict[str, Word], words: Sequence[Text]) -> bool:
        """A command that is no part of the shell: a server, a wrapper around one, or nothing to us."""
        template = dataclasses.replace(self.template, env={**self.template.env, **env}, qualifier=self._qualifier())
        before = len(self.found)
        if self._applies(words) or self._installs(words):
            return len(self.found) > before
        peeled = commands.peel(template, [_carried(word) for word in words])
        if peeled.script is not None or self._script_file(peeled) or self._script_input(peeled):
            self._nested(peeled)
        elif (code := inline.launches(peeled.launch, peeled.words, self._input(), self.tree)) is not None:
            for launch in code:
                self._server(launch)
        else:
            self._server(dataclasses.replace(peeled.launch, argv=tuple(settled(word) for word in peeled.words)))
        if words[0].plain == "exec" and len(words) > 1 and len(self.found) > before:
            raise _Leave("exit")
        return len(self.found) > before

    def _installs(self, words: Sequence[Text]) -> bool:
        """``pip install vllm==0.11.0`` and its relatives: the pin is the version of what is started later."""
        plain = [word.plain for word in words]
        if "install" not in plain[:6] and "add" not in plain[:3]:
            return False
        for word in words:
            pin = commands.pin_of(word.plain)
            if pin is not None:
                path, line = word.place
                self.pins[pin[0]] = Word(pin[1], path, line, word.plain)
        return True

    def _qualifier(self) -> str | None:
        key = next((key for key in reversed(self.loop) if key and not key.isdigit()), None)
        return key or self.function or self.template.qualifier

    def _input(self) -> Word | None:
        return _carried(self.stdin) if self.stdin is not None else None

    def _server(self, launch: Launch) -> None:
        if not commands.serves(launch):
            return
        if len(self.found) >= _MAX_LAUNCHES:
            gave_up()
            return
        files = {of(name, "", 1).word().shown: (text.plain, *text.place) for name, text in self.files.items()}
        launch = dataclasses.replace(launch, mounted={**files, **launch.mounted})
        self.found.append(
            commands.with_config(commands.names_gpus(commands.at_token(self._pinned(launch), self.template)), self.tree)
        )

    def _pinned(self, launch: Launch) -> Launch:
        """The version of a package that the script installed before."""
        if launch.version is not None or launch.image is not self.template.image:
            return launch
        shown = " ".join(word.shown for word in launch.argv[:4])
        for package, version in self.pins.items():
            if package.replace("-", "_") in shown or package in shown:
                return dataclasses.replace(launch, version=version)
        return launch

    def _script_file(self, peeled: commands.Peeled) -> bool:
        """``bash FILE`` or ``FILE`` where the script wrote the file or a volume brings it."""
        words = [word for word in peeled.words if word.text is not None]
        if not words:
            return False
        at = 0
        if re.fullmatch(r"(?:ba|z|da|k)?sh|sbatch", posixpath.basename(words[0].text or "")):
            at = next((i for i in range(1, len(words)) if not (words[i].text or "").startswith("-")), 0)
            if at == 0:
                return False
        name = words[at].text or ""
        text = self.files.get(name) or self.files.get(name.removeprefix("./"))
        if text is None and name in self.template.mounted:
            text = of(*self.template.mounted[name])
        if text is None or (at == 0 and "/" not in name):
            return False
        peeled.script = text.word()
        if peeled.script.text is None:
            peeled.script = _carried(text)
        peeled.arguments = list(words[at + 1 :])
        return True

    def _script_input(self, peeled: commands.Peeled) -> bool:
        """``bash -s`` and ``ssh HOST`` fed by a heredoc."""
        if self.stdin is None:
            return False
        words = [word.shown for word in peeled.words]
        shell = (
            words
            and re.fullmatch(r"(?:ba|z|da|k)?sh|sbatch|qsub", posixpath.basename(words[0]))
            and all(w.startswith("-") for w in words[1:2])
        )
        if not words or shell:
            peeled.script, self.stdin = _carried(self.stdin), None
            return True
        return False

    def _nested(self, peeled: commands.Peeled) -> None:
        """A script inside the command: a container sees only the variables it was given, a plain shell those of this one."""
        script = peeled.script
        if script is None:
            return
        if self.depth > _MAX_DEPTH:
            gave_up()
            return
        if peeled.launch.image is not None and peeled.launch.image is not self.template.image:
            child = Machine(peeled.launch, self.tree, explore=self.explore, depth=self.depth + 1)
            child.steps, child.files = self.steps, self.files
        else:
            child = self._subshell()
            child.template = peeled.launch
        child.output = None
        child.stdin = self.stdin
        child.positional = [from_word(word) for word in peeled.arguments]
        with contextlib.suppress(_Leave):
            child.run(from_word(script))
        room = _MAX_LAUNCHES - len(self.found)
        if len(child.found) > room:
            gave_up()
        self.found += child.found[:room]

    def _applies(self, words: Sequence[Text]) -> bool:
        """``kubectl apply -f -`` and the like: the heredoc, or a file written before, is a manifest."""
        names = [posixpath.basename(word.plain) for word in words[:3]]
        if not {"kubectl", "oc", "k", "microk8s", "k3s"} & set(names) or not any(
            w.plain in ("apply", "create", "replace") for w in words
        ):
            return False
        texts = []
        for at, word in enumerate(words):
            target = (
                words[at + 1].plain
                if word.plain in ("-f", "--filename") and at + 1 < len(words)
                else word.plain.removeprefix("--filename=")
                if word.plain.startswith("--filename=")
                else None
            )
            if target in ("-", "/dev/stdin") and self.stdin is not None:
                texts.append(self.stdin)
            elif target is not None and target in self.files:
                texts.append(self.files[target])
        for text in texts or ([self.stdin] if self.stdin is not None else []):
            self._manifest(text)
        return True

    def _manifest(self, text: Text) -> None:
        from checklistbot.discovery.base import launches_in

        if self.tree is None:
            return
        path, _ = text.place
        lines = [line.place[1] if line.pieces else 0 for line in text.lines()]

        def moved(word: Word) -> Word:
            return dataclasses.replace(
                word, path=path, line=lines[word.line - 1] if 0 < word.line <= len(lines) else word.line, starts=()
            )

        plain = text.plain.replace(f"{OPEN}unset:", f"{OPEN}not-static:").replace(HERE, mark("$0"))
        for launch in launches_in(self.tree, "-", plain):
            self.found.append(_moved(launch, moved, path))


def _carried(text: Text) -> Word:
    """A text as a word that still holds its marks, for a command that will be split or run again."""
    path, line = text.place
    starts: list[tuple[int, int]] = []
    at = 0
    for piece, _, number in text.pieces:
        if not starts or starts[-1][1] != number:
            starts.append((at, number))
        at += len(piece)
    plain = text.plain.replace(HERE, mark("$0")) if HERE in text.plain else text.plain
    return Word(plain, path, line, plain, None, tuple(starts) if len(starts) > 1 else ())


def _moved(launch: Launch, change: Callable[[Word], Word], path: str) -> Launch:
    place = change(Word("", "-", launch.line))
    fields: dict[str, Any] = {
        name: change(value)
        for name in ("image", "replicas", "gpu", "gpu_count", "nodes", "role", "version", "model", "served_model_name")
        if (value := getattr(launch, name)) is not None
    }
    return dataclasses.replace(
        launch,
        argv=tuple(change(word) for word in launch.argv),
        env={name: change(word) for name, word in launch.env.items()},
        path=path,
        line=place.line,
        **fields,
    )


def _chomped(text: Text) -> Text:
    plain = text.plain
    return text.slice(0, len(plain.rstrip("\n")))


def _arms(node: Node) -> Iterator[tuple[list[Node], list[Node]]]:
    """(test, body) of if, each elif, and else (without a test)."""
    tests = [child for child in node.children_by_field_name("condition") if child.is_named]
    known = {child.id for child in tests}
    clauses = [child for child in node.named_children if child.type in ("elif_clause", "else_clause")]
    skip = known | {child.id for child in clauses}
    yield tests, [child for child in node.named_children if child.id not in skip]
    for clause in clauses:
        if clause.type == "else_clause":
            yield [], list(clause.named_children)
            continue
        then = next((i for i, child in enumerate(clause.children) if child.type == "then"), len(clause.children))
        yield [c for c in clause.children[:then] if c.is_named], [c for c in clause.children[then:] if c.is_named]


def _endless(tests: Sequence[Node], script: Script) -> bool:
    return all(script.cut(test).plain.strip() in ("true", ":", "1", "[ 1 ]", "[ true ]") for test in tests)


_TEST_WORD = lazy_pattern(
    r"""(?:"(?:[^"\\]|\\.)*"|'[^']*'|\$\{(?:[^{}]|\{[^}]*\})*\}|\$\((?:[^()]|\([^()]*\))*\)|\\.|[^\s"'()&|\\]|(?<=\S)[()|])+|&&|\|\||[()]""",
    re.DOTALL,
)


def _test_words(text: Text) -> list[Text]:
    return [text.slice(match.start(), match.end()) for match in _TEST_WORD.finditer(text.plain[:20_000])]


def _array_words(raw: Text) -> list[Text]:
    """The raw words between ``(`` and ``)``; comments are left out."""
    node = parse(("x=" + raw.plain).encode("utf-8", "replace"))
    array = next((n for n in _descend(node) if n.type == "array"), None)
    if array is None:
        return []
    script = Script(of("x=", *raw.place) + raw)
    array = next((n for n in _descend(script.root) if n.type == "array"), None)
    return [script.cut(child) for child in array.named_children if child.type != "comment"] if array is not None else []


def _descend(node: Node) -> Iterator[Node]:
    yield node
    for child in node.named_children:
        yield from _descend(child)


# --- joining -----------------------------------------------------------------------------------------------------------


def _joined(ends: Sequence[dict[str, Value]]) -> dict[str, Value]:
    first = ends[0]
    joined: dict[str, Value] = {}
    for name in dict.fromkeys(name for end in ends for name in end):
        values = [end.get(name) for end in ends]
        if all(_same(value, values[0]) for value in values):
            if values[0] is not None:
                joined[name] = values[0]
            continue
        joined[name] = _either(
            name, [value for value in values if value is not None], all(v is not None for v in values)
        )
    return joined if len(ends) > 1 else dict(first)


def _same(one: Value | None, other: Value | None) -> bool:
    if isinstance(one, Text) and isinstance(other, Text):
        return one.plain == other.plain
    if isinstance(one, list) and isinstance(other, list):
        return [t.plain for t in one] == [t.plain for t in other]
    if isinstance(one, dict) and isinstance(other, dict):
        return {k: v.plain for k, v in one.items()} == {k: v.plain for k, v in other.items()}
    return one is other


def _either(name: str, values: Sequence[Value], everywhere: bool) -> Value:
    """What is left of a variable that two ways leave different: the common beginning, and flags with unknown values."""
    if all(isinstance(value, dict) for value in values):
        merged: dict[str, Text] = {}
        for value in values:
            assert isinstance(value, dict)  # noqa: S101
            merged.update(value)
        return merged
    lists = [value if isinstance(value, list) else scalar(value).split(re.compile(r"\s+")) for value in values]
    flags = any("--" in text.plain for members in lists for text in members)
    if all(isinstance(value, Text) for value in values) and not flags:
        place = scalar(values[0]).place
        return unknown(f"${name}", *place, why="ambiguous")
    shortest = min(len(members) for members in lists) if everywhere else 0
    common = 0
    while common < shortest and len({members[common].plain for members in lists}) == 1:
        common += 1
    tail = [text for members in lists for text in members[common:]]
    result = [*lists[0][:common], *_unsure(name, tail)]
    return result if any(isinstance(value, list) for value in values) else join(result)


def _unsure(name: str, tail: Sequence[Text]) -> Iterator[Text]:
    """Flags that may or may not be passed: their names, each value ambiguous."""
    for text in tail:
        flag = re.match(r"--?[A-Za-z][\w.-]*(=?)", text.plain)
        if flag is None:
            yield unknown(f"${name}", *text.place, why="ambiguous")
        elif flag[1]:
            yield text.slice(0, flag.end()) + unknown(f"${name}", *text.place, why="ambiguous")
        else:
            yield text


# --- builtins ----------------------------------------------------------------------------------------------------------


def _true(machine: Machine, words: list[Text]) -> Truth:
    return Truth(True)


def _false(machine: Machine, words: list[Text]) -> Truth:
    return Truth(False)


def _leave(kind: str) -> Callable[[Machine, list[Text]], Truth]:
    def builtin(machine: Machine, words: list[Text]) -> Truth:
        raise _Leave(kind)

    return builtin


def _shift(machine: Machine, words: list[Text]) -> Truth:
    count = int(words[1].plain) if len(words) > 1 and words[1].plain.isdigit() else 1
    if machine.positional is not None:
        machine.positional = machine.positional[count:]
    return Truth(True)


def _set(machine: Machine, words: list[Text]) -> Truth:
    plain = [word.plain for word in words]
    if "--" in plain:
        machine.positional = words[plain.index("--") + 1 :]
    elif len(words) > 1 and not plain[1].startswith(("-", "+")):
        machine.positional = words[1:]
    elif any(re.fullmatch(r"-[a-z]*a[a-z]*", p) for p in plain[1:]):
        machine.exported.update(machine.variables)
    return Truth(True)


def _source(machine: Machine, words: list[Text]) -> Truth:
    if len(words) < 2:
        return UNKNOWN
    text = machine._read_file(words[1])
    if text is None:
        return UNKNOWN
    if machine.depth > _MAX_DEPTH:
        return UNKNOWN
    machine.depth += 1
    try:
        machine.run(text)
    except _Leave as leave:
        if leave.kind != "return":
            raise
    finally:
        machine.depth -= 1
    return Truth(True)


def _eval(machine: Machine, words: list[Text]) -> Truth:
    machine.depth += 1
    try:
        machine.run(join(words[1:]))
    finally:
        machine.depth -= 1
    return UNKNOWN


def _print(machine: Machine, words: list[Text]) -> Truth:
    """echo and printf: kept only where something takes the output."""
    if words[0].plain == "printf" and len(words) > 3 and words[1].plain == "-v":
        output = filters.run([words[0], *words[3:]], None)
        machine.variables[words[2].plain] = (
            output if output is not None else unknown(f"${words[2].plain}", *words[2].place)
        )
        return Truth(True)
    if machine.output is not None:
        output = filters.run(words, machine.stdin)
        machine.output.append(output if output is not None else unknown("$(printf)", *words[0].place))
    return Truth(True)


def _test_builtin(machine: Machine, words: list[Text]) -> Truth:
    operands = words[1:-1] if words[0].plain == "[" else words[1:]
    return conditions.evaluate(operands, machine._file_exists)


def _read(machine: Machine, words: list[Text]) -> Truth:
    """``read [-r] NAME…`` from a heredoc, a file or a pipe: one line at a time."""
    array = any(re.fullmatch(r"-[a-z]*a", w.plain) for w in words[1:])
    separator = machine.variables.get("IFS")
    names: list[str] = []
    at = 1
    while at < len(words):
        plain = words[at].plain
        if plain in ("-p", "-t", "-n", "-N", "-d", "-u", "-i"):
            at += 2
            continue
        if not plain.startswith("-"):
            names.append(plain)
        at += 1
    if machine.stdin is None:
        for name in names:
            machine.variables[name] = unknown(f"${name}", *words[0].place)
        return UNKNOWN
    lines = machine.stdin.lines()
    if not lines:
        return Truth(False)
    whole = any(w.plain == "-d" for w in words)
    line = machine.stdin if whole else lines[0]
    machine.stdin = EMPTY if whole else join([part + of("\n", *part.place) for part in lines[1:]], "")
    chars = re.escape(scalar(separator).plain) if separator is not None and scalar(separator).plain else r"\s"
    parts = line.split(re.compile(f"[{chars}]+"))
    if array and names:
        machine.variables[names[-1]] = parts
        return Truth(True)
    for number, name in enumerate(names):
        if number == len(names) - 1 and len(parts) > number:
            start = line.plain.find(parts[number].plain)
            machine.variables[name] = line.slice(start, len(line.plain.rstrip())) if number else _stripped(line)
        else:
            machine.variables[name] = parts[number] if number < len(parts) else of("", *line.place)
    return Truth(True)


def _stripped(line: Text) -> Text:
    plain = line.plain
    return line.slice(len(plain) - len(plain.lstrip()), len(plain.rstrip()))


def _mapfile(machine: Machine, words: list[Text]) -> Truth:
    name = words[-1].plain if not words[-1].plain.startswith("-") else "MAPFILE"
    if machine.stdin is None:
        machine.variables[name] = [unknown(f"${name}", *words[0].place)]
        return UNKNOWN
    machine.variables[name] = machine.stdin.lines()
    return Truth(True)


def _getopts(machine: Machine, words: list[Text]) -> Truth:
    return Truth(False) if not machine.positional else UNKNOWN


def _let(machine: Machine, words: list[Text]) -> Truth:
    for word in words[1:]:
        machine.arithmetic(word.plain)
    return UNKNOWN


def _exec(machine: Machine, words: list[Text]) -> Truth:
    """``exec COMMAND`` replaces the shell: nothing behind it runs."""
    if len(words) > 1:
        machine.external(machine._environment(()), words)
        raise _Leave("exit")
    return Truth(True)


def _cd(machine: Machine, words: list[Text]) -> Truth:
    if len(words) > 1:
        machine.variables["PWD"] = words[-1]
    return Truth(True)


def _pwd(machine: Machine, words: list[Text]) -> Truth:
    if machine.output is not None:
        value = machine.variables.get("PWD")
        found = (
            scalar(value)
            if value is not None
            else of(HERE + (posixpath.dirname(machine.template.path) or "."), machine.template.path, 1)
        )
        machine.output.append(found + of("\n", *words[0].place))
    return Truth(True)


_Builtin = Callable[[Machine, list[Text]], Truth]
_BUILTINS: Final[dict[str, _Builtin]] = {
    "true": _true,
    ":": _true,
    "false": _false,
    "exit": _leave("exit"),
    "return": _leave("return"),
    "break": _leave("break"),
    "continue": _leave("continue"),
    "shift": _shift,
    "set": _set,
    "source": _source,
    ".": _source,
    "eval": _eval,
    "echo": _print,
    "printf": _print,
    "test": _test_builtin,
    "[": _test_builtin,
    "read": _read,
    "mapfile": _mapfile,
    "readarray": _mapfile,
    "getopts": _getopts,
    "let": _let,
    "exec": _exec,
    "cd": _cd,
    "pushd": _cd,
    "pwd": _pwd,
    "trap": _true,
    "wait": _true,
    "shopt": _true,
    "ulimit": _true,
    "umask": _true,
    "popd": _true,
}

_Statement = Callable[[Machine, "Node", Script], Truth]
_STATEMENTS: Final[dict[str, _Statement]] = {
    "command": Machine._command,
    "list": Machine._list,
    "if_statement": Machine._if,
    "case_statement": Machine._case,
    "for_statement": Machine._for,
    "c_style_for_statement": Machine._c_for,
    "while_statement": Machine._while,
    "function_definition": Machine._function,
    "subshell": Machine._subshell_node,
    "compound_statement": Machine._compound,
    "negated_command": Machine._negated,
    "test_command": Machine._test,
    "variable_assignment": Machine._assignment,
    "declaration_command": Machine._declaration,
    "unset_command": Machine._unset_node,
    "redirected_statement": Machine._redirected,
    "pipeline": Machine._pipeline,
}


def find(
    template: Launch, script: Text, tree: Tree | None, arguments: Sequence[Text] | None, depth: int
) -> list[Launch]:
    """The servers that a script starts; a second walk follows every branch if the first met none, a third its uncalled functions."""
    machine = Machine(template, tree, depth=depth)
    for explore in (False, True):
        machine = Machine(template, tree, explore=explore, depth=depth)
        machine.positional = list(arguments) if arguments is not None else None
        _walk(machine, lambda m=machine: m.run(script))  # type: ignore[misc]
        if machine.found:
            return machine.found
    for name in [name for name in machine.functions if name not in machine.called]:
        if name not in machine.called:
            _walk(machine, lambda n=name: machine._call(n, []))  # type: ignore[misc]
    return [launch for launch in machine.found if _says_something(launch)]


def _walk(machine: Machine, step: Callable[[], object]) -> None:
    try:
        step()
    except _Leave:
        pass
    except (_Budget, TooMuch, RecursionError):
        gave_up()


def _says_something(launch: Launch) -> bool:
    """A function that nobody calls starts something definite only if it names its model."""
    from checklistbot.engines import registry

    for engine in registry().values():
        if engine.serves(launch):
            deployment = engine.deployment(launch)
            return deployment is not None and deployment.model.known
    return False


def output_of(script: str) -> str | None:
    """What a script prints, None where that cannot be computed."""
    machine = Machine(Launch((), "", 1, ""), None)
    found = machine.substitute(of(script, "", 1))
    return found.plain if found.known else None
