"""A traced step of Keras in the training graph of a worker.

    placed = PlacedStep(step, sums=0, by_rows=True)
    loss = placed.loss([x, y])                  # in the default graph
    gradients = placed.gradients(variables)     # of that loss, for `Model.compute_gradients`

Trained variables are asked for by `get_variable`, so the engine may give their pulled values.  The module does not know
where batches come from.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.console import human_bytes
from ps_train.modeling.keras.loss_scale import LossScale
from ps_train.modeling.keras.portable_graph import Rows, Use
from ps_train.modeling.keras.traced_step import FIXED, SCALE, STATE, SUM, TRAINED, TracedStep, TracedVariable
from ps_train.modeling.keras.update_rules import scaled
from ps_train.modeling.model import SKIPPED, SUMS
from ps_train.modeling.replica import replica_index
from ps_train.modeling.tables.row_index import row_indices
from ps_train.modeling.tables.row_source import rows_at
from ps_train.modeling.tables.table import Table

_KEYS = v1.GraphKeys

_APART = 1_000_003
"""Difference of the seeds of two workers."""

TABLE_BYTES = 1 << 20
"""Bytes from which on only the rows of a variable travel that a batch reads, where nothing else reads it."""


class PlacedStep:
    """A traced step, which may be placed in several graphs.

    Args:
      step: the step.
      sums: number of the values that all workers add up; 0 if they add up nothing.
      by_rows: True if only rows of large embeddings travel, where that is possible.

    Attributes:
      tables: names of the variables of which only rows travel.
    """

    def __init__(self, step: TracedStep, sums: int, by_rows: bool) -> None:
        self._step, self._sums, self._by_rows = step, sums, by_rows
        self._gradients: dict[str, Any] = {}
        self._tables: dict[str, Rows] = {}
        used = zip(step.variables, step.graph.uses, strict=True) if by_rows else ()
        self.tables = frozenset(one.key for one, use in used if use and self._is_table(one, use))

    def loss(self, arguments: Sequence[tf.Tensor]) -> tf.Tensor:
        """Returns the loss of a batch; its gradients are kept for `gradients`.

        Args:
          arguments: the tensors of the batch, in the order of their names.
        """
        begun: list[tf.Operation] = []
        scale = None if self._step.rules.loss_scale is None else _Scale(self._step.rules.loss_scale)
        used = zip(self._step.variables, self._step.graph.uses, strict=True)
        given = [self._given(one, use, begun, scale) for one, use in used if use is not None]
        self._tables = {
            one.key: rows for one, rows in zip(self._step.variables, given, strict=True) if isinstance(rows, Rows)
        }
        with tf.control_dependencies(begun):
            ready = tf.no_op()
        (loss, *gradients), effects, assigned = self._step.graph.place(arguments, given, "keras", ready)
        for effect in effects:
            v1.add_to_collection(_KEYS.UPDATE_OPS, effect)
        if self._sums:
            with tf.control_dependencies([*effects, loss]):
                parts = [
                    (variable.read_value() if value is None else value) - one.value
                    for one, variable, value in zip(self._step.variables, given, assigned, strict=True)
                    if one.role == SUM
                ]
            v1.add_to_collection(SUMS, tf.concat([tf.reshape(tf.cast(one, tf.float32), [-1]) for one in parts], 0))
        self._gradients = self._by_name(gradients)
        if scale is not None:
            self._gradients = scale.unscaled(self._gradients)
            v1.add_to_collection(SKIPPED, ~scale.is_finite)
            v1.add_to_collection(_KEYS.UPDATE_OPS, scale.updated)
        return loss

    def gradients(self, variables: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the gradients of the last loss.

        Args:
          variables: name to the value from which the loss was computed; for a table, to the rows that were looked up.
        """
        found = dict(self._step.rules.on_worker(self._gradients))
        for key, gradient in found.items():
            if key in self._tables:
                found[key] = _row_gradient(self._tables[key], gradient, variables[key])
            elif isinstance(gradient, tf.IndexedSlices):  # the rule is that of all rows, as in Keras
                rows = variables[key].shape[0]
                found[key] = tf.math.unsorted_segment_sum(gradient.values, gradient.indices, rows)
        return found

    def _given(self, one: TracedVariable, use: Use, begun: list[tf.Operation], scale: _Scale | None) -> Any:
        """Returns a variable, or what takes its place; adds to `begun` what must run before it is used."""
        if one.role == SCALE and scale is not None:
            return scale.value if use.by_value else scale.variable
        if one.role == SUM and use.by_value:
            return tf.constant(one.value)
        if one.role == SUM:
            sums = _own(f"ps_train_sum/{one.key}", one.value)
            begun.append(sums.assign(one.value, read_value=False))
            return sums
        if one.role == STATE:
            state = v1.get_variable(one.key, initializer=one.value, trainable=False, use_resource=True)
            if one.is_seed and replica_index():  # or all workers would draw the same numbers
                apart = np.array([replica_index() * _APART, 0], one.value.dtype)
                begun.append(state.assign(state.read_value() + apart, read_value=False))
            return state
        if one.role == FIXED:
            return self._fixed(one)
        if one.key in self.tables:
            return rows_of(one.key, one.value.shape, use, one.value)
        variable = v1.get_variable(one.key, **self._initial(one), use_resource=True)
        value = tf.convert_to_tensor(variable)
        if use.by_value:
            return value
        here = _own(f"ps_train_here/{one.key}", np.zeros(one.value.shape, one.value.dtype))
        begun.append(here.assign(value, read_value=False))
        return here

    def notes(self) -> list[str]:
        """Returns a line for each table that Keras updates otherwise, and for each large embedding that is none."""
        found, rules = list[str](), self._step.rules
        for one, use in zip(self._step.variables, self._step.graph.uses, strict=True):
            if use is None or one.role != TRAINED:
                continue
            if one.key in self.tables:
                moves = [rules.moves_unseen_rows(one.key), rules.moves_unseen_slots(one.key)]
                if any(moves):
                    what = "values and slots" if all(moves) else "values" if moves[0] else "slots"
                    found.append(
                        f"{one.key} is updated by rows: {rules.optimizer_name} in Keras also changes {what} of rows "
                        "that a batch does not read; --keras_tables=dense does that too, and takes longer"
                    )
            elif self._by_rows and is_matrix(use) and (reason := self._why_whole(one, use)):
                found.append(f"{one.key} ({human_bytes(one.value.nbytes)}) travels whole at every step: {reason}")
        return found

    def _why_whole(self, one: TracedVariable, use: Use) -> str:
        """Returns why an embedding is no table; "" for a variable that is no embedding."""
        if others := self._step.graph.whole_readers(use):
            return f"{others[0]} reads all rows"
        return self._step.rules.why_dense(one.key) if use.gathers and one.gradient else ""

    def _is_table(self, one: TracedVariable, use: Use) -> bool:
        """Returns True for a variable of which only rows travel."""
        return is_large(use) and one.role == TRAINED and one.is_sparse and self._step.rules.allows_rows(one.key)

    def _initial(self, one: TracedVariable) -> dict[str, Any]:
        """Returns the initial value; with a shape, by which it may be divided, unless its rule needs it whole."""
        if one.key in self._step.rules.not_divisible:
            return {"initializer": one.value}
        dtype = tf.as_dtype(one.value.dtype)
        return {"initializer": v1.constant_initializer(one.value), "shape": one.value.shape, "dtype": dtype}

    def _fixed(self, one: TracedVariable) -> Any:
        """Returns this worker's copy of a variable that no step changes, read once in a session."""
        on_ps = v1.get_variable(one.key, initializer=one.value, trainable=False, use_resource=True)
        with tf.init_scope():
            value = tf.convert_to_tensor(on_ps)  # outside of the initializer, which runs on this worker

        return v1.get_variable(
            f"ps_train_here/{one.key}",
            shape=one.value.shape,
            dtype=tf.as_dtype(one.value.dtype),
            initializer=lambda *_, **__: value,
            trainable=False,
            use_resource=True,
            collections=[_KEYS.LOCAL_VARIABLES],
        )

    def _by_name(self, gradients: Sequence[tf.Tensor]) -> dict[str, Any]:
        """Returns the gradient of each trained variable; its places count the loss too."""
        found: dict[str, Any] = {}
        for one in self._step.variables:
            if one.role == TRAINED and one.gradient:
                parts = [gradients[place - 1] for place in one.gradient]
                found[one.key] = tf.IndexedSlices(*parts) if one.is_sparse else parts[0]
        return found


class _Scale:
    """The factor of the loss on this worker, which halves where a gradient is not finite.

    Attributes:
      variable: the factor.
      value: the factor of this step.
      is_finite: bool scalar, after `unscaled`: True if all gradients are finite.
      updated: after `unscaled`, the operation that sets the factor of the next step.
    """

    is_finite: tf.Tensor
    updated: tf.Operation

    def __init__(self, scale: LossScale) -> None:
        self._scale = scale
        self.variable = _own("ps_train_scale/factor", np.float32(scale.scale))
        self._counter = _own("ps_train_scale/good_steps", np.int32(scale.counter))
        self.value, self._count = self.variable.read_value(), self._counter.read_value()

    def unscaled(self, gradients: Mapping[str, Any]) -> dict[str, Any]:
        """Returns gradients of the loss from those of the scaled loss."""
        values = [one.values if isinstance(one, tf.IndexedSlices) else one for one in gradients.values()]
        self.is_finite = tf.reduce_all(tf.stack([tf.reduce_all(tf.math.is_finite(one)) for one in values]))
        scale, count = self._scale.following(self.value, self._count, self.is_finite)
        self.updated = tf.group(
            self.variable.assign(scale, read_value=False), self._counter.assign(count, read_value=False)
        )
        return {name: scaled(one, 1 / self.value) for name, one in gradients.items()}


def rows_of(key: str, shape: tuple[int, ...], use: Use, initializer: Any = None) -> Rows:
    """Returns the rows of a variable, as a table of this name.

    Args:
      key: name of the variable.
      shape: its shape.
      use: how a graph uses it.
      initializer: its initial value; None where it has one.
    """
    table = _KerasTable(key, shape[1], rows=shape[0], initializer=initializer)
    return Rows(lambda ids: rows_at(table, row_indices(table, ids, _out_of_range)).rows, len(use.gathers))


def is_large(use: Use) -> bool:
    """Returns True for a variable that is large enough to be a table, and of which only rows are read."""
    return is_matrix(use) and bool(use.gathers)


def is_matrix(use: Use) -> bool:
    """Returns True for a variable that has the size and the shape of a table."""
    return len(use.shape) == 2 and math.prod(use.shape) * tf.as_dtype(use.dtype).size >= TABLE_BYTES


def _out_of_range(wrong: Any) -> Any:
    """Returns the examples with wrong indices, for the error; they have no fields."""
    return wrong, None


class _KerasTable(Table):
    """The table behind a variable of Keras; its rows keep their order."""

    has_natural_order: ClassVar[bool] = True


def _own(name: str, value: np.ndarray[Any, Any]) -> Any:
    """Returns a variable of this worker's own."""
    return v1.get_variable(
        name,
        initializer=np.array(value),
        trainable=False,
        use_resource=True,
        collections=[_KEYS.LOCAL_VARIABLES],
    )


def _row_gradient(rows: Rows, slices: tf.IndexedSlices, source: Any) -> Any:
    """Returns the gradient for the rows of a table, from that for the variable.

    Args:
      rows: what was fetched.
      slices: the gradient by the indices of the table.
      source: that of which the fetched rows are a function.
    """
    ((ids, fetched),) = rows.fetched[-1:]
    if rows.reads == 1:  # each fetched row has its gradient, in their order
        return tf.gradients(fetched, [source], grad_ys=[slices.values])[0]
    number = tf.size(ids)
    distinct, place = tf.unique(tf.concat([tf.cast(ids, tf.int64), tf.cast(slices.indices, tf.int64)], 0))
    total = tf.math.unsorted_segment_sum(slices.values, place[number:], tf.size(distinct))
    times = tf.math.unsorted_segment_sum(tf.ones([number]), place[:number], tf.size(distinct))
    shares = tf.gather(total, place[:number]) / tf.gather(times, place[:number])[:, tf.newaxis]
    return tf.gradients(fetched, [source], grad_ys=[shares])[0]
