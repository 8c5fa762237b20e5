"""Updates of tables' rows as each worker brings them, while dense values move in rounds.

    rows = RowUpdates(optimizers, divisors)
    rows.update(0, push.rows, examples, step)                   # an operation under the lock of ps 0

No step is counted, and nobody waits: a row has the updates of all pushes that have arrived.  Persia (Lian et al. 2022)
trains dense values synchronously and rows so.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.engine.transport.row_exchange import RowPush
from ps_train.engine.updates.gradients.apply_gradients import AppliedOptimizers
from ps_train.engine.updates.modes.base import RateDivisor
from ps_train.engine.variables.mutex import mutex_of, with_mutex
from ps_train.engine.variables.variables import ps_device


class RowUpdates:
    """The updates of rows on all ps.

    Args:
      optimizers: those of the rows on each ps.
      rate_divisors: divisors of the learning rate.
    """

    def __init__(self, optimizers: Sequence[AppliedOptimizers], rate_divisors: Sequence[RateDivisor] = ()) -> None:
        self._optimizers, self._rate_divisors = optimizers, rate_divisors

    def update(self, ps: int, rows: Sequence[RowPush], examples: tf.Tensor, step: tf.Tensor) -> tf.Operation:
        """Returns the operation that applies the push of one step to the rows on a ps, under its lock.

        Args:
          ps: index of the ps.
          rows: the push.
          examples: float32 scalar, number of examples that it stands for.
          step: int64 scalar, number of updates before it.
        """
        with tf.device(ps_device(ps)):
            here, examples, step = [one.on_ps() for one in rows], tf.identity(examples), tf.identity(step)
            arrived = [tensor for one in here for tensor in (one.message, one.gradients)]
            return with_mutex(
                mutex_of(ps),
                [*arrived, examples, step],
                lambda: ([self.apply(ps, here, examples, step)], None),
            )[0]

    def apply(
        self,
        ps: int,
        rows: Sequence[RowPush],
        examples: tf.Tensor,
        step: tf.Tensor,
        steps: Any = 1,
        only_if: Any = True,
    ) -> tf.Operation:
        """Returns the operation that applies a push to the rows on a ps; call it on the ps, under its lock.

        Args:
          ps: index of the ps.
          rows: the push, on the ps.
          examples: float32 scalar, number of examples that it stands for; without any it changes nothing.
          step: int64 scalar, number of updates before it.
          steps: number of steps that it stands for.
          only_if: bool scalar; without it nothing is changed.
        """

        def done() -> tf.Operation:
            gradients: dict[str, Any] = {}
            for one in rows:
                gradients |= one.gradients_by_slice(one.message, one.gradients)
            divisors = [divisor(examples, step) for divisor in self._rate_divisors]
            return self._optimizers[ps].apply(gradients, divisors, steps)

        return v1.cond((examples > 0) & only_if, done, tf.no_op)
