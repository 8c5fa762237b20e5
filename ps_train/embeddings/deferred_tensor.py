"""A late-bound tensor: the graph uses it before its value is bound.

    deferred = DeferredTensor(tf.float32, [None, 16])
    loss = tf.reduce_sum(deferred.tensor)
    deferred.bind(rows)                     # before a session sees the graph

Lookups need it.  The rows of all lookups are fetched together, but the model uses the rows of one lookup before it
makes the next.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.private_tf import set_input


class DeferredTensor:
    """A tensor whose value is bound later.

    Attributes:
      tensor: the tensor, usable at once.
    """

    def __init__(self, dtype: tf.DType, shape: Sequence[int | None]) -> None:
        self.tensor = tf.identity(v1.placeholder(dtype, shape))

    def bind(self, value: tf.Tensor) -> None:
        """Binds the value, which must not depend on this tensor; see `depends_on`."""
        set_input(self.tensor.op, 0, value)


def depends_on(value: tf.Tensor, deferred: Iterable[DeferredTensor]) -> bool:
    """Returns whether a value depends on any of the deferred tensors."""
    goals = {some.tensor.op for some in deferred}
    visited, pending = {value.op}, [value.op]
    while pending:
        operation = pending.pop()
        if operation in goals:
            return True
        for before in [*(tensor.op for tensor in operation.inputs), *operation.control_inputs]:
            if before not in visited:
                visited.add(before)
                pending.append(before)
    return False
