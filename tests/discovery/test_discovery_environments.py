"""Charts, kustomizations and release objects: one deployment for each environment, each fact from the file that won."""

from __future__ import annotations

from typing import Any

import pytest
from memory_tree import MemoryTree

from checklistbot.discovery import discover
from checklistbot.model import Deployment

CHART = {
    "charts/llm/Chart.yaml": "apiVersion: v2\nname: llm\nappVersion: v0.11.0\n",
    "charts/llm/values.yaml": "image: {repository: vllm/vllm-openai, tag: ''}\nmodel: org/m\nctx: 8192\ntp: 1\nextra: []\n",
    "charts/llm/templates/_helpers.tpl": '{{- define "llm.name" -}}{{ printf "%s-llm" .Release.Name | trunc 63 }}{{- end }}\n',
    "charts/llm/templates/deployment.yaml": """apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ include "llm.name" . }}
spec:
  replicas: {{ .Values.replicas | default 2 }}
  template:
    spec:
      containers:
        - name: vllm
          image: "{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}"
          command: ["vllm", "serve", {{ .Values.model | quote }}]
          args:
            - --max-model-len={{ int .Values.ctx }}
            {{- if gt (int .Values.tp) 1 }}
            - --tensor-parallel-size={{ .Values.tp }}
            {{- end }}
            {{- with .Values.extra }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
          resources:
            limits: {nvidia.com/gpu: {{ .Values.tp }}}
""",
}
BASE = {
    "base/kustomization.yaml": "resources: [deployment.yaml]\n",
    "base/deployment.yaml": """apiVersion: apps/v1
kind: Deployment
metadata: {name: glm}
spec:
  replicas: 1
  template:
    spec:
      containers:
        - name: sglang
          image: lmsysorg/sglang:v0.5.20
          command: [python3, -m, sglang.launch_server]
          args:
            - --model-path=org/glm
            - --context-length=131072
""",
}


def found(files: dict[str, str]) -> tuple[list[Deployment], list[str]]:
    result = discover(MemoryTree(files))
    return list(result.deployments), [entry.reason for entry in result.skipped]


def by_environment(files: dict[str, str], *names: str) -> dict[str, tuple[Any, ...]]:
    deployments, _ = found(files)
    assert len({d.environment for d in deployments}) == len(deployments)
    return {d.environment: tuple(d.fact(n).value for n in names) for d in deployments}


def source(deployment: Deployment, name: str) -> tuple[str | None, int | None]:
    place = deployment.fact(name).source
    assert place is not None
    return place.path, place.line


# --- Helm ----------------------------------------------------------------------------------------------------------------


def test_a_chart_alone_is_the_default_environment() -> None:
    (deployment,), _ = found(CHART)
    assert deployment.environment == "default"
    assert (deployment.file, deployment.line) == ("charts/llm/templates/deployment.yaml", 12)
    assert [
        deployment.fact(n).value for n in ("model", "context_length", "tensor_parallel", "replicas", "engine_version")
    ] == ["org/m", 8192, None, 2, "0.11.0"]
    assert source(deployment, "context_length") == ("charts/llm/values.yaml", 3)


def test_each_values_file_is_an_environment_and_keeps_the_line_that_won() -> None:
    files = {
        **CHART,
        "charts/llm/values-prod.yaml": "ctx: 32768\ntp: 4\nextra:\n  - --kv-cache-dtype=fp8\n",
        "charts/llm/values-dev.yaml": "ctx: 2048\n",
    }
    assert by_environment(files, "context_length", "tensor_parallel", "kv_cache_dtype") == {
        "prod": (32768, 4, "fp8"),
        "dev": (2048, None, None),
    }
    prod = next(d for d in found(files)[0] if d.environment == "prod")
    assert source(prod, "context_length") == ("charts/llm/values-prod.yaml", 1)
    assert source(prod, "kv_cache_dtype") == ("charts/llm/values-prod.yaml", 4)


def test_a_null_in_a_values_file_removes_the_default() -> None:
    files = {**CHART, "charts/llm/values-x.yaml": "replicas: null\nextra: null\n"}
    assert by_environment(files, "replicas") == {"x": (2,)}


def test_a_chart_that_fails_to_render_is_listed_with_the_command_to_pipe() -> None:
    files = {
        **CHART,
        "charts/llm/templates/deployment.yaml": CHART["charts/llm/templates/deployment.yaml"] + '{{ fail "no" }}\n',
    }
    deployments, skipped = found(files)
    assert deployments == []
    assert any("helm template" in reason for reason in skipped)


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("{{ .Values.a | default .Values.b }}", "2"),
        ("{{ if and .Values.b (not .Values.a) }}y{{ else if .Values.a }}n{{ else }}z{{ end }}", "y"),
        ("{{ range $i, $v := .Values.l }}{{ $i }}={{ $v }};{{ end }}", "0=x;1=y;"),
        ("{{ $n := 0 }}{{ range .Values.l }}{{ $n = add $n 2 }}{{ end }}{{ $n }}", "4"),
        ('{{ ternary "a" "b" (eq .Values.b 2) | upper | quote }}', '"A"'),
        ('{{ dict "k" (list 1 2) | toJson }}', '{"k": [1, 2]}'),
        ('{{ tpl "{{ .Values.b }}!" . }}', "2!"),
        ("{{ .Values.m.deep.er }}{{ index .Values.l 1 }}", "y"),
        ('{{- /* note */ -}} {{ printf "%s-%d%%" "a" 5 }}', "a-5%"),
    ],
)
def test_template_language(template: str, expected: str) -> None:
    from checklistbot.discovery.interpret import data_files, gotemplate
    from checklistbot.discovery.interpret.gofunctions import FUNCTIONS
    from checklistbot.discovery.interpret.gorender import Renderer
    from checklistbot.discovery.interpret.pyvalues import Map

    values = data_files.load("a: ''\nb: 2\nl: [x, y]\nm: {}\n", ("v", 1), "yaml")
    assert values is not None
    nodes, _ = gotemplate.parse(template)
    assert Renderer({}, FUNCTIONS).render(nodes, "t", Map(("v", 1), {"Values": values})).text.strip() == expected


# --- kustomize -----------------------------------------------------------------------------------------------------------

PROD = """resources: [../../base]
namePrefix: prod-
images:
  - name: lmsysorg/sglang
    newTag: v0.5.22
replicas: [{name: glm, count: 4}]
patches:
  - target: {kind: Deployment, name: glm}
    patch: |-
      - op: replace
        path: /spec/template/spec/containers/0/args/1
        value: --context-length=1048576
      - op: add
        path: /spec/template/spec/containers/0/args/-
        value: --max-total-tokens=681280
"""
STAGING = """resources: [../../base]
patches: [{path: args.yaml}]
"""
ARGS = """apiVersion: apps/v1
kind: Deployment
metadata: {name: glm}
spec:
  template:
    spec:
      containers:
        - {name: sglang, args: [--model-path=org/glm, --context-length=65536]}
"""


def test_overlays_are_environments_and_the_base_is_not_reported_again() -> None:
    files = {
        **BASE,
        "overlays/prod/kustomization.yaml": PROD,
        "overlays/staging/kustomization.yaml": STAGING,
        "overlays/staging/args.yaml": ARGS,
    }
    assert by_environment(files, "context_length", "kv_pool_tokens", "engine_version", "replicas") == {
        "prod": (1048576, 681280, "0.5.22", 4),
        "staging": (65536, None, "0.5.20", 1),
    }
    prod = next(d for d in found(files)[0] if d.environment == "prod")
    assert prod.file == "base/deployment.yaml"
    assert source(prod, "context_length") == ("overlays/prod/kustomization.yaml", 12)
    assert source(prod, "engine_version") == ("overlays/prod/kustomization.yaml", 5)


def test_a_plain_kustomization_makes_no_environment() -> None:
    assert by_environment(BASE, "context_length") == {"default": (131072,)}


def test_generated_config_maps_reach_the_container() -> None:
    files = {
        "k/kustomization.yaml": "resources: [pod.yaml]\nnamePrefix: a-\nconfigMapGenerator:\n  - name: c\n    envs: [x.env]\n",
        "k/x.env": "# note\nCTX=5000\n",
        "k/pod.yaml": """apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  containers:
    - name: vllm
      image: vllm/vllm-openai:v0.9.0
      args: [--model=org/m, --max-model-len=$(CTX)]
      envFrom: [{configMapRef: {name: c}}]
""",
    }
    assert by_environment(files, "context_length") == {"default": (5000,)}


def test_a_remote_base_is_listed_and_not_fetched() -> None:
    deployments, skipped = found({"k/kustomization.yaml": "resources: ['https://example.invalid/x//vllm?ref=v1']\n"})
    assert deployments == []
    assert any("kustomize build" in reason for reason in skipped)


def test_a_value_that_a_replacement_computes_is_unknown() -> None:
    files = {
        **BASE,
        "overlays/x/kustomization.yaml": """resources: [../../base]
replacements:
  - source: {kind: ConfigMap, name: c, fieldPath: data.a}
    targets:
      - select: {kind: Deployment}
        fieldPaths: [spec.template.spec.containers.[name=sglang].args.1]
""",
    }
    assert by_environment(files, "model", "context_length") in ({"x": ("org/glm", None)}, {"x": ("org/glm", 131072)})


# --- Argo CD, Flux, Helmfile ---------------------------------------------------------------------------------------------

APPSET = """apiVersion: argoproj.io/v1alpha1
kind: ApplicationSet
metadata: {name: llm}
spec:
  generators:
    - list:
        elements:
          - cluster: us
            ctx: "16384"
          - cluster: eu
            ctx: "4096"
  template:
    metadata:
      name: llm-{{cluster}}
    spec:
      sources:
        - path: charts/llm
          helm:
            valueFiles: [values.yaml, $repo/envs/{{cluster}}.yaml]
            parameters:
              - {name: ctx, value: "{{ctx}}"}
        - ref: repo
"""


def test_an_application_set_makes_an_environment_of_each_element() -> None:
    files = {**CHART, "apps/set.yaml": APPSET, "envs/us.yaml": "tp: 8\nctx: 1\n", "envs/eu.yaml": "model: org/eu\n"}
    assert by_environment(files, "model", "context_length", "tensor_parallel") == {
        "llm-us": ("org/m", 16384, 8),
        "llm-eu": ("org/eu", 4096, None),
    }


def test_argo_images_go_over_a_kustomization() -> None:
    application = """apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: glm-prod}
spec:
  source:
    path: base
    kustomize:
      images: ["lmsysorg/sglang=mirror.example/sglang:v0.5.22"]
"""
    (deployment,), _ = found({**BASE, "apps/a.yaml": application})
    assert (deployment.environment, deployment.image.value) == ("glm-prod", "mirror.example/sglang:v0.5.22")


def test_a_chart_that_is_not_there_is_listed_unless_its_values_say_what_runs() -> None:
    application = """apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: NAME}
spec:
  source:
    chart: CHART
    repoURL: https://example.invalid/charts
    helm:
      valuesObject: VALUES
"""

    def made(name: str, values: str) -> str:
        return application.replace("NAME", name).replace("CHART", name).replace("VALUES", values)

    known = "{servingEngineSpec: {modelSpec: [{name: a, repository: vllm/vllm-openai, tag: v0.10.1, modelURL: org/m, vllmConfig: {maxModelLen: 9000}}]}}"
    deployments, skipped = found({"a.yaml": made("stack", known), "b.yaml": made("closed", "{x: {flavour: vllm}}")})
    assert [(d.environment, d.context_length.value) for d in deployments] == [("stack", 9000)]
    assert any("helm template closed" in reason for reason in skipped)


def test_flux_patches_and_substitutions_reach_the_release() -> None:
    files = {
        **CHART,
        "apps/base/kustomization.yaml": "resources: [release.yaml]\n",
        "apps/base/release.yaml": """apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {name: llm}
spec:
  chart: {spec: {chart: ./charts/llm}}
  values: {ctx: 9000, replicas: "${N:=3}"}
""",
        "apps/prod/kustomization.yaml": """resources: [../base]
patches:
  - patch: |
      apiVersion: helm.toolkit.fluxcd.io/v2
      kind: HelmRelease
      metadata: {name: llm}
      spec: {values: {ctx: 40000}}
""",
        "clusters/prod.yaml": """apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: apps-prod}
spec: {path: ./apps/prod, postBuild: {substitute: {N: "5"}}}
""",
    }
    assert by_environment(files, "context_length", "replicas") == {"apps-prod": (40000, 5)}


def test_helmfile_environments_and_sets() -> None:
    files = {
        **CHART,
        "helmfile.yaml": """environments:
  dev: {values: [{len: 1000}]}
  prod: {values: [env/prod.yaml]}
---
releases:
  - name: chat
    chart: ./charts/llm
    values:
      - ctx: {{ .Values.len }}
    set:
      - {name: tp, value: 2}
""",
        "env/prod.yaml": "len: 30000\n",
    }
    assert by_environment(files, "context_length", "tensor_parallel") == {
        "chat-dev": (1000, 2),
        "chat-prod": (30000, 2),
    }


# --- platforms with a file of their own -----------------------------------------------------------------------------------


MODELSERVICE = """
modelArtifacts: {name: org/m}
decode:
  replicas: 2
  containers:
    - modelCommand: vllmServe
      image: ghcr.io/llm-d/llm-d-cuda:v0.4.0
      args: [--max-model-len=7000]
"""
HOME_MADE = """
llm:
  engine: sglang
  image: {repository: lmsysorg/sglang, tag: v0.5.22}
  model: org/m
  tpSize: 4
  extraArgs: |
    --context-length 9000 \\
    --mem-fraction-static 0.8
"""
DSTACK = """
type: service
name: a
image: lmsysorg/sglang:v0.5.22
env: [M=org/m]
commands:
  - python3 -m sglang.launch_server --model-path $M
    --context-length 9000
resources: {gpu: 'H100:8'}
replicas: 2..4
"""
TRUSS = """
model_name: t
base_image: {image: 'vllm/vllm-openai:v0.9.2'}
docker_server:
  start_command: vllm serve org/m --max-model-len 9000
resources: {accelerator: 'H100:2'}
"""
RAY = """
applications:
  - import_path: ray.serve.llm:build_openai_app
    args:
      llm_configs:
        - model_loading_config: {model_id: a, model_source: org/m}
          engine_kwargs: {max_model_len: 9000, tensor_parallel_size: 2}
          deployment_config: {num_replicas: 3}
"""


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        (
            "ms/values-a.yaml",
            MODELSERVICE,
            {"model": "org/m", "context_length": 7000, "replicas": 2, "role": "unified"},
        ),
        (
            "x/values.yaml",
            HOME_MADE,
            {"context_length": 9000, "tensor_parallel": 4, "memory_fraction": 0.8, "engine_version": "0.5.22"},
        ),
        ("a.dstack.yml", DSTACK, {"model": "org/m", "context_length": 9000, "gpu_count": 8, "replicas": 2}),
        ("t/config.yaml", TRUSS, {"model": "org/m", "context_length": 9000, "gpu_count": 2, "engine_version": "0.9.2"}),
        ("ray/serve.yaml", RAY, {"model": "org/m", "served_model_name": "a", "context_length": 9000, "replicas": 3}),
    ],
)
def test_platform_files(path: str, text: str, expected: dict[str, Any]) -> None:
    (deployment,), _ = found({path: text})
    assert {name: deployment.fact(name).value for name in expected} == expected


@pytest.mark.parametrize(("options", "context"), [("", 32000), ("\n        options: {delimiter: '=', index: 1}", None)])
def test_a_replacement_puts_a_field_into_an_argument(options: str, context: int | None) -> None:
    files = {
        "kustomization.yaml": "resources: [all.yaml]\nreplacements:\n  - source: {kind: ConfigMap, name: settings, fieldPath: data.window}\n"
        "    targets:\n      - select: {kind: Pod, name: llm}\n        fieldPaths:\n          - spec.containers.[name=llm].args.3"
        + options
        + "\n",
        "all.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {window: '32000'}\n---\n"
        "apiVersion: v1\nkind: Pod\nmetadata: {name: llm}\nspec: {containers: [{name: llm, image: 'vllm/vllm-openai:v0.11.0',"
        " args: [--model, org/m, --max-model-len, '8000']}]}\n",
    }
    deployments = discover(MemoryTree(files)).deployments
    assert [d.context_length.value for d in deployments] == [context]
