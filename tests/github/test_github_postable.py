"""The last check before the API: what may be posted, and what is refused whoever forgot to encode it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checklistbot import encode
from checklistbot.github.marker import Marker, content_digest, parse, split
from checklistbot.github.postable import MAX_COMMENT, UnsafeComment, check, compose
from checklistbot.model import Checklist, Item, UsageError

MARKER = Marker(valid_at="2026-11-30T12:00:00Z")

OURS = """### ⛔ BLOCK · glm-5.3 · prod

SGLang **0.5.19** < 0.5.22, pool <= context & more. See [prefill.yaml:41](https://github.com/o/r/blob/abc/prefill.yaml#L41).

| fact | value |
| --- | --- |
| `a\\|<i>b</i>` | one<br>two |

<details><summary>The CI script</summary>

```bash
cat <<EOF <(x) </details> <img src=x> <!-- checklistbot {} -- >
EOF
```

</details>

- [ ] check the pool
- [x] check `<script>`

<details open>
<summary>Facts</summary>

x<sub>1</sub><sup>2</sup><br/><br />

</details>

<sub>checklistbot 0.1.0</sub>"""


def test_what_we_write_may_be_posted() -> None:
    text = compose(OURS, MARKER)
    assert split(text)[0] == OURS
    assert text.splitlines()[-2] == ""
    marker = parse(text)
    assert marker is not None
    assert marker.content == content_digest(OURS)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("<img src=https://evil/x>", "HTML that is not ours"),
        ("text <a href='https://evil'>x</a>", "HTML that is not ours"),
        ("<!-- a comment -->", "HTML that is not ours"),
        ("text <!-- a comment --> text", "HTML that is not ours"),
        ("<details onclick=x><summary>a</summary></details>", "HTML that is not ours"),
        ("<details><summary>a</summary>\n<p>hi</p>\n\n</details>", "HTML that is not ours"),
        ("<script>alert(1)</script>", "HTML that is not ours"),
        ("<?php x ?>", "HTML that is not ours"),
        ("<![CDATA[x]]>", "HTML that is not ours"),
        ("<!DOCTYPE html>", "HTML that is not ours"),
        ("| a |\n|---|\n| <b>x</b> |", "HTML that is not ours"),
        ("> <p align=center>", "HTML that is not ours"),
        ("<Details>", "HTML that is not ours"),
        ("![x](https://camo/x.png)", "an image"),
        ("a ![x][r]\n\n[r]: https://evil/x.png", "an image"),
        ("</details>", "closes a fold"),
        ("<details><summary>a</summary>\n\n</details>\n\n</details>", "closes a fold"),
        ("<details><summary>never closed</summary>", "open"),
        ("```\nnever closed", "open"),
        ("~~~\nnever closed\n```", "open"),
        ("<!-- checklistbot {} -->", "marker once"),
        ("text <!-- checklistbot {} --> text", "marker once"),
        (MARKER.render(), "marker once"),
        ("x" * MAX_COMMENT, "characters, GitHub takes 65536"),
    ],
)
def test_what_may_not_be_posted(body: str, reason: str) -> None:
    with pytest.raises(UnsafeComment, match=reason) as error:
        compose(body, MARKER)
    assert error.value.exit_code == 3
    assert "evil" not in str(error.value)


def test_the_message_names_the_line() -> None:
    with pytest.raises(UnsafeComment, match=r"not ours \(line 5\)"):
        compose("one\n\ntwo\n\nthree <i>x</i>", MARKER)


@pytest.mark.parametrize(
    "text", ["no marker", compose("x", MARKER) + "\nmore", compose("x", MARKER) + "\n" + MARKER.render()]
)
def test_the_marker_stands_once_and_last(text: str) -> None:
    with pytest.raises(UnsafeComment, match="marker once"):
        check(text)


def test_the_longest_comment_is_exactly_as_long_as_github_takes() -> None:
    room = MAX_COMMENT - len(compose("", MARKER))
    assert len(compose("x" * room, MARKER)) == MAX_COMMENT
    with pytest.raises(UnsafeComment):
        compose("x" * (room + 1), MARKER)


def test_the_carried_checklist_gives_way_to_the_text() -> None:
    texts = ["".join(chr(0x4E00 + (n * k) % 9973) for k in range(300)) for n in range(1, 9)]
    items = tuple(
        Item(f"other/{n}", "other", "recommended", "t", why, (), (), "p", "o", "before-merge", None)
        for n, why in enumerate(texts)
    )
    marker = replace(MARKER, checklist=Checklist("en", "builtin", None, items))
    assert len(marker.render()) > 4_000
    short, long = parse(compose("x", marker)), parse(compose("x" * 64_000, marker))
    assert short is not None
    assert short.checklist == marker.checklist
    assert long is not None
    assert long.checklist is None


def test_without_a_moment_nothing_is_posted() -> None:
    with pytest.raises(UsageError, match="valid_at is missing"):
        compose("x", Marker())


hostile = st.text(
    alphabet=st.sampled_from("<>!-/[]()`~|*_&;:@#\\\n \tadetilsimgx\u202e") | st.characters(), max_size=120
)


@given(hostile)
def test_encoded_text_always_passes(text: str) -> None:
    """What the encoders of the Markdown sink give may always be posted: the last check never fights the first."""
    check(compose(f"- {encode.markdown(text)}\n- {encode.code(text)}\n\n{encode.fence(text)}", MARKER))


@given(hostile)
def test_bare_text_passes_or_is_refused_and_never_breaks(text: str) -> None:
    try:
        posted = compose(text, MARKER)
    except UnsafeComment as error:
        posted, reason = "", str(error)
        assert reason.isprintable()
    assert not posted or parse(posted) is not None
