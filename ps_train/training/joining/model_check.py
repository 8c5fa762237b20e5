"""Checks, before any step, of the parts of a model that are needed later: optimizer, test data, metrics, predictions.

    check_model(model, job, model_variables)

An error at the end of training would cost the whole training.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.errors import ConfigError, ModelError
from ps_train.base.user_code import shown, user_code
from ps_train.config.job import Job
from ps_train.config.job_values import described
from ps_train.data.arrays import Arrays
from ps_train.data.named_inputs import dense_inputs, of_kind
from ps_train.data.pipeline import evaluation_batches
from ps_train.engine.step.slices import Slices, slice_keys, slice_metrics
from ps_train.engine.updates.gradients.apply_gradients import optimizer_groups
from ps_train.engine.updates.gradients.restarts import why_no_restarts
from ps_train.engine.variables.global_step import overriding_global_step
from ps_train.engine.variables.pairwise_shapes import check_shapes
from ps_train.engine.variables.plain_graph import plain_graph
from ps_train.engine.variables.trace import ModelVariables
from ps_train.modeling.model import Model
from ps_train.modeling.scratch_graph import scratch_graph
from ps_train.modeling.splits import test_source, warn_if_empty
from ps_train.training.duties.export_model import check_auc

log = logging.getLogger(__name__)

_PAIRS = "return a dict from names to (value, update) pairs, as tf.compat.v1.metrics makes them"


def check_test_data(model: Model, job: Job) -> None:
    """Loads the test split once and forgets it, to find its mistakes; not if the model has no metrics.

    Raises:
      ModelError: it cannot be scored.
    """
    if type(model).metrics is Model.metrics:
        _check_can_be_divided(job, has_metrics=False)
        return
    source = test_source(model, job)
    with tf.Graph().as_default():
        data = source.get()
        warn_if_empty(source, data)
        _check_can_be_divided(job, has_data=data is not None)
        if job.eval_by:
            slice_keys(evaluation_batches(data, 1).features, job.eval_by, described(job, "eval_by"))


def check_model(model: Model, job: Job, variables: ModelVariables) -> None:
    """Calls optimizer(), data("test"), forward() without training, metrics() and predictions(), and checks the results.

    Args:
      model: the user's model.
      job: says what else is required, such as `export_dir` and `eval_by`.
      variables: the variables of the model in training.

    Raises:
      ModelError: a method raised an exception, or returned a value of the wrong type.
    """
    _check_optimizer(model, job, variables)
    source = test_source(model, job)
    with scratch_graph():
        step = v1.placeholder_with_default(np.int64(0), [], "global_step")
        data = source.get()
        if data is None:
            check_auc(job, {})
            _check_can_be_divided(job, has_data=False)
            return
        warn_if_empty(source, data)
        warn_of_not_finite("test", source.loaded)
        batches = evaluation_batches(data, 1)
        inputs = dense_inputs(batches.features, batches.labels)
        with plain_graph(variables.variables, "the model in training") as plain, overriding_global_step(step):
            with user_code("forward(), outside of training,", of_kind("feature", inputs)):
                outputs = model.forward(batches.features, False)
            with user_code("predictions()"):
                predictions = model.predictions(outputs) if job.export_dir else {}
            plain.build.adds_metrics = True
            with user_code("metrics()", of_kind("label", inputs)):
                metrics = model.metrics(outputs, batches.labels)
            check_metrics(metrics)
            if job.eval_by:
                _check_can_be_divided(job, has_metrics=bool(metrics))
                slices = Slices(job.eval_by, ())
                slice_metrics(model, plain.build, slices, batches, outputs, described(job, "eval_by"))
        check_auc(job, metrics)
        for name, pair in metrics.items():
            check_shapes(f"metric {name}", pair, inputs)
        _check_predictions(predictions)


def _check_can_be_divided(job: Job, has_data: bool = True, has_metrics: bool = True) -> None:
    """Raises ConfigError if --eval_by is given, and there is nothing to divide."""
    if job.eval_by and not (has_data and has_metrics):
        missing = "metrics() returns none" if has_data else "data() returns no test split"
        raise ConfigError(f"{described(job, 'eval_by')} needs metrics of a test split, but the model's {missing}.")


def check_metrics(metrics: Any) -> None:
    """Raises ModelError if metrics() returned anything but a dict of pairs of a value and an update."""
    if not isinstance(metrics, Mapping):
        raise ModelError(f"metrics() returned {shown(metrics)}: {_PAIRS}.")
    for name, pair in metrics.items():
        if not isinstance(name, str) or not name:
            raise ModelError(f"metrics() returned a metric with the name {name!r}: use texts as names.")
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise ModelError(f"metrics() returned {shown(pair)} for {name!r}: {_PAIRS}.")
        value, update = pair
        # Some metrics of TensorFlow, such as mean_iou, return the assigned variable as the update.
        if not isinstance(value, tf.Tensor) or not (tf.is_tensor(update) or isinstance(update, tf.Operation)):
            wrong = update if isinstance(value, tf.Tensor) else value
            raise ModelError(f"metrics() returned a pair with {shown(wrong)} for {name!r}: {_PAIRS}.")
        is_number = value.dtype.is_floating or value.dtype.is_integer or value.dtype.is_bool
        if value.shape.rank not in (0, 1, None) or not is_number:
            raise ModelError(
                f"metrics() returned a value of shape {value.shape} and {value.dtype.name} for {name!r}: the value "
                "must be a number, a scalar, or a list of numbers."
            )


def warn_of_not_finite(split: str, arrays: Arrays | None) -> None:
    """Warns of NaN or infinite numbers in data in memory, with which the loss is soon not finite either."""
    for name, values in arrays.named() if arrays is not None else ():
        if values.dtype.kind == "f" and not np.isfinite(np.sum(values, dtype=np.float64)):
            count = int(np.sum(~np.isfinite(values)))
            if count:
                log.warning("%s of the %s data has %d values that are NaN or infinite", name, split, count)


def _check_optimizer(model: Model, job: Job, variables: ModelVariables) -> None:
    with tf.Graph().as_default():
        step = v1.placeholder_with_default(np.int64(0), [], "global_step")
        name = job.optimizer_name(model.default_optimizer)
        rate: Any = job.learning_rate or model.default_learning_rate
        if job.warmup_steps:
            rate = v1.placeholder_with_default(np.float32(rate), [], "learning_rate")
        with overriding_global_step(step), user_code("optimizer()"):
            found = model.optimizer(name, rate)
        groups = optimizer_groups(found)
        for optimizer in groups.optimizers.values() if job.has_local_steps else ():
            if why := why_no_restarts(optimizer):
                flag = described(job, "local_steps" if job.local_step_limits.upper > 1 else "outer_optimizer")
                raise ConfigError(f"{flag} is not possible with {type(optimizer).__name__}: {why}.")
    if job.optimizer_arg and not name.is_used:
        raise ConfigError(
            f"{described(job, 'optimizer_arg')} has no effect: {type(model).__name__}.optimizer() makes its optimizers "
            "itself; set the argument there, or leave optimizer_arg out."
        )
    if job.warmup_steps and not any(_uses(optimizer, rate) for optimizer in groups.optimizers.values()):
        raise ConfigError(
            f"{described(job, 'warmup_steps')} has no effect: {type(model).__name__}.optimizer() does not use its "
            "learning_rate; use it there, or leave warmup_steps out."
        )
    for variable in [*variables.with_gradient(), *variables.tables()]:
        groups.group_of(variable)


def _uses(optimizer: Any, rate: tf.Tensor) -> bool:
    """Returns whether an optimizer has a tensor as its rate, has computed its rate from it, or may do so later."""
    return bool(rate.consumers()) or any(value is rate or callable(value) for value in vars(optimizer).values())


def _check_predictions(predictions: Any) -> None:
    if not isinstance(predictions, Mapping) or not all(
        isinstance(name, str) and isinstance(value, tf.Tensor) for name, value in predictions.items()
    ):
        raise ModelError(f"predictions() returned {shown(predictions)}: return a dict from names to tensors.")
    if scalars := [name for name, value in predictions.items() if value.shape.rank == 0]:
        raise ModelError(
            f"predictions() returned a single number as {scalars[0]!r}: return tensors with a row for each example."
        )
