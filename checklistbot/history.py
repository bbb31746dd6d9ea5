"""Which inputs of a deployment changed in Git after a log was committed (CONTRACTS, "Stale").

A log states some of the inputs it was taken under; for the others Git remembers what the repository said when the log was committed.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Sequence
from datetime import date
from functools import cache
from pathlib import Path
from typing import Final

from checklistbot.changes import pair
from checklistbot.config import FILE_NAME, Config
from checklistbot.discovery import discover
from checklistbot.discovery.git import Repository, find_top
from checklistbot.discovery.git import repository as open_repository
from checklistbot.discovery.tree import open_tree, resolve
from checklistbot.knowledge.accelerators import find
from checklistbot.model import Deployment, Scalar

#: Facts that decide how large a pool is; a changed context length does not (it does on vLLM V0 and old hybrids: compare.py).
INPUT_FACTS: Final = (
    "engine_version", "image", "model", "role", "gpu", "gpu_count", "tensor_parallel", "pipeline_parallel", "data_parallel",
    "memory_fraction", "kv_cache_dtype", "page_size",
)  # fmt: skip
INPUT_FLAGS: Final = (
    "chunked-prefill-size", "max-running-requests", "max-num-seqs", "max-num-batched-tokens", "speculative-algorithm", "speculative-config",
    "dcp-size", "decode-context-parallel-size", "max-total-tokens", "kv-cache-memory-bytes", "num-gpu-blocks-override", "quantization",
    "mamba-full-memory-ratio", "swa-full-tokens-ratio", "enable-dp-attention", "attn-dp-size",
)  # fmt: skip


#: (deployment, path of the log relative to PATH) → names of the inputs that changed after the log did; None where Git cannot tell.
Changed = Callable[[Deployment, str], frozenset[str] | None]


def changed_inputs(repository: Repository, commit: str, path: Path, config: Config) -> Changed:
    """A function that tells, for a deployment and a log's path (relative to PATH), the names of inputs that differ from what the
    repository said in the commit that last touched the log, at or before ``commit``.

    Fact names as in FACT_NAMES; flags by their long name with underscores. None where the log or the deployment is not in that history.
    """

    @cache
    def then(log_commit: str) -> Sequence[Deployment]:
        return discover(open_tree(path, log_commit), config.exclude).deployments

    @cache
    def log_commit(log: str, prefix: str) -> str | None:
        return repository.last_change(commit, posixpath.normpath(posixpath.join(prefix, log)))

    prefix = open_tree(path, commit).prefix

    def changed(deployment: Deployment, log: str) -> frozenset[str] | None:
        when = log_commit(log, prefix)
        if when is None:
            return None
        before = next((old for old, new in pair(then(when), [deployment]) if new is deployment), None)
        return frozenset(_differing(before, deployment)) if before is not None else None

    return changed


def changed_between(before: Sequence[Deployment]) -> Callable[[Deployment], frozenset[str] | None]:
    """A function that tells the inputs of a deployment that differ from its counterpart in ``before``, None where it has none."""

    def changed(deployment: Deployment) -> frozenset[str] | None:
        old = next((old for old, new in pair(before, [deployment]) if new is deployment), None)
        return frozenset(_differing(old, deployment)) if old is not None else None

    return changed


def _differing(before: Deployment, after: Deployment) -> list[str]:
    names = [n for n in INPUT_FACTS if _value(before, n) != _value(after, n) and after.fact(n).kind != "observed"]
    for name in INPUT_FLAGS:
        old, new = before.flag(name), after.flag(name)
        if (old.value if old else None, old is None) != (new.value if new else None, new is None):
            names.append(name.replace("-", "_"))
    return names


def _value(deployment: Deployment, name: str) -> Scalar | None:
    """A fact's value; a GPU under its id, however it is written."""
    value = deployment.fact(name).value
    known = find(str(value)) if name == "gpu" and value is not None else None
    return known.id if known else value


def file_days(path: Path, revision: str) -> Callable[[str], date | None] | None:
    """A function that gives, for a file (relative to PATH), the day (UTC) on which it last changed at or before the revision: how long
    what it says has been there at least. None outside a repository.
    """
    top = find_top(path.resolve() if path.is_dir() else path.resolve().parent)
    if top is None:
        return None
    repository, commit = open_repository(top), resolve(path, revision)
    prefix = open_tree(path, commit).prefix

    @cache
    def day(name: str) -> date | None:
        # The config stands at the top of the repository, whatever PATH is.
        places = [posixpath.normpath(posixpath.join(prefix, name)), *([name] if name == FILE_NAME else [])]
        changed = next((found for place in places if (found := repository.last_change(commit, place))), None)
        return repository.committed(changed) if changed else None

    return day
