"""Hooks that end the training early, as results of evaluations suggest.

    hook = stop_if_no_decrease_hook(estimator, "loss", max_steps_without_decrease=10000)
    train_and_evaluate(estimator, TrainSpec(input_fn, hooks=[hook]), eval_spec)

The chief decides, and all workers stop.  The other workers learn of it in one of two ways:

- A graph with the collection `ENGINE_ENDS_JOB` is run by an engine that ends the whole job when a hook of the chief
  requests a stop.  The hooks of the other workers then do nothing.
- Otherwise the chief puts a mark into a queue on the device of the global step, and the others look at its size.  The
  queue needs no initialization, and no checkpoint holds it, so a resumed job does not stop at once.
"""

from __future__ import annotations

import inspect
import logging
import operator
from collections.abc import Callable
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.compat.capture.estimator_program import ENGINE_ENDS_JOB
from ps_train.compat.estimator.estimator import Estimator
from ps_train.compat.estimator.spec.calls import call_by_name, check_arguments, check_estimator
from ps_train.compat.estimator.spec.estimator_spec import EstimatorSpec, ModeKeys
from ps_train.compat.estimator.spec.run_config import RunConfig
from ps_train.compat.train.stop_at_step import StopAtStepHook
from ps_train.observe.progress.eval_events import read_eval_metrics, values_of

log = logging.getLogger(__name__)

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


def make_stop_at_checkpoint_step_hook(
    estimator: Estimator, last_step: int, wait_after_file_check_secs: float = 30
) -> Any:
    """Returns the hook that ends the training at exactly a step, which the last checkpoint has.

    Args:
      estimator: not used.
      last_step: the global step.
      wait_after_file_check_secs: not used; workers do not wait for a file.
    """
    return StopAtStepHook(last_step=last_step)


_QUEUE = "signal_early_stopping"

_Values = list[tuple[int, float]]
"""Global steps and values of a metric, in ascending order of the steps."""


def make_early_stopping_hook(
    estimator: Any,
    should_stop_fn: Callable[[], bool],
    run_every_secs: float | None = 60,
    run_every_steps: int | None = None,
) -> v1.train.SessionRunHook:
    """Returns a hook that ends the training when a function returns True.

    Args:
      estimator: the Estimator that is trained.
      should_stop_fn: called without arguments by the chief.
      run_every_secs: call the function every so many seconds; None: by steps.
      run_every_steps: call the function every so many steps; None: by time.

    Raises:
      TypeError: estimator is not an Estimator, or should_stop_fn cannot be called.
      ValueError: run_every_secs and run_every_steps are both given, or neither is.
    """
    check_estimator(estimator)
    if not callable(should_stop_fn):
        raise TypeError(f"should_stop_fn={should_stop_fn!r} cannot be called: use a function without arguments.")
    if (run_every_secs is None) == (run_every_steps is None):
        raise ValueError(
            f"run_every_secs={run_every_secs} and run_every_steps={run_every_steps}: give one of them, and None for "
            "the other."
        )
    if not estimator.config.is_chief:
        return _FollowChiefHook()
    return _StopJobHook(should_stop_fn, v1.train.SecondOrStepTimer(run_every_secs, run_every_steps))


def _crossed(is_beyond: Callable[[float, float], bool], threshold: float) -> Callable[[_Values], str]:
    def reason(values: _Values) -> str:
        beyond = [(step, value) for step, value in values if is_beyond(value, threshold)]
        return f"it was {beyond[0][1]:g} at step {beyond[0][0]}, beyond {threshold:g}" if beyond else ""

    return reason


def _stalled(is_better: Callable[[float, float], bool], patience: int) -> Callable[[_Values], str]:
    def reason(values: _Values) -> str:
        best_step, best = values[0] if values else (0, 0.0)
        for step, value in values:
            if is_better(value, best):
                best_step, best = step, value
            if step - best_step >= patience:
                return f"it was {best:g} at step {best_step}, and not better up to step {step}"
        return ""

    return reason


_HOOKS = {
    "stop_if_higher_hook": ("is higher than it", "threshold", _crossed, operator.gt),
    "stop_if_lower_hook": ("is lower than it", "threshold", _crossed, operator.lt),
    "stop_if_no_increase_hook": ("has not increased for so many", "max_steps_without_increase", _stalled, operator.gt),
    "stop_if_no_decrease_hook": ("has not decreased for so many", "max_steps_without_decrease", _stalled, operator.lt),
}
"""Name of a function to when its hook ends the training, its limit's argument, its rule, and the rule's comparison."""


def _maker(name: str) -> Callable[..., v1.train.SessionRunHook]:
    """Returns the function that makes some hooks, with the signature that it has in TensorFlow."""
    (when, limit, reason_of, compare), kind = _HOOKS[name], inspect.Parameter.POSITIONAL_OR_KEYWORD
    defaults = {"eval_dir": None, "min_steps": 0, "run_every_secs": 60, "run_every_steps": None}
    signature = inspect.Signature(
        [inspect.Parameter(one, kind) for one in ("estimator", "metric_name", limit)]
        + [inspect.Parameter(one, kind, default=value) for one, value in defaults.items()]
    )

    def make(*given: Any, **named: Any) -> v1.train.SessionRunHook:
        bound = signature.bind(*given, **named)
        bound.apply_defaults()
        estimator, metric, given_limit, eval_dir, min_steps, secs, steps = bound.arguments.values()
        watch = _Watch(estimator, metric, eval_dir, min_steps, reason_of(compare, given_limit))
        return make_early_stopping_hook(estimator, watch, secs, steps)

    make.__name__, make.__qualname__, make.__signature__ = name, name, signature  # type: ignore[attr-defined]
    make.__doc__ = f"""Returns a hook that ends the training when a metric {when}.

    Args:
      estimator: the Estimator that is trained.
      metric_name: name of the metric, as in the result of `evaluate`.
      {limit}: the value, or the number of global steps.
      eval_dir: directory of the evaluation's event files; by default `estimator.eval_dir()`.
      min_steps: results of earlier global steps are ignored.
      run_every_secs: look every so many seconds; None: by steps.
      run_every_steps: look every so many steps; None: by time.

    Raises:
      TypeError: estimator is not an Estimator.
      ValueError: run_every_secs and run_every_steps are both given, or neither is.
    """
    return make


stop_if_higher_hook = _maker("stop_if_higher_hook")
stop_if_lower_hook = _maker("stop_if_lower_hook")
stop_if_no_increase_hook = _maker("stop_if_no_increase_hook")
stop_if_no_decrease_hook = _maker("stop_if_no_decrease_hook")


class _Watch:
    """A function that returns True when the training should end; it reads the event files of the evaluations.

    Args:
      estimator: the Estimator; its eval_dir is used if none is given.
      metric: name of the metric.
      eval_dir: directory of the event files.
      min_steps: results of earlier steps are ignored.
      reason_of: returns the reason to stop, given the metric's values; "" to go on.
    """

    def __init__(
        self, estimator: Any, metric: str, eval_dir: str | None, min_steps: int, reason_of: Callable[[_Values], str]
    ) -> None:
        check_estimator(estimator)
        self._model_dir = estimator.model_dir
        self._eval_dir = estimator.eval_dir() if eval_dir is None else eval_dir
        self._metric, self._min_steps, self._reason_of = metric, min_steps, reason_of

    def __call__(self) -> bool:
        results = read_eval_metrics(self._eval_dir, model_dir=self._model_dir)
        values = values_of(
            self._metric, results, ValueError, f"metric_name={self._metric!r} is not in {self._eval_dir}"
        )
        reason = self._reason_of([(step, value) for step, value in values if step >= self._min_steps])
        if reason:
            log.info("training stops early because of %s: %s", self._metric, reason)
        return bool(reason)


class _StopSignal:
    """The queue by which the chief tells the other workers to stop; made in the graph of a worker."""

    def __init__(self) -> None:
        with v1.name_scope(None), v1.device(v1.train.get_global_step().device):
            queue = v1.FIFOQueue(-1, [tf.bool], [()], shared_name=_QUEUE, name=_QUEUE)
            self.is_set = tf.greater(queue.size(), 0)
            self.set = queue.enqueue(True)
            self.clear = queue.dequeue_many(queue.size())


def _make_signal() -> _StopSignal | None:
    return None if v1.get_collection(ENGINE_ENDS_JOB) else _StopSignal()


class _StopJobHook(v1.train.SessionRunHook):
    """The chief's hook: it asks whether to stop, and tells the others."""

    def __init__(self, should_stop: Callable[[], bool], timer: v1.train.SecondOrStepTimer) -> None:
        self._should_stop, self._timer = should_stop, timer

    def begin(self) -> None:
        self._global_step, self._signal = v1.train.get_global_step(), _make_signal()

    def after_create_session(self, session: v1.Session, coord: tf.train.Coordinator) -> None:
        if self._signal is not None:
            session.run(self._signal.clear)  # the ps may hold the signal of an earlier job

    def before_run(self, run_context: Any) -> v1.train.SessionRunArgs:
        return v1.train.SessionRunArgs(self._global_step)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        step = run_values.results
        if not self._timer.should_trigger_for_step(step):
            return
        self._timer.update_last_triggered_step(step)
        if self._should_stop():
            if self._signal is not None:
                run_context.session.run(self._signal.set)
            run_context.request_stop()


class _FollowChiefHook(v1.train.SessionRunHook):
    """The hook of a worker that is not the chief: it stops when the chief has told it to."""

    def begin(self) -> None:
        self._signal = _make_signal()

    def before_run(self, run_context: Any) -> v1.train.SessionRunArgs | None:
        return None if self._signal is None else v1.train.SessionRunArgs(self._signal.is_set)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        if self._signal is not None and run_values.results:
            run_context.request_stop()
