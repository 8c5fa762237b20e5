"""Sessions whose calls have a deadline, or are abandoned with their group."""

from __future__ import annotations

import contextlib
import threading
import time

import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.cluster import abandonable as attempts
from ps_train.cluster.abandonable import run_abandonable
from ps_train.cluster.calls import LostConnectionError, Session, SessionGroup, abandonable
from tests.support.processes import eventually
from tests.support.servers import POOL
from tests.support.waiting import Waiting


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempts, "GRACE_SECS", 0.2)


def test_to_close_the_sessions_cancels_a_call_and_refuses_those_of_other_threads_as_if_a_ps_were_lost() -> None:
    waiting = Waiting()
    waiting.pass_by()
    with pytest.raises(LostConnectionError):
        run_abandonable(waiting.wait, waiting.group, lambda: True)
    waiting.group.close()
    eventually(waiting.group.is_idle, 10, "the end of the call")
    with pytest.raises(tf.errors.AbortedError, match="abandoned"):
        waiting.session.run(waiting._nothing)
    assert waiting.learned == []


def test_a_session_of_no_group_keeps_the_deadline_of_its_own() -> None:
    """As the sessions of heartbeats do."""
    target = POOL.take(1)[0].target
    with tf.Graph().as_default() as graph:
        never = tf.queue.FIFOQueue(10, tf.bool, [()], shared_name="tests/never").dequeue()
    session = Session(target, graph, v1.ConfigProto(operation_timeout_in_ms=500))
    began = time.monotonic()
    with pytest.raises(tf.errors.DeadlineExceededError):
        session.run(never)
    assert time.monotonic() - began < 8


def test_calls_that_end_at_their_deadlines_leave_the_session_to_the_others() -> None:
    target, group, times_out = POOL.take(1)[0].target, SessionGroup(), v1.RunOptions(timeout_in_ms=2)
    with tf.Graph().as_default() as graph:
        never = tf.queue.FIFOQueue(10, tf.bool, [()], shared_name="tests/none").dequeue()
        one = tf.constant(1)
    session = Session(target, graph, v1.ConfigProto(), group)
    group.add(session)
    outcomes: list[str] = []

    def wait() -> None:
        for _ in range(1000):
            with pytest.raises(tf.errors.OpError) as raised:
                session.run(never, options=times_out)
            outcomes.append(type(raised.value).__name__)

    def train() -> None:
        waiting = threading.Thread(target=wait, daemon=True)
        waiting.start()
        waiting.join(60)
        assert session.run(one) == 1

    run_abandonable(train, group, lambda: False)
    assert outcomes == 1000 * ["DeadlineExceededError"]
    group.close()


def test_a_call_that_is_overdue_is_given_up_with_its_session_whichever_thread_makes_it() -> None:
    held, other_held = Waiting(), threading.Event()

    def hold() -> None:
        with contextlib.suppress(tf.errors.AbortedError), abandonable(held.session, 0.3):
            other_held.wait(30)

    def train() -> None:
        threading.Thread(target=hold, daemon=True).start()
        held.wait()

    began = time.monotonic()
    with pytest.raises(LostConnectionError, match="a call hangs"):
        run_abandonable(train, held.group, lambda: False)
    assert 0.3 <= time.monotonic() - began < 10
    other_held.set()
    held.end()
