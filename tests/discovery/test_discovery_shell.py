"""Shell scripts: what is passed to the server, and what only a run could tell."""

from __future__ import annotations

import textwrap

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from memory_tree import MemoryTree

from checklistbot.discovery import discover
from checklistbot.discovery.launches import run_shell
from checklistbot.discovery.sh.arithmetic import evaluate
from checklistbot.engines.base import OPEN, Launch, Word


def launches(script: str, **env: str) -> list[Launch]:
    text = textwrap.dedent(script)
    words = {name: Word(value, "x.sh", 1) for name, value in env.items()}
    return run_shell(Launch((), "x.sh", 1, "x", env=words), Word(text, "x.sh", 1))


def argvs(script: str, **env: str) -> list[str]:
    return [" ".join(word.shown for word in launch.argv) for launch in launches(script, **env)]


def test_continuations_and_a_comment_that_cuts_them() -> None:
    (launch,) = launches("""\
        # start
        python3 -m sglang.launch_server \\
          --model-path m \\
          # --tp 4 \\
          --context-length 5000
        """)
    assert [word.shown for word in launch.argv] == ["python3", "-m", "sglang.launch_server", "--model-path", "m"]
    assert launch.line == 2
    assert launch.argv[3].line == 3
    assert [word.text for word in launch.lost] == ["--context-length", "5000"]


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("vllm serve ${M:-org/a} --max-model-len ${L:=4096}", "vllm serve org/a --max-model-len 4096"),
        ("A=(vllm serve m)\nA+=(--seed 1)\n\"${A[@]}\"", "vllm serve m --seed 1"),
        ("X='--seed 1 --max-num-seqs 2'\nvllm serve m $X", "vllm serve m --seed 1 --max-num-seqs 2"),
        ("K=1024\nvllm serve m --max-model-len $((K * 32 / 2))", "vllm serve m --max-model-len 16384"),
        ("R=a/b/c.gguf\nvllm serve ${R%/*} --served-model-name ${R##*/}", "vllm serve a/b --served-model-name c.gguf"),
        ("T=\nvllm serve m ${T:+--tensor-parallel-size $T} --seed 1", "vllm serve m --seed 1"),
        ("T=4\nvllm serve m ${T:+--tensor-parallel-size $T}", "vllm serve m --tensor-parallel-size 4"),
        ("if [ 3 -gt 2 ]; then S=1; else S=2; fi\nvllm serve m --seed $S", "vllm serve m --seed 1"),
        ("case prod in dev) S=1;; prod|stage) S=2;; *) S=3;; esac\nvllm serve m --seed $S", "vllm serve m --seed 2"),
        ("set -- vllm serve m\nset -- \"$@\" --seed 9\nexec \"$@\"", "vllm serve m --seed 9"),
        ("C='vllm serve m'\nC+=' --seed 3'\neval \"$C\"", "vllm serve m --seed 3"),
        ("bash -lc 'vllm serve m --seed 4'", "vllm serve m --seed 4"),
        ("export S=8; bash -c 'vllm serve m --seed $S'", "vllm serve m --seed 8"),
        ("nohup env A=1 timeout -k 5 100 numactl -N 0 vllm serve m > log 2>&1 &", "vllm serve m"),
        ("tmux new-session -d -s s \"vllm serve m --seed 1\"", "vllm serve m --seed 1"),
        ("ssh -p 22 u@h 'vllm serve m --seed 2'", "vllm serve m --seed 2"),
        ("ssh h bash -s <<'EOF'\nvllm serve m --seed 3\nEOF", "vllm serve m --seed 3"),
        ("srun -N 2 --gres=gpu:8 --container-image=i vllm serve m", "vllm serve m"),
        ("cat > /tmp/run.sh <<EOF\nvllm serve m --seed 7\nEOF\nchmod +x /tmp/run.sh\n/tmp/run.sh", "vllm serve m --seed 7"),
        ("N=$(echo a,b,c | tr ',' '\\n' | wc -l)\nvllm serve m -tp $N", "vllm serve m -tp 3"),
        ("f() { vllm serve \"$1\" --seed \"${2:-5}\"; }\nf m", "vllm serve m --seed 5"),
        ("mapfile -t F <<'E'\n--seed\n6\nE\nvllm serve m \"${F[@]}\"", "vllm serve m --seed 6"),
        ("while IFS='=' read -r k v; do declare \"$k=$v\"; done <<'E'\nS=11\nE\nvllm serve m --seed $S", "vllm serve m --seed 11"),
        ("uv run --with vllm==0.11.0 vllm serve m", "vllm serve m"),
        ("[ -n \"$DEBUG\" ] && E=--enforce-eager\nvllm serve m ${E:-}", "vllm serve m"),
        ("while true; do\n vllm serve m\n sleep 1\ndone", "vllm serve m"),
        ("if [ -z \"$MODEL\" ]; then echo usage; exit 1; fi\nvllm serve m", "vllm serve m"),
        ("sudo -u llm /opt/venv/bin/python -m vllm.entrypoints.openai.api_server --model m", "/opt/venv/bin/python -m vllm.entrypoints.openai.api_server --model m"),
        ("\"$VENV/bin/python3\" -m sglang.launch_server --model-path m", "?/bin/python3 -m sglang.launch_server --model-path m"),
        ("until vllm serve m --seed 1; do sleep 5; done", "vllm serve m --seed 1"),
        ("( cd /srv && vllm serve m )", "vllm serve m"),
        ("vllm serve m 2>&1 | tee log", "vllm serve m"),
    ],
)  # fmt: skip
def test_what_bash_would_run(script: str, expected: str) -> None:
    assert argvs(script) == [expected]


@pytest.mark.parametrize(
    "script",
    [
        "echo vllm serve m",
        "pkill -f 'vllm serve m'",
        "cat <<EOF\nusage: vllm serve m\nEOF",
        "vllm bench serve --model m",
        "python -m sglang.bench_serving --model m",
        "python -m sglang_router.launch_router --worker-urls http://a",
        "docker build -t vllm/vllm-openai:x .",
        "pip install vllm==0.11.0",
        "# vllm serve m",
        "alias v='vllm serve m'",
        "kill $(pgrep -f 'vllm serve')",
        "exit 0\nvllm serve m",
        "if false; then vllm serve m; fi",
        "docker pull vllm/vllm-openai:v0.11.0",
        "lmdeploy serve proxy --server-port 1",
        "trtllm-serve disaggregated -c x.yaml",
        "vllm --version",
    ],
)
def test_what_starts_nothing(script: str) -> None:
    assert argvs(script) == []


def test_what_only_a_run_can_tell_is_unknown_and_named() -> None:
    (launch,) = launches('vllm serve "$MODEL" --max-model-len=$LEN -tp $(nvidia-smi -L | wc -l)')
    model, length, parallel = launch.argv[2], launch.argv[3], launch.argv[5]
    assert (model.text, length.text, parallel.text) == (None, None, None)
    assert model.unknown is not None
    assert model.unknown.name == "$MODEL"
    assert length.raw == "--max-model-len=?"


def test_branches_that_cannot_be_decided_leave_what_they_share() -> None:
    (launch,) = launches("""\
        if nvidia-smi -L | grep -q H100; then L=1000; S=1; else L=2000; S=1; fi
        vllm serve m --max-model-len $L --seed $S
        """)
    assert launch.argv[4].text is None
    assert launch.argv[4].unknown is not None
    assert launch.argv[4].unknown.why == "ambiguous"
    assert launch.argv[6].text == "1"


def test_a_menu_whose_choice_nobody_makes_gives_each_server() -> None:
    found = argvs("""\
        case "$1" in
          chat) vllm serve a ;;
          code) vllm serve b ;;
          *) echo usage; exit 2 ;;
        esac
        """)
    assert found == ["vllm serve a", "vllm serve b"]


def test_loops_and_functions_tell_their_servers_apart() -> None:
    script = """\
        declare -A LEN=( [chat]=100 [code]=200 )
        for who in chat code; do
          CUDA_VISIBLE_DEVICES=0,1 vllm serve org/$who --max-model-len "${LEN[$who]}" &
        done
        """
    found = launches(script)
    assert [launch.qualifier for launch in found] == ["chat", "code"]
    assert [launch.argv[4].text for launch in found] == ["100", "200"]
    assert [launch.gpu_count.text if launch.gpu_count else None for launch in found] == ["2", "2"]
    assert {launch.line for launch in found} == {3}


def test_docker_run_keeps_its_own_options_apart() -> None:
    (launch,) = launches("""\
        docker run -d --rm --name chat --gpus '"device=0,3"' -e VLLM_USE_V1=1 --ipc=host -p 80:8000 \\
          vllm/vllm-openai:v0.11.0 --model org/m --max-model-len 4096
        """)
    assert launch.image is not None
    assert launch.image.text == "vllm/vllm-openai:v0.11.0"
    assert launch.gpu_count is not None
    assert launch.gpu_count.text == "2"
    assert launch.env["VLLM_USE_V1"].text == "1"
    assert [word.text for word in launch.argv] == ["--model", "org/m", "--max-model-len", "4096"]
    assert launch.line == 1


def test_a_config_written_by_a_heredoc_is_mounted_with_its_lines() -> None:
    (launch,) = launches("""\
        LEN=9000
        D=$(mktemp -d)
        cat > "$D/e.yaml" <<EOF
        max-model-len: ${LEN}
        EOF
        vllm serve m --config "$D/e.yaml"
        """)
    (entry,) = launch.mounted.values()
    assert entry == ("max-model-len: 9000\n", "x.sh", 4)


def test_a_pinned_package_is_the_version() -> None:
    (launch,) = launches("uv pip install 'sglang[all]==0.5.20'\npython -m sglang.launch_server --model-path m")
    assert launch.version is not None
    assert launch.version.text == "0.5.20"


def test_manifests_in_heredocs_are_left_to_their_format() -> None:
    """Without a tree there is nothing to hand them to; nothing breaks."""
    assert launches("kubectl apply -f - <<EOF\nkind: Pod\nEOF") == []


@pytest.mark.parametrize(
    "script",
    [
        "f() { f; }\nf",
        'a=$b; b=$a; eval "$a"',
        "while :; do x+=x; done",
        'bash -c "bash -c \'bash -c \\"bash -c x\\"\'"',
        "for i in {1..99999}; do for j in {1..99999}; do :; done; done",
        ": " + "$(" * 400,
        "${" * 300,
        "((" * 200 + "1",
        "x=(" * 100,
        "case $x in " * 50,
        "[[ a =~ (a+)+$ ]] && echo",
    ],
)
def test_nothing_hangs_or_breaks(script: str) -> None:
    launches(script + "\nvllm serve m\n")


_PIECES = st.sampled_from(
    ["vllm serve m", "$X", "${X:-a}", "$(echo b)", "\"", "'", "\\\n", "\n", ";", "|", "&&", "||", "(", ")", "{ ", " }", "if ", "then ", "fi",
     "for x in a b; do ", "done", "case a in a) ", ";; esac", "<<E\n", "\nE\n", "$((1+", "))", "[ -z ", " ]", "A+=(", "é", "\x00", "--seed=1 ", "#"]
)  # fmt: skip


@example("[ -z ")
@example("[[ -n $X\nvllm serve m")
@given(st.lists(_PIECES, max_size=25).map("".join))
def test_any_text_is_walked(script: str) -> None:
    for launch in launches(script):
        assert all(word.text is None or OPEN not in word.text for word in launch.argv)


@given(st.text(alphabet="0123456789+-*/%()<>=!&|?: xab,", max_size=40))
def test_any_arithmetic_is_read(expression: str) -> None:
    value = evaluate(expression, lambda name: "3", lambda name, value: None)
    assert value is None or isinstance(value, int)


@given(st.integers(-(10**6), 10**6), st.integers(1, 10**4), st.sampled_from(["+", "-", "*", "<", "==", "&"]))
def test_arithmetic_agrees_with_python(left: int, right: int, operator: str) -> None:
    expected = {
        "+": left + right,
        "-": left - right,
        "*": left * right,
        "<": left < right,
        "==": left == right,
        "&": left & right,
    }
    assert evaluate(f"({left}) {operator} {right}", lambda name: None, lambda name, value: None) == int(
        expected[operator]
    )


@pytest.mark.parametrize(
    ("script", "context"),
    [
        (
            "python3 -c 'import asyncio\nfrom vllm.entrypoints.openai.api_server import run_server\nasyncio.run(run_server())' "
            "--model org/m --max-model-len 8000",
            8000,
        ),
        ("python3 - <<'PY'\nfrom vllm import LLM\nllm = LLM(model='org/m', max_model_len=8000)\nPY\n", 8000),
        ("python3 -c \"\nimport sglang as sgl\nsgl.Engine(model_path='org/m', context_length=8000)\n\"\n", 8000),
        ("python -m sglang.launch_server --model-path org/m --context-{length,length} 8000\n", 8000),
        ("printf '%s' 8000 | xargs vllm serve org/m --max-model-len\n", None),
    ],
)
def test_python_inside_a_command_braces_and_what_xargs_adds(script: str, context: int | None) -> None:
    deployments = discover(MemoryTree({"run.sh": script})).deployments
    assert [(d.model.value, d.context_length.value) for d in deployments] == [("org/m", context)]


def test_python_inside_a_command_that_starts_nothing() -> None:
    script = "python3 - <<'PY'\nimport vllm\nprint(vllm.__version__)\nPY\npython -c 'import sglang'\n"
    assert not discover(MemoryTree({"run.sh": script})).deployments


WAIT = """\
for i in $(seq 1 120); do
  if curl -sf "http://localhost:$PORT/health" >/dev/null 2>&1; then echo "ready after $i"; break; fi
  echo "not yet ($i of $((2 * 60)))"; sleep 5
done
"""


def test_a_loop_that_only_waits_is_followed_once() -> None:
    """A hundred such loops used up all the steps of a script, and the server behind them was not found."""
    body = WAIT * 100 + "vllm serve org/m --max-model-len 8192\n"
    (launch,) = launches(body)
    assert (launch.argv[2].text, launch.line) == ("org/m", 401)


@pytest.mark.parametrize(
    "body",
    [
        'n=$((n + 1)); [ "$n" = 3 ] && break',
        'if [ "$i" = 3 ]; then vllm serve org/m --max-model-len 2048; exit; fi; sleep 1',
        "echo $((n++)); sleep 1",
        "echo ${n:=9}",
        "echo $i > n.txt",
        "step",
    ],
)
def test_a_loop_that_leaves_something_behind_is_followed_to_its_end(body: str) -> None:
    from tree_sitter import Node

    from checklistbot.discovery.sh import machine, waiting

    def loop(node: Node) -> Node:
        return next((each for each in node.children if each.type == "do_group"), None) or loop(node.children[0])

    assert waiting.idle(loop(machine.parse(WAIT.encode())))
    assert not waiting.idle(loop(machine.parse(f"for i in 1 2 3; do {body}; done\n".encode())))
