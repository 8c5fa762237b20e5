"""Sums of a model's metrics, added up over the shards of the test data.

    sums = make_metric_sums(metric_variables, DataShard(1, 3))     # None if the variables are not sums
    session.run(sums.publish)                                      # writes this shard's sums to ps 0
    sums.of_shard[2]                                               # variable with the sums of another shard

TensorFlow's metrics keep sums over examples in variables.  The sums of all shards together give the metric of all
examples.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.data.data_shard import DataShard
from ps_train.placement.variables import ps_device


@dataclasses.dataclass(frozen=True)
class MetricSums:
    """The sums of one shard, and the operations that exchange them.

    Attributes:
      vector: float64 [n], all sums of this graph's shard, concatenated.
      of_shard: for each shard a variable on ps 0 with its vector.
      publish: writes this graph's vector to its variable on ps 0.
      feed: float64 [n], placeholder for sums.
      load: assigns the fed sums to the metric variables of this graph.
    """

    vector: tf.Tensor
    of_shard: list[Any]
    publish: tf.Operation
    feed: tf.Tensor
    load: tf.Operation


def make_metric_sums(variables: Sequence[Any], shard: DataShard) -> MetricSums | None:
    """Returns the sums of some metric variables, or None if a variable may not be a sum.

    Args:
      variables: the local variables that the model's metrics made.
      shard: the shard of the test data that this graph scores.
    """
    metric_ids = {id(variable) for variable in v1.get_collection(v1.GraphKeys.METRIC_VARIABLES)}
    if not variables or not all(id(variable) in metric_ids and _is_number(variable) for variable in variables):
        return None
    shapes = [variable.shape.as_list() for variable in variables]
    sizes = [math.prod(shape) for shape in shapes]
    vector = tf.concat([tf.cast(tf.reshape(v.read_value(), [-1]), tf.float64) for v in variables], axis=0)
    with tf.device(ps_device(0)):
        of_shard = [_shard_variable(number, sum(sizes)) for number in range(shard.count)]
    feed = v1.placeholder(tf.float64, [sum(sizes)], "given_totals")
    parts = zip(variables, shapes, tf.split(feed, sizes), strict=True)
    load = tf.group(*[v.assign(tf.cast(tf.reshape(part, shape), v.dtype)) for v, shape, part in parts])
    return MetricSums(vector, of_shard, of_shard[shard.index].assign(vector, read_value=False), feed, load)


def _is_number(variable: Any) -> bool:
    return bool(variable.shape.is_fully_defined()) and (variable.dtype.is_floating or variable.dtype.is_integer)


def _shard_variable(number: int, size: int) -> Any:
    """Makes a variable in no collection, because it has no value until it is published."""
    name = f"ps_train/totals/{number}"
    return v1.get_variable(
        name, [size], tf.float64, v1.zeros_initializer(), trainable=False, collections=[], use_resource=True
    )
