"""Shell scripts: bash, sh, sbatch files, and shell text inside other formats."""

from __future__ import annotations

import dataclasses
import posixpath
import re
from collections.abc import Sequence
from typing import Final

from checklistbot.discovery.base import Format
from checklistbot.discovery.tree import Tree
from checklistbot.engines.base import Launch, Word
from checklistbot.lazy import pattern

_SUFFIXES: Final = (".sh", ".bash", ".zsh", ".ksh", ".sbatch", ".slurm", ".job", ".pbs", ".srun", ".command")
_SHEBANG = pattern(r"#!\s*\S*?(?:/|\benv\s+(?:-S\s+)?)(?:ba|da|z|k|a)?sh\b")
_TEST = pattern(r"(?:^|/)(?:tests?|spec)/(?:[^/]+/)*(?:test_|[^/]*\.bats$)")


def claims(path: str, text: str) -> bool:
    """By suffix or shebang; test suites hold launch commands as fixtures."""
    name = posixpath.basename(path)
    if _TEST.search(path):
        return False
    if name.endswith(_SUFFIXES):
        return True
    return ("." not in name.lstrip(".") or name.endswith((".in", ".tmpl"))) and _SHEBANG.match(text[:200]) is not None


def launches(
    template: Launch, script: Word, tree: Tree | None, *, arguments: Sequence[Word] | None = None, depth: int = 0
) -> list[Launch]:
    """The servers that shell text starts; see ``checklistbot.discovery.launches.run_shell``."""
    from checklistbot.discovery.sh.machine import find
    from checklistbot.discovery.sh.text import from_word

    given = [from_word(word) for word in arguments] if arguments else None
    return find(template, from_word(script), tree, given, depth)


def _file_launches(tree: Tree, path: str, text: str) -> list[Launch]:
    name = posixpath.basename(path)
    for suffix in _SUFFIXES:
        name = name.removesuffix(suffix)
    template = Launch(argv=(), path=path, line=1, name=name, format="shell")
    template = with_slurm_header(template, text)
    return launches(template, Word(text, path, 1), tree)


# --- Slurm headers -------------------------------------------------------------------------------------------------------

_DIRECTIVE = pattern(r"^#(?:SBATCH|PBS|BSUB)[ \t]+(.*)$", re.MULTILINE)
_OPTION = pattern(r"--?([A-Za-z][\w-]*)(?:[= ]\s*([^\s#]+))?")
_SHORT: Final = {"N": "nodes", "n": "ntasks", "G": "gpus", "a": "array", "J": "job-name"}


def with_slurm_header(template: Launch, text: str) -> Launch:
    """What ``#SBATCH`` lines say: nodes, GPUs of a node, the array index, as facts and as SLURM_* variables."""
    if "#SBATCH" not in text:
        return template
    found: dict[str, Word] = {}
    for match in _DIRECTIVE.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        for option in _OPTION.finditer(match[1]):
            name = _SHORT.get(option[1], option[1])
            if option[2] is not None:
                found[name] = Word(option[2].strip("\"'"), template.path, line, option[0])
    env = dict(template.env)
    nodes = found.get("nodes")
    if nodes is not None and (nodes.text or "").isdigit():
        env.update({"SLURM_NNODES": nodes, "SLURM_JOB_NUM_NODES": nodes})
    gpus, gpu = _gpus(found)
    if gpus is not None:
        env.update({"SLURM_GPUS_ON_NODE": gpus, "SLURM_GPUS_PER_NODE": gpus})
    for name, variable in (
        ("ntasks", "SLURM_NTASKS"),
        ("ntasks-per-node", "SLURM_NTASKS_PER_NODE"),
        ("cpus-per-task", "SLURM_CPUS_PER_TASK"),
    ):
        if name in found:
            env[variable] = found[name]
    array = found.get("array")
    if array is not None and re.fullmatch(r"\d+", array.text or ""):
        env["SLURM_ARRAY_TASK_ID"] = array
    return dataclasses.replace(template, env=env, nodes=nodes, gpu_count=gpus, gpu=gpu)


def _gpus(found: dict[str, Word]) -> tuple[Word | None, Word | None]:
    """(GPUs of one node, their name)."""
    nodes = int(found["nodes"].text or 1) if "nodes" in found and (found["nodes"].text or "").isdigit() else 1
    for name in ("gpus-per-node", "gres", "gpus"):
        word = found.get(name)
        if word is None or word.text is None:
            continue
        match = re.fullmatch(r"(?:gpu:)?(?:([A-Za-z][\w.-]*):)?(\d+)(?:\([^)]*\))?", word.text)
        if match is None:
            continue
        count = int(match[2]) // nodes if name == "gpus" and nodes and int(match[2]) % nodes == 0 else int(match[2])
        gpu = dataclasses.replace(word, text=match[1]) if match[1] and match[1] != "gpu" else None
        return dataclasses.replace(word, text=str(count)), gpu
    return None, None


FORMAT = Format("shell", claims, _file_launches)
