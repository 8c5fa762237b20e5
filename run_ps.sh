#!/usr/bin/env bash
# One ps of a cluster:  ./run_ps.sh --flagfile=flags/local_async.flags --task_index=0
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source "$here/scripts/environment.sh"
prepare_if_missing
exec "$(installed_python)" -m ps_train --job_name=ps "$@"
