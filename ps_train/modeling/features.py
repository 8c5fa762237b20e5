"""Features from columns: buckets on a logarithmic scale or by quantiles, crossed columns, position bias.

    price = features.log_buckets(columns["price"], base=2.0, count=20)                        # 0 .. 19
    age = features.quantile_buckets(columns["age"], features.quantiles(ages_of_training, 10))  # 0 .. 9
    pair = features.cross(columns["country"], columns["device"])                              # for hash_buckets
    logits += features.position_bias(columns["position"], 10, training)

All but `quantiles` are functions on tensors of any shape, and become part of an exported model.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.errors import ModelError
from ps_train.modeling.tables.row_index import splitmix64

__all__ = ["cross", "log_buckets", "position_bias", "quantile_buckets", "quantiles"]

_HASH_BUCKETS = (1 << 63) - 1


def log_buckets(values: Any, base: float = 2.0, count: int = 32) -> tf.Tensor:
    """Returns bucket numbers on a logarithmic scale, int64 in the shape of the values.

    Bucket k has the values from base^(k-1) - 1 to below base^k - 1.  Bucket 0 has those below 0 and NaN, and the last
    one all that are larger.

    Args:
      values: numbers.
      base: ratio of the ends of a bucket, above 1.
      count: number of buckets.
    """
    if not base > 1 or count < 2:
        raise ModelError(f"log_buckets has base={base} and count={count}: use a base above 1 and at least 2 buckets.")
    ends = [base**k - 1 for k in range(count - 1)]
    return quantile_buckets(values, ends)


def quantiles(values: Any, count: int) -> list[float]:
    """Returns the ends of buckets with about equal numbers of values, in increasing order, at most count - 1.

    Args:
      values: numbers, a numpy array of any shape; NaN does not count.  A sample of the training data will do.
      count: number of buckets.  Values that are frequent make fewer, because equal values share a bucket.
    """
    if count < 2:
        raise ModelError(f"quantiles has count={count}: use at least 2 buckets.")
    present = np.asarray(values, np.float64)
    present = present[~np.isnan(present)]
    if not present.size:
        raise ModelError("quantiles is given no values: give a sample of the training data.")
    return [float(end) for end in np.unique(np.quantile(present, np.arange(1, count) / count))]


def quantile_buckets(values: Any, ends: Any) -> tf.Tensor:
    """Returns the number of ends that each value reaches, int64 in the shape of the values; 0 for NaN.

    Args:
      values: numbers, compared as float32.
      ends: increasing numbers, such as those of `quantiles`: n ends make n + 1 buckets.
    """
    ends = np.asarray(ends, np.float32)
    if ends.ndim != 1 or not len(ends) or np.any(np.diff(ends) < 0) or np.isnan(ends).any():
        raise ModelError(f"quantile_buckets has ends={ends.tolist()}: give at least one number, in increasing order.")
    values = tf.cast(values, tf.float32)
    flat = tf.reshape(tf.where(tf.math.is_nan(values), tf.constant(-math.inf), values), [-1])
    buckets = tf.searchsorted(tf.constant(ends), flat, side="right", out_type=tf.int64)
    return tf.reshape(buckets, tf.shape(values))


def cross(*columns: Any) -> tf.Tensor:
    """Returns an id for each combination of the columns' values, int64 of at least 0, in their common shape.

    The ids are 63-bit hashes, for tables with `hash_buckets` or `capacity`.  The order of the columns counts.

    Args:
      *columns: two or more tensors of whole numbers or strings, all of one shape.
    """
    if len(columns) < 2:
        raise ModelError(f"cross is given {len(columns)} columns: give two or more.")
    crossed = None
    for column in map(tf.convert_to_tensor, columns):
        if column.dtype == tf.string:
            ids = tf.strings.to_hash_bucket_fast(column, _HASH_BUCKETS)
        elif column.dtype.is_integer:
            ids = tf.cast(column, tf.int64)
        else:
            raise ModelError(
                f"cross is given a column of {column.dtype.name}: use whole numbers or strings, such as log_buckets()."
            )
        if crossed is None:
            crossed = splitmix64(ids)
        else:
            crossed.shape.assert_is_compatible_with(ids.shape)
            crossed = splitmix64(tf.bitwise.bitwise_xor(crossed * 3, splitmix64(ids)))
    return crossed


def position_bias(positions: tf.Tensor, count: int, training: bool, name: str = "position_bias") -> tf.Tensor:
    """Returns the logit that an example's position adds in training, float32 [batch]; 0 outside of training.

    The first position has the bias 0, so a served model predicts the click on an example that is shown first, whatever
    positions it is given.  (Zhao et al. 2019, "Recommending What Video to Watch Next", section 4.3, has a tower of the
    position whose logit is added in training and left out at serving.)

    Args:
      positions: whole numbers [batch], 0 for the first; later ones than `count` - 1 count as that.
      count: number of positions.
      training: as given to `forward`.
      name: name of the variable, float32 [count - 1].
    """
    if count < 2:
        raise ModelError(f"position_bias has count={count}: use at least 2 positions.")
    biases = v1.get_variable(name, [count - 1], initializer=v1.zeros_initializer())
    if not training:
        return tf.zeros(tf.shape(positions), tf.float32)
    row = tf.clip_by_value(tf.cast(positions, tf.int32), 0, count - 1)
    return tf.gather(tf.concat([[0.0], tf.cast(biases, tf.float32)], 0), row)
