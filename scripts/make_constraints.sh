#!/usr/bin/env bash
# Prints the versions that a new virtual environment gets, for constraints.txt:  scripts/make_constraints.sh > constraints.txt
# PYTHON chooses the interpreter.  Run the tests with these versions before you commit the file.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python=${PYTHON:-python3}
"$python" -m venv "$work/venv"
cp -r "$here/setup.py" "$here/pyproject.toml" "$here/README.md" "$here/LICENSE" "$here/ps_train" "$work"
"$work/venv/bin/python" -m pip install --quiet --disable-pip-version-check "$work[dev]" >&2
versions=$("$work/venv/bin/python" -m pip freeze --disable-pip-version-check | grep -v '^ps_train ')
echo "# The versions with which the tests of this release pass: pip install -c constraints.txt \".[dev]\""
echo "# Made by scripts/make_constraints.sh with $("$python" --version) on $(uname -sm)."
echo "$versions"
