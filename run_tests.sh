#!/usr/bin/env bash
# Formatting, types and every test.  Arguments go to pytest.
# --python=VERSION and --tensorflow=VERSION, given first, run the tests alone with these versions, in an environment of
# their own:  ./run_tests.sh --python=3.10 --tensorflow=2.16.2
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source "$here/scripts/environment.sh"
name="" requirements=()
while [[ ${1-} == --python=* || ${1-} == --tensorflow=* ]]; do
  case $1 in
    --python=*) PYTHON=python${1#*=} name+=-python${1#*=} ;;
    --tensorflow=*) requirements+=("tensorflow==${1#*=}") name+=-tensorflow${1#*=} ;;
  esac
  shift
done
venv=$here/.venv$name
prepare_environment "[dev]" "${requirements[@]}"
cd "$here"
if [ -z "$name" ]; then
  "$venv/bin/ruff" check .
  "$venv/bin/ruff" format --check .
  "$venv/bin/mypy"
fi
unset PYTHONDONTWRITEBYTECODE # or each of the many processes compiles the package again
exec "$venv/bin/python" -m pytest "$@"
