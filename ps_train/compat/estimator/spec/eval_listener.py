"""A listener of the evaluations of a training, which may end them early.

    class Patience(EvalListener):
        def after_eval(self, eval_result):
            return eval_result.status != EvalStatus.EVALUATED or eval_result.metrics["loss"] > 0.1

TensorFlow 1 has these classes as private names of `training`.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class EvalStatus:
    """States of an evaluation."""

    EVALUATED = "evaluated"
    MISSING_CHECKPOINT = "missing checkpoint"
    NO_NEW_CHECKPOINT = "no new checkpoint"


class EvalResult(NamedTuple):
    """The result of an evaluation.

    Attributes:
      status: one of EvalStatus.
      metrics: result of `Estimator.evaluate`; None without an evaluation, as is checkpoint_path.
    """

    status: str
    metrics: dict[str, Any] | None = None
    checkpoint_path: str | None = None


class EvalListener:
    """A listener that never ends the evaluations; the base of others."""

    def before_eval(self) -> bool:
        """Returns False to end the evaluations before the next one."""
        return True

    def after_eval(self, eval_result: EvalResult) -> bool:
        """Returns False to end the evaluations.

        Args:
          eval_result: the result, also where there was no checkpoint to evaluate.
        """
        return True
