"""Command-line options as the launchers declare them: argparse and click, with the values they have when nobody types any."""

from __future__ import annotations

from typing import TYPE_CHECKING

from checklistbot.discovery.interpret.marks import Place
from checklistbot.discovery.interpret.pyvalues import NOTHING, Const, Ext, Func, Inst, Obj, Seq, Unk, Value

if TYPE_CHECKING:
    from checklistbot.discovery.interpret.pymachine import Call, Machine

_SHARED = ("add_argument_group", "add_mutually_exclusive_group", "add_subparsers", "add_parser")


def parser_method(machine: Machine, owner: Obj, name: str, call: Call) -> Value | None:
    """A method of an argparse parser; groups and subcommands share the parser's options."""
    if name in _SHARED:
        if name == "add_subparsers":
            dest = call.kwargs.get("dest")
            if isinstance(dest, Const):
                _declare(machine, owner, str(dest.value), Unk(call.at, str(dest.value), assumed=None))
        return owner
    if name == "add_argument":
        _add_argument(machine, owner, call)
        return Const(call.at, None)
    if name == "set_defaults":
        for key, value in call.kwargs.items():
            _declare(machine, owner, key, value)
        return Const(call.at, None)
    if name == "parse_args":
        return Inst(call.at, None, dict(owner.data))
    if name in ("add_cli_args", "make_arg_parser"):
        return owner
    if name in ("parse_known_args", "parse_known_intermixed_args"):
        return Seq(call.at, [Inst(call.at, None, dict(owner.data)), Seq(call.at, [])], "tuple")
    return None


def _declare(machine: Machine, owner: Obj, name: str, value: Value) -> None:
    machine.touch(owner)
    owner.data = {**owner.data, name: value}


def _add_argument(machine: Machine, owner: Obj, call: Call) -> None:
    names = [text for text in (machine.known(a) for a in call.args) if isinstance(text, str)]
    if not names:
        return
    long = next((n for n in names if n.startswith("--")), names[0])
    dest = call.kwargs.get("dest")
    key = str(dest.value) if isinstance(dest, Const) else long.lstrip("-").replace("-", "_")
    _declare(machine, owner, key, _option_value(machine, long, call.kwargs, call.at))


def _option_value(machine: Machine, name: str, kwargs: dict[str, Value], at: Place) -> Value:
    """The default of an option; without one it is unknown, and absent as far as conditions go unless it is required."""
    default = kwargs.get("default")
    action = machine.known(kwargs["action"]) if "action" in kwargs else None
    if default is None or (isinstance(default, Const) and default.value is None):
        if action == "store_true":
            return Const(at, False)
        if action == "store_false":
            return Const(at, True)
        required = machine.truth(kwargs["required"]) is True if "required" in kwargs else not name.startswith("-")
        many = machine.known(kwargs["nargs"]) if "nargs" in kwargs else None
        if many in ("?", "*", "..."):
            required = False
        if many in ("*", "..."):
            return Seq(at, [])
        return Unk(at, name, assumed=NOTHING if required else None)
    kind = kwargs.get("type")
    if (
        isinstance(kind, Ext)
        and kind.name in ("int", "float")
        and isinstance(default, Const)
        and isinstance(default.value, str)
    ):
        return machine.call(kind, [default], {}, at)
    return default


def click_defaults(machine: Machine, func: Func, at: Place) -> dict[str, Value]:
    """Parameters that click's decorators declare, with their defaults."""
    found: dict[str, Value] = {}
    for decorator in func.decorators:
        if isinstance(decorator, Obj) and decorator.name.rsplit(".", 1)[-1] in ("option", "argument"):
            names = [text for text in (machine.known(a) for a in decorator.args) if isinstance(text, str)]
            if not names:
                continue
            long = next((n for n in names if n.startswith("--")), names[0])
            plain = next((n for n in names if not n.startswith("-")), long.lstrip("-").split("/")[0].replace("-", "_"))
            flag = "is_flag" in decorator.kwargs and machine.truth(decorator.kwargs["is_flag"])
            kwargs = {k: v for k, v in decorator.kwargs.items() if k not in ("action",)}
            value = _option_value(machine, long, kwargs, decorator.at)
            found[plain.lower()] = Const(at, False) if flag and isinstance(value, Unk) else value
    parameters = {a.arg for a in [*func.node.args.args, *func.node.args.kwonlyargs]}
    return {name: value for name, value in found.items() if name in parameters}
