"""Tensors that a worker keeps from the end of one call to the beginning of the next.

    kept = KeptPull(tensors, after=begun)
    kept.values["Reshape:0"]        # on the worker, in place of the tensor of this name
    kept.keep(newer)                # replaces all that is kept by newer tensors

Pulled ahead of its turn, the first step of a call finds its values on the worker (`graph/unroll.py`).  They are one
tuple, so what is used together was kept together: a batch and the rows of its ids.
"""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.runtime.local_state import OWN


class KeptPull:
    """The kept tuple of one replica; make it in the worker's device scope.

    Args:
      tensors: the tensors of a step for which the kept ones stand; only their dtypes and shapes are used.
      after: the operation after which the kept tensors may be used.

    Attributes:
      values: name of a tensor of the step to the kept one.
    """

    def __init__(self, tensors: Sequence[tf.Tensor], after: tf.Operation) -> None:
        with tf.device("/device:CPU:0"):
            self._variable = v1.get_variable(
                "ps_train/kept_pull",
                [],
                tf.variant,
                lambda shape, dtype, partition_info: tf.raw_ops.OptionalNone(),
                trainable=False,
                collections=[OWN],
                use_resource=True,
            )
            self._read = self._variable.read_value()
            with tf.control_dependencies([after]):
                optional = tf.identity(self._read)
            kept = tf.raw_ops.OptionalGetValue(
                optional=optional, output_types=[t.dtype for t in tensors], output_shapes=[t.shape for t in tensors]
            )
        self.values = {tensor.name: value for tensor, value in zip(tensors, kept, strict=True)}

    def keep(self, newer: Sequence[tf.Tensor]) -> tf.Operation:
        """Makes the operation that keeps newer tensors, after the present call has read the old ones."""
        with tf.device(self._variable.device), tf.control_dependencies([self._read]):
            return self._variable.assign(tf.raw_ops.OptionalFromValue(components=[*newer]), read_value=False)
