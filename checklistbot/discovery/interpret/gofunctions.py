"""Helm's and sprig's functions, as far as serving charts use them. All are pure; what is not here renders as unknown."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from checklistbot.discovery.interpret import data_files, gotemplate
from checklistbot.discovery.interpret.gorender import Line, Rich, Stopped, show, truth
from checklistbot.discovery.interpret.marks import Place, has_mark
from checklistbot.discovery.interpret.pyvalues import Const, Map, Seq, Unk, Value

if TYPE_CHECKING:
    from checklistbot.discovery.interpret.gorender import Renderer

Args = list[Value]
Function = Callable[["Renderer", Args, Place], "Value | None"]
FUNCTIONS: Final[dict[str, Function]] = {}
MAX_ITEMS: Final = 2_000


def _add(*names: str) -> Callable[[Function], Function]:
    def register(function: Function) -> Function:
        FUNCTIONS.update(dict.fromkeys(names, function))
        return function

    return register


def _known(value: Value) -> Any:
    return value.value if isinstance(value, Const) else show(value) if isinstance(value, Rich) else None


def _number(value: Value) -> int | float | None:
    known = _known(value)
    if isinstance(known, bool):
        return int(known)
    if isinstance(known, (int, float)):
        return known
    if isinstance(known, str) and re.fullmatch(r"\s*[-+]?\d{1,18}(?:\.\d{1,18})?\s*", known):
        return float(known) if "." in known else int(known)
    return 0 if known is None and isinstance(value, Const) else None


# --- text ------------------------------------------------------------------------------------------------------------------


def _text_function(name: str, change: Callable[..., str]) -> None:
    """A function whose last argument is the text; its place stays."""

    def function(renderer: Renderer, args: Args, at: Place) -> Value | None:
        if not args:
            return None
        if isinstance(args[-1], Unk):
            return args[-1]
        try:
            return Const(args[-1].at, change(show(args[-1]), *(show(a) for a in args[:-1])))
        except (ValueError, TypeError, IndexError):
            return None

    FUNCTIONS[name] = function


def _cut(text: str, size: str) -> str:
    return text if has_mark(text) else text[: int(size)] if int(size) >= 0 else text[int(size) :]


_TEXT_FUNCTIONS: Final[dict[str, Callable[..., str]]] = {
    "lower": str.lower, "upper": str.upper, "title": str.title, "trim": str.strip, "nospace": lambda t: "".join(t.split()),
    "trimSuffix": lambda t, s: t.removesuffix(s), "trimPrefix": lambda t, s: t.removeprefix(s), "trimAll": lambda t, s: t.strip(s),
    "replace": lambda t, a, b: t.replace(a, b), "trunc": _cut, "b64dec": lambda t: t, "toString": lambda t: t, "kebabcase": str.lower,
    "snakecase": str.lower, "untitle": lambda t: t[:1].lower() + t[1:], "base": lambda t: t.rsplit("/", 1)[-1], "clean": lambda t: t,
    "b64enc": lambda t: base64.b64encode(t.encode()).decode() if not has_mark(t) else t,
    "repeat": lambda t, n: t * min(int(n), 100),
}  # fmt: skip
for _name, _change in _TEXT_FUNCTIONS.items():
    _text_function(_name, _change)


@_add("quote")
def _quote(renderer: Renderer, args: Args, at: Place) -> Value | None:
    parts = [json.dumps(show(a), ensure_ascii=False) for a in args if not (isinstance(a, Const) and a.value is None)]
    return Const(args[0].at if args else at, " ".join(parts))


@_add("squote")
def _squote(renderer: Renderer, args: Args, at: Place) -> Value | None:
    parts = ["'" + show(a).replace("'", "''") + "'" for a in args if not (isinstance(a, Const) and a.value is None)]
    return Const(args[0].at if args else at, " ".join(parts))


@_add("indent")
def _indent(renderer: Renderer, args: Args, at: Place) -> Value | None:
    width = _number(args[0]) if len(args) > 1 else None
    if width is None:
        return None
    pad = " " * min(int(width), 200)
    return Rich(args[-1].at, [Line(pad + line.text, line.top, line.deep, line.inserts) for line in _lines(args[-1])])


@_add("nindent")
def _nindent(renderer: Renderer, args: Args, at: Place) -> Value | None:
    indented = _indent(renderer, args, at)
    return (
        Rich(indented.at, [Line("", indented.at, indented.at), *indented.lines]) if isinstance(indented, Rich) else None
    )


def _lines(value: Value) -> list[Line]:
    if isinstance(value, Rich):
        return value.lines
    path, first = value.at
    return [
        Line(text, (path, first + n), (path, first + n), [(text, (path, first + n))] if text.strip() else [])
        for n, text in enumerate(show(value).split("\n"))
    ]


@_add("trim")
def _trim(renderer: Renderer, args: Args, at: Place) -> Value | None:
    if not args or not isinstance(args[-1], Rich):
        return Const(args[-1].at, show(args[-1]).strip()) if args else None
    lines = list(args[-1].lines)
    while lines and not lines[0].text.strip():
        del lines[0]
    while lines and not lines[-1].text.strip():
        del lines[-1]
    if lines:
        lines[0] = Line(lines[0].text.lstrip(), lines[0].top, lines[0].deep, lines[0].inserts)
        lines[-1] = Line(lines[-1].text.rstrip(), lines[-1].top, lines[-1].deep, lines[-1].inserts)
    return Rich(args[-1].at, lines)


@_add("printf")
def _printf(renderer: Renderer, args: Args, at: Place) -> Value | None:
    if not args:
        return None
    rest = iter(args[1:])
    place = at

    def one(match: re.Match[str]) -> str:
        nonlocal place
        if match[2] == "%":
            return "%"
        value = next(rest, None)
        if value is None:
            return ""
        place = value.at
        number = _number(value)
        if match[2] == "f" and number is not None and len(match[1]) < 6:
            return f"%{match[1]}f" % number
        if match[2] == "q":
            return json.dumps(show(value), ensure_ascii=False)
        return show(value)

    text = re.sub(r"%([-+ #0-9.]*)([a-zA-Z%])", one, show(args[0]))
    return Const(place if len(args) == 2 else at, text)


@_add("print", "println")
def _print(renderer: Renderer, args: Args, at: Place) -> Value | None:
    return Const(at, "".join(show(a) for a in args))


FUNCTIONS["cat"] = lambda r, a, at: Const(at, " ".join(show(v) for v in a))


@_add("join")
def _join(renderer: Renderer, args: Args, at: Place) -> Value | None:
    items = args[1].data if len(args) > 1 and isinstance(args[1], Seq) else args[1:]
    return Const(items[0].at if items else at, show(args[0]).join(show(i) for i in items)) if args else None


@_add("splitList", "split", "regexSplit")
def _split(renderer: Renderer, args: Args, at: Place) -> Value | None:
    if len(args) < 2 or isinstance(args[1], Unk):
        return None
    parts = show(args[1]).split(show(args[0]) or " ")[:MAX_ITEMS]
    return Seq(args[1].at, [Const(args[1].at, p) for p in parts])


@_add("contains")
def _contains(renderer: Renderer, args: Args, at: Place) -> Value | None:
    return Const(at, show(args[0]) in show(args[1])) if len(args) > 1 else None


FUNCTIONS["hasPrefix"] = lambda r, a, at: Const(at, show(a[1]).startswith(show(a[0]))) if len(a) > 1 else None
FUNCTIONS["hasSuffix"] = lambda r, a, at: Const(at, show(a[1]).endswith(show(a[0]))) if len(a) > 1 else None


# --- templates and structures ----------------------------------------------------------------------------------------------


@_add("include")
def _include(renderer: Renderer, args: Args, at: Place) -> Value | None:
    return renderer.include(show(args[0]), args[1] if len(args) > 1 else Const(at, None), at) if args else None


@_add("tpl")
def _tpl(renderer: Renderer, args: Args, at: Place) -> Value | None:
    if not args or isinstance(args[0], Unk) or renderer.calls > 20:
        return None
    text = show(args[0])
    if "{{" not in text:
        return args[0]
    try:
        nodes, _ = gotemplate.parse(text)
    except (gotemplate.TemplateError, RecursionError):
        return None
    renderer.calls += 1
    try:
        rich = renderer.render(nodes, args[0].at[0], args[1] if len(args) > 1 else Const(at, None))
    finally:
        renderer.calls -= 1
    first = args[0].at[1] - 1
    for line in rich.lines:
        if line.deep[0] == args[0].at[0]:
            line.deep = (line.deep[0], line.deep[1] + first)
    return rich


@_add("toYaml", "toYamlPretty")
def _to_yaml(renderer: Renderer, args: Args, at: Place) -> Value | None:
    if not args or isinstance(args[-1], Unk):
        return args[-1] if args else None
    lines = list(_yaml(args[-1], 0, renderer))
    return Rich(
        args[-1].at,
        [Line(t, p, p, [(t.partition(": ")[2] or t.lstrip("- "), p)]) for t, p in lines] or [Line("", at, at)],
    )


def _yaml(value: Value, indent: int, renderer: Renderer, depth: int = 0) -> list[tuple[str, Place]]:
    """YAML lines of a value, each with its place."""
    renderer.step()
    pad = " " * indent
    if depth > 40:
        return []
    if isinstance(value, Map):
        if not value.data:
            return [(pad + "{}", value.at)]
        found: list[tuple[str, Place]] = []
        for key, item in value.data.items():
            name = _scalar(str(key)) if not isinstance(key, bool) else str(key).lower()
            nested = isinstance(item, (Map, Seq)) and item.data
            if nested:
                found.append((f"{pad}{name}:", item.at))
                found += _yaml(item, indent + (2 if isinstance(item, Map) else 0), renderer, depth + 1)
            else:
                found.append((f"{pad}{name}: {_leaf(item)}", item.at))
        return found
    if isinstance(value, Seq):
        if not value.data:
            return [(pad + "[]", value.at)]
        found = []
        for item in value.data:
            if isinstance(item, (Map, Seq)) and item.data:
                inner = _yaml(item, indent + 2, renderer, depth + 1)
                found.append(
                    (f"{pad}- {inner[0][0].lstrip()}" if inner else f"{pad}- {{}}", inner[0][1] if inner else item.at)
                )
                found += inner[1:]
            else:
                found.append((f"{pad}- {_leaf(item)}", item.at))
        return found
    return [(pad + _leaf(value), value.at)]


def _leaf(value: Value) -> str:
    if isinstance(value, Map):
        return "{}"
    if isinstance(value, Seq):
        return "[]"
    if isinstance(value, Const) and not isinstance(value.value, str):
        return "null" if value.value is None else show(value)
    return _scalar(show(value))


def _scalar(text: str) -> str:
    plain = re.fullmatch(r"[A-Za-z/][\w/.-]*", text) and text.lower() not in (
        "true",
        "false",
        "null",
        "yes",
        "no",
        "on",
        "off",
        "y",
        "n",
    )
    return text if plain else json.dumps(text, ensure_ascii=False)


@_add("toJson", "toPrettyJson", "toRawJson", "mustToJson")
def _to_json(renderer: Renderer, args: Args, at: Place) -> Value | None:
    from checklistbot.discovery.interpret.hcleval import plain

    if not args or isinstance(args[-1], Unk):
        return args[-1] if args else None
    return Const(args[-1].at, json.dumps(plain(args[-1]), ensure_ascii=False))


@_add("fromYaml", "fromJson", "fromYamlArray", "mustFromJson")
def _from_yaml(renderer: Renderer, args: Args, at: Place) -> Value | None:
    return data_files.load(show(args[-1]), args[-1].at, "yaml") or Map(at, {}) if args else None


@_add("list", "tuple")
def _list(renderer: Renderer, args: Args, at: Place) -> Value | None:
    return Seq(at, list(args))


@_add("dict")
def _dict(renderer: Renderer, args: Args, at: Place) -> Value | None:
    return Map(at, {show(args[i]): args[i + 1] for i in range(0, len(args) - 1, 2)})


@_add("get", "index")
def _index(renderer: Renderer, args: Args, at: Place) -> Value | None:
    value = args[0] if args else None
    for key in args[1:]:
        known = _known(key)
        if isinstance(value, Map):
            value = value.data.get(known, value.data.get(str(known)))
        elif isinstance(value, Seq) and isinstance(known, int):
            value = value.data[known] if 0 <= known < len(value.data) else None
        elif isinstance(value, Unk):
            return value
        else:
            value = None
    return value if value is not None else Const(at, None)


@_add("dig")
def _dig(renderer: Renderer, args: Args, at: Place) -> Value | None:
    value: Value | None = args[-1] if args else None
    for key in args[:-2]:
        value = value.data.get(show(key)) if isinstance(value, Map) else None
    return value if value is not None else args[-2] if len(args) > 1 else None


@_add("hasKey")
def _has_key(renderer: Renderer, args: Args, at: Place) -> Value | None:
    return Const(at, isinstance(args[0], Map) and show(args[1]) in args[0].data) if len(args) > 1 else None


@_add("set")
def _set(renderer: Renderer, args: Args, at: Place) -> Value | None:
    if len(args) > 2 and isinstance(args[0], Map):
        args[0].data[show(args[1])] = args[2]
        return args[0]
    return None


@_add("unset")
def _unset(renderer: Renderer, args: Args, at: Place) -> Value | None:
    if len(args) > 1 and isinstance(args[0], Map):
        args[0].data.pop(show(args[1]), None)
        return args[0]
    return None


@_add("merge", "mustMerge")
def _merge(renderer: Renderer, args: Args, at: Place) -> Value | None:
    merged: Value = Map(at, {})
    for value in reversed(args):
        merged = overlay(merged, value)
    return merged


@_add("mergeOverwrite", "mustMergeOverwrite")
def _merge_overwrite(renderer: Renderer, args: Args, at: Place) -> Value | None:
    merged: Value = Map(at, {})
    for value in args:
        merged = overlay(merged, value)
    return merged


def overlay(under: Value, over: Value, depth: int = 0) -> Value:
    """Helm's merge of values: maps by key, everything else replaced; null removes a key."""
    if not (isinstance(under, Map) and isinstance(over, Map)) or depth > 60:
        return over
    data = dict(under.data)
    for key, value in over.data.items():
        if isinstance(value, Const) and value.value is None:
            data.pop(key, None)
        else:
            data[key] = overlay(data[key], value, depth + 1) if key in data else value
    return Map(over.at if not under.data else under.at, data)


@_add("concat")
def _concat(renderer: Renderer, args: Args, at: Place) -> Value | None:
    return Seq(at, [i for a in args if isinstance(a, Seq) for i in a.data][:MAX_ITEMS])


@_add("append", "mustAppend", "push")
def _append(renderer: Renderer, args: Args, at: Place) -> Value | None:
    return Seq(args[0].at, [*args[0].data, args[1]]) if len(args) > 1 and isinstance(args[0], Seq) else None


@_add("prepend")
def _prepend(renderer: Renderer, args: Args, at: Place) -> Value | None:
    return Seq(args[0].at, [args[1], *args[0].data]) if len(args) > 1 and isinstance(args[0], Seq) else None


@_add("first")
def _first(renderer: Renderer, args: Args, at: Place) -> Value | None:
    return args[0].data[0] if args and isinstance(args[0], Seq) and args[0].data else Const(at, None)


def _items(change: Callable[[list[Value]], list[Value]]) -> Function:
    return lambda r, a, at: Seq(a[0].at, change(list(a[0].data))) if a and isinstance(a[0], Seq) else None


FUNCTIONS["last"] = lambda r, a, at: a[0].data[-1] if a and isinstance(a[0], Seq) and a[0].data else Const(at, None)
FUNCTIONS["rest"] = _items(lambda items: items[1:])
FUNCTIONS["initial"] = _items(lambda items: items[:-1])
FUNCTIONS["reverse"] = _items(lambda items: items[::-1])
FUNCTIONS["uniq"] = _items(lambda items: list({show(i): i for i in items}.values()))
FUNCTIONS["compact"] = _items(lambda items: [i for i in items if truth(i)])
FUNCTIONS["sortAlpha"] = _items(lambda items: sorted(items, key=show))


@_add("keys")
def _keys(renderer: Renderer, args: Args, at: Place) -> Value | None:
    return Seq(at, [Const(v.at, k) for a in args if isinstance(a, Map) for k, v in a.data.items()])


FUNCTIONS["values"] = lambda r, a, at: Seq(at, [v for m in a if isinstance(m, Map) for v in m.data.values()])


@_add("pick")
def _pick(renderer: Renderer, args: Args, at: Place) -> Value | None:
    names = {show(a) for a in args[1:]}
    return (
        Map(args[0].at, {k: v for k, v in args[0].data.items() if k in names})
        if args and isinstance(args[0], Map)
        else None
    )


@_add("omit")
def _omit(renderer: Renderer, args: Args, at: Place) -> Value | None:
    names = {show(a) for a in args[1:]}
    return (
        Map(args[0].at, {k: v for k, v in args[0].data.items() if k not in names})
        if args and isinstance(args[0], Map)
        else None
    )


@_add("has")
def _has(renderer: Renderer, args: Args, at: Place) -> Value | None:
    return (
        Const(at, show(args[0]) in [show(v) for v in args[1].data])
        if len(args) > 1 and isinstance(args[1], Seq)
        else Const(at, False)
    )


@_add("len")
def _len(renderer: Renderer, args: Args, at: Place) -> Value | None:
    value = args[0] if args else None
    if isinstance(value, (Seq, Map)):
        return Const(value.at, len(value.data))
    return Const(at, len(show(value))) if isinstance(value, Const) else None


@_add("deepCopy", "mustDeepCopy")
def _copy(renderer: Renderer, args: Args, at: Place) -> Value | None:
    value = args[0] if args else None
    return Map(value.at, dict(value.data)) if isinstance(value, Map) else value


# --- conditions and numbers --------------------------------------------------------------------------------------------------


@_add("default")
def _default(renderer: Renderer, args: Args, at: Place) -> Value | None:
    return (args[1] if truth(args[1]) else args[0]) if len(args) > 1 else (args[0] if args else None)


@_add("coalesce")
def _coalesce(renderer: Renderer, args: Args, at: Place) -> Value | None:
    return next((a for a in args if truth(a)), Const(at, None))


@_add("ternary")
def _ternary(renderer: Renderer, args: Args, at: Place) -> Value | None:
    return (args[0] if truth(args[2]) else args[1]) if len(args) > 2 else None


@_add("required")
def _required(renderer: Renderer, args: Args, at: Place) -> Value | None:
    value = args[1] if len(args) > 1 else None
    missing = value is None or (isinstance(value, Const) and value.value in (None, ""))
    return Unk(at, "required", "not-said") if missing else value


@_add("fail")
def _fail(renderer: Renderer, args: Args, at: Place) -> Value | None:
    raise Stopped


@_add("not")
def _not(renderer: Renderer, args: Args, at: Place) -> Value | None:
    return Const(at, not truth(args[0])) if args else None


@_add("empty")
def _empty(renderer: Renderer, args: Args, at: Place) -> Value | None:
    return Const(at, not truth(args[0])) if args else None


def _equal(left: Value, right: Value) -> bool:
    a, b = _number(left), _number(right)
    if not isinstance(_known(left), str) and not isinstance(_known(right), str) and a is not None and b is not None:
        return a == b and (_known(left) is None) == (_known(right) is None)
    return show(left) == show(right)


@_add("eq")
def _eq(renderer: Renderer, args: Args, at: Place) -> Value | None:
    return Const(at, any(_equal(args[0], other) for other in args[1:])) if len(args) > 1 else None


@_add("ne")
def _ne(renderer: Renderer, args: Args, at: Place) -> Value | None:
    return Const(at, not _equal(args[0], args[1])) if len(args) > 1 else None


def _compare(name: str, test: Callable[[Any, Any], bool]) -> None:
    def function(renderer: Renderer, args: Args, at: Place) -> Value | None:
        numbers = [_number(a) for a in args[:2]]
        return Const(at, test(*numbers)) if len(numbers) == 2 and None not in numbers else Const(at, False)

    FUNCTIONS[name] = function


for _name, _test in {
    "lt": lambda a, b: a < b, "le": lambda a, b: a <= b, "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b,
}.items():  # fmt: skip
    _compare(_name, _test)


def _arithmetic(name: str, action: Callable[..., Any], least: int) -> None:
    def function(renderer: Renderer, args: Args, at: Place) -> Value | None:
        numbers = [_number(a) for a in args]
        if len(numbers) < least or None in numbers or any(abs(n or 0) > 2**60 for n in numbers):
            return None
        try:
            return Const(args[0].at, action(*numbers))
        except (ArithmeticError, TypeError, ValueError):
            return None

    FUNCTIONS[name] = function


def _product(*numbers: float) -> float:
    total: float = 1
    for number in numbers:
        total *= number
    return total


for _name, _action, _least in (
    ("int", int, 1), ("int64", int, 1), ("toInt", int, 1), ("float64", float, 1), ("atoi", int, 1),
    ("add", lambda *n: sum(map(int, n)), 1), ("add1", lambda n: int(n) + 1, 1), ("sub", lambda a, b: int(a) - int(b), 2),
    ("mul", lambda *n: int(_product(*n)), 1), ("div", lambda a, b: int(a) // int(b), 2), ("mod", lambda a, b: int(a) % int(b), 2),
    ("max", max, 1), ("min", min, 1), ("ceil", lambda n: -int(-n // 1), 1), ("floor", lambda n: int(n // 1), 1),
    ("mulf", _product, 1), ("divf", lambda a, b: a / b, 2), ("addf", lambda *n: sum(n), 1), ("subf", lambda a, b: a - b, 2),
    ("round", lambda a, b: round(a, min(int(b), 10)), 2),
):  # fmt: skip
    _arithmetic(_name, _action, _least)


@_add("until", "untilStep", "seq")
def _until(renderer: Renderer, args: Args, at: Place) -> Value | None:
    numbers = [int(_number(a) or 0) for a in args]
    if not numbers:
        return None
    if len(numbers) == 3 and numbers[2]:
        return Seq(at, [Const(at, i) for i in range(*numbers)[:500]])
    return Seq(at, [Const(at, i) for i in range(min(numbers[0], 500))])


_KINDS: Final[dict[str, type | tuple[type, ...]]] = {
    "string": str,
    "bool": bool,
    "int": int,
    "int64": int,
    "float64": (int, float),
    "float": float,
}


@_add("kindIs", "typeIs", "typeIsLike")
def _kind_is(renderer: Renderer, args: Args, at: Place) -> Value | None:
    if len(args) < 2:
        return None
    kind, value = show(args[0]), args[1]
    if isinstance(value, Map):
        return Const(at, kind in ("map", "map[string]interface {}"))
    if isinstance(value, Seq):
        return Const(at, kind in ("slice", "[]interface {}"))
    known = _known(value)
    if known is None:
        return Const(at, kind in ("invalid", "nil"))
    wanted = _KINDS.get(kind)
    return Const(
        at, wanted is not None and isinstance(known, wanted) and (kind == "bool" or not isinstance(known, bool))
    )


@_add("kindOf", "typeOf")
def _kind_of(renderer: Renderer, args: Args, at: Place) -> Value | None:
    value = args[0] if args else None
    name = (
        "map"
        if isinstance(value, Map)
        else "slice"
        if isinstance(value, Seq)
        else type(_known(value)).__name__
        if value
        else "invalid"
    )
    return Const(at, {"str": "string", "float": "float64", "NoneType": "invalid"}.get(name, name))


@_add("lookup", "getHostByName")
def _lookup(renderer: Renderer, args: Args, at: Place) -> Value | None:
    return Map(at, {})


@_add("semverCompare")
def _semver(renderer: Renderer, args: Args, at: Place) -> Value | None:
    return Const(at, False)


@_add(
    "sha256sum",
    "sha1sum",
    "adler32sum",
    "randAlphaNum",
    "randAlpha",
    "uuidv4",
    "now",
    "date",
    "genCA",
    "htpasswd",
    "env",
)
def _opaque(renderer: Renderer, args: Args, at: Place) -> Value | None:
    return Unk(at, "generated", "not-rendered")
