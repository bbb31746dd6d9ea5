"""Large inputs for `make bench`: a repository of 20,000 files and a log of 1 GB, the same on every machine."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

FILES = 20_000
LOG_BYTES = 1 << 30

#: ending, share of the files, mean size in bytes, how a line begins
_KINDS = (
    ("py", 0.45, 4_000, ""),
    ("yaml", 0.20, 1_800, "# "),
    ("md", 0.15, 3_000, ""),
    ("go", 0.10, 5_000, "// "),
    ("sh", 0.05, 1_200, "# "),
    ("ts", 0.05, 4_000, "// "),
)
_MANIFEST = """\
apiVersion: apps/v1
kind: Deployment
metadata: {{name: chat-{number}}}
spec:
  template:
    spec:
      containers:
        - name: server
          image: vllm/vllm-openai:v0.20.0
          args: [--model, org/model-{number}, --max-model-len, "32768"]
"""
_START = """\
INFO 11-30 10:00:00 [api_server.py:1896] vLLM API server version 0.20.0
INFO 11-30 10:00:41 [gpu_worker.py:298] Available KV cache memory: 41.51 GiB
INFO 11-30 10:00:42 [kv_cache_utils.py:864] GPU KV cache size: 302,256 tokens
INFO 11-30 10:00:42 [kv_cache_utils.py:868] Maximum concurrency for 131,072 tokens per request: 2.31x
"""
_REQUEST = (
    'INFO 11-30 {hour:02}:{minute:02}:{second:02} [loggers.py:123] Engine 000: Avg prompt throughput: {speed}.1 tokens/s, Running: {n} reqs\n'
    'INFO:     10.0.{n}.7:{port} - "POST /v1/chat/completions HTTP/1.1" 200 OK\n'
)  # fmt: skip


def repository(top: Path) -> None:
    """A committed work tree of FILES files, about 190 MB; one YAML file in eighty deploys something, one text in forty names an engine."""
    rng = random.Random(7)
    # Without "g" and "v" no word can hold an engine's.
    words = ["".join(rng.choices("abcdefhijklmnopqrstuwxyz_", k=rng.randint(3, 11))) for _ in range(4_000)]
    lines = [" ".join(rng.choices(words, k=rng.randint(3, 12))) for _ in range(20_000)]
    for number in range(FILES):
        ending, _, size, begin = rng.choices(_KINDS, [share for _, share, _, _ in _KINDS])[0]
        folder = top / f"pkg{number % 200:03}" / f"mod{number // 200:03}"
        folder.mkdir(parents=True, exist_ok=True)
        at = rng.randrange(len(lines) - 2_000)
        count = min(2_000, int(rng.expovariate(1 / size)) // 55 + 3)
        text = "".join(f"{begin}{line}\n" for line in lines[at : at + count])
        if ending == "md" and number % 40 == 0:
            text += "This also works with vLLM and SGLang.\n"
        if ending == "yaml" and number % 80 == 0:
            text = _MANIFEST.format(number=number)
        (folder / f"file{number}.{ending}").write_text(text, "utf-8")
    identity = ["-c", "user.name=bench", "-c", "user.email=bench@example.invalid"]
    for command in (["init", "-q"], ["add", "-A"], [*identity, "commit", "-q", "-m", "files"]):
        subprocess.run(["git", *command], cwd=top, check=True)


def log(path: Path) -> None:
    """A start-up and then LOG_BYTES of what a serving engine writes for each request."""
    rng = random.Random(7)
    parts = []
    for number in range(8_000):
        clock = {"hour": number // 3_600 % 24, "minute": number // 60 % 60, "second": number % 60}
        parts.append(
            _REQUEST.format(
                **clock, speed=rng.randint(100, 9_000), n=rng.randint(1, 250), port=rng.randint(1_024, 65_000)
            )
        )
    block = "".join(parts).encode()
    with path.open("wb") as file:
        file.write(_START.encode())
        for _ in range(LOG_BYTES // len(block) + 1):
            file.write(block)
