"""The number of steps or workers that an update mode goes on without: fixed, or following the stragglers.

Under `bounded` it is the lead of a replica, in steps; under `sync` the number of backup workers.  Where it follows the
stragglers, it is in a variable on ps 0, which a step reads there under the lock under which it uses it, so a change
costs no message of the workers.  The chief measures how long the workers wait and chooses it (`wait_policy.py`).  It is
no part of checkpoints: a job begins with the lower bound.

    limit = WaitLimit("max_steps_ahead", WaitLimits(0, 8))
    limit.make()                       # in the graph of the step
    limit.value()                      # where it is used
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.lifecycle import event
from ps_train.cluster.sessions.calls import SHORT_CALL
from ps_train.config.wait_limits import WaitLimits
from ps_train.engine.updates.run_counters import RunCounters
from ps_train.engine.updates.wait_policy import WaitPolicy
from ps_train.engine.variables.variables import ps_device

log = logging.getLogger(__name__)

_MIN_SECS, _MIN_STEPS = 2.0, 20
"""Shortest time, and fewest global steps, over which waiting is measured."""


class WaitLimit:
    """The number in the graph of a step.

    Args:
      name: the flag that gives it.
      limits: its bounds.
    """

    def __init__(self, name: str, limits: WaitLimits) -> None:
        self.name, self._limits = name, limits
        self._variable: Any = None

    @classmethod
    def of(cls, name: str, given: int | WaitLimit) -> WaitLimit:
        """Returns a given limit, or that of a fixed number."""
        return given if isinstance(given, WaitLimit) else cls(name, WaitLimits(given, given))

    def make(self) -> None:
        """Makes the variable on ps 0, if the number may change."""
        if self._limits.is_range:
            with tf.device(ps_device(0)):
                lower = np.array(self._limits.lower, np.int64)
                name = f"ps_train/{self.name}"
                self._variable = v1.get_variable(name, initializer=lower, trainable=False, use_resource=True)

    @property
    def is_ever_positive(self) -> bool:
        """True if the number is, or may become, more than 0."""
        return self._limits.upper > 0

    def value(self) -> Any:
        """Returns the number: an int, or an int64 scalar that is read on ps 0 where it is used."""
        return self._limits.lower if self._variable is None else self._variable.read_value()

    def newest(self) -> dict[str, tf.Tensor]:
        """Returns the number by its name among the counters of a run; {} where it is fixed."""
        if self._variable is None:
            return {}
        with tf.device(ps_device(0)):
            return {self.name: self._variable.read_value()}

    def hooks(self, global_step: Any, counters: RunCounters) -> list[v1.train.SessionRunHook]:
        """Returns the chief's hook that chooses the number; none where it is fixed.

        Args:
          global_step: the variable.
          counters: the run's counters.
        """
        if self._variable is None:
            return []
        return [WaitLimitHook(self.name, self._variable, self._limits, global_step, counters)]


class WaitLimitHook(v1.train.SessionRunHook):
    """The chief's hook that measures how long workers wait, and changes the number.

    Args:
      name: the flag that gives the number.
      variable: int64 scalar on ps 0, the number.
      limits: its bounds.
      global_step: the variable.
      counters: the run's counters.
      clock: returns the time in seconds.
    """

    def __init__(
        self,
        name: str,
        variable: Any,
        limits: WaitLimits,
        global_step: Any,
        counters: RunCounters,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._name, self._policy, self._clock = name, WaitPolicy(*limits), clock
        with tf.device(ps_device(0)):
            read = (variable, global_step, counters.examples, counters.waiting)
            self._fetches = [one.read_value() for one in read]
            self._wanted = v1.placeholder(tf.int64, [], self._name)
            self._change = variable.assign(self._wanted, read_value=False)
        self._limit = -1
        self._since: tuple[float, int, float, Any] | None = None

    def before_run(self, run_context: Any) -> v1.train.SessionRunArgs:
        """Returns the fetches of the hook: number, global step, examples, waiting."""
        return v1.train.SessionRunArgs(self._fetches)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Measures; changes the number if the policy chooses another one."""
        limit, step, examples, waiting = run_values.results
        limit, step, now = int(limit), int(step), self._clock()
        if self._since is None or limit != self._limit or step < self._since[1]:
            self._limit, self._since = limit, (now, step, examples, waiting)
            return
        began, first, examples_before, waiting_before = self._since
        if now - began < _MIN_SECS or step - first < _MIN_STEPS:
            return
        waited, total = (waiting - waiting_before).sum(axis=0)
        share = float(waited / total) if total > 0 else 0.0
        rate = float(examples - examples_before) / (now - began)
        chosen = self._policy.next_limit(limit, share, rate)
        if chosen != limit:
            log.info(
                "%s=%d from step %d on, before %d: workers waited %.0f%% of their time at %.0f examples/s",
                self._name, chosen, step + 1, limit, 100 * share, rate, extra=event("adapted"),
            )  # fmt: skip
            try:
                run_context.session.run(self._change, {self._wanted: chosen}, options=SHORT_CALL)
                limit = chosen
            except tf.errors.DeadlineExceededError:
                log.debug("%s could not be changed: ps:0 is busy", self._name)
        self._limit, self._since = limit, (now, step, examples, waiting)
