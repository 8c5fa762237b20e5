"""A mutex keeps two pieces of a graph from running at the same time."""

from __future__ import annotations

import threading
import uuid

import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.engine.variables.mutex import acquire, mutex_of, release, with_mutex


def test_each_ps_has_a_mutex_of_its_own() -> None:
    assert len({mutex_of(ps) for ps in range(3)}) == 3


def test_updates_that_read_and_write_lose_nothing() -> None:
    name = uuid.uuid4().hex
    with tf.Graph().as_default(), v1.Session() as session:
        count = v1.get_variable("count", [], tf.int64, v1.zeros_initializer(), use_resource=True)

        def body() -> tuple[list[tf.Operation], tf.Tensor]:
            value = count.read_value()
            for _ in range(20):  # time between reading and writing
                value = tf.identity(value + 0)
            return [count.assign(value + 1, read_value=False)], value

        done, before = with_mutex(name, [], body)
        session.run(count.initializer)
        found: list[int] = []

        def work() -> None:
            for _ in range(25):
                found.append(session.run([before, done])[0])

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert session.run(count) == 100 and sorted(found) == [*range(100)]


def test_a_held_mutex_is_waited_for_and_a_cancelled_call_gives_it_back() -> None:
    name = uuid.uuid4().hex
    with tf.Graph().as_default(), v1.Session() as session:
        queue = tf.queue.FIFOQueue(1, tf.int32, [()])
        with tf.control_dependencies([acquire(name, [])]):
            holding = queue.dequeue()
        lock = acquire(name, [])
        free = release(lock)
        with pytest.raises(tf.errors.DeadlineExceededError):
            session.run(holding, options=v1.RunOptions(timeout_in_ms=100))
        session.run(free, options=v1.RunOptions(timeout_in_ms=20_000))
