"""A token gate releases a replica that waits, and only by a token that comes after it."""

from __future__ import annotations

import threading

import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.engine.updates.modes.token_gate import TokenGate
from ps_train.engine.variables.mutex import with_mutex
from tests.support.machine.processes import eventually


def test_a_token_of_an_earlier_process_releases_no_replica_and_is_not_waited_for_under_the_mutex() -> None:
    """Even when the locked part of the step takes its time to find it."""
    reached, go_on = threading.Event(), threading.Event()

    def slowly(until):
        reached.set()
        assert go_on.wait(20)
        return until

    with tf.Graph().as_default():
        gate = TokenGate("gate", 2)

        def wait():
            until = tf.ensure_shape(tf.numpy_function(slowly, [tf.constant(1, tf.int64)], tf.int64), [])
            with tf.control_dependencies([until]):
                return [gate.wait(0, until)], tf.constant(True)

        locked, waits = with_mutex("mutex", [], wait)
        passed = gate.wait_for_token(0, waits, locked)
        leave, _ = with_mutex("mutex", [], lambda: ([gate.release(tf.constant(-1, tf.int64), [True, False])], None))
        arrive, _ = with_mutex("mutex", [], lambda: ([gate.release(tf.constant(1, tf.int64))], None))
        (needs,) = v1.global_variables()
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            session.run(leave)
            step = threading.Thread(target=session.run, args=[passed], daemon=True)
            step.start()
            assert reached.wait(20)
            go_on.set()
            eventually(lambda: session.run(needs)[0] == 1, 20, "the wait of replica 0")
            assert step.is_alive()
            session.run(arrive)
            step.join(20)
            assert not step.is_alive()


def test_a_release_that_is_cancelled_half_way_is_made_good_by_the_next_one() -> None:
    """A queue takes no token from a step that is being cancelled; what else is locked is carried out to its end."""
    cancelled, go_on = threading.Event(), threading.Event()

    def slowly(number):
        assert go_on.wait(20)
        cancelled.set()
        return number

    with tf.Graph().as_default():
        gate = TokenGate("gate", 2)

        def release():
            number = tf.ensure_shape(tf.numpy_function(slowly, [tf.constant(1, tf.int64)], tf.int64), [])
            return [gate.release(number)], None

        locked, _ = with_mutex("mutex", [], lambda: ([gate.wait(0, tf.constant(1, tf.int64))], None))
        passed = gate.wait_for_token(0, tf.constant(True), locked)
        broken, _ = with_mutex("mutex", [], release)
        again, _ = with_mutex("mutex", [], lambda: ([gate.release(tf.constant(1, tf.int64))], None))
        (needs,) = v1.global_variables()
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            step = threading.Thread(target=session.run, args=[passed], daemon=True)
            step.start()
            eventually(lambda: session.run(needs)[0] == 1, 20, "the wait of replica 0")
            threading.Timer(1.0, go_on.set).start()
            with pytest.raises(tf.errors.DeadlineExceededError):
                session.run(broken, options=v1.RunOptions(timeout_in_ms=300))
            assert cancelled.wait(20)
            session.run(again)
            step.join(20)
            assert not step.is_alive()


def test_a_step_of_a_lost_session_takes_no_token_from_the_present_one() -> None:
    with tf.Graph().as_default():
        gate = TokenGate("gate", 2)
        until = v1.placeholder(tf.int64, [])
        locked, _ = with_mutex("mutex", [], lambda: ([gate.wait(0, until)], None))
        passed = gate.wait_for_token(0, tf.constant(True), locked)
        arrive, _ = with_mutex("mutex", [], lambda: ([gate.release(until)], None))
        (needs,) = v1.global_variables()
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())

            def begin(number):
                step = threading.Thread(target=session.run, args=[passed, {until: number}], daemon=True)
                step.start()
                eventually(lambda: session.run(needs)[0] == number, 20, "the wait of replica 0")
                return step

            lost, present = begin(1), begin(2)
            session.run(arrive, {until: 2})
            present.join(20)
            lost.join(20)
            assert not present.is_alive() and not lost.is_alive()
            following = begin(3)
            following.join(0.5)
            assert following.is_alive(), "the token of the wait before does not count"
            session.run(arrive, {until: 3})
            following.join(20)
            assert not following.is_alive()
