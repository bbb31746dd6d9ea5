"""What a hostile or huge log costs, and that no bytes make the reader fail."""

from __future__ import annotations

import gzip
import importlib
import io
import pkgutil
import re
import time
import zlib
from pathlib import Path
from re import _constants as sre  # type: ignore[attr-defined]
from re import _parser  # type: ignore[attr-defined]
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import checklistbot.engines as engines
from checklistbot.engines._log import grammars
from checklistbot.model import InputError
from checklistbot.observation import stream
from checklistbot.observation.logs import all_anchors, open_log, read_log
from checklistbot.observation.stream import HEAD, LINE, Stretches

LINE_64K = 1 << 16
SUMMARY = b"[2026-10-02 07:01:20 TP0] max_total_num_tokens=50016, chunked_prefill_size=8192, max_prefill_tokens=1, context_len=65536\n"
NOISE = b'[2026-10-02 07:01:20] INFO:     10.0.0.1:1 - "POST /v1/completions HTTP/1.1" 200 OK\n'


# --- patterns -------------------------------------------------------------------------------------------------------


def patterns() -> dict[str, re.Pattern[str]]:
    modules = [
        f"checklistbot.engines.{m.name}" for m in pkgutil.iter_modules(engines.__path__) if m.name.endswith("_log")
    ]
    found = {}
    for module in [
        *modules,
        "checklistbot.observation.lines",
        "checklistbot.observation.build",
        "checklistbot.observation.logs",
        "checklistbot.observation.triage",
        "checklistbot.observation.wrapped",
    ]:
        for name, value in vars(importlib.import_module(module)).items():
            source = getattr(value, "_source", None)  # a pattern that is compiled when it is first used
            if isinstance(value, re.Pattern) or isinstance(source, str):
                found[f"{module}.{name}"] = re.compile(source, value._flags) if isinstance(source, str) else value
    assert len(found) > 80
    return found


def example(tree: Any) -> str:
    """One text that the pattern matches, as far as it can be told."""
    text = ""
    for kind, value in tree:
        if kind is sre.LITERAL:
            text += chr(value)
        elif kind is sre.IN:
            text += one_of(value)
        elif kind in (sre.MAX_REPEAT, sre.MIN_REPEAT):
            low, high, inner = value
            text += example(inner) * max(low, min(int(high), 3))
        elif kind is sre.SUBPATTERN:
            text += example(value[-1])
        elif kind is sre.BRANCH:
            text += example(value[1][0])
        elif kind in (sre.ANY, sre.NOT_LITERAL):
            text += "~"
    return text


def one_of(choices: Any) -> str:
    if choices[0][0] is sre.NEGATE:
        return "~"
    kind, value = choices[0]
    if kind is sre.LITERAL:
        return chr(value)
    if kind is sre.RANGE:
        return chr(value[0])
    return {sre.CATEGORY_DIGIT: "7", sre.CATEGORY_SPACE: " "}.get(value, "a")


@pytest.mark.parametrize("name", sorted(patterns()))
def test_no_pattern_is_quadratic(name: str) -> None:
    """64 KiB of a pattern's own beginnings: a quadratic pattern needs tens of seconds for it, these need
    milliseconds."""
    pattern = patterns()[name]
    text = example(_parser.parse(pattern.pattern, pattern.flags & ~re.UNICODE | re.UNICODE))
    # Prefixes of a line are only looked for at its beginning; all other patterns are searched.
    at_start = (".lines." in name and not name.endswith(("_ANSI", "_ANSI_BARE", "_GLUED"))) or name.endswith(
        "._CUT_FLAG"
    )
    lengths = sorted({1, len(text) // 3, 2 * len(text) // 3, len(text) - 1, len(text)} - {0, -1})
    before = time.process_time()
    for length in lengths:
        line = (text[:length] * (LINE_64K // length + 1))[:LINE_64K]
        if at_start:
            pattern.match(line)
            continue
        for _ in pattern.finditer(line):
            pass
        pattern.search(line + "\0")
    assert time.process_time() - before < 0.5 * len(lengths)


@pytest.mark.parametrize("grammar", grammars(), ids=lambda grammar: grammar.engine)
def test_a_line_of_anchors_is_read_in_linear_time(grammar: Any) -> None:
    before = time.process_time()
    for word in grammar.words:
        line = (word + b" ") * (LINE_64K // (len(word) + 1))
        read_log(io.BytesIO(line[:LINE_64K] + b"\n"), "x.log")
    assert time.process_time() - before < 0.5 * len(grammar.words)


# --- any bytes ------------------------------------------------------------------------------------------------------

WORDS = [word for grammar in grammars() for word in grammar.words]
PIECES = st.one_of(
    st.sampled_from(WORDS),
    st.sampled_from(
        [b"=", b": ", b"(", b")", b"{", b"'", b'"', b"\n", b"\r", b"\x1b[31m", b"\\\n", b"--", b" | ", b"[pod/a/b] "]
    ),
    st.integers(-10, 10**30).map(lambda number: str(number).encode()),
    st.sampled_from(
        [
            b"[2026-10-02 07:01:20 TP0] ",
            b"(EngineCore_DP0 pid=7) INFO 10-02 07:01:01 [a.py:1] ",
            b"1,048,576",
            b"0.95",
            b"nan",
        ]
    ),
    st.binary(max_size=12),
)


@given(st.lists(PIECES, max_size=60))
def test_no_bytes_make_the_reader_fail(pieces: list[bytes]) -> None:
    result = read_log(io.BytesIO(b"".join(pieces)), "any.log")
    for server in (*result.servers, *result.earlier):
        for value in (server.kv_pool_tokens.value, server.context_length.value):
            assert value is None or (isinstance(value, int) and value > 0)
        assert server.line is not None
        assert server.line >= 1


@given(st.lists(st.sampled_from([SUMMARY, NOISE, b"x" * 70_000 + b"\n", b"\n"]), max_size=12), st.integers(1, 1000))
def test_stretches_hold_every_anchor_line_once_with_its_number(lines: list[bytes], head: int) -> None:
    text = b"".join(lines)
    found: dict[int, bytes] = {}
    stretches = Stretches(io.BytesIO(text), all_anchors(), head=head)
    for stretch in stretches:
        for offset, line in enumerate(stretch.lines):
            assert stretch.number + offset not in found
            found[stretch.number + offset] = line
    expected = {number for number, line in enumerate(lines, 1) if line is SUMMARY}
    assert expected <= set(found)
    assert all(found[number] == SUMMARY.rstrip(b"\n") for number in expected)
    assert stretches.lines == text.count(b"\n")


def test_a_start_deep_in_a_log_is_found_with_its_line() -> None:
    noise = NOISE * (HEAD // len(NOISE) + 5_000)
    dump = b"[2026-10-02 07:00:01] server_args=ServerArgs(model_path='acme/Otter', mem_fraction_static=0.8)\n"
    reading = read_log(io.BytesIO(noise + dump + NOISE * 3_000 + SUMMARY + noise), "deep.log")
    (server,) = reading.servers
    assert (server.kv_pool_tokens.value, server.memory_fraction.value) == (50016, 0.8)
    assert server.line == noise.count(b"\n") + 1
    assert server.kv_pool_tokens.source is not None
    assert server.kv_pool_tokens.source.line == noise.count(b"\n") + 3_002


def test_long_lines_are_cut_and_reported() -> None:
    reading = read_log(io.BytesIO(b"a" * (3 * LINE) + b"\n" + SUMMARY + b"b" * (2 << 20) + b"\n" + SUMMARY), "long.log")
    assert reading.servers[0].kv_pool_tokens.value == 50016
    assert [entry.reason for entry in reading.skipped] == ["2 line(s) longer than 64 KiB were cut"]
    assert not reading.cut


# --- opening --------------------------------------------------------------------------------------------------------


def test_gzip_is_known_by_its_content(tmp_path: Path) -> None:
    path = tmp_path / "boot.log"
    path.write_bytes(gzip.compress(SUMMARY) + gzip.compress(NOISE))
    reading = open_log(str(path))
    assert (reading.servers[0].kv_pool_tokens.value, reading.cut) == (50016, False)


@pytest.mark.parametrize("damage", ["truncated", "garbage"])
def test_a_broken_archive_counts_as_not_read(tmp_path: Path, damage: str) -> None:
    whole = gzip.compress(SUMMARY + NOISE * 5_000)
    path = tmp_path / "boot.log.gz"
    path.write_bytes(whole[:-40] if damage == "truncated" else whole[:20] + b"\xff" * 40 + whole[60:])
    reading = open_log(str(path))
    assert reading.cut
    assert any("cut" in entry.reason for entry in reading.skipped)


def test_a_bomb_is_stopped_by_its_ratio(tmp_path: Path) -> None:
    path = tmp_path / "bomb.gz"
    squeeze = zlib.compressobj(9, wbits=31)
    path.write_bytes(b"".join(squeeze.compress(b"\n" * (1 << 20)) for _ in range(64)) + squeeze.flush())
    assert open_log(str(path)).cut


def test_a_large_archive_is_stopped_by_its_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "MAX_DECOMPRESSED", 1 << 20)
    path = tmp_path / "large.gz"
    path.write_bytes(gzip.compress(SUMMARY + NOISE * 20_000))
    assert open_log(str(path)).cut


def test_more_lines_than_any_server_prints_count_as_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "MAX_LOOKED_AT", 5_000)
    reading = read_log(io.BytesIO((SUMMARY + b"n_ctx\n" * 200) * 4_000), "endless.log")
    assert reading.cut


def test_a_missing_log_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        open_log(str(tmp_path / "none.log"))
