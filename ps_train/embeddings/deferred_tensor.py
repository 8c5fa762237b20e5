"""A tensor that can be used before it is known where its value comes from.

    promise = Promise(tf.float32, [None, 16])
    loss = tf.reduce_sum(promise.tensor)
    promise.keep(rows)                      # before a session sees the graph

Lookups of a model need it: the rows of all of them are fetched together, but each must give its rows to what the model
computes next before the following one is even known.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import tensorflow as tf
import tensorflow.compat.v1 as v1


class DeferredTensor:
    """Attributes:
    tensor: what may be used at once.
    """

    def __init__(self, dtype: tf.DType, shape: Sequence[int | None]) -> None:
        self.tensor = tf.identity(v1.placeholder(dtype, shape))

    def bind(self, value: tf.Tensor) -> None:
        """The value must not depend on the promise; see `depends`."""
        # TensorFlow has no public way to do it; its own loops are built like this.
        self.tensor.op._update_input(0, value)


def depends_on(value: tf.Tensor, promises: Iterable[DeferredTensor]) -> bool:
    """Whether a value can only be computed when one of the promises is kept."""
    goals = {promise.tensor.op for promise in promises}
    seen, waiting = {value.op}, [value.op]
    while waiting:
        operation = waiting.pop()
        if operation in goals:
            return True
        for before in [*(tensor.op for tensor in operation.inputs), *operation.control_inputs]:
            if before not in seen:
                seen.add(before)
                waiting.append(before)
    return False
