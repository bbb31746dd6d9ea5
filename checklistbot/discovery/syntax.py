"""Files that say they are YAML or JSON and are not: nothing that they deploy is known, and that must be said.

The formats read a broken file as far as they can (``yaml_docs``), which is right for what they find and wrong for what they do not: a
manifest with an unclosed bracket deploys nothing that they see. Templates are no YAML before they are rendered, and JSON with comments or
one object a line is none either; both are somebody's format, not an error.
"""

from __future__ import annotations

import json
import re
from typing import Final

from checklistbot.discovery import yaml_docs
from checklistbot.discovery.tree import STDIN_PATH
from checklistbot.lazy import pattern

#: How the reason begins; "at line N" follows.
BROKEN: Final = "not valid "
#: What stands in files that something else fills in first.
_TEMPLATE: Final = ("{{", "{%", "<%")
_YAML: Final = (".yaml", ".yml")
_STRING: Final = r'("(?:[^"\\\n]|\\.)*")'
_COMMENTS: Final = pattern(_STRING + r"|//[^\n]*|/\*[\s\S]*?\*/")
_COMMAS: Final = pattern(_STRING + r"|,(?=\s*[}\]])")
#: What a map or a list looks like somewhere; where it is missing, the text is parsed to see.
_STRUCTURE: Final = pattern(r":(?:\s|$)|^\s*(?:- |[\[{])", re.MULTILINE)
_LINE: Final = pattern(r"\bat line (\d+)")


def broken(path: str, text: str) -> str | None:
    """Why the text is not what its name says ("not valid YAML at line 2"); None for what is, and for every other format.

    Standard input is YAML (JSON is YAML too): that is what is piped into it.
    """
    if not text.strip():
        return None
    name = path.lower()
    if name.endswith(".json"):
        return None if _json(text) else f"{BROKEN}JSON at line {_json_line(text)}"
    if not name.endswith(_YAML) and path != STDIN_PATH:
        return None
    line = yaml_docs.unreadable(text)
    if line is None and not template(text) and not _holds_something(path, text):
        line = 1
    return None if line is None else f"{BROKEN}YAML at line {line}"


def template(text: str) -> bool:
    """True for a text that something else fills in before it is YAML or JSON."""
    return any(sign in text for sign in _TEMPLATE)


def line_of(reason: str) -> int | None:
    """The line that a reason of ``broken`` names."""
    found = _LINE.search(reason) if reason.startswith(BROKEN) else None
    return int(found[1]) if found else None


def _holds_something(path: str, text: str) -> bool:
    """True for a map or a list, and for a text of comments only; one loose scalar is some other file under this name."""
    if _STRUCTURE.search(text):
        return True
    if any(isinstance(root, (dict, list)) for root in yaml_docs.documents(path, text)):
        return True
    return all(line.lstrip().startswith(("#", "---", "...", "%")) for line in text.split("\n") if line.strip())


def _json(text: str) -> bool:
    """JSON, JSON with comments and trailing commas, or one value a line."""
    if _loads(text) or _loads(_COMMAS.sub(_string, _COMMENTS.sub(_string, text))):
        return True
    lines = [line for line in text.split("\n") if line.strip()]
    return len(lines) > 1 and all(map(_loads, lines))


def _string(match: re.Match[str]) -> str:
    return match[1] or ""


def _loads(text: str) -> bool:
    try:
        json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return False
    return True


def _json_line(text: str) -> int:
    try:
        json.loads(text, strict=False)
    except json.JSONDecodeError as error:
        return error.lineno
    except (ValueError, RecursionError):
        return 1
    return 1
