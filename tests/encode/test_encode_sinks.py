"""Each encoder against its own sink: what comes out is read back by the sink's own parser."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import unicodedata
import xml.etree.ElementTree as ElementTree

import cmarkgfm
import pytest
from cmarkgfm.cmark import Options
from hypothesis import given
from hypothesis import strategies as st
from markupsafe import Markup

from checklistbot import encode

#: Characters that matter to one of the sinks, often.
NASTY = st.text(
    alphabet=st.sampled_from(list("`\\|<>&@#:$*_~[]()!-+=.%\n\r\t '\"x1\x1b\u202e\u200b\u2028가\U000e0041\x00")),
    max_size=40,
)
WORDS = st.sampled_from(
    ["http://a`b", "@octocat", "#12", "GH-3", "abc1234", ":x:", "$a$", "--flag", "www.x.y", "a@b.co", "\\|"]
)
TEXT = st.lists(NASTY | WORDS | st.text(max_size=20), max_size=6).map("".join)


def html(markdown: str) -> str:
    return cmarkgfm.github_flavored_markdown_to_html(markdown, options=Options.CMARK_OPT_UNSAFE)


def outside_code(rendered: str) -> str:
    """The text that GitHub looks through for mentions, references, emoji."""
    return re.sub(r"<[^>]*>", "", re.sub(r"<(code|pre)\b.*?</\1>", " ", rendered, flags=re.DOTALL))


def dead(rendered: str) -> bool:
    text = outside_code(rendered)
    live = re.search(
        r"@[A-Za-z0-9]|#\d|\bGH-\d|https?://|www\.|:[A-Za-z0-9_+-]+:|\$|\b(?!\d+\b)[0-9a-f]{7,40}\b",
        text.replace("&#", ""),
    )
    return live is None


@given(TEXT)
def test_markdown_is_one_dead_paragraph(text: str) -> None:
    rendered = html(f"x {encode.markdown(text)} y")
    assert set(re.findall(r"<(\w+)", rendered)) <= {"p", "code"}
    assert rendered.count("<p>") == 1
    assert dead(rendered)


@given(TEXT)
def test_markdown_at_the_start_of_a_line_starts_nothing(text: str) -> None:
    assert set(re.findall(r"<(\w+)", html(encode.markdown(text)))) <= {"p", "code"}


@given(TEXT)
def test_markdown_stays_in_its_cell(text: str) -> None:
    for shown in (encode.markdown(text), encode.code(text)):
        rendered = html(f"| a | b |\n|---|---|\n| {shown} | last |\n")
        assert rendered.count("<td>") == 2
        assert "<td>last</td>" in rendered
        assert dead(rendered)


@given(TEXT)
def test_code_spans_hold_their_text(text: str) -> None:
    for cell in (True, False):
        rendered = html(f"a {encode.code(text, cell=cell)} b {encode.code(text, cell=cell)} c")
        assert len(re.findall(r"<code>.*?</code>", rendered, re.DOTALL)) == 2
        assert outside_code(rendered).split() == ["a", "b", "c"]


@given(TEXT)
def test_fences_hold_their_text(text: str) -> None:
    rendered = html(f"before\n\n{encode.fence(text, 'sh')}\n\nafter")
    assert rendered.count("<pre") == 1
    assert outside_code(rendered).split() == ["before", "after"]


@given(TEXT)
def test_clean_leaves_nothing_that_hides(text: str) -> None:
    for character in encode.clean(text):
        assert unicodedata.category(character) not in ("Cc", "Cf", "Cs", "Zl", "Zp")


@given(TEXT)
def test_encoders_are_bounded(text: str) -> None:
    long = (text or "x") * 5_000
    assert len(encode.clean(long, limit=50)) <= 50
    assert len(encode.terminal(long)) <= 2 * 2_000
    assert len(encode.workflow_property(long)) <= 300 * 3


@given(TEXT)
def test_xml_is_well_formed(text: str) -> None:
    element = ElementTree.fromstring(f'<a b="{encode.xml(text)}">{encode.xml(text)}</a>')
    assert (element.text or "") == encode.clean(text, limit=8_000, keep="\n\t")


@given(TEXT)
def test_a_workflow_command_stays_one_command(text: str) -> None:
    line = f"::error file={encode.workflow_property(text)},line=3::{encode.workflow_data(text)}"
    assert len(line.splitlines()) == 1
    assert line.index("::", 2) == line.index(",line=3::") + len(",line=3")


@given(TEXT)
def test_github_output_cannot_end_early(text: str) -> None:
    block = encode.github_output("name", text)
    head, *middle, tail = block.removesuffix("\n").split("\n")
    assert head == f"name<<{tail}"
    assert tail not in middle


@given(TEXT)
def test_json_survives_and_keys_are_encoded_too(text: str) -> None:
    data = json.loads(json.dumps(encode.json_safe({text: [text, {"a": text}]})))
    assert "\x1b" not in json.dumps(data)


@given(TEXT)
def test_sarif_text_has_no_link_and_no_placeholder(text: str) -> None:
    shown = re.sub(r"\\.", "", encode.sarif_text(text))
    assert "[" not in shown
    assert not re.search(r"(?<!\{)(?:\{\{)*\{\d+\}", shown)


@given(st.text(max_size=80))
def test_link_targets_are_plain_ascii(path: str) -> None:
    assert re.fullmatch(r"[A-Za-z0-9._/%*~-]*", encode.link_target(path))


# --- secrets ---------------------------------------------------------------------------------------------------------

SECRETS = [
    "sk-canary1234567890", "ghp_" + "a" * 36, "github_pat_" + "a" * 22, "hf_" + "a" * 30, "AKIA" + "A" * 16,
    "xoxb-123456789-abc", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc-_1", "glpat-" + "a" * 20,
    "-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----",
]  # fmt: skip


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize(
    "sink", ["markdown", "code", "fence", "terminal", "workflow_data", "xml", "html_text", "json_text"]
)
def test_no_sink_prints_a_secret(sink: str, secret: str) -> None:
    shown = getattr(encode, sink)(f"before {secret} after")
    assert secret.split("\n", 1)[0] not in shown
    assert "***" in shown.replace("\\", "")
    assert "after" in shown


def test_a_secret_split_by_what_nobody_sees_is_found() -> None:
    assert encode.clean("sk-can\u200bary1234567890") == "***"
    assert encode.clean("x\x1b[0msk-canary\u202e1234567890") == "x***"


@pytest.mark.parametrize(
    ("name", "secret"),
    [("api-key", True), ("HF_TOKEN", True), ("ssl_keyfile_password", True), ("admin-api-key", True), ("eos-token", False),
     ("served-model-name", False), ("max-total-tokens", False), ("tokenizer", False), ("num-reserved-decode-tokens", False)],
)  # fmt: skip
def test_names_that_hold_secrets(name: str, secret: bool) -> None:
    assert encode.secret_name(name) is secret
    assert encode.redact_value(name, "abc") == ("***" if secret else "abc")


def test_redact_keeps_the_type() -> None:
    assert isinstance(encode.redact(encode.Untrusted("sk-canary1234567890")), encode.Untrusted)


# --- what cost time or fooled a reader -------------------------------------------------------------------------------


_LONG = """
from checklistbot import encode
for piece in ("eyJ", "-----BEGIN ", "-----END ", "://a:", "sk-", "a@", "$", "`", "|", chr(27) + "]8;;", chr(0x301), "<!--"):
    encode.redact(piece * 300_000)
    encode.fence(piece * 300_000)
    encode.markdown(piece * 300_000, limit=1_000)
"""


def test_repeated_beginnings_do_not_stall() -> None:
    """A quadratic pattern would take hours here; the limit is there to end the test, it measures nothing."""
    subprocess.run([sys.executable, "-c", _LONG], check=True, timeout=300)


def test_towers_of_marks_are_cut_down() -> None:
    assert len(encode.clean("e" + "\u0301\u0302\u0303\u0304\u0305" * 20)) <= 6


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("0.5.19", "0.5.19"),
        ("1. first", "1\\. first"),
        ("- item", "\\- item"),
        ("# title", "\\# title"),
        ("context 1,048,576 tokens", "context 1,048,576 tokens"),
        ("set --context-length 680704 in prefill.yaml:41.", "set `--context-length 680704` in `prefill.yaml:41`."),
        ("prefill.yaml:41을 고치세요", "`prefill.yaml:41`을 고치세요"),
        ("KV 풀은 681,280 토큰입니다(관측).", "KV 풀은 681,280 토큰입니다(관측)."),
    ],
)
def test_harmless_text_reads_as_it_is(text: str, shown: str) -> None:
    assert encode.markdown(text) == shown


def test_pipes_are_shown_as_they_are_outside_tables() -> None:
    assert encode.code("a | b", cell=False) == "`a | b`"
    assert encode.code("a | b") == "`a \\| b`"


def test_finalize_encodes_everything_but_numbers_and_our_own_markup() -> None:
    finalize = encode.finalizer("markdown")
    assert finalize(Markup("**x**")) == "**x**"
    assert finalize(5) == 5
    assert finalize(None) == ""
    assert finalize("**x**") == "\\*\\*x\\*\\*"
    assert finalize(encode.Untrusted("@octocat")) == "`@octocat`"


def test_a_word_that_ends_in_sk_is_no_key() -> None:
    assert encode.redact("disk-scheduler, task-runner-main") == "disk-scheduler, task-runner-main"
    assert encode.redact("key=sk-canary12345678") == "key=***"
