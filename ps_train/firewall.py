"""`python -m ps_train firewall` closes a job's ports to other hosts: docs/SECURITY.md."""

from __future__ import annotations

import sys

from ps_train.base.console import Console
from ps_train.commands.firewall.command import main

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], Console(sys.stdout, sys.stderr)))
