"""The end of a training with a lossy push codec: what the pushes have left out is applied.

    residuals = Residuals(encodings, [optimizer.apply_residuals for optimizer in optimizers], is_weighted=False)
    residuals.send(session)             # each worker, when it makes no more steps
    residuals.apply(session)            # the chief, after all workers; True if there was anything

Each ps adds up what the workers send, and moves its values by the sum (`PsOptimizer.apply_residuals`).  This is no
update: it does not change the global step, and a sum of zero changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.cluster.sessions.calls import UNBOUNDED_CALL
from ps_train.engine.transport.push_encoding import PushEncoding
from ps_train.engine.variables.mutex import mutex_of, with_mutex
from ps_train.engine.variables.variables import ps_device, zeros_variable

Apply = Callable[[Mapping[str, tf.Tensor]], tf.Operation]
"""Function of slice name to residual, on one ps; returns the operation that applies all of them."""


class Residuals:
    """The residuals of one replica's pushes; make the object on the worker's device.

    Args:
      encodings: the encodings of the replica's pushes.
      apply: for each ps the function that applies residuals there.
      is_weighted: whether pushes are multiplied by their number of examples.
    """

    def __init__(self, encodings: Sequence[PushEncoding], apply: Sequence[Apply], is_weighted: bool) -> None:
        self._is_weighted = is_weighted
        sums = {encoding.ps: self._make_sums(encoding) for encoding in encodings}
        self._send = [self._sent(encoding, sums[encoding.ps]) for encoding in encodings]
        self._apply = [self._applied(encoding, apply[encoding.ps], sums[encoding.ps]) for encoding in encodings]

    def send(self, session: v1.Session) -> None:
        """Sends what was left out to the ps."""
        session.run(self._send, options=UNBOUNDED_CALL)

    def apply(self, session: v1.Session) -> bool:
        """Applies what all workers have sent; returns whether any of them has sent anything."""
        return any(session.run(self._apply, options=UNBOUNDED_CALL))

    @staticmethod
    def _make_sums(encoding: PushEncoding) -> list[Any]:
        """Makes on a ps the number of examples, then the sums of the encoded parcels."""
        with tf.device(ps_device(encoding.ps)):
            name = f"ps_train/residuals_{encoding.ps}"
            sums = [zeros_variable(f"{name}/{n}", tf.float32, [f.length]) for n, f in encoding.feedback.items()]
            return [zeros_variable(f"{name}/examples", tf.float32), *sums]

    @staticmethod
    def _sent(encoding: PushEncoding, sums: Sequence[Any]) -> tf.Operation:
        own = [encoding.examples, *[feedback.residual for feedback in encoding.feedback.values()]]
        values = [variable.read_value() for variable in own]
        with tf.device(ps_device(encoding.ps)):
            here = [tf.identity(value) for value in values]

            def body() -> tuple[list[tf.Operation], None]:
                pairs = zip(sums, here, strict=True)
                return [total.assign_add(value, read_value=False) for total, value in pairs], None

            added = with_mutex(mutex_of(encoding.ps), here, body)[0]
        with tf.control_dependencies([added]):
            return tf.group(*[variable.assign(tf.zeros_like(variable), read_value=False) for variable in own])

    def _applied(self, encoding: PushEncoding, apply: Apply, sums: Sequence[Any]) -> tf.Tensor:
        """Returns whether there was anything to apply, bool scalar."""

        def body() -> tuple[list[tf.Operation], tf.Tensor]:
            examples, *totals = [variable.read_value() for variable in sums]
            found = tf.reduce_any(tf.stack([tf.reduce_any(tf.not_equal(total, 0.0)) for total in totals]))

            def residuals() -> dict[str, tf.Tensor]:
                divisor = examples if self._is_weighted else 1.0
                pairs = zip(encoding.feedback, totals, strict=True)
                parts = [encoding.parcels[number].split(total / divisor)[0] for number, total in pairs]
                return {name: part for some in parts for name, part in some.items()}

            applied = v1.cond(found, lambda: apply(residuals()), tf.no_op)
            with tf.control_dependencies([applied]):
                return [variable.assign(tf.zeros_like(variable), read_value=False) for variable in sums], found

        with tf.device(ps_device(encoding.ps)):
            done, found = with_mutex(mutex_of(encoding.ps), [], body)
            with tf.control_dependencies([done]):
                return tf.identity(found)
