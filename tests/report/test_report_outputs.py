"""Terminal, JSON, SARIF, JUnit, annotations and files: each against its own reader, with hostile text in every field."""

from __future__ import annotations

import dataclasses
import json
import re
import string
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from functools import cache
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from checklistbot import resources
from checklistbot.model import Check, Facts, Finding, Location, Report, UsageError, Waived
from checklistbot.report import facts_text, files, github, headline, junit, markdown, sarif, terminal
from checklistbot.report import json as report_json
from checklistbot.report.words import Words, plain

_spec = spec_from_file_location("report_factory", Path(__file__).with_name("factory.py"))
assert _spec
assert _spec.loader
factory: Any = module_from_spec(_spec)
_spec.loader.exec_module(factory)

SARIF_SCHEMA = json.loads((Path(__file__).parent.parent / "data" / "sarif-schema-2.1.0.json").read_text())
ATTACKS = ["\x1b[31mred\x1b[0m", "\x1b]8;;http://e.x\x07", "\u202eevil", "::error file=x::y", "\n::stop-commands::x", "\r::add-mask::x",
           "##[error]x", "%0A::error::x", "a,b:c=d", "]]>", "<x y='\"&", "\x00\x0b\ufffe", "[red]x[/red]", "[link=http://e]x", "{0} [a](b)",
           "../../../etc/passwd", "/etc/passwd", "https://e.x/y", "sk-canary1234567890", "", "x" * 4_000, "가\u0301\u0301\u0301\u0301\u0301"]  # fmt: skip
CASES = ["incident", "stale", "green", "unknown", "nothing"]
TEXTS = st.lists(st.sampled_from(ATTACKS) | st.text(max_size=15), max_size=4).map("".join)


def parts(report: Report) -> tuple[Check, Facts]:
    return report.check, report.head_facts


# --- the phrases -----------------------------------------------------------------------------------------------------


@cache
def phrases(language: str) -> dict[str, list[str]]:
    """Key → its forms."""
    data = yaml.safe_load(resources.text("templates", f"words.{language}.yml"))
    return {
        f"{section}.{name}": [form] if isinstance(form, str) else list(form.values())
        for section, entries in data.items()
        for name, form in entries.items()
    }


def placeholders(form: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(form) if name}


def test_both_languages_say_the_same_things() -> None:
    english, korean = phrases("en"), phrases("ko")
    assert english.keys() == korean.keys()
    for key, forms in english.items():
        wanted = {frozenset(placeholders(form)) for form in (*forms, *korean[key])}
        assert len(wanted) == 1, key
        for form in (*forms, *korean[key]):
            assert form.count("**") % 2 == 0, key


def test_korean_is_korean_and_english_is_english() -> None:
    hangul = re.compile("[가-힣]")
    assert not [key for key, forms in phrases("en").items() if hangul.search("".join(forms))]
    same = {key for key, forms in phrases("ko").items() if forms == phrases("en")[key]}
    assert not [key for key in same if re.search("[a-z]{4}", re.sub(r"\{\w+\}", "", "".join(phrases("en")[key]))) and
                key not in ("supply.config", "fact.kv_cache_dtype")]  # fmt: skip


def test_every_phrase_is_used() -> None:
    """A phrase that nothing prints is one that nobody has read."""
    source = "".join(path.read_text(encoding="utf-8") for path in Path(headline.__file__).parent.glob("*.py"))
    families = {match[1] for match in re.finditer(r"""["'](\w+)\.\{""", source)} | {"fact", "supply"}
    families |= {match[1] for match in re.finditer(r'name\("(\w+)"', source)}
    listed = {
        f"section.{name}" for name in re.findall(r'"(\w+)"', "".join(re.findall(r"for name in \(([^)]*)\)", source)))
    }
    unused = [
        key
        for key in phrases("en")
        if f'"{key}"' not in source and key.partition(".")[0] not in families and key not in listed
    ]
    assert not unused


def test_an_unknown_phrase_is_an_error() -> None:
    with pytest.raises(KeyError):
        Words("en").line("headline.nonsense")
    with pytest.raises(KeyError):
        Words("en").line("headline.do")


@pytest.mark.parametrize(("n", "text"), [(1, "1 deployment"), (2, "2 deployments"), (1_000, "1,000 deployments")])
def test_english_counts(n: int, text: str) -> None:
    assert plain(Words("en").line("count.deployments", n=n)) == text


# --- terminal --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("language", ["en", "ko"])
@pytest.mark.parametrize("case", CASES)
def test_the_terminal_says_what_the_comment_says(case: str, language: Any) -> None:
    report = getattr(factory, case)(language)
    text = terminal.render_review(report, language=language, width=90)
    flat = " ".join(text.split())
    assert flat.startswith(
        " ".join(plain(headline.headline(headline.view(report), Words(language)).title).split())[:70]
    )
    for finding in report.check.counted:
        if finding.verdict != "pass":
            assert " ".join(finding.title.split())[:20] in flat
    for item in report.checklist.items:
        assert f"[ ] {item.title}"[:40] in flat


def test_a_check_speaks_of_no_pull_request() -> None:
    report = factory.incident()
    fresh = Check(tuple(f.replace(status="new") for f in report.check.findings), knowledge_date="2026-11-30")
    text = " ".join(terminal.render_check(fresh, report.head_facts, language="en").split())
    assert "4 blocks · 2 deployments · advisories of 2026-11-30" in text
    assert "This PR" not in text
    assert "revision" not in text


def test_facts_have_sources_and_gaps_have_reasons() -> None:
    text = facts_text.render_facts(factory.unknown().head_facts, language="en")
    assert re.search(r"context +1,048,576 +declared, serve/prefill.yaml:39", text)
    assert re.search(r"KV pool +unknown +not said", text)
    assert "set at run time by $TAG" in text


@pytest.mark.parametrize("width", [40, 80, 200])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    from rich.cells import cell_len

    text = terminal.render_review(factory.incident("ko"), language="ko", width=width)
    assert max(cell_len(row) for row in text.split("\n")) <= width


def test_colour_only_when_asked() -> None:
    assert "\x1b" not in terminal.render_review(factory.incident(), language="en")
    assert "\x1b[" in terminal.render_review(factory.incident(), language="en", color=True)


@pytest.mark.parametrize("attack", ATTACKS, ids=range(len(ATTACKS)))
def test_the_terminal_shows_and_obeys_nothing(attack: str) -> None:
    report = factory.hostile(attack)
    for text in (
        terminal.render_review(report, language="en"),
        terminal.render_check(*parts(report), language="ko"),
        facts_text.render_facts(report.head_facts, language="en"),
    ):
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u200b]", text)
        assert "sk-canary" not in text
    assert "[red]x[/red]" in terminal.render_review(factory.hostile("[red]x[/red]"), language="en")


# --- JSON ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES)
def test_json_is_stable_and_complete(case: str) -> None:
    report = getattr(factory, case)()
    text = report_json.dump(report.to_json())
    assert text == report_json.dump(json.loads(text))
    assert text.endswith("}\n")
    assert json.loads(text) == json.loads(json.dumps(report.to_json()))


def test_json_keeps_korean_readable() -> None:
    assert "긴 프롬프트" in report_json.dump(factory.incident("ko").to_json())


def test_json_has_no_numbers_that_json_does_not_have() -> None:
    with pytest.raises(ValueError):
        report_json.dump({"x": float("nan")})


@settings(max_examples=40)
@given(TEXTS)
def test_hostile_json_is_json(text: str) -> None:
    shown = report_json.dump(factory.hostile(text).to_json())
    assert not re.search("[\x00-\x08\x0b-\x1f\u202a-\u202e]", shown)
    assert json.loads(shown)["schema"] == "report/1"


# --- SARIF -----------------------------------------------------------------------------------------------------------


def sarif_of(report: Report, **options: Any) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(sarif.render_check(*parts(report), **options))
    jsonschema.Draft7Validator(SARIF_SCHEMA).validate(data)
    return data


@pytest.mark.parametrize("case", CASES)
def test_sarif_fits_its_schema(case: str) -> None:
    sarif_of(getattr(factory, case)())


def test_sarif_shows_what_is_open_and_only_that() -> None:
    (run,) = sarif_of(factory.incident())["runs"]
    assert [(r["ruleId"], r["level"]) for r in run["results"]] == [
        ("disaggregated-pair-mismatch", "error"),
        ("kv-pool-below-context", "error"),
        ("engine-below-fixed-version/sglang-pd-rejected-prefill-handoff", "error"),
        ("isolation", "error"),
    ]
    assert [r["baselineState"] for r in run["results"]] == ["new", "new", "updated", "unchanged"]
    place = run["results"][0]["locations"][0]["physicalLocation"]
    assert place == {
        "artifactLocation": {"uri": "serve/prefill.yaml", "uriBaseId": "%SRCROOT%"},
        "region": {"startLine": 41},
    }
    ids = {rule["id"] for rule in run["tool"]["driver"]["rules"]}
    assert {r["ruleId"] for r in run["results"]} <= ids


def test_sarif_fingerprints_survive_moved_lines_and_tell_findings_apart() -> None:
    report = factory.incident()
    moved = Check(tuple(f.replace(location=Location(f.location.path, 99)) for f in report.check.findings if f.location))
    marks = [
        [
            r["partialFingerprints"]["checklistbot/v1"]
            for r in json.loads(sarif.render_check(check, report.head_facts))["runs"][0]["results"]
        ]
        for check in (report.check, moved)
    ]
    assert marks[0] == marks[1]
    assert len(set(marks[0])) == len(marks[0])
    two = [
        Finding("r", "warn", "d", "t", "m", Location("a.yaml", 3), parameters={"aspect": one}) for one in ("", "layout")
    ]
    (run,) = json.loads(sarif.render_check(Check(tuple(two)), Facts()))["runs"]
    assert len({r["partialFingerprints"]["checklistbot/v1"] for r in run["results"]}) == 2


def test_sarif_uris_are_encoded_and_stay_inside() -> None:
    finding = Finding("r", "warn", "a/b/c", "t", "m", Location("a b/#é.yaml", 3))
    data = json.loads(sarif.render_check(Check((finding,)), Facts(), root="deploy"))
    uri = data["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert uri == "deploy/a%20b/%23%C3%A9.yaml"
    for path in ("/home/runner/x.yaml", "../x.yaml", "https://e.x/y"):
        run = json.loads(sarif.render_check(Check((finding.replace(location=Location(path, 3)),)), Facts()))["runs"][0]
        assert run["results"] == []
        assert "a/b/c: t" in run["invocations"][0]["toolExecutionNotifications"][0]["message"]["text"]


def test_sarif_tells_what_was_waived_not_read_and_not_run() -> None:
    report = factory.unknown()
    waived = tuple(f.replace(waived=Waived("because", None)) for f in report.check.findings)
    check = Check(waived, report.check.not_run, report.check.skipped)
    (run,) = json.loads(sarif.render_check(check, report.head_facts))["runs"]
    texts = [entry["message"]["text"] for entry in run["invocations"][0]["toolExecutionNotifications"]]
    assert run["results"] == []
    assert [text.split(":")[0] for text in texts] == ["waived", "not read", "rule not run"]


@settings(max_examples=40)
@given(TEXTS)
def test_hostile_sarif_fits_its_schema(text: str) -> None:
    data = sarif_of(factory.hostile(text), language="en")
    assert "\x1b" not in json.dumps(data)


# --- JUnit -----------------------------------------------------------------------------------------------------------


def cases(report: Report) -> dict[str, ElementTree.Element]:
    root = ElementTree.fromstring(junit.render_check(*parts(report)))
    for suite in root:
        found = {tag: len(suite.findall(f"testcase/{tag}")) for tag in ("failure", "error", "skipped")}
        assert (suite.get("failures"), suite.get("errors"), suite.get("skipped")) == tuple(map(str, found.values()))
        assert suite.get("tests") == str(len(suite))
    return {f"{case.get('classname')}|{case.get('name')}": case for case in root.iter("testcase")}


def test_junit_fails_what_blocks_and_never_passes_what_is_unknown() -> None:
    found = cases(factory.incident())
    outcomes = {
        name.split("|")[1].split("/")[0] + ":" + (case[0].tag if len(case) else "ok") for name, case in found.items()
    }
    assert outcomes == {
        "disaggregated-pair-mismatch:failure", "kv-pool-below-context:failure", "engine-below-fixed-version:failure",
        "isolation:skipped", "kv-pool-below-context:ok",
    }  # fmt: skip
    unknown = cases(factory.unknown())
    assert [case[0].tag for case in unknown.values()] == ["error", "skipped", "skipped"]


@settings(max_examples=60)
@given(TEXTS)
def test_hostile_junit_is_xml(text: str) -> None:
    cases(factory.hostile(text))


# --- annotations -----------------------------------------------------------------------------------------------------


def commands(report: Report, **options: Any) -> list[str]:
    """The workflow commands, without the verdict line before and the counts behind them."""
    return github.render_check(*parts(report), language="en", **options).split("\n")[1:-2]


def test_annotations_stand_on_their_lines() -> None:
    found = commands(factory.incident())
    assert found[0].startswith(
        "::error file=serve/prefill.yaml,line=41,title=checklistbot%3A Long prompts can be answered with other customers' text::"
    )
    assert found[0].endswith("(disaggregated-pair-mismatch)")
    assert [line.split(" ")[0] for line in found] == ["::error", "::error", "::error", "::warning"]
    assert commands(factory.incident(), root="deploy")[0].startswith("::error file=deploy/serve/prefill.yaml,")


def test_ten_of_a_kind_and_the_rest_counted() -> None:
    many = tuple(
        Finding("r", verdict, f"d{n}", f"t{n}", "m", Location("a.yaml", n + 1))  # type: ignore[arg-type]
        for verdict in ("block", "warn", "note")
        for n in range(25)
    )
    found = list(github.commands(Check(many), Facts(), language="en"))
    kinds = [re.match(r"::(\w+)", line)[1] for line in found]  # type: ignore[index]
    assert kinds == ["error"] * 10 + ["warning"] * 10 + ["notice"] * 10
    assert [line for line in found if "16 more" in line] == [
        f"::{k} title=checklistbot::16 more" for k in ("error", "warning", "notice")
    ]
    assert len(list(github.commands(Check(many[:10]), Facts(), language="en"))) == 10


def test_every_format_of_a_check_says_how_old_the_knowledge_is() -> None:
    report = factory.incident()
    check = dataclasses.replace(report.check, knowledge_date="2026-11-30")
    for form in (github, junit, markdown, sarif, terminal):
        assert "2026-11-30" in form.render_check(check, report.head_facts, language="en")
    assert "2026-11-30" in json.dumps(check.to_json())


def test_what_the_baseline_no_longer_covers_fails_in_every_format() -> None:
    finding = Finding("r", "block", "a/b/c", "t", "m", Location("a.yaml", 3), status="same")
    for days, failed in (({}, False), ({"baseline_expired": True}, True)):
        check = Check((finding.replace(parameters=days),))
        assert ("::error" in github.render_check(check, Facts(), language="en")) is failed
        assert ("<failure" in junit.render_check(check, Facts())) is failed
        assert terminal.render_check(check, Facts(), language="en").startswith("⛔" if failed else "⚠️")


def test_green_has_no_annotations() -> None:
    assert commands(factory.green()) == []


def _lines(text: str) -> Iterator[str]:
    yield from re.split(r"[\n\r\u2028\u2029\x0b\x0c\x85]", text)


@settings(max_examples=60)
@given(TEXTS)
def test_hostile_text_gives_no_command_of_its_own(text: str) -> None:
    out = github.render_check(*parts(factory.hostile(text)), language="en")
    first, *rest, last = list(_lines(out))[:-1]
    for line in (first, last):
        assert not re.match(r"\s*(::|##\[)", line)
    for line in rest:
        assert re.match(r"::(error|warning|notice) (file=[^,:]+,line=7,)?title=checklistbot%3A[^:,]*::", line), line


# --- Markdown of a check, files --------------------------------------------------------------------------------------


def test_a_check_in_markdown_has_no_boxes() -> None:
    report = factory.incident()
    text = markdown.render_check(*parts(report), language="en")
    assert text.startswith("### ⛔ BLOCK")
    assert "- [ ]" not in text


def test_files_are_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b.txt"
    files.write_text(path, "eins")
    files.write_text(path, "가", executable=True)
    assert path.read_text(encoding="utf-8") == "가"
    assert path.stat().st_mode & 0o111
    assert [p.name for p in path.parent.iterdir()] == ["b.txt"]


def test_files_are_not_written_through_links(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("kept")
    link.symlink_to(target)
    with pytest.raises(UsageError, match="link"):
        files.write_text(link, "x")
    with pytest.raises(UsageError, match="folder"):
        files.write_text(tmp_path, "x")
    (tmp_path / "file").write_text("x")
    with pytest.raises(UsageError):
        files.write_text(tmp_path / "file" / "below", "x")
    assert target.read_text() == "kept"
