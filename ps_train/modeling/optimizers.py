"""Optimizers for tables: they read and write only the rows that have a gradient.

    Adagrad(0.05)                 # as TensorFlow's, but faster
    LazyAdam(0.001)
    RowWiseAdagrad(0.05)

TensorFlow's own GradientDescent, Momentum, Adagrad, Ftrl and RMSProp do the same; its Adam changes all rows.

Rows are gathered, updated together, and scattered.  TensorFlow's kernels update row by row, which takes three times as
long for rows of 16 numbers (`docs/decisions/0009-tables.md`).  No other update changes a variable between gather and
scatter: a ps makes one update at a time, and a row occurs once in an update.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.private_tf import adagrad_rate, adam_terms, make_slot

__all__ = ["Adagrad", "LazyAdam", "RowWiseAdagrad"]


class Adagrad(v1.train.AdagradOptimizer):
    """TensorFlow's AdagradOptimizer (Duchi et al. 2011), with the same slots and, up to rounding, the same values.

    It takes the arguments of AdagradOptimizer.
    """

    def _resource_apply_sparse(self, grad: tf.Tensor, handle: Any, indices: tf.Tensor) -> tf.Operation:
        accumulator = self.get_slot(handle, "accumulator")
        rate = tf.cast(adagrad_rate(self), grad.dtype)
        grown = accumulator.sparse_read(indices) + tf.square(grad)
        rows = handle.sparse_read(indices) - rate * grad * tf.math.rsqrt(grown)
        return tf.group(_scatter(accumulator, indices, grown), _scatter(handle, indices, rows))


class LazyAdam(v1.train.AdamOptimizer):
    """Adam (Kingma and Ba 2015) that leaves moments and values of a row unchanged while the row has no gradient.

    For dense gradients it equals TensorFlow's AdamOptimizer, whose arguments it takes.
    """

    def _resource_apply_sparse(self, grad: tf.Tensor, handle: Any, indices: tf.Tensor) -> tf.Operation:
        terms = adam_terms(self)
        beta1_power, beta2_power = tf.cast(terms.beta1_power, grad.dtype), tf.cast(terms.beta2_power, grad.dtype)
        rate = terms.rate * tf.sqrt(1 - beta2_power) / (1 - beta1_power)
        m, v = self.get_slot(handle, "m"), self.get_slot(handle, "v")
        m_rows = terms.beta1 * m.sparse_read(indices) + (1 - terms.beta1) * grad
        v_rows = terms.beta2 * v.sparse_read(indices) + (1 - terms.beta2) * tf.square(grad)
        step = rate * m_rows / (tf.sqrt(v_rows) + terms.epsilon)
        rows = handle.sparse_read(indices) - step
        return tf.group(_scatter(m, indices, m_rows), _scatter(v, indices, v_rows), _scatter(handle, indices, rows))


class RowWiseAdagrad(v1.train.Optimizer):
    """Adagrad (Duchi et al. 2011) with one accumulator for each row, as in Naumov et al. 2019 (DLRM).

    The accumulator grows by the mean of the row's squared gradient.  For a table of dimension D, the accumulators need
    1/D of the memory of Adagrad's.  A variable with fewer than two dimensions has an accumulator for each element.

    Args:
      learning_rate: the learning rate, a number, a tensor or a callable.
      initial_accumulator_value: first value of the accumulators, above 0.
      name: prefix of the names of the operations.
    """

    def __init__(
        self, learning_rate: Any, initial_accumulator_value: float = 0.1, name: str = "RowWiseAdagrad"
    ) -> None:
        if initial_accumulator_value <= 0:
            raise ValueError(
                f"initial_accumulator_value={initial_accumulator_value} is not valid: use a value above 0."
            )
        super().__init__(use_locking=False, name=name)
        self._learning_rate, self._initial = learning_rate, initial_accumulator_value

    def _create_slots(self, var_list: list[Any]) -> None:
        for variable in var_list:
            initial = v1.constant_initializer(self._initial, dtype=variable.dtype.base_dtype)
            make_slot(self, variable, initial, variable.shape[:1], "accumulator")

    def _prepare(self) -> None:
        rate = self._learning_rate() if callable(self._learning_rate) else self._learning_rate
        self._rate = tf.convert_to_tensor(rate, name="learning_rate")

    def _resource_apply_dense(self, grad: tf.Tensor, handle: Any) -> tf.Operation:
        accumulator = self.get_slot(handle, "accumulator")
        grown = accumulator.assign_add(_mean_square(grad), read_value=True)
        return handle.assign_sub(self._step(grad, tf.identity(grown)), read_value=False)

    def _resource_apply_sparse(self, grad: tf.Tensor, handle: Any, indices: tf.Tensor) -> tf.Operation:
        accumulator = self.get_slot(handle, "accumulator")
        grown = accumulator.sparse_read(indices) + _mean_square(grad)
        rows = handle.sparse_read(indices) - self._step(grad, grown)
        return tf.group(_scatter(accumulator, indices, grown), _scatter(handle, indices, rows))

    def _step(self, grad: tf.Tensor, accumulator: tf.Tensor) -> tf.Tensor:
        rank = grad.shape.rank
        by_row = tf.reshape(accumulator, [-1] + [1] * (rank - 1)) if rank else accumulator
        return tf.cast(self._rate, grad.dtype) * grad / tf.sqrt(by_row)


def counted(updates: Sequence[tf.Operation], count: Any, read: tf.Tensor, name: str) -> tf.Operation:
    """Returns some updates and the count of one more, for a `_finish`.

    Args:
      updates: the updates.
      count: the variable with the number of the updates before.
      read: its value that they use, which is read before it changes.
      name: of the operation.
    """
    with tf.control_dependencies([*updates, read]), tf.device(count.device):
        return tf.group(*updates, count.assign_add(1, read_value=False), name=name)


def _mean_square(grad: tf.Tensor) -> tf.Tensor:
    rank = grad.shape.rank
    return tf.reduce_mean(tf.square(grad), axis=list(range(1, rank))) if rank > 1 else tf.square(grad)


def _scatter(variable: Any, indices: tf.Tensor, rows: tf.Tensor) -> tf.Operation:
    return tf.raw_ops.ResourceScatterUpdate(resource=variable.handle, indices=indices, updates=rows)
