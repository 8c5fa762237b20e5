"""Rows of tables with an update of their own: `--update=sync --table_update=async`.

The round takes in a push as a whole: its rows move at once, its dense gradients when the round ends.  So a push counts
once, or not at all, for both.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import tensorflow as tf

from ps_train.engine.step.parts.step_part import MakeUpdate, StepPart, ToUpdate, Updated
from ps_train.engine.transport.received_push import ReceivedPush
from ps_train.engine.updates.gradients.row_updates import RowUpdates
from ps_train.engine.updates.modes.shard_part import RoundPart, ShardPart


class TableUpdates(StepPart):
    """The part of a step whose rows do not wait for the round of the dense values."""

    def update(self, update: MakeUpdate) -> MakeUpdate:
        """Applies rows when they arrive."""

        def updated(given: ToUpdate) -> Updated:
            optimizers = given.make_optimizers(given.rules)
            rows = RowUpdates(optimizers, given.rate_divisors)
            parts = {
                push.ps: LoneRows(rows, push.ps, given.update_counts[push.ps]) for push in given.received if push.rows
            }
            received = [dataclasses.replace(push, rows=(), lone_rows=push.rows) for push in given.received]
            made = update(dataclasses.replace(given, received=received).with_shard_parts(parts))
            return dataclasses.replace(made, of_rows=optimizers)

        return updated


class LoneRows(ShardPart, RoundPart):
    """The rows on a ps that move when a push arrives.

    Args:
      rows: the updates of rows.
      ps: index of the ps.
      update_count: int64 variable, the number of updates of the ps.
    """

    def __init__(self, rows: RowUpdates, ps: int, update_count: Any) -> None:
        self._rows, self._ps, self._update_count = rows, ps, update_count

    def in_round(self, replica: int, replicas: int) -> list[RoundPart]:
        """Returns this part."""
        return [self]

    def add(self, push: ReceivedPush, only_if: tf.Tensor) -> tf.Operation:
        """Moves the rows of a push."""
        step = self._update_count.read_value()
        return self._rows.apply(self._ps, push.lone_rows, push.header().examples, step, push.steps(), only_if)

    def discard(self, push: ReceivedPush, only_if: tf.Tensor) -> tf.Operation:
        """Moves the rows of a push too whose dense gradients are left out for good."""
        return self.add(push, only_if)
