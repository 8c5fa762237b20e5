"""Seeds of the kill tests: the suite has one case of each; `python -m tests.trials kills --seeds=…` asks for others."""

from __future__ import annotations

import os

VARIABLE = "PS_TRAIN_KILL_SEEDS"
"""Environment variable with the seeds of a run of `python -m tests.trials kills`, separated by commas."""


def asked_seeds(usual: int) -> list[int]:
    """Returns the seeds of the environment but the usual one."""
    return sorted({int(text) for text in os.environ.get(VARIABLE, "").split(",") if text} - {usual})
