#!/bin/sh
# Makes the virtual environment DIR with the newest Python >= 3.11 that can, and puts uv into it by hash.
# usage: scripts/make-venv.sh DIR   (PYTHON=… names the interpreter instead of searching for it)
set -eu

venv=$1
top=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)

fits() { "$1" -I -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; }
has_venv() { "$1" -I -c 'import ensurepip, venv' >/dev/null 2>&1; }

# Every interpreter on PATH, newest first. All folders are looked at, because a version manager's shim may be first and not work.
candidates() {
  for name in python3.14 python3.13 python3.12 python3.11 python3; do
    (
      IFS=:
      for folder in $PATH; do
        [ ! -x "$folder/$name" ] || printf '%s\n' "$folder/$name"
      done
    )
  done
}

# Prints the interpreter to use; without one, says in one line what to install.
choose() {
  without_venv=''
  while IFS= read -r python; do
    fits "$python" || continue
    if has_venv "$python"; then
      printf '%s\n' "$python"
      return
    fi
    [ -n "$without_venv" ] || without_venv=$python
  done
  if [ -n "$without_venv" ]; then
    version=$("$without_venv" -I -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    echo "checklistbot: $without_venv has no venv module; on Debian and Ubuntu: apt-get install python$version-venv" >&2
  else
    echo "checklistbot: no Python >= 3.11 found${PYTHON:+ at $PYTHON}; on Debian and Ubuntu: apt-get install python3 python3-venv" >&2
  fi
  return 2
}

# An environment that works is kept: only the installer in it is renewed.
if ! fits "$venv/bin/python"; then
  if [ -n "${PYTHON:-}" ]; then chosen=$(command -v "$PYTHON" | choose); else chosen=$(candidates | choose); fi
  "$chosen" -I -m venv --clear "$venv"
fi
"$venv/bin/python" -I -m pip install --quiet --quiet --disable-pip-version-check --require-hashes --only-binary :all: --no-deps \
  -r "$top/requirements/uv.txt"
