"""`python -m ps_train tune`; `ps_train.tune` is the same as a function: docs/TUNE.md."""

from __future__ import annotations

import sys

from ps_train.base.console import Console
from ps_train.commands.tuning.command import tune

if __name__ == "__main__":
    sys.exit(tune(sys.argv[1:], Console(sys.stdout, sys.stderr)))
