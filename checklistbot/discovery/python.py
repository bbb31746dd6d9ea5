"""Python launchers, read by ``ast`` and never executed: subprocess lists, engine objects, Modal, Ray Serve, Truss, BentoML, SageMaker.

The reader in ``interpret/`` computes the file's values; here are the calls that start a server (sinks) and what the surrounding
platform says about GPU, image, version and replicas. A server whose model is a parameter that nobody in the tree fills in is a
library, not a deployment.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable

from checklistbot.discovery.base import Format
from checklistbot.discovery.tree import Tree
from checklistbot.engines.base import Launch
from checklistbot.lazy import pattern

_TEST = pattern(r"(?:^|/)(?:tests?|testing)/|(?:^|/)(?:test_[^/]*|[^/]*_test|conftest)\.py$")
_SHEBANG = pattern(r"#!\S*(?:/|\s)(?:python[\d.]*|uv)\b")


def claims(path: str, text: str) -> bool:
    """Python files outside tests; unit tests hold launch commands as fixtures."""
    name = posixpath.basename(path)
    python = name.endswith((".py", ".pyw")) or ("." not in name and _SHEBANG.match(text[:200]) is not None)
    return python and _TEST.search(path) is None


def launches(tree: Tree, path: str, text: str) -> Iterable[Launch]:
    """What the file starts; a library of dataclasses and builders is read through the files that import it."""
    from checklistbot.discovery.interpret import pysinks

    return pysinks.find(tree, path, text)


#: Calls that imply an engine without naming it: Ray Serve LLM, SageMaker, BentoML, llama-cpp-python.
_WORDS = (
    b"LLMConfig",
    b"llama_cpp",
    b"tensorrt_llm",
    b"get_huggingface_llm_image_uri",
    b"OPTION_MODEL_ID",
    b"SM_VLLM_",
)

FORMAT = Format("python", claims, launches, words=_WORDS)
