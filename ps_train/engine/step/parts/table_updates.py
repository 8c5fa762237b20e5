"""Rows of tables with an update of their own: `--update=sync --table_update=async`."""

from __future__ import annotations

import dataclasses

import tensorflow as tf

from ps_train.engine.step.parts.step_part import MakeUpdate, StepPart, ToUpdate, Updated
from ps_train.engine.updates.gradients.row_updates import RowUpdates
from ps_train.engine.variables.variables import ps_device


class TableUpdates(StepPart):
    """The part of a step whose rows do not wait for the round of the dense values."""

    def update(self, update: MakeUpdate) -> MakeUpdate:
        """Applies rows when they arrive."""

        def updated(given: ToUpdate) -> Updated:
            made = update(
                dataclasses.replace(given, received=[dataclasses.replace(p, rows=()) for p in given.received])
            )
            optimizers = given.make_optimizers(given.rules)
            rows, done = RowUpdates(optimizers, given.rate_divisors), []
            for push in given.received:
                if push.rows:
                    with tf.device(ps_device(push.ps)):
                        examples = push.on_ps().header().examples
                        step = given.update_counts[push.ps].read_value()
                    done.append(rows.update(push.ps, push.rows, examples, step, push.steps()))
            ops = dataclasses.replace(made.ops, train=[*made.ops.train, *done])
            return dataclasses.replace(made, ops=ops, of_rows=optimizers)

        return updated
