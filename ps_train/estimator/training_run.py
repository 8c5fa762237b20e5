"""One call of `Estimator.train`, as the value that a training engine gets."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow.compat.v1 as v1

from ps_train.estimator.estimator_spec import EstimatorSpec
from ps_train.estimator.run_config import RunConfig
from ps_train.estimator.spec_checks import check_count
from ps_train.estimator.warm_start import WarmStartSettings


@dataclasses.dataclass(frozen=True)
class TrainingRun:
    """A training: its model and data, its end, and its hooks.

    Attributes:
      model_fn: called as `model_fn(features, labels, mode)`; params and config are bound, and the result is checked.
      input_fn: called without arguments, in the graph that reads the input; mode, params and config are bound.
      config: the Estimator's configuration.
      model_dir: directory of checkpoints and events.
      max_steps: the global step at which training ends; None: at the end of the input, or never.
      hooks: the hooks of this call, for every training task.
      saving_listeners: called around every save.
      warm_start: initial values where `model_dir` has no checkpoint; None: those of the model_fn.
    """

    model_fn: Callable[..., EstimatorSpec]
    input_fn: Callable[[], Any]
    config: RunConfig
    model_dir: str
    max_steps: int | None
    hooks: Sequence[v1.train.SessionRunHook]
    saving_listeners: Sequence[v1.train.CheckpointSaverListener]
    warm_start: WarmStartSettings | None


def check_training(config: RunConfig, steps: int | None, max_steps: int | None) -> None:
    """Raises ValueError if this task does not train, or if the steps of `Estimator.train` are wrong."""
    if config.task_type in ("ps", "evaluator"):
        raise ValueError(
            f"this task is a {config.task_type} (from TF_CONFIG) and does not train: use train_and_evaluate."
        )
    if steps is not None and max_steps is not None:
        raise ValueError(f"steps={steps} and max_steps={max_steps} are both given: use one of them.")
    check_count(steps, "steps", "to train to the end of the input")
    check_count(max_steps, "max_steps", "to train to the end of the input")
