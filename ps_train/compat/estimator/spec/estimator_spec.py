"""The result of a model_fn.

EstimatorSpec(mode, predictions={"p": p}, loss=loss, train_op=train_op, eval_metric_ops={"auc": auc})
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.compat.estimator.spec.export_outputs import ExportOutput, PredictOutput


def check_input_fn(input_fn: Any, where: str) -> None:
    """Raises TypeError if an input_fn cannot be called."""
    if not callable(input_fn):
        raise TypeError(f"{where}.input_fn={input_fn!r} cannot be called: use a function that returns the data.")


def check_count(value: float | None, where: str, meaning_of_none: str) -> None:
    """Raises ValueError if a number of steps is given but not positive."""
    if value is not None and value <= 0:
        raise ValueError(f"{where}={value} is not valid: use a number above 0, or None {meaning_of_none}.")


def checked_hooks(hooks: Iterable[Any] | None, where: str) -> tuple[v1.train.SessionRunHook, ...]:
    """Returns hooks as a tuple; raises TypeError for anything that is not a SessionRunHook."""
    return _all_of(hooks, v1.train.SessionRunHook, where, "tf.compat.v1.train.SessionRunHook")


def checked_listeners(listeners: Iterable[Any] | None, where: str) -> tuple[v1.train.CheckpointSaverListener, ...]:
    """Returns listeners as a tuple; raises TypeError for anything that is not a CheckpointSaverListener."""
    return _all_of(listeners, v1.train.CheckpointSaverListener, where, "tf.compat.v1.train.CheckpointSaverListener")


def _all_of(values: Iterable[Any] | None, kind: type, where: str, allowed: str) -> tuple[Any, ...]:
    found = tuple(values or ())
    for value in found:
        if not isinstance(value, kind):
            raise TypeError(f"{where} has {value!r} of type {type(value).__name__}: use objects of {allowed}.")
    return found


def check_steps(config: Any, steps: int | None, max_steps: int | None) -> None:
    """Raises ValueError if a task does not train, or for wrong numbers of steps."""
    if config.task_type in ("ps", "evaluator"):
        raise ValueError(
            f"this task is a {config.task_type} (from TF_CONFIG) and does not train: use train_and_evaluate."
        )
    if steps is not None and max_steps is not None:
        raise ValueError(f"steps={steps} and max_steps={max_steps} are both given: use one of them.")
    for count, name in ((steps, "steps"), (max_steps, "max_steps")):
        check_count(count, name, "to train to the end of the input")


class ModeKeys:
    """Names of the modes: training, evaluation and prediction."""

    TRAIN = "train"
    EVAL = "eval"
    PREDICT = "infer"


_SERVING = tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY
_HOOKS = ("training_chief_hooks", "training_hooks", "evaluation_hooks", "prediction_hooks")


class _Fields(NamedTuple):
    mode: str
    predictions: Any = None
    loss: Any = None
    train_op: Any = None
    eval_metric_ops: Any = None
    export_outputs: Any = None
    training_chief_hooks: Any = None
    training_hooks: Any = None
    scaffold: Any = None
    evaluation_hooks: Any = None
    prediction_hooks: Any = None


class EstimatorSpec(_Fields):
    """Operations and objects that a model_fn returns; immutable, and checked when it is made.

    Args:
      mode: a value of ModeKeys.
      predictions: a tensor, or a dict of tensors; required to predict.
      loss: a tensor of shape [] or [1]; required to train and to evaluate.
      train_op: the operation or tensor of a training step; required to train.
      eval_metric_ops: dict of name to a pair (value, update_op), as `tf.compat.v1.metrics` return.
      export_outputs: dict of signature name to an ExportOutput; by default one PredictOutput of the predictions.
      training_chief_hooks: run by the chief in training.
      training_hooks: run by every worker in training.
      scaffold: a `tf.compat.v1.train.Scaffold`.
      evaluation_hooks: run in evaluations.
      prediction_hooks: run in predictions.

    Raises:
      TypeError: a value has the wrong type.
      ValueError: a required value is missing, the loss has another shape, or a tensor is of another graph.
    """

    __slots__ = ()
    __signature__ = inspect.signature(_Fields)

    def __new__(cls, *values: Any, **named: Any) -> EstimatorSpec:
        """Returns the spec, checked."""
        given = _Fields(*values, **named)
        mode = given.mode
        predictions = _checked_predictions(given.predictions, mode)
        fields = given._asdict() | {
            "train_op": _checked_train_op(given.train_op, mode),
            "loss": _checked_loss(given.loss, mode),
            "predictions": predictions,
            "eval_metric_ops": _checked_metrics(given.eval_metric_ops),
            "scaffold": _checked_scaffold(given.scaffold),
        }
        fields |= {name: checked_hooks(getattr(given, name), f"EstimatorSpec.{name}") for name in _HOOKS}
        if mode == ModeKeys.PREDICT:
            fields["export_outputs"] = _checked_export_outputs(given.export_outputs, predictions)
        return super().__new__(cls, **fields)

    def _replace(self, **changes: Any) -> EstimatorSpec:
        """Returns a checked copy with other values; the mode must stay."""
        if changes.get("mode", self.mode) != self.mode:
            raise ValueError(f"mode={changes['mode']!r} cannot replace {self.mode!r}: make a new EstimatorSpec.")
        return type(self)(**(self._asdict() | changes))


def _required(value: Any, name: str, mode: str, *modes: str) -> bool:
    """Returns True if a value is given; raises ValueError if it is missing in a mode that needs it."""
    if value is None and mode in modes:
        raise ValueError(f"EstimatorSpec.{name} is missing with mode={mode!r}: give {name}= in this mode.")
    return value is not None


def _wrong_type(name: str, value: Any, allowed: str) -> TypeError:
    return TypeError(f"EstimatorSpec.{name}={value!r} is of type {type(value).__name__}: use {allowed}.")


def _check_graph(value: Any, name: str) -> None:
    if tf.executing_eagerly():  # values in place of tensors of a graph, as tests of heads have
        return
    if value.graph is not v1.get_default_graph():
        raise ValueError(
            f"EstimatorSpec.{name}={value.name} is of another graph: make all tensors in the same call of the model_fn."
        )


def _checked_tensor(value: Any, name: str) -> Any:
    if not isinstance(value, tf.Tensor | tf.Variable):
        raise _wrong_type(name, value, "a Tensor")
    _check_graph(value, name)
    return value


def _checked_train_op(train_op: Any, mode: str) -> Any:
    if not _required(train_op, "train_op", mode, ModeKeys.TRAIN):
        return None
    if isinstance(train_op, tf.Variable):
        train_op = train_op.op
    if isinstance(train_op, tf.Operation):
        _check_graph(train_op, "train_op")
        return train_op
    return _checked_tensor(train_op, "train_op")


def _checked_loss(loss: Any, mode: str) -> tf.Tensor | None:
    if not _required(loss, "loss", mode, ModeKeys.TRAIN, ModeKeys.EVAL):
        return None
    _checked_tensor(loss, "loss")
    if loss.shape.num_elements() not in (None, 1):
        name = "" if tf.executing_eagerly() else f"={loss.name}"
        raise ValueError(f"EstimatorSpec.loss{name} has the shape {loss.shape}: use a scalar, e.g. its mean.")
    return loss if loss.shape.is_compatible_with([]) else tf.reshape(loss, [])


def _checked_predictions(predictions: Any, mode: str) -> Any:
    if not _required(predictions, "predictions", mode, ModeKeys.PREDICT):
        return {}
    if not isinstance(predictions, dict):
        return _checked_tensor(predictions, "predictions")
    return {key: _checked_tensor(value, f"predictions[{key!r}]") for key, value in predictions.items()}


def _checked_metrics(metrics: Any) -> dict[str, Any]:
    if metrics is None:
        return {}
    if not isinstance(metrics, dict):
        raise _wrong_type("eval_metric_ops", metrics, "a dict of name to (value, update_op)")
    pairs = {name: _pair_of(name, metric) for name, metric in metrics.items()}
    for name, pair in pairs.items():
        if not isinstance(pair, tuple) or len(pair) != 2:
            allowed = "a tuple (value, update_op), as tf.compat.v1.metrics return"
            raise _wrong_type(f"eval_metric_ops[{name!r}]", pair, allowed)
        for tensor in tf.nest.flatten(pair):
            _check_graph(tensor, f"eval_metric_ops[{name!r}]")
    return pairs


def _pair_of(name: str, metric: Any) -> Any:
    """Returns value and update of a metric object of Keras 2, whose variables are in no collection; else the metric."""
    if isinstance(metric, tuple) or not (hasattr(metric, "updates") and hasattr(metric, "result")):
        return metric
    if not metric.updates:
        raise ValueError(f"EstimatorSpec.eval_metric_ops[{name!r}] has no updates: call its update_state() first.")
    for key in (v1.GraphKeys.LOCAL_VARIABLES, v1.GraphKeys.METRIC_VARIABLES):
        known = {id(variable) for variable in v1.get_collection(key)}
        v1.get_default_graph().get_collection_ref(key).extend(v for v in metric.variables if id(v) not in known)
    return metric.result(), metric.updates[0]


def _checked_scaffold(scaffold: Any) -> v1.train.Scaffold:
    if scaffold is None:
        return v1.train.Scaffold()
    if not isinstance(scaffold, v1.train.Scaffold):
        raise _wrong_type("scaffold", scaffold, "a tf.compat.v1.train.Scaffold")
    return scaffold


def _checked_export_outputs(outputs: Any, predictions: Any) -> Mapping[str, ExportOutput]:
    """Returns the signatures to export, with one of them as the default signature."""
    if outputs is None:
        return {_SERVING: PredictOutput(predictions)}
    if not isinstance(outputs, dict):
        raise _wrong_type("export_outputs", outputs, "a dict of signature name to ExportOutput")
    for name, output in outputs.items():
        if not isinstance(output, ExportOutput):
            allowed = "a PredictOutput, ClassificationOutput or RegressionOutput"
            raise _wrong_type(f"export_outputs[{name!r}]", output, allowed)
    if len(outputs) == 1:
        return outputs | {_SERVING: next(iter(outputs.values()))}
    if outputs and _SERVING not in outputs:
        raise ValueError(
            f"EstimatorSpec.export_outputs has the names {', '.join(outputs)}: name the default one {_SERVING!r}."
        )
    return outputs
