"""`python -m ps_train apply` makes the next checkpoint or export of a base and its deltas: docs/DELTAS.md."""

from __future__ import annotations

import sys

from ps_train.base.console import Console
from ps_train.commands.deltas.command import apply

__all__ = ["apply"]

if __name__ == "__main__":
    sys.exit(apply(sys.argv[1:], Console(sys.stdout, sys.stderr)))
