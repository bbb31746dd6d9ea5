"""Commands whose output follows from their input: what a script computes with before it starts the server."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Sequence
from typing import Final

from checklistbot.discovery.limits import TooMuch, costly
from checklistbot.discovery.sh.text import HERE, Text, join, of
from checklistbot.engines.base import OPEN

_MAX: Final = 100_000


def run(words: Sequence[Text], stdin: Text | None) -> Text | None:
    """The standard output of a known command, None where it is not known."""
    if not words:
        return None
    name = posixpath.basename(words[0].plain)
    command = _COMMANDS.get(name)
    if command is None:
        return None
    arguments = list(words[1:])
    if name not in _PASS_MARKS and any(OPEN in word.plain for word in (*arguments, stdin or of("", "", 1))):
        return None
    try:
        return command(words[0], arguments, stdin)
    except (ValueError, IndexError, re.error, OverflowError, ZeroDivisionError):
        return None


def _operands(words: Sequence[Text], valued: str = "") -> tuple[dict[str, str], list[Text]]:
    """Short options (value "" for switches) and operands; ``valued`` lists the letters that take a value."""
    options: dict[str, str] = {}
    operands: list[Text] = []
    at = 0
    while at < len(words):
        plain = words[at].plain
        at += 1
        if plain == "--":
            operands += words[at:]
            break
        if not re.match(r"-[A-Za-z]", plain):
            operands.append(words[at - 1])
            continue
        for index, letter in enumerate(plain[1:], 1):
            if letter in valued:
                rest = plain[index + 1 :]
                if not rest and at < len(words):
                    rest = words[at].plain
                    at += 1
                options[letter] = rest
                break
            options[letter] = ""
    return options, operands


def _echo(name: Text, words: list[Text], stdin: Text | None) -> Text:
    newline, escapes = True, False
    while words and re.fullmatch(r"-[neE]+", words[0].plain):
        newline, escapes = newline and "n" not in words[0].plain, "e" in words[0].plain or escapes
        words = words[1:]
    line = join(words)
    if escapes:
        line = line.replaced(_unescaped(line.plain))
    path, number = line.place if line else name.place
    return line + of("\n", path, number) if newline else line


def _unescaped(text: str) -> str:
    return text.replace("\\n", "\n").replace("\\t", "\t").replace("\\\\", "\\")


def _printf(name: Text, words: list[Text], stdin: Text | None) -> Text | None:
    if words and words[0].plain == "--":
        words = words[1:]
    if not words or words[0].plain == "-v":
        return None
    pattern, values = _unescaped(words[0].plain), words[1:]
    parts: list[Text] = []
    path, line = words[0].place
    pieces = re.split(r"(%[-+ 0#]*\d*(?:\.\d+)?[sdiufbq])", pattern.replace("%%", "\0"))
    while True:
        for piece in pieces:
            if re.fullmatch(r"%.*[sdiufbq]", piece, re.DOTALL) and len(piece) > 1:
                value = values.pop(0) if values else of("", path, line)
                parts.append(
                    value
                    if piece in ("%s", "%d", "%b", "%q", "%i", "%u")
                    else value.replaced(_formatted(piece, value.plain))
                )
            elif piece:
                parts.append(of(piece.replace("\0", "%"), path, line))
        if not values or len(pieces) == 1 or len(parts) > 1_000:
            return join(parts, "")


def _formatted(spec: str, value: str) -> str:
    width = re.search(r"\.(\d+)", spec)
    if spec[-1] == "f":
        return f"{float(value or 0):.{int(width[1]) if width else 6}f}"
    return value


def _basename(name: Text, words: list[Text], stdin: Text | None) -> Text:
    plain = words[0].plain.rstrip("/").replace(HERE, "")
    found = plain.rpartition("/")[2]
    if len(words) > 1 and found.endswith(words[1].plain) and found != words[1].plain:
        found = found[: -len(words[1].plain)]
    return words[0].replaced(found + "\n")


def _dirname(name: Text, words: list[Text], stdin: Text | None) -> Text:
    plain = words[0].plain
    here = HERE if plain.startswith(HERE) else ""
    return words[0].replaced(here + (posixpath.dirname(plain.removeprefix(here).rstrip("/")) or ".") + "\n")


def _realpath(name: Text, words: list[Text], stdin: Text | None) -> Text | None:
    _, operands = _operands(words)
    if not operands or not operands[0].plain.startswith((HERE, "/")):
        return None
    plain = operands[0].plain
    here = HERE if plain.startswith(HERE) else ""
    return operands[0].replaced(here + posixpath.normpath(plain.removeprefix(here) or ".") + "\n")


def _tr(name: Text, words: list[Text], stdin: Text | None) -> Text | None:
    options, operands = _operands(words)
    if stdin is None:
        return None
    source = _characters(operands[0].plain)
    if "d" in options:
        return stdin.replaced("".join(c for c in stdin.plain if c not in source))
    target = _characters(operands[1].plain) if len(operands) > 1 else source
    target += target[-1:] * max(0, len(source) - len(target))
    changed = stdin.plain.translate({ord(a): b for a, b in zip(source, target, strict=False)})
    return Text(tuple((changed[a:b], p, n) for (a, b), (_, p, n) in zip(_spans(stdin), stdin.pieces, strict=True)))


def _spans(text: Text) -> list[tuple[int, int]]:
    spans, at = [], 0
    for piece, _, _ in text.pieces:
        spans.append((at, at + len(piece)))
        at += len(piece)
    return spans


def _characters(text: str) -> str:
    text = (
        _unescaped(text)
        .replace("[:upper:]", "ABCDEFGHIJKLMNOPQRSTUVWXYZ")
        .replace("[:lower:]", "abcdefghijklmnopqrstuvwxyz")
    )
    text = text.replace("[:space:]", " \t\n").replace("[:digit:]", "0123456789")
    return re.sub(r"(\w)-(\w)", lambda m: "".join(map(chr, range(ord(m[1]), ord(m[2]) + 1))), text)


def _wc(name: Text, words: list[Text], stdin: Text | None) -> Text | None:
    options, operands = _operands(words)
    if stdin is None or operands:
        return None
    plain = stdin.plain
    counts = {"l": plain.count("\n"), "w": len(plain.split()), "c": len(plain.encode()), "m": len(plain)}
    letter = next(iter(options), "")
    return stdin.replaced(f"{counts[letter]}\n") if letter in counts else None


def _grep(name: Text, words: list[Text], stdin: Text | None) -> Text | None:
    options, operands = _operands([w for w in words if not w.plain.startswith("--")], "eABCm")
    if stdin is None or "q" in options:
        return None
    pattern = options.get("e") or (operands[0].plain if operands else "")
    regex = re.compile(
        re.escape(pattern)
        if "F" in options or name.plain == "fgrep"
        else _regex(pattern, "E" in options or "P" in options or name.plain == "egrep", stdin.lines()),
        re.IGNORECASE if "i" in options else 0,
    )
    kept: list[Text] = []
    for line in stdin.lines():
        if (regex.search(line.plain[:_MAX]) is not None) == ("v" not in options):
            if "o" in options:
                kept += [line.slice(m.start(), m.end()) + of("\n", *line.place) for m in regex.finditer(line.plain)]
            else:
                kept.append(line + of("\n", *line.place))
    if "c" in options:
        return stdin.replaced(f"{len(kept)}\n")
    return join(kept, "")


def _regex(pattern: str, extended: bool, lines: list[Text]) -> str:
    """A POSIX pattern as Python's; bounded by the longest line it will meet, because scripts are not ours."""
    longest = max((line.plain for line in lines), key=len, default="")
    if len(pattern) > 200 or re.search(r"[*+]\)?[*+{]|\)\\?[*+{]", pattern) or costly(pattern, longest, "*+?{"):
        raise TooMuch
    pattern = (
        pattern.replace("[[:space:]]", r"\s")
        .replace("[:space:]", r"\s")
        .replace("[[:digit:]]", r"\d")
        .replace("[:digit:]", r"\d")
        .replace("[[:alpha:]]", "[A-Za-z]")
    )
    if extended:
        return pattern
    return re.sub(r"\\([+?(){}|])|([+?(){}|])", lambda m: m[1] if m[1] else "\\" + m[2], pattern)


def _sed(name: Text, words: list[Text], stdin: Text | None) -> Text | None:
    options, operands = _operands(words, "e")
    if stdin is None or "i" in options:
        return None
    script = options.get("e") or operands[0].plain
    extended = "E" in options or "r" in options
    commands = [part.strip() for part in script.split(";") if part.strip()]
    lines = stdin.lines()
    for command in commands:
        lines = _sed_command(command, lines, extended)
    return join([line + of("\n", *(line.place if line else name.place)) for line in lines], "")


def _sed_command(command: str, lines: list[Text], extended: bool) -> list[Text]:
    delete = re.fullmatch(r"/(.*)/d", command)
    if delete is not None:
        regex = re.compile(_regex(delete[1], extended, lines))
        return [line for line in lines if not regex.search(line.plain)]
    substitution = re.fullmatch(r"s(.)(.*?)(?<!\\)\1(.*?)(?<!\\)\1(\w*)", command)
    if substitution is None:
        raise ValueError
    regex = re.compile(_regex(substitution[2].replace("\\" + substitution[1], substitution[1]), extended, lines))
    replacement = re.sub(r"(?<!\\)&", r"\\g<0>", substitution[3])
    count = 0 if "g" in substitution[4] else 1
    return [
        line.replaced(regex.sub(replacement, line.plain, count=count)) if regex.search(line.plain) else line
        for line in lines
    ]


def _cut(name: Text, words: list[Text], stdin: Text | None) -> Text | None:
    options, _ = _operands(words, "dfc")
    if stdin is None or "f" not in options:
        return None
    delimiter = options.get("d", "\t").strip("'\"") or " "
    low, dash, high = options["f"].partition("-")
    first = int(low or 1) - 1
    last = int(high) if high else None if dash else first + 1
    lines = [line.replaced(delimiter.join(line.plain.split(delimiter)[first:last])) for line in stdin.lines()]
    return join([line + of("\n", *line.place) for line in lines], "")


def _head(name: Text, words: list[Text], stdin: Text | None) -> Text | None:
    if stdin is None:
        return None
    count = next((int(m[0]) for w in words if (m := re.search(r"\d+$", w.plain))), 10)
    lines = stdin.lines()
    kept = lines[:count] if name.plain == "head" else lines[-count:]
    return join([line + of("\n", *line.place) for line in kept if line], "")


def _sort(name: Text, words: list[Text], stdin: Text | None) -> Text | None:
    if stdin is None or any(w.plain not in ("-u", "-r", "-n") for w in words):
        return None
    numeric, reverse = any(w.plain == "-n" for w in words), any(w.plain == "-r" for w in words)
    lines = sorted(stdin.lines(), key=lambda t: (float(t.plain) if numeric else 0.0, t.plain), reverse=reverse)
    if any(w.plain == "-u" for w in words):
        lines = list({line.plain: line for line in lines}.values())
    return join([line + of("\n", *line.place) for line in lines], "")


def _seq(name: Text, words: list[Text], stdin: Text | None) -> Text | None:
    numbers = [int(w.plain) for w in words if re.fullmatch(r"-?\d+", w.plain)]
    if len(numbers) != len(words) or not 1 <= len(numbers) <= 3:
        return None
    first, step, last = (
        (1, 1, numbers[0])
        if len(numbers) == 1
        else (numbers[0], 1, numbers[1])
        if len(numbers) == 2
        else tuple(numbers)
    )
    if step == 0 or abs((last - first) // step) > 1_000:
        return None
    return words[0].replaced("".join(f"{n}\n" for n in range(first, last + (1 if step > 0 else -1), step)))


def _expr(name: Text, words: list[Text], stdin: Text | None) -> Text | None:
    from checklistbot.discovery.sh.arithmetic import evaluate

    value = evaluate(" ".join(w.plain for w in words), lambda _: None, lambda _n, _v: None)
    return words[0].replaced(f"{value}\n") if value is not None else None


def _bc(name: Text, words: list[Text], stdin: Text | None) -> Text | None:
    if stdin is None:
        return None
    expression = re.sub(r"^\s*scale\s*=\s*\d+\s*;", "", stdin.plain).strip()
    if re.fullmatch(r"\d+(?:\.\d+)?\s*[-+*]\s*\d+(?:\.\d+)?", expression):
        left, operator, right = re.split(r"\s*([-+*])\s*", expression)
        value = {"+": float(left) + float(right), "-": float(left) - float(right), "*": float(left) * float(right)}[
            operator
        ]
        return stdin.replaced(f"{value:g}\n")
    return _expr(name, [stdin.replaced(expression)], None)


def _awk(name: Text, words: list[Text], stdin: Text | None) -> Text | None:
    options, operands = _operands(words, "Fv")
    match = re.fullmatch(r"\{\s*print\s+\$(\d+|NF)\s*;?\s*\}", operands[0].plain) if operands else None
    if stdin is None or match is None or len(operands) > 1:
        return None
    separator = options.get("F")
    lines: list[Text] = []
    for line in stdin.lines():
        parts = line.plain.split(separator) if separator else line.plain.split()
        index = len(parts) if match[1] == "NF" else int(match[1])
        lines.append(line if index == 0 else line.replaced(parts[index - 1] if index <= len(parts) else ""))
    return join([line + of("\n", *line.place) for line in lines], "")


def _cat(name: Text, words: list[Text], stdin: Text | None) -> Text | None:
    return stdin if all(w.plain == "-" for w in words) else None


def _xargs(name: Text, words: list[Text], stdin: Text | None) -> Text | None:
    if stdin is None or words:
        return None
    return stdin.replaced(re.sub(r"['\"]", "", " ".join(stdin.plain.split())) + "\n")


def _download(name: Text, words: list[Text], stdin: Text | None) -> Text | None:
    """``hf download REPO [FILE]`` prints where the files lie; which model they are is all we want to know."""
    if not words or words[0].plain != "download":
        return None
    valued = {
        "--format",
        "--type",
        "--repo-type",
        "--revision",
        "--local-dir",
        "--cache-dir",
        "--include",
        "--exclude",
        "--token",
    }
    operands, skip = [], False
    for word in words[1:]:
        if skip or word.plain.startswith("-"):
            skip = not skip and word.plain in valued
            continue
        operands.append(word)
    return join([*operands[:2]], "/") + of("\n", *name.place) if operands else None


_COMMANDS: Final[dict[str, Callable[[Text, list[Text], Text | None], Text | None]]] = {
    "echo": _echo,
    "hf": _download,
    "huggingface-cli": _download,
    "printf": _printf,
    "basename": _basename,
    "dirname": _dirname,
    "realpath": _realpath,
    "readlink": _realpath,
    "tr": _tr,
    "wc": _wc,
    "grep": _grep,
    "egrep": _grep,
    "fgrep": _grep,
    "sed": _sed,
    "cut": _cut,
    "head": _head,
    "tail": _head,
    "sort": _sort,
    "seq": _seq,
    "expr": _expr,
    "bc": _bc,
    "awk": _awk,
    "gawk": _awk,
    "cat": _cat,
    "tee": _cat,
    "xargs": _xargs,
}
_PASS_MARKS: Final = frozenset({"echo", "printf", "cat", "tee"})
