#!/usr/bin/env bash
# Builds sdist and wheel, checks their metadata, installs the wheel by name from a local folder into a fresh
# environment, and runs it there: what a user of the release gets. With --quick, the environment borrows the
# dependencies of .venv, and only small commands run.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(cd "$(mktemp -d)" && pwd -P); trap 'rm -rf "$work"' EXIT  # -P: on macOS, /var is a link
.venv/bin/python -m build --outdir "$work/dist" . >"$work/build.log" 2>&1 || { cat "$work/build.log"; exit 1; }
.venv/bin/twine check --strict "$work"/dist/*
"${PYTHON:-python3}" -m venv "$work/env"
install=("$work/env/bin/python" -m pip install --quiet --disable-pip-version-check --find-links "$work/dist")
if [ "${1:-}" = --quick ]; then
  .venv/bin/python -c "import sysconfig; print(sysconfig.get_path('purelib'))" \
    >"$("$work/env/bin/python" -c "import sysconfig; print(sysconfig.get_path('purelib'))")/borrowed.pth"
  "${install[@]}" --no-index --no-deps --ignore-installed spice-cluster
else
  "${install[@]}" --constraint constraints.txt spice-cluster
fi
cd "$work"
env/bin/python -c "import spice, pathlib; assert pathlib.Path(spice.__file__).is_relative_to('$work'), spice.__file__"
# What a package index shows has no link to a file of the repository.
env/bin/python -c "import re, importlib.metadata as m; page = m.metadata('spice-cluster').get_payload()
links = re.findall(r'\]\((?!https?:)[^)]*\)', page); assert page.startswith('# spice') and not links, links"
env/bin/spice --version
if [ "${1:-}" = --quick ]; then env/bin/spice doctor >/dev/null; else env/bin/spice demo; fi
echo "release: sdist and wheel are complete"
