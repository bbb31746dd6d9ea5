"""Makefiles: recipes with their variables, target-specific ones and the functions that build a command line."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from dataclasses import field

from checklistbot.discovery.base import Format
from checklistbot.discovery.launches import run_shell
from checklistbot.discovery.limits import TooMuch, bounded
from checklistbot.discovery.tree import Tree
from checklistbot.engines.base import Launch, Word, mark
from checklistbot.lazy import pattern
from checklistbot.record import mutable_record

_NAME = pattern(r"(?:^|/)(?:GNUmakefile|[Mm]akefile(?:\.[\w.-]+)?|[\w.-]+\.(?:mk|make))$")
_DEPTH = 20


def claims(path: str, text: str) -> bool:
    return _NAME.search(path) is not None


@mutable_record
class _Target:
    """One rule: its recipe lines with their numbers, and the variables that only it sets."""

    name: str
    line: int
    recipe: list[tuple[int, str]] = field(default_factory=list)


@mutable_record
class _Makefile:
    variables: dict[str, str] = field(default_factory=dict)
    own: dict[str, dict[str, str]] = field(default_factory=dict)
    targets: dict[str, _Target] = field(default_factory=dict)
    exported: set[str] = field(default_factory=set)


def launches(tree: Tree, path: str, text: str) -> Iterator[Launch]:
    makefile = _read(text)
    for target in makefile.targets.values():
        if not target.recipe:
            continue
        variables = _Variables(
            {**makefile.variables, **makefile.own.get(target.name, {}), "@": target.name, "<": "", "^": ""}
        )
        script, starts = "", []
        for number, line in target.recipe:
            for offset, part in enumerate(line.split("\n")):
                body = part[1:] if part.startswith("\t") else part
                body = re.sub(r"^[@+-]+", "", body) if offset == 0 else body
                starts.append((len(script), number + offset))
                script += _expanded(body, variables, 0) + "\n"
        env = {
            name: Word(_expanded(variables[name], variables, 0), path, target.line)
            for name in makefile.exported
            if name in variables
        }
        name = posixpath.basename(posixpath.dirname(path)) or "make"
        template = Launch((), path, target.line, name, qualifier=target.name, env=env, format="makefile")
        yield from run_shell(template, Word(script, path, target.line, "", None, tuple(starts)), tree)


_ASSIGNMENT = pattern(
    r"^(?:(?P<export>export|override|private)\s+)*(?P<name>[A-Za-z_][\w.-]*)\s*(?P<operator>[:?+!]?:?:?=)\s*(?P<value>.*)$",
    re.DOTALL,
)
_RULE = pattern(r"^(?P<targets>[^\s:=#][^:=#]*?)\s*:(?![=:])(?P<rest>.*)$", re.DOTALL)


def _read(text: str) -> _Makefile:
    found = _Makefile()
    current: list[_Target] = []
    for number, line in _logical(text):
        if line.startswith("\t") and current:
            for target in current:
                target.recipe.append((number, line))
            continue
        body = line.strip()
        define = re.match(r"define\s+([\w.-]+)\s*:?=?\s*\n(.*)\nendef\s*$", line, re.DOTALL)
        if define is not None:
            found.variables[define[1]] = define[2].replace("\\\n", " ").replace("\n", " ")
            continue
        assignment = _ASSIGNMENT.match(body)
        if assignment is not None:
            _assign(found.variables, assignment)
            if body.startswith("export"):
                found.exported.add(assignment["name"])
            continue
        exported = re.match(r"export\s+([\w\s]+)$", body)
        if exported is not None:
            found.exported.update(exported[1].split())
            continue
        rule = _RULE.match(body)
        if rule is not None and not body.startswith("#"):
            current = _rule(found, rule, number)
    return found


def _rule(found: _Makefile, rule: re.Match[str], number: int) -> list[_Target]:
    names = rule["targets"].split()
    own = _ASSIGNMENT.match(rule["rest"].strip())
    if own is not None:
        for name in names:
            table = found.own.setdefault(name, {})
            if own["operator"].startswith("+"):
                table.setdefault(own["name"], found.variables.get(own["name"], ""))
            _assign(table, own)
        return []
    targets = []
    for name in names[:20]:
        if name.startswith(".") and name != ".":
            continue
        target = found.targets.setdefault(name, _Target(name, number))
        targets.append(target)
        if ";" in rule["rest"]:
            target.recipe.append((number, "\t" + rule["rest"].partition(";")[2].strip()))
    return targets


def _assign(table: dict[str, str], match: re.Match[str]) -> None:
    name, operator = match["name"], match["operator"]
    value = re.sub(r"\s*\\\n\s*", " ", re.sub(r"(?<!\\)\s+#.*$", "", match["value"]))
    if operator == "?=":
        table.setdefault(name, value)
    elif operator == "+=":
        table[name] = f"{table.get(name, '')} {value}".strip()
    elif operator == "!=":
        table[name] = f"$(shell {value})"
    else:
        table[name] = value


def _logical(text: str) -> Iterator[tuple[int, str]]:
    """(line number, line with its continuations, or a whole define block)."""
    lines = text.split("\n")
    at = 0
    while at < len(lines):
        first, line = at, lines[at]
        at += 1
        if re.match(r"\s*define\s", line):
            while at < len(lines) and lines[at].strip() != "endef":
                line += "\n" + lines[at]
                at += 1
            line += "\nendef"
            at += 1
        else:
            while line.endswith("\\") and at < len(lines):
                line += "\n" + lines[at]
                at += 1
        if line.strip() and not (line.lstrip().startswith("#") and not line.startswith("\t")):
            yield first + 1, line


# --- expansion -----------------------------------------------------------------------------------------------------------


class _Variables(dict[str, str]):
    """What a recipe sees, and how many references may still be followed: two variables that name each other double at each step."""

    left = 20_000

    def follow(self, name: str) -> str:
        self.left -= 1
        if self.left < 0:
            raise TooMuch
        return self.get(name, "")


def _expanded(text: str, variables: _Variables, depth: int) -> str:
    """``$(NAME)``, ``${NAME}``, functions and ``$$``; what is not known becomes an unknown part."""
    if depth > _DEPTH or "$" not in text:
        return text
    out, at = "", 0
    while at < len(text):
        c = text[at]
        if c != "$" or at + 1 >= len(text):
            out += c
            at += 1
            continue
        following = text[at + 1]
        if following == "$":
            out += "$"
            at += 2
        elif following in "({":
            end = _closing(text, at + 2, following)
            out += _reference(text[at + 2 : end], variables, depth + 1)
            at = end + 1
        else:
            out += _expanded(variables.follow(following), variables, depth + 1)
            at += 2
    return out


def _closing(text: str, at: int, opening: str) -> int:
    closing, depth = (")" if opening == "(" else "}"), 1
    while at < len(text):
        depth += (text[at] == opening) - (text[at] == closing)
        if depth == 0:
            return at
        at += 1
    return len(text)


def _reference(body: str, variables: _Variables, depth: int) -> str:
    call = re.match(
        r"(if|or|and|filter|filter-out|strip|subst|shell|addprefix|addsuffix|firstword|lastword|notdir|dir|call|foreach|eval|info|warning|error|wildcard|abspath|realpath|value|words|patsubst)\s+",
        body,
    )
    if call is not None:
        parts = _arguments(body[call.end() :])
        return _function(call[1], parts, variables, depth)
    name = _expanded(body, variables, depth)
    if name in variables:
        return bounded(_expanded(variables.follow(name), variables, depth))
    substitution = re.fullmatch(r"([\w.-]+):(.*)=(.*)", name)
    if substitution is not None and substitution[1] in variables:
        value = bounded(_expanded(variables.follow(substitution[1]), variables, depth))
        return " ".join(re.sub(re.escape(substitution[2]) + "$", substitution[3], word) for word in value.split())
    return mark(f"$({name[:60]})") if re.fullmatch(r"[\w.-]+", name) and name not in ("MAKE", "MAKEFLAGS") else ""


def _arguments(text: str) -> list[str]:
    parts, current, depth = [], "", 0
    for c in text:
        depth += (c in "({") - (c in ")}")
        if c == "," and depth == 0:
            parts.append(current)
            current = ""
        else:
            current += c
    return [*parts, current]


def _function(name: str, parts: list[str], variables: _Variables, depth: int) -> str:
    def value(index: int) -> str:
        return _expanded(parts[index], variables, depth) if index < len(parts) else ""

    if name == "if":
        return value(1) if value(0).strip() else value(2)
    if name == "or":
        return next((found for found in (value(i).strip() for i in range(len(parts))) if found), "")
    if name == "and":
        found = [value(i).strip() for i in range(len(parts))]
        return found[-1] if all(found) else ""
    if name in ("filter", "filter-out"):
        patterns = [re.compile(re.escape(p).replace("%", ".*")) for p in value(0).split()]
        keep = name == "filter"
        return " ".join(w for w in value(1).split() if any(p.fullmatch(w) for p in patterns) == keep)
    if name == "strip":
        return " ".join(value(0).split())
    if name == "subst":
        return value(2).replace(value(0), value(1))
    if name == "shell":
        return _shell(value(0))
    if name in ("addprefix", "addsuffix"):
        return " ".join(value(0) + w if name == "addprefix" else w + value(0) for w in value(1).split())
    if name in ("firstword", "lastword"):
        words = value(0).split()
        return (words[0] if name == "firstword" else words[-1]) if words else ""
    if name == "notdir":
        return " ".join(w.rpartition("/")[2] for w in value(0).split())
    if name == "words":
        return str(len(value(0).split()))
    if name in ("eval", "info", "warning", "error"):
        return ""
    return mark(f"$({name} …)")


def _shell(script: str) -> str:
    """The output of ``$(shell …)`` where it can be computed."""
    from checklistbot.discovery.sh.machine import output_of

    found = output_of(script)
    return " ".join(found.split()) if found is not None else mark(f"$(shell {script[:50]})")


FORMAT = Format("makefile", claims, launches)
