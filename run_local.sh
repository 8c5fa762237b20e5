#!/usr/bin/env bash
# A whole parameter-server cluster on this machine, trained to the end.  Arguments go to python -m ps_train.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source "$here/scripts/environment.sh"
prepare_environment ""
exec "$here/.venv/bin/python" -m ps_train "$@"
