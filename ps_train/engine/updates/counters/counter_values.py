"""Values of the counters of a run, which are the variables of `updates.base.RunCounters`.

fetched = session.run(counter_tensors(counters))
values = RunCounterValues(update="async", names=["worker:0", "worker:1"], declared=2, **fetched)
values.staleness_report()["mean"]
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from ps_train.base.gauge import Gauge
from ps_train.engine.updates.counters.run_counters import RunCounters
from ps_train.engine.updates.modes import staleness, wait_time


def counter_tensors(counters: RunCounters) -> dict[str, tf.Tensor]:
    """Returns tensors with the present values, by field name, for fetching.

    They are on the ps, so a caller can read them after the end of a step there.
    """
    with tf.device(counters.examples.device):
        return {name: value.read_value() for name, value in vars(counters).items()}


@dataclasses.dataclass(frozen=True)
class RunCounterValues:
    """Values of the counters of a run.

    Attributes:
      update: the update mode.
      names: names of all possible replicas, by index.
      declared: number of declared replicas; a later replica is in the reports only if it took part.
      examples: see `RunCounters`, as for the following attributes.
      skipped: number of skipped gradients.
      dropped: number of dropped gradients.
      staleness: int64 [replicas, bins].
      waiting: float64 [replicas, 2], seconds.
      gauges: the present values of what parts of the step show.
    """

    update: str
    names: list[str]
    declared: int
    examples: float
    skipped: int
    dropped: int
    staleness: np.ndarray[Any, Any]
    waiting: np.ndarray[Any, Any]
    gauges: Mapping[Gauge, int] = dataclasses.field(default_factory=dict)

    def shown(self) -> dict[str, int | str]:
        """Returns the values of the gauges as users see them, by key."""
        return {gauge.key: gauge.shown(value) for gauge, value in self.gauges.items()}

    def staleness_report(self) -> dict[str, Any] | None:
        """Returns the report on staleness; None under synchronous updates, where no gradient is stale."""
        return None if self.update == "sync" else staleness.report(*self._participants(self.staleness))

    def waiting_report(self) -> dict[str, Any] | None:
        """Returns the report on waiting; None under asynchronous updates, where no replica waits."""
        return None if self.update == "async" else wait_time.report(*self._participants(self.waiting))

    def _participants(self, rows: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], list[str]]:
        """Returns the rows and names of the replicas that are declared or took part."""
        indices = [index for index, row in enumerate(rows) if index < self.declared or row.any()]
        return rows[indices], [self.names[index] for index in indices]
