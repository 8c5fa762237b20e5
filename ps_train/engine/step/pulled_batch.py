"""The front of a step: the part that reads the batch, finds its ids, and pulls values and rows.

    front = Front.of(template.inside, values, rows, wanted)
    copies = front.import_copy("pull_1", 1, gates, targets=[tensor.op for tensor in front.found])

A worker that pulls ahead makes the front of the next call's first step at the end of a call.  The rest of that step
uses what the front has found, and never the front itself: what is random there is drawn once.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.engine.step.copied_nodes import GET_NEXT, Template, ps_of
from ps_train.engine.variables.worker_state import OWN


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


_CONTROL_FLOW = ("Enter", "RefEnter", "Switch", "RefSwitch")
"""Types of operations of TensorFlow 1's loops and conditions, which cannot be divided."""


class Front(Template):
    """The nodes of a step's front.

    Args:
      step: all operations of the step.
      pulled: the tensors on the ps that the step pulls in its front.

    Attributes:
      found: what the rest of the step takes from the front: `pulled`, and tensors on the worker.
      on_worker: the names of the front's operations on the worker.
      reads_batch: whether the front reads the step's batch.
    """

    def __init__(self, step: Sequence[tf.Operation], pulled: Sequence[tf.Tensor]) -> None:
        super().__init__([tensor.op for tensor in pulled])
        here = [op for op in self.inside if ps_of(op) is None]
        self.on_worker = {op.name for op in here}
        self.reads_batch = any(op.type == GET_NEXT for op in here)
        taken = {tensor.name: tensor for op in step if op.name not in self.on_worker for tensor in op.inputs}
        names = {tensor.name for tensor in pulled}
        self.found = [*pulled, *(t for t in taken.values() if t.op.name in self.on_worker and t.name not in names)]
        self._is_divided = any(op.type in _CONTROL_FLOW for op in here)

    @classmethod
    def of(
        cls,
        step: Sequence[tf.Operation],
        values: Sequence[tf.Tensor],
        rows: Sequence[tf.Tensor],
        wanted: Collection[tf.Operation],
    ) -> Front:
        """Returns the front with the rows of the batch; without them where the step cannot be divided after them.

        Args:
          step: all operations of the step.
          values: the tensors that every step reads on the ps.
          rows: the tensors on the ps with the rows of the batch.
          wanted: operations that belong to the rest of the step.
        """
        front = cls(step, [*values, *rows])
        batches = {op.name for op in step if op.type == GET_NEXT}
        is_whole = front.on_worker >= batches or front.on_worker.isdisjoint(batches)
        if is_whole and not front._is_divided and front.on_worker.isdisjoint(op.name for op in wanted):
            return front
        return cls(step, values)
