"""FTRL and AdagradDA go on from values that others have written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.engine.updates.gradients.restarts import Restarts, computes_from_slots

RATE, L1, L2 = 0.3, 0.05, 0.02
GRADIENTS = np.random.RandomState(0).randn(6, 4).astype(np.float32)
WRITTEN = np.array([2.0, -0.5, 0.0, 1.0], np.float32)
"""What another one writes; no optimizer has the last element."""
MAKE: dict[str, Callable[[Any], Any]] = {
    "ftrl": lambda _: v1.train.FtrlOptimizer(RATE, l1_regularization_strength=L1, l2_regularization_strength=L2),
    "ftrl, beta": lambda _: v1.train.FtrlOptimizer(RATE, initial_accumulator_value=0.0, beta=0.4),
    "ftrl, power": lambda _: v1.train.FtrlOptimizer(
        RATE, -0.8, l1_regularization_strength=L1, l2_shrinkage_regularization_strength=L2
    ),
    "adagrad_da": lambda step: v1.train.AdagradDAOptimizer(
        RATE, step, l1_regularization_strength=L1, l2_regularization_strength=L2
    ),
}


class Run:
    """Updates of a variable of four rows.

    Args:
      make: makes the optimizer for a global step.
      is_own: whether others write the variable, without its slots; None to leave the optimizer as it is.
      is_start: whether the first update keeps nothing of the values.
    """

    def __init__(self, make: Callable[[Any], Any], is_own: bool | None, is_start: bool = False) -> None:
        with tf.Graph().as_default():
            self._step, self._gradient = v1.train.get_or_create_global_step(), v1.placeholder(tf.float32, [4])
            self._value, self._written = (
                v1.Variable(np.zeros(4, np.float32), use_resource=True),
                v1.placeholder(tf.float32),
            )
            self._write = self._value.assign(self._written).op
            optimizer = make(self._step)
            if is_own is not None:
                Restarts([self._value] if is_own else [], is_start & (self._step.read_value() <= 0)).allow(optimizer)
            rows = tf.constant([3, 1])
            some = tf.IndexedSlices(tf.gather(self._gradient, rows), rows)
            self._updates = [
                optimizer.apply_gradients([(one, self._value)], self._step) for one in (self._gradient, some)
            ]
            slots = [optimizer.get_slot(self._value, name) for name in optimizer.get_slot_names()]
            self._fresh = [slot.initializer for slot in slots]
            self.session = v1.Session()
            self.session.run(v1.global_variables_initializer())

    def update(self, gradients: Sequence[Any], sparse: bool = False) -> np.ndarray[Any, Any]:
        for one in gradients:
            self.session.run(self._updates[sparse], {self._gradient: one})
        return self.session.run(self._value)

    def write(self, value: Any, fresh: bool = True) -> None:
        self.session.run(self._write, {self._written: value})
        self.session.run(self._fresh if fresh else [])


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("name", MAKE)
def test_nothing_changes_where_nobody_else_writes(name: str, sparse: bool) -> None:
    usual, fitted = Run(MAKE[name], None), Run(MAKE[name], True)
    for one in GRADIENTS:
        np.testing.assert_allclose(fitted.update([one], sparse), usual.update([one], sparse), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("fresh", [True, False])
@pytest.mark.parametrize("name", MAKE)
def test_an_update_goes_on_from_what_was_written(name: str, fresh: bool) -> None:
    """A zero gradient shows it, but for the regularization that AdagradDA and the shrinkage add in each step."""
    run = Run(MAKE[name], True)
    run.update(GRADIENTS)
    run.write(WRITTEN, fresh)
    most = {"ftrl, power": 0.08, "adagrad_da": 0.1}.get(name, 1e-6)
    np.testing.assert_allclose(run.update([np.zeros(4)]), WRITTEN, rtol=most, atol=most)


@pytest.mark.parametrize("sparse", [False, True])
def test_without_regularization_it_is_adagrad_from_there(sparse: bool) -> None:
    """McMahan et al. 2013, section 3: FTRL-Proximal is then online gradient descent with Adagrad's rates."""
    run, adagrad = (
        Run(lambda _: v1.train.FtrlOptimizer(RATE), True),
        Run(lambda _: v1.train.AdagradOptimizer(RATE), None),
    )
    for one in (run, adagrad):
        one.update(GRADIENTS[:3], sparse)
        one.write(WRITTEN)
    for gradient in GRADIENTS[3:]:
        np.testing.assert_allclose(run.update([gradient], sparse), adagrad.update([gradient], sparse), rtol=1e-5)


@pytest.mark.parametrize("name", MAKE)
def test_a_job_begins_as_ever(name: str) -> None:
    usual, fitted = Run(MAKE[name], None), Run(MAKE[name], True, is_start=True)
    for one in (usual, fitted):
        one.write(WRITTEN)
    for gradient in GRADIENTS:
        np.testing.assert_allclose(fitted.update([gradient]), usual.update([gradient]), rtol=1e-5, atol=1e-6)


def test_l1_keeps_a_zero_that_was_one() -> None:
    """What a step has not used of a gradient below L1 counts in the next one."""
    small = np.full(4, 0.6 * L1, np.float32)
    usual, fitted = Run(MAKE["ftrl"], None), Run(MAKE["ftrl"], True)
    assert not fitted.update([small]).any() and fitted.update([small]).all()
    np.testing.assert_allclose(fitted.update([]), usual.update([small, small]), rtol=1e-5)


def test_a_variable_that_comes_with_its_slots_is_left_alone() -> None:
    usual, other = Run(MAKE["ftrl"], None), Run(MAKE["ftrl"], False)
    for one in (usual, other):
        one.update(GRADIENTS)
        one.write(WRITTEN)
    np.testing.assert_array_equal(usual.update(GRADIENTS[:1]), other.update(GRADIENTS[:1]))
    assert not computes_from_slots(v1.train.AdagradOptimizer(0.1))
