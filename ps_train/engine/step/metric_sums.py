"""Totals of a model's metrics, put together over the shards of the test data.

    sums = make_metric_sums(count, metric_variables, DataShard(1, 3))   # None if the variables cannot be put together
    session.run(sums.publish)                                           # writes this shard's totals to ps 0
    totals = [session.run(sums.own), session.run(sums.of_shard[2])]     # this shard's totals, and those of another one
    session.run(sums.load, sums.feeds(totals))                          # the metrics have now the values of both

TensorFlow's metrics keep sums over examples in variables.  The sums of all shards together give the metric of all
examples.  Operations that write to a variable show what it keeps: a sum, a maximum or a minimum.  Metrics within groups
keep rows (`modeling/row_buffer.py`), which are concatenated.
"""

from __future__ import annotations

import dataclasses
import logging
import math
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.data.data_shard import DataShard
from ps_train.engine.variables.variables import ps_device
from ps_train.modeling.row_buffer import merged_rows, row_buffers

log = logging.getLogger(__name__)

_SUM, _MAXIMUM, _MINIMUM = "sum", "maximum", "minimum"
_ADDS = ("AssignAddVariableOp", "AssignSubVariableOp", "ResourceScatterAdd", "ResourceScatterSub")
_SCATTERS = {"ResourceScatterMax": _MAXIMUM, "ResourceScatterMin": _MINIMUM}
_OF_BOTH = {"Add": _SUM, "AddV2": _SUM, "Maximum": _MAXIMUM, "Minimum": _MINIMUM}
"""Type of an operation on the old value and a new one, to what a variable keeps to which its result is assigned."""

_READS = ("ReadVariableOp", "ResourceGather", "ResourceGatherNd", "VariableShape", "VarIsInitializedOp")


Totals = list[np.ndarray[Any, Any]]
"""The totals of a shard: float64 [n], all sums, maxima and minima; then for each buffer of rows int64 [1 + rows, 2]."""


@dataclasses.dataclass(frozen=True)
class MetricSums:
    """The totals of one shard, and the operations that exchange them.

    Attributes:
      own: the totals of this graph's shard, as tensors.
      kinds: for each number of the first of these, what it is: "sum", "maximum" or "minimum".
      of_shard: for each shard variables on ps 0 with its totals.
      publish: writes this graph's totals to its variables on ps 0.
      given: placeholders for totals.
      load: assigns the fed totals to the metric variables of this graph.
    """

    own: list[tf.Tensor]
    kinds: np.ndarray[Any, Any]
    of_shard: list[list[Any]]
    publish: tf.Operation
    given: list[tf.Tensor]
    load: tf.Operation

    def merged(self, totals: Sequence[Totals]) -> Totals:
        """Returns the totals of several shards together."""
        numbers, *rows = zip(*totals, strict=True)
        stacked = np.stack(numbers)
        found = np.where(self.kinds == _MAXIMUM, stacked.max(0), stacked.min(0))
        return [np.where(self.kinds == _SUM, stacked.sum(0), found), *map(merged_rows, rows)]

    def feeds(self, totals: Sequence[Totals]) -> dict[Any, Any]:
        """Returns the feeds with which `load` loads the totals of several shards."""
        return dict(zip(self.given, self.merged(totals), strict=True))


def make_count(name: str = "ps_train/scored") -> Any:
    """Makes a variable that counts examples; like a metric it is a sum that begins at zero."""
    collections = [v1.GraphKeys.LOCAL_VARIABLES, v1.GraphKeys.METRIC_VARIABLES]
    zero = tf.zeros([], tf.float64)
    return v1.Variable(zero, trainable=False, collections=collections, name=name, use_resource=True)


def make_metric_sums(
    count: Any, variables: Sequence[Any], shard: DataShard, has_own_batches: bool = False
) -> MetricSums | None:
    """Returns the totals of some metric variables, or None if a variable keeps something else.

    A mean over batches, such as `tf.compat.v1.metrics.mean` of a scalar or `mean_tensor`, depends on how the examples
    are divided into batches.

    Args:
      count: the variable that counts examples.
      variables: the local variables that the model's metrics made.
      shard: the shard of the test data that this graph scores.
      has_own_batches: True if the batches of a shard are not some of those of all test data.
    """
    metric_ids = {id(variable) for variable in v1.get_collection(v1.GraphKeys.METRIC_VARIABLES)}
    buffers = row_buffers(variables)
    of_buffers = {id(variable) for buffer in buffers for variable in buffer.variables()}
    variables = [variable for variable in variables if id(variable) not in of_buffers]
    if not (variables or buffers) or not all(id(one) in metric_ids and _is_number(one) for one in variables):
        return None
    handles = {variable.handle.ref() for variable in variables}
    found = [_kind_of(variable, handles) for variable in variables]
    if None in found:
        name = variables[found.index(None)].op.name
        log.info("the metrics' variable %s is not a sum, maximum or minimum: the chief scores alone", name)
        return None
    of_batches = [variable.op.name for variable in variables if has_own_batches and _counts_batches(variable)]
    if of_batches:
        log.info("the metrics' variable %s counts batches: the chief scores alone", of_batches[0])
        return None
    variables, kinds = [count, *variables], np.array([_SUM, *found])
    shapes = [variable.shape.as_list() for variable in variables]
    sizes = [math.prod(shape) for shape in shapes]
    vector = tf.concat([tf.cast(tf.reshape(v.read_value(), [-1]), tf.float64) for v in variables], axis=0)
    own = [vector, *(buffer.packed() for buffer in buffers)]
    with tf.device(ps_device(0)):
        of_shard = [_shard_variables(number, own) for number in range(shard.count)]
    given = [v1.placeholder(one.dtype, one.shape, "given_totals") for one in own]
    parts = zip(variables, shapes, tf.split(given[0], sizes), strict=True)
    load = [v.assign(tf.cast(tf.reshape(part, shape), v.dtype)) for v, shape, part in parts]
    load += [buffer.load(rows) for buffer, rows in zip(buffers, given[1:], strict=True)]
    publish = [v.assign(one, read_value=False) for v, one in zip(of_shard[shard.index], own, strict=True)]
    return MetricSums(own, np.repeat(kinds, sizes), of_shard, tf.group(*publish), given, tf.group(*load))


def _counts_batches(variable: Any) -> bool:
    """Returns True if each batch adds the same constant to a variable, as in a mean over batches."""
    added = [
        tf.get_static_value(tensor)
        for op in _writers(variable)
        for tensor in ([op.inputs[-1]] if op.type in _ADDS else _source(op.inputs[-1]).op.inputs)
    ]
    return any(value is not None and np.any(value) for value in added)


def _writers(variable: Any) -> list[tf.Operation]:
    return [op for op in variable.handle.consumers() if op is not variable.initializer and op.type not in _READS]


def _kind_of(variable: Any, handles: Collection[Any]) -> str | None:
    """Returns what a variable keeps, or None if the operations that write to it do not show it."""
    kinds = {_kind_of_write(op, variable.handle, handles) for op in _writers(variable)}
    if len(kinds) != 1:
        return None
    (kind,) = kinds
    return None if kind == _SUM and not _begins_at_zero(variable) else kind


def _kind_of_write(op: tf.Operation, handle: tf.Tensor, handles: Collection[Any]) -> str | None:
    value = op.inputs[-1]
    if op.type in _ADDS or op.type in _SCATTERS:
        return None if _depends(value, handles) else _SCATTERS.get(op.type, _SUM)
    if op.type != "AssignVariableOp" or (kind := _OF_BOTH.get(_source(value).op.type)) is None:
        return None
    old, new = _source(value).op.inputs
    if not _reads(old, handle):
        old, new = new, old
    return kind if _reads(old, handle) and not _depends(new, handles) else None


def _source(tensor: tf.Tensor) -> tf.Tensor:
    while tensor.op.type == "Identity":
        tensor = tensor.op.inputs[0]
    return tensor


def _reads(tensor: tf.Tensor, handle: tf.Tensor) -> bool:
    op = _source(tensor).op
    return op.type == "ReadVariableOp" and op.inputs[0] is handle


def _depends(tensor: tf.Tensor, handles: Collection[Any]) -> bool:
    """Returns True if a value depends on metric variables: what is added is then no fact of a batch alone."""
    return any(one.ref() in handles for one in _ancestors(tensor))


def _ancestors(tensor: tf.Tensor) -> Iterator[tf.Tensor]:
    seen, pending = set(), [tensor]
    while pending:
        current = pending.pop()
        if current.ref() not in seen:
            seen.add(current.ref())
            yield current
            pending += list(current.op.inputs)


def _begins_at_zero(variable: Any) -> bool:
    value = tf.get_static_value(variable.initial_value)
    return value is not None and not np.any(value)


def _is_number(variable: Any) -> bool:
    return bool(variable.shape.is_fully_defined()) and (variable.dtype.is_floating or variable.dtype.is_integer)


def _shard_variables(number: int, totals: Sequence[tf.Tensor]) -> list[Any]:
    """Makes variables in no collection, because they have no value until they are published."""
    options: dict[str, Any] = {"trainable": False, "collections": [], "use_resource": True}
    name, (vector, *rows) = f"ps_train/totals/{number}", totals
    made = [v1.get_variable(name, vector.shape, vector.dtype, v1.zeros_initializer(), **options)]
    for index, some in enumerate(rows):
        # The number of rows must not look constant.
        empty = v1.placeholder_with_default(tf.zeros([0, some.shape[1]], some.dtype), some.shape)
        made.append(v1.get_variable(f"{name}/rows/{index}", initializer=empty, validate_shape=False, **options))
    return made
