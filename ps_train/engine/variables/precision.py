"""Precision of sums: values of a dtype below 32 bits are added up, squared and divided as float32.

    total = tf.add_n([widen(gradient) for gradient in gradients])
    mean = tf.cast(total / count, gradients[0].dtype)

float16 overflows at 65,504 and cannot count ones beyond 2,048; bfloat16 cannot beyond 256.  float32 and float64 are
left as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from ps_train.engine.variables.worker_state import local_variable

LEAST, FIRST, MOST = 1.0, 2.0**15, 2.0**24
GOOD_STEPS = 2000


class LossScale:
    """The loss scale of a worker, in the default graph.

    Attributes:
      value: float32 scalar, the scale of this step.
      present: float32 scalar, the present scale, to be fetched.
    """

    def __init__(self) -> None:
        self._scale = local_variable("ps_train/loss_scale", [], value=FIRST)
        self._good_steps = local_variable("ps_train/good_steps", [], tf.int64)
        self.value = self._scale.read_value()
        self.present = self._scale.read_value()

    def scaled(self, loss: tf.Tensor) -> tf.Tensor:
        """Returns the loss times the scale."""
        return loss * tf.cast(self.value, loss.dtype)

    def unscaled(self, gradients: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Returns the gradients divided by the scale."""

        def divided(gradient: tf.Tensor) -> tf.Tensor:
            wide = widen(gradient)
            return tf.cast(wide / tf.cast(self.value, wide.dtype), gradient.dtype)

        return {name: divided(gradient) for name, gradient in gradients.items()}

    def update(self, overflow: tf.Tensor, is_good: tf.Tensor) -> tf.Operation:
        """Makes the operation that changes the scale for the next step.

        Args:
          overflow: bool scalar, True if a gradient was not finite because of the scale.
          is_good: bool scalar, True if loss and gradients were finite.  Neither is True if the loss was not finite.
        """
        count = self._good_steps.read_value() + tf.cast(is_good, tf.int64)
        grows = is_good & (count >= GOOD_STEPS)
        factor = tf.where(overflow, 0.5, tf.where(grows, 2.0, 1.0))
        scale = tf.clip_by_value(self.value * factor, LEAST, MOST)
        count = tf.where(overflow | grows, tf.zeros_like(count), count)
        return tf.group(self._scale.assign(scale, read_value=False), self._good_steps.assign(count, read_value=False))


def cast_values(values: Mapping[str, tf.Tensor], dtype: tf.DType) -> dict[str, tf.Tensor]:
    """Returns the values with those of float32 cast to `dtype`; values of other dtypes are returned unchanged."""
    return {name: tf.cast(value, dtype) if value.dtype == tf.float32 else value for name, value in values.items()}


def widen_outputs(outputs: Any) -> Any:
    """Returns a structure of the same kind, with its tensors below 32 bits cast to float32."""

    def widened(part: Any) -> Any:
        return widen(part) if isinstance(part, tf.Tensor) else part

    return tf.nest.map_structure(widened, outputs, expand_composites=True)


def cast_gradient(gradient: Any, dtype: tf.DType) -> Any:
    """Returns a gradient (tensor, IndexedSlices or None) in the dtype of its variable."""
    return gradient if gradient is None or gradient.dtype == dtype else tf.cast(gradient, dtype)


def is_narrow(dtype: tf.DType) -> bool:
    """Returns True for float16, bfloat16 and other floating-point dtypes below 32 bits."""
    return bool(dtype.is_floating and dtype.size < tf.float32.size)


def accumulation_dtype(dtype: tf.DType) -> tf.DType:
    """Returns the dtype in which values of `dtype` are added up."""
    return tf.float32 if is_narrow(dtype) else dtype


def origin_dtype(tensor: tf.Tensor) -> tf.DType:
    """Returns the dtype below 32 bits from which a tensor was widened, whose values it has; otherwise its own dtype."""
    before = tensor.op.inputs[0].dtype if tensor.op.type == "Cast" else tensor.dtype
    return before if is_narrow(before) and not is_narrow(tensor.dtype) else tensor.dtype


def widen(tensor: tf.Tensor) -> tf.Tensor:
    """Returns the tensor cast to its accumulation dtype; the same tensor if it already has that dtype."""
    return tf.cast(tensor, accumulation_dtype(tensor.dtype))
