"""The loss scale of a worker, step by step."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.engine.step.parts import loss_scaling
from ps_train.engine.step.parts.loss_scaling import FIRST, LEAST, MOST, LossScale
from ps_train.engine.variables.worker_state import OWN, collect_local_state


class Steps:
    """A scale in a session; `after` gives the scales that a sequence of outcomes leaves."""

    def __init__(self) -> None:
        self.scale = LossScale()
        self._overflow, self._good = v1.placeholder(tf.bool, []), v1.placeholder(tf.bool, [])
        self._update = self.scale.update(self._overflow, self._good)
        self._session = v1.Session()
        self._session.run(collect_local_state().initializers)

    def after(self, outcomes: str) -> list[float]:
        """`o` is an overflow, `g` a good step, `n` a loss that is not finite."""
        found = []
        for outcome in outcomes:
            self._session.run(self._update, {self._overflow: outcome == "o", self._good: outcome == "g"})
            found.append(float(self._session.run(self.scale.present)))
        return found


@pytest.fixture
def steps(monkeypatch):
    monkeypatch.setattr(loss_scaling, "GOOD_STEPS", 3)
    with tf.Graph().as_default():
        yield Steps()


def test_an_overflow_halves_the_scale_and_good_steps_in_a_row_double_it(steps: Steps) -> None:
    assert steps.after("o") == [FIRST / 2]
    assert steps.after("ggg") == [FIRST / 2, FIRST / 2, FIRST]
    assert steps.after("gg") == [FIRST] * 2
    assert steps.after("oggg") == [FIRST / 2, FIRST / 2, FIRST / 2, FIRST], "an overflow begins the row anew"


def test_a_loss_that_is_not_finite_changes_nothing(steps: Steps) -> None:
    assert steps.after("ggnng") == [FIRST] * 4 + [FIRST * 2]


def test_the_scale_stays_within_its_limits(steps: Steps) -> None:
    assert min(steps.after("o" * 20)) == LEAST == 1.0
    assert max(steps.after("ggg" * 30)) == MOST == 2.0**24


def test_the_published_numbers_are_used() -> None:
    assert (loss_scaling.GOOD_STEPS, FIRST) == (2000, 32768.0)


def test_the_variables_are_local_ones_of_the_worker() -> None:
    with tf.Graph().as_default():
        LossScale()
        assert [one.op.name for one in v1.get_collection(OWN)] == ["ps_train/loss_scale", "ps_train/good_steps"]
        assert not v1.global_variables() and not v1.local_variables() and not v1.trainable_variables()


def test_scaling_and_its_inverse_round_nothing() -> None:
    with tf.Graph().as_default(), v1.Session() as session:
        scale, value = LossScale(), np.float32([1e-7, -3.3])
        session.run(collect_local_state().initializers)
        found = scale.unscaled({"w": scale.scaled(tf.constant(value)), "n": tf.constant([40000.0], tf.float16)})
        found = session.run(found)
    np.testing.assert_array_equal(found["w"], value)
    assert found["n"].dtype == np.float16 and found["n"] == np.float16(40000 / FIRST)
