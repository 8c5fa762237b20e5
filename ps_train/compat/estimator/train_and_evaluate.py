"""Training, evaluation and export by one call, in one process or as any task of a cluster.

    train_and_evaluate(estimator, TrainSpec(train_input, max_steps=1000), EvalSpec(test_input, throttle_secs=60))

The environment variable `TF_CONFIG` decides the role of the process; see `RunConfig`.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow.compat.v1 as v1

from ps_train.base.deprecations import limit_deprecations
from ps_train.base.errors import EXIT_FAILED, exit_code_of_signal, headline, is_config
from ps_train.cluster.membership.run_status import RunState, StatusFile
from ps_train.compat.estimator.checkpoint_evaluator import CheckpointEvaluator
from ps_train.compat.estimator.evaluator_loop import EvaluatorLoop
from ps_train.compat.estimator.spec.calls import EstimatorLike, check_estimator
from ps_train.compat.estimator.spec.eval_listener import EvalListener
from ps_train.compat.estimator.spec.eval_spec import EvalSpec
from ps_train.compat.estimator.spec.train_spec import TrainSpec

log = logging.getLogger(__name__)

_TRAINERS = ("chief", "master", "worker")


def train_and_evaluate(
    estimator: EstimatorLike, train_spec: TrainSpec, eval_spec: EvalSpec
) -> tuple[dict[str, Any] | None, list[Any]] | None:
    """Trains, evaluates and exports a model, or does this task's part of it.

    Without a cluster, every checkpoint with new steps is evaluated, and the last one always.  In a cluster the
    evaluator does this; a cluster with a `master` in place of a chief has none, and the master evaluates.  When the run
    has ended, the process of a ps ends, and all other tasks return.

    Args:
      estimator: of any class with the methods of `EstimatorLike`.
      train_spec: data, end and hooks of the training.
      eval_spec: data, times and exporters of the evaluation.

    Returns:
      Metrics and results of the exporters of the last evaluation; None in a cluster.

    Raises:
      SystemExit: the task is a ps, where TensorFlow's call never returns.
      TypeError: an argument has the wrong type.
      ValueError: the task is a second evaluator or has an unknown name, or an evaluation returns no global_step.
      RuntimeError: training has called for an evaluation without a new checkpoint.
    """
    check_specs(estimator, train_spec, eval_spec)
    return run_task(estimator, train_spec, eval_spec, EvalListener())


def check_specs(estimator: EstimatorLike, train_spec: TrainSpec, eval_spec: EvalSpec) -> None:
    """Raises TypeError for an argument of `train_and_evaluate` that has the wrong type."""
    check_estimator(estimator)
    _check_kind(train_spec, TrainSpec, "train_spec")
    check_eval_spec(eval_spec)


def check_eval_spec(eval_spec: EvalSpec) -> None:
    """Raises TypeError for an object that is not an EvalSpec."""
    _check_kind(eval_spec, EvalSpec, "eval_spec")


def _check_kind(value: Any, kind: type, name: str) -> None:
    if not isinstance(value, kind):
        raise TypeError(f"{name}={value!r} is of type {type(value).__name__}: use {kind.__name__}(...).")


def run_task(
    estimator: EstimatorLike, train_spec: TrainSpec, eval_spec: EvalSpec, listener: EvalListener
) -> tuple[dict[str, Any] | None, list[Any]] | None:
    """Does this task's part, as `train_and_evaluate`, whose arguments are checked.

    Args:
      estimator: its config says what this task is.
      train_spec: data, end and hooks of the training.
      eval_spec: data, times and exporters of the evaluation.
      listener: told of the evaluations, which it may end.
    """
    config = estimator.config
    limit_deprecations(is_first=getattr(config, "is_chief", True))
    if not config.cluster_spec and config.task_type != "evaluator":
        return _train_locally(estimator, train_spec, eval_spec, listener)
    _run_in_cluster(estimator, train_spec, eval_spec, listener)
    return None


class EvaluationListener(v1.train.CheckpointSaverListener):
    """Evaluates at the checkpoints that a training makes.

    Args:
      evaluator: evaluates the newest checkpoint.
      throttle_secs: least seconds between the beginnings of two evaluations.
      now: returns the seconds of a monotonic clock.
    """

    def __init__(
        self, evaluator: CheckpointEvaluator, throttle_secs: float, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._evaluator, self._throttle_secs, self._now = evaluator, throttle_secs, now
        self._next, self._before = float("-inf"), evaluator.newest

    def begin(self) -> None:
        """Begins a training.  TensorFlow's saver first writes what is already there, and the engine does not."""
        self._before = self._evaluator.newest

    def after_save(self, session: v1.Session, global_step_value: int) -> bool:
        """Evaluates the checkpoint that was just written; returns True if the training shall end."""
        if global_step_value == 0 or self._evaluator.newest == self._before:
            return False
        begun = self._now()
        if begun < self._next:
            log.info("no evaluation at step %d: throttle_secs=%g", global_step_value, self._throttle_secs)
            return False
        self._next = begun + self._throttle_secs
        if not self._evaluator.evaluate_latest() and not self._evaluator.is_stopped:
            raise RuntimeError(
                f"the checkpoint of step {global_step_value} cannot be found: keep the file `checkpoint` in model_dir."
            )
        return self._evaluator.is_stopped


def _run_in_cluster(
    estimator: EstimatorLike, train_spec: TrainSpec, eval_spec: EvalSpec, listener: EvalListener
) -> None:
    config = estimator.config
    task, index = config.task_type, config.task_id
    if task == "evaluator":
        if index > 0:
            raise ValueError(f"this task is evaluator:{index} (from TF_CONFIG), but a job has one evaluator: use 0.")
        EvaluatorLoop(estimator, eval_spec, train_spec.max_steps, listener=listener).run()
    elif task == "ps":
        from ps_train.compat.estimator import engines

        engines.serve(config)
    elif task in _TRAINERS:
        _train_in_cluster(estimator, train_spec, eval_spec)
    else:
        raise ValueError(
            f"the task type {task!r} (from TF_CONFIG) is unknown: use {', '.join(_TRAINERS)}, ps, evaluator."
        )


def _train_locally(
    estimator: EstimatorLike, train_spec: TrainSpec, eval_spec: EvalSpec, listener: EvalListener
) -> tuple[dict[str, Any] | None, list[Any]]:
    evaluator = CheckpointEvaluator(estimator, eval_spec, train_spec.max_steps, listener=listener)
    _train(estimator, train_spec, EvaluationListener(evaluator, eval_spec.throttle_secs))
    evaluator.finish()
    return evaluator.last.metrics or None, evaluator.last.exports


def _train_in_cluster(estimator: EstimatorLike, train_spec: TrainSpec, eval_spec: EvalSpec) -> None:
    config = estimator.config
    if not config.is_chief:
        estimator.train(input_fn=train_spec.input_fn, max_steps=train_spec.max_steps, hooks=list(train_spec.hooks))
        return
    with _status_file(estimator.model_dir, train_spec.max_steps):
        if config.task_type != "master":
            _train(estimator, train_spec)
            return
        evaluator = CheckpointEvaluator(estimator, eval_spec, train_spec.max_steps)
        _train(estimator, train_spec, EvaluationListener(evaluator, eval_spec.throttle_secs))
        evaluator.finish()


def _train(estimator: EstimatorLike, spec: TrainSpec, *listeners: EvaluationListener) -> None:
    estimator.train(
        input_fn=spec.input_fn,
        max_steps=spec.max_steps,
        hooks=list(spec.hooks),
        saving_listeners=[*spec.saving_listeners, *listeners],
    )


@contextlib.contextmanager
def _status_file(model_dir: str, max_steps: int | None) -> Iterator[None]:
    """Tells the evaluator the state of the run, whatever the engine is.

    An engine that writes the file itself takes it over.
    """
    os.makedirs(model_dir, exist_ok=True)
    file = StatusFile(model_dir, uuid.uuid4().hex, max_steps or 0)
    file.begin()
    try:
        yield
    except BaseException as error:
        state, signum = _end_of(error)
        file.end(state, signum, "" if state != RunState.FAILED else headline(error), is_config(error))
        raise
    file.end(RunState.DONE)


def _end_of(error: BaseException) -> tuple[RunState, int]:
    """Returns the state of a run that an exception has ended, and the signal that stopped it or 0."""
    if isinstance(error, KeyboardInterrupt):
        return RunState.STOPPED, signal.SIGINT
    code = error.code if isinstance(error, SystemExit) else EXIT_FAILED
    if not code:
        return RunState.DONE, 0
    first = exit_code_of_signal(0)
    return (RunState.STOPPED, code - first) if isinstance(code, int) and code > first else (RunState.FAILED, 0)
