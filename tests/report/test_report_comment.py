"""The comment: its first lines in every case, its snapshots in both languages, its size, and that nothing of it is alive."""

from __future__ import annotations

import dataclasses
import re
from datetime import UTC, datetime
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import cmarkgfm
import pytest
from cmarkgfm.cmark import Options
from hypothesis import given, settings
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode

from checklistbot.github import boxes
from checklistbot.model import Check, Fact, Report, Script, Skipped, Source, UsageError, Waived, observed
from checklistbot.report import markdown
from checklistbot.report.headline import one_line

_spec = spec_from_file_location("report_factory", Path(__file__).with_name("factory.py"))
assert _spec
assert _spec.loader
factory: Any = module_from_spec(_spec)
_spec.loader.exec_module(factory)

LINKS = markdown.Links("https://github.example", "acme/serving", factory.HEAD)
NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


def comment(report: Report, language: Any = "en", **options: Any) -> str:
    return markdown.render(report, language=language, **{"links": LINKS, "now": NOW, **options})


def first_lines(report: Report, language: Any = "en") -> list[str]:
    """The first five lines, without links, as a reader sees them."""
    body = comment(report, language, links=None)
    rows = [row for row in body.split("\n") if row]
    return [re.sub(r"\\(.)", r"\1", row) for row in rows[:5]]


class MarkdownFile(SingleFileSnapshotExtension):
    _write_mode = WriteMode.TEXT
    file_extension = "md"


# --- the whole, as it stands -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("language", ["en", "ko"])
@pytest.mark.parametrize("case", ["incident", "stale", "green", "unknown", "nothing"])
def test_the_comment_as_it_stands(case: str, language: str, snapshot: SnapshotAssertion) -> None:
    report = getattr(factory, case)(language)
    assert comment(report, language) == snapshot(name=f"{case}.{language}", extension_class=MarkdownFile)


# --- the first five lines --------------------------------------------------------------------------------------------


def test_the_incident_blocks_with_its_numbers_and_sources() -> None:
    title, changes, do, already, counts = first_lines(factory.incident())
    assert title == (
        "### ⛔ BLOCK · glm-5.3 · prod (prefill+decode): long prompts can be answered with other customers' text"
    )
    assert changes == (
        "SGLang **0.5.19** < 0.5.22, disaggregated. This PR: context 131,072 → **1,048,576** (`prefill.yaml:41`, "
        "`decode.yaml:39`); prefill pool **681,280** (observed, `prefill.log:212`, same image and flags). "
        "Prompts of 681,274–1,048,569 tokens are not rejected."
    )
    assert do.startswith("**Do:** Run SGLang 0.5.22 or later on every role of glm-5.3 (`prefill.yaml:22`, ")
    assert "680,704 tokens" in do
    assert do.endswith("Running now? Roll back, or cut prompts at ≥ 681,274 tokens in the gateway.")
    assert already == ("**Already there, not from this PR:** 1 block (sensitive data on shared serving processes).")
    assert counts.startswith(
        "3 new blocks · 2 deployments · checked head `abc1234` against base `def5678` · advisories of 2026-11-30 · "
    )
    assert "waiver" in counts


def test_a_stale_pool_neither_blocks_nor_passes_and_the_version_still_blocks() -> None:
    title, changes, do, open_points, _ = first_lines(factory.stale())
    assert title.startswith("### ⛔ BLOCK")
    assert "0.5.19 < 0.5.22" in title
    assert "stale, taken with another memory fraction" in changes
    assert "refused" not in changes
    assert "680,704" not in do
    assert "**Not proven:** prefill KV pool (log of another memory fraction)." in open_points


def test_green_is_one_line_that_names_what_was_proven() -> None:
    body = comment(factory.green(), links=None)
    title, counts = [row for row in body.split("\n") if row][:2]
    assert title == (
        "### ✅ PASS · glm-5.3 · prod (prefill+decode): prefill pool 681,280 ≥ context 680,704 (observed, "
        "`prefill.log:212`) · decode pool 1,050,624 ≥ context 680,704 (observed, `decode.log:212`) · "
        "SGLang 0.5.22 ≥ 0.5.22 (declared, `prefill.yaml:22`)"
    )
    assert counts.startswith("nothing new · 2 deployments")
    assert body.index("<details>") < body.index("#### ✅ glm-5.3")


def test_an_unknown_pool_is_never_green() -> None:
    title, changes, do, open_points, counts = first_lines(factory.unknown())
    assert title.startswith("### ◌ NOT PROVEN · glm-5.3: prefill KV pool is not known")
    assert "base is not available" in changes
    assert do.startswith("**Do:** Supply what is missing: a start-up log, a live endpoint")
    assert (
        "version (digest only) · KV pool (not said) · `charts/eu` not read (remote chart) · rule `isolation`"
        in open_points
    )
    assert "no base" in counts
    assert "✅" not in "".join((title, changes, do, open_points, counts))


def test_a_failed_llm_is_said_and_changes_nothing() -> None:
    assert "built-in checklist, because the provider did not answer in time" in comment(factory.unknown())
    assert "built-in checklist" in comment(factory.incident())
    drafted = dataclasses.replace(
        factory.incident(),
        checklist=factory.checklist(origin="anthropic"),
        llm=dataclasses.replace(factory.incident().llm, status="ok", provider="anthropic", model="m-1", input_tokens=1200, output_tokens=34),
    )  # fmt: skip
    assert "checklist by anthropic `m-1`, 1,200 + 34 tokens" in comment(drafted)


@pytest.mark.parametrize("language", ["en", "ko"])
def test_nothing_deployed_says_how_much_was_looked_at(language: str) -> None:
    title = first_lines(factory.nothing(), language)[0]
    assert "7" in title
    assert title.startswith("### ✅")
    unread = first_lines(factory.nothing(skipped=(Skipped("serve/a.yaml", "binary"),)), language)
    assert unread[0].startswith("### ◌")
    assert "`serve/a.yaml`" in unread[1]


def test_a_green_report_with_an_unproven_pool_says_so() -> None:
    """A rule that is switched off must not make the comment claim a proof."""
    report = factory.green()
    one = report.head_facts.deployments[0].replace(kv_pool_tokens=Fact())
    report = dataclasses.replace(report, head_facts=factory.facts(one, *report.head_facts.deployments[1:]))
    title, open_points, *_ = first_lines(report)
    assert "prefill pool" not in title
    assert "**Not proven:** prefill KV pool (not said)" in open_points


def test_an_upper_bound_is_no_proof() -> None:
    report = factory.green()
    capped = Fact(2_000_000, Source("declared", "serve/prefill.yaml", 9), bound="upper")
    one = report.head_facts.deployments[0].replace(kv_pool_tokens=capped)
    report = dataclasses.replace(report, head_facts=factory.facts(one, *report.head_facts.deployments[1:]))
    assert "2,000,000 ≥" not in first_lines(report)[0]
    assert "only an upper limit is declared" in first_lines(report)[1]


def test_old_blocks_do_not_block_and_are_never_folded() -> None:
    report = factory.incident()
    old = tuple(dataclasses.replace(f, status="same") for f in report.check.findings)
    body = comment(dataclasses.replace(report, check=Check(old, knowledge_date="2026-11-30")), links=None)
    assert body.startswith("### ⚠️ WARN · glm-5.3 · prod (prefill+decode): already there, not from this PR: ")
    assert "nothing new" in body
    assert "4 blocks" in body
    shown = body[: body.index("<details>")]
    assert shown.count("- ⛔ ") == 4


def test_a_waived_block_does_not_count_and_its_reason_is_shown() -> None:
    report = factory.incident()
    waived = tuple(f.replace(waived=Waived("known, ticket 7", "2027-01-31")) for f in report.check.findings)
    body = comment(dataclasses.replace(report, check=Check(waived, knowledge_date="2026-11-30")))
    assert body.startswith("### ✅ PASS")
    assert "5 findings waived" in body
    assert "waived until 2027-01-31: known, ticket 7" in body


def test_the_worst_of_several_groups_leads() -> None:
    green, bad = factory.green(), factory.incident()
    others = tuple(d.replace(id=d.id.replace("prod", "eu"), environment="eu") for d in green.head_facts.deployments)
    report = dataclasses.replace(bad, head_facts=factory.facts(*others, *bad.head_facts.deployments))
    body = comment(report, links=None)
    assert body.startswith("### ⛔ BLOCK · glm-5.3 · prod")
    assert "4 deployments in 2 environments" in body
    assert body.index("#### ⛔ glm-5.3 · prod") < body.index("<summary>✅ <code>glm-5.3</code> · <code>eu</code>")


def test_one_line_is_plain_text() -> None:
    assert one_line(factory.incident(), "en").startswith("⛔ BLOCK · glm-5.3 · prod (prefill+decode): long prompts")


# --- links -----------------------------------------------------------------------------------------------------------


def test_places_link_to_the_head_commit() -> None:
    url = f"https://github.example/acme/serving/blob/{factory.HEAD}/serve/prefill.yaml#L41"
    assert f"[`prefill.yaml:41`]({url})" in comment(factory.incident())
    below = markdown.Links("https://github.example", "acme/serving", factory.HEAD, root="deploy/glm")
    assert f"{factory.HEAD}/deploy/glm/serve/prefill.yaml#L41" in comment(factory.incident(), links=below)


@pytest.mark.parametrize(
    "path", ["../../../evil/x/y", "/etc/passwd", "https://evil.example/x", "a//b", "a\\b", "./a", "."]
)
def test_what_is_no_file_of_the_repository_is_not_linked(path: str) -> None:
    assert LINKS.url(path, 1) is None


@pytest.mark.parametrize(
    ("server", "repo", "sha"),
    [("javascript:x", "a/b", "a" * 40), ("https://x/(y)", "a/b", "a" * 40), ("https://x", "a/b/c", "a" * 40), ("https://x", "a/b", "main")],
)  # fmt: skip
def test_links_are_made_of_what_they_should_be(server: str, repo: str, sha: str) -> None:
    with pytest.raises(UsageError):
        markdown.Links(server, repo, sha)


def test_equal_names_are_told_apart() -> None:
    report = factory.incident()
    one = report.head_facts.deployments[0].replace(kv_pool_tokens=observed(5, "other/prefill.log", 3))
    body = comment(
        dataclasses.replace(report, head_facts=factory.facts(*report.head_facts.deployments, one)), links=None
    )
    assert "`logs/prefill.log:212`" in body
    assert "`other/prefill.log:3`" in body


# --- size ------------------------------------------------------------------------------------------------------------


def big(groups: int, items: int, script: int) -> Report:
    report = factory.incident()
    members = [
        d.replace(id=d.id.replace("prod", f"env{n}"), environment=f"env{n}")
        for n in range(groups)
        for d in report.head_facts.deployments
    ]
    findings = tuple(
        dataclasses.replace(f, deployment=f.deployment.replace("prod", f"env{n}"))
        for n in range(groups)
        for f in report.check.findings
    )
    return dataclasses.replace(
        report,
        head_facts=factory.facts(*members),
        check=Check(findings, knowledge_date="2026-11-30"),
        checklist=factory.checklist(*(factory.item(f"other{n}") for n in range(items))),
        scripts=(Script("bash", "ci.sh", "echo 🙂 done\n" * script),),
    )


@pytest.mark.parametrize("language", ["en", "ko"])
@pytest.mark.parametrize(
    ("groups", "items", "script"), [(1, 3, 1_700), (3, 3, 1_500), (14, 60, 10), (60, 300, 10), (300, 1_000, 10)]
)
def test_the_comment_stays_below_the_limit_and_says_what_it_left_out(
    groups: int, items: int, script: int, language: str
) -> None:
    body = comment(big(groups, items, script), language)
    assert len(body.encode("utf-16-le")) // 2 <= markdown.LIMIT
    assert body.startswith("### ⛔")
    left_out = {"en": "**Left out, because a comment holds 65,536 characters at most:**", "ko": "65,536자까지만"}[
        language
    ]
    whole = markdown.render(big(groups, items, script), language=language, links=LINKS, now=NOW, limit=10_000_000)
    assert (left_out in body) == (len(whole) > markdown.LIMIT)


def test_what_was_left_out_is_a_click_away_in_a_workflow() -> None:
    links = dataclasses.replace(LINKS, run_id="4711")
    body = markdown.render(big(14, 60, 1_500), language="en", links=links, now=NOW, limit=60_000)
    assert (
        f"[The whole of it is in the summary of this run.]({links.server_url}/{links.repo}/actions/runs/4711)" in body
    )


def test_a_drafts_comment_shows_the_headline_and_folds_the_rest() -> None:
    body = markdown.render(big(2, 5, 10), language="en", links=LINKS, now=NOW, folded=True)
    head, _, rest = body.partition("<details><summary>Draft: ")
    assert head.startswith("### ⛔ BLOCK")
    assert "#### " not in head
    assert "- [ ] " not in head
    assert "- [ ] " in rest


def test_a_small_limit_leaves_the_headline() -> None:
    body = comment(big(60, 300, 10), limit=9_000)
    assert len(body) <= 9_000
    assert "280 items of the checklist, 41 groups" in body
    assert "BLOCK" in body


@pytest.mark.parametrize("limit", [60_000, 20_000, 9_000, 4_000])
def test_boxes_that_a_check_waits_for_are_never_left_out(limit: int) -> None:
    report = big(60, 300, 10)
    must = report.checklist.items[:7]
    body = markdown.render(report, language="en", links=LINKS, now=NOW, limit=limit, must_tick={i.id for i in must})
    assert len(body) <= limit
    shown = boxes.read(body, boxes.of(report.checklist.items, body))
    assert {boxes.item_key(item.id) for item in must} <= set(shown)
    assert f"{300 - len(shown)} items of the checklist" in body


# --- nothing in it is alive ------------------------------------------------------------------------------------------

ATTACKS = [
    "<script>alert(1)</script><img src=x onerror=1>", "</details></summary><h1>PASS</h1>", "![x](https://e.x/p.png)",
    "[click](javascript:alert(1))", "https://evil.example/a", "@octocat @org/team a@b.co", "#1 GH-2 o/r#3 fixes #4",
    "`@octocat`", "``` \n# x", "\\`@octocat\\`", "| a | b |\n|---|---|", "- [x] done", "\n\n- [x] done\n", "<!-- checklistbot {} -->",
    "\u202e\u2066evil\u2069", "\x1b[31mred\x1b]8;;http://e.x\x07", "&lt;b&gt; &commat;octocat", "$\\href{x}{y}$", ":tada: :x:",
    "::error::x", "\\|@octocat", "#1http://x`@octocat", "a" * 5_000, "", " ", "\u0000", "[ref]: http://e.x\n\n[ref]", "*a* _b_ ~c~",
    "1. x", "===", "---", "> [!NOTE]", "http://a`b`@octocat", "<a href='x'>", "]]>", "\u200b@octocat", "＠octocat", "x\r\n\r\n# y",
]  # fmt: skip
_HTML = {"a", "p", "br", "sub", "details", "summary", "code", "strong", "h3", "h4", "table", "thead", "tbody", "tr", "th", "td", "ul",
         "ol", "li", "input", "pre", "blockquote", "hr"}  # fmt: skip


def inert(report: Report, language: Any = "en") -> None:
    """Rendered as GitHub does it, the comment has our tags, our links, our boxes and nothing else."""
    body = comment(report, language)
    html = cmarkgfm.github_flavored_markdown_to_html(body, options=Options.CMARK_OPT_UNSAFE)
    assert set(re.findall(r"<([a-zA-Z][\w-]*)", html)) <= _HTML, body
    prefix = f"https://github.example/acme/serving/blob/{factory.HEAD}/"
    assert all(target.startswith(prefix) for target in re.findall(r'href="([^"]*)"', html)), body
    assert html.count("<input ") == len(report.checklist.items)
    assert 'checked=""' not in html
    assert html.count("<details>") == html.count("</details>")
    outside = re.sub(r"<(code|pre)\b.*?</\1>", " ", html, flags=re.DOTALL)
    text = re.sub(r"<[^>]*>", "", outside)
    assert not re.search(r"@\w", text), body
    assert not re.search(r"(?<!&)#\d|\bGH-\d", text), body
    assert not re.search(r"https?://|www\.|:[a-z]+:|\$", text), body
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f\u200b-\u200f\u202a-\u202e\u2066-\u2069]", body)
    assert "<!--" not in html


@pytest.mark.parametrize("language", ["en", "ko"])
@pytest.mark.parametrize("text", ATTACKS, ids=range(len(ATTACKS)))
def test_no_attack_comes_alive(text: str, language: str) -> None:
    inert(factory.hostile(text), language)


@settings(max_examples=60)
@given(st.lists(st.sampled_from(ATTACKS) | st.text(max_size=12), min_size=1, max_size=5).map("".join))
def test_no_mixture_comes_alive(text: str) -> None:
    inert(factory.hostile(text))


@pytest.mark.parametrize("case", ["incident", "stale", "green", "unknown", "nothing"])
def test_our_own_comments_are_inert_too(case: str) -> None:
    inert(getattr(factory, case)())


def test_secrets_are_masked_whatever_brought_them() -> None:
    assert "sk-canary" not in comment(factory.hostile("x sk-canary1234567890 y"))
    assert "sk-can" not in comment(factory.hostile("x sk-can\u200bary1234567890 y"))
