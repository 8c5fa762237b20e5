"""Evaluations and exports of the newest checkpoint.

evaluator = CheckpointEvaluator(estimator, eval_spec, max_steps=1000)
evaluator.evaluate_latest()         # True: there was a new checkpoint
evaluator.finish()                  # training has ended: the last evaluation and the final export
"""

from __future__ import annotations

import dataclasses
import logging
import os
import time
from collections.abc import Callable
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.compat.estimator.spec.calls import EstimatorLike
from ps_train.compat.estimator.spec.eval_listener import EvalListener, EvalResult, EvalStatus
from ps_train.compat.estimator.spec.eval_spec import EvalSpec
from ps_train.engine.run_directory.glob_free import files_of_first_format
from ps_train.engine.run_directory.pinned import Pins

log = logging.getLogger(__name__)

_STEP = v1.GraphKeys.GLOBAL_STEP
_WARNING_SECS = 600.0


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """The result of an evaluation; an empty one before the first.

    Attributes:
      metrics: result of `Estimator.evaluate`.
      exports: results of the exporters.
    """

    checkpoint_path: str = ""
    metrics: dict[str, Any] = dataclasses.field(default_factory=dict)
    exports: list[Any] = dataclasses.field(default_factory=list)


class CheckpointEvaluator:
    """Evaluates each checkpoint once, and calls the exporters.

    Args:
      eval_spec: settings of the evaluation.
      max_steps: the global step at which training ends; None: no limit.
      now: returns the seconds of a monotonic clock.
      listener: told of the evaluations, which it may end; None: no listener.

    Attributes:
      last: the last evaluation.
      is_stopped: True if the listener has ended the evaluations.
    """

    def __init__(
        self,
        estimator: EstimatorLike,
        eval_spec: EvalSpec,
        max_steps: int | None,
        now: Callable[[], float] = time.monotonic,
        listener: EvalListener | None = None,
    ) -> None:
        self._estimator, self._spec, self._max_steps, self._now = estimator, eval_spec, max_steps, now
        self._listener, self.is_stopped = listener or EvalListener(), False
        self._has_final_export = False
        self._next_warning = float("-inf")
        self.last = Evaluation()

    @property
    def has_reached_end(self) -> bool:
        """Returns True if a checkpoint of max_steps has been evaluated."""
        return self._is_end(self.last.metrics)

    @property
    def newest(self) -> str | None:
        """Returns the path of the newest checkpoint, or None."""
        return self._estimator.latest_checkpoint()

    def evaluate_latest(self, is_last: bool = False) -> bool:
        """Evaluates and exports the newest checkpoint.

        Args:
          is_last: True if training has ended, so that the export is the final one.

        Returns:
          False if there is no checkpoint, the newest one has been evaluated, or the listener has ended the evaluations.

        Raises:
          TypeError: the result of `evaluate` is not a dict.
          ValueError: the result of `evaluate` has no global_step.
        """
        if self.is_stopped or not self._listener.before_eval():
            self.is_stopped = True
            return False
        was_evaluated = self._evaluate_newest(is_last)
        if was_evaluated:
            result = EvalResult(EvalStatus.EVALUATED, self.last.metrics, self.last.checkpoint_path)
        else:
            result = EvalResult(EvalStatus.NO_NEW_CHECKPOINT if self.newest else EvalStatus.MISSING_CHECKPOINT)
        self.is_stopped = not self._listener.after_eval(result)
        return was_evaluated

    def _evaluate_newest(self, is_last: bool) -> bool:
        path = self.newest
        if not path:
            self._warn(f"there is no checkpoint in {self._estimator.model_dir} yet; the evaluation waits for one")
            return False
        if path == self.last.checkpoint_path:
            if not is_last:
                secs = self._spec.throttle_secs
                self._warn(f"no checkpoint is newer than {path}, which is evaluated (EvalSpec.throttle_secs={secs})")
            return False
        pins = Pins(self._estimator.model_dir) if self._spec.exporters and os.path.isfile(f"{path}.index") else None
        try:
            kept = path if pins is None else pins.pin(path)
            metrics = self._evaluate(path)
            self.last = Evaluation(path, metrics)
            self._export(is_last or self._is_end(metrics), kept)
        except (tf.errors.OpError, FileNotFoundError, ValueError) as error:
            is_other = isinstance(error, ValueError) and path not in str(error)  # a Saver's error has the path
            if is_other or _exists(path) or self.last.checkpoint_path == path:
                raise
            log.warning("%s was removed before its evaluation ended: use a larger keep_checkpoint_max", path)
            return False
        finally:
            if pins is not None:
                pins.keep_only()
        self._next_warning = self._now() + (_WARNING_SECS if self._spec.throttle_secs > 0 else 0)
        return True

    def finish(self) -> None:
        """Evaluates the last checkpoint and makes the final export, unless this has been done."""
        if not self.evaluate_latest(is_last=True) and self.last.metrics and not self._has_final_export:
            self._export(True)

    def _evaluate(self, path: str) -> dict[str, Any]:
        spec = self._spec
        return checked_result(
            self._estimator.evaluate(
                input_fn=spec.input_fn, steps=spec.steps, name=spec.name, checkpoint_path=path, hooks=spec.hooks
            )
        )

    def _export(self, is_final: bool, kept: str = "") -> None:
        """Calls the exporters with the checkpoint, or with a copy if the training has removed it since."""
        path = self.last.checkpoint_path
        path = path if not kept or _exists(path) else kept
        is_final = is_final and not self._has_final_export
        self._has_final_export |= is_final
        base = os.path.join(self._estimator.model_dir, "export")
        exports = [
            exporter.export(
                estimator=self._estimator,
                export_path=os.path.join(base, exporter.name),
                checkpoint_path=path,
                eval_result=self.last.metrics,
                is_the_final_export=is_final,
            )
            for exporter in self._spec.exporters
        ]
        self.last = dataclasses.replace(self.last, exports=exports)

    def _is_end(self, metrics: dict[str, Any]) -> bool:
        return bool(metrics) and self._max_steps is not None and metrics[_STEP] >= self._max_steps

    def _warn(self, text: str) -> None:
        """Logs a warning, at most one in ten minutes."""
        if self._now() >= self._next_warning:
            self._next_warning = self._now() + _WARNING_SECS
            log.warning("%s", text)


def checked_result(metrics: Any) -> dict[str, Any]:
    """Returns the result of `Estimator.evaluate`, after a check of its type and of its global_step."""
    if not metrics:
        raise ValueError(f"Estimator.evaluate() returned {metrics!r}: return a dict of metrics with {_STEP}.")
    if not isinstance(metrics, dict):
        raise TypeError(f"Estimator.evaluate() returned a {type(metrics).__name__}: return a dict of metrics.")
    if _STEP not in metrics:
        raise ValueError(f"Estimator.evaluate() returned only {', '.join(metrics)}: return {_STEP} too.")
    return metrics


def _exists(path: str) -> bool:
    """Returns whether a checkpoint is there; TensorFlow's function takes the path for a pattern."""
    return bool(tf.io.gfile.exists(f"{path}.index")) or bool(files_of_first_format(path))
