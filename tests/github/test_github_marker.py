"""The marker: exact where it locates, sceptical where it says something, bounded where it unpacks."""

from __future__ import annotations

import base64
import json
import zlib
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checklistbot.encode import Untrusted
from checklistbot.github import carried
from checklistbot.github.marker import Marker, config_digest, content_digest, join, of_report, parse, split
from checklistbot.model import Checklist, Item, UsageError

ITEM = Item(
    id="canary-leak/prod/glm-5.3/prefill",
    topic="canary-leak",
    severity="required",
    title="카나리아 누출 시험",
    why="KV pages are not zeroed between requests",
    steps=("start staging", "run the probe"),
    commands=("checklistbot probe http://staging:8000 --plan -",),
    pass_when="no canary is seen in another response",
    owner="serving",
    when="before-deploy",
    automation={"kind": "canary-leak", "fillers": 8, "probes": 3},
    facts_used={"context_length": 1048576, "role": "prefill", "fits": False},
    not_verified=("--made-up-flag",),
)
CHECKLIST = Checklist("ko", "builtin", None, (ITEM,))
FULL = Marker("team-a", "c" * 64, "d" * 64, "e" * 40, "2026-11-30T12:00:00Z", "ok", "123456/2", CHECKLIST)


def line(**changes: Any) -> str:
    """A marker's line with fields of the test's own."""
    fields = {"schema": "marker/1", "id": "default", **changes}
    return f"<!-- checklistbot {json.dumps(fields)} -->"


# --- there and back --------------------------------------------------------------------------------------------------


def test_a_marker_comes_back_as_it_went() -> None:
    assert parse(join("body", FULL)) == FULL


words = st.text("abzAZ019._-", min_size=1, max_size=63).map("x".__add__)
digests = st.binary(min_size=32, max_size=32).map(bytes.hex) | st.none()
zones = st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))
times = st.datetimes(datetime(2000, 1, 2), datetime(2100, 1, 1), timezones=zones).map(datetime.isoformat)


@given(words, digests, digests, times, words | st.none(), st.text(max_size=200))
def test_every_marker_comes_back_behind_every_body(id, content, config, valid_at, run, body) -> None:
    marker = Marker(id=id, content=content, config=config, valid_at=valid_at, run=run)
    text = join(body, marker)
    assert parse(text) == marker
    assert split(text)[1] == marker
    assert content_digest(text) == content_digest(body)
    assert parse(text.replace("\r\n", "\n").replace("\n", "\r\n") + "\r\n") == marker


@given(words)
def test_the_line_can_neither_end_its_comment_nor_hold_markup(id: str) -> None:
    inner = Marker(id=id, checklist=replace(CHECKLIST, model="--><img>&")).render()[4:-3]
    assert "--" not in inner
    assert not set("<>&\n") & set(inner)


@pytest.mark.parametrize(
    "changes",
    [
        {"id": ""},
        {"id": "a b"},
        {"id": "x" * 65},
        {"id": "--><script>"},
        {"content": "c" * 63},
        {"config": "D" * 64},
        {"head": "HEAD"},
        {"valid_at": "yesterday"},
        {"valid_at": "2026-11-30T12:00:00"},
        {"run": "a\nb"},
        {"llm": "said <b>"},
    ],
)
def test_a_field_that_does_not_fit_is_not_rendered(changes: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="comment marker: "):
        replace(FULL, **changes).render()


# --- found, or not ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "",
        "body",
        line() + "\nafter",
        line() + " ",
        " " + line(),
        "x " + line(),
        "> " + line(),
        line().replace("-->", "--->"),
        line().replace("checklistbot", "Checklistbot"),
        line(id=None),
        line(id=7),
        line(id="../x"),
        line(schema="comment/1"),
        line(schema=1),
        "<!-- checklistbot [] -->",
        "<!-- checklistbot {} -->",
        "<!-- checklistbot {nonsense} -->",
        '<!-- checklistbot {"schema": "marker/1", "id": "a", "id": "default"} -->',
        "<!-- checklistbot " + "[" * 15_000 + " -->",
        "<!-- checklistbot " + '{"a":' * 3_000 + " -->",
        line(pad="x" * 40_000),
    ],
)
def test_what_is_no_marker_of_ours(text: str) -> None:
    assert parse(text) is None
    assert split(text)[1] is None


@pytest.mark.parametrize("after", ["", "\n", "\r\n", "\n\n\n"])
def test_the_last_line_is_the_last_with_text(after: str) -> None:
    assert parse(f"body\r\n\r\n{line()}{after}") == Marker()


def test_a_later_version_of_the_marker_is_still_ours() -> None:
    assert parse(line(schema="marker/2", brand_new=[1, 2])) == Marker()


@pytest.mark.parametrize(
    "field",
    [
        {"content": "x"},
        {"content": 5},
        {"config": ["c" * 64]},
        {"head": "main"},
        {"valid_at": "9999-99-99T99:99:99Z"},
        {"valid_at": "2026-11-30T12:00:00"},
        {"valid_at": {"a": 1}},
        {"run": "\u202egnp"},
        {"llm": "<img>"},
        {"checklist": 5},
    ],
)
def test_a_field_that_does_not_fit_counts_as_not_said(field: dict[str, Any]) -> None:
    assert parse(line(**field)) == Marker()


@given(st.text(max_size=300))
def test_no_line_breaks_the_parser(text: str) -> None:
    parse(text)
    parse(f"<!-- checklistbot {text} -->")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from(["schema", "id", "content", "valid_at", "checklist", "run"]), json_values))
def test_no_json_breaks_the_parser(fields: dict[str, Any]) -> None:
    parse(line(**fields))


# --- what counts as a change -----------------------------------------------------------------------------------------

SHA, OTHER_SHA = "1234567890abcdef1234567890abcdef12345678", "f" * 40


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("made 2026-11-30 12:00 UTC", "made 2026-12-01 09:41 UTC"),
        ("valid 2026-11-30T12:00:00Z", "valid 2026-11-30T12:00:07.123+09:00"),
        (f"[x](https://h/blob/{SHA}/a.yaml#L4)", f"[x](https://h/blob/{OTHER_SHA}/a.yaml#L4)"),
        ("checked head `abc1234` against `def5678`", "checked head `bbb1234` against `fff5678abcde`"),
        ("- [ ] one\n  * [x] two", "- [x] one\n  * [ ] two"),
        ("a\r\nb\r\n", "a\nb"),
    ],
)
def test_times_commits_and_ticks_are_no_content(one: str, two: str) -> None:
    assert content_digest(one) == content_digest(two)


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("context `1048576`", "context `2097152`"),
        ("advisories of 2026-11-30", "advisories of 2026-12-01"),
        (f"image sha256:{'a' * 64}", f"image sha256:{'b' * 64}"),
        ("PASS", "BLOCK"),
        ("text [x] text", "text [ ] text"),
        ("abc1234", "abc1235"),
    ],
)
def test_everything_else_is(one: str, two: str) -> None:
    assert content_digest(one) != content_digest(two)


def test_the_config_digest_hangs_on_every_group_and_on_nothing_else() -> None:
    one = {"prod/glm": {"config": "a" * 64, "capacity": "b" * 64}, "prod/qwen": {"config": "c" * 64}}
    assert config_digest(one) == config_digest(dict(reversed(one.items())))
    assert config_digest(one) == config_digest({**one, "prod/glm": {"config": "a" * 64, "capacity": "x"}})
    assert config_digest(one) != config_digest({**one, "prod/qwen": {"config": "d" * 64}})
    assert config_digest(one) != config_digest({"prod/glm": one["prod/glm"]})


# --- the checklist it carries ----------------------------------------------------------------------------------------


def packed(data: bytes) -> str:
    return base64.b64encode(zlib.compress(data, 9)).decode()


def test_a_checklist_comes_back_untrusted() -> None:
    back = carried.unpack(carried.pack(CHECKLIST))
    assert back == CHECKLIST
    item = back.items[0]
    texts = [item.id, item.title, item.why, item.pass_when, item.owner, *item.steps, *item.commands]
    assert all(isinstance(text, Untrusted) for text in texts)


def test_a_checklist_that_is_too_long_is_left_out() -> None:
    noise = [
        replace(ITEM, id=f"other/{n}", why="".join(chr(0x4E00 + (n * k) % 20000) for k in range(900)))
        for n in range(90)
    ]
    assert carried.pack(Checklist("en", "openai", "m", tuple(noise))) is None
    assert '"checklist":null' in replace(FULL, checklist=Checklist("en", "openai", "m", tuple(noise))).render()


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "not base64!",
        "aGVsbG8=",
        "A" * (carried.MAX_CHECKLIST + 4),
        packed(b" " * 10_000_000),
        packed(b"[" * 200_000),
        packed(b'{"items":' * 20_000),
        packed(b"[]"),
        packed(b"\xff\xfe"),
        packed(b"{}")[:-4],
        base64.b64encode(zlib.compress(b"{}") + b"tail").decode(),
    ],
)
def test_what_is_no_packed_checklist(text: str | None) -> None:
    assert carried.unpack(text) is None


def test_a_bomb_is_not_unpacked_beyond_the_limit() -> None:
    """12 KB of base64 hold 9 MB; one byte over the limit is all that is ever made of them."""
    bomb = packed(b" " * 9_000_000)
    assert len(bomb) <= carried.MAX_CHECKLIST
    stream = zlib.decompressobj()
    assert (
        len(stream.decompress(base64.b64decode(bomb), carried.MAX_CHECKLIST_JSON + 1)) == carried.MAX_CHECKLIST_JSON + 1
    )
    assert carried.unpack(bomb) is None


def bent(**changes: Any) -> dict[str, Any]:
    """The checklist's JSON with changes in its only item."""
    data = CHECKLIST.to_json()
    return {**data, "items": [{**data["items"][0], **changes}]}


@pytest.mark.parametrize(
    "data",
    [
        {**CHECKLIST.to_json(), "language": "fr"},
        {**CHECKLIST.to_json(), "origin": "mallory"},
        {**CHECKLIST.to_json(), "model": 7},
        {**CHECKLIST.to_json(), "items": {}},
        {**CHECKLIST.to_json(), "items": [None]},
        {**CHECKLIST.to_json(), "items": [ITEM.to_json()] * 101},
        bent(topic="secrets"),
        bent(severity="fatal"),
        bent(when="never"),
        bent(id=None),
        bent(title="x" * 2_001),
        bent(steps="one"),
        bent(steps=["s"] * 41),
        bent(commands=[1]),
        bent(added="yes"),
        bent(facts_used=[1]),
        bent(facts_used={"a": {"b": 1}}),
        bent(facts_used={"a": float("inf")}),
        bent(automation={"kind": "shell", "run": "rm -rf /"}),
        bent(automation={"kind": "manual", "x": {"deep": 1}}),
        bent(automation="manual"),
    ],
)
def test_a_checklist_that_we_would_not_have_written(data: Any) -> None:
    assert carried.checklist_from(data) is None


def test_texts_lose_secrets_and_what_cannot_be_seen() -> None:
    back = carried.checklist_from(bent(title="a\u202e\x1b[31mb\nc", why="key sk-abcdefghijklmnop"))
    assert back is not None
    assert (back.items[0].title, back.items[0].why) == ("ab c", "key ***")


@given(json_values)
def test_no_json_breaks_the_checklist(value: Any) -> None:
    carried.checklist_from(value)
    for key in ("items", "language", "model"):
        carried.checklist_from({**CHECKLIST.to_json(), key: value})
    for key in ITEM.to_json():
        carried.checklist_from(bent(**{key: value}))


# --- from a report ---------------------------------------------------------------------------------------------------


def test_the_marker_of_a_report() -> None:
    report = {
        "head": {"ref": "topic", "commit": "e" * 40},
        "facts": {"head": {"digests": {"prod/glm": {"config": "a" * 64}}}},
        "llm": {"status": "repaired"},
        "checklist": CHECKLIST.to_json(),
    }
    marker = of_report("body", report, valid_at="2026-11-30T12:00:00Z", id="x", run="12")
    assert marker == Marker(
        id="x",
        content=content_digest("body"),
        config=config_digest({"prod/glm": {"config": "a" * 64}}),
        head="e" * 40,
        valid_at="2026-11-30T12:00:00Z",
        llm="repaired",
        run="12",
        checklist=CHECKLIST,
    )
    assert marker.when == datetime(2026, 11, 30, 12, tzinfo=UTC)


@given(st.dictionaries(st.sampled_from(["head", "facts", "llm", "checklist"]), json_values))
def test_a_report_that_is_none_still_gives_a_marker(report: dict[str, Any]) -> None:
    assert parse(join("x", of_report("x", report, valid_at="2026-11-30T12:00:00Z")))
