"""Casts between the dtype of the variables and the dtype in which a model computes (--compute_dtype).

    values = cast_values(pulled, tf.bfloat16)               # the values that the model gets
    outputs = widen_outputs(model.forward(features, True))  # the loss is computed in float32

Micikevicius et al. 2018, "Mixed Precision Training".  Values that already have the compute dtype are not cast.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from ps_train.runtime.precision import widen


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
