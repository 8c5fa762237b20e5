"""Error feedback: what a push leaves out is kept on the worker and added to the next one.

Seide et al. 2014, "1-Bit Stochastic Gradient Descent"; Karimireddy et al. 2019, "Error Feedback Fixes SignSGD".  With
momentum correction the worker adds up velocities in place of gradients, and forgets the velocity of a value that it has
sent (Lin et al. 2018, "Deep Gradient Compression").

The residual is in the units of gradients, whatever the codec.  Where codecs change during a run, the next one takes it
over, and a push without a codec sends all of it.

    feedback = ErrorFeedback("ps_train/residual/0", codec, length)
    parts, done = feedback.encode(vector, seed, is_used)
    feedback.residual                       # added to the sum of all decoded pushes it is the sum of all vectors
"""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.private_tf import keep_whole
from ps_train.engine.transport.codecs.codec import Codec
from ps_train.engine.variables.worker_state import local_variable


class Momentum(NamedTuple):
    """The momentum of an optimizer, 0..1, and whether it is Nesterov's."""

    factor: float
    use_nesterov: bool


class ErrorFeedback:
    """A lossy codec with the memory of what it has left out; make it on the worker's device.

    The variables are local to the worker, and outlive a session that lost a ps.

    Args:
      name: name of the variables, unique on the worker.
      length: length of the vectors.
      momentum: adds up velocities of this momentum; None: adds up the vectors themselves.

    Attributes:
      length: length of the vectors.
      residual: float32 [length], what is not sent yet.
    """

    def __init__(self, name: str, codec: Codec, length: int, momentum: Momentum | None = None) -> None:
        self.length = length
        self._codec, self._momentum = codec, momentum
        self.residual = local_variable(name, [length])
        self._velocity = local_variable(f"{name}_velocity", [length]) if momentum else None
        if codec.is_exact() is not None:
            self._has_residual = local_variable(f"{name}_kept", [], tf.bool)

    def encode(
        self, vector: tf.Tensor, seed: tf.Tensor, is_used: tf.Tensor
    ) -> tuple[tuple[tf.Tensor, ...], tf.Operation]:
        """Encodes a vector together with the residual.

        Args:
          vector: float32 [length].
          seed: int32 [2], seed of the codec's random choices.
          is_used: bool scalar.  Where it is false, the receiver ignores the vector or adds it to a sum, so it is zeros:
            it is sent without the residual, which stays.

        Returns:
          The encoded vector, and the operation that keeps the new residual.
        """
        exact = self._codec.is_exact()
        if exact is None:
            return self._encoded(vector, seed, is_used)

        def with_residual() -> tuple[tf.Tensor, ...]:
            parts, done = self._encoded(vector, seed, is_used)
            kept = self._has_residual.assign(~(exact & is_used), read_value=False)
            with tf.control_dependencies([done, kept]):
                return (*parts, tf.constant(True))

        # Nothing to add and nothing to keep: four passes over the vector are saved.
        is_plain = exact & ~self._has_residual.read_value()
        *parts, done = v1.cond(is_plain, lambda: (*self._codec.encode(vector, seed), tf.constant(True)), with_residual)
        keep_whole(done)
        return tuple(parts), done.op

    def _encoded(
        self, vector: tf.Tensor, seed: tf.Tensor, is_used: tf.Tensor
    ) -> tuple[tuple[tf.Tensor, ...], tf.Operation]:
        residual = self.residual.read_value()
        total, velocity = self._total(vector, residual)
        total = _chosen(is_used, total, vector)
        parts = self._codec.encode(total, seed)
        sent = self._codec.decode(parts, self.length)
        kept = [self.residual.assign(_chosen(is_used, total - sent, residual), read_value=False)]
        if self._velocity is not None:
            unsent = tf.where(tf.equal(sent, 0.0), velocity, tf.zeros_like(velocity))
            before = self._velocity.read_value()
            kept.append(self._velocity.assign(_chosen(is_used, unsent, before), read_value=False))
        return parts, tf.group(*kept)

    def _total(self, vector: tf.Tensor, residual: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the sum of what is to be sent, and the velocity (the vector itself without momentum)."""
        if self._velocity is None or self._momentum is None:
            return residual + vector, vector
        velocity = self._momentum.factor * self._velocity.read_value() + vector
        step = vector + self._momentum.factor * velocity if self._momentum.use_nesterov else velocity
        return residual + step, velocity


def _chosen(condition: tf.Tensor, one: tf.Tensor, other: tf.Tensor) -> tf.Tensor:
    """Returns one of two tensors; unlike `tf.where`, this operation copies nothing for a scalar condition."""
    return tf.raw_ops.Select(condition=condition, x=one, y=other)
