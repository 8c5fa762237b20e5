"""Which checkpoints of a run are kept: the newest, and beside them those that others still need.

    kept = KeptCheckpoints(2)
    kept.of([250, 240, 230, 200], "/models/run1")       # [250, 240, 200] if a cut by event time is at step 200

What a process needs for a while, to upload or to score it, it keeps by hard links of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

from ps_train.engine.run_directory.run_files import NEEDED_STEPS


class KeptCheckpoints:
    """The rule.

    Args:
      count: number of the newest checkpoints, and of those that each of the others needs.
    """

    def __init__(self, count: int) -> None:
        self._count = count

    def needed(self, directory: str) -> set[int]:
        """Returns the steps that others need in a model directory, which may have been removed already."""
        return {step for needed_steps in NEEDED_STEPS for step in needed_steps(directory)}

    def of(self, steps: Sequence[int], directory: str) -> list[int]:
        """Returns the steps whose checkpoints are kept.

        Args:
          steps: steps of checkpoints, newest first.
          directory: the model directory.
        """
        groups = [set(needed_steps(directory)) for needed_steps in NEEDED_STEPS]
        groups.append(set(steps).difference(*groups))
        kept = {step for group in groups for step in sorted(group & set(steps))[-self._count :]}
        return [step for step in steps if step in kept]
