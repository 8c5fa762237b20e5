"""`python -m ps_train run` runs a TensorFlow 1 script, as one task or as all tasks of a cluster: docs/MIGRATING.md."""

from __future__ import annotations

import sys

from ps_train.compat.scripts.command import main

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
