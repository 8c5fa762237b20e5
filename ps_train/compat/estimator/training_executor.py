"""The class behind `train_and_evaluate` of TensorFlow 1, which libraries call with a listener of their own.

TrainingExecutor(estimator, train_spec, eval_spec, continuous_eval_listener=listener).run()
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import tensorflow.compat.v1 as v1

from ps_train.compat.estimator.spec.calls import EstimatorLike
from ps_train.compat.estimator.spec.eval_listener import EvalListener
from ps_train.compat.estimator.spec.eval_spec import EvalSpec
from ps_train.compat.estimator.spec.train_spec import TrainSpec
from ps_train.compat.estimator.train_and_evaluate import check_specs, run_task


class TrainingExecutor:
    """A training with its evaluations, in one process or as any task of a cluster.

    Args:
      train_spec: data, end and hooks of the training.
      eval_spec: data, times and exporters of the evaluation.
      train_hooks: further hooks of the training.
      continuous_eval_listener: told of the evaluations, which it may end; in one process the training ends with them.

    Raises:
      TypeError: an argument has the wrong type.
    """

    def __init__(
        self,
        estimator: EstimatorLike,
        train_spec: TrainSpec,
        eval_spec: EvalSpec,
        train_hooks: Iterable[v1.train.SessionRunHook] | None = None,
        continuous_eval_listener: EvalListener | None = None,
    ) -> None:
        check_specs(estimator, train_spec, eval_spec)
        listener = continuous_eval_listener
        if listener is not None and not isinstance(listener, EvalListener):
            raise TypeError(
                f"continuous_eval_listener={listener!r} is of type {type(listener).__name__}: derive it from "
                "_ContinuousEvalListener."
            )
        self._estimator, self._eval_spec, self._listener = estimator, eval_spec, listener or EvalListener()
        if further := list(train_hooks or ()):
            hooks = [*train_spec.hooks, *further]
            train_spec = TrainSpec(train_spec.input_fn, train_spec.max_steps, hooks, train_spec.saving_listeners)
        self._train_spec = train_spec

    @property
    def estimator(self) -> EstimatorLike:
        """The Estimator."""
        return self._estimator

    def run(self) -> tuple[dict[str, Any] | None, list[Any]] | None:
        """Does what `train_and_evaluate` does, and returns the same."""
        return run_task(self._estimator, self._train_spec, self._eval_spec, self._listener)
