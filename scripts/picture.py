"""A picture of a comment as GitHub shows it: scripts/picture.py OUT.png [--width N] [--dark] < comment.md

Needs cmarkgfm, tests/tools/node_modules/github-markdown-css (make setup) and chromium (make system-deps). Nothing is
fetched. What differs from GitHub: its sanitizer and its links to people and issues are not reproduced.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import cmarkgfm
from cmarkgfm.cmark import Options

TOP = Path(__file__).resolve().parent.parent
CSS = TOP / "tests" / "tools" / "node_modules" / "github-markdown-css"
_PAGE = """<!doctype html><meta charset="utf-8"><style>{css}
body {{ margin: 0; padding: 16px; background: {back}; }}
.markdown-body {{ box-sizing: border-box; border: 1px solid #8883; border-radius: 6px; padding: 16px; font-size: 14px; }}
</style><article class="markdown-body">{html}</article>
<script>document.title = document.documentElement.scrollHeight</script>"""


def page(markdown: str, *, dark: bool, unfold: bool) -> str:
    html = cmarkgfm.github_flavored_markdown_to_html(markdown, options=Options.CMARK_OPT_UNSAFE)
    html = re.sub(r"<!--.*?-->", "", html, flags=re.DOTALL)
    if unfold:
        html = html.replace("<details>", "<details open>")
    css = (CSS / f"github-markdown-{'dark' if dark else 'light'}.css").read_text(encoding="utf-8")
    return _PAGE.format(css=css, html=html, back="#0d1117" if dark else "#ffffff")


def chromium(*arguments: str) -> str:
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        sys.exit("picture: chromium is missing; run `make system-deps`")
    with tempfile.TemporaryDirectory() as profile:
        command = [program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
                   "--disable-background-networking", "--disable-component-update", "--disable-sync",
                   f"--user-data-dir={profile}", "--hide-scrollbars", *arguments]  # fmt: skip
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout


def main() -> None:
    parser = argparse.ArgumentParser(description="Draw a comment as GitHub shows it.")
    parser.add_argument("out", type=Path)
    parser.add_argument("--width", type=int, default=940, help="pixels; a phone has 390")
    parser.add_argument("--dark", action="store_true")
    parser.add_argument("--unfold", action="store_true", help="show what is folded")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "comment.html"
        file.write_text(page(sys.stdin.read(), dark=options.dark, unfold=options.unfold), encoding="utf-8")
        dump = chromium(f"--window-size={options.width},600", "--dump-dom", file.as_uri())
        height = re.search(r"<title>(\d+)</title>", dump)
        size = f"{options.width},{int(height[1]) + 16 if height else 3000}"
        chromium(f"--window-size={size}", f"--screenshot={options.out.resolve()}", file.as_uri())


if __name__ == "__main__":
    main()
