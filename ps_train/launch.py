"""`python -m ps_train launch` starts all tasks of a job on several hosts: docs/LAUNCHING.md."""

from __future__ import annotations

import sys

from ps_train.base.console import Console
from ps_train.commands.launch.command import main

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], Console(sys.stdout, sys.stderr)))
