"""The optimizer of a worker's own values: its updates, and slots that begin anew and belong to no program."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.compat.tf1.contrib_opt import AdamGSOptimizer
from ps_train.config.job import Job
from ps_train.engine.step.inner_optimizer import InnerOptimizer
from ps_train.engine.updates.gradients.restarts import Restarts
from ps_train.engine.variables.worker_state import OWN
from tests.support.models.small import Linear


@pytest.fixture(autouse=True)
def graph() -> Any:
    with tf.Graph().as_default() as found:
        yield found


def variable(value: list[float]) -> Any:
    """A worker's own, which is in no collection of the program."""
    return v1.get_variable("ps_train/now/w", initializer=np.float32(value), use_resource=True, collections=[OWN])


def inner(optimizer: str, divisors: Any = ()) -> InnerOptimizer:
    spec: Any = SimpleNamespace(job=Job(optimizer=optimizer, learning_rate=0.5), model=Linear())
    return InnerOptimizer(spec, divisors)


def begun(one: InnerOptimizer, value: Any) -> v1.Session:
    session = v1.Session()
    session.run([value.initializer, *one.begun()])
    return session


def test_its_slots_are_the_workers_and_begin_anew(graph: tf.Graph) -> None:
    one, value = inner("momentum"), variable([1.0, 2.0])
    update = one.apply({"w": value}, {"w": tf.constant([1.0, -1.0])}, tf.constant(4.0), tf.constant(0, tf.int64))
    assert one.pulled_rate([]) == [] and one.entries() == [] and v1.global_variables() == []
    fresh = one.fresh()
    with begun(one, value) as session:
        session.run(update)
        session.run(update)
        np.testing.assert_allclose(session.run(value), [1 - 0.5 - 0.95, 2 + 0.5 + 0.95], rtol=1e-6)
        session.run(fresh)
        session.run(update)  # with a momentum of nothing
        np.testing.assert_allclose(session.run(value), [1 - 0.5 - 0.95 - 0.5, 2 + 0.5 + 0.95 + 0.5], rtol=1e-6)


def test_an_optimizer_that_corrects_by_the_global_step_counts_the_updates_of_its_slots(monkeypatch: Any) -> None:
    """In the middle of a job, with slots of nothing: the first step of Adam is one of the whole rate."""
    monkeypatch.setattr(Linear, "optimizer", lambda *_: AdamGSOptimizer(v1.train.get_global_step(), 0.5))
    one, value = inner("adam"), variable([1.0])
    step, names = tf.constant(1000, tf.int64), {"w": value}
    restarts = Restarts(names.values(), tf.constant(False))
    update = one.apply(names, {"w": tf.constant([3.0])}, tf.constant(4.0), step, restarts=restarts)
    fresh = one.fresh()
    with begun(one, value) as session:
        for number in (1, 2, 3):
            session.run(update)
            np.testing.assert_allclose(session.run(value), [1 - 0.5 * number], rtol=1e-5, atol=1e-5)
            session.run(fresh if number > 1 else [])


def test_gradients_that_are_not_used_change_nothing_and_what_is_changed_with_them_neither() -> None:
    one, value = inner("momentum"), variable([1.0])
    count = v1.get_variable("count", initializer=np.int32(0), use_resource=True, collections=[OWN])
    is_used = v1.placeholder(tf.bool, [])

    def others() -> list[tf.Operation]:
        return [count.assign_add(1, read_value=False)]

    step = tf.constant(0, tf.int64)
    update = one.apply({"w": value}, {"w": tf.constant([1.0])}, tf.constant(4.0), step, is_used, others)
    with begun(one, value) as session:
        session.run(count.initializer)
        for used in (False, True, False, True):
            session.run(update, {is_used: used})
        np.testing.assert_allclose(session.run(value), [1 - 0.5 - 0.95], rtol=1e-6)
        assert session.run(count) == 2


def test_its_rate_is_divided_by_what_the_step_and_its_examples_say() -> None:
    divisors = [lambda examples, step: examples, lambda examples, step: tf.cast(step, tf.float32)]
    one, value = inner("sgd", divisors), variable([1.0])
    update = one.apply({"w": value}, {"w": tf.constant([1.0])}, tf.constant(5.0), tf.constant(2, tf.int64))
    with begun(one, value) as session:
        session.run(update)
        np.testing.assert_allclose(session.run(value), [1 - 0.5 / 5 / 2], rtol=1e-6)
