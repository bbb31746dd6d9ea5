"""llama.cpp's server: flags and LLAMA_ARG_* variables → facts (other-engines.md, "llama.cpp server").

``--ctx-size`` is the whole KV pool; one slot's context is that divided by ``--parallel``, unless the cache is unified.
"""

from __future__ import annotations

from checklistbot.engines import _build as build
from checklistbot.engines._flags import Parsed, Table, fact, integer, parse, simple_table, word_text
from checklistbot.engines.base import Engine, Launch, Word
from checklistbot.model import Deployment, Fact, Unknown

_TABLE: Table = simple_table(
    (
        "--model -m",
        "--model-url -mu",
        "--hf-repo -hf -hfr --hf",
        "--hf-file -hff",
        "--alias -a",
        "--ctx-size -c --n_ctx",
        "--parallel -np",
        "--cache-type-k -ctk",
        "--cache-type-v -ctv",
        "--batch-size -b",
        "--ubatch-size -ub",
        "--n-gpu-layers -ngl --gpu-layers",
        "--threads -t",
        "--threads-batch -tb",
        "--tensor-split -ts",
        "--split-mode -sm",
        "--main-gpu -mg",
        "--host",
        "--port",
        "--api-key",
        "--api-key-file",
        "--model-draft -md",
        "--ctx-size-draft -cd",
        "--mmproj -mm",
        "--rope-scaling",
        "--yarn-orig-ctx",
        "--flash-attn -fa",
        "--device -dev",
        "--override-tensor -ot",
        "--n-cpu-moe -ncmoe",
        "--temp",
        "--top-k",
        "--top-p",
        "--min-p",
        "--n-predict -n --predict",
        "--keep",
        "--cache-reuse",
        "--slot-save-path",
        "--chat-template",
        "--chat-template-file",
        "--reasoning-format",
        "--reasoning-budget",
        "--log-file",
        "--fit",
        "--fit-ctx",
        "--model_alias",
    ),
    switches=(
        "--kv-unified -kvu",
        "--no-kv-unified -no-kvu",
        "--cont-batching -cb",
        "--mlock",
        "--no-mmap",
        "--metrics",
        "--jinja",
        "--embedding --embeddings",
        "--reranking --rerank",
        "--context-shift",
        "--no-context-shift",
        "--no-webui",
        "--verbose -v",
        "--slots",
        "--cpu-moe -cmoe",
        "--no-warmup",
        "--server -s",
    ),
    prefixes=False,
)
_FACTS = {
    "served_model_name": build.Given(("alias", "model-alias"), word_text),
    "kv_cache_dtype": build.Given(("cache-type-k",), word_text),
}
#: Variables of the server → its flags (common/arg.cpp).
_VARIABLES = {
    "LLAMA_ARG_MODEL": "--model",
    "LLAMA_ARG_HF_REPO": "--hf-repo",
    "LLAMA_ARG_HF_FILE": "--hf-file",
    "LLAMA_ARG_ALIAS": "--alias",
    "LLAMA_ARG_CTX_SIZE": "--ctx-size",
    "LLAMA_ARG_N_PARALLEL": "--parallel",
    "LLAMA_ARG_CACHE_TYPE_K": "--cache-type-k",
    "LLAMA_ARG_CACHE_TYPE_V": "--cache-type-v",
    "LLAMA_ARG_KV_UNIFIED": "--kv-unified",
    "LLAMA_ARG_N_GPU_LAYERS": "--n-gpu-layers",
}
_PROGRAMS = ("llama-server", "llamafile", "-m llama_cpp.server", "llama-server.exe")


def _arguments(launch: Launch) -> tuple[Word, ...] | None:
    """The server's arguments, None where the launch does not start llama.cpp's server."""
    name, first = build.program(launch.argv)
    if name in _PROGRAMS or (name == "server" and _old_name(launch.argv)):
        return launch.argv[first:]
    if launch.engine == "llama.cpp":
        return launch.argv
    rule = build.image_engine(launch)
    if (
        rule is not None
        and rule.engine == "llama.cpp"
        and "server" in (launch.image.text if launch.image and launch.image.text else "")
    ):
        return (
            launch.argv if build.arguments_only(launch, "llama.cpp") or (not launch.argv and _given(launch)) else None
        )
    return None


def _old_name(argv: tuple[Word, ...]) -> bool:
    """``server``, as llama.cpp called it before 2024-06: by its own path, or with a GGUF file for a model."""
    program = (argv[0].text or "").replace("\\", "/")
    if program in ("./server", "/server", "/app/server") or "llama.cpp/" in program:
        return True
    return any((word.text or "").lower().endswith(".gguf") for word in argv[1:])


def _given(launch: Launch) -> list[Word]:
    """The variables as flags; they stand in front, because the command line wins."""
    words: list[Word] = []
    for name, flag in _VARIABLES.items():
        word = launch.env.get(name)
        if word is None:
            continue
        words.append(Word(flag, word.path, word.line, name))
        if flag != "--kv-unified":
            words.append(word)
    return words


def deployment(launch: Launch) -> Deployment | None:
    """The deployment that a launch starts, None where it starts no llama.cpp server."""
    arguments = _arguments(launch)
    if arguments is None:
        return None
    parsed = parse([*_given(launch), *arguments], _TABLE)
    made = {"model": _model(parsed), **_lengths(parsed)}
    return build.deployment(
        launch, "llama.cpp", parsed, _FACTS, engine_version=build.version(launch, "llama.cpp"), made=made
    )


def _model(parsed: Parsed) -> Fact:
    """``-m FILE``, or ``-hf REPO`` with the file behind it where one is named."""
    given = parsed.last("model")
    if given is not None:
        return fact(given.value, word_text)
    repository, file = parsed.last("hf-repo"), parsed.last("hf-file")
    found = fact(repository.value if repository else None, word_text, supply=build.SUPPLY["model"])
    name = file.value.text if file is not None and file.value is not None else None
    return found.replace(value=f"{found.value}/{name}") if found.known and name else found


def _lengths(parsed: Parsed) -> dict[str, Fact | None]:
    """Pool = ctx-size; context = one slot's share of it. 0 means the model's own length."""
    size = parsed.last("ctx-size")
    pool = fact(size.value if size else None, integer, supply=build.SUPPLY["kv_pool_tokens"])
    if pool.value == 0:
        nothing = Unknown("no-default", "0", build.SUPPLY["context_length"])
        return {"kv_pool_tokens": Fact(unknown=nothing), "context_length": Fact(unknown=nothing)}
    slots = parsed.last("parallel")
    count = fact(slots.value, integer) if slots is not None else None
    unified = parsed.last("kv-unified", "no-kv-unified")
    whole = count is None or count.value in (1, -1) or (unified is not None and unified.name == "kv-unified")
    if not pool.known or whole:
        return {"kv_pool_tokens": pool, "context_length": pool}
    if count is None or not isinstance(count.value, int) or count.value <= 0:
        return {
            "kv_pool_tokens": pool,
            "context_length": Fact(unknown=count.unknown if count else Unknown("not-readable")),
        }
    return {"kv_pool_tokens": pool, "context_length": pool.replace(value=(pool.number() or 0) // count.value)}


def first_rejected_length(found: Deployment) -> int | None:
    """A prompt of n_ctx tokens or more of a slot is answered with 400 exceed_context_size_error."""
    return found.context_length.number()


def full_request_needs(found: Deployment) -> int | None:
    """One slot's context."""
    return found.context_length.number()


ENGINE = Engine(
    name="llama.cpp",
    words=(b"llama-server", b"llama.cpp", b"llama_cpp", b"llamacpp", b"LLAMA_ARG_", b"llamafile"),
    serves=lambda launch: _arguments(launch) is not None,
    deployment=deployment,
    first_rejected_length=first_rejected_length,
    full_request_needs=full_request_needs,
)
