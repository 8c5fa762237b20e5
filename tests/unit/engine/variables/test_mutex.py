"""What is made under a mutex is made one at a time."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.engine.variables.mutex import acquire, mutex_of, release, with_mutex
from tests.support.machine.processes import eventually


def test_each_ps_has_a_mutex_of_its_own() -> None:
    assert len({mutex_of(ps) for ps in range(20)}) == 20


def test_bodies_run_one_at_a_time_and_return_their_result() -> None:
    inside, most = [], []

    def slowly(number: int) -> int:
        inside.append(number)
        most.append(len(inside))
        time.sleep(0.005)
        inside.remove(number)
        return number

    def body(number: int) -> tuple[list[tf.Operation], int]:
        return [tf.numpy_function(slowly, [np.int64(number)], tf.int64).op], number

    with tf.Graph().as_default():
        made = [with_mutex("one", [], lambda number=number: body(number)) for number in range(8)]
        assert [result for _, result in made] == [*range(8)]
        with v1.Session() as session:
            session.run([done for done, _ in made])
    assert most == [1] * 8


class Held:
    """A body of one mutex that waits until it is let go; `others` run meanwhile."""

    def __init__(self, fails: bool = False) -> None:
        self.reached, self.go_on = threading.Event(), threading.Event()

        def wait() -> np.int64:
            self.reached.set()
            assert self.go_on.wait(20)
            if fails:
                raise ValueError("the body fails")
            return np.int64(1)

        self.held, _ = with_mutex("held", [], lambda: ([tf.numpy_function(wait, [], tf.int64).op], None))
        self.same, _ = with_mutex("held", [], lambda: ([tf.no_op()], None))
        self.another, _ = with_mutex("another", [], lambda: ([tf.no_op()], None))


@pytest.mark.parametrize("fails", [False, True])
def test_only_the_same_mutex_waits_and_a_body_that_fails_releases_it(fails: bool) -> None:
    with tf.Graph().as_default():
        held = Held(fails)
        with v1.Session() as session:
            errors: list[Exception] = []

            def run() -> None:
                try:
                    session.run(held.held)
                except tf.errors.OpError as error:
                    errors.append(error)

            first = threading.Thread(target=run, daemon=True)
            second = threading.Thread(target=session.run, args=[held.same], daemon=True)
            first.start()
            assert held.reached.wait(20)
            second.start()
            session.run(held.another)
            time.sleep(0.02)
            assert second.is_alive()
            held.go_on.set()
            second.join(20)
            first.join(20)
            assert not second.is_alive() and len(errors) == fails


def test_a_mutex_is_not_held_before_its_inputs_are_there() -> None:
    go_on = threading.Event()

    def wait() -> np.int64:
        assert go_on.wait(20)
        return np.int64(1)

    with tf.Graph().as_default():
        late = tf.numpy_function(wait, [], tf.int64)
        waiting, _ = with_mutex("late", [late], lambda: ([tf.no_op()], None))
        other, _ = with_mutex("late", [], lambda: ([tf.no_op()], None))
        with v1.Session() as session:
            thread = threading.Thread(target=session.run, args=[waiting], daemon=True)
            thread.start()
            session.run(other)
            assert thread.is_alive()
            go_on.set()
            thread.join(20)
            assert not thread.is_alive()


def test_a_lock_that_is_never_released_ends_with_the_call() -> None:
    with tf.Graph().as_default():
        lock = acquire("never", [])
        released = release(acquire("never", []))
        with v1.Session() as session:
            session.run(tf.group(lock))
            done = threading.Thread(target=session.run, args=[released], daemon=True)
            done.start()
            eventually(lambda: not done.is_alive(), 20, "the second lock")
