"""`python -m ps_train doctor` checks this host, and the way to the others, before a job is started: docs/DOCTOR.md."""

from __future__ import annotations

from ps_train.commands.doctor.command import main, run

__all__ = ["main"]

if __name__ == "__main__":
    run()
