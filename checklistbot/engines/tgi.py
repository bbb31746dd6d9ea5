"""Text Generation Inference: flags and variables → facts (other-engines.md, "TGI").

``--max-total-tokens`` is the context of one request; ``--max-batch-total-tokens`` is the KV pool.
"""

from __future__ import annotations

from checklistbot.engines import _build as build
from checklistbot.engines._flags import Table, integer, number, parse, simple_table, word_text
from checklistbot.engines.base import Engine, Launch, Word
from checklistbot.model import Deployment

_TABLE: Table = simple_table(
    (
        "--model-id",
        "--revision",
        "--num-shard",
        "--quantize",
        "--dtype",
        "--kv-cache-dtype",
        "--max-concurrent-requests",
        "--max-input-tokens --max-input-length",
        "--max-total-tokens",
        "--max-batch-prefill-tokens",
        "--max-batch-total-tokens",
        "--max-batch-size",
        "--max-waiting-tokens",
        "--waiting-served-ratio",
        "--hostname",
        "--port -p",
        "--cuda-memory-fraction",
        "--cuda-graphs",
        "--rope-scaling",
        "--rope-factor",
        "--sharded",
        "--speculate",
        "--validation-workers",
        "--max-best-of",
        "--max-stop-sequences",
        "--max-top-n-tokens",
        "--huggingface-hub-cache",
        "--weights-cache-override",
        "--tokenizer-config-path",
        "--lora-adapters",
        "--api-key",
        "--payload-limit",
    ),
    switches=(
        "--trust-remote-code",
        "--json-output",
        "--disable-custom-kernels",
        "--enable-prefill-logprobs",
        "--disable-grammar-support",
        "-e",
    ),
)
_FACTS = {
    "model": build.Given(("model-id",), word_text),
    "context_length": build.Given(("max-total-tokens",), integer),
    "kv_pool_tokens": build.Given(("max-batch-total-tokens",), integer),
    "kv_cache_dtype": build.Given(("kv-cache-dtype",), word_text),
    "memory_fraction": build.Given(("cuda-memory-fraction",), number),
    "tensor_parallel": build.Given(("num-shard",), integer),
}
#: Each flag has a variable in upper case; SageMaker's image brings two of its own.
_VARIABLES = {
    "MODEL_ID": "--model-id",
    "HF_MODEL_ID": "--model-id",
    "NUM_SHARD": "--num-shard",
    "SM_NUM_GPUS": "--num-shard",
    "MAX_TOTAL_TOKENS": "--max-total-tokens",
    "MAX_INPUT_LENGTH": "--max-input-tokens",
    "MAX_INPUT_TOKENS": "--max-input-tokens",
    "MAX_BATCH_TOTAL_TOKENS": "--max-batch-total-tokens",
    "MAX_BATCH_PREFILL_TOKENS": "--max-batch-prefill-tokens",
    "KV_CACHE_DTYPE": "--kv-cache-dtype",
    "CUDA_MEMORY_FRACTION": "--cuda-memory-fraction",
    "QUANTIZE": "--quantize",
}


def _arguments(launch: Launch) -> tuple[Word, ...] | None:
    """The server's arguments, None where the launch does not start TGI."""
    name, first = build.program(launch.argv)
    if name in ("text-generation-launcher", "tgi-entrypoint.sh"):
        return launch.argv[first:]
    if launch.engine == "tgi" or build.arguments_only(launch, "tgi"):
        return launch.argv
    rule = build.image_engine(launch)
    if (
        rule is not None
        and rule.engine == "tgi"
        and not launch.argv
        and any(n in launch.env for n in ("MODEL_ID", "HF_MODEL_ID"))
    ):
        return ()
    return None


def deployment(launch: Launch) -> Deployment | None:
    """The deployment that a launch starts, None where it starts no TGI server."""
    arguments = _arguments(launch)
    if arguments is None:
        return None
    words: list[Word] = []
    for name, flag in _VARIABLES.items():
        if name in launch.env:
            words += [Word(flag, launch.env[name].path, launch.env[name].line, name), launch.env[name]]
    found = build.deployment(
        launch, "tgi", parse([*words, *arguments], _TABLE), _FACTS, engine_version=build.version(launch, "tgi")
    )
    # Where the server works the pool out itself it ignores the declared one; the launcher refuses one below max_total_tokens.
    return build.capped(found)


def first_rejected_length(found: Deployment) -> int | None:
    """max_input_tokens + 1 where it is said, else max_total_tokens (prompt plus one new token must fit): a 422."""
    flag = found.flag("max-input-tokens")
    limit = integer(str(flag.value)) if flag is not None and flag.value is not None else None
    return limit + 1 if limit is not None else found.context_length.number()


def full_request_needs(found: Deployment) -> int | None:
    """max_total_tokens: the launcher refuses to start with a smaller batch budget."""
    return found.context_length.number()


ENGINE = Engine(
    name="tgi",
    words=(
        b"text-generation-inference",
        b"text-generation-launcher",
        b"huggingface_llm_image",
        b"get_huggingface_llm_image_uri",
        b"tgi",
        b"TGI",
    ),
    serves=lambda launch: _arguments(launch) is not None,
    deployment=deployment,
    first_rejected_length=first_rejected_length,
    full_request_needs=full_request_needs,
)
