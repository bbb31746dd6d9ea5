"""Launchers in programming and configuration languages, through ``discover``."""

from __future__ import annotations

import json
from typing import Any

import pytest
from memory_tree import MemoryTree

from checklistbot.discovery import discover
from checklistbot.model import Deployment


def deployments(files: dict[str, str]) -> list[Deployment]:
    return list(discover(MemoryTree(files)).deployments)


def one(text: str, path: str = "serve.py", **files: str) -> Deployment:
    found = deployments({path: text, **files})
    assert len(found) == 1, [d.id for d in found]
    return found[0]


def facts(deployment: Deployment, *names: str) -> tuple[Any, ...]:
    return tuple(deployment.fact(name).value for name in names)


# --- Python ------------------------------------------------------------------------------------------------------------


def test_argv_grown_by_options_with_defaults() -> None:
    found = one(
        """
import argparse, subprocess
p = argparse.ArgumentParser()
p.add_argument("--weights", default="org/m-7b")
p.add_argument("--ctx", type=int, default=24 * 1024)
p.add_argument("--pool", type=int)
p.add_argument("--fast", action="store_true")
o, rest = p.parse_known_args()
cmd = ["python3", "-m", "sglang.launch_server", "--model-path", o.weights]
cmd += ["--context-length", str(o.ctx)] + rest
if o.pool is not None:
    cmd.extend(["--max-total-tokens", f"{o.pool}"])
if o.fast:
    cmd.append("--disable-radix-cache")
subprocess.run(cmd)
"""
    )
    assert facts(found, "model", "context_length", "kv_pool_tokens") == ("org/m-7b", 24576, None)
    assert found.line == 9
    assert found.context_length.source is not None
    assert found.context_length.source.line == 5


def test_a_required_option_is_unknown_with_its_name() -> None:
    found = one(
        """
import argparse, os
p = argparse.ArgumentParser()
p.add_argument("--len", type=int, required=True)
a = p.parse_args()
os.execvp("vllm", ["vllm", "serve", "org/m", "--max-model-len", str(a.len)])
"""
    )
    assert found.context_length.value is None
    assert found.context_length.unknown is not None


def test_branches_that_disagree_are_unknown_and_what_agrees_is_not() -> None:
    found = one(
        """
import os, socket
if socket.gethostname() == "a":
    ctx, tp = 8192, 2
else:
    ctx, tp = 4096, 2
os.system(f"vllm serve org/m --max-model-len {ctx} -tp {tp}")
"""
    )
    assert facts(found, "context_length", "tensor_parallel") == (None, 2)


def test_presets_classes_and_partial_overrides() -> None:
    found = one(
        """
import subprocess
from dataclasses import dataclass, field, replace
@dataclass
class Base:
    model: str = "org/base"
    ctx: int = 4096
    extra: dict = field(default_factory=lambda: {"gpu-memory-utilization": 0.8})
    @property
    def argv(self):
        return ["vllm", "serve", self.model, *self.flags()]
    def flags(self):
        yield f"--max-model-len={self.ctx}"
        for k, v in self.extra.items():
            yield from (f"--{k}", str(v))
@dataclass
class Big(Base):
    ctx: int = 32768
PRESETS = {"small": Base(), "big": replace(Big(), model="org/big")}
subprocess.Popen(PRESETS["big"].argv)
"""
    )
    assert facts(found, "model", "context_length", "memory_fraction") == ("org/big", 32768, 0.8)


def test_two_roles_of_one_loop_are_two_deployments() -> None:
    found = deployments(
        {
            "pd.py": """
import subprocess
COMMON = "--model-path org/m --context-length 65536"
for role, port in (("prefill", 30000), ("decode", 30001)):
    subprocess.Popen(f"python -m sglang.launch_server {COMMON} --disaggregation-mode {role} --port {port}", shell=True)
"""
        }
    )
    assert sorted(str(d.role.value) for d in found) == ["decode", "prefill"]
    assert {d.context_length.value for d in found} == {65536}


def test_equal_servers_of_one_loop_are_one_deployment_with_replicas() -> None:
    found = one(
        'import subprocess\nfor i in range(3):\n    subprocess.Popen(["vllm", "serve", "org/m", "--port", str(8000 + i)])\n'
    )
    assert found.replicas.value == 3


def test_settings_in_another_file_are_followed() -> None:
    found = deployments(
        {
            "app/settings.py": "ENGINE = {'model': 'org/m', 'max_model_len': 6000, 'tensor_parallel_size': 2}\nNAME = 'vllm'\n",
            "app/main.py": "from vllm import LLM\nfrom app.settings import ENGINE\nllm = LLM(**ENGINE)\n",
        }
    )
    assert [facts(d, "model", "context_length", "tensor_parallel") for d in found] == [("org/m", 6000, 2)]
    assert found[0].context_length.source is not None
    assert found[0].context_length.source.path == "app/settings.py"


def test_a_yaml_file_beside_the_launcher_is_read_and_one_outside_is_not() -> None:
    text = """
import yaml, subprocess
from pathlib import Path
conf = yaml.safe_load((Path(__file__).parent / "conf.yaml").read_text())
other = yaml.safe_load(open("/etc/other.yaml"))
subprocess.run(["vllm", "serve", conf["model"], "--max-model-len", str(conf["ctx"]), "--seed", str(other["seed"])])
"""
    found = one(text, "d/serve.py", **{"d/conf.yaml": "model: org/m\nctx: 9000\n"})
    assert facts(found, "model", "context_length") == ("org/m", 9000)
    assert found.context_length.source is not None
    assert (found.context_length.source.path, found.context_length.source.line) == ("d/conf.yaml", 2)


@pytest.mark.parametrize(
    "text",
    [
        "from vllm import LLM\ndef build(model, n=4096):\n    return LLM(model=model, max_model_len=n)\n",
        "import subprocess\ndef launch(model: str):\n    subprocess.run(['vllm', 'serve', model])\n",
        "HELP = 'vllm serve org/m --max-model-len 1'\nprint(HELP)\n",
        "from openai import OpenAI\nOpenAI(base_url='http://vllm').models.list()\n",
        "import subprocess\nsubprocess.run(['pkill', '-f', 'vllm serve'])\n",
    ],
)
def test_libraries_texts_and_clients_deploy_nothing(text: str) -> None:
    assert deployments({"lib.py": text}) == []


def test_a_library_called_with_a_model_is_a_deployment() -> None:
    found = deployments(
        {
            "lib.py": "import subprocess\ndef launch(model, n=4096):\n    subprocess.run(['vllm', 'serve', model, '--max-model-len', str(n)])\n",
            "run.py": "from lib import launch\nlaunch('org/m', n=5000)\n",
        }
    )
    assert [facts(d, "model", "context_length") for d in found] == [("org/m", 5000)]
    assert (found[0].file, found[0].line) == ("run.py", 2)


def test_modal_gives_gpu_image_version_and_replicas() -> None:
    found = one(
        """
import modal
image = modal.Image.debian_slim().pip_install(["vllm==0.10.1.1", "x"])
app = modal.App("a")
@app.function(image=image, gpu="L40S:4", min_containers=2)
@modal.web_server(8000)
def serve():
    import subprocess
    subprocess.Popen(["vllm", "serve", "org/m"])
"""
    )
    assert facts(found, "engine_version", "gpu_count", "replicas") == ("0.10.1.1", 4, 2)


def test_secrets_of_a_launcher_are_masked() -> None:
    found = one("import os\nos.system('vllm serve org/m --api-key sk-abcdefghijklmnop')\n")
    assert "sk-abcdefghijklmnop" not in json.dumps(found.to_json())


def test_tests_hold_fixtures_not_deployments() -> None:
    text = "import subprocess\nsubprocess.run(['vllm', 'serve', 'org/m'])\n"
    assert deployments({"tests/test_x.py": text, "conftest.py": text}) == []


# --- notebooks -----------------------------------------------------------------------------------------------------------


def test_notebook_cells_share_their_names() -> None:
    cells = [
        {"cell_type": "markdown", "source": ["vllm serve wrong/model"]},
        {"cell_type": "code", "source": ["M = 'org/m'\n", "%pip install vllm\n", "N = 2 * 4096"]},
        {"cell_type": "code", "source": ["%%bash --bg\n", "vllm serve other/m --max-model-len 100"]},
        {"cell_type": "code", "source": "!vllm serve $M \\\n  --max-model-len {N} &"},
    ]
    found = deployments({"n.ipynb": json.dumps({"cells": cells}, indent=1)})
    assert {facts(d, "model", "context_length") for d in found} == {("other/m", 100), ("org/m", 8192)}


# --- Terraform -----------------------------------------------------------------------------------------------------------


def test_terraform_module_inputs_reach_the_container() -> None:
    found = deployments(
        {
            "modules/llm/main.tf": """
variable "model" {}
variable "ctx" { default = 4096 }
resource "kubernetes_deployment" "llm" {
  spec {
    replicas = 2
    template {
      spec {
        container {
          name  = "vllm"
          image = "vllm/vllm-openai:v0.10.2"
          args  = ["--model", var.model, "--max-model-len=${var.ctx}"]
          resources { limits = { "nvidia.com/gpu" = 4 } }
        }
      }
    }
  }
}
""",
            "prod/main.tf": 'module "chat" {\n  source = "../modules/llm"\n  model  = "org/chat"\n  ctx    = 32 * 1024\n}\n',
        }
    )
    assert [facts(d, "model", "context_length", "replicas", "gpu_count") for d in found] == [("org/chat", 32768, 2, 4)]
    assert found[0].context_length.source is not None
    assert found[0].file == "modules/llm/main.tf"


def test_terraform_templates_and_instances() -> None:
    found = deployments(
        {
            "main.tf": """
locals { fleet = { a = 8192, b = 16384 } }
resource "aws_launch_template" "x" {
  for_each      = local.fleet
  instance_type = "p5.48xlarge"
  user_data     = base64encode(templatefile("${path.module}/boot.sh", { ctx = each.value, vllm = "0.9.2" }))
}
""",
            "boot.sh": "#!/bin/bash\ndocker run --gpus all vllm/vllm-openai:v${vllm} --model org/m --max-model-len ${ctx}\n",
        }
    )
    assert sorted(facts(d, "context_length", "engine_version") for d in found) == [(8192, "0.9.2"), (16384, "0.9.2")]


def test_a_variable_without_default_is_unknown() -> None:
    found = one(
        'variable "m" {}\nresource "docker_container" "x" {\n  image = "vllm/vllm-openai:v0.9.0"\n  command = ["--model", var.m]\n}\n',
        "x.tf",
    )
    assert found.model.value is None


# --- Nix, PowerShell, Jinja ----------------------------------------------------------------------------------------------


def test_nix_services_and_their_values() -> None:
    found = one(
        """
{ pkgs, lib, ... }:
let ctx = 8 * 1024; in {
  systemd.services.llm = {
    environment.CUDA_VISIBLE_DEVICES = "0,1";
    serviceConfig.ExecStart = lib.concatStringsSep " " [
      "${pkgs.vllm}/bin/vllm serve org/m"
      "--max-model-len ${toString ctx}"
    ];
  };
}
""",
        "llm.nix",
    )
    assert facts(found, "model", "context_length", "gpu_count") == ("org/m", 8192, 2)


def test_a_disabled_nix_service_deploys_nothing() -> None:
    text = '{ services.llama-cpp = { enable = false; model = "/m.gguf"; }; }'
    assert deployments({"x.nix": text}) == []


def test_powershell_start_process_with_a_table() -> None:
    found = one(
        """
param([string]$Model = "C:\\m\\a.gguf", [int]$Ctx = 16KB, [switch]$Q8)
$list = @("-m", $Model, "-c", $Ctx)
if ($Q8) { $list += @("-ctk", "q8_0") }
$list += "-np", 2
Start-Process -FilePath "C:\\llama\\llama-server.exe" -ArgumentList $list -NoNewWindow
""",
        "a.ps1",
    )
    assert facts(found, "model", "kv_pool_tokens", "context_length", "kv_cache_dtype") == (
        "C:\\m\\a.gguf",
        16384,
        8192,
        None,
    )


def test_jinja_takes_role_defaults_and_one_environment_for_each_group() -> None:
    found = deployments(
        {
            "roles/llm/templates/run.sh.j2": "#!/bin/sh\nexec vllm serve {{ m }} --max-model-len {{ ctx | int }}{% if kv is defined %} --kv-cache-dtype {{ kv }}{% endif %}\n",
            "roles/llm/defaults/main.yml": "m: org/m\nctx: '4096'\n",
            "group_vars/prod.yml": "ctx: 32768\nkv: fp8\n",
            "group_vars/dev.yml": "ctx: 2048\n",
        }
    )
    by_environment = {d.environment: facts(d, "model", "context_length", "kv_cache_dtype") for d in found}
    assert by_environment == {"prod": ("org/m", 32768, "fp8"), "dev": ("org/m", 2048, None)}
