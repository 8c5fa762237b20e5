"""A Keras model's `test_step` and `predict_step`, traced eagerly, in graphs that score or serve a checkpoint.

    scoring = trace_scoring(model, (x, y))               # x, y: TensorSpecs
    pairs = scoring.metrics([x, y], tables=())           # name to (value, update), in the default graph
    prediction = trace_prediction(model, x)
    outputs = prediction.outputs([x], tables=None)       # name to tensor

The model's variables are asked for by `get_variable`.  Those of metrics are the graph's own, and begin anew in it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.errors import ModelError
from ps_train.base.user_code import user_code
from ps_train.modeling.keras.placed_step import is_large, rows_of
from ps_train.modeling.keras.portable_graph import PortableGraph, Use
from ps_train.modeling.keras.traced_step import keys_of, metric_starts
from ps_train.modeling.keras.tracing import traced_built

_KEYS = v1.GraphKeys

_READ, _METRIC, _OWN = "read", "metric", "own"
"""The roles of variables: of the checkpoint, of a metric, or assigned by each process for itself."""


@dataclasses.dataclass(frozen=True)
class _Variable:
    """A variable of a traced function.

    Attributes:
      key: its name in checkpoints.
      role: _READ, _METRIC or _OWN.
      start: the value that it begins with; None for one that is read.
    """

    key: str
    role: str
    start: np.ndarray[Any, Any] | None = None


@dataclasses.dataclass(frozen=True)
class _Function:
    """A traced function with its variables, those that it uses."""

    graph: PortableGraph
    variables: tuple[_Variable, ...]

    @classmethod
    def of(cls, model: Any, function: Any, starts: Mapping[int, np.ndarray[Any, Any]]) -> _Function:
        """Returns a concrete function.

        Args:
          model: the model whose method it is.
          function: the function.
          starts: the first value of each variable of a metric, by the id of the variable.
        """
        keys = keys_of(model, function.graph.variables)
        captured = {id(one): one for one in function.graph.variables}
        used = [captured[one] for one in keys if one in captured]
        graph = PortableGraph.of(function, used)
        pairs = [(one, use) for one, use in zip(used, graph.uses, strict=True) if use is not None]
        found = []
        for one, use in pairs:
            key = keys[id(one)]
            if id(one) in starts:
                found.append(_Variable(key, _METRIC, starts[id(one)]))
            else:
                found.append(_Variable(key, _OWN, one.numpy()) if use.assigned else _Variable(key, _READ))
        return cls(dataclasses.replace(graph, uses=tuple(use for _, use in pairs)), tuple(found))

    def place(
        self, arguments: Sequence[tf.Tensor], tables: Collection[str] | None, name: str
    ) -> tuple[list[tf.Tensor], list[Any]]:
        """Imports the function into the default graph; returns its results and the operations of its effects.

        Args:
          arguments: its arguments.
          tables: names of the variables of which only rows are read; None: the large ones of which it reads no more.
          name: a name scope.
        """
        begun: list[tf.Operation] = []
        given = [self._given(one, use, tables, begun) for one, use in self._used()]
        with tf.control_dependencies(begun):
            ready = tf.no_op()
        results, effects, _ = self.graph.place(arguments, given, name, ready)
        return results, effects

    def _used(self) -> Iterator[tuple[_Variable, Use]]:
        for one, use in zip(self.variables, self.graph.uses, strict=True):
            if use is not None:
                yield one, use

    def _given(self, one: _Variable, use: Use, tables: Collection[str] | None, begun: list[tf.Operation]) -> Any:
        """Returns a variable, or what takes its place; adds to `begun` what must run before it is used."""
        if one.role != _READ:
            of_metric = [_KEYS.METRIC_VARIABLES] if one.role == _METRIC else []
            return v1.get_variable(
                f"ps_train_{one.role}/{one.key}",
                initializer=np.array(one.start),
                trainable=False,
                use_resource=True,
                collections=[_KEYS.LOCAL_VARIABLES, *of_metric],
            )
        if one.key in tables if tables is not None else is_large(use):
            if not use.gathers:
                raise ModelError(
                    f"variable {one.key} is used whole outside of training, but only its rows travel in training: use "
                    "only rows of it."
                )
            return rows_of(one.key, use.shape, use)
        with v1.variable_scope(v1.get_variable_scope(), reuse=v1.AUTO_REUSE):  # metrics and predictions read it
            variable = v1.get_variable(
                one.key, use.shape, tf.as_dtype(use.dtype), v1.zeros_initializer(), trainable=False, use_resource=True
            )
        value = tf.convert_to_tensor(variable)
        return value if use.by_value else _copy(one.key, value, begun)


def _copy(key: str, value: tf.Tensor, begun: list[tf.Operation]) -> Any:
    """Returns a variable that gets a value before each use, so it needs no initializer and is in no collection."""
    copy = v1.get_variable(
        f"ps_train_read/{key}",
        value.shape,
        value.dtype,
        v1.zeros_initializer(),
        trainable=False,
        use_resource=True,
        collections=[_KEYS.LOCAL_VARIABLES],
    )
    local = v1.get_default_graph().get_collection_ref(_KEYS.LOCAL_VARIABLES)
    local[:] = [one for one in local if one is not copy]
    begun.append(tf.raw_ops.AssignVariableOp(resource=copy.handle, value=value))
    return copy


@dataclasses.dataclass(frozen=True)
class TracedScoring:
    """A `test_step`, and what it has measured.

    Attributes:
      step: adds a batch to the metrics.
      results: returns the values of the metrics.
      names: the names of these values.
    """

    step: _Function
    results: _Function
    names: tuple[str, ...]

    def metrics(
        self, arguments: Sequence[tf.Tensor], tables: Collection[str] | None
    ) -> dict[str, tuple[tf.Tensor, tf.Operation]]:
        """Returns name to `(value, update)`; see `Model.metrics`.

        Args:
          arguments: the tensors of the batch, in the order of their names.
          tables: see `_Function.place`.
        """
        _, effects = self.step.place(arguments, tables, "keras_test")
        update = tf.group(*effects)
        values, _ = self.results.place([], tables, "keras_results")
        return {name: (value, update) for name, value in zip(self.names, values, strict=True)}


def trace_scoring(model: Any, batch: Any) -> TracedScoring:
    """Traces the scoring of a compiled model; its variables keep their values.

    Args:
      model: the model; layers and metrics that have no variables yet get them.
      batch: what `test_step` gets, a structure of TensorSpecs.
    """

    def step(data: Any) -> None:
        model.test_step(data)

    def traced() -> Any:
        with user_code("test_step()"):
            return tf.function(step, autograph=False).get_concrete_function(batch)

    function = traced_built(model, traced)
    names: list[str] = []

    def results() -> list[tf.Tensor]:
        found = dict(_leaves(model.get_metrics_result()))
        names[:] = found
        return [tf.convert_to_tensor(value) for value in found.values()]

    with user_code("get_metrics_result()"):
        measured = tf.function(results, autograph=False).get_concrete_function()
    starts = metric_starts(model)
    return TracedScoring(_Function.of(model, function, starts), _Function.of(model, measured, starts), tuple(names))


def _leaves(values: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yields the values of nested dicts, with a slash before each further level."""
    if isinstance(values, Mapping):
        for key, value in values.items():
            yield from _leaves(value, f"{name}/{key}" if name else str(key))
    else:
        yield name, values


@dataclasses.dataclass(frozen=True)
class TracedPrediction:
    """A `predict_step`.

    Attributes:
      step: returns the outputs.
      names: the names of these outputs.
    """

    step: _Function
    names: tuple[str, ...]

    def outputs(self, arguments: Sequence[tf.Tensor], tables: Collection[str] | None) -> dict[str, tf.Tensor]:
        """Returns the outputs by name; see `TracedScoring.metrics`."""
        found, effects = self.step.place(arguments, tables, "keras_predict")
        with tf.control_dependencies(effects):
            return {name: tf.identity(one) for name, one in zip(self.names, found, strict=True)}


def trace_prediction(model: Any, x: Any) -> TracedPrediction:
    """Traces the outputs of a model; its variables keep their values.

    Args:
      model: the model; layers that have no variables yet get them.
      x: the input, a structure of TensorSpecs.
    """
    names: list[str] = []

    def step(data: Any) -> list[tf.Tensor]:
        found = _named_outputs(model, model.predict_step((data,)))
        names[:] = found
        return list(found.values())

    def traced() -> Any:
        with user_code("predict_step()"):
            return tf.function(step, autograph=False).get_concrete_function(x)

    function = traced_built(model, traced)
    return TracedPrediction(_Function.of(model, function, {}), tuple(names))


def _named_outputs(model: Any, outputs: Any) -> dict[str, tf.Tensor]:
    """Returns outputs by name: a dict's keys, the names that the model gives to several, or "outputs" for one."""
    if isinstance(outputs, Mapping):
        return dict(_leaves(outputs))
    flat = tf.nest.flatten(outputs)
    if len(flat) == 1:
        return {"outputs": flat[0]}
    names = getattr(model, "output_names", None) or []
    if len(set(names)) != len(flat):
        names = [f"output_{number}" for number in range(len(flat))]
    return dict(zip(names, flat, strict=True))
