"""Hook of the chief that ends the training when a metric of the evaluator gets no better (--early_stop).

hook = EarlyStopHook("auc:3", "/models/run1/eval", step_tensor, end_training)
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.errors import ConfigError
from ps_train.config.metric_rule import parse_early_stop
from ps_train.engine.run_directory.run_files import EVAL_DIRECTORY
from ps_train.observe.progress.eval_events import read_eval_metrics, values_of

log = logging.getLogger(__name__)

_LOOK_SECS = 2.0


def early_stop_hooks(
    text: str, model_dir: str, step: tf.Tensor, end_training: Callable[[str], None]
) -> list[v1.train.SessionRunHook]:
    """Returns the hook for a value of --early_stop, in a list that is empty without the flag."""
    return [EarlyStopHook(text, os.path.join(model_dir, EVAL_DIRECTORY), step, end_training)] if text else []


class EarlyStopHook(v1.train.SessionRunHook):
    """Looks at the evaluator's event files every two seconds, and ends the training if they give a reason.

    Results of later steps than the present one are ignored: they are of a run that was not continued.

    Args:
      text: the value of --early_stop.
      eval_dir: directory of the evaluator's event files.
      step: the global step.
      end_training: called with the name of the flag.
      now: returns the seconds of a monotonic clock.
    """

    def __init__(
        self,
        text: str,
        eval_dir: str,
        step: tf.Tensor,
        end_training: Callable[[str], None],
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        rule = parse_early_stop(text)
        assert rule is not None, "the job has checked it"
        self._text, self._rule, self._eval_dir, self._step = text, rule, eval_dir, step
        self._end_training, self._now, self._next_look = end_training, now, now()

    def before_run(self, run_context: Any) -> v1.train.SessionRunArgs:
        """Asks for the global step."""
        return v1.train.SessionRunArgs(self._step)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Ends the training if there is a reason.

        Raises:
          ConfigError: the evaluations have no such metric.
        """
        if self._now() < self._next_look:
            return
        self._next_look = self._now() + _LOOK_SECS
        results = {s: found for s, found in read_eval_metrics(self._eval_dir).items() if s <= run_values.results}
        name = self._rule.rule.name
        missing = f"early_stop={self._text}: the evaluations have no metric {name}"
        values = values_of(name, results, ConfigError, missing)
        if reason := self._rule.reason(values):
            log.warning("training ends early (early_stop=%s): %s", self._text, reason)
            self._end_training(f"early_stop={self._text}")
