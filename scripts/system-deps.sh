#!/bin/sh
# Installs the Debian packages that tests and linters use. Does nothing, fast, when all are there.
set -eu

packages='shellcheck shfmt jq curl chromium fonts-noto-cjk fonts-noto-color-emoji'

if ! command -v dpkg-query >/dev/null 2>&1; then
  echo "make system-deps: this is no Debian or Ubuntu; install by hand: $packages" >&2
  exit 2
fi

# Ubuntu has no package of that name; its CI images bring Chrome.
has_browser() { command -v chromium || command -v chromium-browser || command -v google-chrome; }

missing=''
for package in $packages; do
  if [ "$package" = chromium ] && has_browser >/dev/null; then continue; fi
  state=$(dpkg-query --show --showformat='${db:Status-Status}' "$package" 2>/dev/null) || state=''
  [ "$state" = installed ] || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

as_root=''
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null 2>&1; then
    echo "make system-deps: neither root nor sudo here; as root: apt-get install$missing" >&2
    exit 2
  fi
  as_root='sudo'
fi
# shellcheck disable=SC2086  # words on purpose: a list of packages, and sudo or nothing
{
  $as_root apt-get update --quiet=2
  $as_root env DEBIAN_FRONTEND=noninteractive apt-get install --quiet=2 --yes --no-install-recommends $missing >/dev/null
}
