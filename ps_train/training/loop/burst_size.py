"""Sizes of bursts and of calls of `session.run`, chosen from the measured time of steps.

    bursts = BurstScheduler.of(job, ends=[100])
    bursts.next_burst(global_step=0), bursts.next_call_length(left=12)  # Burst(1, True), 1: no step is timed yet
    bursts.record(steps=1, secs=0.004)

A burst lasts about BURST_SECS, and so does its longest call: the loop checks for events between calls.  TensorFlow
prepares a graph for each length of calls, which takes as long as many steps, and the steps of a call are copies
(`engine/step/unroll.py`).  The training waits for it.  So steps are made one by one, with the hooks, until the replica
has made so many that sharing calls would have saved as much time as the preparation takes: it then costs at most twice
what the best choice would have cost, whenever the job ends.  From then on calls have one length: the longest one that
fits.  Where few fit, they gain little by sharing a call, and all steps are made one by one.
"""

from __future__ import annotations

import math
import statistics
from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple

from ps_train.config.job import Job

BURST_SECS = 0.2
_HOOKS_SECS = 1.0
"""Seconds between two steps with the hooks, where every burst need not have them."""
_FIRST = 3
"""Number of steps that are timed one by one before calls make several steps."""
MARGIN = 0.75
"""Maximum duration of a call of a length that is new, as a fraction of BURST_SECS."""
_SHORTEST_CALL = 4
"""Minimum number of steps that must fit into a call, for one to be prepared beside the step with the hooks."""
_CALLS_TO_PAY = 20
"""Minimum number of calls of a length that must still be made, for its preparation to be worth its time."""
_NODES_TO_PAY = 8
"""Number of nodes that take as long to prepare as one step gains by sharing a call, or by a call without the hooks.

It is about 1.5 ms.  A number of nodes, and not a measured time: both times depend on the machine and its load in the
same way, and replicas in lockstep, which wait for each other's preparation, all prepare at the same step.
"""
NODES_AT_ONCE = 4_500
"""Maximum number of nodes of a call that is prepared as soon as steps are timed: it takes less than a second."""
MOST_NODES = 48_000
"""Maximum number of nodes of a call of several steps, which TensorFlow prepares in about ten seconds."""
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
      ends: a burst ends at each multiple of these numbers of steps, because a checkpoint or a summary is due; 0 for
        none.
      hooks_secs: seconds after which a burst ends with the hooks again; 0: every burst does.
      last_step: the global step at which the job ends.
      nodes: number of nodes that TensorFlow prepares for each further step of a call.
      replicas: number of replicas that share the steps.
      is_patient: if False, a call that is worth its preparation is prepared as soon as steps are timed.
    """

    def __init__(
        self,
        longest_call: int = 1,
        fixed: bool = False,
        ends: Sequence[int] = (),
        hooks_secs: float = 0.0,
        last_step: float = math.inf,
        nodes: int = 0,
        replicas: int = 1,
        is_patient: bool = True,
    ) -> None:
        self._ends = [every for every in ends if every]
        self._fixed = fixed and longest_call > 1
        every = min(self._ends, default=math.inf)
        self._lengths = [longest_call] if self._fixed else call_lengths(longest_call, every, nodes)
        self._hooks_secs, self._last_step, self._nodes, self._replicas = hooks_secs, last_step, nodes, replicas
        self._steps, self._length = 1, self._lengths[0] if self._fixed else 0
        self._secs: deque[float] = deque(maxlen=5)
        self._prepared: set[int] = set()
        self._made, self._is_patient = 0, is_patient
        self._prepares_graphs = True  # in the first step

    @classmethod
    def of(
        cls,
        job: Job,
        ends: Sequence[int] = (),
        every_step_alone: bool = False,
        every_burst_with_hooks: bool = True,
        nodes: int = 0,
        replicas: int = 1,
        **own: Any,
    ) -> BurstScheduler:
        """Returns the scheduler for the flags of a job.

        Args:
          job: has `steps_per_run`, `log_secs` and the last step.
          ends: as for the class, from the replica's duties.
          every_step_alone: if True, a burst has one step: there are hooks that must run at every step.
          every_burst_with_hooks: if False, some bursts have no hooks, because nothing needs them so often.
          nodes: as for the class.
          replicas: as for the class.
          own: further arguments of the class.
        """
        if every_step_alone:
            return cls(ends=[1], **own)
        hooks_secs = 0.0 if every_burst_with_hooks else min(_HOOKS_SECS, job.log_secs / 2)
        last_step = job.last_step or math.inf
        is_patient = job.prefetch_pulls == 0  # what it gains depends on the network, and not on the number of nodes
        return cls(
            job.longest_call,
            job.has_fixed_calls,
            ends=ends,
            hooks_secs=hooks_secs,
            last_step=last_step,
            nodes=nodes,
            replicas=replicas,
            is_patient=is_patient,
            **own,
        )

    @property
    def step_secs(self) -> float:
        """The median duration of a step, of the last bursts; 0 before the first."""
        return statistics.median(self._secs) if self._secs else 0.0

    def next_burst(self, global_step: int = 0, secs_without_hooks: float = math.inf) -> Burst:
        """Returns the size of the next burst: some calls, and the single step with the hooks, if any.

        Args:
          global_step: the latest known global step.
          secs_without_hooks: seconds since the hooks ran.
        """
        with_hooks = secs_without_hooks >= self._hooks_secs
        self._length = self._length_for((self._last_step - global_step) / self._replicas)
        steps = self._steps_of_burst(int(with_hooks))
        due = min((every - global_step % every for every in self._ends), default=steps + 1)
        return Burst(min(steps, due), with_hooks or steps == 1 or due <= steps)

    def _length_for(self, left: float) -> int:
        """Returns the number of steps of calls, 0 for steps with the hooks; only one of several steps is ever prepared.

        Args:
          left: steps left in the job for this replica.
        """
        if self._fixed:
            return self._lengths[0]
        if not self._is_timed:
            return 0
        longest, single = max(self._prepared, default=0), int(1 in self._prepared)
        if longest > 1:
            return longest if longest * min(self._secs) <= BURST_SECS else single
        secs = statistics.median(self._secs)
        fits = [one for one in self._lengths if max(one, _SHORTEST_CALL) * secs <= MARGIN * BURST_SECS]
        worth = [one for one in fits if steps_to_pay(one, self._nodes) <= left]
        longest = max(worth, default=single)
        return longest if self._is_due(longest * self._nodes, steps_to_pay(longest, self._nodes)) else single

    @property
    def _is_timed(self) -> bool:
        """True if so many bursts were timed that longer calls may follow."""
        return len(self._secs) >= _FIRST

    def _is_due(self, nodes: int, pays: float) -> bool:
        """Returns True if a call that pays after so many steps is prepared now: after these, or at once if cheap.

        Args:
          nodes: the nodes of the call.
          pays: the number of steps.
        """
        return not self._is_patient or nodes <= NODES_AT_ONCE or self._made >= pays

    def _steps_of_burst(self, alone: int) -> int:
        """Returns the number of steps that make whole calls, with so many single steps."""
        length = self._length
        steps = self._steps if self._fixed or self._is_timed else 1
        if self._fixed:
            steps = max(steps, length + alone)
        return steps if length <= 1 or steps - alone < length else (steps - alone) // length * length + alone

    def next_call_length(self, left: int) -> int:
        """Returns the number of steps of the next call, which the caller makes now.

        0 is a single step that the caller makes with the hooks: that graph is always prepared.

        Args:
          left: steps left in the burst, without one that runs with the hooks; at least 1.
        """
        if self._length == 0 or left < self._length:
            return 0
        if self._length not in self._prepared:
            self._prepared.add(self._length)
            self._prepares_graphs = True
        return self._length

    def record(self, steps: int, secs: float) -> None:
        """Records the duration of a burst; ignores a burst in which TensorFlow prepared a graph.

        Args:
          steps: steps of the burst.
          secs: duration of the burst in seconds.
        """
        self._made += steps
        if self._prepares_graphs:
            self._prepares_graphs = False
            return
        self._secs.append(secs / steps)
        self._steps = max(1, min(int(steps * BURST_SECS / max(secs, 1e-6)), _GROWTH * steps))


def steps_to_pay(length: int, nodes: int, shorter: float = 1.0) -> float:
    """Returns the number of steps that save as much time by sharing calls as preparing one such call takes.

    Args:
      length: number of steps of a call.
      nodes: number of nodes of a step.
      shorter: number of steps of the calls in whose place there is one.
    """
    return length * max(_CALLS_TO_PAY, nodes * shorter / _NODES_TO_PAY)


def call_lengths(longest: int, every: float = math.inf, nodes: int = 0) -> list[int]:
    """Returns the lengths that calls may have, longest first: few, because each needs its own graph.

    Args:
      longest: the longest one.
      every: number of steps after which a burst ends with a step that runs alone.
      nodes: number of nodes of a step.
    """
    lengths = [longest >> times for times in range(longest.bit_length())]
    return [one for one in lengths if one == 1 or (_SHORTEST_CALL <= one < every and one * nodes <= MOST_NODES)]
