"""Assignment of rows of a variable."""

from __future__ import annotations

from typing import Any

import tensorflow as tf


def scatter_rows(variable: Any, rows: tf.Tensor, values: tf.Tensor) -> tf.Operation:
    """Returns the operation that assigns some rows of an initialized variable.

    Args:
      variable: the variable, or one slice of it.
      rows: int32 or int64 [k], row numbers.
      values: [k, …], their new values.
    """
    return tf.raw_ops.ResourceScatterUpdate(resource=variable.handle, indices=rows, updates=values)
