"""Operations of synchronous training: gradients and messages to the ps, tokens back to each worker.

A worker pushes its gradients into accumulators, then a message (worker, global step) into one queue, and waits for a
token of its own queue.  The leader reads the messages, makes the update and gives the tokens (`sync_leader.py`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

LEAVING = -1
"""The global step in the message of a worker that leaves."""

STOP = -1
"""The worker in a message that ends the leader's thread."""


@dataclasses.dataclass(frozen=True)
class Accumulator:
    """Sum of the gradients of one variable in the present round, on the variable's ps.

    Attributes:
      device: of the variable.
      accumulator: drops gradients of earlier rounds.  One of rows has sums, and the number of gradients as row -1:
        a mean that TensorFlow takes of a row would count only the gradients that have the row.
      is_sparse: whether it holds rows.
      shape: of the variable, int64 [rank].
    """

    device: str
    accumulator: Any
    is_sparse: bool
    shape: Any = None

    @classmethod
    def of(cls, gradient: Any, variable: Any) -> Accumulator:
        """Makes the accumulator of a variable.

        Raises:
          ValueError: the gradient is neither a tensor nor rows.
        """
        name = f"{variable.name}/grad_accum"
        if isinstance(gradient, tf.Tensor):
            shape = variable.get_shape()
            dense = v1.ConditionalAccumulator(gradient.dtype, shape=shape, shared_name=name)
            return cls(variable.device, dense, is_sparse=False)
        if isinstance(gradient, tf.IndexedSlices):
            sparse = v1.SparseConditionalAccumulator(gradient.dtype, shape=(), shared_name=name, reduction_type="SUM")
            return cls(variable.device, sparse, is_sparse=True, shape=tf.shape(variable, tf.int64))
        raise ValueError(
            f"the gradient of {variable.name} is a {type(gradient).__name__}: use a Tensor or IndexedSlices"
        )

    def push(self, gradient: Any, local_step: Any) -> Any:
        """Returns the operation that adds a gradient, whose rows are put together on the worker."""
        rows = _counted(gradient) if self.is_sparse else None
        with tf.device(self.device):
            if rows is not None:
                return self.accumulator.apply_indexed_slices_grad(rows, local_step=local_step)
            return self.accumulator.apply_grad(gradient, local_step=local_step)

    def take(self) -> Any:
        """Returns the mean of all gradients, which are then removed; waits for one if there is none.

        A gradient without a row counts in the row's mean with zeros, as in the mean of dense gradients.
        """
        if self.is_sparse:
            sums = self.accumulator.take_indexed_slices_grad(1)
            return tf.IndexedSlices(sums.values[1:] / sums.values[0], sums.indices[1:], self.shape)
        return self.accumulator.take_grad(1)

    def begin_at(self, step: Any) -> Any:
        """Returns the operation after which gradients of earlier steps are dropped."""
        with tf.device(self.device):
            return self.accumulator.set_global_step(step)


def _counted(gradient: Any) -> Any:
    """Returns a gradient's rows, each once and in the order of their numbers, after a row -1 of ones.

    TensorFlow merges rows in this order without a check.  Rows in another order are neither added up nor averaged.  A
    gradient without any row would never be counted.
    """
    rows, position = tf.unique(tf.cast(gradient.indices, tf.int64))
    values = tf.math.unsorted_segment_sum(gradient.values, position, tf.size(rows))
    order = tf.argsort(rows)
    one = tf.ones(tf.concat([[1], tf.shape(values)[1:]], 0), values.dtype)
    return tf.IndexedSlices(
        tf.concat([one, tf.gather(values, order)], 0),
        tf.concat([tf.constant([-1], tf.int64), tf.gather(rows, order)], 0),
    )


@dataclasses.dataclass(frozen=True)
class RoundTensors:
    """Operations of the leader.

    Attributes:
      update: applies the update and changes the global step.
      updated_step: the global step after the update.
      present_step: the global step.
      accumulated: the number of gradients in each accumulator.
      discard: removes all gradients from an accumulator that has some.
      begin: makes the accumulators drop gradients of earlier steps.
    """

    update: Any
    updated_step: Any
    present_step: Any
    accumulated: Sequence[Any]
    discard: Sequence[Any]
    begin: Any


@dataclasses.dataclass(frozen=True)
class Messages:
    """The queue of messages to the leader, and each worker's queue of tokens; all on the global step's device.

    Attributes:
      worker, step: placeholders of one message.
      send: sends it.
      number: placeholder.
      size: the number of messages that wait.
      receive: takes `number` messages, int64 [number, 2]; waits for them.
      queue: the queue of messages.
      tokens: the queue of each worker.
      give: gives a token with the present global step, by worker.
      give_after_update: the same after the update.
    """

    worker: Any
    step: Any
    send: Any
    number: Any
    size: Any
    receive: Any
    queue: Any
    tokens: Sequence[Any]
    give: Sequence[Any]
    give_after_update: Sequence[Any]

    @classmethod
    def make(cls, num_workers: int, rounds: RoundTensors) -> Messages:
        """Makes the queues.  The caller sets the device."""
        queue = tf.queue.FIFOQueue(-1, tf.int64, [(2,)], shared_name="sync_messages", name="sync_messages")
        worker, step = v1.placeholder(tf.int64, [], "worker"), v1.placeholder(tf.int64, [], "step")
        number = v1.placeholder(tf.int32, [], "number")
        tokens = [
            tf.queue.FIFOQueue(-1, tf.int64, [()], shared_name=f"sync_token_q_{index}", name="sync_token_q")
            for index in range(num_workers)
        ]
        return cls(
            worker=worker,
            step=step,
            send=queue.enqueue(tf.stack([worker, step])),
            number=number,
            size=queue.size(),
            receive=queue.dequeue_many(number),
            queue=queue,
            tokens=tokens,
            give=[token.enqueue(rounds.present_step) for token in tokens],
            give_after_update=[token.enqueue(rounds.updated_step) for token in tokens],
        )
