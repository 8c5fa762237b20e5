"""The functions of `tf.contrib.data` that `tf.data` has under other names.

data = data.apply(batch_and_drop_remainder(32))
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow.compat.v1 as v1

__all__ = ["batch_and_drop_remainder", "padded_batch_and_drop_remainder", "read_batch_features", "sloppy_interleave"]

read_batch_features = v1.data.experimental.make_batched_features_dataset


def batch_and_drop_remainder(batch_size: Any) -> Callable[[Any], Any]:
    """Returns a transformation of a dataset into batches, without a smaller one at the end.

    Args:
      batch_size: examples of a batch.
    """
    return lambda dataset: dataset.batch(batch_size, drop_remainder=True)


def padded_batch_and_drop_remainder(
    batch_size: Any, padded_shapes: Any, padding_values: Any = None
) -> Callable[[Any], Any]:
    """Returns a transformation of a dataset into padded batches, without a smaller one at the end.

    Args:
      batch_size: examples of a batch.
      padded_shapes: the shape of each component; None as a dimension: the largest of the batch.
      padding_values: the value of each component's padding; None: 0 or "".
    """
    return lambda dataset: dataset.padded_batch(batch_size, padded_shapes, padding_values, drop_remainder=True)


def sloppy_interleave(map_func: Any, cycle_length: int, block_length: int = 1) -> Any:
    """Returns the transformation of `parallel_interleave` whose order may change from run to run."""
    return v1.data.experimental.parallel_interleave(map_func, cycle_length, block_length, sloppy=True)
