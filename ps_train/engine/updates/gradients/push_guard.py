"""Guards of a push: functions that take the vectors of a push and return the vectors to send instead.

guard = finite_guard(job, loss, otherwise)                      # --on_nan
guard = after(updates, dropping(job, replica, dropped, guard))  # --inject_fault=drop_push
vectors = guard(vectors)
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.private_tf import keep_whole
from ps_train.config.fault_spec import dropped_share
from ps_train.config.job import Job
from ps_train.data.named_inputs import inputs_of
from ps_train.data.pipeline import derived_seed
from ps_train.engine.updates.modes.base import Replica
from ps_train.engine.variables.precision import is_narrow, widen

NOT_FINITE = "the loss or a gradient is not a finite number"
"""Text of the error that ends a worker's step before anything is sent."""

_INPUTS = " (inputs: "


def stop_if_not_finite(
    loss: tf.Tensor, vectors: Sequence[tf.Tensor], early: Sequence[tf.Tensor] = ()
) -> list[tf.Tensor]:
    """Returns the same vectors; the call fails with NOT_FINITE if the loss or a vector is not finite.

    The error's text also has the inputs of the batch that are not finite; see `bad_inputs`.

    Args:
      loss: scalar.
      vectors: the vectors to send.
      early: vectors that are sent before; they must be finite too.
    """
    finite, inputs = _finite(loss, [*early, *vectors]), inputs_of(v1.get_default_graph())
    check = v1.cond(finite, tf.no_op, lambda: _fail(inputs))
    keep_whole(check)
    with tf.control_dependencies([check]):
        return [tf.identity(vector) for vector in vectors]


def bad_inputs(text: str) -> str:
    """Returns the inputs in the text of such an error: "1 in labels, 3 in feature age"; "" if all were finite."""
    found = re.search(re.escape(_INPUTS) + r"(.*?)\)", text)
    return found[1].removeprefix(", ") if found else ""


def _fail(inputs: Sequence[tuple[str, tf.Tensor]]) -> tf.Operation:
    text: list[Any] = [NOT_FINITE, _INPUTS]
    for name in dict.fromkeys(name for name, _ in inputs):
        values = [value for other, value in inputs if other == name and value.dtype.is_floating]
        if values:
            bad = tf.add_n([tf.math.count_nonzero(~tf.math.is_finite(widen(value))) for value in values])
            shown = tf.strings.join([", ", tf.as_string(bad), f" in {name}"])
            text.append(tf.where(bad > 0, shown, ""))
    return tf.group(tf.debugging.Assert(False, [tf.strings.join([*text, ")"])]))


def skip_if_not_finite(
    loss: tf.Tensor, vectors: Sequence[tf.Tensor], otherwise: Sequence[Any], early: Sequence[tf.Tensor] = ()
) -> list[tf.Tensor]:
    """Returns the same vectors, or `otherwise` if the loss or a vector is not finite.

    Args:
      loss: scalar.
      vectors: the vectors to send.
      otherwise: for each vector its replacement, of the same shape and dtype.
      early: as in `stop_if_not_finite`.
    """
    finite = _finite(loss, [*early, *vectors])
    return [tf.where(finite, vector, other) for vector, other in zip(vectors, otherwise, strict=True)]


def are_finite(tensors: Sequence[tf.Tensor]) -> tf.Tensor:
    """Returns True (bool scalar) if all tensors are finite."""
    return _finite(tf.zeros([]), tensors)


def _finite(loss: tf.Tensor, vectors: Sequence[tf.Tensor]) -> tf.Tensor:
    # Sums of different dtypes stay apart, because a float64 sum may be finite where float32 overflows.
    narrow = [vector for vector in vectors if is_narrow(vector.dtype)]
    sums: dict[tf.DType, list[tf.Tensor]] = {}
    for one in [widen(loss), *[tf.reduce_sum(vector) for vector in vectors if not is_narrow(vector.dtype)]]:
        sums.setdefault(one.dtype, []).append(one)
    found = [tf.math.is_finite(tf.add_n(some)) for some in sums.values()]
    found += [tf.reduce_all(tf.math.is_finite(vector)) for vector in narrow]
    return tf.reduce_all(tf.stack(found)) if len(found) > 1 else found[0]


def drop_pushes(share: float, seed: int, vectors: Sequence[tf.Tensor], dropped: Any) -> list[tf.Tensor]:
    """Returns the same vectors, or at random zeros in place of all of them.

    Args:
      share: share of the pushes that are dropped, 0..1.
      seed: seed of the random choice.
      vectors: the vectors of one push.
      dropped: int64 variable to which each dropped push adds 1.
    """
    lost = tf.random.uniform([], seed=seed) < share
    with tf.device(dropped.device):
        count = dropped.assign_add(tf.cast(lost, tf.int64), read_value=False)
    with tf.control_dependencies([count]):
        return [tf.where(lost, tf.zeros_like(vector), vector) for vector in vectors]


Guard = Callable[[list[tf.Tensor]], list[tf.Tensor]]

Otherwise = Sequence[Any]
"""For each vector of a push its replacement if the push is skipped, an array or a tensor.

It has the vector's dtype, and its shape or that of a scalar.
"""


def finite_guard(job: Job, loss: tf.Tensor, otherwise: Otherwise, early: Sequence[tf.Tensor] = ()) -> Guard:
    """Returns the guard against gradients that are not finite (--on_nan); `early` have been sent already."""
    if job.on_nan == "stop":
        return functools.partial(stop_if_not_finite, loss, early=early)
    return lambda vectors: skip_if_not_finite(loss, vectors, otherwise, early)


def skipping(skipped: Sequence[tf.Tensor], otherwise: Otherwise, guard: Guard) -> Guard:
    """Returns a guard that first replaces the push where any of `skipped` (bool scalars) is true."""
    for condition in skipped:
        guard = _skipping(condition, otherwise, guard)
    return guard


def _skipping(skipped: tf.Tensor, otherwise: Otherwise, guard: Guard) -> Guard:
    return lambda v: guard([tf.where(skipped, other, one) for one, other in zip(v, otherwise, strict=True)])


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
