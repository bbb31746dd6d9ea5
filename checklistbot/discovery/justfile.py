"""justfiles: recipes with their variables, parameters and defaults."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from checklistbot.discovery.base import Format
from checklistbot.discovery.launches import run_shell
from checklistbot.discovery.tree import Tree
from checklistbot.engines.base import Launch, Word, mark
from checklistbot.lazy import pattern

_NAME = pattern(r"(?:^|/)(?:\.?[Jj]ustfile|JUSTFILE|[\w.-]+\.just)$")
_VARIABLE = pattern(r"^(export\s+)?([A-Za-z_][\w-]*)\s*:=\s*(.*)$")
_RECIPE = pattern(r"^@?([A-Za-z_][\w-]*)((?:\s+[^:=]+?(?:=(?:'[^']*'|\"[^\"]*\"|[^\s:]+))?)*)\s*:(?!=)(.*)$")


def claims(path: str, text: str) -> bool:
    return _NAME.search(path) is not None


def launches(tree: Tree, path: str, text: str) -> Iterator[Launch]:
    variables: dict[str, str] = {}
    env: dict[str, Word] = {}
    lines = text.split("\n")
    at = 0
    while at < len(lines):
        line = lines[at]
        at += 1
        variable = _VARIABLE.match(line)
        if variable is not None and not line.startswith("set "):
            variables[variable[2]] = _evaluated(variable[3], variables)
            if variable[1]:
                env[variable[2]] = Word(variables[variable[2]], path, at)
            continue
        recipe = _RECIPE.match(line)
        if recipe is None or line.startswith(("set ", "alias ", "import ", "mod ", "#", "[")):
            continue
        start = at
        while at < len(lines) and (not lines[at].strip() or lines[at][:1] in " \t"):
            at += 1
        scope = {**variables, **_parameters(recipe[2], variables)}
        body = "\n".join(_recipe_line(entry, scope) for entry in lines[start:at])
        template = Launch((), path, start, recipe[1], qualifier=recipe[1], env=env, format="justfile")
        yield from run_shell(template, Word(body, path, start + 1), tree)


def _recipe_line(line: str, scope: Mapping[str, str]) -> str:
    """One line without its indentation and the @ or - that just takes away, its ``{{…}}`` replaced."""
    body = re.sub(r"^(?:@-?|-@?)(?=[\w./$({\"'])", "", line.strip(" \t"))
    return re.sub(r"\{\{(.*?)\}\}", lambda m: _evaluated(m[1], scope), body.replace("{{{{", "\0")).replace("\0", "{{")


def _parameters(text: str, variables: Mapping[str, str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for match in re.finditer(r"([+*$]*)([A-Za-z_][\w-]*)(?:=('[^']*'|\"[^\"]*\"|\([^)]*\)|[^\s:]+))?", text):
        name, default = match[2], match[3]
        if default is not None:
            found[name] = _evaluated(default.strip("()"), variables)
        else:
            found[name] = "" if "*" in match[1] else mark(f"{{{{{name}}}}}")
    return found


_TERM = pattern(
    r"\s*(?:'([^']*)'|\"((?:[^\"\\]|\\.)*)\"|(env_var_or_default|env_var|env|quote|trim)\(([^()]*)\)|([A-Za-z_][\w-]*)|(`[^`]*`))\s*"
)


def _evaluated(expression: str, variables: Mapping[str, str]) -> str:
    """Strings, variables, ``env("X", "default")`` and ``+`` / ``/`` between them; everything else is unknown."""
    expression = re.sub(r"\s+#.*$", "", expression).strip()
    out, at = "", 0
    while at < len(expression):
        if expression[at] in "+/":
            out += "/" if expression[at] == "/" else ""
            at += 1
            continue
        match = _TERM.match(expression, at)
        if match is None:
            return mark(expression[:60])
        out += _term(match, variables)
        at = match.end()
    return out


def _term(match: re.Match[str], variables: Mapping[str, str]) -> str:
    single, double, function, arguments, name, _ = match.groups()
    if single is not None:
        return single
    if double is not None:
        return re.sub(r"\\(.)", lambda m: {"n": "\n", "t": "\t"}.get(m[1], m[1]), double)
    if function is not None:
        parts = [part.strip() for part in arguments.split(",")]
        if function in ("env_var_or_default", "env") and len(parts) > 1:
            return _evaluated(parts[1], variables)
        return (
            _evaluated(parts[0], variables)
            if function in ("quote", "trim")
            else mark(f"${parts[0].strip(chr(39) + chr(34))}")
        )
    if name is not None:
        return variables[name] if name in variables else mark(name)
    return mark(match[0].strip()[:60])


FORMAT = Format("justfile", claims, launches)
