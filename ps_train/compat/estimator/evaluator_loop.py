"""The evaluator of `train_and_evaluate` as a process of its own, outside of the cluster.

    EvaluatorLoop(estimator, eval_spec, max_steps=1000).run()

It ends when a checkpoint of max_steps is evaluated, or as the run ends.  It reads the state of the run from model_dir
(`cluster/membership/run_status.py`).  Delay and throttle hold while the run goes on; the last evaluation is made at
once.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from ps_train.base.errors import exit_code_of_signal
from ps_train.cluster.membership.run_status import RunEnd
from ps_train.compat.estimator.checkpoint_evaluator import CheckpointEvaluator
from ps_train.compat.estimator.evaluation import described
from ps_train.compat.estimator.spec.calls import EstimatorLike
from ps_train.compat.estimator.spec.eval_listener import EvalListener
from ps_train.compat.estimator.spec.eval_spec import EvalSpec
from ps_train.config.job import Job
from ps_train.training.tasks.evaluator import evaluate_until_end

log = logging.getLogger(__name__)

_NO_LIMIT = 2**62
"""max_steps of a monitor for training without a limit: more than any status.json has."""

_TIMEOUTS = ("startup_timeout_secs", "recovery_timeout_secs")


class EvaluatorLoop:
    """Evaluates checkpoints as they appear.

    Args:
      eval_spec: settings of the evaluation.
      max_steps: the global step at which training ends; None: no limit.
      now: returns the seconds of a monotonic clock.
      sleep: waits for some seconds.
      listener: told of the evaluations, which it may end; None: no listener.
    """

    def __init__(
        self,
        estimator: EstimatorLike,
        eval_spec: EvalSpec,
        max_steps: int | None,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        listener: EvalListener | None = None,
    ) -> None:
        self._spec, self._now, self._sleep = eval_spec, now, sleep
        self._evaluator = CheckpointEvaluator(estimator, eval_spec, max_steps, now, listener)
        flags = estimator.config.job or {}
        self._field = str(flags.get("eval_by", ""))
        timeouts = {name: flags[name] for name in _TIMEOUTS if name in flags}
        self._job = Job(model_dir=estimator.model_dir, max_steps=max_steps or _NO_LIMIT, **timeouts)

    def run(self) -> None:
        """Evaluates until max_steps is reached or the run has ended.

        Raises:
          JobFailedError: the run failed.
          LostTaskError: the chief of the run gives no sign of life any longer.
          SystemExit: the run was stopped by a signal; the exit code is that of the run.
        """
        log.info("the first evaluation is in %gs, if there is a checkpoint", self._spec.start_delay_secs)
        ended = evaluate_until_end(
            self._job,
            self._job.model_dir,
            self._update,
            lambda: self._evaluator.has_reached_end or self._evaluator.is_stopped,
            self._spec.start_delay_secs,
            may_start_late=True,
            now=self._now,
            sleep=self._sleep,
        )
        if ended is not None:
            self._end(ended)
        else:
            self._tell_end("max_steps is reached" if self._evaluator.has_reached_end else "the listener has ended it")

    def _update(self, has_ended: bool) -> float | None:
        """Evaluates the newest checkpoint; the last one is evaluated by `_end`."""
        return self._spec.throttle_secs if not has_ended and self._evaluator.evaluate_latest() else None

    def _tell_end(self, reason: str) -> None:
        """Shows the last result as the last line."""
        metrics = self._evaluator.last.metrics
        last = described(metrics, self._field) if metrics else "no evaluation"
        log.info("the evaluator ends, because %s; %s", reason, last)

    def _end(self, ended: RunEnd) -> None:
        if ended.is_done:
            self._evaluator.finish()
            self._tell_end("the run has ended")
            return
        self._evaluator.evaluate_latest()
        code = ended.exit_code()
        log.warning("the evaluator ends, because the run was stopped by signal %d", code - exit_code_of_signal(0))
        raise SystemExit(code)
