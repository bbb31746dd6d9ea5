"""Loops that only wait, as launch scripts hold them behind a server: ``for i in $(seq 1 120); do curl … && break; sleep 5; done``.

Their turns leave nothing behind, so one of them is as good as a hundred; following all of them took most of the time of such a script.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tree_sitter import Node

#: Commands that change nothing a later command sees. ``exit`` and ``return`` are none: a later turn may come to them.
_HARMLESS: Final = frozenset(
    b": [ [[ break cat continue curl date echo false grep head jq kill nc nvidia-smi pgrep ps sleep tail test true wc wget".split()
)
_EFFECTS: Final = frozenset(
    (
        "c_style_for_statement",
        "declaration_command",
        "for_statement",
        "function_definition",
        "postfix_expression",
        "unset_command",
        "variable_assignment",
        "variable_assignments",
    )
)
_NOWHERE: Final = (b"/dev/null", b"/dev/stderr", b"/dev/stdout", b"1", b"2")


def idle(body: Node) -> bool:
    """True if the turns of a loop with this body change no variable, no file and no function, and start no server."""
    left = [body]
    while left:
        node = left.pop()
        if node.type in _EFFECTS or _writes(node) or _assigns(node):
            return False
        if node.type == "command":
            name = node.child_by_field_name("name")
            if name is None or name.text not in _HARMLESS:
                return False
        left.extend(node.named_children)
    return True


def _writes(node: Node) -> bool:
    """True for a redirection into a file."""
    if node.type not in ("file_redirect", "heredoc_redirect"):
        return False
    target = node.child_by_field_name("destination")
    reads = any(child.type in ("<", "<&") for child in node.children)
    return not reads and (target is None or target.text not in _NOWHERE)


def _assigns(node: Node) -> bool:
    """True for ``${x:=y}``, ``$((x = 1))`` and ``$((++x))``."""
    text = node.text or b""
    if node.type == "arithmetic_expansion":
        compared = text
        for sign in (b"==", b"!=", b"<=", b">="):
            compared = compared.replace(sign, b"")
        return any(sign in compared for sign in (b"=", b"++", b"--"))
    return node.type == "expansion" and b"=" in text
