"""`python -m ps_train compare` compares two exported models on the same rows: docs/SERVING.md."""

from __future__ import annotations

import sys

from ps_train.base.console import Console
from ps_train.commands.scoring.compare import compare

__all__ = ["compare"]

if __name__ == "__main__":
    sys.exit(compare(sys.argv[1:], Console(sys.stdout, sys.stderr)))
