"""The main job as a process on the example: what a reviewer reads, what lands in the folder, how it exits."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode

from checklistbot.github.marker import split

TOP = Path(__file__).parents[2]
EXAMPLE = TOP / "examples" / "glm-5.3-disaggregated"


class Text(SingleFileSnapshotExtension):
    """A snapshot a person can open: the text itself in a file."""

    _write_mode = WriteMode.TEXT
    file_extension = "md"


def run(*arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "checklistbot", *map(str, arguments)],
        cwd="/",
        capture_output=True,
        text=True,
        encoding="utf-8",
        env={**os.environ, **environment},
        check=False,
        timeout=60,
    )
    assert "Traceback" not in done.stderr
    return done


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("example") / "repository"
    subprocess.run(["bash", EXAMPLE / "make-repository.sh", target], check=True)
    return target


def _review(
    repository: Path, out: Path, head: str = "head", *more: str, **environment: str
) -> tuple[int, dict[str, Any], str]:
    done = run("review", repository, "--base", "base", "--head", head, "--output", out, *more, **environment)
    report = json.loads((out / "report.json").read_text("utf-8"))
    body, marker = split((out / "comment.md").read_text("utf-8"))
    assert marker is not None
    return done.returncode, report, body


@pytest.mark.parametrize("language", ["en", "ko"])
@pytest.mark.parametrize("head", ["head", "head-memory-fraction"])
def test_the_comment_reads_as_it_did(
    repository: Path, tmp_path: Path, snapshot: SnapshotAssertion, language: str, head: str
) -> None:
    code, _, comment = _review(repository, tmp_path, head, "--lang", language)
    assert code == 1
    assert comment == snapshot(extension_class=Text)


def test_the_incident_is_blocked_and_every_number_is_there(repository: Path, tmp_path: Path) -> None:
    code, report, comment = _review(repository, tmp_path)
    assert code == 1
    first = [line for line in comment.splitlines() if line][:5]
    assert first[0].startswith("### ⛔ BLOCK · glm-5.3")
    assert "other customers' text" in first[0]
    for number in ("131,072", "1,048,576", "681,280", "681,274–1,048,569"):
        assert number in first[1]
    assert "680,704" in first[2]
    assert "0.5.22" in first[2]
    verdicts = {(f["rule"], f["verdict"], f["status"]) for f in report["check"]["findings"]}
    assert ("kv-pool-below-context", "block", "new") in verdicts
    assert ("disaggregated-pair-mismatch", "block", "new") in verdicts
    assert ("engine-below-fixed-version", "block", "worse") in verdicts
    assert ("isolation", "block", "same") in verdicts
    assert [(c["fact"], c["before"], c["after"]) for c in report["changes"]] == [
        ("context_length", 131072, 1048576)
    ] * 2


def test_an_outdated_pool_neither_blocks_nor_passes_and_the_version_still_blocks(
    repository: Path, tmp_path: Path
) -> None:
    code, report, _ = _review(repository, tmp_path, "head-memory-fraction")
    assert code == 1
    by_rule = {(f["rule"], f["deployment"].rsplit("/", 1)[-1]): f["verdict"] for f in report["check"]["findings"]}
    assert by_rule["kv-pool-unknown", "prefill"] == "unknown"
    assert by_rule.get(("kv-pool-below-context", "prefill"), "warn") == "warn"
    assert by_rule["disaggregated-pair-mismatch", "glm-5.3"] == "warn"
    assert by_rule["engine-below-fixed-version", "glm-5.3"] == "block"


def test_what_lands_in_the_folder(repository: Path, tmp_path: Path) -> None:
    _review(repository, tmp_path)
    files = sorted(p.relative_to(tmp_path).as_posix() for p in tmp_path.rglob("*") if p.is_file())
    assert [f for f in files if not f.startswith("ci/")] == [
        "checklist.json",
        "checklist.md",
        "comment.md",
        "report.json",
    ]
    scripts = [f for f in files if f.startswith("ci/")]
    assert scripts
    assert all(os.access(tmp_path / f, os.X_OK) for f in scripts if f.endswith(".sh"))


def test_report_and_checklist_follow_their_schemas(repository: Path, tmp_path: Path) -> None:
    _, report, _ = _review(repository, tmp_path)
    for name, data in (
        ("report", report),
        ("check", report["check"]),
        ("facts", report["facts"]["head"]),
        ("checklist", report["checklist"]),
    ):
        schema = json.loads(run("schema", name).stdout)
        jsonschema.Draft202012Validator(schema).validate(data)


def test_same_input_same_bytes(repository: Path, tmp_path: Path) -> None:
    for name, seed in (("a", "1"), ("b", "2")):
        _review(repository, tmp_path / name, PYTHONHASHSEED=seed)
    for path in (tmp_path / "a").rglob("*"):
        if path.is_file():
            assert path.read_bytes() == (tmp_path / "b" / path.relative_to(tmp_path / "a")).read_bytes()


def test_facts_checklist_and_script_do_not_hold_the_clock(repository: Path, tmp_path: Path) -> None:
    _review(repository, tmp_path / "a", CHECKLISTBOT_NOW="2026-11-30T12:00:00Z")
    _review(repository, tmp_path / "b", CHECKLISTBOT_NOW="2026-12-20T12:00:00Z")
    for name in (
        "checklist.json",
        "checklist.md",
        *(p.relative_to(tmp_path / "a").as_posix() for p in (tmp_path / "a/ci").rglob("*.*")),
    ):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


# --- what a pull request may say about itself ---------------------------------------------------------------------------


def _branch(repository: Path, tmp_path: Path, files: dict[str, str], start: str = "head") -> Path:
    """A copy of the repository whose branch ``attack`` adds these files."""
    copy = tmp_path / "copy"
    subprocess.run(["git", "clone", "-q", repository, copy, "-b", start], check=True)
    subprocess.run(["git", "-C", copy, "branch", "-q", "base", "origin/base"], check=True)
    subprocess.run(["git", "-C", copy, "checkout", "-qb", "attack"], check=True)
    for name, text in files.items():
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        (copy / name).write_text(text)
    subprocess.run(["git", "-C", copy, "add", "-A"], check=True)
    subprocess.run(["git", "-C", copy, "commit", "-qm", "attack"], check=True)
    return copy


def test_a_pull_request_cannot_silence_its_own_findings(repository: Path, tmp_path: Path) -> None:
    config = (EXAMPLE / "base/.checklistbot.yml").read_text()
    policy = (
        config.replace("tenancy: shared", "tenancy: dedicated")
        + "fail_on: never\nexclude: ['**']\n"
        + "".join(f"rules: {{{', '.join(f'{r}: off' for r in ('isolation', 'kv-pool-below-context'))}}}\n")
        + "waivers: [{rule: engine-below-fixed-version, reason: trust me}]\n"
    )
    log = (EXAMPLE / "base/ops/logs/prefill.log").read_text().replace("681280", "2000000")
    copy = _branch(repository, tmp_path, {".checklistbot.yml": policy, "ops/logs/prefill.log": log})
    code, report, comment = _review(copy, tmp_path / "out", "attack")
    assert code == 1
    assert report["check"]["counts"]["block"] >= 4
    assert "681,280" in comment.split("\n\n")[1]
    assert "policy-changed" in report["notices"]
    assert not [f for f in report["check"]["findings"] if f["waived"]]


def test_a_head_config_where_the_base_has_none_cannot_prove_anything(repository: Path, tmp_path: Path) -> None:
    copy = tmp_path / "bare"
    subprocess.run(["git", "clone", "-q", repository, copy, "-b", "base"], check=True)
    subprocess.run(["git", "-C", copy, "rm", "-q", ".checklistbot.yml"], check=True)
    subprocess.run(["git", "-C", copy, "commit", "-qm", "no config"], check=True)
    subprocess.run(["git", "-C", copy, "checkout", "-qb", "attack"], check=True)
    text = (EXAMPLE / "base/.checklistbot.yml").read_text().replace("tenancy: shared", "tenancy: dedicated")
    for path in (copy / "serve").glob("*.yaml"):
        path.write_text(path.read_text().replace("v0.5.19", "v0.5.22"))
    (copy / ".checklistbot.yml").write_text(text)
    log = copy / "ops/logs/prefill.log"
    log.write_text(log.read_text().replace("681280", "2000000"))
    subprocess.run(["git", "-C", copy, "add", "-A"], check=True)
    subprocess.run(["git", "-C", copy, "commit", "-qm", "attack"], check=True)
    _, report, comment = _review(copy, tmp_path / "out", "attack")
    assert report["check"]["verdict"] != "pass"
    isolation = [f["verdict"] for f in report["check"]["findings"] if f["rule"] == "isolation"]
    assert isolation == ["unknown"]
    assert "head-config" in report["notices"]
    assert not comment.startswith("### ✅")


def test_facts_are_compared_with_the_merge_base_and_policy_comes_from_the_tip(repository: Path, tmp_path: Path) -> None:
    """Somebody else merged a change to the base meanwhile: it is not "what this pull request changes" (point 31)."""
    copy = _branch(repository, tmp_path, {"notes.txt": "x"})
    subprocess.run(["git", "-C", copy, "checkout", "-q", "base"], check=True)
    decode = copy / "serve/decode.yaml"
    decode.write_text(decode.read_text().replace('"0.92"', '"0.90"'))
    config = (copy / ".checklistbot.yml").read_text()
    (copy / ".checklistbot.yml").write_text(
        config + "waivers: [{rule: isolation, reason: accepted by the security team}]\n"
    )
    subprocess.run(["git", "-C", copy, "commit", "-qam", "meanwhile"], check=True)
    _, report, _ = _review(copy, tmp_path / "out", "attack")
    assert {c["fact"] for c in report["changes"]} == {"context_length"}
    waived = [f["waived"] for f in report["check"]["findings"] if f["rule"] == "isolation"]
    assert waived == [{"reason": "accepted by the security team", "expires": None}]


def test_folders_of_rendered_manifests_instead_of_git(tmp_path: Path) -> None:
    done = run(
        "review", "--base-manifests", EXAMPLE / "base", "--head-manifests", _merged(tmp_path), "--output", tmp_path / "out"
    )  # fmt: skip
    assert done.returncode == 1
    report = json.loads((tmp_path / "out/report.json").read_text())
    assert report["check"]["verdict"] == "block"
    assert {c["fact"] for c in report["changes"]} == {"context_length"}


def _merged(tmp_path: Path) -> Path:
    head = tmp_path / "head"
    subprocess.run(["cp", "-R", EXAMPLE / "base", head], check=True)
    subprocess.run(["cp", "-R", f"{EXAMPLE}/head/.", head], check=True)
    return head


# --- hostile everything -------------------------------------------------------------------------------------------------

HOSTILE = "x](http://evil.example) <img src=x onerror=1> @everyone ::error::pwn \u202e\u200b `a` | b $(id) ${{ secrets.X }} sk-canary12345678"


def test_a_repository_whose_every_name_is_hostile_reaches_no_sink(tmp_path: Path) -> None:
    repository = tmp_path / "repo"
    base = (EXAMPLE / "base/serve/prefill.yaml").read_text()
    name = "a\u202e](javascript:1) <b>@octocat ::warning::x"
    for state in ("base", "head"):
        folder = repository / "serve" / name
        folder.mkdir(parents=True, exist_ok=True)
        text = base.replace("glm-5-3-prefill", '"<script>@all</script>"').replace(
            "- glm-5.3\n", f"- {json.dumps(HOSTILE)}\n"
        )
        text = text.replace("zai-org/GLM-5.3-FP8", '"org/@everyone<img>"').replace(
            "--enable-metrics", "--api-key\n              - sk-canary12345678"
        )
        (folder / f"{name}.yaml").write_text(text if state == "base" else text.replace('"131072"', '"1048576"'))
        (repository / ".checklistbot.yml").write_text(
            f"version: 1\nwaivers:\n  - {{rule: kv-pool-unknown, reason: {json.dumps(HOSTILE + '</details>')}}}\n"
        )
        if state == "base":
            subprocess.run(["git", "init", "-q", "-b", "base", repository], check=True)
        subprocess.run(["git", "-C", repository, "add", "-A"], check=True)
        subprocess.run(["git", "-C", repository, "commit", "-qm", HOSTILE], check=True)
        if state == "base":
            subprocess.run(["git", "-C", repository, "checkout", "-qb", "head"], check=True)
    done = run("review", repository, "--base", "base", "--output", tmp_path / "out")
    assert done.returncode == 1, done.stderr
    outputs = {"stdout": done.stdout, "stderr": done.stderr}
    outputs |= {p.name: p.read_text("utf-8") for p in (tmp_path / "out").rglob("*") if p.is_file()}
    for place, text in outputs.items():
        assert "sk-canary" not in text, place
        assert not re.search("[\u202a-\u202e\u2066-\u2069\u200b-\u200f\x1b]", text), place
    for form in ("sarif", "junit", "github", "markdown"):
        text = run("check", repository, "--base", "base", "--format", form).stdout
        assert "sk-canary" not in text, form
        assert "\u202e" not in text, form
        if form == "github":
            assert all(
                line.startswith(("::error", "::warning", "::notice")) for line in text.splitlines() if "::" in line
            )
    _only_inert(outputs["comment.md"])
    assert not [line for line in outputs["stdout"].splitlines() if line.startswith("::")]


def _only_inert(comment: str) -> None:
    """What GitHub's own renderer makes of the comment: no element but ours, nothing that loads, links or notifies."""
    import cmarkgfm
    from cmarkgfm.cmark import Options

    page = cmarkgfm.github_flavored_markdown_to_html(comment, options=Options.CMARK_OPT_UNSAFE)
    tags = set(re.findall(r"<([a-zA-Z][a-zA-Z0-9]*)", page))
    assert tags <= {
        "h1", "h2", "h3", "h4", "p", "br", "strong", "em", "code", "pre", "ul", "ol", "li", "input", "table", "thead", "tbody",
        "tr", "th", "td", "details", "summary", "sub", "hr", "del",
    }  # fmt: skip
    without_code = re.sub(r"<(code|pre)[^>]*>.*?</\1>", "", page, flags=re.S)
    assert not re.search(r"@[A-Za-z]", without_code)
