"""Metrics of several shares of the data, added up.

    totals = totals_of(metric_variables, Share(1, 3))      # None where they are not sums
    session.run(totals.hand_in)                            # a share's sums, to ps 0
    totals.of_share[2]                                     # where those of another share lie

What TensorFlow's metrics keep are sums over the examples seen, so that those of all shares together are the metric's of
all examples.
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
    """Attributes:
    vector: float64 [n], all sums of this graph's share, one behind the other.
    of_share: the same of every share, variables on ps 0.
    hand_in: gives this share's its value there.
    given, put: what is fed to the one becomes the sums of this graph by the other.
    """

    vector: tf.Tensor
    of_share: list[Any]
    publish: tf.Operation
    feed: tf.Tensor
    load: tf.Operation


def make_metric_sums(variables: Sequence[Any], share: DataShard) -> MetricSums | None:
    """None where there is one that is no sum, or may be none."""
    known = {id(variable) for variable in v1.get_collection(v1.GraphKeys.METRIC_VARIABLES)}
    if not variables or not all(id(one) in known and _is_number(one) for one in variables):
        return None
    shapes = [variable.shape.as_list() for variable in variables]
    sizes = [math.prod(shape) for shape in shapes]
    vector = tf.concat([tf.cast(tf.reshape(one.read_value(), [-1]), tf.float64) for one in variables], axis=0)
    with tf.device(ps_device(0)):
        of_share = [_shared(number, sum(sizes)) for number in range(share.count)]
    given = v1.placeholder(tf.float64, [sum(sizes)], "given_totals")
    parts = zip(variables, shapes, tf.split(given, sizes), strict=True)
    put = tf.group(*[one.assign(tf.cast(tf.reshape(part, shape), one.dtype)) for one, shape, part in parts])
    return MetricSums(vector, of_share, of_share[share.index].assign(vector, read_value=False), given, put)


def _is_number(variable: Any) -> bool:
    return bool(variable.shape.is_fully_defined()) and (variable.dtype.is_floating or variable.dtype.is_integer)


def _shared(number: int, size: int) -> Any:
    """In no collection: it has no value until it is handed in."""
    name = f"ps_train/totals/{number}"
    return v1.get_variable(
        name, [size], tf.float64, v1.zeros_initializer(), trainable=False, collections=[], use_resource=True
    )
