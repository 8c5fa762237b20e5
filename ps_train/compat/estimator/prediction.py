"""Prediction of an Estimator: one result for each example, or for each batch."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import tensorflow.compat.v1 as v1

from ps_train.compat.capture.sessions import RestoringSessionCreator, estimator_graph
from ps_train.compat.estimator.spec.estimator_spec import EstimatorSpec, ModeKeys
from ps_train.compat.estimator.spec.run_config import RunConfig
from ps_train.compat.estimator.spec.warm_start import WarmStartSettings, warm_start
from ps_train.data.input_result import ends, features_and_labels

log = logging.getLogger(__name__)


def predict(
    model_fn: Callable[..., EstimatorSpec],
    input_fn: Callable[[], Any],
    config: RunConfig,
    checkpoint: str | None,
    hooks: Sequence[v1.train.SessionRunHook],
    start_from: WarmStartSettings | None,
    keys: Collection[str] | None,
) -> Iterator[Any]:
    """Yields the predictions of each batch, as arrays, until the input ends.

    The graph is not the default one while the caller works, so several predictions can be read in turns.

    Args:
      model_fn: called as `model_fn(features, None, mode)`.
      input_fn: called without arguments.
      config: gives seed and session.
      checkpoint: path; None: initial values.
      hooks: run with the prediction_hooks of the EstimatorSpec.
      start_from: the warm start of initial values.
      keys: the predictions to yield; None: all.

    Raises:
      ValueError: predictions have no keys, or none of these.
    """
    with estimator_graph(config) as graph:
        features, _, input_hooks = features_and_labels(input_fn())
        if not ends(features):
            log.warning("the input_fn of predict uses neither a Dataset nor a queue: predictions will not end")
        spec = model_fn(features, None, ModeKeys.PREDICT)
        if start_from is not None and not checkpoint:
            warm_start(start_from)
        predictions = _selected(spec.predictions, keys)
        creator = RestoringSessionCreator(spec.scaffold, "", config.session_config, checkpoint, predictions)
        session = v1.train.MonitoredSession(creator, [*input_hooks, *hooks, *spec.prediction_hooks])
    with session:
        while not session.should_stop():
            with graph.as_default():
                values = session.run(predictions)
            yield values


def examples_of(batch: Any) -> Iterator[Any]:
    """Yields the prediction of each example of a batch.

    Raises:
      ValueError: the arrays of the batch differ in their first dimension, or have none.
    """
    if not isinstance(batch, Mapping):
        yield from batch
        return
    sizes = {name: value.shape[0] if value.shape else None for name, value in batch.items()}
    if len(set(sizes.values())) != 1 or None in sizes.values():
        raise ValueError(
            f"predictions must all have the batch's size, not {sizes}: use predict_keys, or "
            "yield_single_examples=False."
        )
    for i in range(next(iter(sizes.values())) or 0):
        yield {name: value[i] for name, value in batch.items()}


def _selected(predictions: Any, keys: Collection[str] | None) -> Any:
    if not keys:
        return predictions
    if not isinstance(predictions, dict):
        raise ValueError(f"predict_keys={keys} needs predictions that are a dict, not {type(predictions).__name__}.")
    wanted = [keys] if isinstance(keys, str) else keys
    selected = {name: tensor for name, tensor in predictions.items() if name in wanted}
    if not selected:
        raise ValueError(f"predict_keys={wanted} are not among the predictions: allowed are {sorted(predictions)}.")
    return selected
