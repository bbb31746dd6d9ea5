"""What one deployment is when several files say it: images and their scripts, services and runtimes, templates and values."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest
from discovered import found, only

START = """\
    #!/bin/sh
    exec vllm serve "$MODEL" --max-model-len "$WINDOW"
    """


@pytest.mark.parametrize(
    ("copy", "command", "script"),
    [
        ("COPY run.sh /opt/run.sh", 'ENTRYPOINT ["/opt/run.sh"]', "run.sh"),
        ("COPY --chmod=755 docker/run.sh /opt/", 'CMD ["/opt/run.sh"]', "docker/run.sh"),
        ("COPY scripts /srv", 'CMD ["bash", "/srv/run.sh"]', "scripts/run.sh"),
        ("WORKDIR /app\nCOPY . .", 'CMD ["./run.sh"]', "run.sh"),
        ("WORKDIR /app\nCOPY run.sh run.sh", "CMD bash run.sh", "run.sh"),
    ],
)
def test_an_image_is_followed_into_the_start_script_that_it_copies(
    tmp_path: Path, copy: str, command: str, script: str
) -> None:
    body = f"FROM vllm/vllm-openai:v0.11.0\nENV MODEL=org/m WINDOW=24000\n{copy}\n{command}\n"
    deployment = only(
        tmp_path, {"Dockerfile": body, script: START}, model="org/m", context_length=24000, engine_version="0.11.0"
    )
    assert (deployment.file, deployment.line) == (script, 2)


def test_a_script_of_another_stage_or_of_no_image_stays_its_own(tmp_path: Path) -> None:
    body = (
        "FROM base AS made\nFROM vllm/vllm-openai:v0.11.0\nCOPY --from=made /run.sh /run.sh\nENTRYPOINT ["
        + '"/run.sh"]\n'
    )
    deployment = only(tmp_path, {"Dockerfile": body, "run.sh": START})
    assert deployment.model.unknown is not None
    assert deployment.model.unknown.name == "$MODEL"


def test_a_service_runs_the_image_that_it_builds_under_its_own_variables(tmp_path: Path) -> None:
    files = {
        "compose.yml": """\
            services:
              llm:
                image: registry.lan/llm:7
                build:
                  context: ./llm
                  args: {TAG: v0.11.0}
                environment: {WINDOW: "32000"}
                deploy: {resources: {reservations: {devices: [{driver: nvidia, count: 2}]}}}
            """,
        "llm/Dockerfile": "ARG TAG=latest\nFROM vllm/vllm-openai:$TAG\nENV MODEL=org/m WINDOW=8000\nCOPY run.sh /\nENTRYPOINT"
        + ' ["/run.sh"]\n',
        "llm/run.sh": START,
    }
    deployment = only(
        tmp_path,
        files,
        model="org/m",
        context_length=32000,
        gpu_count=2,
        engine_version="0.11.0",
        image="registry.lan/llm:7",
    )
    assert (deployment.file, deployment.line) == ("llm/run.sh", 2)


def test_a_service_gives_the_arguments_of_a_built_image_s_entrypoint(tmp_path: Path) -> None:
    files = {
        "compose.yml": """\
            services:
              llm:
                build: .
                command: --model org/m --max-model-len 9000
            """,
        "Dockerfile": 'FROM cuda:12\nRUN pip install "vllm==0.10.1"\nENTRYPOINT ["python3", "-m", "vllm.entrypoints.openai.api_server"]\n',
    }
    deployment = only(tmp_path, files, model="org/m", context_length=9000, engine_version="0.10.1")
    assert deployment.file == "compose.yml"


def test_a_script_that_a_service_mounts_is_one_deployment(tmp_path: Path) -> None:
    files = {
        "compose.yml": """\
            services:
              llm:
                image: vllm/vllm-openai:v0.11.0
                entrypoint: ["/bin/bash", "/scripts/run.sh"]
                volumes: ["./scripts:/scripts:ro"]
                environment: [MODEL=org/m, WINDOW=16000]
            """,
        "scripts/run.sh": START,
    }
    deployment = only(tmp_path, files, model="org/m", context_length=16000, engine_version="0.11.0")
    assert (deployment.file, deployment.line) == ("scripts/run.sh", 2)


RUNTIME = """\
    apiVersion: serving.kserve.io/v1alpha1
    kind: ServingRuntime
    metadata: {name: rt}
    spec:
      containers:
        - name: kserve-container
          image: quay.io/some/vllm:1
          command: [python, -m, vllm.entrypoints.openai.api_server]
          args: ["--model=/mnt/models", "--served-model-name={{.Name}}"]
    """
SERVICE = """\
    apiVersion: serving.kserve.io/v1beta1
    kind: InferenceService
    metadata: {name: chat}
    spec:
      predictor:
        minReplicas: 2
        model:
          modelFormat: {name: vLLM}
          runtime: rt
          storageUri: s3://bucket/m
          args: [--max-model-len=12000]
          resources: {limits: {nvidia.com/gpu: "4"}}
    """


def test_an_inference_service_is_served_by_the_runtime_that_it_names(tmp_path: Path) -> None:
    facts = {"served_model_name": "chat", "context_length": 12000, "replicas": 2, "gpu_count": 4}
    only(tmp_path, {"k/rt.yaml": RUNTIME, "k/service.yaml": SERVICE}, model="/mnt/models", **facts)


def test_an_inference_service_without_its_runtime_says_the_engine_by_its_format(tmp_path: Path) -> None:
    only(tmp_path, {"service.yaml": SERVICE}, engine="vllm", model="s3://bucket/m", context_length=12000, gpu_count=4)
    other = SERVICE.replace("name: vLLM", "name: sklearn")
    assert not found(tmp_path / "other", {"service.yaml": other})


def test_a_chart_s_service_and_runtime_in_two_templates_are_one(tmp_path: Path) -> None:
    files = {
        "Chart.yaml": "{apiVersion: v2, name: c, version: 0.1.0}\n",
        "values.yaml": "name: rt\nwindow: 12000\n",
        "templates/rt.yaml": textwrap.dedent(RUNTIME)
        .replace("name: rt", "name: {{ .Values.name | quote }}")
        .replace("{{.Name}}", "{{`{{.Name}}`}}"),
        "templates/service.yaml": textwrap.dedent(SERVICE).replace("12000", "{{ .Values.window }}"),
    }
    only(tmp_path, files, served_model_name="chat", context_length=12000, replicas=2)


def test_manifests_whose_names_say_that_they_are_templates(tmp_path: Path) -> None:
    body = """\
        apiVersion: v1
        kind: Pod
        metadata: {name: p}
        spec:
          containers:
            - image: vllm/vllm-openai:v0.11.0
              args: ["--model", "${MODEL}", "--max-model-len", "8000"]
        """
    for name in ("pod.yaml.tpl", "pod.yml.template", "pod.yaml.in"):
        deployment = only(tmp_path / name, {name: body}, context_length=8000)
        assert deployment.model.unknown is not None


@pytest.mark.parametrize(
    ("accelerators", "count", "gpu", "parallel"),
    [
        ("{A100-80GB:8}", 8, "A100-80GB", 8),
        ("{L4:2, A10G:2}", 2, None, 2),
        ("{L4, H100}", 1, None, 1),
        ("{L4:8, H100:2}", None, None, None),
        ("{H100: 4}", 4, "H100", 4),
    ],
)
def test_accelerators_of_a_skypilot_task_written_without_blanks(
    tmp_path: Path, accelerators: str, count: int | None, gpu: str | None, parallel: int | None
) -> None:
    body = f"""\
        resources:
          accelerators: {accelerators}
        run: |
          vllm serve org/m --tensor-parallel-size $SKYPILOT_NUM_GPUS_PER_NODE
        """
    only(tmp_path, {"task.yaml": body}, gpu_count=count, gpu=gpu, tensor_parallel=parallel)


@pytest.mark.parametrize(("server", "key", "engine"), [("VLLM", "model", "vllm"), ("TGI", "model_id", "tgi")])
def test_a_truss_that_names_its_model_server(tmp_path: Path, server: str, key: str, engine: str) -> None:
    body = f"""\
        build:
          model_server: {server}
          arguments:
            endpoint: Completions
            {key}: org/m
            max_{"model_len" if engine == "vllm" else "total_tokens"}: 4096
        resources: {{accelerator: "A10G:2"}}
        """
    only(tmp_path, {"config.yaml": body}, engine=engine, model="org/m", context_length=4096, gpu_count=2)


def test_a_server_that_an_inner_function_starts_has_what_surrounds_the_outer_one(tmp_path: Path) -> None:
    body = """\
        import modal, subprocess
        app = modal.App("a")

        @app.function(gpu="H100:2", image=modal.Image.debian_slim().pip_install("vllm==0.11.0"))
        @modal.asgi_app()
        def web():
            from fastapi import FastAPI
            site = FastAPI()

            @site.on_event("startup")
            async def begin():
                subprocess.Popen(["vllm", "serve", "org/m", "--max-model-len", "8000"])

            return site
        """
    only(tmp_path, {"app.py": body}, model="org/m", context_length=8000, gpu_count=2, engine_version="0.11.0")


def test_a_unit_runs_a_script_of_the_tree_with_its_variables(tmp_path: Path) -> None:
    files = {
        "etc/llm.service": """\
            [Service]
            EnvironmentFile=/etc/llm/llm.env
            Environment=WINDOW=24000
            ExecStart=/opt/llm/bin/run.sh
            """,
        "deploy/llm.env": "MODEL=org/m\n",
        "bin/run.sh": START,
    }
    deployment = only(tmp_path, files, model="org/m", context_length=24000)
    assert (deployment.file, deployment.line) == ("bin/run.sh", 2)


def test_workers_on_a_line_of_their_own_are_the_leader_s_deployment(tmp_path: Path) -> None:
    body = """\
        #!/bin/bash
        srun -w "$HEAD" python -m sglang.launch_server --model org/m --tp 16 --nnodes 2 --node-rank 0 &
        for ((i = 1; i <= 1; i++)); do
          srun -w "${nodes[$i]}" python -m sglang.launch_server --model org/m --tp 16 --nnodes 2 --node-rank $i &
        done
        wait
        """
    assert only(tmp_path, {"run.sh": body}, tensor_parallel=16).line == 2
    other = body.replace("--tp 16 --nnodes 2 --node-rank $i", "--tp 8 --nnodes 2 --node-rank $i")
    assert len(found(tmp_path / "other", {"run.sh": other})) == 2


def test_the_nodes_of_one_server_share_its_gpus(tmp_path: Path) -> None:
    launch = "python -m sglang.launch_server --model org/m --tp 16 --nnodes {} --node-rank 0\n"
    two = only(tmp_path / "two", {"run.sh": launch.format(2)})
    assert (two.gpu_count.value, two.gpu_count.source) == (8, two.tensor_parallel.source)
    assert not only(tmp_path / "three", {"run.sh": launch.format(3)}).gpu_count.known
    assert not only(tmp_path / "unknown", {"run.sh": launch.format("$NODES")}).gpu_count.known
    named = "CUDA_VISIBLE_DEVICES=0,1 " + launch.format(2)
    assert only(tmp_path / "named", {"run.sh": named}).gpu_count.value == 2


def test_intel_s_devices_are_counted_too(tmp_path: Path) -> None:
    body = "export ZE_AFFINITY_MASK=0,1,2,3\nvllm serve org/m --max-model-len 4096\n"
    assert only(tmp_path, {"run.sh": body}).gpu_count.value == 4


def test_a_container_task_takes_the_defaults_of_its_role(tmp_path: Path) -> None:
    files = {
        "roles/llm/defaults/main.yml": "llm_model: org/m\nllm_window: 8192\nllm_quant: null\n",
        "roles/llm/tasks/main.yml": """\
            - name: serve
              community.docker.docker_container:
                name: llm
                image: vllm/vllm-openai:v0.11.0
                device_requests: [{driver: nvidia, count: 2}]
                command: >
                  --model {{ llm_model }} --max-model-len {{ llm_window }}
                  {% if llm_quant %}--quantization {{ llm_quant }}{% endif %}
            - name: gone
              community.docker.docker_container: {name: old, image: "vllm/vllm-openai:v0.9.0", state: absent, command: "--model x/y"}
            """,
    }
    facts = {"model": "org/m", "context_length": 8192, "gpu_count": 2, "engine_version": "0.11.0"}
    only(tmp_path, files, **facts)


def test_tasks_that_run_a_command_or_write_a_unit(tmp_path: Path) -> None:
    body = """\
        - hosts: gpus
          vars: {window: 9000}
          tasks:
            - name: unit
              copy:
                dest: /etc/systemd/system/llm.service
                content: |
                  [Service]
                  ExecStart=/usr/bin/vllm serve org/a --max-model-len {{ window }}
            - shell: nohup vllm serve org/b --max-model-len {{ window + 1000 }} &
            - shell: vllm serve org/c
              when: false
        """
    deployments = {d.model.value: d for d in found(tmp_path, {"play.yml": body})}
    assert {name: d.context_length.value for name, d in deployments.items()} == {"org/a": 9000, "org/b": 10000}
    assert [deployments[name].line for name in ("org/a", "org/b")] == [9, 10]


def test_of_a_catalogue_only_what_is_enabled_is_deployed(tmp_path: Path) -> None:
    body = """\
        catalog:
          small: {enabled: false, url: "hf://org/s", engine: VLLM, features: [TextGeneration]}
          large:
            enabled: true
            url: hf://org/l
            engine: VLLM
            features: [TextGeneration]
            args: [--max-model-len=9000]
            resourceProfile: nvidia-gpu-h100:2
          sound: {enabled: true, url: "hf://org/w", engine: FasterWhisper}
        """
    only(tmp_path, {"values.yaml": body}, model="hf://org/l", context_length=9000, gpu_count=2)


def test_values_with_a_section_that_is_called_as_the_engine(tmp_path: Path) -> None:
    body = """\
        model: {name: org/m, tp_size: 16}
        job: {gpus: 8}
        sglang:
          replicaCount: 2
          serverArgs: {context-length: 9000, kv-cache-dtype: fp8_e5m2, disable-cuda-graph: true}
        """
    facts = {"engine": "sglang", "model": "org/m", "tensor_parallel": 16, "context_length": 9000, "gpu_count": 8}
    only(tmp_path, {"values.yaml": body}, replicas=2, **facts)


def test_a_module_whose_image_is_a_variable_stands_where_its_container_does(tmp_path: Path) -> None:
    files = {
        "main.tf": """\
            resource "kubernetes_deployment" "llm" {
              spec {
                template {
                  spec {
                    container {
                      image = var.image
                      args  = ["--model", var.model, "--max-model-len", "8192"]
                    }
                  }
                }
              }
            }
            """,
        "variables.tf": 'variable "image" {\n  default = "vllm/vllm-openai:v0.11.0"\n}\nvariable "model" {\n  default = "org/m"\n}\n',
    }
    assert only(tmp_path, files, model="org/m", engine_version="0.11.0").file == "main.tf"


@pytest.mark.parametrize("switch", ["config.machine.gpu", "true"])
def test_what_only_the_host_decides_counts_as_met_in_a_nix_file(tmp_path: Path, switch: str) -> None:
    body = f"""\
        {{ config, lib, ... }}:
        {{
          config = lib.mkMerge [ (lib.mkIf {switch} {{
            virtualisation.oci-containers.containers.llm = {{
              image = "vllm/vllm-openai:v0.11.0";
              cmd = [ "--model" "org/m" "--max-model-len" "9000" ];
            }};
          }}) ];
        }}
        """
    only(tmp_path, {"llm.nix": body}, model="org/m", context_length=9000)
    declared = body.replace("config =", "options.machine.gpu = lib.mkEnableOption; config =")
    assert len(found(tmp_path / "module", {"llm.nix": declared})) == (switch == "true")


def test_powershell_reads_paths_that_it_joins_and_branches_that_it_tests(tmp_path: Path) -> None:
    body = """\
        param([string]$Root = "D:\\llm", [int]$Ctx = 4096, [switch]$Wait, [string[]]$More = @())
        $exe = Join-Path $Root "bin\\llama-server.exe"
        if (Test-Path $exe) { $file = "a.gguf" } elseif (Test-Path "x") { $file = "b.gguf" } else { exit 1 }
        $argv = @("-m", (Join-Path -Path $Root -ChildPath $file), "-c", "$Ctx")
        if ($More.Count -gt 0) { $argv += $More }
        $child = Start-Process -FilePath $exe -ArgumentList $argv -PassThru
        """
    only(tmp_path, {"run.ps1": body}, engine="llama.cpp", model="D:\\llm\\a.gguf", context_length=4096)


@pytest.mark.parametrize(
    ("command", "serves"),
    [
        ("../llama.cpp/build/bin/server -m a.gguf -c 4096", True),
        ("server -m models/a.gguf -c 4096", True),
        ("./build/server --model bert.bin --ctx 3", False),
    ],
)
def test_the_old_name_of_llama_cpp_s_server(tmp_path: Path, command: str, serves: bool) -> None:
    assert bool(found(tmp_path, {"llama.cpp.sh": f"#!/bin/sh\n# llama.cpp\n{command}\n"})) == serves


def test_a_platform_s_class_with_nothing_but_a_constructor(tmp_path: Path) -> None:
    body = """\
        import bentoml

        @bentoml.service(resources={"gpu": 1})
        class Chat:
            def __init__(self):
                from vllm import AsyncEngineArgs, AsyncLLMEngine
                self.engine = AsyncLLMEngine.from_engine_args(AsyncEngineArgs(model="org/m", max_model_len=4096))
        """
    only(tmp_path, {"service.py": body}, model="org/m", context_length=4096, gpu_count=1)


def test_the_release_of_another_backend_is_no_version_of_the_engine(tmp_path: Path) -> None:
    body = """\
        from sagemaker.huggingface import HuggingFaceModel, get_huggingface_llm_image_uri
        model = HuggingFaceModel(
            image_uri=get_huggingface_llm_image_uri("huggingface-neuronx", version="0.0.23"),
            env={"HF_MODEL_ID": "org/m", "MAX_TOTAL_TOKENS": "4096"},
        )
        model.deploy(initial_instance_count=1, instance_type="ml.inf2.xlarge")
        """
    only(tmp_path, {"deploy.py": body}, engine="tgi", context_length=4096, engine_version=None)


def test_a_patch_names_the_engine_by_its_container(tmp_path: Path) -> None:
    body = """\
        apiVersion: apps/v1
        kind: Deployment
        metadata: {name: llm}
        spec: {template: {spec: {containers: [{name: vllm, args: ["--model", "org/m", "--max-model-len", "9000"]}]}}}
        """
    only(tmp_path, {"patch.yaml": body}, engine="vllm", model="org/m", context_length=9000)
    assert not found(tmp_path / "other", {"patch.yaml": body.replace("name: vllm", "name: server")})


def test_a_knative_service_and_a_cloud_run_command_run_a_container(tmp_path: Path) -> None:
    service = """\
        apiVersion: serving.knative.dev/v1
        kind: Service
        metadata: {name: llm}
        spec: {template: {spec: {containers: [{image: "vllm/vllm-openai:v0.11.0", args: [--model=org/m, --max-model-len=8192]}]}}}
        """
    only(tmp_path / "service", {"service.yaml": service}, model="org/m", context_length=8192)
    command = """\
        gcloud run deploy llm --image vllm/vllm-openai:v0.11.0 --gpu 1 --gpu-type nvidia-l4 \\
          --args="--model=org/m,--max-model-len=8192"
        """
    only(tmp_path / "command", {"deploy.sh": command}, model="org/m", context_length=8192, gpu_count=1)
    assert not found(tmp_path / "core", {"service.yaml": service.replace("serving.knative.dev/v1", "v1")})


def test_a_ray_application_of_code_that_is_elsewhere(tmp_path: Path) -> None:
    body = """\
        apiVersion: ray.io/v1
        kind: RayService
        metadata: {name: chat}
        spec:
          serveConfigV2: |
            applications:
              - name: llm
                import_path: serve:model
                deployments: [{name: D, num_replicas: 2}]
                runtime_env:
                  pip: ["vllm==0.11.0"]
                  env_vars: {MODEL_ID: org/m, TENSOR_PARALLELISM: "2", MAX_MODEL_LEN: "9000"}
        """
    facts = {"model": "org/m", "context_length": 9000, "tensor_parallel": 2, "engine_version": "0.11.0"}
    only(tmp_path, {"ray.yaml": body}, replicas=2, **facts)
    assert not found(tmp_path / "other", {"ray.yaml": body.replace("vllm==0.11.0", "torch==2.0")})


def test_a_recipe_with_tensorrt_llm_s_own_words_for_the_roles(tmp_path: Path) -> None:
    body = """\
        environment: {model_path: /models/m, trtllm_repo: /r}
        hardware: {gpus_per_node: 4, num_ctx_servers: 3, num_gen_servers: 1}
        worker_config:
          ctx: {tensor_parallel_size: 2, max_seq_len: 1200, kv_cache_config: {free_gpu_memory_fraction: 0.8, dtype: fp8}}
          gen: {tensor_parallel_size: 8, max_seq_len: 2200}
        """
    by_role = {d.role.value: d for d in found(tmp_path, {"config.yaml": body})}
    assert {role: (d.context_length.value, d.gpu_count.value, d.replicas.value) for role, d in by_role.items()} == {
        "prefill": (1200, 2, 3),
        "decode": (2200, 4, 1),
    }
    assert by_role["prefill"].memory_fraction.value == 0.8


def test_a_fence_without_a_language_is_read_as_shell(tmp_path: Path) -> None:
    body = "# Serve\n\n```\nvllm serve org/m --max-model-len 9000\n```\n\n```text\nvllm serve org/old --max-model-len 1\n```\n"
    only(tmp_path, {"README.md": body}, model="org/m", context_length=9000)


HUGGING_FACE = """\
    apiVersion: serving.kserve.io/v1beta1
    kind: InferenceService
    metadata: {name: otter}
    spec:
      predictor:
        model:
          modelFormat: {name: huggingface}
          args: [--model_name=otter, --model_id=org/m, --max_model_len=8192]
    """


def test_kserve_s_own_runtime_for_hugging_face_starts_vllm(tmp_path: Path) -> None:
    deployment = only(tmp_path, {"isvc.yaml": HUGGING_FACE}, model="org/m", context_length=8192, engine="vllm")
    assert (deployment.served_model_name.value, deployment.line) == ("otter", 7)
    uri = HUGGING_FACE.replace("--model_id=org/m, ", "").replace("args:", "storageUri: hf://org/m\n          args:")
    assert only(tmp_path / "uri", {"isvc.yaml": uri}, context_length=8192).model.value == "hf://org/m"


@pytest.mark.parametrize("more", ["--backend=huggingface", "--task=sequence_classification"])
def test_it_starts_no_engine_for_other_backends_and_tasks(tmp_path: Path, more: str) -> None:
    assert found(tmp_path, {"isvc.yaml": HUGGING_FACE.replace("--max_model_len", f"{more}, --max_model_len")}) == []
