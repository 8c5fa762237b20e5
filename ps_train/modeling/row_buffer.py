"""Rows that a metric keeps until its value is computed: (group, score, label), in local variables that grow.

    buffer = row_buffer(labels, scores, groups, max_rows=4_000_000)
    session.run(buffer.update)                      # with each batch
    session.run(buffer.value(lambda ranked: ranked.auc()))

A row takes 16 bytes.  Beyond `max_rows` whole groups are left out: half of the groups, then three quarters, and so on,
chosen by a hash of the group's key.  So all graphs leave out the same groups, and the rows of several shards are those
of one graph that has seen all examples: `merged_rows`.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.unsaved_key import UnsavedKey
from ps_train.modeling.ranking import Ranked

Array = np.ndarray[Any, Any]

log = logging.getLogger(__name__)

_BUFFERS = UnsavedKey("row_buffers")
_FIRST_CAPACITY = 1024
_MOST_HALVINGS = 62
_said = set[tuple[int, int]]()
_LOCAL = [v1.GraphKeys.LOCAL_VARIABLES, v1.GraphKeys.METRIC_VARIABLES]


@dataclasses.dataclass(frozen=True)
class RowBuffer:
    """The kept rows of a graph.

    Attributes:
      rows: variable, int64 [capacity, 2]: the key of the row's group, and its score and label as two float32.
      count: variable, int64 scalar, the number of kept rows.
      halvings: variable, int64 scalar: one of 2**halvings groups is kept.
      max_rows: the most rows to keep.
      update: adds a batch.
    """

    rows: Any
    count: Any
    halvings: Any
    max_rows: int
    update: tf.Operation

    def variables(self) -> list[Any]:
        """Returns the variables of the buffer."""
        return [self.rows, self.count, self.halvings]

    def packed(self) -> tf.Tensor:
        """Returns a header and the kept rows, int64 [1 + count, 2]: all that another graph needs to know."""
        header = tf.stack([self.halvings.read_value(), tf.constant(self.max_rows, tf.int64)])
        return tf.concat([header[tf.newaxis], self.rows.read_value()[: self.count.read_value()]], axis=0)

    def load(self, packed: tf.Tensor) -> tf.Operation:
        """Returns an operation that keeps the rows of `packed` in the place of those that are kept."""
        count = tf.shape(packed, tf.int64)[0] - 1
        return tf.group(
            self.rows.assign(packed[1:], read_value=False),
            self.count.assign(count, read_value=False),
            self.halvings.assign(packed[0, 0], read_value=False),
        )

    def value(self, metric: Callable[[Ranked], float]) -> tf.Tensor:
        """Returns a metric of the kept rows, float64 scalar.

        It is 0 where it is not defined, and NaN where a score or label is, or where no group fits into `max_rows`.
        """

        def compute(packed: Array) -> Array:
            halvings, max_rows = packed[0]
            if halvings:
                _warn_of_sample(int(max_rows), int(halvings), len(packed) - 1)
            scores, labels = np.ascontiguousarray(packed[1:, 1]).view(np.float32).reshape(-1, 2).T
            if np.isnan(scores).any() or np.isnan(labels).any() or (halvings and len(packed) == 1):
                return np.float64(np.nan)
            found = metric(Ranked(labels, scores, packed[1:, 0]))
            return np.float64(0 if np.isnan(found) else found)

        return tf.ensure_shape(tf.numpy_function(compute, [self.packed()], tf.float64), [])


def row_buffer(labels: tf.Tensor, scores: tf.Tensor, groups: tf.Tensor, max_rows: int) -> RowBuffer:
    """Returns the buffer of some tensors, which all metrics of these tensors in the graph share.

    Args:
      labels: a number or truth value for each row.
      scores: a number for each row.
      groups: the key of each row's group: whole numbers, truth values or strings.
      max_rows: the most rows to keep.

    Raises:
      ValueError: an argument has a wrong dtype or shape, or `max_rows` is below 1.
    """
    if max_rows < 1:
        raise ValueError(f"max_rows is {max_rows}: allowed are numbers from 1.")
    labels, scores, groups = (tf.convert_to_tensor(one) for one in (labels, scores, groups))
    known = v1.get_default_graph().get_collection_ref(_BUFFERS)
    given = (labels.ref(), scores.ref(), groups.ref(), max_rows)
    for key, buffer in known:
        if key == given:
            return buffer
    columns = tf.stack([_floats("scores", scores), _floats("labels", labels)], axis=1)
    incoming = tf.stack([_keys(groups), tf.bitcast(columns, tf.int64)], axis=1)
    buffer = _make(incoming, max_rows)
    known.append((given, buffer))
    return buffer


def row_buffers(variables: Sequence[Any]) -> list[RowBuffer]:
    """Returns the buffers of the default graph that have their variables among some."""
    own = {id(variable) for variable in variables}
    return [buffer for _, buffer in v1.get_default_graph().get_collection(_BUFFERS) if id(buffer.rows) in own]


def merged_rows(packed: Sequence[Array]) -> Array:
    """Returns the rows of several shards together, as `RowBuffer.packed` of a graph that has seen all their examples.

    Args:
      packed: of each shard, int64 [1 + count, 2].
    """
    max_rows = int(packed[0][0, 1])
    rows, halvings = np.concatenate([one[1:] for one in packed]), max(int(one[0, 0]) for one in packed)
    rows, halvings = _thinned(rows[_is_kept(rows[:, 0], halvings)], halvings, max_rows)
    return np.concatenate([np.array([[halvings, max_rows]], np.int64), rows])


def _make(incoming: tf.Tensor, max_rows: int) -> RowBuffer:
    with v1.variable_scope(None, default_name="rows"):
        # The shape must not look constant.
        empty = v1.placeholder_with_default(np.zeros([_FIRST_CAPACITY, 2], np.int64), [None, 2], "empty")
        rows = v1.get_variable(
            "rows", initializer=empty, validate_shape=False, trainable=False, collections=_LOCAL, use_resource=True
        )
        count, halvings = (
            v1.get_variable(
                name, [], tf.int64, v1.zeros_initializer(), trainable=False, collections=_LOCAL, use_resource=True
            )
            for name in ("count", "halvings")
        )
    present = halvings.read_value()
    incoming = tf.cond(
        present > 0,
        lambda: _numpy(lambda some, n: some[_is_kept(some[:, 0], int(n))], [incoming, present], [tf.int64])[0],
        lambda: incoming,
    )
    incoming = tf.ensure_shape(incoming, [None, 2])
    before, number = count.read_value(), tf.shape(incoming, tf.int64)[0]
    capacity = tf.raw_ops.VariableShape(input=rows.handle, out_type=tf.int64)[0]  # a read would copy all rows

    def grow() -> tf.Tensor:
        more = tf.maximum(before + number - capacity, tf.minimum(capacity, max_rows))
        grown = tf.concat([rows.read_value(), tf.zeros([more, 2], tf.int64)], axis=0)
        with tf.control_dependencies([rows.assign(grown, read_value=False)]):
            return tf.constant(True)

    def halve() -> tf.Tensor:
        found, n = _numpy(
            lambda some, n: _thinned(some, int(n), max_rows), [rows.read_value()[:after], present], [tf.int64, tf.int64]
        )
        found = tf.ensure_shape(found, [None, 2])
        assigned = [
            rows.assign(found, read_value=False),
            count.assign(tf.shape(found, tf.int64)[0], read_value=False),
            halvings.assign(tf.ensure_shape(n, []), read_value=False),
        ]
        with tf.control_dependencies(assigned):
            return tf.constant(True)

    with tf.control_dependencies([before]):
        has_room = tf.cond(before + number > capacity, grow, lambda: tf.constant(True))
    with tf.control_dependencies([has_room]):
        numbers = tf.range(before, before + number)
        added = tf.raw_ops.ResourceScatterUpdate(resource=rows.handle, indices=numbers, updates=incoming)
    with tf.control_dependencies([added]):
        after = count.assign_add(number, read_value=True)
    with tf.control_dependencies([after]):
        fits = tf.cond(after > max_rows, halve, lambda: tf.constant(True))
    return RowBuffer(rows, count, halvings, max_rows, tf.group(fits))


def _numpy(function: Callable[..., Any], inputs: Sequence[tf.Tensor], dtypes: Sequence[tf.DType]) -> list[tf.Tensor]:
    def call(*given: Array) -> list[Array]:
        found = function(*given)
        found = found if isinstance(found, tuple) else (found,)
        return [np.asarray(one, dtype.as_numpy_dtype) for one, dtype in zip(found, dtypes, strict=True)]

    return tf.numpy_function(call, inputs, dtypes)


def _floats(name: str, values: tf.Tensor) -> tf.Tensor:
    if not (values.dtype.is_floating or values.dtype.is_integer or values.dtype.is_bool):
        raise ValueError(f"{name} is {values.dtype.name}: use numbers.")
    return tf.reshape(tf.cast(values, tf.float32), [-1])


def _keys(groups: tf.Tensor) -> tf.Tensor:
    if groups.dtype == tf.string:
        groups = tf.strings.to_hash_bucket_fast(groups, np.iinfo(np.int64).max)
    elif not (groups.dtype.is_integer or groups.dtype.is_bool):
        raise ValueError(f"groups is {groups.dtype.name}: use whole numbers or strings.")
    return tf.reshape(tf.cast(groups, tf.int64), [-1])


def _is_kept(keys: Array, halvings: int) -> Array:
    """Returns for each row whether its group is among the one of 2**halvings that are kept."""
    return _mixed(keys) >> np.uint64(64 - halvings) == 0 if halvings else np.ones(len(keys), bool)


def _thinned(rows: Array, halvings: int, max_rows: int) -> tuple[Array, int]:
    """Returns the rows of as many groups as `max_rows` allows, and the number of halvings."""
    while len(rows) > max_rows and halvings < _MOST_HALVINGS:
        halvings += 1
        rows = rows[_is_kept(rows[:, 0], halvings)]
    return rows, halvings


def _mixed(keys: Array) -> Array:
    """Returns numbers that depend on all bits of the keys: the last part of SplitMix64 (Steele et al. 2014)."""
    with np.errstate(over="ignore"):
        bits = keys.astype(np.int64).view(np.uint64)
        bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return bits ^ (bits >> np.uint64(31))


def _warn_of_sample(max_rows: int, halvings: int, left: int) -> None:
    if (max_rows, halvings) in _said:
        return
    _said.add((max_rows, halvings))
    if not left:
        log.warning(
            "groups are so large that none is left within %d rows (max_rows): metrics within groups are NaN; use a "
            "larger max_rows, at 16 bytes a row", max_rows,
        )  # fmt: skip
        return
    log.warning(
        "there are more than %d rows (max_rows): metrics within groups are of a sample, 1 in %d groups, with all "
        "rows of these; a larger max_rows takes more, at 16 bytes a row", max_rows, 1 << halvings,
    )  # fmt: skip
