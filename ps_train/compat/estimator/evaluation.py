"""Evaluation of an Estimator: metrics over batches of data, returned and written as events.

The loss of the evaluation is the mean of the batches' losses.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]  # a part of TensorFlow

from ps_train.compat.capture.counted_step import operations_of
from ps_train.compat.capture.sessions import RestoringSessionCreator, estimator_graph
from ps_train.compat.estimator.spec.estimator_spec import EstimatorSpec, ModeKeys
from ps_train.compat.estimator.spec.run_config import RunConfig
from ps_train.compat.estimator.spec.warm_start import WarmStartSettings, warm_start
from ps_train.data.input_result import features_and_labels
from ps_train.data.named_inputs import dense_inputs
from ps_train.engine.run_directory.run_checkpoints import run_of
from ps_train.engine.variables.pairwise_shapes import check_shapes
from ps_train.observe.progress.eval_events import run_value

log = logging.getLogger(__name__)

LOSS, GLOBAL_STEP = "loss", "global_step"


class StopAfterBatchesHook(v1.train.SessionRunHook):
    """Ends a session after a number of calls.

    Args:
      batches: the number.
    """

    def __init__(self, batches: int) -> None:
        self._left = batches

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Counts a call."""
        self._left -= 1
        if self._left <= 0:
            run_context.request_stop()


def evaluate(
    model_fn: Callable[..., EstimatorSpec],
    input_fn: Callable[[], Any],
    config: RunConfig,
    checkpoint: str | None,
    hooks: Sequence[v1.train.SessionRunHook],
    start_from: WarmStartSettings | None,
) -> dict[str, Any]:
    """Runs the metrics of a model over its input.

    Args:
      model_fn: called as `model_fn(features, labels, mode)`.
      input_fn: called without arguments.
      config: gives seed and session.
      checkpoint: path; None: initial values.
      hooks: end the evaluation, among other things; without one it ends with the input.
      start_from: the warm start of initial values.

    Returns:
      The metrics by name, with "loss" and "global_step".

    Raises:
      ValueError: a metric is named "loss" or "global_step".
    """
    with estimator_graph(config):
        features, labels, input_hooks = features_and_labels(input_fn())
        inputs = dense_inputs(features, labels)
        spec = model_fn(features, labels, ModeKeys.EVAL)
        metrics = metrics_of(spec)
        for name, pair in metrics.items():
            check_shapes("the loss" if name == LOSS else f"metric {name}", pair, inputs)
        if start_from is not None and not checkpoint:
            warm_start(start_from)
        values = {name: metrics[name][0] for name in sorted(metrics)}
        last = v1.train.FinalOpsHook({**values, GLOBAL_STEP: v1.train.get_global_step()})
        update = tf.group(*(metrics[name][1] for name in sorted(metrics)))
        scaffold, fetches = with_metrics(spec.scaffold), [update, values, v1.train.get_global_step()]
        creator = RestoringSessionCreator(
            scaffold, config.evaluation_master, config.session_config, checkpoint, fetches
        )
        with v1.train.MonitoredSession(creator, [*input_hooks, *hooks, *spec.evaluation_hooks, last]) as session:
            while not session.should_stop():
                session.run(update)
        return dict(last.final_ops_values)


def tell(message: str, *values: Any) -> None:
    """Logs a line as TensorFlow's Estimator does, `INFO:tensorflow:...`.

    It is shown under TensorFlow's usual verbosity too, which is WARN, since it is the result of an evaluation.
    """
    logger = v1.get_logger()
    if logger.getEffectiveLevel() <= logging.WARNING:
        logger.handle(logger.makeRecord(logger.name, logging.INFO, __file__, 0, message, values, None))


def described(results: Mapping[str, Any], field: str = "") -> str:
    """Returns the results of an evaluation in one line, without those of slices by `field`."""
    return f"evaluation at global step {results[GLOBAL_STEP]}: {_listed(results, field)}"


def _listed(results: Mapping[str, Any], field: str) -> str:
    whole = {name: value for name, value in results.items() if f"/{field}=" not in name} if field else results
    return ", ".join(f"{name} = {value}" for name, value in sorted(whole.items()) if not isinstance(value, bytes))


def write_events(directory: str, results: Mapping[str, Any], checkpoint: str | None, field: str = "") -> None:
    """Writes the results of an evaluation into the event file of a directory, and logs them.

    Args:
      directory: of the evaluation.
      results: by name, with "global_step": numbers, arrays, or summaries as bytes.
      checkpoint: path of the evaluated checkpoint, written too; None where there is none.
      field: the field of `eval_by`, whose metrics are not logged; "" for none.
    """
    step = int(results[GLOBAL_STEP])
    summary = v1.Summary()
    for name in sorted(results.keys() - {GLOBAL_STEP}):
        _add_value(summary, name, results[name])
    if checkpoint:
        summary.value.add(tag="checkpoint_path", tensor=tf.make_tensor_proto(checkpoint, tf.string))
        if (run := run_of(checkpoint))[0]:
            summary.value.append(run_value(run))
    tell("Saving dict for global step %d: %s", step, _listed(results, field))
    if checkpoint:
        v1.logging.info("Saving 'checkpoint_path' summary for global step %d: %s", step, checkpoint)
    with tf.Graph().as_default():  # a writer can not be made in eager mode
        writer = v1.summary.FileWriterCache.get(directory)
        if not os.path.exists(directory):  # moved, with the run that it belongs to
            writer.close()
            os.makedirs(directory)
            writer.reopen()
    writer.add_summary(summary, step)
    writer.flush()


def metrics_of(spec: EstimatorSpec) -> dict[str, Any]:
    """Returns the metrics of a spec, with the loss.

    Raises:
      ValueError: a metric is named "loss" or "global_step".
    """
    metrics = dict(spec.eval_metric_ops)
    for reserved in (LOSS, GLOBAL_STEP):
        if reserved in metrics:
            raise ValueError(
                f"eval_metric_ops has a metric named {reserved}, which every evaluation has already: rename it."
            )
    metrics[LOSS] = v1.metrics.mean(spec.loss)
    return metrics


def with_metrics(scaffold: v1.train.Scaffold) -> v1.train.Scaffold:
    """Returns a scaffold that initializes the metrics' variables too, although it has an operation of its own."""
    if scaffold.local_init_op is None:
        return scaffold
    own = operations_of(scaffold.local_init_op)
    both = tf.group(*own, v1.train.Scaffold.default_local_init_op())
    return v1.train.Scaffold(local_init_op=both, copy_from_scaffold=scaffold)


def _add_value(summary: Any, name: str, value: Any) -> None:
    if isinstance(value, bytes):
        try:
            given = v1.Summary.FromString(value)
        except DecodeError:
            log.warning("metric %s is not written: its text is not a summary", name)
            return
        for i, entry in enumerate(given.value):
            entry.tag = f"{name}/{i}"
        summary.value.extend(given.value)
    elif isinstance(value, np.ndarray):
        summary.value.add(tag=name, node_name=name, tensor=tf.make_tensor_proto(value))
    elif isinstance(value, int | float | np.integer | np.floating):
        summary.value.add(tag=name, simple_value=float(value))
    elif value is not None:
        log.warning("metric %s is not written: %s is not a number, an array or a summary", name, type(value).__name__)
