"""Each format from a file on disk to deployments: what is found, with which facts, and where."""
# ruff: noqa: E501  (tables of small files, one a line)

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from discovered import found, only
from hypothesis import given, settings
from hypothesis import strategies as st

from checklistbot.discovery import discover, formats
from checklistbot.discovery.digests import digests
from checklistbot.discovery.tree import STDIN_PATH, Disk, StdinManifests
from checklistbot.discovery.yaml_docs import Map, documents, read, text, walk


def test_kubernetes_arguments_of_an_entrypoint_image_with_variables_and_a_config_map(tmp_path: Path) -> None:
    deployment = only(
        tmp_path,
        {
            "k8s/serve.yaml": """\
                apiVersion: v1
                kind: ConfigMap
                metadata: {name: settings}
                data:
                  WINDOW: "24000"
                ---
                apiVersion: apps/v1
                kind: Deployment
                metadata: {name: chat}
                spec:
                  replicas: 3
                  template:
                    spec:
                      nodeSelector: {nvidia.com/gpu.product: NVIDIA-L40S}
                      containers:
                        - name: server
                          image: vllm/vllm-openai:v0.11.0
                          envFrom: [{configMapRef: {name: settings}}]
                          env:
                            - {name: MODEL, value: org/m}
                            - name: TOKEN
                              valueFrom: {secretKeyRef: {name: s, key: k}}
                          args:
                            - --model=$(MODEL)
                            - --max-model-len
                            - $(WINDOW)
                            - --api-key=$(TOKEN)
                          resources: {limits: {nvidia.com/gpu: 2}}
                """
        },
        model="org/m",
        context_length=24000,
        engine_version="0.11.0",
        replicas=3,
        gpu="NVIDIA-L40S",
        gpu_count=2,
    )
    assert deployment.id == "default/m/unified"
    assert deployment.file == "k8s/serve.yaml"
    assert deployment.context_length.source is not None
    assert deployment.context_length.source.line == 5


PD = """\
apiVersion: {api}
kind: {kind}
metadata: {{name: glm}}
spec:
  {roles}
"""


def test_roles_of_a_group_are_tied_and_workers_are_their_leaders(tmp_path: Path) -> None:
    leader = "{name: w, image: 'lmsysorg/sglang:v0.5.20', command: [python3, -m, sglang.launch_server, --model-path, org/glm, --disaggregation-mode, %s, --node-rank, '%d']}"
    objects = [
        f"""\
apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata: {{name: glm-{role}}}
spec:
  replicas: 1
  leaderWorkerTemplate:
    size: 2
    leaderTemplate: {{spec: {{containers: [{leader % (role, 0)}]}}}}
    workerTemplate: {{spec: {{containers: [{leader % (role, 1)}]}}}}
"""
        for role in ("prefill", "decode")
    ]
    router = "apiVersion: v1\nkind: Pod\nmetadata: {name: r}\nspec: {containers: [{name: r, image: 'lmsysorg/sgl-router:v1', command: [python3, -m, sglang_router.launch_router]}]}\n"
    deployments = found(tmp_path, {"a.yaml": "---\n".join([*objects, router])})
    assert [d.id for d in deployments] == ["default/glm/prefill", "default/glm/decode"]
    assert digests(deployments).keys() == {"default/glm"}


def test_a_script_in_a_config_map_runs_where_it_is_mounted(tmp_path: Path) -> None:
    only(
        tmp_path,
        {
            "a.yaml": """\
                apiVersion: v1
                kind: ConfigMap
                metadata: {name: scripts}
                data:
                  start.sh: |
                    #!/bin/bash
                    exec vllm serve org/m --max-model-len ${LEN}
                ---
                apiVersion: apps/v1
                kind: StatefulSet
                metadata: {name: chat}
                spec:
                  template:
                    spec:
                      volumes: [{name: s, configMap: {name: scripts}}]
                      containers:
                        - name: c
                          image: registry.lan/any:1
                          command: [bash, /scripts/start.sh]
                          env: [{name: LEN, value: "777"}]
                          volumeMounts: [{name: s, mountPath: /scripts}]
                """
        },
        model="org/m",
        context_length=777,
    )


def test_compose_with_env_file_anchor_and_devices(tmp_path: Path) -> None:
    deployment = only(
        tmp_path,
        {
            "compose.yaml": """\
                x-common: &common
                  image: ${IMG:-vllm/vllm-openai}:${TAG}
                  restart: always
                services:
                  chat:
                    <<: *common
                    command: ["--model", "org/m", "--max-model-len", "${LEN:-1}", "--api-key", "${KEY}"]
                    deploy: {resources: {reservations: {devices: [{device_ids: ["0", "1"], capabilities: [gpu]}]}}}
                  web:
                    image: nginx
                """,
            ".env": "TAG=v0.10.2\nLEN=5000   # five\nKEY=sk-canary-0123456789\n",
        },
        engine_version="0.10.2",
        context_length=5000,
        gpu_count=2,
    )
    assert "sk-canary" not in json.dumps(deployment.to_json())
    assert deployment.context_length.source is not None
    assert (deployment.context_length.source.path, deployment.context_length.source.line) == (".env", 2)


def test_a_compose_override_is_an_environment(tmp_path: Path) -> None:
    deployments = found(
        tmp_path,
        {
            "compose.yaml": "services:\n  chat:\n    image: vllm/vllm-openai:v0.11.0\n    command: [--model, m, --max-model-len, '100']\n",
            "compose.prod.yaml": "services:\n  chat:\n    command: [--model, m, --max-model-len, '200']\n",
        },
    )
    assert {d.id: d.context_length.value for d in deployments} == {"default/m/unified": 100, "prod/m/unified": 200}


@pytest.mark.parametrize(
    ("name", "body", "facts"),
    [
        ("Dockerfile", 'ARG V=v0.5.20\nFROM lmsysorg/sglang:${V}\nENV M=org/m L=99\nENTRYPOINT ["python3", "-m", "sglang.launch_server"]\nCMD ["--model-path", "org/m", \\\n  "--tp", "2"]\n', {"engine_version": "0.5.20", "tensor_parallel": 2}),
        ("Dockerfile.gpu", "FROM vllm/vllm-openai:v0.11.0\nENV L=99\nENTRYPOINT []\nCMD vllm serve org/m --max-model-len $L\n", {"context_length": 99}),
        ("units/a.service", "[Service]\nEnvironment=M=org/m\nExecStart=/opt/v/bin/vllm serve ${M} \\\n  --max-model-len 99\n", {"model": "org/m", "context_length": 99}),
        ("s.conf", "[program:x]\nenvironment=M=\"org/m\"\ncommand=vllm serve %(ENV_M)s --max-model-len 99\n", {"model": "org/m", "context_length": 99}),
        ("Makefile", "M ?= org/m\nserve: L = 99\nserve:\n\t@vllm serve $(M) \\\n\t  --max-model-len $(L)\n", {"model": "org/m", "context_length": 99}),
        ("justfile", "m := 'org/m'\nserve len='99':\n    vllm serve {{m}} \\\n      --max-model-len {{len}}\n", {"model": "org/m", "context_length": 99}),
        (".github/workflows/a.yml", "env: {M: org/m}\njobs:\n  t:\n    steps:\n      - run: pip install vllm==0.11.0\n      - env: {L: 99}\n        run: |\n          vllm serve $M --max-model-len ${{ env.L || '1' }} &\n", {"model": "org/m", "context_length": 99, "engine_version": "0.11.0"}),
        (".gitlab-ci.yml", "t:\n  variables: {M: org/m}\n  script:\n    - vllm serve $M --max-model-len 99 &\n", {"model": "org/m", "context_length": 99}),
        ("README.md", "Run:\n```bash\nvllm serve org/m --max-model-len 99\n```\n```text\nvllm serve other\n```\n", {"model": "org/m", "context_length": 99}),
        ("docs.md", "```console\n$ export L=99\n$ vllm serve org/m \\\n    --max-model-len $L\nINFO vllm serve x\n```\n", {"model": "org/m", "context_length": 99}),
        ("task.yaml", "resources: {accelerators: 'H100:4'}\nenvs: {M: org/m}\nrun: |\n  vllm serve $M -tp $SKYPILOT_NUM_GPUS_PER_NODE\n", {"tensor_parallel": 4, "gpu": "H100", "gpu_count": 4}),
        ("job.sbatch", "#!/bin/bash\n#SBATCH -N 2 --gres=gpu:h200:8\nsrun vllm serve org/m -pp $SLURM_JOB_NUM_NODES\n", {"pipeline_parallel": 2, "gpu_count": 8, "gpu": "h200"}),
        ("vllm/engine.yaml", "model: org/m\nmax-model-len: 99\ngpu-memory-utilization: 0.8\n", {"model": "org/m", "context_length": 99, "memory_fraction": 0.8}),
        ("m.yaml", "apiVersion: kubeai.org/v1\nkind: Model\nmetadata: {name: x}\nspec:\n  url: hf://org/m\n  engine: VLLM\n  features: [TextGeneration]\n  args: [--max-model-len=99]\n  resourceProfile: l4:2\n", {"model": "hf://org/m", "context_length": 99, "gpu_count": 2}),
        ("w.yaml", "apiVersion: kaito.sh/v1beta1\nkind: Workspace\nmetadata: {name: x}\ninference:\n  preset: {name: phi-4}\n  config: c\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata:\n  inference_config.yaml: |\n    vllm:\n      max-model-len: 99\n", {"model": "phi-4", "context_length": 99}),
        ("s.yaml", "apiVersion: serving.kserve.io/v1alpha1\nkind: LLMInferenceService\nmetadata: {name: x}\nspec:\n  model: {uri: 'hf://org/m', name: pub}\n  template:\n    containers:\n      - name: main\n        env: [{name: VLLM_ADDITIONAL_ARGS, value: '--max-model-len 99'}]\n", {"served_model_name": "pub", "context_length": 99}),
        ("r.yaml", "name: r\nmodel: {path: org/m, container: 'lmsysorg/sglang:v0.5.20'}\nresources: {gpus_per_node: 8, prefill_workers: 2}\nbackend:\n  sglang_config:\n    prefill:\n      disaggregation-mode: prefill\n      context-length: 99\n      tp-size: 4\n", {"model": "org/m", "role": "prefill", "context_length": 99, "gpu_count": 4, "replicas": 2}),
    ],
)  # fmt: skip
def test_each_format(tmp_path: Path, name: str, body: str, facts: dict[str, Any]) -> None:
    only(tmp_path, {name: body}, **facts)


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("Dockerfile", "FROM vllm/vllm-openai:v0.11.0\nRUN pip install x\n"),
        ("Dockerfile", 'FROM x\nENTRYPOINT ["vllm", "serve"]\n'),
        ("README.md", "Use `vllm serve org/m` to start.\n"),
        ("a.yaml", "apiVersion: ome.io/v1\nkind: ClusterServingRuntime\nmetadata: {name: x}\nspec:\n  disabled: true\n  containers: [{name: c, image: 'vllm/vllm-openai:v1.0', args: [--model, m]}]\n"),
        ("a.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec:\n  containers: [{name: c, image: 'vllm/vllm-openai:v1.0', command: [vllm, bench, serve, --model, m]}]\n"),
        ("a.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec:\n  containers: [{name: c, image: 'lmsysorg/sglang:v0.5.9', command: [python, -m, sglang.launch_server, --model-path, org/e-embedding, --is-embedding]}]\n"),
        ("tests/test_x.sh", "vllm serve m\n"),
        ("values.txt", "vllm serve m\n"),
    ],
)  # fmt: skip
def test_what_is_no_deployment(tmp_path: Path, name: str, body: str) -> None:
    assert found(tmp_path, {name: body}) == []


def test_a_config_file_that_a_command_names_is_part_of_it(tmp_path: Path) -> None:
    files = {"serve/run.sh": "vllm serve --config vllm.yaml\n", "serve/vllm.yaml": "model: org/m\nmax-model-len: 99\n"}
    deployment = only(tmp_path, files, model="org/m", context_length=99)
    assert deployment.file == "serve/run.sh"
    assert deployment.context_length.source is not None
    assert deployment.context_length.source.path == "serve/vllm.yaml"


def test_a_script_that_sources_its_values_is_found_though_it_names_no_engine(tmp_path: Path) -> None:
    files = {
        "up.sh": '. "$(dirname "$0")/conf/llm.env"\ndocker run "$IMAGE" --model "$M"\n',
        "conf/llm.env": "IMAGE=vllm/vllm-openai:v0.11.0\nM='org/m'\n",
    }
    only(tmp_path, files, model="org/m", engine_version="0.11.0")


def test_ids_survive_edits_elsewhere(tmp_path: Path) -> None:
    script = "for p in 1 2; do vllm serve org/m --port $p & done\nvllm serve org/n\nvllm serve org/n --seed 1\n"
    before = [d.id for d in found(tmp_path, {"a.sh": script})]
    after = [d.id for d in found(tmp_path, {"a.sh": "# a comment\n\n" + script})]
    assert before == after
    assert len(set(before)) == 3
    assert before[0] == "default/m/unified"


def test_exclude_leaves_files_out_and_skipped_ones_are_listed(tmp_path: Path) -> None:
    (tmp_path / "examples").mkdir()
    (tmp_path / "examples" / "a.sh").write_text("vllm serve m\n")
    (tmp_path / "big.sh").write_text("vllm serve m\n" + "#" * (6 * 1024 * 1024))
    result = discover(Disk(tmp_path), ["examples/**"])
    assert result.deployments == ()
    assert [(entry.path, entry.reason) for entry in result.skipped] == [("big.sh", "larger than 5 MiB")]


def test_standard_input_takes_rendered_manifests() -> None:
    body = b"apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec: {containers: [{name: c, image: 'vllm/vllm-openai:v0.11.0', args: [--model, m]}]}\n"
    (deployment,) = discover(StdinManifests(body)).deployments
    assert deployment.file == STDIN_PATH


def test_digests_ignore_places_and_replicas_and_notice_what_counts(tmp_path: Path) -> None:
    def of(command: str, comment: str = "") -> dict[str, str]:
        (digest,) = digests(found(tmp_path, {"a.sh": f"{comment}\nvllm serve org/m {command}\n"})).values()
        return digest

    base = of("--max-model-len 99 --api-key k1")
    assert of("--max-model-len 99 --api-key k2", "# moved") == base
    longer = of("--max-model-len 100 --api-key k1")
    assert longer["behaviour"] == base["behaviour"]
    assert longer["capacity"] != base["capacity"]
    assert of("--max-model-len 99 --api-key k1 --seed 1")["config"] != base["config"]
    assert of("--max-model-len 99 --kv-transfer-config {}")["behaviour"] != base["behaviour"]


# --- YAML ----------------------------------------------------------------------------------------------------------------


def test_yaml_is_read_as_far_as_it_goes() -> None:
    body = "a: {{ .Values.x }}\n{{- if y }}\nb: 1\n{{- end }}\n---\n\tc: 2\n---\n<<<<<<< HEAD\nd: 1\n=======\nd: 2\n>>>>>>> x\n---\ne: 1\nf: [1,\n"
    result = read("p", body)
    assert result.error is not None
    keys = [sorted(root) for root in result.roots if isinstance(root, Map)]
    assert keys == [["a", "b"], ["c"], ["d"], ["e"]]
    first = result.roots[0]
    assert isinstance(first, Map)
    assert text(first["a"]) is None
    assert text(first["b"]) == "1"


def test_two_hundred_documents_and_folded_lines() -> None:
    body = "---\n".join(f"kind: K{n}\n" for n in range(200))
    assert len(documents("p", body)) == 200
    (root,) = documents("p", "s: >-\n  a\n  b\n\n  c\n")
    assert isinstance(root, Map)
    word = root["s"]
    assert word is not None
    assert [word.line_at(at) for at in (0, 2, 4)] == [2, 3, 5]  # type: ignore[union-attr]


def test_alias_bombs_stay_small() -> None:
    bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12)
    )
    (root,) = documents("p", bomb)
    assert sum(1 for _ in walk(root)) < 1_000_000
    assert documents("p", "a: &a\n  b: *a\n") != ()


@settings(max_examples=60)
@given(st.text(alphabet="abk:{}[]-&*|>'\"# \n\t<=%!$é\x00", max_size=80))
def test_any_text_is_read_by_every_format(body: str) -> None:
    tree = StdinManifests(b"")
    list(documents("p", body))
    for path in (
        "a.yaml",
        "compose.yml",
        "Dockerfile",
        "a.service",
        "Makefile",
        "justfile",
        "a.md",
        ".github/workflows/a.yml",
        "a.conf",
        "vllm/a.yaml",
    ):
        for form in formats():
            if form.claims(path, body):
                list(form.launches(tree, path, body))
