#!/usr/bin/env bash
# The steps of both Actions: `install` makes an environment of its own below RUNNER_TEMP, `review` or `publish` runs in it.
# Nothing is taken from the checkout under review: not its Python, modules, configuration or PATH entries.
set -euo pipefail

fail() {
  printf '::error title=checklistbot::%s\n' "$1"
  exit 2
}

# PATH without relative folders and without those of the workspace: a pull request could put a `python3` or `git` there.
trusted_path() {
  local part kept='' IFS=:
  for part in $PATH; do
    case $part in
      "$GITHUB_WORKSPACE" | "$GITHUB_WORKSPACE"/*) ;;
      /*) kept+=${kept:+:}$part ;;
    esac
  done
  printf '%s' "$kept"
}

install_all() {
  local index=${CHECKLISTBOT_INPUT_INDEX_URL:-} top venv site
  # Installing needs no key and no token.
  unset OPENAI_API_KEY ANTHROPIC_API_KEY CHECKLISTBOT_LLM_KEY GITHUB_TOKEN PYTHON
  # The runner's own pip and uv settings are left out (--no-config); a mirror is named by the input, in the environment
  # and not in argv, because its address may hold a password.
  export PIP_CONFIG_FILE=/dev/null PIP_NO_CACHE_DIR=1 PIP_NO_INPUT=1
  if [ -n "$index" ]; then
    [[ $index =~ ^https?://[^[:space:]]+$ ]] || fail 'input index-url: expected https://HOST/PATH'
    export PIP_INDEX_URL=$index UV_DEFAULT_INDEX=$index
  fi
  top=$(cd -- "$CHECKLISTBOT_ACTION_PATH/../../.." && pwd -P)
  venv=$(mktemp -d "$RUNNER_TEMP/checklistbot.XXXXXXXX")/venv
  sh "$top/scripts/make-venv.sh" "$venv" \
    || fail 'no usable Python >= 3.11 and package index; add actions/setup-python before this step, or give index-url'
  "$venv/bin/uv" --quiet --no-config pip install --no-cache --python "$venv/bin/python" \
    --require-hashes --only-binary :all: --no-deps --requirement "$top/requirements/run.txt"
  # The program itself is copied from the Action's own checkout: no build, no sdist, no package of that name from an index.
  site=$("$venv/bin/python" -I -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
  cp -R "$top/checklistbot" "$site/"
  cp -R "$top/prompts" "$top/templates" "$site/checklistbot/"
  printf 'python=%s\n' "$venv/bin/python" >>"$GITHUB_OUTPUT"
}

PATH=$(trusted_path)
cd "$RUNNER_TEMP"
case ${1:-} in
  install) install_all ;;
  review) exec "$CHECKLISTBOT_PYTHON" -I -X utf8 -m checklistbot action ;;
  publish) exec "$CHECKLISTBOT_PYTHON" -I -X utf8 -m checklistbot action_publish ;;
  *) fail 'action.sh: expected install, review or publish' ;;
esac
