"""Metrics of parts of an Estimator's evaluation data: one part for each frequent value of a feature (`eval_by`).

    config = RunConfig(job={"eval_by": "country"})
    Estimator(model_fn, config=config).evaluate(input_fn)   # {"auc": 0.8, ..., "auc/country=de": 0.7, ...}

A model_fn makes its metrics once, so the data are read once to count the values, and once for each part, from which the
other examples are left out before they are batched.  The model is built and restored once for all parts.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.errors import ConfigError
from ps_train.compat.capture.sessions import RestoringSessionCreator, estimator_graph
from ps_train.compat.estimator.evaluation import metrics_of, with_metrics
from ps_train.compat.estimator.spec.estimator_spec import EstimatorSpec, ModeKeys
from ps_train.compat.estimator.spec.run_config import RunConfig
from ps_train.compat.estimator.spec.warm_start import WarmStartSettings, warm_start
from ps_train.config.slice_names import slice_metric
from ps_train.data.example_rows import count_of, gather_rows
from ps_train.data.input_result import split_batch
from ps_train.data.stream import no_autograph
from ps_train.engine.step.evaluation import BATCH, numbers_of
from ps_train.engine.step.slices import EXAMPLES, Slices, count_values, slice_keys, slice_numbers


def eval_field(config: RunConfig) -> str:
    """Returns the feature that divides evaluation data; "" for none."""
    return str((config.job or {}).get("eval_by", ""))


def evaluate_slices(
    model_fn: Callable[..., EstimatorSpec],
    input_fn: Callable[[], Any],
    config: RunConfig,
    checkpoint: str | None,
    start_from: WarmStartSettings | None,
    steps: int | None,
    field: str,
) -> dict[str, float]:
    """Returns the metrics of the parts of the data, named as by `slice_metric`.

    Args:
      model_fn: called as `model_fn(features, labels, mode)`.
      input_fn: returns a Dataset of batches.
      config: gives seed and session.
      checkpoint: path; None: initial values.
      start_from: the warm start of initial values.
      steps: number of batches; None: all.
      field: the feature that divides the data.

    Raises:
      ConfigError: the input_fn returns no Dataset, or the data cannot be divided by the field.
    """
    slices, counts = _find_slices(input_fn, config, steps, field)
    found: dict[str, float] = {}
    with estimator_graph(config):
        wanted = v1.placeholder(tf.int64, [])
        iterator = v1.data.make_initializable_iterator(_of_slice(_batches(input_fn, steps, field), slices, wanted))
        spec = model_fn(*split_batch(iterator.get_next()), ModeKeys.EVAL)
        metrics = metrics_of(spec)
        values = {name: value for name, (value, _) in metrics.items()}
        update, reset = tf.group(*(update for _, update in metrics.values())), v1.local_variables_initializer()
        if start_from is not None and not checkpoint:
            warm_start(start_from)
        scaffold = with_metrics(spec.scaffold)
        creator = RestoringSessionCreator(
            scaffold, config.evaluation_master, config.session_config, checkpoint, [update, values]
        )
        with v1.train.MonitoredSession(creator, spec.evaluation_hooks) as monitored:
            session = monitored.run_step_fn(_plain_session)
            for number, (name, count) in enumerate(zip(slices.names(), counts, strict=True)):
                if count:
                    session.run([reset, iterator.initializer], {wanted: number})
                    with contextlib.suppress(tf.errors.OutOfRangeError):
                        while True:
                            session.run(update)
                    numbers = session.run(values)
                    found[slice_metric(EXAMPLES, field, name)] = float(count)
                    for metric, value in numbers.items():
                        if not isinstance(value, bytes):  # a summary
                            found |= {slice_metric(key, field, name): one for key, one in numbers_of(metric, value)}
    return found


def _plain_session(step_context: Any) -> v1.Session:
    """Returns the session without hooks, which does not end with the data.  The argument's name is TensorFlow's."""
    return step_context.session


def _find_slices(
    input_fn: Callable[[], Any], config: RunConfig, steps: int | None, field: str
) -> tuple[Slices, list[int]]:
    """Returns the slices, and the number of examples of each, that of the other values last."""
    counts, total = dict[bytes, int](), 0
    with estimator_graph(config):
        iterator = v1.data.make_initializable_iterator(_batches(input_fn, steps, field))
        keys = slice_keys(split_batch(iterator.get_next())[0], field, _given(field))
        with v1.Session(config=config.session_config) as session:
            session.run([v1.tables_initializer(), iterator.initializer])
            while True:
                try:
                    found = session.run(keys)
                except tf.errors.OutOfRangeError:
                    break
                total += len(found)
                counts = count_values(counts, found)
    slices = Slices.of_counts(field, counts)
    own = [counts[key] for key in slices.keys()]  # noqa: SIM118  (no dict)
    return slices, [*own, total - sum(own)]


def _batches(input_fn: Callable[[], Any], steps: int | None, field: str) -> tf.data.Dataset:
    data = input_fn()
    if not isinstance(data, tf.data.Dataset):
        raise ConfigError(
            f"{_given(field)} needs an input_fn that returns a tf.data.Dataset, but it returns a {type(data).__name__}."
        )
    return data if steps is None else data.take(steps)


def _of_slice(data: tf.data.Dataset, slices: Slices, wanted: tf.Tensor) -> tf.data.Dataset:
    def take(*batch: Any) -> Any:
        features = batch[0]
        rows = tf.where(tf.equal(slice_numbers(slice_keys(features, slices.field), slices), wanted))[:, 0]
        taken = gather_rows(batch, rows)
        return taken if len(batch) > 1 else taken[0]

    parts = data.map(no_autograph(take)).filter(no_autograph(lambda *batch: count_of(batch) > 0))
    return parts.rebatch(BATCH)


def _given(field: str) -> str:
    return f"eval_by={field} (from the RunConfig's job)"
