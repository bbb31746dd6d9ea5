"""GPUs by the names that node labels, clouds, logs and people give them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from memory_tree import MemoryTree

from checklistbot.config import Config, load
from checklistbot.facts import gather
from checklistbot.knowledge.accelerators import accelerators, by_instance, find
from checklistbot.model import Facts
from checklistbot.observation.compare import compare


@pytest.mark.parametrize(
    ("name", "id_"),
    [
        ("NVIDIA-H100-80GB-HBM3", "H100"), ("nvidia-h100-mega-80gb", "H100"), ("H200:8", "H200"), ("h20", "H20"),
        ("NVIDIA-H20-3e", "H20-141GB"), ("NVIDIA-H100-NVL", "H100-94GB"), ("NVIDIA-A100-SXM4-80GB", "A100-80GB"),
        ("nvidia-tesla-a100", "A100-40GB"), ("NVIDIA GeForce RTX 4090", "RTX4090"), ("RTX4090", "RTX4090"),
        ("NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition", "RTX6000-96GB"), ("AMD_Instinct_MI300X_OAM", "MI300X"),
        ("NVIDIA-L4-SHARED", "L4"), ("p5.48xlarge", "H100"), ("ml.p5en.48xlarge", "H200"), ("g6e.12xlarge", "L40S"),
        ("Standard_NC80adis_H100_v5", "H100-94GB"), ("Standard_ND96isr_H100_v5", "H100"),
        ("A100", None), ("V100", None), ("NVIDIA-A100-SXM4-80GB-MIG-1g.10gb", None), ("n2-standard-4", None), ("tpu-v5e", None), ("", None),
    ],
)  # fmt: skip
def test_names(name: str, id_: str | None) -> None:
    found = find(name)
    assert (found.id if found else None) == id_


def test_every_id_means_itself() -> None:
    for one in accelerators():
        found = find(one.id)
        assert found is not None
        assert found.id == one.id


def test_only_an_instance_type_is_one() -> None:
    assert by_instance("h100") is None
    assert by_instance("p5.4xlarge") is not None


@given(st.text(max_size=60))
def test_any_text_is_a_gpu_or_none(text: str) -> None:
    found = find(text)
    assert found is None or found in accelerators()


POD = """\
apiVersion: apps/v1
kind: Deployment
metadata: {{name: otter}}
spec:
  template:
    spec:
      nodeSelector: {{"{label}": {value}}}
      containers:
        - name: vllm
          image: vllm/vllm-openai:v0.21.0
          args: ["--model", "acme/otter", "--max-model-len", "8192"]
          resources: {{limits: {{nvidia.com/gpu: "8"}}}}
"""


def read(label: str, value: str, config: str = "version: 1\n") -> Facts:
    tree: Any = MemoryTree({"pod.yaml": POD.format(label=label, value=value)})
    return gather(tree, load(config, "c.yml") if config else Config())


@pytest.mark.parametrize(
    ("label", "value", "gpu", "known"),
    [
        ("nvidia.com/gpu.product", "NVIDIA-H200", "H200", True),
        ("cloud.google.com/gke-accelerator", "nvidia-h100-80gb", "H100", True),
        ("node.kubernetes.io/instance-type", "p5.48xlarge", "H100", True),
        ("karpenter.k8s.aws/instance-gpu-name", "l40s", "L40S", True),
        ("nvidia.com/gpu.product", "NVIDIA-X9000", "NVIDIA-X9000", False),
        ("node.kubernetes.io/instance-type", "m5.large", None, True),
    ],
)
def test_the_gpu_of_a_pod(label: str, value: str, gpu: str | None, known: bool) -> None:
    (only,) = read(label, value).deployments
    assert (only.gpu.value, only.gpu_known, only.gpu_count.value) == (gpu, known, 8)
    assert ("gpu_known" in only.to_json()) is not known
    assert Facts.from_json({**Facts((only,)).to_json()}).deployments[0].gpu_known is known


def test_the_gpu_of_the_config_gets_its_id_too() -> None:
    config = "version: 1\ndeployments:\n  - facts: {gpu: NVIDIA-GeForce-RTX-5090}\n"
    (only,) = read("disktype", "ssd", config).deployments
    assert only.gpu.value == "RTX5090"


@pytest.mark.parametrize(
    ("said", "stale"), [("NVIDIA H100 80GB HBM3", ()), ("NVIDIA H200", ("gpu",)), ("NVIDIA H100 NVL", ("gpu",))]
)
def test_a_pool_of_another_gpu_is_stale(said: str, stale: tuple[str, ...]) -> None:
    from checklistbot.model import Fact, Observation, Source

    (only,) = read("nvidia.com/gpu.product", "NVIDIA-H100-80GB-HBM3").deployments
    pool = Fact(9000, Source("observed", "boot.log", 1), observation=Observation({"gpu": said}))
    compared = compare(pool, only).observation
    assert compared is not None
    assert compared.stale == stale
