"""A Keras model that was traced, as a model of the engine.  It needs no Keras.

    python -m ps_train --model=ps_train.modeling.keras.sent_model:SentKerasModel --model_arg=path=DIR ...

The features of this model are whole batches, because a step of Keras has its labels and weights among them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.errors import ModelError
from ps_train.data.arrays import Batch, DealtBatches
from ps_train.data.sent.sent_data import SentData
from ps_train.modeling.keras.portable_graph import Rows, Use
from ps_train.modeling.keras.traced_step import FIXED, STATE, SUM, TRAINED, TracedStep, TracedVariable
from ps_train.modeling.model import SUMS, Model
from ps_train.modeling.tables.row_index import row_indices
from ps_train.modeling.tables.row_source import rows_at
from ps_train.modeling.tables.table import Table

_KEYS = v1.GraphKeys

SETTINGS = "settings.json"

_APART = 1_000_003
"""Difference of the seeds of two workers."""

TABLE_BYTES = 1 << 20
"""Bytes from which on only the rows of a variable travel that a batch reads, where nothing else reads it."""


def write_settings(directory: str, deals: bool) -> None:
    """Writes what `SentKerasModel` needs to know beside step and data."""
    with open(os.path.join(directory, SETTINGS), "w") as file:
        json.dump({"deals": deals}, file)


class TracedKerasModel(Model):
    """A model that computes a traced step.

    Args:
      step: the step.
    """

    has_epochs = True
    default_learning_rate = 1.0  # a factor of the optimizer's own rate
    gives_advice = False

    def __init__(self, step: TracedStep) -> None:
        self._step = step
        self.sums = sum(int(np.prod(one.value.shape)) for one in step.sums())
        self._gradients: dict[str, Any] = {}
        self._tables: dict[str, Rows] = {}
        self._index = 0

    def batches_of(self, data: SentData, deals: bool) -> DealtBatches:
        """Returns the batches of a fit, of which each worker gets its part.

        Args:
          data: the data.
          deals: True if a batch is of one worker; else all workers take parts of it.
        """

        def deal(count: int, index: int, start: tf.Tensor) -> tf.data.Dataset:
            self._index = index
            return data.batches(count, index, deals, start)

        return DealtBatches(deal)

    def forward(self, features: Batch, training: bool) -> Any:
        """Returns the loss of a batch; its gradients are kept for `compute_gradients`."""
        if not training:
            raise ModelError("a traced step of Keras only trains: score with model.evaluate() or model.predict().")
        arguments = [one for one in tf.nest.flatten(features.features, expand_composites=True) if one is not None]
        begun: list[tf.Operation] = []
        used = zip(self._step.variables, self._step.graph.uses, strict=True)
        given = [self._given(one, use, begun) for one, use in used if use is not None]
        sums = [(one, variable) for one, variable in zip(self._step.variables, given, strict=True) if one.role == SUM]
        self._tables = {
            one.key: rows for one, rows in zip(self._step.variables, given, strict=True) if isinstance(rows, Rows)
        }
        with tf.control_dependencies(begun):
            ready = tf.no_op()
        (loss, *gradients), effects = self._step.graph.place(arguments, given, "keras", ready)
        for effect in effects:
            v1.add_to_collection(_KEYS.UPDATE_OPS, effect)
        with tf.control_dependencies([*effects, loss]):
            added = [variable.read_value() - one.value for one, variable in sums]
        if added:
            v1.add_to_collection(SUMS, tf.concat([tf.reshape(tf.cast(one, tf.float32), [-1]) for one in added], 0))
        self._gradients = self._by_name(gradients)
        return loss

    def loss(self, outputs: Any, labels: Any) -> tf.Tensor:
        """Returns the loss that `forward` returned."""
        return outputs

    def compute_gradients(self, loss: Any, variables: Mapping[str, Any]) -> Mapping[str, Any]:
        """Returns the gradients of the last call of `forward`."""
        found = dict(self._step.rules.on_worker(self._gradients))
        for key, rows in self._tables.items():
            if key in found:
                found[key] = _row_gradient(rows, found[key], variables[key])
        return found

    def optimizer(self, name: str, learning_rate: Any) -> Any:
        """Returns the traced updates for the current ps."""
        return self._step.rules.optimizer(learning_rate, v1.train.get_or_create_global_step())

    def _given(self, one: TracedVariable, use: Use, begun: list[tf.Operation]) -> Any:
        """Returns a variable, or what takes its place; adds to `begun` what must run before it is used."""
        if one.role == SUM:
            sums = _own(f"ps_train_sum/{one.key}", one.value)
            begun.append(sums.assign(one.value, read_value=False))
            return sums
        if one.role == STATE:
            state = v1.get_variable(one.key, initializer=one.value, trainable=False, use_resource=True)
            if one.is_seed and self._index:  # or all workers would draw the same numbers
                apart = np.array([self._index * _APART, 0], one.value.dtype)
                begun.append(state.assign(state.read_value() + apart, read_value=False))
            return state
        if one.role == FIXED:
            return self._fixed(one)
        if self._is_table(one, use):
            table = _KerasTable(one.key, one.value.shape[1], rows=one.value.shape[0], initializer=one.value)
            return Rows(lambda ids: rows_at(table, row_indices(table, ids, _out_of_range)).rows, len(use.gathers))
        variable = v1.get_variable(one.key, **self._initial(one), use_resource=True)
        value = tf.convert_to_tensor(variable)
        if use.by_value:
            return value
        here = _own(f"ps_train_here/{one.key}", np.zeros(one.value.shape, one.value.dtype))
        begun.append(here.assign(value, read_value=False))
        return here

    def _is_table(self, one: TracedVariable, use: Use) -> bool:
        """Returns True for a variable of which only rows travel."""
        is_large = one.value.nbytes >= TABLE_BYTES and one.value.ndim == 2
        return bool(is_large and use.gathers and one.is_sparse and self._step.rules.allows_rows(one.key))

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


class SentKerasModel(TracedKerasModel):
    """A model in a directory: its step, and the data of the fit.

    Args:
      path: the directory.
    """

    def __init__(self, path: str) -> None:
        super().__init__(TracedStep.read(path))
        self._path = path

    def data(self, split: str, data_dir: str) -> Any:
        """Returns the batches of the fit; there is no test split."""
        with open(os.path.join(self._path, SETTINGS)) as file:
            settings = json.load(file)
        return self.batches_of(SentData.read(self._path), settings["deals"]) if split == "train" else None
