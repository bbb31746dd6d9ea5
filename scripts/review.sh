#!/usr/bin/env bash
# The main job on the example: makes its repository, reviews its pull request, and wants it blocked.
# usage: scripts/review.sh CHECKLISTBOT       (the command to run; writes out/review)
set -euo pipefail

checklistbot=$1
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

bash "$top/examples/glm-5.3-disaggregated/make-repository.sh" "$work/glm-5.3-disaggregated"
code=0
"$checklistbot" review "$work/glm-5.3-disaggregated" --base base --head head --provider builtin \
  --output "$top/out/review" || code=$?

if [ "$code" -ne 1 ]; then
  printf 'make review: exit code %s instead of 1: the example must be blocked\n' "$code" >&2
  exit 1
fi
printf '\nblocked, as it should (exit code 1). The comment, report, checklist and CI script are in out/review/\n'
