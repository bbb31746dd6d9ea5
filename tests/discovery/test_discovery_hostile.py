"""Readers of reviewed files: whatever they are given they end, and never raise."""

from __future__ import annotations

import contextlib
import importlib
import json

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from memory_tree import MemoryTree

from checklistbot.discovery import discover, limits
from checklistbot.discovery.base import Format
from checklistbot.discovery.interpret import gotemplate, hcl, nixlang, pymachine

PYTHON = """
import os, subprocess, argparse
from dataclasses import dataclass
ap = argparse.ArgumentParser()
ap.add_argument("--ctx", type=int, default=2 ** 12)
a = ap.parse_args()
@dataclass
class C:
    model: str = "m/n"
    def argv(self):
        return ["vllm", "serve", self.model, f"--max-model-len={a.ctx:d}"]
def run(c=C()):
    for i in range(3):
        if os.environ.get("X") or i == 2:
            subprocess.Popen(c.argv() + ["--port", str(8000 + i)], env={**os.environ, "A": "b"})
    while True:
        break
try:
    run()
finally:
    x = {k: v for k, v in zip("ab", [1, 2])}
"""
NOTEBOOK = json.dumps(
    {"cells": [{"cell_type": "code", "source": ["M='a/b'\n", "!vllm serve {M} \\\n", " --max-model-len 9"]}]}, indent=1
)
TERRAFORM = """
variable "m" { default = "a/b" }
locals { n = { for k, v in { x = 1 } : k => v * 2 if v > 0 } }
resource "docker_container" "c" {
  count   = 2
  image   = "vllm/vllm-openai:v0.9.0"
  command = concat(["--model", var.m], [for x in ["1"] : "--seed=${x}"], true ? [] : ["y"])
  user_data = <<-E
    vllm serve ${var.m} %{ if true }--seed 1%{ endif }
  E
}
"""
NIX = """
{ config, pkgs, lib, ... }@args:
let f = x: x + 1; n = f 2; s = { a.b = "c"; inherit (args) config; }; in with lib; {
  virtualisation.oci-containers.containers.x = rec {
    image = "vllm/vllm-openai:v0.9.0"; cmd = [ "--model" s.a.b or "d" "--seed" (toString (if n > 2 then n else 0)) ] ++ optionals true [ "y" ];
  };
  systemd.services.y.serviceConfig.ExecStart = ''${pkgs.vllm}/bin/vllm serve ${s.a.b} \\
    --seed 1'';
}
"""
POWERSHELL = """
param([string]$M = "a/b", [switch]$Fast)
$a = @("--model", $M, "--ctx-size", (4 * 1024))
if ($Fast) { $a += "--flash-attn" }
$h = @{ FilePath = "llama-server.exe"; ArgumentList = $a }
Start-Process @h -NoNewWindow
& "llama-server.exe" @a `
  --port 8080
"""
JINJA = """#!/bin/sh
{% set n = 2 %}{% for x in [1, 2] if x > 1 %}
vllm serve {{ model | default("a/b", true) }} --seed {{ x * n }} {% if y is defined and y %}-q{% elif z %}b{% endif %}
{% endfor %}{# c #}
"""
CHART = """
apiVersion: v1
kind: Pod
metadata: {name: {{ .Release.Name }}}
spec:
  containers:
    - image: {{ .Values.image | default "vllm/vllm-openai:v0.9.0" | quote }}
      args:
        {{- range $i, $x := .Values.args }}
        - {{ printf "--%s=%v" $x (add $i 1) }}
        {{- else }}
        - --model=a/b
        {{- end }}
        {{- with .Values.b }}{{ toYaml . | nindent 8 }}{{ end }}
"""
KUSTOMIZATION = """
resources: [pod.yaml, ../base]
images: [{name: vllm/vllm-openai, newTag: v1}]
patches:
  - target: {kind: Pod}
    patch: '[{"op": "add", "path": "/spec/containers/0/args/-", "value": "--seed=1"}]'
configMapGenerator: [{name: c, literals: [a=b], files: [x=pod.yaml]}]
namePrefix: p-
"""
ARGO = """
apiVersion: argoproj.io/v1alpha1
kind: ApplicationSet
metadata: {name: a}
spec:
  generators: [{matrix: {generators: [{list: {elements: [{n: x}]}}, {git: {directories: [{path: "*"}]}}]}}]
  template:
    metadata: {name: "v-{{n}}"}
    spec: {source: {path: chart, helm: {valueFiles: ["{{n}}.yaml"], valuesObject: {image: "vllm/vllm-openai:v0.9.0"}}}}
"""
FLUX = """
apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {name: a}
spec: {chart: {spec: {chart: ./chart}}, values: {image: "${TAG:=vllm/vllm-openai:v0.9.0}"}, valuesFrom: [{kind: ConfigMap, name: c}]}
---
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: b}
spec: {path: ./k, postBuild: {substitute: {TAG: x}}}
"""
HELMFILE = """
environments: {prod: {values: [{t: v0.9.0}]}}
---
releases: [{name: a, chart: ./chart, values: [{image: "vllm/vllm-openai:{{ .Values.t }}"}], set: [{name: b.c, value: 1}]}]
"""
VALUES = """
servingEngineSpec: {modelSpec: [{name: a, repository: vllm/vllm-openai, tag: v0.9.0, modelURL: a/b, vllmConfig: {maxModelLen: 9, extraArgs: [-q]}}]}
modelArtifacts: {name: a/b}
decode: {containers: [{modelCommand: vllmServe, args: ["--seed=1"]}]}
"""
RAY = """
applications: [{args: {llm_configs: [{model_loading_config: {model_id: a}, engine_kwargs: {max_model_len: 9}, deployment_config: {num_replicas: 2}}]}}]
"""
TRUSS = "base_image: {image: vllm/vllm-openai:v0.9.0}\ndocker_server: {start_command: vllm serve a/b}\ntrt_llm: {build: {max_seq_len: 9}}\n"
DSTACK = "type: service\nimage: vllm/vllm-openai:v0.9.0\ncommands: [vllm serve a/b]\nresources: {gpu: 'H100:80GB:2'}\nreplicas: 1..4\n"
SEEDS = {
    "python": ("serve.py", PYTHON),
    "notebook": ("n.ipynb", NOTEBOOK),
    "terraform": ("main.tf", TERRAFORM),
    "nix": ("x.nix", NIX),
    "powershell": ("x.ps1", POWERSHELL),
    "jinja": ("x.sh.j2", JINJA),
    "helm": ("chart/templates/pod.yaml", CHART),
    "kustomize": ("k/kustomization.yaml", KUSTOMIZATION),
    "argocd": ("argo.yaml", ARGO),
    "flux": ("flux.yaml", FLUX),
    "helmfile": ("helmfile.yaml", HELMFILE),
    "values_files": ("values-x.yaml", VALUES),
    "rayserve": ("ray.yaml", RAY),
    "truss": ("config.yaml", TRUSS),
    "dstack": ("a.dstack.yml", DSTACK),
}
OTHERS = {
    "chart/Chart.yaml": "name: chart\n",
    "chart/values.yaml": "args: [seed]\nimage: vllm/vllm-openai:v0.9.0\n",
    "chart/templates/pod.yaml": CHART,
    "k/kustomization.yaml": KUSTOMIZATION,
    "k/pod.yaml": "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: a, image: vllm/vllm-openai:v0.9.0, args: [--model=a/b]}]}\n",
}


def form(name: str) -> Format:
    found: Format = importlib.import_module(f"checklistbot.discovery.{name}").FORMAT
    return found


def read(name: str, text: str) -> int:
    """Runs claims, consumes and launches of a format on the text; gives the number of launches."""
    path, _ = SEEDS[name]
    tree = MemoryTree({**OTHERS, path: text})
    reader = form(name)
    if not reader.claims(path, text):
        return 0
    list(reader.consumes(tree, path, text))
    return len(list(reader.launches(tree, path, text)))


@pytest.mark.parametrize("name", SEEDS)
def test_the_undamaged_file_is_read(name: str) -> None:
    assert read(name, SEEDS[name][1]) > 0


_NOISE = st.sampled_from(
    [
        "",
        "\n",
        "{{",
        "}}",
        "${",
        "}",
        "(",
        ")",
        "[",
        "]",
        '"',
        "'",
        "''",
        "\\",
        "%{",
        "- ",
        ": ",
        "&a ",
        "*a",
        "<<E\n",
        "\x00",
        "\ue0c2",
        "end",
        "🙂",
        "  ",
        "\t",
        "9" * 400,
    ]
)


@st.composite
def damaged(draw: st.DrawFn, text: str) -> str:
    """The text with a few pieces cut out, doubled or replaced by noise."""
    for _ in range(draw(st.integers(1, 5))):
        start = draw(st.integers(0, max(len(text) - 1, 0)))
        length = draw(st.integers(0, 30))
        piece = text[start : start + length] * 2 if draw(st.booleans()) else draw(_NOISE)
        text = text[:start] + piece + text[start + length :]
    return text


@pytest.mark.parametrize("name", SEEDS)
def test_damaged_files_end_without_an_error(name: str) -> None:
    @settings(max_examples=60)
    @given(damaged(SEEDS[name][1]))
    def check(text: str) -> None:
        read(name, text)

    check()


@settings(max_examples=200)
@given(st.text(max_size=400))
@example("${" * 200)
@example('"' + "${" * 80)
@example("[" * 500)
def test_hcl_of_any_text(text: str) -> None:
    hcl.parse(text)


@settings(max_examples=200)
@given(st.text(alphabet="ab{}[]();=.:$\"'\\ \n?@,-+/<>0123 let in with rec inherit if then else", max_size=200))
@example("{" * 400)
@example("a:" * 400)
def test_nix_of_any_text(text: str) -> None:
    with pytest.raises(nixlang.NixError) if _refused(text) else _nothing():
        nixlang.Parser(text).parse()


def _refused(text: str) -> bool:
    try:
        nixlang.Parser(text).parse()
    except nixlang.NixError:
        return True
    return False


class _nothing:
    def __enter__(self) -> None:
        return None

    def __exit__(self, *error: object) -> None:
        return None


@settings(max_examples=200)
@given(st.text(alphabet='{}-./$"`|():=, \nabifendrangewithelsedefine1', max_size=200))
def test_go_templates_of_any_text(text: str) -> None:
    with contextlib.suppress(gotemplate.TemplateError):
        gotemplate.parse(text)


BOMBS = {
    "python": "x = [1]\nwhile True:\n    x = x + x\n    y = 10 ** 10 ** 10\n    z = 'a' * 10 ** 9\nimport subprocess\nsubprocess.run(['vllm','serve','m'])\n",
    "jinja": "{% for a in range(100000) %}{% for b in range(100000) %}vllm {{ a }}{% endfor %}{% endfor %}",
    "helm": "apiVersion: v1\nkind: Pod\n{{ range until 100000 }}{{ range until 100000 }}vllm{{ end }}{{ end }}",
    "terraform": 'locals {\n  a = "${local.b}${local.b}"\n  b = "${local.a}vllm"\n}\nresource "x" "y" {\n  command = local.a\n  image = "vllm/vllm-openai"\n}\n',
    "nix": 'let f = x: f (x + x); a = b + b; b = a + "vllm"; in { cmd = [ (f "vllm") a ]; image = "vllm"; }',
    "powershell": "$a = @('llama-server')\n" + "$a += $a\n" * 40 + "& $a[0] @a\n",
    "notebook": json.dumps(
        {"cells": [{"cell_type": "code", "source": ["while True:\n", "  x = 'vllm' * 99999999\n"]}]}
    ),
    "kustomize": "resources: [../k, ./, pod.yaml]\ncomponents: [../k]\n",
}


@pytest.mark.parametrize("name", BOMBS)
def test_bombs_run_out_of_budget(name: str) -> None:
    read(name, BOMBS[name])


@pytest.mark.parametrize(
    ("name", "piece"),
    [
        ("terraform", "/*\n"),
        ("terraform", "a = <<-E\n"),
        ("terraform", 'a = "${\n'),
        ("nix", "/*\n"),
        ("nix", "a.b "),
        ("powershell", "@'\n"),
        ("powershell", "<#\n"),
        ("powershell", "[a"),
        ("helm", "apiVersion kind {{/*\n"),
        ("helm", 'apiVersion kind {{ "\\"'),
        ("jinja", "{% if a %}"),
        ("notebook", '{"cells":['),
    ],
)
def test_what_is_opened_many_times_and_never_closed_ends(name: str, piece: str) -> None:
    assert read(name, piece * 20_000) == 0


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "python",
            "import yaml, subprocess\nc = yaml.safe_load(open('/etc/hostname').read())\nsubprocess.run(['vllm', 'serve', open('../../etc/passwd').read()])",
        ),
        (
            "terraform",
            'resource "docker_container" "x" {\n  image = "vllm/vllm-openai"\n  command = ["--model", file("/etc/passwd"), file("../../x")]\n}\n',
        ),
    ],
)
def test_files_outside_the_tree_stay_unknown(name: str, text: str) -> None:
    path, _ = SEEDS[name]
    tree = MemoryTree({path: text})
    (launch,) = form(name).launches(tree, path, text)
    assert launch.argv[-1].text is None


# --- many Python files ------------------------------------------------------------------------------------------------

_LOOP = """ENGINE = 'sglang'
{start}
for a in range(200):
    for b in range(200):
        for c in range(200):
            x = [a, b, c]
"""
_LAUNCHER = "import subprocess\nsubprocess.run(['vllm', 'serve', 'acme/Otter', '--max-model-len', '8192'])\n"


def test_a_library_that_starts_nothing_is_not_called_unread() -> None:
    assert not discover(MemoryTree({"engine.py": _LOOP.format(start="")})).skipped
    (skipped,) = discover(MemoryTree({"engine.py": _LOOP.format(start="import subprocess")})).skipped
    assert skipped.reason == limits.TOO_MUCH


def test_all_python_files_draw_from_one_store(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[int] = []
    spend = limits.spend
    monkeypatch.setattr(pymachine, "spend", lambda steps: (taken.append(steps), spend(steps)))
    files = {f"engine{n:02}.py": _LOOP.format(start="import subprocess") for n in range(40)}
    found = discover(MemoryTree({**files, "zz_last.py": _LAUNCHER}))
    assert [d.context_length.value for d in found.deployments] == [8192], "the last of many is still read"
    assert sum(taken) < 500_000


def test_a_notebook_that_is_no_json_and_a_page_of_commands_are_not_silent() -> None:
    broken = discover(MemoryTree({"n.ipynb": '{"cells": [ "vllm serve org/m"'}))
    assert [(s.path, s.reason) for s in broken.skipped] == [("n.ipynb", f"{limits.UNREAD}notebook")]
    fences = "".join(f"```sh\nvllm serve org/m --seed {n}\n```\n" for n in range(210))
    page = discover(MemoryTree({"page.md": fences}))
    assert len(page.deployments) == 200
    assert [(s.path, s.reason) for s in page.skipped] == [("page.md", limits.TOO_MUCH)]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("serve.sh.j2", "#!/bin/sh\n{% for n in [" + "0," * 600 + "0] %}\nvllm serve org/m --seed {{ n }}\n{% endfor %}\n"),
        ("serve.sh.j2", "#!/bin/sh\n# vllm\n{% set x = " + "(" * 90 + "1" + ")" * 90 + " + " * 0 + " %}\n" + "{{ x" + "|abs" * 90 + " }}\n"),
        ("values.yaml", "framework: vllm\nmodel: org/m\nmore: " + "[" * 70 + "]" * 70 + "\n"),
        ("main.tf", 'locals { a = "' + "x" * 210_000 + '${var.b} vllm serve org/m" }\nresource "a" "b" { user_data = local.a }\n'),
    ],
)  # fmt: skip
def test_what_is_left_out_of_a_template_or_of_values_is_told(path: str, body: str) -> None:
    found = discover(MemoryTree({path: body}))
    assert limits.TOO_MUCH in [s.reason for s in found.skipped]
