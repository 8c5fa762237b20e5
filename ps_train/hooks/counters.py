"""What has been counted over the whole run: the values of the variables of `updates.base.Counts`.

fetched = session.run(tensors(counts))
tally = Tally(update="async", names=["worker:0", "worker:1"], declared=2, **fetched)
tally.staleness_report()["mean"]
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import tensorflow as tf

from ps_train.updates import staleness, wait_time
from ps_train.updates.base import RunCounters


def counter_tensors(counts: RunCounters) -> dict[str, tf.Tensor]:
    """Present values, to be fetched; on the ps's side, so that hooks may wait for a step's end there."""
    with tf.device(counts.examples.device):
        return {field.name: getattr(counts, field.name).read_value() for field in dataclasses.fields(RunCounters)}


@dataclasses.dataclass(frozen=True)
class RunCounterValues:
    """See `Counts`; `names` are those of all replicas that there may be, by their index.  Of those after the
    first `declared` only such are reported on that took part."""

    update: str
    names: list[str]
    declared: int
    examples: float
    skipped: int
    dropped: int
    staleness: np.ndarray[Any, Any]
    waiting: np.ndarray[Any, Any]

    def staleness_report(self) -> dict[str, Any] | None:
        """None under synchronous updates, where nothing is stale."""
        return None if self.update == "sync" else staleness.report(*self._of_those_who_took_part(self.staleness))

    def waiting_report(self) -> dict[str, Any] | None:
        """None under asynchronous updates, where nobody waits."""
        return None if self.update == "async" else wait_time.report(*self._of_those_who_took_part(self.waiting))

    def _of_those_who_took_part(self, rows: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], list[str]]:
        those = [index for index, row in enumerate(rows) if index < self.declared or row.any()]
        return rows[those], [self.names[index] for index in those]
