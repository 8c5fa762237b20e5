"""Guards of a push: functions that take the vectors of a push and return the vectors to send instead.

guard = finite_guard(job, loss, otherwise)                      # --on_nan
guard = after(updates, dropping(job, replica, dropped, guard))  # --inject_fault=drop_push
transport.push(gradients, examples, scaled, guard, rows)
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from ps_train.config.fault_spec import dropped_share
from ps_train.config.job import Job
from ps_train.data.pipeline import derived_seed
from ps_train.runtime.loss_scale import LEAST, LossScale
from ps_train.updates import finite
from ps_train.updates.base import Replica
from ps_train.updates.drop_push import drop_pushes

Guard = Callable[[list[tf.Tensor]], list[tf.Tensor]]

Otherwise = Sequence[Any]
"""For each vector of a push its replacement if the push is skipped, an array or a tensor.

It has the vector's dtype, and its shape or that of a scalar.
"""


def finite_guard(job: Job, loss: tf.Tensor, otherwise: Otherwise) -> Guard:
    """Returns the guard against gradients that are not finite (--on_nan)."""
    if job.on_nan == "stop":
        return functools.partial(finite.stop_if_not_finite, loss)
    return lambda vectors: finite.skip_if_not_finite(loss, vectors, otherwise)


def scaled_guard(
    job: Job, loss: tf.Tensor, gradients: Sequence[tf.Tensor], scale: LossScale, otherwise: Otherwise
) -> Guard:
    """Returns the guard of gradients of a scaled loss.  It skips an overflow, and changes the scale for the next step.

    An overflow at the least scale, and a loss that is not finite, are subject to --on_nan.

    Args:
      job: the job.
      loss: float32 scalar, not scaled.
      gradients: the gradients as the model has them; transforms might hide an overflow.
      scale: the scale of this worker.
      otherwise: see `Otherwise`.
    """
    is_loss_finite, are_gradients_finite = tf.math.is_finite(loss), finite.are_finite(gradients)
    overflow = is_loss_finite & ~are_gradients_finite
    updated = scale.update(overflow, is_loss_finite & are_gradients_finite)
    skipped = overflow & (scale.value > LEAST)
    judged = tf.where(overflow & ~skipped, tf.constant(np.nan, loss.dtype), loss)
    guard = finite_guard(job, judged, otherwise)
    return after(
        [updated], lambda v: guard([tf.where(skipped, other, one) for one, other in zip(v, otherwise, strict=True)])
    )


def after(updates: Sequence[tf.Operation], guard: Guard) -> Guard:
    """Returns a guard that also delays the push until these operations are done."""

    def delayed(vectors: list[tf.Tensor]) -> list[tf.Tensor]:
        with tf.control_dependencies(updates):
            return [tf.identity(vector) for vector in guard(vectors)]

    return delayed if updates else guard


def dropping(job: Job, replica: Replica, dropped: Any, guard: Guard) -> Guard:
    """Returns a guard that also drops pushes, if the job injects that fault."""
    share = dropped_share(job.inject_fault)
    if not share:
        return guard
    seed = derived_seed(job.seed, "drop_push", replica.index)
    return lambda vectors: drop_pushes(share, seed, guard(vectors), dropped)
