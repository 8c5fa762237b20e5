"""`python -m ps_train predict`; `ps_train.predict` is the function for arrays."""

from __future__ import annotations

import sys

from ps_train.base.console import Console
from ps_train.commands.scoring.predict import predict

if __name__ == "__main__":  # a process of --num_workers imports this module too
    sys.exit(predict(sys.argv[1:], Console(sys.stdout, sys.stderr)))
