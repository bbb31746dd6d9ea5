#!/usr/bin/env bash
# Makes a throw-away Git repository of this example: branch "base" holds the service as it runs, branch "head" the
# pull request that raises the context length, branch "head-memory-fraction" one that also lowers prefill's memory fraction.
# Usage: make-repository.sh DIR          (DIR must not exist, or be empty)
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
target=${1:?usage: make-repository.sh DIR}
mkdir -p "$target"
if [ -n "$(ls -A "$target")" ]; then
  printf 'make-repository.sh: %s is not empty; name a new folder\n' "$target" >&2
  exit 2
fi

# The caller's Git settings (signing, hooks, templates) must not change the example; a fixed date gives fixed commit ids.
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null
export GIT_AUTHOR_NAME='SRE team' GIT_AUTHOR_EMAIL='sre@example.invalid'
export GIT_COMMITTER_NAME="$GIT_AUTHOR_NAME" GIT_COMMITTER_EMAIL="$GIT_AUTHOR_EMAIL"

commit() { # date, message: everything in the work tree
  git -C "$target" add --all
  GIT_AUTHOR_DATE=$1 GIT_COMMITTER_DATE=$1 git -C "$target" commit --quiet --message "$2"
}

git init --quiet --template= --initial-branch=base "$target"
cp -R "$here/base/." "$target"
commit '2026-09-07T07:00:00Z' 'Serve GLM-5.3 with disaggregated prefill and decode'

git -C "$target" checkout --quiet -b head
cp -R "$here/head/." "$target"
commit '2026-09-08T09:00:00Z' 'Raise the context length to 1M tokens'

git -C "$target" checkout --quiet -b head-memory-fraction base
cp -R "$here/head-memory-fraction/." "$target"
commit '2026-09-08T10:00:00Z' 'Raise the context length, leave prefill more room for activations'

git -C "$target" checkout --quiet head
