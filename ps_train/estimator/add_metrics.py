"""Further metrics for an Estimator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ps_train.estimator.estimator import Estimator
from ps_train.specs.calls import call_by_name, check_arguments
from ps_train.specs.estimator_spec import EstimatorSpec
from ps_train.specs.mode_keys import ModeKeys
from ps_train.specs.run_config import RunConfig

_ARGUMENTS = ("features", "labels", "predictions", "config")


def add_metrics(estimator: Estimator, metric_fn: Callable[..., dict[str, Any]]) -> Estimator:
    """Returns an Estimator with the same model and directory, and further metrics in evaluations.

    Args:
      estimator: the Estimator, which stays as it is.
      metric_fn: function of those of features, labels, predictions and config that it names; returns metrics by name,
        each as (value, update_op).  They replace the model_fn's metrics of the same name.

    Raises:
      ValueError: the metric_fn takes another argument.
    """
    check_arguments(metric_fn, "metric_fn", _ARGUMENTS)

    def model_fn(features: Any, labels: Any, mode: str, config: RunConfig) -> EstimatorSpec:
        spec = estimator.model_fn(features, labels, mode, config)
        if mode != ModeKeys.EVAL:
            return spec
        values = {"features": features, "labels": labels, "predictions": spec.predictions, "config": config}
        return spec._replace(eval_metric_ops={**spec.eval_metric_ops, **call_by_name(metric_fn, values)})

    return Estimator(model_fn, estimator.model_dir, estimator.config, warm_start_from=estimator.warm_start_settings)
