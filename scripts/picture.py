"""A picture of a comment as GitHub shows it: scripts/picture.py OUT.png [--width N] [--height N] [--dark] < comment.md
With --terminal, of what a command prints (`checklistbot demo --color always`).

Needs cmarkgfm, tests/tools/node_modules/github-markdown-css (make setup) and chromium (make system-deps). Nothing is
fetched. What differs from GitHub: its sanitizer and its links to people and issues are not reproduced.
"""

from __future__ import annotations

import argparse
import html
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


_TERMINAL = """<!doctype html><meta charset="utf-8"><style>
body {{ margin: 0; padding: 18px 20px; background: #0d1117; color: #d1d7e0; }}
pre {{ margin: 0; font: 13px/1.45 "DejaVu Sans Mono", "Noto Sans Mono CJK KR", monospace; white-space: pre-wrap; }}
.s1 {{ font-weight: bold; color: #f0f6fc; }} .s2 {{ color: #7d8590; }} .s31 {{ color: #ff7b72; font-weight: bold; }}
.s32 {{ color: #56d364; font-weight: bold; }} .s33 {{ color: #e3b341; font-weight: bold; }}
</style><pre>{text}</pre>
<script>document.title = document.documentElement.scrollHeight</script>"""


def terminal(text: str) -> str:
    """A page that shows text with ANSI styles as a terminal does."""
    styled = re.sub(
        r"\x1b\[(\d+)(?:;\d+)?m", lambda code: "</span>" if code[1] == "0" else f'<span class="s{code[1]}">',
        html.escape(text, quote=False),
    )  # fmt: skip
    return _TERMINAL.format(text=styled)


def page(markdown: str, *, dark: bool, unfold: bool) -> str:
    made = cmarkgfm.github_flavored_markdown_to_html(markdown, options=Options.CMARK_OPT_UNSAFE)
    made = re.sub(r"<!--.*?-->", "", made, flags=re.DOTALL)
    if unfold:
        made = made.replace("<details>", "<details open>")
    css = (CSS / f"github-markdown-{'dark' if dark else 'light'}.css").read_text(encoding="utf-8")
    return _PAGE.format(css=css, html=made, back="#0d1117" if dark else "#ffffff")


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
    parser.add_argument("--height", type=int, default=0, help="pixels; 0 is the whole comment, else its top")
    parser.add_argument("--dark", action="store_true")
    parser.add_argument("--unfold", action="store_true", help="show what is folded")
    parser.add_argument("--terminal", action="store_true", help="the input is a terminal's, with ANSI styles")
    options = parser.parse_args()
    text = sys.stdin.read()
    shown = terminal(text) if options.terminal else page(text, dark=options.dark, unfold=options.unfold)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "comment.html"
        file.write_text(shown, encoding="utf-8")
        dump = chromium(f"--window-size={options.width},600", "--dump-dom", file.as_uri())
        height = re.search(r"<title>(\d+)</title>", dump)
        whole = int(height[1]) + 16 if height else 3000
        size = f"{options.width},{min(whole, options.height or whole)}"
        chromium(f"--window-size={size}", f"--screenshot={options.out.resolve()}", file.as_uri())


if __name__ == "__main__":
    main()
