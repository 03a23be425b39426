#!/usr/bin/env bash
# Installs Debian's Chromium, in which the tests of the report look at the page. Does nothing where a browser is there.
set -euo pipefail
command -v chromium chromium-browser google-chrome >/dev/null && exit 0
if ! command -v apt-get >/dev/null; then
  echo "no apt-get here: install Chromium by hand, or let the browser tests be skipped" >&2
  exit 0
fi
as_root=()
[ "$(id -u)" = 0 ] || as_root=(sudo)
"${as_root[@]}" apt-get update -qq
DEBIAN_FRONTEND=noninteractive "${as_root[@]}" apt-get install -y -qq --no-install-recommends chromium >/dev/null
chromium --version
