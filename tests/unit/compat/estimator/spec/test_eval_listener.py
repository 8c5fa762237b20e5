"""A listener of evaluations ends none by itself."""

from __future__ import annotations

import pytest

from ps_train.compat.estimator.spec.eval_listener import EvalListener, EvalResult, EvalStatus


@pytest.mark.parametrize("status", [EvalStatus.EVALUATED, EvalStatus.MISSING_CHECKPOINT, EvalStatus.NO_NEW_CHECKPOINT])
def test_every_evaluation_is_followed_by_another_one(status: str) -> None:
    listener = EvalListener()
    assert listener.before_eval() is True and listener.after_eval(EvalResult(status)) is True


def test_states_are_different_and_a_result_without_an_evaluation_has_no_metrics() -> None:
    states = {EvalStatus.EVALUATED, EvalStatus.MISSING_CHECKPOINT, EvalStatus.NO_NEW_CHECKPOINT}
    assert len(states) == 3
    assert EvalResult(EvalStatus.MISSING_CHECKPOINT) == (EvalStatus.MISSING_CHECKPOINT, None, None)
