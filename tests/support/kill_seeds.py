"""Seeds of the kill tests: those of the suite, and any others that `python -m tests.kills --seeds=…` asks for."""

from __future__ import annotations

import os

VARIABLE = "PS_TRAIN_KILL_SEEDS"
"""Environment variable with the seeds of a run of `python -m tests.kills`, separated by commas."""


def seeds_from_2(last: int) -> list[int]:
    """Returns the seeds 2 to `last`, and those of the environment beyond."""
    asked = {int(text) for text in os.environ.get(VARIABLE, "").split(",") if text}
    return [*range(2, last + 1), *sorted(seed for seed in asked if not 1 <= seed <= last)]
