"""Sizes of bursts and of calls of `session.run`, chosen from the measured time of steps.

    bursts = BurstScheduler.of(job, save_steps=100)
    bursts.next_burst(global_step=0), bursts.next_call_length(left=12)  # Burst(1, True), 1: no step is timed yet
    bursts.record(steps=1, secs=0.004)

A burst lasts about BURST_SECS, and so does its longest call: the loop checks for events between calls.  TensorFlow
prepares the graph of each new call length, which takes as long as many steps.  So the first steps are made one by one,
and few lengths are used.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter, deque
from typing import NamedTuple

from ps_train.config.job import Job
from ps_train.config.training_fields import AUTO

BURST_SECS = 0.2
_HOOKS_SECS = 1.0
"""Seconds between two steps with the hooks, where every burst need not have them."""
_FIRST = 3
"""Number of steps that are timed one by one before calls make several steps."""
_MIN_STEPS_FOR_LONG_CALLS = 0.75
"""Maximum duration of a call of a new length, as a fraction of BURST_SECS."""
_WISHES = 5
"""How often calls must leave a length over before its graph is prepared; the end of a job does so once."""
_GROWTH = 32
"""Maximum ratio of the lengths of consecutive bursts: measured times may be wrong."""


class Burst(NamedTuple):
    """The steps of a burst.

    Attributes:
      steps: their number.
      with_hooks: True if the last one runs alone, with the hooks.
    """

    steps: int
    with_hooks: bool


class BurstScheduler:
    """Choice of the number of steps of bursts and calls.

    Args:
      longest_call: maximum number of steps of a call.
      fixed: if True, every call has this length, whatever its duration.
      save_steps: if not 0, a burst ends at each multiple of it, because a checkpoint is due.
      summary_steps: the same, because the model's summaries are due.
      hooks_secs: seconds after which a burst ends with the hooks again; 0: every burst does.
    """

    def __init__(
        self,
        longest_call: int = 1,
        fixed: bool = False,
        save_steps: int = 0,
        summary_steps: int = 0,
        hooks_secs: float = 0.0,
    ) -> None:
        self._lengths, self._fixed = call_lengths(longest_call, fixed), fixed
        self._ends = [every for every in (save_steps, summary_steps) if every]
        self._hooks_secs = hooks_secs
        self._steps = 1
        self._secs: deque[float] = deque(maxlen=5)
        self._prepared: set[int] = set()
        self._left_over: Counter[int] = Counter()
        self._prepares_graphs = True  # in the first step

    @classmethod
    def of(
        cls,
        job: Job,
        save_steps: int = 0,
        summary_steps: int = 0,
        every_step_alone: bool = False,
        every_burst_with_hooks: bool = True,
    ) -> BurstScheduler:
        """Returns the scheduler for the flags of a job.

        Args:
          job: the job.
          save_steps: as for the class, from the replica's duties.
          summary_steps: as for the class, from the replica's duties.
          every_step_alone: if True, a burst has one step: there are hooks that must run at every step.
          every_burst_with_hooks: if False, some bursts have no hooks, because nothing needs them so often.
        """
        if every_step_alone:
            return cls(save_steps=1)
        hooks_secs = 0.0 if every_burst_with_hooks else min(_HOOKS_SECS, job.log_secs / 2)
        return cls(job.longest_call, job.steps_per_run != AUTO, save_steps, summary_steps, hooks_secs)

    def next_burst(self, global_step: int = 0, secs_without_hooks: float = math.inf) -> Burst:
        """Returns the size of the next burst: some calls, and the single step with the hooks, if any.

        Args:
          global_step: the latest known global step.
          secs_without_hooks: seconds since the hooks ran.
        """
        with_hooks = secs_without_hooks >= self._hooks_secs
        steps = self._steps_of_burst(int(with_hooks))
        due = min((every - global_step % every for every in self._ends), default=steps + 1)
        return Burst(min(steps, due), with_hooks or steps == 1 or due <= steps)

    def _steps_of_burst(self, alone: int) -> int:
        """Returns the number of steps that make whole calls, with so many single steps."""
        if self._fixed:
            steps = max(self._steps, self._lengths[0] + alone) if self._lengths[0] > 1 else self._steps
        else:
            steps = self._steps if len(self._secs) >= _FIRST else 1
        longest = self._longest(steps - alone)
        return steps if longest == 1 else (steps - alone) // longest * longest + alone

    def next_call_length(self, left: int) -> int:
        """Returns the number of steps of the next call, which the caller makes now.

        0 is a single step that longer calls have left over.  The caller makes it with the hooks: that graph is always
        prepared.

        Args:
          left: steps left in the burst, without one that runs with the hooks; at least 1.
        """
        length = self._longest(left)
        if length < self._longest(math.inf):
            self._left_over[length] += 1
            if self._left_over[length] < _WISHES:
                length = max((known for known in self._prepared if known <= left), default=0)
            length = 0 if length == 1 else length
        if length and length not in self._prepared:
            self._prepared.add(length)
            self._prepares_graphs = True
        return length

    def record(self, steps: int, secs: float) -> None:
        """Records the duration of a burst; ignores a burst in which TensorFlow prepared a graph.

        Args:
          steps: steps of the burst.
          secs: duration of the burst in seconds.
        """
        if self._prepares_graphs:
            self._prepares_graphs = False
            return
        self._secs.append(secs / steps)
        self._steps = max(1, min(int(steps * BURST_SECS / max(secs, 1e-6)), _GROWTH * steps))

    def _longest(self, left: float) -> int:
        fitting = [length for length in self._lengths if length <= left and (self._fixed or self._fits(length))]
        return max(fitting, default=1)

    def _fits(self, length: int) -> bool:
        """Returns True if a call of this length is short enough, judged by the fastest of the last bursts.

        A new length is judged by their median, with a margin: otherwise it might soon be too long again.
        """
        if not self._secs:
            return False
        if length in self._prepared:
            return length * min(self._secs) <= BURST_SECS
        return length * statistics.median(self._secs) <= _MIN_STEPS_FOR_LONG_CALLS * BURST_SECS


def call_lengths(longest: int, fixed: bool) -> list[int]:
    """Returns the allowed lengths of calls, longest first: few, because each needs its own graph."""
    if fixed:
        return sorted({longest, 1}, reverse=True)
    return [longest >> times for times in range(longest.bit_length())]
