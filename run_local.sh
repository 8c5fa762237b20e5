#!/usr/bin/env bash
# A whole parameter-server cluster on this machine, trained to the end.  Arguments go to python -m ps_train.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source "$here/scripts/environment.sh"
prepare_environment ""
if [ "${VIRTUAL_ENV:-}" != "$here/.venv" ]; then # the last line of the job says so, because exec has no end of its own
  venv=.venv
  [ "$PWD" = "$here" ] || venv=$(printf %q "$here/.venv")
  export PS_TRAIN_ACTIVATE="source $venv/bin/activate"
fi
exec "$here/.venv/bin/python" -m ps_train "$@"
