"""Optimizers that TensorFlow does not have: they touch only the rows of a table that have a gradient.

    LazyAdam(0.001)
    RowWiseAdagrad(0.05)

TensorFlow's own GradientDescent, Momentum, Adagrad, Ftrl and RMSProp do so too; its Adam does not.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1


class LazyAdam(v1.train.AdamOptimizer):
    """Adam (Kingma and Ba 2015) whose moments and values of a row stay as they are while it has no gradient.

    Where a gradient is dense it is TensorFlow's AdamOptimizer.
    """

    def _resource_apply_sparse(self, grad: tf.Tensor, handle: Any, indices: tf.Tensor) -> tf.Operation:
        beta1_power, beta2_power = (tf.cast(power, grad.dtype) for power in self._get_beta_accumulators())
        rate = self._lr_t * tf.sqrt(1 - beta2_power) / (1 - beta1_power)
        m, v = self.get_slot(handle, "m"), self.get_slot(handle, "v")
        m_rows = self._beta1_t * m.sparse_read(indices) + (1 - self._beta1_t) * grad
        v_rows = self._beta2_t * v.sparse_read(indices) + (1 - self._beta2_t) * tf.square(grad)
        step = rate * m_rows / (tf.sqrt(v_rows) + self._epsilon_t)
        return tf.group(
            tf.raw_ops.ResourceScatterUpdate(resource=m.handle, indices=indices, updates=m_rows),
            tf.raw_ops.ResourceScatterUpdate(resource=v.handle, indices=indices, updates=v_rows),
            tf.raw_ops.ResourceScatterSub(resource=handle.handle, indices=indices, updates=step),
        )


class RowWiseAdagrad(v1.train.Optimizer):
    """Adagrad (Duchi et al. 2011) with one accumulator a row: it grows by the mean of the row's squared gradient.

    A table of dimension D needs 1/D of Adagrad's memory beside its own (as in Naumov et al. 2019, "Deep Learning
    Recommendation Model").  A variable with less than two dimensions has an accumulator for each element.
    """

    def __init__(
        self, learning_rate: Any, initial_accumulator_value: float = 0.1, name: str = "RowWiseAdagrad"
    ) -> None:
        if initial_accumulator_value <= 0:
            raise ValueError(f"initial_accumulator_value={initial_accumulator_value} is not valid: use one above 0.")
        super().__init__(use_locking=False, name=name)
        self._learning_rate, self._initial = learning_rate, initial_accumulator_value

    def _create_slots(self, var_list: list[Any]) -> None:
        for variable in var_list:
            initial = v1.constant_initializer(self._initial, dtype=variable.dtype.base_dtype)
            self._get_or_make_slot_with_initializer(
                variable, initial, variable.shape[:1], variable.dtype.base_dtype, "accumulator", self._name
            )

    def _prepare(self) -> None:
        self._rate = tf.convert_to_tensor(self._call_if_callable(self._learning_rate), name="learning_rate")

    def _resource_apply_dense(self, grad: tf.Tensor, handle: Any) -> tf.Operation:
        accumulator = self.get_slot(handle, "accumulator")
        grown = accumulator.assign_add(_mean_square(grad), read_value=True)
        return handle.assign_sub(self._step(grad, tf.identity(grown)), read_value=False)

    def _resource_apply_sparse(self, grad: tf.Tensor, handle: Any, indices: tf.Tensor) -> tf.Operation:
        accumulator = self.get_slot(handle, "accumulator")
        grown = accumulator.sparse_read(indices) + _mean_square(grad)
        return tf.group(
            tf.raw_ops.ResourceScatterUpdate(resource=accumulator.handle, indices=indices, updates=grown),
            tf.raw_ops.ResourceScatterSub(resource=handle.handle, indices=indices, updates=self._step(grad, grown)),
        )

    def _step(self, grad: tf.Tensor, accumulator: tf.Tensor) -> tf.Tensor:
        rank = grad.shape.rank
        by_row = tf.reshape(accumulator, [-1] + [1] * (rank - 1)) if rank else accumulator
        return tf.cast(self._rate, grad.dtype) * grad / tf.sqrt(by_row)


def _mean_square(grad: tf.Tensor) -> tf.Tensor:
    rank = grad.shape.rank
    return tf.reduce_mean(tf.square(grad), axis=list(range(1, rank))) if rank > 1 else tf.square(grad)
