"""`make bench`: what a command costs, as a share of starting the same interpreter, and which SDKs it loads.

Where checkov is on PATH, `check` is also timed against it on the same folder in the same run (BENCH_MANIFESTS=DIR, else the labelled
manifests beside the repository, else our own examples). `facts` is timed against `git grep -lE` on a repository of 20,000 files, and
against `grep -cE` on a log of 1 GB. Prints one table; exit 1 if a limit is missed. Times are medians of interleaved runs, so that a busy
machine slows both sides of a ratio.
"""

from __future__ import annotations

import os
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import bench_inputs

TOP = Path(__file__).resolve().parent.parent
COMMAND = Path(sys.executable).parent / "checklistbot"
EXAMPLE = TOP / "examples" / "glm-5.3-disaggregated"
RUNS = 21
#: Runs of each of the two on a folder of manifests: checkov takes a minute.
SLOW_RUNS = 3
#: A share of checkov's time on the same folder in the same run.
CHECKOV_SHARE = 1 / 20
#: Runs of each of the two on a large input.
LARGE_RUNS = 5
#: Megabytes of memory that reading a log may take at most.
LOG_PEAK = 120.0
SDKS = ("anthropic", "github", "openai")

MANIFEST = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: chat}
spec:
  template:
    spec:
      containers:
        - name: server
          image: lmsysorg/sglang:v0.5.22
          command: [python3, -m, sglang.launch_server, --model-path, Qwen/Qwen3-8B, --context-length, "32768"]
"""


@dataclass(frozen=True)
class Row:
    """One line of the table: what was measured, the value, and the largest that is allowed."""

    name: str
    value: float
    limit: float
    unit: str

    @property
    def met(self) -> bool:
        return self.value <= self.limit


def run(command: list[str], folder: Path, accept: tuple[int, ...] = (0,)) -> None:
    """Runs a command without output; stops the benchmark where it fails."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode not in accept:
        raise SystemExit(f"scripts/bench.py: {' '.join(command)}: exit {done.returncode}\n{done.stderr}")


def seconds(command: list[str], folder: Path, accept: tuple[int, ...] = (0,)) -> float:
    """Wall-clock seconds of one run."""
    start = time.perf_counter()
    run(command, folder, accept)
    return time.perf_counter() - start


def ratios(commands: dict[str, list[str]], folder: Path) -> dict[str, float]:
    """Each command's median time over that of ``python -c pass``."""
    times: dict[str, list[float]] = {name: [] for name in ("pass", *commands)}
    for _ in range(RUNS):
        times["pass"].append(seconds([sys.executable, "-c", "pass"], folder))
        for name, command in commands.items():
            times[name].append(seconds(command, folder))
    base = statistics.median(times.pop("pass"))
    return {name: statistics.median(values) / base for name, values in times.items()}


def cpu_seconds(command: list[str], folder: Path, accept: tuple[int, ...]) -> float:
    """Median CPU seconds (user and system, children included) of five runs."""
    used = []
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        run(command, folder, accept)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        used.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return statistics.median(used)


def manifests() -> Path:
    """The folder that both tools read."""
    named = os.environ.get("BENCH_MANIFESTS")
    beside = TOP.parent / "shared" / "corpus" / "manifests"
    return Path(named) if named else beside if beside.is_dir() else TOP / "examples"


def beside_checkov(checkov: str, folder: Path, scratch: Path) -> Row:
    """Median time of `check` over that of checkov on the same folder, run in turn; neither asks the network anything."""
    command = [checkov, "-d", str(folder), "--quiet", "--compact", "--skip-download", "-o", "json"]
    ours = [str(COMMAND), "check", str(folder), "--format", "json"]
    return beside("check", ours, command, scratch, CHECKOV_SHARE, SLOW_RUNS)


def beside(name: str, ours: list[str], theirs: list[str], folder: Path, limit: float, runs: int) -> Row:
    """Median time of one command over that of another on the same input, run in turn."""
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(runs):
        times[0].append(seconds(ours, folder, (0, 1)))
        times[1].append(seconds(theirs, folder, (0, 1)))
    mine, other = (statistics.median(each) for each in times)
    print(f"{name}: {mine:.2f} s, {Path(theirs[0]).name}: {other:.2f} s")
    return Row(name, mine / other, limit, f"x {Path(theirs[0]).name}")


def beside_git(folder: Path) -> Row:
    """`facts` on a large repository beside `git grep` for the words of the engines."""
    from checklistbot import engines

    bench_inputs.repository(folder)
    words = sorted({word.decode() for engine in engines.registry().values() for word in engine.words})
    search = ["git", "grep", "-lE", "|".join(map(re.escape, words))]
    return beside("20,000 files", [str(COMMAND), "facts", str(folder)], search, folder, 1.5, LARGE_RUNS)


def beside_grep(folder: Path) -> list[Row]:
    """`facts` on a large log beside `grep` for what the reader looks for, and the memory that it takes."""
    from checklistbot.observation.logs import all_anchors

    path = folder / "large.log"
    bench_inputs.log(path)
    anchors = "|".join(re.escape(anchor.decode()) for anchor in all_anchors())
    command = [str(COMMAND), "facts", "--log", str(path)]
    row = beside("1 GB log", command, ["env", "LC_ALL=C", "grep", "-cE", anchors, str(path)], folder, 4.0, 3)
    peak = subprocess.run(
        [sys.executable, "-c", _PEAK, *command[1:]], cwd=folder, capture_output=True, text=True, check=True
    )
    path.unlink()
    return [row, Row("1 GB log", int(peak.stderr.split()[-1]) / 1024, LOG_PEAK, "MB at its peak")]


#: Runs the command line in this process and says its own largest size: that of a child would hold the benchmark's.
_PEAK = """
import re, sys
from checklistbot.cli import main
code = main(sys.argv[1:])
print(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1], file=sys.stderr)
sys.exit(code)
"""


def sdks_loaded(arguments: list[str], folder: Path) -> list[str]:
    """The SDKs that a command imports."""
    command = [sys.executable, "-X", "importtime", "-m", "checklistbot", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    modules = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if line.startswith("import time:")}
    if "checklistbot.cli" not in modules:
        raise SystemExit(f"scripts/bench.py: {' '.join(command)} did not start\n{done.stderr[-2000:]}")
    return [sdk for sdk in SDKS if sdk in modules]


def main() -> int:
    """Measures, prints the table, says by the exit code whether all limits are met."""
    # Without compiled modules the compiler would be measured; with keys the SDKs and the network.
    for name in ("PYTHONDONTWRITEBYTECODE", "OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        os.environ.pop(name, None)
    with tempfile.TemporaryDirectory() as scratch:
        small, example = Path(scratch) / "small", Path(scratch) / "example"
        small.mkdir()
        (small / "chat.yaml").write_text(MANIFEST, "utf-8")
        run(["bash", str(EXAMPLE / "make-repository.sh"), str(example)], TOP)
        review = ["review", str(example), "--base", "base", "--head", "head", "--provider", "builtin"]
        started = {
            "--help": [str(COMMAND), "--help"],
            "--version": [str(COMMAND), "--version"],
            "facts": [str(COMMAND), "facts", str(small)],
        }
        limits = {"--help": 6.0, "--version": 6.0, "facts": 12.0}
        rows = [Row(name, value, limits[name], "x python -c pass") for name, value in ratios(started, small).items()]
        rows.append(Row("review", cpu_seconds([str(COMMAND), *review], small, (1,)), 1.0, "s of CPU"))
        checkov = shutil.which("checkov")
        rows += [beside_checkov(checkov, manifests(), Path(scratch))] if checkov else []
        (Path(scratch) / "large").mkdir()
        rows.append(beside_git(Path(scratch) / "large"))
        rows += beside_grep(Path(scratch))
        loaded = {
            name: sdks_loaded(arguments, small)
            for name, arguments in {
                "--help": ["--help"],
                "--version": ["--version"],
                "facts": ["facts", str(small)],
                "check": ["check", str(small)],
                "prompt": ["prompt", str(small)],
                "review": review,
            }.items()
        }
    for row in rows:
        print(f"{row.name:<13} {row.value:8.3f} {row.unit:<18} at most {row.limit:g}  {'met' if row.met else 'MISSED'}")
    for name, found in loaded.items():
        print(f"{name:<12} imports {', '.join(found) or 'no SDK'}{'  MISSED' if found else ''}")
    return 0 if all(row.met for row in rows) and not any(loaded.values()) else 1


if __name__ == "__main__":
    raise SystemExit(main())
