"""`python -m ps_train delta` writes what has changed between two checkpoints or exports: docs/DELTAS.md."""

from __future__ import annotations

import sys

from ps_train.base.console import Console
from ps_train.commands.deltas.command import delta

__all__ = ["delta"]

if __name__ == "__main__":
    sys.exit(delta(sys.argv[1:], Console(sys.stdout, sys.stderr)))
