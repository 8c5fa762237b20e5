#!/usr/bin/env bash
# Formatting, types and every test.  Arguments go to pytest.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source "$here/scripts/environment.sh"
prepare_environment "[dev]"
cd "$here"
.venv/bin/ruff check .
.venv/bin/ruff format --check .
.venv/bin/mypy
unset PYTHONDONTWRITEBYTECODE # or each of the many processes compiles the package again
exec .venv/bin/python -m pytest "$@"
