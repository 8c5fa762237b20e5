"""Which checkpoints of a run are kept: the newest, those that others still need, and one for each span of hours.

    kept = KeptCheckpoints(2)
    kept.of([250, 240, 230, 200], "/models/run1")       # [250, 240, 200] if a cut by event time is at step 200
    KeptCheckpoints(2, every_hours=1).after_save([250, 240, 230], "/models/run1")

What a process needs for a while, to upload or to score it, it keeps by hard links of its own.
"""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Callable, Sequence

from ps_train.engine.run_directory.lasting_checkpoints import Lasting, read_lasting, write_lasting
from ps_train.engine.run_directory.run_checkpoints import path_of
from ps_train.engine.run_directory.run_files import NEEDED_STEPS

_HOUR_SECS = 3600


class KeptCheckpoints:
    """The rule.

    Args:
      count: number of the newest checkpoints, and of those that each of the others needs.
      every_hours: hours between two checkpoints that stay for good, as in `tf.compat.v1.train.Saver`; 0: none do.
      clock: returns seconds since 1970.
    """

    def __init__(self, count: int, every_hours: float = 0.0, clock: Callable[[], float] = time.time) -> None:
        self._count, self._every_secs, self._began = count, every_hours * _HOUR_SECS, clock()
        self._has_saved = False

    def needed(self, directory: str) -> set[int]:
        """Returns the steps that others need in a model directory, which may have been removed already."""
        return {step for needed_steps in NEEDED_STEPS for step in needed_steps(directory)}.union(
            read_lasting(directory).steps
        )

    def of(self, steps: Sequence[int], directory: str) -> list[int]:
        """Returns the steps whose checkpoints are kept.

        Args:
          steps: steps of checkpoints, newest first.
          directory: the model directory.
        """
        lasting = set(read_lasting(directory).steps)
        groups = [set(needed_steps(directory)) for needed_steps in NEEDED_STEPS]
        groups.append(set(steps).difference(lasting, *groups))
        kept = {step for group in groups for step in sorted(group & set(steps))[-self._count :]} | lasting
        return [step for step in steps if step in kept]

    def after_save(self, steps: Sequence[int], directory: str) -> list[int]:
        """Returns the steps that are kept; one that would be removed stays for good if its hours have passed.

        The time from the last checkpoint of an earlier chief to the start of this one does not count.

        Args:
          steps: as in `of`; the first one was written now.
          directory: the model directory.

        Raises:
          OSError: the file of those that stay cannot be written.
        """
        kept = self.of(steps, directory)
        if not self._every_secs:
            return kept
        before = read_lasting(directory)
        times = {step: os.path.getmtime(f"{path_of(directory, step)}.index") for step in steps}
        next_time = before.next_time or self._began + self._every_secs
        if before.next_time and not self._has_saved:
            next_time += max(0.0, self._began - max((times[step] for step in steps[1:]), default=self._began))
        self._has_saved, lasting = True, dataclasses.replace(before, next_time=next_time)
        for step in sorted(set(steps).difference(kept)):
            if times[step] > lasting.next_time:
                lasting = Lasting(lasting.next_time + self._every_secs, (*lasting.steps, step))
        if lasting != before:
            write_lasting(directory, lasting)
        return self.of(steps, directory)
